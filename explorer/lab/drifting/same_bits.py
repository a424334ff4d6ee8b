"""Whether a second run, and a batch of one, give the same bits; where not, the first value that differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.capture.interpret.shadows import NOWHERE, Place
from explorer.capture.observe.tensors import map_tensors, named_tensors, same_bits
from explorer.lab.drifting.causes import compiled_results
from explorer.lab.drifting.eager_errors import eager_values
from explorer.lab.drifting.kernel_errors import kernel_values
from explorer.lab.live.call import Call, tensors_of
from explorer.lab.live.float64_reference import IMPOSSIBLE
from explorer.lab.live.function import LiveFunction
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain
from explorer.process.under_way import step

#: The questions.
RUN_TO_RUN, BATCH_OF_ONE = "run to run", "batch of 1"
#: Why what is compiled for a GPU you don't have is not asked.
INTERPRETED = "the interpreter runs a GPU's programs in one order, and library calls on the CPU"


@dataclass(frozen=True)
class Answer:
    """Whether two runs give the same bits: `equal` is None where that cannot be told, and `note` says why.

    `question` is "run to run" or "batch of 1", `of` is "eager" or "compiled". `value` is the first value that differs: an
    operator or an FX node, and `place` its line.
    """

    question: str
    of: str
    equal: bool | None
    place: Place = NOWHERE
    value: str = ""
    note: str = ""

    def row(self) -> dict[str, Plain]:
        """The answer as a row of a table."""
        return {
            "question": self.question,
            "of": self.of,
            "equal": self.equal,
            "file": self.place.file,
            "line": self.place.line or None,
            "code": self.place.code,
            "value": self.value,
            "note": self.note,
        }

    def __str__(self) -> str:
        """Say it in a sentence."""
        word = {True: "the same bits", False: "other bits", None: "not told"}[self.equal]
        where = f", first at {self.place.file}:{self.place.line}: {self.place.code}" if self.place.file else ""
        value = f" ({self.value})" if self.value else ""
        return f"{self.question}, {self.of}: {word}{where}{value}{f': {self.note}' if self.note else ''}"


@dataclass(frozen=True)
class _Value:
    operator: str
    place: Place
    tensors: tuple[Any, ...]


def _recorded(call: Call) -> tuple[list[_Value], dict[str, Any]]:
    """Run a call in eager mode: a copy of each operator's result, and the outputs and gradients."""
    values: list[_Value] = []

    def hear(operator: str, place: Place, result: Any) -> None:
        values.append(_Value(operator, place, tuple(tensor.detach().clone() for _, tensor in named_tensors(result))))

    return values, eager_values(call, hear)


# Run to run --------------------------------------------------------------------------------------------------------------


def run_to_run(trace: TraceData, live: LiveFunction, repeats: int, limit: float | None) -> list[Answer]:
    """Run the call several times, each with the same random seed, in eager mode and compiled."""
    return [_eager_runs(live.call, repeats), _compiled_runs(trace, live, repeats, limit)]


def _eager_runs(call: Call, repeats: int) -> Answer:
    first, results = _recorded(call)
    for number in range(1, repeats):
        step("calling it eagerly again", number, repeats)
        again, others = _recorded(call)
        for one, other in zip(first, again, strict=False):
            if one.operator != other.operator or not _all_same(one.tensors, other.tensors):
                return Answer(RUN_TO_RUN, "eager", False, one.place, one.operator)
        if not _same_results(results, others):
            return Answer(RUN_TO_RUN, "eager", False)
    return Answer(RUN_TO_RUN, "eager", True)


def _compiled_runs(trace: TraceData, live: LiveFunction, repeats: int, limit: float | None) -> Answer:
    if live.absent is not None:
        return Answer(RUN_TO_RUN, "compiled", None, note=INTERPRETED)
    first = compiled_results(live)
    if all(_same_results(first, compiled_results(live)) for _ in range(1, repeats)):
        return Answer(RUN_TO_RUN, "compiled", True)
    one, other = (kernel_values(trace, live, limit) for _ in range(2))
    for value, again in zip(one, other, strict=False):
        if not same_bits(value.value, again.value):
            return Answer(RUN_TO_RUN, "compiled", False, value.place, value.node)
    return Answer(RUN_TO_RUN, "compiled", False, note="no value of a kernel differed when the kernels were watched")


def _all_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(map(same_bits, one, other))


def _same_results(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    import torch

    tensors = [name for name, value in one.items() if isinstance(value, torch.Tensor)]
    return all(isinstance(other.get(name), torch.Tensor) and same_bits(one[name], other[name]) for name in tensors)


# A batch of one ----------------------------------------------------------------------------------------------------------


def batch_of_one(live: LiveFunction) -> list[Answer]:
    """Compare the first row of the results with those of the first row alone, in eager mode and compiled.

    The batch is the first dimension of the first tensor, and of each argument with the same first length.
    """
    call = live.call
    count = next((t.shape[0] for _, t in named_tensors((call.args, dict(call.kwargs))) if t.dim()), 1)
    if count < 2 or call.train:
        why = "gradients of parameters sum over the batch" if call.train else "the first tensor has no second row"
        return [Answer(BATCH_OF_ONE, "eager", None, note=why)]

    def first_row(tensor: Any) -> Any:
        if tensor.dim() and tensor.shape[0] == count:
            return tensor.detach()[:1].clone().requires_grad_(tensor.requires_grad)
        return tensor

    args, kwargs = map_tensors(first_row, (call.args, dict(call.kwargs)))
    alone = call.with_arguments(args, kwargs)
    return [_eager_batch(call, alone, count), _compiled_batch(live, alone, count)]


def _eager_batch(call: Call, alone: Call, count: int) -> Answer:
    values, results = _recorded(call)
    try:
        of_row, row_results = _recorded(alone)
    except IMPOSSIBLE as error:
        note = f"the first row alone cannot be called: {type(error).__name__}: {error}".partition("\n")[0]
        return Answer(BATCH_OF_ONE, "eager", None, note=note)
    equal = _rows_same(results, row_results, count)
    if equal is not False:
        return Answer(BATCH_OF_ONE, "eager", equal, note="" if equal else "no result has a row for each row of the batch")
    for one, other in zip(values, of_row, strict=False):
        if one.operator != other.operator:
            return Answer(BATCH_OF_ONE, "eager", False, other.place, other.operator, f"the whole batch calls {one.operator}")
        if any(_row_same(a, b, count) is False for a, b in zip(one.tensors, other.tensors, strict=False)):
            return Answer(BATCH_OF_ONE, "eager", False, one.place, one.operator)
    return Answer(BATCH_OF_ONE, "eager", False)


def _compiled_batch(live: LiveFunction, alone: Call, count: int) -> Answer:
    """Compare the results alone: the smaller batch is compiled anew, into kernels that the trace does not have."""
    if live.absent is not None:
        return Answer(BATCH_OF_ONE, "compiled", None, note=INTERPRETED)
    try:
        returned = live.run(*alone.args, **alone.kwargs)
    except IMPOSSIBLE as error:
        return Answer(BATCH_OF_ONE, "compiled", None, note=f"{type(error).__name__}: {error}".partition("\n")[0])
    equal = _rows_same(compiled_results(live), dict(tensors_of((returned, None))), count)
    note = {None: "no result has a row for each row of the batch", False: "another batch is compiled into other kernels"}
    return Answer(BATCH_OF_ONE, "compiled", equal, note=note.get(equal, ""))


def _rows_same(results: Mapping[str, Any], of_row: Mapping[str, Any], count: int) -> bool | None:
    """Whether all results with a row for each row of the batch have the same first row; None if there is none."""
    import torch

    told = [
        _row_same(value, of_row[name], count)
        for name, value in results.items()
        if isinstance(value, torch.Tensor) and name in of_row
    ]
    known = [each for each in told if each is not None]
    return all(known) if known else None


def _row_same(whole: Any, row: Any, count: int) -> bool | None:
    """Whether the first row of a value is that of the batch of one; None if it has no rows."""
    if not whole.dim() or whole.dim() != row.dim() or whole.shape[1:] != row.shape[1:] or whole.shape[0] != count * row.shape[0]:
        return None
    return same_bits(whole[: row.shape[0]], row)


__all__ = ["BATCH_OF_ONE", "RUN_TO_RUN", "Answer", "batch_of_one", "run_to_run"]
