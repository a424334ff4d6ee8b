"""Drift: by which line a result moves away from float64, what explains it, and what gives the same bits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.capture.interpret.shadows import Place
from explorer.errors import InterpretError, NoVerbError
from explorer.lab.drifting.causes import Explained, compiled_results, of_compiler, of_lines, of_settings, rounding_of
from explorer.lab.drifting.eager_errors import EagerRun, eager_run, largest
from explorer.lab.drifting.kernel_errors import KernelValue, kernel_values
from explorer.lab.drifting.lines import LineErrors, lines_of
from explorer.lab.drifting.same_bits import RUN_TO_RUN, batch_of_one, run_to_run
from explorer.lab.live.call import Call
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.protocol import Live, no_verb
from explorer.lab.live.state import State
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain, Table
from explorer.process.under_way import step

#: The columns of `Drift.table`.
COLUMNS = (
    "file", "line", "code", "module", "backward", "operator", "dtype", "eager_error", "added", "growth", "node", "kernel",
    "compiled_error", "stands_out", "note",
)  # fmt: skip
#: The columns of `Drift.results`, `Drift.causes` and `Drift.questions`.
RESULT_COLUMNS = ("result", "eager_error", "compiled_error")
CAUSE_COLUMNS = ("cause", "of", "file", "line", "code", "operator", "switch", "error", "switched")
QUESTION_COLUMNS = ("question", "of", "equal", "file", "line", "code", "value", "note")
#: Why a compiled value is not compared where random numbers are drawn.
DRAWN = "the program draws random numbers, which compiled code draws otherwise: compiled values are not compared"


@dataclass(frozen=True)
class Drift:
    """What `Trace.drift` found. An error is the norm of the distance from float64, by the norm of the float64 value.

    A value that is zero in float64 has no relative error; it counts as 0.

    `table` has one row per user line and module, in the order of the program. `eager_error` and `compiled_error` are the largest
    errors of the line's values, None where none could be had. `added` is what the line's operators add to the errors of their
    operands, and `growth` the factor by which the error grows at `operator`, which adds the most. `stands_out` says that the line
    adds more than ordinary roundings of the program's type do.

    `results` has the errors of outputs and gradients. Each row of `causes` was proved by a run: `error` is without the `switch`,
    and `switched` with it. `questions` says whether a second run, and the first row of the batch alone, give the same bits; where
    not, the first value that differs.
    """

    table: Table
    results: Table
    causes: Table
    questions: Table
    _lines: Sequence[str] = field(default=(), repr=False)

    def __repr__(self) -> str:
        return "\n".join(self._lines)


def drifted(trace: TraceData, live: Live, limit: float | None, cause: bool, repeats: int) -> Drift:
    """Compare eager and compiled with float64 by line: see `Trace.drift`."""
    if not isinstance(live, LiveFunction):
        raise no_verb(
            "a hand-written kernel does not drift by lines",
            "it has no eager program to compute in float64",
            "t.check(expected=…) compares what it writes with a float64 result of yours",
        )
    live._needs_data("nothing can be computed in float64")
    step("calling it eagerly beside float64")
    run, rounding = eager_run(live.call), program_rounding(live.call)
    compiled, kernels, note = _compiled(trace, live, run, limit)
    lines = lines_of(run.errors, kernels)
    errors = max(run.result_errors.values(), default=0.0), largest(compiled, run.exact)
    answers = [*run_to_run(trace, live, repeats, limit), *batch_of_one(live)]
    differs = any(answer.question == RUN_TO_RUN and answer.equal is False for answer in answers)
    causes: list[Explained] = []
    if cause and not differs:
        causes += of_lines(live.call, run, lines, rounding)
        causes += of_settings(live.call, run)
        if errors[1] is not None:
            causes += of_compiler(trace, live, run.exact, (errors[0], errors[1]), lines, limit)
    results = [_result_row(name, error, compiled, run) for name, error in run.result_errors.items()]
    words = [*_headline(errors, note), *_line_words(lines, rounding), *_cause_words(causes), *map(str, answers)]
    return Drift(
        Table([_row(line, rounding) for line in lines], COLUMNS, "the program computes no floats"),
        Table(results, RESULT_COLUMNS, "the program returns no floats"),
        Table([each.row() for each in causes], CAUSE_COLUMNS, _why_no_cause(cause, differs)),
        Table([answer.row() for answer in answers], QUESTION_COLUMNS),
        tuple(words),
    )


def _why_no_cause(asked: bool, differs: bool) -> str:
    """Say why there is no cause."""
    if not asked:
        return "causes were not asked for"
    return "two runs give other bits, so a run with a switch proves nothing" if differs else "no cause was proved"


def program_rounding(call: Call) -> float:
    """The largest rounding of the floats that the program is given: arguments, parameters and buffers."""
    import torch

    tensors = State.of(call.function, ("args", call.args), ("kwargs", dict(call.kwargs))).tensors.values()
    given = [torch.finfo(tensor.dtype).eps / 2 for tensor in tensors if tensor.is_floating_point()]
    return max(given, default=rounding_of("float32"))


def _compiled(
    trace: TraceData, live: LiveFunction, run: EagerRun, limit: float | None
) -> tuple[Mapping[str, Any], list[KernelValue], str]:
    """The compiled results and kernels' values, and why there are none."""
    if run.drawn:
        return {}, [], DRAWN
    if live.uncompiled:
        return {}, [], live.uncompiled
    try:
        results = compiled_results(live, limit)
    except InterpretError as error:
        return {}, [], str(error)
    try:
        return results, kernel_values(trace, live, limit), ""
    except NoVerbError as error:
        return results, [], str(error)


def _row(line: LineErrors, rounding: float) -> dict[str, Plain]:
    """The row of a line."""
    most = line.most
    value = max((v for v in line.kernels if v.error is not None), key=lambda v: v.error or 0.0, default=None)
    notes = dict.fromkeys([*(o.note for o in line.operators), *(v.note for v in line.kernels)])
    return {
        "file": line.place.file,
        "line": line.place.line or None,
        "code": line.place.code,
        "module": line.place.module,
        "backward": line.place.backward,
        "operator": most.operator if most else "",
        "dtype": most.dtype if most else line.kernels[0].dtype,
        "eager_error": line.eager,
        "added": line.added,
        "growth": line.growth,
        "node": value.node if value else "",
        "kernel": value.kernel if value else "",
        "compiled_error": line.compiled,
        "stands_out": line.stands_out(rounding),
        "note": "; ".join(filter(None, notes)),
    }


def _result_row(name: str, error: float, compiled: Mapping[str, Any], run: EagerRun) -> dict[str, Plain]:
    return {"result": name, "eager_error": error, "compiled_error": largest(compiled, {name: run.exact[name]})}


# In words ----------------------------------------------------------------------------------------------------------------


def _headline(errors: tuple[float, float | None], note: str) -> Iterator[str]:
    eager, compiled = errors
    if compiled is None:
        yield f"eager is off from float64 by {eager:.2g}; what was compiled is not compared{note and f': {note}'}"
        return
    word = "as near to float64 as eager"
    if max(eager, compiled) > 1.5 * min(eager, compiled):
        word = "nearer to float64 than eager" if compiled < eager else "farther from float64 than eager"
    yield f"off from float64: eager {eager:.2g}, compiled {compiled:.2g}: compiled is {word}"
    if note:
        yield f"  not compared by line: {note}"


def _line_words(lines: Sequence[LineErrors], rounding: float) -> Iterator[str]:
    most = max(lines, key=lambda line: line.added, default=None)
    if most is None or not most.added or most.most is None:
        return
    start = "the line that adds the most" if most.stands_out(rounding) else "no line stands out; the most is added by"
    growth = f", {most.growth:.3g} times the error of its operands" if most.growth is not None else ""
    yield f"{start}: {_at(most.place)} ({most.most.operator}: {most.added:.2g}{growth})"


def _cause_words(causes: Sequence[Explained]) -> Iterator[str]:
    for each in causes:
        where = f" at {_at(each.place)}" if each.place.file else ""
        yield f"cause ({each.of}): {each.cause}{where}"
        yield f"  {each.switch}: {each.error:.2g} -> {each.switched:.2g}"


def _at(place: Place) -> str:
    module = f" in {place.module}" if place.module else ""
    backward = ", backward" if place.backward else ""
    return f"{os.path.basename(place.file)}:{place.line}: {place.code}{module}{backward}" if place.file else "no line of yours"


__all__ = ["Drift", "drifted"]
