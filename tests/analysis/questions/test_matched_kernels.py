"""Which kernels and texts of several traces match."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from importlib.metadata import version

import pytest

import explorer
from explorer.analysis.questions.fusion import fusion_of
from explorer.analysis.questions.kernel_differences import Likeness, likenesses, summary
from explorer.analysis.questions.matched_kernels import Bound, KernelMatch, MatchedKernel, matched_kernels
from explorer.analysis.questions.matched_texts import matched_texts
from explorer.model.records import blank
from explorer.model.shared import Source
from explorer.model.stage import KernelPlace, Stage
from explorer.model.trace_data import artifact_of
from explorer.model.values import Artifact, Link
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of
from explorer.view.compared import payload_of_comparison
from tests.facts import untold

Replayed = Callable[[str], Trace]


def names(match: KernelMatch) -> list[list[str]]:
    return [[kernel.name for kernel in of] for of in match.kernels]


def test_a_trace_and_itself_match_kernel_by_kernel(replayed: Replayed) -> None:
    """Each kernel and each call is matched with itself alone, at the same costs, also those of one name."""
    t = replayed("mlp_train-torch2.13-cpu")
    found = matched_kernels(explorer.compare(t, t))
    assert {match.what for match in found} == {"same"} and len(found) == 8
    assert all(one == other for one, other in (match.kernels for match in found))
    calls = [kernel for match in found for kernel in match.kernels[0] if kernel.name.startswith("extern_kernels")]
    assert len({(kernel.artifact, kernel.line) for kernel in calls}) == len(calls) == 5
    for kernel in calls:
        assert kernel.name in artifact_of(t, kernel.artifact).lines[kernel.line - 1]
    assert sum(kernel.bytes or 0 for kernel in calls) == sum(row["read"] + row["written"] for row in t.inductor.extern_calls)


def test_a_fused_node_may_name_its_nodes_in_any_order(replayed: Replayed) -> None:
    """The name of a fused node in the IR after fusion lists its nodes in an order of its own: what it computes is known still."""
    t = replayed("views/rotary-torch2.13-h100")

    def turned(a: Artifact) -> Artifact:
        if a.stage != "ir_post_fusion":
            return a
        nodes = tuple(replace(node, name="_".join(reversed(node.fused))) if node.fused else node for node in a.nodes)
        return replace(a, data=replace(a.data, nodes=nodes))

    other = trace_of(replace(t, artifacts=tuple(map(turned, t.artifacts))))
    found = matched_kernels(explorer.compare(t, other, names=("one", "other")))
    assert {match.what for match in found} == {"same"}


def test_a_kernel_that_a_trace_lacks_is_only_in_the_other(replayed: Replayed) -> None:
    """Without the backward graph in one trace, its kernels are only in the other."""
    t = replayed("mlp_train-torch2.13-cpu")
    kept = {a.id for a in t.artifacts if a.graph != "backward"}
    forward = trace_of(replace(t, artifacts=tuple(a for a in t.artifacts if a.id in kept)))
    found = matched_kernels(explorer.compare(t, forward, names=("both", "forward")))
    assert {(match.graph, match.what) for match in found} == {("forward", "same"), ("backward", "only in both")}
    assert not any(match.why for match in found), "nothing is split: the other trace has no such graph"


def test_compilers_are_matched_by_the_lines_of_the_program(replayed: Replayed) -> None:
    """IREE's one dispatch computes what ONNX Runtime has two nodes for; each says the bytes that it moves."""
    engines = explorer.compare(replayed("iree_linear-torch2.13-cpu"), replayed("onnxrt_linear-torch2.13-cpu"))
    (match,) = matched_kernels(engines)
    assert match.what == "split" and list(map(len, match.kernels)) == [1, 2]
    assert match.code == ("y = self.linear(x)", "z = torch.relu(y)", "return z + 1.5")
    assert [sum(kernel.bytes or 0 for kernel in of) for of in match.kernels] == [240, 304]


def test_the_reason_for_more_kernels_is_that_of_their_own_nodes(zoo: Replayed) -> None:
    """Two nodes that one GPU keeps apart are those of the kernels beside the reason, also where another graph, or the other half
    of a split sum, has nodes of these names or values; kernels of the same fused nodes differ by a line of their code.
    """
    traces = zoo("two norms h100"), zoo("two norms mi300x")
    found = matched_kernels(explorer.compare(*traces, names=("h100", "mi300x")))
    groups = [row for graph in fusion_of(traces[0]).graphs for row in graph.groups()]

    def nodes_of(match: KernelMatch) -> list[set[str]]:
        rows = [row for row in groups if row["graph"] == match.graph]
        return [{node for row in rows if kernel in row["kernels"] for node in row["nodes"]} for kernel in names(match)[0]]

    backward = [match for match in found if match.graph == "backward" and match.what == "split"]
    if not backward and version("torch") < "2.13":
        pytest.skip("this torch splits the sums of the backward alike for both GPUs")
    apart, shared = sorted(backward, key=lambda match: match.why)
    pair = re.fullmatch(r"apart in h100: (op\d+) and (op\d+) read and write .*", apart.why)
    assert apart.kept_apart is not None and apart.kept_apart.shared_bytes > 0 and shared.kept_apart is None
    assert str(apart.kept_apart) == apart.why and (apart.kept_apart.apart_in, apart.kept_apart.fused_in) == ("h100", "mi300x")
    assert not untold(apart.why, " Fused in mi300x: ", "is fused" if "is fused" in apart.why else "are fused", "share")
    assert pair is not None and all(name in nodes for name, nodes in zip(pair.groups(), nodes_of(apart), strict=True))
    assert shared.why.startswith("the same nodes are fused, for which h100 has 2 kernels, as their code differs: `")
    assert list(map(len, shared.kernels)) == [2, 1]
    for kernel, line in zip(shared.kernels[0], re.findall(r"`([^`]+)` in ", shared.why), strict=True):
        other = next(one for one in shared.kernels[0] if one is not kernel)
        assert line in artifact_of(traces[0], kernel.artifact).text and line not in artifact_of(traces[0], other.artifact).text
    (forward,) = (match for match in found if match.graph == "forward" and match.what == "split")
    assert not untold(forward.why, "aten.mean", "takes 3 nodes in h100, 2 nodes in mi300x", "multiprocessors")


def test_kernels_of_other_values_say_which_value_differs() -> None:
    """A kernel that computes a line more than the other's names the line and the trace that has it."""
    one, other = compiled("return x * 2"), compiled("y = x + 1", "return x * 2")
    fused = replace(
        other, links=(Link("text", (1,), "source", (2,), "stack_trace"), Link("text", (1,), "source", (3,), "stack_trace"))
    )
    text = replace(fused.artifacts[1], text="k0")
    fused = trace_of(replace(fused, artifacts=(fused.artifacts[0], text)))
    (match,) = matched_kernels(explorer.compare(one, fused, names=("one", "other")))
    assert (match.what, match.why) == ("values differ", "`y = x + 1` is computed only in other")


def a_kernel_a_line(text: Artifact) -> list[KernelPlace]:
    return [KernelPlace(line, (number,)) for number, line in enumerate(text.lines, 1)]


def compiled(*code: str) -> Trace:
    """A function that another compiler than Inductor compiled, with a kernel for each of its lines."""
    source = Artifact(
        "source",
        "source",
        "0/0",
        "",
        "f",
        "python",
        "\n".join(("def f(x):", *code)),
        data=blank(Source, function="f", qualname="f", file="f.py", first_line=1, compiled=True),
    )
    text = Artifact("text", "lines", "0/0", "forward", "lines", "text", "\n".join(f"k{n}" for n in range(len(code))))
    links = tuple(Link("text", (n,), "source", (n + 1,), "stack_trace") for n in range(1, len(code) + 1))
    lines = Stage("lines", "Lines", "text", "A kernel a line.", lambda event, id: text, backend="lines", kernels=a_kernel_a_line)
    return Trace({"backend": "lines"}, (source, text), links, _stages=(lines,))


def test_a_line_that_an_edit_puts_in_is_no_line_of_the_first_trace() -> None:
    """A new line matches none of the first trace's kernels, also where a line there has the same number and code."""
    before = compiled("x = x + 1", "x = x.sin()", "return x * 2")
    after = compiled("x = x - 3", "x = x.sin()", "x = x + 1", "x = x.sin()", "return x * 2")
    comparison = explorer.compare(before, after, names=("before", "after"))
    found = [(match.what, *map(tuple, names(match))) for match in matched_kernels(comparison)]
    assert sorted(found) == [
        ("only in after", (), ("k0",)),
        ("only in after", (), ("k1",)),
        ("same", ("k0",), ("k2",)),
        ("same", ("k1",), ("k3",)),
        ("same", ("k2",), ("k4",)),
    ]
    made = payload_of_comparison(comparison)
    table = [(row["code"], row["before"], row["after"]) for row in comparison.lines]
    assert table == [(row["code"], *(tuple(place["name"] for place in of) for of in row["kernels"])) for row in made["lines"]]
    assert {("x = x + 1", ("k0",), ("k2",)), ("x = x.sin()", (), ("k1",)), ("x = x.sin()", ("k1",), ("k3",))} <= set(table)
    (put_in,) = (row for row in made["lines"] if row["code"] == "x = x.sin()" and not row["kernels"][0])
    assert (made["artifacts"][put_in["artifact"]]["id"], put_in["at"]) == ("after source", 3)


def test_an_edited_line_is_one_line_by_either_of_its_codes() -> None:
    """`lines` has one row for it, numbered as in the first trace, and `line` shows what each trace made of its own form."""
    before, after = compiled("x = x.sin()", "return x * 2"), compiled("x = x.sin()", "return x * 3")
    comparison = explorer.compare(before, after, names=("before", "after"))
    assert [(row["line"], row["before"], row["after"]) for row in comparison.lines] == [
        (2, ("k0",), ("k0",)),
        (3, ("k1",), ("k1",)),
    ]
    for which in ("x * 2", "x * 3", 3):
        found = comparison.line(which)
        assert found.line.code == "return x * 2" and [text.name for of in found.texts.values() for text in of] == ["k1", "k1"]


def test_what_no_record_says_is_not_known(replayed: Replayed) -> None:
    """A recording of an older version does not say what its kernels of several nodes compute: they are not called kernels of
    one trace only.
    """
    old = explorer.compare(replayed("mlp_train-torch2.13-cpu"), replayed("mlp_train-torch2.11-cuda"))
    found = matched_kernels(old)
    kernels = [
        (match.what, kernel) for match in found for of in match.kernels for kernel in of if kernel.name.startswith("triton")
    ]
    unknown = {what for what, kernel in kernels if not kernel.computes}
    assert len(kernels) == 3 and unknown == {"not known"}
    assert not [match for match in found if match.what.startswith("only in")]
    assert all(bool(match.why) == (match.what == "not known") for match in found)
    names_of = [(match.why, kernel.name) for match in found for of in match.kernels for kernel in of if not kernel.computes]
    assert names_of and all(name in why for why, name in names_of)


def alike(*traces: Trace) -> tuple[list[Likeness], list[str]]:
    """How alike the generated kernels of some traces are, and what sums it up."""
    comparison = explorer.compare(*traces, names=("one", "other"))
    matches = matched_kernels(comparison)
    every = likenesses(comparison, matches)
    kernels = [one for one, match in zip(every, matches, strict=True) if match.kernels[0][0].name.startswith("triton")]
    return kernels, list(summary(every, [match.why for match in matches]))


def test_kernels_of_one_source_say_what_differs_below_it(replayed: Replayed) -> None:
    """On a GPU with warps of 64 threads the same kernels have twice as many threads a block; nothing else is said to differ."""
    trace = replayed("views/layers-torch2.13-h100")
    kernels, words = alike(trace, replace(trace, meta={**trace.meta, "target": "mi300x"}))
    assert kernels and {one.what for one in kernels} == {"same source"}
    assert all(list(one.differs) == ["threads a block"] for one in kernels)
    assert all(int(other) == 2 * int(own) for own, other in (one.differs["threads a block"] for one in kernels))
    assert not untold(" ".join(words), f"{len(kernels)} kernels have the same source", f"threads a block in {len(kernels)}")
    kernels, words = alike(trace, trace)
    assert not any(one.differs for one in kernels) and len(words) == 1


def test_another_source_of_the_same_values_is_not_called_the_same(replayed: Replayed) -> None:
    """A kernel whose code differs in one function computes the same values, but not from the same source."""
    trace = replayed("views/layers-torch2.13-h100")
    first = trace.find("kernel")[0]
    texts = (replace(a, text=a.text.replace("tl.store", "tl.atomic_add")) if a is first else a for a in trace.artifacts)
    kernels, words = alike(trace, trace_of(replace(trace, artifacts=tuple(texts))))
    assert [one.what for one in kernels].count("same values") == 1
    assert not untold(words[0], "1 kernel has the same values from another source")
    stores = sum("tl.store" in line for line in first.lines)
    (differs,) = [one.differs for one in kernels if one.what == "same values"]
    assert differs == {"source lines": (str(stores), str(stores))}


def test_a_reduction_that_is_split_otherwise_says_so(replayed: Replayed) -> None:
    """The sizes that the loops of a kernel run over are what differs, before the lines; other numbers of the values are not."""
    trace = replayed("views/layers-torch2.13-h100")
    first = next(a for a in trace.find("kernel") if "xnumel = " in a.text)
    rows = re.search(r"xnumel = (\d+)", first.text)
    assert rows
    text = first.text.replace(f"xnumel = {rows[1]}\n", "xnumel = 7\n").replace("tmp1", "tmp91")
    texts = (replace(a, text=text) if a is first else a for a in trace.artifacts)
    kernels, _ = alike(trace, trace_of(replace(trace, artifacts=tuple(texts))))
    (differs,) = [one.differs for one in kernels if one.what == "same values"]
    assert list(differs.items()) == [("xnumel", (rows[1], "7")), ("source lines", ("1", "1"))]
    assert str(Likeness("same values", differs)) == f"xnumel {rows[1]} | 7; 1 source line differs"
    assert str(Likeness("same values", {"source lines": ("0", "2")})) == "source lines that the others lack 0 | 2"
    split = "the same elements: the reduction is split otherwise"
    sizes = {"xnumel": ("1152", "768"), "r0_numel": ("128", "192")}
    assert str(Likeness("same values", sizes)) == f"xnumel 1152 | 768; r0_numel 128 | 192; {split}"
    assert split not in str(Likeness("same values", {**sizes, "xnumel": ("1152", "1152")}))
    assert split not in str(Likeness("same values", {"xnumel": ("6", "4"), "ynumel": ("2", "3")}))


def test_kernels_with_other_limits_say_them(replayed: Replayed) -> None:
    """Each kernel says what limits it; where that differs between the traces it is told before all other differences."""
    trace = replayed("views/layers-torch2.13-h100")
    comparison = explorer.compare(trace, trace, names=("one", "other"))
    match = next(one for one in matched_kernels(comparison) if not one.kernels[0][0].line)
    (one,), (other,) = match.kernels
    assert str(one.bound) == str(other.bound) == "the launch"
    limited = replace(other, bound=Bound("memory", "3,350 GB/s"))
    (alike,) = likenesses(comparison, [replace(match, kernels=((one,), (limited,)))])
    assert str(alike) == "limited by the launch | memory at 3,350 GB/s"


def test_calls_without_output_code_have_no_text(replayed: Replayed) -> None:
    """Traces that were asked for other stages than the output code can be beside each other, calls included."""
    t = replayed("mlp_train-torch2.13-cpu")
    kept = trace_of(replace(t, artifacts=tuple(a for a in t.artifacts if a.stage != "output_code")))
    made = payload_of_comparison(explorer.compare(t, kept, names=("whole", "part")))["comparison"]
    calls = [row["kernels"] for row in made["kernels"] if row["kernels"][0][0]["name"].startswith("extern_kernels")]
    assert len(calls) == 5 and all(one[0]["artifact"] >= 0 and other[0]["artifact"] == -1 for one, other in calls)


def test_each_kernel_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that only one trace has is not compared with all kernels of the other."""
    looks = Counter[str]()

    class Computed(dict[Hashable, str]):
        def __len__(self) -> int:
            looks["all"] += 1
            return super().__len__()

    every = [[MatchedKernel(f"k{n}", "forward", "", 0, Computed({(t, n): ""}), ()) for n in range(200)] for t in range(2)]
    monkeypatch.setattr("explorer.analysis.questions.matched_kernels.first_numbering", lambda traces: [{}, {}])
    monkeypatch.setattr("explorer.analysis.questions.matched_kernels._by_line", lambda trace, number, lines: every[number])
    found = matched_kernels(explorer.compare(Trace(), Trace(), names=("a", "b")))
    assert Counter(match.what for match in found) == {"only in a": 200, "only in b": 200}
    assert looks["all"] <= 5 * 400


def test_texts_of_one_stage_are_beside_each_other(replayed: Replayed) -> None:
    """Each text of a trace is matched with itself; of other compilers those stages that both have."""
    t = replayed("mlp_train-torch2.13-cpu")
    same = matched_texts((t, t), matched_kernels(explorer.compare(t, t)))
    assert sorted(same) == [(at, at) for at in range(len(t.artifacts))]
    iree, onnx = replayed("iree_linear-torch2.13-cpu"), replayed("onnxrt_linear-torch2.13-cpu")
    rows = matched_texts((iree, onnx), matched_kernels(explorer.compare(iree, onnx)))
    stages = {(iree.artifacts[a].stage, onnx.artifacts[b].stage) for a, b in rows}
    assert ("forward", "forward") in stages and all(one == other for one, other in stages)
