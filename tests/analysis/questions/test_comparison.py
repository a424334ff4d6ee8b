"""compare: traces for other devices, versions and options, and after an edit, side by side."""

from __future__ import annotations

import ast
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import nn

import explorer
from explorer.analysis.questions import comparison, memory
from explorer.analysis.questions.comparison import figures, launches, ops
from explorer.analysis.questions.kernel_bytes import Traffic, bytes_moved, traffic
from explorer.analysis.questions.matched_kernels import matched_kernels
from explorer.analysis.questions.user_lines import compiled_kernels
from explorer.capture.compilers.compilers import compiler_named
from explorer.model.syntax import parsed
from explorer.model.values import LAUNCH
from explorer.process.garbage import NO_FULL_COLLECTION
from explorer.stages.fx_graph import FxGraph
from explorer.stages.inductor import output_code
from explorer.tracing.traced import Trace
from explorer.tracing.traced.comparison import Comparison
from tests.facts import says, untold
from tests.zoo_programs import split_sum

Replayed = Callable[[str], Trace]


@pytest.fixture
def plain(zoo: Replayed) -> Trace:
    """A program for an H100, as Inductor decides."""
    return zoo("softmax h100")


@pytest.fixture
def apart(zoo: Replayed) -> Trace:
    """The same program with fusion off."""
    return zoo("softmax h100 apart")


def column(rows: explorer.model.values.Table, key: str) -> list[object]:
    return [row[key] for row in rows]


def figure(c: Comparison, name: str) -> list[object]:
    (row,) = c.figures.where(figure=name)
    return [row[n] for n in c.names]


def test_a_trace_and_itself_are_the_same(plain: Trace) -> None:
    """Every group is the same, nothing is fused differently, each ratio is 1."""
    c = explorer.compare(plain, plain)
    assert c.names == ("trace 1", "trace 2")
    assert set(column(c.groups, "what")) == {"same"} and c.fusion == ()
    assert {row["ratio"] for row in c.figures} == {1.0}


def test_fusion_off_splits_a_group(plain: Trace, apart: Trace) -> None:
    """The softmax's kernel becomes three; the values are matched, and neighbours that are apart are named."""
    c = explorer.compare(plain, apart, names=("fused", "apart"))
    (split,) = c.groups.where(what="split")
    assert (len(split["fused"]), len(split["apart"])) == (1, 3)
    assert figure(c, "kernels") == [1, 3] and figure(c, "kernel launches") == [1, 3] and figure(c, "library calls") == [1, 1]
    rows = c.fusion
    assert {(row["fused_in"], row["apart_in"]) for row in rows} == {("fused", "apart")}
    assert "prepare_softmax_online" in rows[0]["first"] and "tanh" in rows[0]["first"]
    assert "split" in repr(c) and "kernel launches" in repr(c)


def test_a_printed_comparison_says_which_groups_are_not_the_same(plain: Trace, apart: Trace) -> None:
    """Each with its nodes in both traces and the reason; of many the first ones, and how many more there are."""
    comparison = explorer.compare(plain, apart, names=("fused", "apart"))
    split = next(row for row in comparison.groups if row["what"] == "split")
    assert split["why"] and f"split: {', '.join(split['fused'])} | {', '.join(split['apart'])}; {split['why']}" in repr(
        comparison
    )
    assert "same" not in repr(comparison).partition("fused groups:")[2].partition("\n")[2]


def test_an_edit_leaves_the_other_lines_matched(plain: Trace, zoo: Replayed) -> None:
    """Another name, another first line and one more operator: what both compute is matched by its code."""
    c = explorer.compare(plain, zoo("softmax h100 edited"), names=("before", "after"))
    both = [row for row in c.nodes if row["before"] and row["after"]]
    assert {"aten.mm.default", "prims.prepare_softmax_online.default"} <= {row["operator"] for row in both}
    only = [row["operator"] for row in c.nodes if not row["before"]]
    assert "aten.sum.dim_IntList" in only


@pytest.mark.parametrize("program", ["mlp_train", "attention", "recompile", "toy_example"])
def test_versions_of_torch_are_compared(program: str, replayed: Replayed) -> None:
    """Recordings of torch 2.11 and 2.15 are named by version; every node of the newer has its like in the older."""
    c = explorer.compare(*(replayed(f"{program}-torch{version}-cpu") for version in ("2.11", "2.15")))
    assert all(name.startswith(version) for name, version in zip(c.names, ("2.11", "2.15"), strict=True))
    matched = [bool(row[c.names[0]]) and bool(row[c.names[1]]) for row in c.nodes]
    assert matched and sum(matched) >= 0.8 * len(matched)


def test_more_than_two_traces(plain: Trace, apart: Trace) -> None:
    """A column each, and the ratio of the last to the first."""
    c = explorer.compare(plain, apart, plain, names="abc")
    (row,) = c.figures.where(figure="kernels")
    assert [row[n] for n in "abc"] == [1, 3, 1] and row["ratio"] == 1.0


def test_a_node_in_one_trace_only(plain: Trace, zoo: Replayed) -> None:
    """A trace of other code shares no value: its groups are in it only."""
    c = explorer.compare(plain, zoo("inverse h100"), names=("a", "b"))
    assert set(column(c.groups, "what")) == {"only in a", "only in b"}


@pytest.mark.parametrize(
    ("traces", "names", "facts"),
    [
        ((Trace(), 3), (), ("explorer.compare(t1, t2)", "int")),
        ((Trace(),), (), ("explorer.compare(t1, t2)", "1")),
        ((Trace(), Trace()), ("a",), ("2", "names", "('a',)")),
        ((Trace(), Trace()), "aa", ("2", "names", "('a', 'a')")),
    ],
)
def test_what_cannot_be_compared(traces: tuple[Trace, ...], names: tuple[str, ...], facts: tuple[str, ...]) -> None:
    """One trace, or names that do not tell them apart, is an error that says so."""
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        explorer.compare(*traces, names=names)


def test_traces_with_nothing_compiled() -> None:
    """Empty traces have nothing to compare, and are no error."""
    c = explorer.compare(Trace(), Trace())
    assert c.figures == () and c.groups == () and "none" in repr(c)


def test_the_operators_of_a_recording(replayed: Replayed) -> None:
    """Each scheduler node has a key of its own; launches and library calls are counted in the output code."""
    trace = replayed("mlp_train-torch2.11-cuda")
    keys = [op.key for op in ops(trace)]
    assert len(set(keys)) == len(keys) > 5
    assert launches(trace) == (3, 5)


def test_what_is_not_known_is_empty(plain: Trace) -> None:
    """Registers and spills of a kernel without machine code are None and stand empty, not 0."""
    nvidia = plain  # an Intel GPU's trace has no stage of Triton's, where this triton does not compile for it
    without = tuple(a for a in nvidia.artifacts if a.stage not in ("ttir", "ttgir", "llir", "ptx"))
    intel = replace(nvidia, artifacts=without, meta={**nvidia.meta, "target": "b580"})
    assert len(without) == len(nvidia.artifacts) - 4 * len(nvidia.kernels)
    c = explorer.compare(nvidia, intel)
    one, other = figure(c, "most registers of a kernel")
    assert one > 0 and other is None  # type: ignore[operator]
    (line,) = [line for line in repr(c).splitlines() if line.startswith("most registers")]
    assert line.split()[-1] == str(one)
    assert figures(intel)["spilled bytes"] is None and figures(nvidia)["spilled bytes"] == 0
    assert all(seconds > 0 for seconds in figure(c, "estimated seconds"))  # type: ignore[operator]
    assert figures(Trace(meta={"target": "cpu"}))["most registers of a kernel"] is None


def test_values_computed_from_others_differ(zoo: Replayed) -> None:
    """`a @ b` is the same line and operator; where b was computed otherwise it is matched, and not the same."""
    first, again = zoo("b twice h100"), zoo("b twice again h100")
    for name in ("b thrice h100", "b twice rounded h100"):
        other = zoo(name)
        c = explorer.compare(first, other, names="ab")
        rows = {row["operator"]: row["same"] for row in c.nodes if row["a"] and row["b"]}
        # torch 2.11 removes a cast to half and back, and what is left is the first function
        removed = name == "b twice rounded h100" and "convert_element_type" not in other.text("post_grad")
        assert rows["aten.mm.default"] is removed and rows["aten.sin.default"] is True
        assert ("values differ" in column(c.groups, "what")) is not removed
    c = explorer.compare(first, again)
    assert set(column(c.groups, "what")) == {"same"} and all(column(c.nodes, "same"))


def test_the_same_code_for_other_sizes_is_the_same(plain: Trace, zoo: Replayed) -> None:
    """A dynamic size changes no value: what is matched is computed from the same."""
    rows = [row for row in explorer.compare(plain, zoo("softmax h100 dynamic"), names="ab").nodes if row["a"] and row["b"]]
    assert rows and all(row["same"] for row in rows)


def test_what_backward_gets_is_known_by_how_forward_made_it(zoo: Replayed) -> None:
    """Of two trainings with another activation, the gradient's product with the weight is computed from other values."""
    first = zoo("sine training h100")
    same, other = (explorer.compare(first, zoo(name), names="ab") for name in ("sine again training h100", "tanh training h100"))
    assert all(row["same"] for row in same.nodes) and set(column(same.groups, "what")) == {"same"}
    assert not any(row["same"] for row in other.nodes if row["graph"] == "backward" and row["a"] and row["b"])


# Several compilers --------------------------------------------------------------------------------------------------------


class Linear(nn.Module):
    """A product, and two lines behind it that need no memory between them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        z = torch.relu(y)
        return z + 1.5


@pytest.fixture(scope="module")
def compilers() -> Iterator[Comparison]:
    """One module by IREE, and by PyTorch's backend that runs Dynamo's graph as it is."""
    iree = compiler_named("iree")
    assert iree is not None
    if iree.missing:
        pytest.skip(f"IREE is not installed: {iree.remedy}")
    torch.manual_seed(0)
    module, x = Linear(), torch.randn(2, 8)
    yield explorer.compare(*(explorer.trace(module, x, backend=name) for name in ("iree", "eager")))


def test_what_inductor_and_iree_made_of_a_line(replayed: Replayed) -> None:
    """IREE has one dispatch of all three lines; Inductor calls a library for each product. The texts stand side by side."""
    c = explorer.compare(replayed("iree_linear-torch2.13-cpu"), replayed("mlp_train-torch2.13-cpu"), names=("iree", "inductor"))
    rows = {row["code"]: row for row in c.lines.where(graph="forward")}
    (dispatch,) = rows["z = torch.relu(y)"]["iree"]
    assert rows["y = self.linear(x)"]["iree"] == rows["return z + 1.5"]["iree"] == (dispatch,) and "matmul" in dispatch
    assert rows["hidden = functional.gelu(self.up(x))"]["inductor"] == ("extern_kernels.addmm", "cpp_fused_gelu_0")
    assert rows["z = torch.relu(y)"]["inductor"] == rows["return self.down(hidden)"]["iree"] == ()
    backward = [row["inductor"] for row in c.lines.where(graph="backward")]
    assert backward and all("cpp_fused_gelu_gelu_backward_sum_0" in kernels for kernels in backward)
    (fused,) = c.kernels.where(trace="iree")
    assert fused["kernel"] == dispatch and len(fused["lines"]) == 3
    assert figure(c, "kernels") == [1, 3] and figure(c, "library calls") == [None, 5], "what IREE does not have is not 0"

    line = c.line("torch.relu")
    assert "arith.cmpf ugt" in repr(line) and "linalg.matmul" not in repr(line) and "arith.cmpf" in line._repr_html_()
    (without,) = (text for text in repr(line).splitlines() if text.startswith("---- inductor"))
    assert not untold(without, "no kernel")
    headings = [text for text in repr(line).splitlines() if text.startswith(dispatch)]
    assert headings and not any(untold(heading, "fused", "108", "110") for heading in headings)
    assert "flow · IREE" in repr(c.line(110)) and dispatch in c._repr_html_() and dispatch in repr(c)


@pytest.mark.parametrize(
    ("which", "facts", "unlisted"),
    [("no such code", ("'no such code'", "kernel", "108", "109", "110"), "111"), ("z", ("'z'", "109", "110"), "108")],
)
def test_a_line_that_is_not_one_is_refused(replayed: Replayed, which: str, facts: tuple[str, ...], unlisted: str) -> None:
    """The error lists the lines that there are, or those that fit."""
    trace = replayed("iree_linear-torch2.13-cpu")
    with pytest.raises(explorer.errors.InputError, match=says(*facts)) as raised:
        explorer.compare(trace, trace).line(which)
    assert untold(str(raised.value), unlisted)


def test_every_kernel_of_inductor_and_every_library_call_is_one(replayed: Replayed) -> None:
    """The kernels of the comparison are those that the wrapper launches and the library's functions that it calls."""
    trace = replayed("mlp_train-torch2.11-cuda")
    made = [kernel.name for kernel in compiled_kernels(trace)]
    launched, called = launches(trace)
    assert sum(name.startswith("extern_kernels.") for name in made) == called
    assert {k.name for k in trace.kernels} == {name for name in made if not name.startswith("extern_kernels.")} and launched


@pytest.mark.parametrize("program", ["sin_cos", "mlp_train", "attention"])
def test_bytes_between_kernels_are_those_that_inductor_counts(program: str, replayed: Replayed) -> None:
    """Each kernel and call reads and writes what Inductor's own figures say, where a kernel has no node that reads another's."""
    trace = replayed(f"{program}-torch2.13-cpu")
    moved: Counter[tuple[int | None, int | None]] = Counter((t.read, t.written) for _, t in traffic(trace))
    counted: Counter[tuple[int, int]] = Counter()
    by_kernel: dict[str, list[tuple[int, int]]] = {}
    for row in trace.fusion.groups:
        if row["kernels"]:
            by_kernel.setdefault(row["kernels"][0], []).append((row["read"], row["written"]))
        elif row["read"]:
            counted[row["read"], row["written"]] += 1
    counted += Counter((sum(read for read, _ in rows), sum(written for _, written in rows)) for rows in by_kernel.values())
    assert moved == counted and moved


def test_bytes_that_are_not_known_are_not_guessed(replayed: Replayed) -> None:
    """IREE's one dispatch reads the input, the weight and the bias; without the links of one node nothing is said."""
    trace = replayed("iree_linear-torch2.13-cpu")
    assert [moved for _, moved in traffic(trace)] == [Traffic(4 * (2 * 8 + 4 * 8 + 4), 4 * 2 * 4)]
    (flow,) = trace.find("iree_flow")
    relu = [n for n, line in enumerate(flow.lines, 1) if "arith.cmpf" in line or "arith.select" in line]
    kept = tuple(link for link in trace.links if link.source != flow.id or not set(link.source_lines) & set(relu))
    assert bytes_moved(replace(trace, links=kept)) is None


def test_bytes_of_a_kernel_that_is_called_twice_are_not_guessed(replayed: Replayed) -> None:
    """One dispatch or kernel that computes the nodes of two calls: what passes from the first to the second is not stated."""
    trace = replayed("iree_linear-torch2.13-cpu")
    (flow,) = trace.find("iree_flow")
    call = next(line for line in flow.lines if "flow.dispatch @" in line)
    twice = replace(flow, text=f"{flow.text}\n{call}")
    called_twice = replace(trace, artifacts=tuple(twice if a is flow else a for a in trace.artifacts))
    assert [kernel.calls for kernel in compiled_kernels(called_twice)] == [2] and bytes_moved(called_twice) is None
    inductor = replayed("sin_cos-torch2.13-cpu")
    launch = next(link for link in inductor.links if link.how == LAUNCH)
    launched_twice = replace(inductor, links=(*inductor.links, replace(launch, source_lines=(1,))))
    assert bytes_moved(inductor) == 512 and bytes_moved(launched_twice) is None


def test_bytes_between_the_halves_of_a_node_are_not_guessed(zoo: Replayed) -> None:
    """A sum that Inductor splits passes partial sums between two kernels, which are no tensor of the graph."""
    trace = zoo("split sum h100")
    assert len(trace.kernels) == 2 and bytes_moved(trace) is None
    assert [moved for _, moved in traffic(zoo("transposed h100"))] == [Traffic(4 * 64 * 64, 4 * 64 * 64)], (
        "two looks at one tensor"
    )


@pytest.mark.compile
def test_a_reduction_that_one_trace_splits_says_why(zoo: Replayed) -> None:
    """The kernel that only one trace has says how many nodes each takes for its value, and why Inductor splits any."""
    whole = explorer.trace(split_sum, torch.ones(2**20), target="h100", options={"split_reductions": False})
    found = matched_kernels(explorer.compare(zoo("split sum h100"), whole, names=("parts", "whole")))
    (apart,) = (match for match in found if match.what == "only in parts")
    assert not untold(apart.why, "takes 2 nodes in parts, 1 node in whole", "multiprocessors")
    assert not any(match.why for match in found if match is not apart)


def test_dispatches_are_the_functions_that_iree_compiled(replayed: Replayed) -> None:
    """The dispatches that the flow dialect has are those that there is machine code of, by the same names."""
    trace = replayed("iree_linear-torch2.13-cpu")
    assert [kernel.name for kernel in compiled_kernels(trace)] == [a.kernel for a in trace.find("iree_assembly")]


@pytest.mark.compile
def test_compilers_are_named_and_timed_in_one_run(compilers: Comparison) -> None:
    """The traces are named by their backends, and the calls are timed in turn beside the function itself, which runs."""
    assert compilers.names == ("iree", "eager")
    assert figure(compilers, "kernels") == [1, None], "PyTorch ran Dynamo's graph, and which kernels it has is not known"
    rows = compilers.benchmark(3)
    assert column(rows, "what") == ["not compiled", "iree", "eager"] and rows[0]["ratio_to_eager"] == 1.0
    assert all(row["seconds"] > 0 and row["processor_seconds"] >= 0 and row["cores"] >= 1 for row in rows)
    with pytest.raises(explorer.errors.InputError, match=says("repeats", "1", "0")):
        compilers.benchmark(0)


def test_what_is_loaded_is_compared_but_not_timed(replayed: Replayed) -> None:
    """A recording has no process that could call what was compiled."""
    trace = replayed("iree_linear-torch2.13-cpu")
    with pytest.raises(explorer.errors.LiveError):
        explorer.compare(trace, trace).benchmark()


def test_the_nodes_that_onnx_runtime_runs_are_its_kernels(replayed: Replayed) -> None:
    """Of all levels the last one counts: there the product and the ReLU are one node, and the addition is another."""
    trace = replayed("onnxrt_linear-torch2.13-cpu")
    made = compiled_kernels(trace)
    assert {kernel.artifact.stage for kernel in made} == {"onnxrt_all"}
    assert [[line.code for line in kernel.user_lines] for kernel in made] == [
        ["y = self.linear(x)", "z = torch.relu(y)"],
        ["return z + 1.5"],
    ]
    c = explorer.compare(trace, replayed("iree_linear-torch2.13-cpu"), names=("onnxrt", "iree"))
    assert figure(c, "kernels") == [2, 1] and all(row["onnxrt"] and row["iree"] for row in c.lines)
    one, other = figure(c, "between kernels (bytes)")
    assert one == other + 2 * 4 * 2 * 4, "what the ReLU gives is written once and read once"  # type: ignore[operator]


def test_the_functions_that_tvm_compiles_are_its_kernels(replayed: Replayed) -> None:
    """They are those that there is machine code of; a function that two lines call computes both, and its bytes are not known."""
    trace = replayed("tvm_linear-torch2.13-cpu")
    made = compiled_kernels(trace)
    assert sorted(f"{kernel.name}_compute_" for kernel in made) == sorted(a.kernel for a in trace.find("tvm_assembly"))
    twice = {kernel.name: kernel.calls for kernel in made}
    assert twice["fused_matmul_add_relu"] == twice["transpose"] == 2 and bytes_moved(trace) is None
    assert all(kernel.user_lines for kernel in made)


def test_the_instructions_of_xlas_entry_are_its_kernels(replayed: Replayed) -> None:
    """Those that XLA compiled have machine code, the others are a library's products; each computes lines of the program."""
    trace = replayed("xla_linear-torch2.13-cpu")
    made = {kernel.name: kernel for kernel in compiled_kernels(trace)}
    compiled = {artifact.kernel for artifact in trace.find("xla_llvm")}
    assert compiled < set(made) and {name.partition(".")[0] for name in set(made) - compiled} == {"ynn_fusion"}
    assert all(kernel.user_lines for kernel in made.values())
    products = [line.code for name in set(made) - compiled for line in made[name].user_lines]
    assert sorted(products) == ["y = torch.relu(self.first(x))", "z = torch.relu(self.second(y))"]
    c = explorer.compare(trace, replayed("tvm_linear-torch2.13-cpu"), names=("xla", "tvm"))
    by_both = [{row["code"] for row in c.lines if row[name]} for name in ("xla", "tvm")]  # recorded at other line numbers
    assert figure(c, "kernels")[0] == len(made) and by_both[0] == by_both[1] and len(by_both[0]) == 3


def test_a_graph_that_lacks_a_node_that_others_use_moves_unknown_bytes(replayed: Replayed) -> None:
    """A file may name an input that its graph does not have: nothing is said of its bytes, and nothing is raised."""
    trace = replayed("sin_cos-torch2.13-cpu")
    without = tuple(
        replace(a, data=replace(a.data, nodes=tuple(n for n in a.data.nodes if n.op != "placeholder")))
        if isinstance(a.data, FxGraph)
        else a
        for a in trace.artifacts
    )
    assert bytes_moved(trace) is not None and bytes_moved(replace(trace, artifacts=without)) is None


def test_figures_parse_each_wrapper_once(replayed: Replayed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory and launches are read of one tree."""
    texts: list[str] = []

    def counted(text: str) -> ast.Module:
        texts.append(text)
        return parsed(text)

    trace = replayed("mlp_train-torch2.13-cpu")
    expected = figures(trace)
    for module in (memory, output_code):
        monkeypatch.setattr(module, "parsed", counted)
    fresh = replace(trace, artifacts=tuple(map(replace, trace.artifacts)))
    assert figures(fresh) == expected and len(fresh.find("output_code")) == 2
    assert texts == [a.text for a in fresh.find("output_code")]


def test_no_full_collection_walks_what_a_comparison_reads(replayed: Replayed, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it stays alive, and the collector is as it was afterwards."""
    before, thresholds = gc.get_threshold(), []

    def noted(trace: Trace) -> dict[str, object]:
        thresholds.append(gc.get_threshold()[2])
        return {"frames compiled": 1}

    monkeypatch.setattr(comparison, "figures", noted)
    trace = replayed("sin_cos-torch2.13-cpu")
    assert explorer.compare(trace, trace).figures and thresholds == [NO_FULL_COLLECTION] * 2
    assert gc.get_threshold() == before
