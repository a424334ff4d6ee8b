"""Assertions on traces: each holds where it should, and names the line and the reason where it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer import testing
from explorer.errors import InputError
from explorer.files.trace_file import load_events
from explorer.model.trace_data import TraceData
from explorer.testing.facts import facts_of
from explorer.testing.rules import RULES
from explorer.traced import Trace

torch = pytest.importorskip("torch", reason="torch is not installed: the assertions are tried on compiles")
pytest.importorskip("triton", reason="triton is not installed: kernels for a GPU you don't have need it")

DATA = Path(__file__).parents[1] / "data"


def block(x: Any, w: Any) -> Any:
    h = torch.nn.functional.silu(x @ w)
    h = h * 2
    return h.sum(-1)


def broken(x: Any, w: Any) -> Any:
    h = torch.nn.functional.silu(x @ w)
    torch._dynamo.graph_break()
    h = h * 2
    return h.sum(-1)


def columns(x: Any, w: Any) -> Any:
    h = torch.nn.functional.silu(x @ w).cumsum(0)
    return torch.sort(h.sum(-1))[0]


def inputs() -> tuple[Any, Any]:
    return torch.ones(64, 128), torch.ones(128, 256)


@pytest.fixture(scope="module")
def traced() -> Callable[[Any], Trace]:
    """Trace a function for an absent H100, once."""
    traces: dict[Any, Trace] = {}

    def trace(fn: Any) -> Trace:
        if fn not in traces:
            traces[fn] = explorer.trace(fn, *inputs(), target="h100")
        return traces[fn]

    return trace


@pytest.fixture(scope="module")
def on_cpu() -> Trace:
    """The trace of a training step in C++, from recorded events."""
    return Trace.of_events(*load_events((DATA / "mlp_train-torch2.13-cpu.events.json.gz").read_bytes()))


def message(assertion: Callable[..., object], *arguments: Any, **settings: Any) -> str:
    with pytest.raises(testing.ContractError) as raised:
        assertion(*arguments, **settings)
    return str(raised.value)


# Graphs and kernels ------------------------------------------------------------------------------------------------------


def test_a_graph_break_is_named_with_its_line(traced: Callable[[Any], Trace]) -> None:
    """As many breaks are found as torch's own `explain` counts, each with the user's line and torch's advice."""
    assert torch._dynamo.explain(block)(*inputs()).graph_break_count == 0
    testing.assert_no_graph_break(traced(block))
    with pytest.raises(testing.ContractError) as raised:
        testing.assert_no_graph_break(traced(broken))
    assert len(raised.value.findings) == torch._dynamo.explain(broken)(*inputs()).graph_break_count == 1
    text = str(raised.value)
    assert re.search(r"at: +test_asserts\.py:\d+: torch\._dynamo\.graph_break\(\)", text)
    assert "Remove the `torch._dynamo.graph_break()` call" in text and "t.graph_breaks" in text
    torch._dynamo.reset()


def test_kernels_are_counted_as_the_output_code_defines_them(traced: Callable[[Any], Trace]) -> None:
    """The limit is the number of kernels that Inductor's output code compiles; above it all are listed with their lines."""
    defined = traced(columns).text("output_code").count("async_compile.triton(")
    assert defined > 1
    testing.assert_kernels(traced(columns), defined)
    text = message(testing.assert_kernels, traced(columns), defined - 1)
    assert f"{defined} kernels" in text and "triton_" in text and "h.sum(-1)" in text


def test_graphs_are_counted_with_what_splits_them(traced: Callable[[Any], Trace]) -> None:
    """Two graphs are one too many, because of the break between them."""
    testing.assert_graphs(traced(block), 1)
    assert "graph break" in message(testing.assert_graphs, traced(broken), 1)


# Fusions -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [("silu", "sum"), ("mul", "sum_1"), ("h * 2", "h.sum(-1)"), ("aten.mul.Tensor", "aten.sum")])
def test_what_one_kernel_computes_is_fused(parts: tuple[str, str], traced: Callable[[Any], Trace]) -> None:
    """Operators, nodes and lines whose operators Inductor's own comment gives to one kernel are fused."""
    (kernel,) = traced(block).kernels
    assert {"aten.silu", "aten.mul", "aten.sum"} <= set(kernel.operators)
    testing.assert_fused(traced(block), *parts)


def test_a_piece_of_code_stands_for_its_own_operators() -> None:
    """Of a line that two kernels compute, a piece is what its operators are; where none is named, it is refused."""

    def f(y: Any) -> Any:
        return (y.sum() + y).amax()

    t = explorer.trace(f, torch.ones(512, 512), target="h100")
    assert len([kernel for kernel in t.kernels if "aten.sum" in kernel.operators]) < len(t.kernels)
    testing.assert_fused(t, "y.sum() + y", "amax")
    assert "apart" in message(testing.assert_fused, t, "y.sum()", "amax")
    with pytest.raises(InputError, match=r"name one of these"):
        testing.assert_fused(t, "(y.", "amax")


def test_user_lines_go_by_their_numbers_too(traced: Callable[[Any], Trace]) -> None:
    """A line's number stands for what the line computes."""
    first = block.__code__.co_firstlineno
    testing.assert_fused(traced(block), first + 2, first + 3)
    testing.assert_fused(traced(block), "silu(x @ w)", first + 2, first + 3)


def test_what_is_not_fused_says_why(traced: Callable[[Any], Trace]) -> None:
    """The reason is the answer of `t.fusion.why`, with the lines and the kernels of both."""
    text = message(testing.assert_fused, traced(columns), "cumsum", "sum")
    assert traced(columns).fusion.why("cumsum", "sum").sentence in text
    kernels = [k.name for k in traced(columns).kernels if {"aten.cumsum", "aten.sum"} & set(k.operators)]
    assert all(name in text for name in kernels) and "h.sum(-1)" in text


def test_what_a_graph_break_keeps_apart_names_the_break(traced: Callable[[Any], Trace]) -> None:
    """Nodes of two graphs are apart because of the break between these, whose line is named."""
    text = message(testing.assert_fused, traced(broken), "silu", "sum")
    assert "different graphs" in text and "graph_break()" in text and "test_asserts.py" in text


def test_forward_and_backward_must_both_be_fused() -> None:
    """Where both graphs compute the parts each is judged, unless `graph` names one."""

    def step(x: Any, w: Any) -> Any:
        h = x.exp()
        h = h.sin()
        return (h @ w).cos()

    x, w = torch.ones(8, 8, requires_grad=True), torch.ones(8, 8)
    t = explorer.trace(step, x, w, target="h100", train=True)
    testing.assert_fused(t, "x.exp()", "h.sin()")
    with pytest.raises(testing.ContractError) as raised:
        testing.assert_fused(t, "h.sin()", "(h @ w).cos()", "x.exp()")
    both = ("forward", "backward")
    assert [graph for f in raised.value.findings for graph in both if graph in f.actual] == [*both]
    text = message(testing.assert_fused, t, "h.sin()", "@ w", graph="backward")
    assert "graph backward" in text and "graph forward" not in text


@pytest.mark.parametrize(("part", "said"), [("slu", "did you mean"), (1, "no node is of line 1"), ("nothing + such", "unknown")])
def test_a_part_that_nothing_computes_is_not_judged(part: str | int, said: str, traced: Callable[[Any], Trace]) -> None:
    """A misspelt name or a wrong line fails, and offers what is there."""
    text = message(testing.assert_fused, traced(block), part, "sum")
    assert "not judged" in text and said in text


# Machine code, memory, calls, failures -----------------------------------------------------------------------------------


def test_spills_are_those_of_the_machine_code(traced: Callable[[Any], Trace]) -> None:
    """A kernel whose SASS stores to and loads from local memory spills; one without such instructions does not."""
    import triton
    import triton.language as tl

    @triton.jit
    def many(x, out, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.arange(0, SIZE)
        row = tl.load(x + at)
        tl.store(out + at, row * tl.sum(row))  # a thread holds 512 numbers until the sum is known, and has 255 registers

    testing.assert_no_spill(traced(block))
    x = torch.ones(16384)
    t = explorer.trace_kernel(many, x, torch.empty_like(x), SIZE=16384, grid=(1,), num_warps=1, target="h100")
    spilled = {"STL", "LDL"} & set(re.findall(r"\b(STL|LDL)\b", t.kernels[0].text("sass")))
    assert spilled == {"STL", "LDL"}
    text = message(testing.assert_no_spill, t)
    assert "many spills" in text and "bytes stored" in text and "registers a thread" in text


def test_peak_memory_is_that_of_the_largest_graph(traced: Callable[[Any], Trace]) -> None:
    """The limit is on the bytes that are live at once: the inputs, the product and what else is there."""
    x, w = inputs()
    product = 64 * 256 * 4
    live = x.nbytes + w.nbytes + product
    testing.assert_peak_memory(traced(block), live + 1)
    text = message(testing.assert_peak_memory, traced(block), live)
    assert "128 KiB of input w" in text and "x @ w" in text


def test_library_calls_are_those_that_are_not_allowed(traced: Callable[[Any], Trace]) -> None:
    """A product is a library's, and no fallback; allowed by its name, it is no finding."""
    assert "extern_kernels.mm" in traced(block).text("output_code")
    text = message(testing.assert_no_new_fallback, traced(block))
    assert "aten.mm.default is a library call, extern_kernels.mm" in text and "x @ w" in text
    for allowed in (["aten.mm"], ["aten.mm.default"]):
        testing.assert_no_new_fallback(traced(block), allowed)
    testing.assert_no_new_fallback(traced(block), library=False)


def test_a_fallback_is_found_without_library_calls() -> None:
    """An operator that Inductor has no code for is a fallback."""

    def f(x: Any) -> Any:
        return torch.linalg.inv(x) + 1

    t = explorer.trace(f, torch.eye(8), target="h100")
    assert "torch.ops.aten.linalg_inv_ex.default" in t.text("output_code")
    assert "aten.linalg_inv_ex.default is a fallback" in message(testing.assert_no_new_fallback, t, library=False)


def test_a_call_with_a_kernel_beside_it_is_a_call() -> None:
    """A call is found where a kernel also computes something of the node, as the copy that a scatter writes into."""

    def f(x: Any, at: Any) -> Any:
        return torch.scatter_reduce(x, 0, at, x, "prod") + 1

    t = explorer.trace(f, torch.ones(8), torch.zeros(8, dtype=torch.long), target="h100")
    assert "scatter_reduce" in t.text("output_code").partition("def call")[2]
    text = message(testing.assert_no_new_fallback, t, library=False)
    assert "aten.scatter_reduce.two is a fallback" in text and "aten.scatter_reduce" in str(facts_of(t).calls)


def test_failures_are_those_that_are_not_allowed(traced: Callable[[Any], Trace]) -> None:
    """A compile that fails is a failure, and one whose text is allowed is none."""

    def compiler(graph: Any, example: Any) -> Any:
        raise ValueError("no such thing")

    testing.assert_no_new_failure(traced(block))
    t = explorer.trace(lambda x: x + 1, torch.ones(2), backend=compiler)
    assert "no such thing" in message(testing.assert_no_new_failure, t)
    testing.assert_no_new_failure(t, ["no such thing"])


# Nothing to judge --------------------------------------------------------------------------------------------------------

NOTHING = Trace({"name": "f"})


@pytest.mark.parametrize(
    "ask",
    [
        testing.assert_no_graph_break,
        lambda t: testing.assert_kernels(t, 9),
        lambda t: testing.assert_graphs(t, 9),
        lambda t: testing.assert_fused(t, "a", "b"),
        testing.assert_no_spill,
        lambda t: testing.assert_peak_memory(t, 1e9),
        testing.assert_no_new_fallback,
        testing.assert_no_new_failure,
    ],
)
def test_an_empty_trace_passes_no_assertion(ask: Callable[[Trace], None]) -> None:
    """Where nothing was compiled, each assertion fails, and says that nothing was judged."""
    with pytest.raises(testing.ContractError, match="not judged") as raised:
        ask(NOTHING)
    assert not any(finding.judged for finding in raised.value.findings)
    assert isinstance(raised.value, AssertionError)


UNSEEN = {
    "break": testing.assert_no_graph_break,
    "graphs": lambda t: testing.assert_graphs(t, 99),
    "kernels": lambda t: testing.assert_kernels(t, 99),
    "fallback": lambda t: testing.assert_no_new_fallback(t, ["aten"]),
    "peak memory": lambda t: testing.assert_peak_memory(t, 1e15),
    "fused": lambda t: testing.assert_fused(t, "mul", "sum"),
}


def unjudged(trace: Trace) -> dict[str, str]:
    """Which of the assertions are not judged of a trace, and why; all pass otherwise."""
    why = {}
    for name, ask in UNSEEN.items():
        try:
            ask(trace)
        except testing.ContractError as error:
            assert not error.findings[0].judged
            why[name] = error.findings[0].actual
    return why


def test_a_frame_that_a_cache_had_is_not_judged(traced: Callable[[Any], Trace]) -> None:
    """Where one frame was compiled and another's graph came from a cache, what became of that one is not known."""
    t = traced(block)
    assert not unjudged(t)
    cached = replace(t.find("dynamo")[0], id="1/0:dynamo", frame="1/0")
    why = unjudged(Trace.of(TraceData(t.meta, (*t.artifacts, cached), t.links)))
    assert set(why) == {"kernels", "fallback", "peak memory", "fused"} and all("frame 1/0" in text for text in why.values())


def test_a_program_that_was_compiled_in_part_is_not_judged() -> None:
    """With suppress_errors a function that fails runs in Python: nothing that it would break is said to hold."""

    def compiler(graph: Any, example: Any) -> Any:
        raise ValueError("no such thing")

    with torch._dynamo.config.patch(suppress_errors=True), explorer.record("cpu") as recording:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        torch.compile(lambda x: x + 2, backend=compiler)(torch.ones(2))
    why = unjudged(recording.trace)
    assert set(why) == set(UNSEEN) and "could not be compiled" in why["break"]


def test_a_log_passes_only_what_it_records(traced: Callable[[Any], Trace], tmp_path: Path) -> None:
    """A folder of TORCH_COMPILE_DEBUG has no graph breaks, a TORCH_TRACE log has, and nothing of it is lost."""
    traced(block).save_debug_dir(tmp_path)
    folder = explorer.load(tmp_path)
    assert isinstance(folder, Trace)
    why = unjudged(folder)
    assert set(why) == {"break", "graphs", "fallback", "fused"} and "TORCH_COMPILE_DEBUG" in why["break"]
    for name in ("recompile", "failure"):
        assert [finding.judged for finding in RULES[name](folder)] == [False]
    log = explorer.load(DATA / "logs" / "artifacts.log.gz")
    assert isinstance(log, Trace) and log.find("log_record") and not log.failures
    testing.assert_no_graph_break(log)
    testing.assert_no_new_failure(log)


def test_spills_of_a_cpp_kernel_are_not_judged(on_cpu: Trace) -> None:
    """A C++ compiler does not say what it spills, so that no kernel passes for it."""
    text = message(testing.assert_no_spill, on_cpu)
    assert "not judged" in text and "C++" in text and "h100" in text


def test_wrong_arguments_say_what_to_give(traced: Callable[[Any], Trace]) -> None:
    """What is no trace, no list and no number is refused before anything is judged."""
    with pytest.raises(InputError, match="takes a trace"):
        testing.assert_no_spill(block)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"\['aten.mm'\]"):
        testing.assert_no_new_fallback(traced(block), "aten.mm")
    with pytest.raises(InputError, match="two parts or more"):
        testing.assert_fused(traced(block), "sum")
    with pytest.raises(InputError, match="a number"):
        testing.assert_peak_memory(traced(block), "1 GB")  # type: ignore[arg-type]
    for limit in (float("inf"), float("nan")):
        with pytest.raises(InputError, match="a finite number"):
            testing.assert_peak_memory(traced(block), limit)
    with pytest.raises(InputError, match="different parts"):
        testing.assert_fused(traced(block), "sum", "sum")
    with pytest.raises(InputError, match="inference"):
        testing.assert_fused(traced(block), "mul", "sum", graph="forward")
