"""matched_kernels and matched_texts: which kernels and texts of several traces are beside each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import explorer
from explorer.questions.matched_kernels import KernelMatch, matched_kernels
from explorer.questions.matched_texts import matched_texts
from explorer.traced import Trace

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
        assert kernel.name in t.artifact(kernel.artifact).lines[kernel.line - 1]
    assert sum(kernel.bytes or 0 for kernel in calls) == sum(row["read"] + row["written"] for row in t.library_calls)


def test_a_kernel_that_a_trace_lacks_is_only_in_the_other(replayed: Replayed) -> None:
    """Without the backward graph in one trace, its kernels are only in the other."""
    t = replayed("mlp_train-torch2.13-cpu")
    kept = {a.id for a in t.artifacts if a.graph != "backward"}
    forward = Trace.of(replace(t, artifacts=tuple(a for a in t.artifacts if a.id in kept)))
    found = matched_kernels(explorer.compare(t, forward, names=("both", "forward")))
    assert {(match.graph, match.what) for match in found} == {("forward", "same"), ("backward", "only in both")}


def test_compilers_are_matched_by_the_lines_of_the_program(replayed: Replayed) -> None:
    """IREE's one dispatch computes what ONNX Runtime has two nodes for; each says the bytes that it moves."""
    engines = explorer.compare(replayed("iree_linear-torch2.13-cpu"), replayed("onnxrt_linear-torch2.13-cpu"))
    (match,) = matched_kernels(engines)
    assert match.what == "split" and list(map(len, match.kernels)) == [1, 2]
    assert match.code == ("y = self.linear(x)", "z = torch.relu(y)", "return z + 1.5")
    assert [sum(kernel.bytes or 0 for kernel in of) for of in match.kernels] == [240, 304]


def test_what_no_record_says_is_not_known(replayed: Replayed) -> None:
    """A recording of an older version says not what its generated kernels compute: they are no kernels of one trace only."""
    old = explorer.compare(replayed("mlp_train-torch2.13-cpu"), replayed("mlp_train-torch2.11-cuda"))
    found = matched_kernels(old)
    generated = [match for match in found if any(kernel.name.startswith("triton") for of in match.kernels for kernel in of)]
    assert len(generated) == 3 and {match.what for match in generated} == {"not known"}
    assert not [match for match in found if match.what.startswith("only in")]


def test_texts_of_one_stage_are_beside_each_other(replayed: Replayed) -> None:
    """Each text of a trace is matched with itself; of other compilers those stages that both have."""
    t = replayed("mlp_train-torch2.13-cpu")
    same = matched_texts((t, t), matched_kernels(explorer.compare(t, t)))
    assert sorted(same) == [(at, at) for at in range(len(t.artifacts))]
    iree, onnx = replayed("iree_linear-torch2.13-cpu"), replayed("onnxrt_linear-torch2.13-cpu")
    rows = matched_texts((iree, onnx), matched_kernels(explorer.compare(iree, onnx)))
    stages = {(iree.artifacts[a].stage, onnx.artifacts[b].stage) for a, b in rows}
    assert ("forward", "forward") in stages and all(one == other for one, other in stages)
