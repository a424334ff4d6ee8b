"""Compare what other compilers, and Inductor's experimental code generators, computed with eager, once, when a trace is made."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial

from explorer.capture.compilers.backend import compiler_of
from explorer.capture.observe.tensors import named_tensors
from explorer.lab.live.call import Call
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.outcome import outcome_of
from explorer.lab.live.state import State
from explorer.model.values import Event, Failure
from explorer.model.wording import readable_bytes
from explorer.stages.inductor.assumption import Assumption
from explorer.tracing.recording.recorder import Recorder

#: The most seconds that a call may take, and the most bytes of its tensors, for it to be repeated unasked.
MAX_SECONDS, MAX_BYTES = 1.0, 2**30
#: The most seconds where JAX compiles each kernel at its first launch, which is in the time of the call.
MAX_SECONDS_WITH_JAX = 20.0
#: Inductor's code generators whose results are wrong at times, by their name in its wrapper: those that it calls experimental.
EXPERIMENTAL = {"pallas": "Pallas", "halide": "Halide"}


def note_difference(live: LiveFunction, recorder: Recorder, backend: object, seconds: float, *, check: bool = True) -> None:
    """Add a Failure where the result of another compiler, or of Pallas or Halide, differs from eager's; a call took `seconds`.

    The function is called twice more, eagerly and compiled, with everything put back. That is not done for an expensive call,
    for tensors without data, or where Python code of the program runs between the graphs, such as a print. It is not done either
    without `check`. Except for tensors without data an assumption says so: a result that nobody compared may be wrong.
    """
    if live.compiled is None or live.uncompiled or live.empty or live.absent is not None:
        return
    stage = "execution" if compiler_of(backend) else "output_code"
    if title := _written_by(backend, recorder.events):
        recorder.attempt(stage, "check", partial(_compare_or_say_why_not, live, recorder, stage, title, seconds, check))


def engine_alone_raises(live: LiveFunction, recorder: Recorder, backend: object) -> str:
    """The title of the compiler other than Inductor whose compiled call raised where an eager one does not; "" if both do.

    An engine may hand a tensor to an operator that it leaves to PyTorch where that takes a number, and the operator raises. The
    function is called eagerly, with everything put back, where it would be for the comparison with eager.
    """
    compiler = compiler_of(backend)
    if compiler is None or live.empty or _too_much(live, recorder.events, compiler.title, 0.0):
        return ""
    try:
        with recorder.muted(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome_of(live.call.function, live.call)
    except Exception:  # noqa: BLE001 of the program: the error under way is its own
        return ""
    return compiler.title


def _compare_or_say_why_not(live: LiveFunction, recorder: Recorder, stage: str, title: str, seconds: float, check: bool) -> None:
    why = _too_much(live, recorder.events, title, seconds) if check else "the trace was made with check=False"
    if why:
        last = next((event for event in reversed(recorder.events) if event.kind == "dynamo"), None)
        time, frame = (last.time, last.frame) if last else (0.0, "")
        assumed = Assumption(where=f"{title}'s results", assumed="not compared with eager; t.check() compares them", why=why)
        recorder.events.append(Event("assumption", time, frame, data=assumed))
    else:
        _compare(live, recorder, stage, title)


def _too_much(live: LiveFunction, events: Sequence[Event], title: str, seconds: float) -> str:
    """Why a call is not repeated unasked; "" if it is."""
    if any(event.kind == "graph_break" for event in events):
        return "Python of the program runs between its graphs, and a comparison would run it twice more"
    allowed = MAX_SECONDS_WITH_JAX if title == EXPERIMENTAL["pallas"] else MAX_SECONDS
    if seconds > allowed:
        return f"the call took {seconds:.1f} s, and is repeated unasked only below {allowed:g} s"
    if (size := bytes_of_tensors(live.call)) > MAX_BYTES:
        return f"its tensors have {readable_bytes(size)}, and it is repeated unasked only below {readable_bytes(MAX_BYTES)}"
    return ""


def _written_by(backend: object, events: Sequence[Event]) -> str:
    """The title of the compiler, or of the code generator, whose results are compared; "" for Triton, C++ and eager."""
    if compiler := compiler_of(backend):
        return compiler.title
    wrappers = [event.data["text"] for event in events if event.kind == "output_code"]
    return next((title for name, title in EXPERIMENTAL.items() if any(f"async_compile.{name}(" in text for text in wrappers)), "")


def _compare(live: LiveFunction, recorder: Recorder, stage: str, title: str) -> None:
    with recorder.muted(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the program's own, which the traced call gave already
        rows = live.compared_once()
    if unequal := [row for row in rows if row.equal is False]:
        first = unequal[0]
        which = f"{first.output} and {len(unequal) - 1} more differ" if len(unequal) > 1 else f"{first.output} differs"
        message = f"{title}'s {which} from eager's: {first.note or 'it is another value'}; t.check() has the rows"
        recorder.failures.append(Failure(stage, "check", message))


def bytes_of_tensors(call: Call) -> int:
    """The bytes of a call's arguments and of the state that its function reaches."""
    given = [tensor for _, tensor in named_tensors((call.args, dict(call.kwargs)))]
    return sum(tensor.nbytes for tensor in (*given, *State.of(call.function).tensors.values()))
