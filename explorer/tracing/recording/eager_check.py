"""Compare what another compiler than Inductor computed with eager, once, when a trace is made."""

from __future__ import annotations

import warnings
from functools import partial

from explorer.capture.compilers.backend import compiler_of
from explorer.capture.observe.tensors import named_tensors
from explorer.lab.live.call import Call
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.state import State
from explorer.model.values import Failure
from explorer.tracing.recording.recorder import Recorder

#: The most seconds that a call may take, and the most bytes of its tensors, for it to be repeated unasked.
MAX_SECONDS, MAX_BYTES = 1.0, 2**30


def note_difference(live: LiveFunction, recorder: Recorder, backend: object, seconds: float) -> None:
    """Add a Failure where the result of another compiler than Inductor differs from eager's; `seconds` are those of a call.

    The function is called twice more, eagerly and compiled, with everything put back. That is not done for an expensive call,
    for tensors without data, or where Python code of the program runs between the graphs, such as a print.
    """
    compiler = compiler_of(backend)
    if compiler is None or live.compiled is None or live.uncompiled or live.empty or live.absent is not None:
        return
    if seconds > MAX_SECONDS or any(event.kind == "graph_break" for event in recorder.events):
        return
    recorder.attempt("execution", "check", partial(_compare, live, recorder, compiler.title))


def _compare(live: LiveFunction, recorder: Recorder, title: str) -> None:
    if bytes_of_tensors(live.call) > MAX_BYTES:
        return
    with recorder.muted(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the program's own, which the traced call gave already
        rows = live.compared_once()
    if names := [row.output for row in rows if row.equal is False]:
        which = f"{names[0]} and {len(names) - 1} more differ" if len(names) > 1 else f"{names[0]} differs"
        message = f"{title}'s {which} from eager's: t.check() has the rows"
        recorder.failures.append(Failure("execution", "check", message))


def bytes_of_tensors(call: Call) -> int:
    """The bytes of a call's arguments and of the state that its function reaches."""
    given = [tensor for _, tensor in named_tensors((call.args, dict(call.kwargs)))]
    return sum(tensor.nbytes for tensor in (*given, *State.of(call.function).tensors.values()))
