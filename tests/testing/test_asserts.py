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
from explorer.analysis.findings.facts import facts_of
from explorer.analysis.findings.rules import RULES
from explorer.errors import InputError
from explorer.model.trace_data import TraceData
from explorer.sources.files.trace_file import load_events
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of, trace_of_events
from tests.facts import says, untold

torch = pytest.importorskip("torch", reason="torch is not installed: the assertions are tried on compiles")
pytest.importorskip("triton", reason="triton is not installed: kernels for a GPU you don't have need it")
from tests import zoo_programs  # noqa: E402 it imports torch

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def on_cpu() -> Trace:
    """The trace of a training step in C++, from recorded events."""
    return trace_of_events(*load_events((DATA / "mlp_train-torch2.13-cpu.events.json.gz").read_bytes()))


def message(assertion: Callable[..., object], *arguments: Any, **settings: Any) -> str:
    with pytest.raises(testing.ContractError) as raised:
        assertion(*arguments, **settings)
    return str(raised.value)


# Graphs and kernels ------------------------------------------------------------------------------------------------------


@pytest.mark.compile
def test_a_graph_break_is_named_with_its_line(zoo: Callable[[str], Trace]) -> None:
    """As many breaks are found as torch's own `explain`, which compiles, counts, each with the user's line and torch's advice."""
    inputs = torch.ones(64, 128), torch.ones(128, 256)
    assert torch._dynamo.explain(zoo_programs.silu)(*inputs).graph_break_count == 0
    testing.assert_no_graph_break(zoo("silu h100"))
    with pytest.raises(testing.ContractError) as raised:
        testing.assert_no_graph_break(zoo("broken h100"))
    assert len(raised.value.findings) == torch._dynamo.explain(zoo_programs.broken)(*inputs).graph_break_count == 1
    text = str(raised.value)
    assert re.search(r"zoo_programs\.py:\d+: torch\._dynamo\.graph_break\(\)", text)
    assert "Remove the `torch._dynamo.graph_break()` call" in text, "torch's own hint"
    assert "t.dynamo.graph_breaks" in text
    torch._dynamo.reset()


def test_kernels_are_counted_as_the_output_code_defines_them(zoo: Callable[[str], Trace]) -> None:
    """The limit is the number of kernels that Inductor's output code compiles; above it all are listed with their lines."""
    defined = zoo("columns h100").text("output_code").count("async_compile.triton(")
    assert defined > 1
    testing.assert_kernels(zoo("columns h100"), defined)
    text = message(testing.assert_kernels, zoo("columns h100"), defined - 1)
    assert f"{defined} kernels" in text and "triton_" in text and "h.sum(-1)" in text


def test_graphs_are_counted_with_what_splits_them(zoo: Callable[[str], Trace]) -> None:
    """Two graphs are one too many, because of the break between them."""
    testing.assert_graphs(zoo("silu h100"), 1)
    assert "graph break" in message(testing.assert_graphs, zoo("broken h100"), 1)


# Fusions -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [("silu", "sum"), ("mul", "sum_1"), ("h * 2", "h.sum(-1)"), ("aten.mul.Tensor", "aten.sum")])
def test_what_one_kernel_computes_is_fused(parts: tuple[str, str], zoo: Callable[[str], Trace]) -> None:
    """Operators, nodes and lines whose operators Inductor's own comment gives to one kernel are fused."""
    (kernel,) = zoo("silu h100").kernels
    assert {"aten.silu", "aten.mul", "aten.sum"} <= set(kernel.operators)
    testing.assert_fused(zoo("silu h100"), *parts)


def test_a_piece_of_code_stands_for_its_own_operators(zoo: Callable[[str], Trace]) -> None:
    """Of a line that two kernels compute, a piece is what its operators are; where none is named, it is refused."""
    t = zoo("largest h100")
    assert len([kernel for kernel in t.kernels if "aten.sum" in kernel.operators]) < len(t.kernels)
    testing.assert_fused(t, "y.sum() + y", "amax")
    assert "apart" in message(testing.assert_fused, t, "y.sum()", "amax")
    with pytest.raises(InputError, match=says("'(y.'", "aten.sum.default", "aten.add.Tensor")):
        testing.assert_fused(t, "(y.", "amax")


def test_user_lines_go_by_their_numbers_too(zoo: Callable[[str], Trace]) -> None:
    """A line's number stands for what the line computes."""
    first = zoo("silu h100").find("source")[0].data["first_line"]
    assert "h = h * 2" in zoo("silu h100").find("source")[0].lines[3]
    testing.assert_fused(zoo("silu h100"), first + 3, first + 4)
    testing.assert_fused(zoo("silu h100"), "silu(x @ w)", first + 3, first + 4)


def test_what_is_not_fused_says_why(zoo: Callable[[str], Trace]) -> None:
    """The reason is the answer of `t.why`, with the lines and the kernels of both."""
    text = message(testing.assert_fused, zoo("columns h100"), "cumsum", "sum")
    assert zoo("columns h100").why("cumsum", "sum").sentence in text
    kernels = [k.name for k in zoo("columns h100").kernels if {"aten.cumsum", "aten.sum"} & set(k.operators)]
    assert all(name in text for name in kernels) and "h.sum(-1)" in text


def test_what_a_graph_break_keeps_apart_names_the_break(zoo: Callable[[str], Trace]) -> None:
    """Nodes of two graphs are apart because of the break between these, whose line is named."""
    text = message(testing.assert_fused, zoo("broken h100"), "silu", "sum")
    assert "different graphs" in text and "graph_break()" in text and "zoo_programs.py" in text


def test_forward_and_backward_must_both_be_fused(zoo: Callable[[str], Trace]) -> None:
    """Where both graphs compute the parts each is judged, unless `graph` names one."""
    t = zoo("waves training h100")
    testing.assert_fused(t, "x.exp()", "h.sin()")
    with pytest.raises(testing.ContractError) as raised:
        testing.assert_fused(t, "h.sin()", "(h @ w).cos()", "x.exp()")
    both = ("forward", "backward")
    assert [graph for f in raised.value.findings for graph in both if graph in f.actual] == [*both]
    text = message(testing.assert_fused, t, "h.sin()", "@ w", graph="backward")
    assert "graph backward" in text and "graph forward" not in text


@pytest.mark.parametrize(("part", "said"), [("slu", "silu"), (1, "line 1"), ("nothing + such", "unknown")])
def test_a_part_that_nothing_computes_is_not_judged(part: str | int, said: str, zoo: Callable[[str], Trace]) -> None:
    """A misspelt name or a wrong line fails, and offers what is there."""
    text = message(testing.assert_fused, zoo("silu h100"), part, "sum")
    assert not untold(text, "not judged", said)


def test_the_nearest_name_is_offered_first(zoo: Callable[[str], Trace]) -> None:
    """Behind a misspelt name stands the one that was meant, before the others that there are."""
    quoted = re.findall(r"'([^']*)'", message(testing.assert_fused, zoo("silu h100"), "slu", "sum"))
    assert quoted[quoted.index("slu") + 1] == "silu"


# Machine code, memory, calls, failures -----------------------------------------------------------------------------------


def test_spills_are_those_of_the_machine_code(zoo: Callable[[str], Trace]) -> None:
    """A kernel whose SASS stores to and loads from local memory spills; one without such instructions does not."""
    testing.assert_no_spill(zoo("silu h100"))
    t = zoo("spilling h100 sass")
    spilled = {"STL", "LDL"} & set(re.findall(r"\b(STL|LDL)\b", t.kernels[0].text("sass")))
    assert spilled == {"STL", "LDL"}
    text = message(testing.assert_no_spill, t)
    assert not untold(text, "many", "spills", "bytes", "registers")


def test_peak_memory_is_that_of_the_largest_graph(zoo: Callable[[str], Trace]) -> None:
    """The limit is on the bytes that are live at once: the arguments, which the program holds, the product and the sums of it."""
    live = 4 * (64 * 128 + 128 * 256 + 64 * 256 + 64)
    testing.assert_peak_memory(zoo("silu h100"), live + 1)
    text = message(testing.assert_peak_memory, zoo("silu h100"), live)
    assert not untold(text, "128 KiB", "input w", "x @ w")


def test_library_calls_are_those_that_are_not_allowed(zoo: Callable[[str], Trace]) -> None:
    """A product is a library's, and no fallback; allowed by its name, it is no finding."""
    assert "extern_kernels.mm" in zoo("silu h100").text("output_code")
    text = message(testing.assert_no_new_fallback, zoo("silu h100"))
    assert not untold(text, "aten.mm.default", "library call", "extern_kernels.mm", "x @ w")
    for allowed in (["aten.mm"], ["aten.mm.default"]):
        testing.assert_no_new_fallback(zoo("silu h100"), allowed)
    testing.assert_no_new_fallback(zoo("silu h100"), library=False)


def test_a_fallback_is_found_without_library_calls(zoo: Callable[[str], Trace]) -> None:
    """An operator that Inductor has no code for is a fallback."""
    t = zoo("inverse h100")
    assert "torch.ops.aten.linalg_inv_ex.default" in t.text("output_code")
    assert not untold(message(testing.assert_no_new_fallback, t, library=False), "aten.linalg_inv_ex.default", "fallback")


def test_a_call_with_a_kernel_beside_it_is_a_call(zoo: Callable[[str], Trace]) -> None:
    """A call is found where a kernel also computes something of the node, as the copy that a scatter writes into."""
    t = zoo("scattered h100")
    assert "scatter_reduce" in t.text("output_code").partition("def call")[2]
    text = message(testing.assert_no_new_fallback, t, library=False)
    assert not untold(text, "aten.scatter_reduce.two", "fallback") and "aten.scatter_reduce" in str(facts_of(t).calls)


@pytest.mark.compile
def test_failures_are_those_that_are_not_allowed(zoo: Callable[[str], Trace]) -> None:
    """A compile that fails is a failure, and one whose text is allowed is none."""

    def compiler(graph: Any, example: Any) -> Any:
        raise ValueError("no such thing")

    testing.assert_no_new_failure(zoo("silu h100"))
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
    "graph-break": testing.assert_no_graph_break,
    "graphs": lambda t: testing.assert_graphs(t, 99),
    "kernels": lambda t: testing.assert_kernels(t, 99),
    "fallback": lambda t: testing.assert_no_new_fallback(t, ["aten"]),
    "peak memory": lambda t: testing.assert_peak_memory(t, 1e15),
    "not-fused": lambda t: testing.assert_fused(t, "mul", "sum"),
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


def test_a_frame_that_a_cache_had_is_not_judged(zoo: Callable[[str], Trace]) -> None:
    """Where one frame was compiled and another's graph came from a cache, what became of that one is not known."""
    t = zoo("silu h100")
    assert not unjudged(t)
    cached = replace(t.find("dynamo")[0], id="1/0:dynamo", frame="1/0")
    why = unjudged(trace_of(TraceData(t.meta, (*t.artifacts, cached), t.links)))
    assert set(why) == {"kernels", "fallback", "peak memory", "not-fused"} and all("frame 1/0" in text for text in why.values())


@pytest.mark.compile
def test_a_program_that_was_compiled_in_part_is_not_judged() -> None:
    """With suppress_errors a function that fails runs in Python: nothing that it would break is said to hold."""

    def compiler(graph: Any, example: Any) -> Any:
        raise ValueError("no such thing")

    with torch._dynamo.config.patch(suppress_errors=True), explorer.record("cpu") as recording:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        torch.compile(lambda x: x + 2, backend=compiler)(torch.ones(2))
    why = unjudged(recording.trace)
    assert set(why) == set(UNSEEN) and "could not be compiled" in why["graph-break"]


def test_a_log_passes_only_what_it_records(zoo: Callable[[str], Trace], tmp_path: Path) -> None:
    """A folder of TORCH_COMPILE_DEBUG has no graph breaks, a TORCH_TRACE log has, and nothing of it is lost."""
    (graph := tmp_path / "model__0_inference_0.0").mkdir()
    for name, stage in (("fx_graph_transformed.py", "post_grad"), ("output_code.py", "output_code")):
        (graph / name).write_text(zoo("silu h100").text(stage), encoding="utf-8")
    folder = explorer.load(tmp_path)
    assert isinstance(folder, Trace)
    why = unjudged(folder)
    assert set(why) == {"graph-break", "graphs", "fallback", "not-fused"} and "TORCH_COMPILE_DEBUG" in why["graph-break"]
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


def test_wrong_arguments_say_what_to_give(zoo: Callable[[str], Trace]) -> None:
    """What is no trace, no list and no number is refused before anything is judged."""
    with pytest.raises(InputError, match=says("explorer.trace", "explorer.load", "builtin_function_or_method")):
        testing.assert_no_spill(torch.sin)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"\['aten.mm'\]"):
        testing.assert_no_new_fallback(zoo("silu h100"), "aten.mm")
    with pytest.raises(InputError, match=says("fusion", "parts", "two", "'sum'")):
        testing.assert_fused(zoo("silu h100"), "sum")
    with pytest.raises(InputError, match=says("number", "'1 GB'")):
        testing.assert_peak_memory(zoo("silu h100"), "1 GB")  # type: ignore[arg-type]
    for limit in (float("inf"), float("nan")):
        with pytest.raises(InputError, match=says("finite", repr(limit))):
            testing.assert_peak_memory(zoo("silu h100"), limit)
    with pytest.raises(InputError, match=says("fusion", "parts", "'sum'", "'sum_1'", "'sum_2'")):
        testing.assert_fused(zoo("silu h100"), "sum", "sum")
    with pytest.raises(InputError, match="inference"):
        testing.assert_fused(zoo("silu h100"), "mul", "sum", graph="forward")
