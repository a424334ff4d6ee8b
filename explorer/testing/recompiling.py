"""Whether one compiled function serves several calls: it is compiled and called with each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.analysis.findings.finding import Finding, check, not_judged
from explorer.analysis.findings.rules import MAX_SHOWN, recompiles, user_line, why_nothing
from explorer.analysis.questions.tables import functions
from explorer.errors import InputError
from explorer.model.wording import quantity
from explorer.reference.gpus.figures import Target
from explorer.stages.replay import names_of

#: The steps of failures that say that torch has compiled a function as often as its settings allow.
LIMITS = ("recompile_limit", "accumulated_recompile_limit")

if TYPE_CHECKING:
    from explorer.tracing.traced import Trace


def assert_no_recompile(
    fn: Callable[..., Any],
    *calls: Sequence[Any],
    at_most: int = 0,
    target: str | Target = "auto",
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    backend: Any = "inductor",
) -> Trace:
    """Compile `fn`, call it with the arguments of each call, and assert that it was compiled once; return the trace.

    Each call is the tuple of its arguments. It runs on copies, and its changes are undone. `at_most` allows so many recompiles:
    by default PyTorch compiles a second time when a size first changes, and makes it dynamic. `backend="eager"` asks Dynamo
    alone, which is faster. ContractError names each recompile, with the guards that failed and the call.
    """
    __tracebackhide__ = True
    _check_calls(calls)
    settings = {"dynamic": dynamic, "mode": mode, "options": dict(options) if options else None}
    trace, frames = _called(fn, calls, target, backend, settings)
    recompiling = f"at most {quantity(at_most, 'recompile')}" if at_most else "no recompile"
    expected = f"{quantity(len(calls), 'call')} with {recompiling}"
    if nothing := why_nothing(trace):
        check([not_judged("recompile", expected, nothing)])
    found, stopped = list(recompiles(trace)), _at_the_limit(trace, expected)
    if len(found) > at_most or stopped:
        lines = _defined_at(trace)
        again = [replace(each, expected=expected, actual=_of_call(each.actual, calls, frames), lines=lines) for each in found]
        check([*stopped, *again])
    return trace


def _at_the_limit(trace: Trace, expected: str) -> list[Finding]:
    """A finding for each function that torch compiles no more: what further calls would recompile is not seen."""
    why = "torch stopped compiling it, and calls that match no compiled version run in Python"
    return [
        Finding("recompile", expected, f"the limit on recompiles is reached: {head}", _defined_at(trace), why, "t.failures")
        for failure in trace.failures
        if failure.step in LIMITS and (head := failure.message.partition(": ")[0])
    ]


def _check_calls(calls: Sequence[Any]) -> None:
    if len(calls) < 2:
        raise InputError(f"a recompile takes two calls or more, each a tuple of arguments: (x,), (y,); not {len(calls)}")
    wrong = next((call for call in calls if not isinstance(call, (tuple, list))), None)
    if wrong is not None:
        raise InputError(f"a call is a tuple of arguments, such as (x,), not {type(wrong).__name__}")


def _called(
    fn: Callable[..., Any], calls: Sequence[Sequence[Any]], target: str | Target, backend: Any, settings: Mapping[str, Any]
) -> tuple[Trace, list[set[str]]]:
    """Record the calls of one compiled function: the trace, and the frames that each call compiled."""
    from explorer.capture.compilers import torch_compile as compiling
    from explorer.capture.observe.recompiles import CallsOfDynamo, SizesSeen, calls_of_dynamo
    from explorer.lab.live.call import Call
    from explorer.lab.live.outcome import on_copies
    from explorer.tracing.recording.record import record

    original = compiling.unwrapped(fn)
    compiled_frames: list[set[str]] = []
    name = str(getattr(original, "__name__", type(original).__name__))
    # with sizes that earlier calls of the process had, Dynamo would make dynamic at once what recompiles in a fresh process
    with record(target, name=name) as recording, SizesSeen().in_use():
        compiled = compiling.compiled_apart(original, backend, settings)
        for arguments in calls:
            noted = CallsOfDynamo()
            with calls_of_dynamo(noted), on_copies(Call(original, tuple(arguments), {})) as copied:
                compiled(*copied.args)
            compiled_frames.append({attempt.frame for attempt in noted.attempts})
    names = names_of(recording.events)
    return recording.trace, [{names.get(frame, frame) for frame in frames} for frames in compiled_frames]


def _defined_at(trace: Trace) -> tuple[str, ...]:
    """List where the compiled functions are defined."""
    rows = [row for row in functions(trace) if row["compiled"] and not row["resume"]]
    places = dict.fromkeys(f"{user_line(trace, row['file'], row['first_line'])}: {row['qualname']}" for row in rows)
    return tuple(places)[:MAX_SHOWN]


def _of_call(actual: str, calls: Sequence[Sequence[Any]], frames: Sequence[set[str]]) -> str:
    """Say what happened in which call: its number from 1, and the sizes of its tensors."""
    for number, (arguments, compiled) in enumerate(zip(calls, frames, strict=True), 1):
        if any(f"frame {frame} " in actual for frame in compiled):
            given = ", ".join(_described(argument) for argument in arguments)
            return f"{actual} in call {number} of {len(calls)}, of ({given})"
    return actual


def _described(argument: object) -> str:
    """A tensor by its dtype and sizes, anything else by its repr."""
    shape = getattr(argument, "shape", None)
    if shape is None:
        return repr(argument)[:60]
    return f"{str(getattr(argument, 'dtype', '')).rpartition('.')[2]}[{', '.join(map(str, shape))}]"
