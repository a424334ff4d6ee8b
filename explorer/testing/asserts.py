"""Assertions on a trace, for a project's own tests. They read the trace, and run and compile nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable

from explorer.analysis.findings import rules
from explorer.analysis.findings.finding import Finding, check, not_judged
from explorer.analysis.findings.fused import Part, parts_not_fused
from explorer.analysis.questions.kernels import kernels_of
from explorer.errors import InputError
from explorer.model.trace_data import TraceData
from explorer.model.wording import quantity


def assert_no_graph_break(trace: TraceData) -> None:
    """Assert that the program was compiled without a graph break. ContractError names each, with torch's reason and advice."""
    __tracebackhide__ = True
    check(rules.breaks(_trace(trace)))


def assert_kernels(trace: TraceData, at_most: int) -> None:
    """Assert that at most so many kernels were generated; ContractError lists them, each with its user lines.

    Library calls are no kernels of Inductor's: see `assert_no_new_fallback`.
    """
    __tracebackhide__ = True
    kernels = kernels_of(_trace(trace))
    expected = f"at most {_number(at_most)} generated kernels"
    if nothing := rules.why_no_code(trace):
        check([not_judged("kernels", expected, nothing)])
    if len(kernels) > at_most:
        lines = [f"{kernel.name} of {'; '.join(_lines(trace, kernel)) or 'no user line'}" for kernel in kernels]
        shown = (
            *lines[: 2 * rules.MAX_SHOWN],
            *([f"{len(lines) - 2 * rules.MAX_SHOWN} more"] if len(lines) > 2 * rules.MAX_SHOWN else []),
        )
        why = _why_apart(trace)
        check(
            [
                Finding(
                    "kernels",
                    expected,
                    quantity(len(kernels), "kernel"),
                    shown,
                    why,
                    "t.kernels.table, t.fusion.table",
                )
            ]
        )


def _lines(trace: TraceData, kernel: object) -> tuple[str, ...]:
    return rules.lines_of(trace, rules.nodes_of_kernel(trace, kernel))  # type: ignore[arg-type]


def _why_apart(trace: TraceData) -> str:
    """Say what keeps kernels apart, as far as rules that can be overruled do."""
    if rules.why_no_lowering(trace):
        return ""
    found = list(rules.not_fused(trace))
    return f"{found[0].actual}: {found[0].why}" if found else ""


def assert_graphs(trace: TraceData, at_most: int) -> None:
    """Assert that the program was compiled into at most so many of Dynamo's graphs, recompiles counted."""
    __tracebackhide__ = True
    graphs = _trace(trace).find("dynamo")
    expected = f"at most {_number(at_most)} graph{'s' * (at_most != 1)}"
    if nothing := rules.why_no_record(trace):
        check([not_judged("graphs", expected, nothing)])
    if len(graphs) > at_most:
        causes = [*rules.breaks(trace), *rules.recompiles(trace)]
        lines = tuple(dict.fromkeys(line for cause in causes for line in cause.lines))[: rules.MAX_SHOWN]
        why = rules.listed(f"{cause.actual}" for cause in causes)
        frames = rules.listed(a.frame for a in graphs)
        check(
            [
                Finding(
                    "graphs",
                    expected,
                    f"{quantity(len(graphs), 'graph')}: {frames}",
                    lines,
                    why,
                    "t.dynamo.functions, t.dynamo.graph_breaks",
                )
            ]
        )


def assert_fused(trace: TraceData, *parts: Part, graph: str | None = None) -> None:
    """Assert that one kernel computes something of every part.

    A part is an operator of the program ("silu"), a node by its name ("mul_2", "buf3"), an operator of ATen ("aten.mul.Tensor"),
    some code of a user line ("h.sum(-1)"), or the line's number. Where several graphs compute all parts, as forward and backward
    do, each must; `graph="forward"` names one. In C++ it is one loop nest. ContractError says why not, as `t.why` does.
    """
    __tracebackhide__ = True
    check(parts_not_fused(_trace(trace), parts, graph))


def assert_no_spill(trace: TraceData) -> None:
    """Assert that no kernel spills registers to memory, by its machine code: for NVIDIA's and AMD's, attached or not.

    If a kernel's spills are unknown, as in C++, the assertion fails too.
    """
    __tracebackhide__ = True
    check(rules.spills(_trace(trace)))


def assert_peak_memory(trace: TraceData, under: float) -> None:
    """Assert that the peak memory of every graph is under so many bytes, inputs included: see `Trace.memory`.

    The scratch memory of the library calls that `trace.memory.uncounted` names is not counted.
    """
    __tracebackhide__ = True
    _number(under)
    check(rules.over_peak(_trace(trace), under))


def assert_no_new_fallback(trace: TraceData, allowed: Iterable[str] = (), *, library: bool = True) -> None:
    """Assert that Inductor generates code for all operators but these: "aten.mm", or with its overload "aten.mm.default".

    What it does not generate it calls: a library's function, or the operator itself. With `library=False` only the latter is an
    error. ContractError names each such operator, with its user line.
    """
    __tracebackhide__ = True
    if isinstance(allowed, str):
        raise InputError(f"allowed is a list of operators, such as [{allowed!r}], not one text")
    check(rules.fallbacks(_trace(trace), allowed, library=library))


def assert_no_new_failure(trace: TraceData, allowed: Iterable[str] = ()) -> None:
    """Assert that nothing failed but what has one of these texts in its message: see `Trace.failures`."""
    __tracebackhide__ = True
    if isinstance(allowed, str):
        raise InputError(f"allowed is a list of texts, such as [{allowed!r}], not one text")
    check(rules.failures(_trace(trace), allowed))


def _trace(trace: object) -> TraceData:
    """A trace as it is; InputError for anything else."""
    if not isinstance(trace, TraceData):
        raise InputError(f"an assertion takes a trace, as explorer.trace or explorer.load gives it, not {type(trace).__name__}")
    return trace


def _number(given: float) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise InputError(f"a limit is a number, not {given!r}")
    if not math.isfinite(given):
        raise InputError(f"a limit is a finite number, not {given!r}: nothing could break it, or nothing keep it")
    return given
