"""What brings an error about, each proved by a run in which it is switched."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from explorer.analysis.questions.subgraph import all_wrappers, graph_of
from explorer.capture.interpret.shadows import NOWHERE, LocalError, OperatorError, Place
from explorer.capture.observe.switches import applied_at_most
from explorer.errors import CompileError, InputError, InterpretError
from explorer.lab.drifting.eager_errors import EagerRun, eager_results, eager_run, largest
from explorer.lab.drifting.lines import LineErrors
from explorer.lab.live.call import Call
from explorer.lab.live.float64_reference import IMPOSSIBLE
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.protocol import live_of, with_options
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain
from explorer.process.under_way import step

#: By what factor an error must change with a switch.
FACTOR = 1.5
#: The most lines and decompositions that are tried.
MAX_LINES, MAX_DECOMPOSITIONS = 3, 6
#: How many operators of one line make their roundings one cause.
MANY = 8
#: Operators that multiply matrices.
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "convolution", "linear")


@dataclass(frozen=True)
class Explained:
    """A cause, and the run that proves it: the error as it is, and with the switch.

    `of` is "eager" or "compiled". The error is that of the results, or of the operator's own value where the switch is about
    its operands, its order or its precision alone.
    """

    cause: str
    of: str
    switch: str
    error: float
    switched: float
    place: Place = NOWHERE
    operator: str = ""

    def row(self) -> dict[str, Plain]:
        """The cause as a row of a table."""
        return {
            "cause": self.cause,
            "of": self.of,
            "file": self.place.file,
            "line": self.place.line or None,
            "code": self.place.code,
            "operator": self.operator,
            "switch": self.switch,
            "error": self.error,
            "switched": self.switched,
        }


def rounding_of(dtype: str) -> float:
    """The largest relative error of one rounding to a type."""
    import torch

    kind = getattr(torch, dtype, None)
    return torch.finfo(kind).eps / 2 if kind is not None and (kind.is_floating_point or kind.is_complex) else 0.0


# Of a line ---------------------------------------------------------------------------------------------------------------


def of_lines(call: Call, run: EagerRun, lines: Sequence[LineErrors], rounding: float) -> Iterator[Explained]:
    """Yield what the lines that add the most do, as runs show in which all else is exact."""
    standing = sorted((line for line in lines if line.stands_out(rounding)), key=lambda line: -line.added)
    for line in standing[:MAX_LINES]:
        step(f"rounding line {line.place.line} alone")
        most = line.most
        assert most is not None
        local = eager_run(call, {most.number}).local.get(most.number)
        if local is not None and (cause := _of_operator(line, most, local)) is not None:
            yield cause
            continue
        alone = eager_run(call, {operator.number for operator in line.operators})
        error = max(run.result_errors.values(), default=0.0)
        with_it = largest(alone.exact, run.exact) or 0.0
        if with_it and (with_it >= error / 2 or math.isinf(with_it)):
            switch = "only this line rounds, all else is float64"
            yield Explained(_word(line, most), "eager", switch, error, with_it, line.place, most.operator)


def _of_operator(line: LineErrors, most: OperatorError, local: LocalError) -> Explained | None:
    """What one operator does, by its own value: it amplifies, or it is less exact than one rounding."""
    unit = rounding_of(most.dtype)

    def explained(cause: str, switch: str, switched: float) -> Explained:
        return Explained(cause, "eager", switch, most.error, switched, line.place, most.operator)

    if local.from_operands > 10 * local.itself and most.error > 10 * most.operand_error:
        cause = f"cancellation: {most.operator} amplifies the roundings of its operands"
        return explained(cause, "its operands in float64", local.rounded_once)
    if not math.isfinite(local.itself) or local.itself <= 4 * unit:
        return None
    if local.reordered is not None and not _alike(local.itself, local.reordered):
        return explained(f"order of summation in {most.operator}", "summed in the reverse order", local.reordered)
    return explained(f"precision inside {most.operator}", "the operator in float64, rounded once", local.rounded_once)


def _word(line: LineErrors, most: OperatorError) -> str:
    """Say in words what a line does that alone makes the error."""
    if math.isinf(most.error):
        return f"{most.dtype} overflows in {most.operator}"
    if most.narrowed:
        return f"cast to {most.dtype}"
    if len(line.operators) >= MANY:
        return f"roundings to {most.dtype} of {len(line.operators)} operators add up"
    return f"rounding to {most.dtype} in {most.operator}"


def _alike(one: float, other: float) -> bool:
    """Whether two errors differ by less than a factor."""
    if one == other:
        return True
    low, high = sorted((one, other))
    return low > 0 and high / low < FACTOR


# Of a setting ------------------------------------------------------------------------------------------------------------


def of_settings(call: Call, run: EagerRun) -> Iterator[Explained]:
    """Yield the settings of torch with which eager's error is another."""
    error = max(run.result_errors.values(), default=0.0)
    for cause, switch, within in _settings(call, run):
        step(f"calling it eagerly with {switch}")
        try:
            switched = largest(eager_results(call, within), run.exact)
        except IMPOSSIBLE:
            continue
        if switched is not None and not _alike(error, switched):
            yield Explained(cause, "eager", switch, error, switched)


def _settings(call: Call, run: EagerRun) -> Iterator[tuple[str, str, Callable[[], AbstractContextManager[Any]]]]:
    """Yield each setting that can act on the run: what it decides, how it is switched, and the block that switches it."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    names = {(operator.operator.split(".")[1:2] or [""])[0] for operator in run.errors}
    if any(name.startswith("_scaled_dot_product_") for name in names):
        switch = "torch.nn.attention.sdpa_kernel(SDPBackend.MATH)"
        yield "fused attention", switch, lambda: sdpa_kernel(SDPBackend.MATH)
    if not names & set(PRODUCTS):
        return
    if torch.get_float32_matmul_precision() != "highest":
        yield (
            "float32 products in fewer bits (TF32 on a GPU, bfloat16 on a CPU)",
            'torch.set_float32_matmul_precision("highest")',
            _highest_precision,
        )
    if call.absent is None and torch.cuda.is_available():
        for name in ("allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction"):
            if getattr(torch.backends.cuda.matmul, name):
                switch = f"torch.backends.cuda.matmul.{name} = False"
                yield "sums of products in 16 bits", switch, lambda name=name: _without(torch.backends.cuda.matmul, name)  # type: ignore[misc]


@contextmanager
def _highest_precision() -> Iterator[None]:
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def _without(settings: Any, name: str) -> Iterator[None]:
    before = getattr(settings, name)
    setattr(settings, name, False)
    try:
        yield
    finally:
        setattr(settings, name, before)


# Of the compiler ---------------------------------------------------------------------------------------------------------


def of_compiler(
    trace: TraceData,
    live: LiveFunction,
    exact: Mapping[str, Any],
    errors: tuple[float, float],
    lines: Sequence[LineErrors],
    limit: float | None,
) -> Iterator[Explained]:
    """Yield what the compiler does without which the compiled error comes nearer to eager's.

    `errors` are eager's and the compiled.
    """
    eager, compiled = errors
    if _alike(eager, compiled):
        return
    for cause, switch, again in _switches(trace, live, lines):
        step(f"compiling with {switch}")
        try:
            switched = _error_of(again(), exact, limit)
        except (CompileError, InputError, InterpretError):
            continue
        if switched is not None and not _alike(compiled, switched) and _nearer(switched, compiled, eager):
            yield Explained(cause, "compiled", switch, compiled, switched)


def _switches(
    trace: TraceData, live: LiveFunction, lines: Sequence[LineErrors]
) -> Iterator[tuple[str, str, Callable[[], TraceData]]]:
    """Yield each thing that the compiler may do otherwise: its name, the switch, and what traces with it."""

    def option(name: str, value: Plain) -> tuple[str, Callable[[], TraceData]]:
        return f'options={{"{name}": {value}}}', lambda: live.trace_again(**with_options(trace, {name: value}))

    operators = [operator for line in lines for operator in line.operators]
    if any(operator.dtype in ("bfloat16", "float16") for operator in operators):
        yield "fusion keeps intermediates in float32", *option("emulate_precision_casts", True)
    if live.absent is not None or any(str(trace.meta.get("target")).startswith(name) for name in ("cuda", "xpu")):
        yield "a reduction split in two", *option("split_reductions", False)
    for name in _decomposed(trace)[:MAX_DECOMPOSITIONS]:
        packet, _, overload = name.rpartition(".")
        torch_name = f"<OpOverload(op='{packet}', overload='{overload}')>"

        def without(torch_name: str = torch_name) -> TraceData:
            with applied_at_most("decomposition", 0, (torch_name,)) as applied:
                again = live.trace_again()
            if not applied:
                raise CompileError(f"{torch_name} was not decomposed")
            return again

        yield f"the decomposition of {name}", f"{name} not decomposed", without


def _decomposed(trace: TraceData) -> list[str]:
    """Name the operators that were decomposed into others, in the order of the graphs."""
    nodes = [node for wrapper in all_wrappers(trace) for node in graph_of(trace, wrapper).nodes.values()]
    return list(dict.fromkeys(node.original for node in nodes if node.decomposition and node.original))


def _error_of(again: TraceData, exact: Mapping[str, Any], limit: float | None) -> float | None:
    """The error of the results of another trace of the same call."""
    second = live_of(again)
    if not isinstance(second, LiveFunction) or any(failure.fatal for failure in again.failures):
        return None
    return largest(compiled_results(second, limit), exact)


def compiled_results(live: LiveFunction, limit: float | None = None) -> dict[str, Any]:
    """Run what was compiled once on copies: its outputs and gradients by name."""
    return {name: part.value for name, part in live.outcome(limit).returned.items()}


def _nearer(switched: float, compiled: float, eager: float) -> bool:
    """Whether an error comes nearer to eager's with a switch."""
    if eager == 0 or compiled == 0 or switched == 0:
        return abs(switched - eager) < abs(compiled - eager)
    if not all(map(math.isfinite, (switched, compiled, eager))):
        return math.isfinite(switched) == math.isfinite(eager)
    return abs(math.log(switched / eager)) < abs(math.log(compiled / eager))


__all__ = ["Explained", "compiled_results", "of_compiler", "of_lines", "of_settings", "rounding_of"]
