"""What a trace prints of itself: the flow, what takes the time of a call, what is worth a look. No torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

import explorer
from explorer.analysis.advice.call_cost import TracedCall
from explorer.analysis.overview import overview, text
from explorer.analysis.overview.launches import launches
from explorer.analysis.overview.overview import Overview
from explorer.analysis.overview.titles import title
from explorer.analysis.questions.comparison import figures, shown
from explorer.model.values import Artifact, Failure
from explorer.stages.dynamo.graph_break import GraphBreak
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of
from tests.facts import untold


@pytest.fixture(scope="module")
def layers(replayed: Callable[[str], Trace]) -> Trace:
    """Layers of a small model for an absent H100, with products, norms and activations."""
    return replayed("views/layers-torch2.13-h100")


def test_the_flow_has_the_counts_of_a_comparison(layers: Trace) -> None:
    """From the graph to what is launched, and the memory at the peak."""
    flow, _, rest = repr(layers).partition("\n")[2].partition("\ncompiled in ")
    counted = figures(layers)
    names = ("FX nodes", "scheduler nodes", "fused groups", "kernel launches", "library calls")
    assert [int(number) for number in re.findall(r"\d+", flow)] == [1, *(counted[name] for name in names)]
    assert "of memory at the peak" in rest


def test_what_is_saved_for_backward_is_printed(replayed: Callable[[str], Trace], layers: Trace) -> None:
    """The line of the memory has the figure of a comparison; it is not there where nothing is saved."""
    trained = replayed("mlp_train-torch2.13-cpu")
    saved = figures(trained)["saved for backward (bytes)"]
    printed = " ".join(repr(trained).split())  # a narrow terminal breaks the line
    assert saved and f"at the peak of a graph; {shown('saved for backward (bytes)', saved)} saved for backward " in printed
    assert "saved for backward" not in repr(layers)


def test_launches_are_ranked_and_make_up_the_work(layers: Trace) -> None:
    """Kernels and library calls together, the longest first; their shares add up to one, and each has a line of the program."""
    rows, call = layers.profile.launches, TracedCall(layers)
    seconds = [row["seconds"] for row in rows]
    assert len(rows) == len(call.launches) and seconds == sorted(seconds, reverse=True)
    assert sum(row["share"] for row in rows) == pytest.approx(1) and sum(seconds) == pytest.approx(call.device)
    assert all(re.fullmatch(r"programs\.py:\d+", row["line"]) and row["code"] for row in rows)
    products = [row for row in rows if row["kernel"] == "extern_kernels.mm"]
    assert products and all(re.fullmatch(r"mm \d+ × \d+ × \d+ float32", row["what"]) for row in products)


def test_what_is_alike_stands_in_one_line(layers: Trace) -> None:
    """Launches of the same kind of the same line are one group, whose seconds are their sum; none is lost."""
    groups = Overview(layers).groups
    launches = [id(each.launch) for group in groups for each in group.ranked]
    assert len(set(launches)) == len(launches) == len(layers.profile.launches)
    assert sum(group.seconds for group in groups) == pytest.approx(TracedCall(layers).device)
    first = groups[0]
    assert len(first.ranked) > 1
    assert f"{len(first.ranked)} × {first.first['what']}"[: text.TITLE - 1] in repr(layers)


def test_a_kernel_is_named_by_what_its_loops_compute(layers: Trace) -> None:
    """In the program's words: a GELU is gelu, not its parts; the bias that a kernel adds for a product is its bias."""
    names = {row["kernel"]: row["what"] for row in layers.profile.launches}
    assert any("gelu" in what.split(", ") for what in names.values())
    assert not any("erf" in what or "aten" in what for what in names.values())


def test_what_a_pass_put_in_is_no_operator_of_the_program(replayed: Callable[[str], Trace]) -> None:
    """Inductor's pattern moves the scale of a softmax by a maximum, comparisons and more: the kernel computes a softmax."""
    trace = replayed("views/rotary-torch2.13-h100")
    names = {row["kernel"]: row["what"] for row in trace.profile.launches}
    (moved,) = (name for name in names if "amax" in name)
    assert "softmax" in moved and names[moved] == "softmax"


def test_what_a_kernel_reduces_comes_first_in_a_long_title(replayed: Callable[[str], Trace]) -> None:
    """The end of a long title is cut: an RMSNorm is found by its mean."""
    rows = [*replayed("views/rotary-torch2.13-h100").profile.launches, *replayed("views/layers-torch2.13-h100").profile.launches]
    titles = {row["kernel"]: row["what"] for row in rows}
    assert titles["triton_per_fused_add_mean_mul_pow_rsqrt_0"] == "mean, pow, add, rsqrt, mul"
    assert titles["triton_per_fused_add_addmm_native_layer_norm_3"] == "native_layer_norm, bias, add"


def test_a_kernel_that_reads_nothing_fills(layers: Trace) -> None:
    """Loops that load and store are a copy, and those that only store a value a fill: what reads nothing copies nothing."""
    call = TracedCall(layers)
    launch = call.launches[0]
    told = {}
    for name, operations in (("copy", ("load", "store")), ("fill", ("constant", "store"))):
        graph = SimpleNamespace(of="", graph_nodes=(), operations=lambda row, of=operations: [(one, "") for one in of])
        row = {**launch.row, "kernels": ["triton_poi_0"], "calls": ()}
        told[name] = title(call, replace(launch, graph=graph, row=row))
    assert told == {"copy": "copy", "fill": "fill"}


def test_graph_breaks_are_part_of_the_time_of_a_call(layers: Trace) -> None:
    """The parts that are printed add up to the whole: work or launches, whichever is longer, and what the breaks add."""
    told = GraphBreak(reason="a break", explanation="", hints=(), file="a.py", line=1)
    broken = replace(
        layers, artifacts=(*layers.artifacts, Artifact("0/0:b", "graph_break", "0/0", "", "", "text", "b", data=told))
    )
    call = TracedCall(broken)
    assert call.breaks == 1 and call.seconds == max(call.device, call.host) + call.breaking > TracedCall(layers).seconds
    assert "1 graph break adds 9 µs" in repr(broken).replace("\n ", "") and "graph break adds" not in repr(layers)


def test_a_part_that_cannot_be_read_is_named(layers: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are printed all the same: a damaged log still has a repr."""
    monkeypatch.setattr(overview, "figures", lambda trace: 1 / 0)
    assert not untold(repr(layers), "not shown, whole: ZeroDivisionError", "t.profile.launches", "stages: ")


def test_a_backward_is_not_said_to_be_missing_where_there_is_one(layers: Trace, replayed: Callable[[str], Trace]) -> None:
    """Whatever was asked for: what a program compiles with gradients has its backward."""
    lacks = "without a backward, which train=True adds"
    trained = replayed("mlp_train-torch2.13-cpu")
    for trace, expected in ((layers, True), (trained, False)):
        assert (lacks in repr(replace(trace, meta={**trace.meta, "train": False}))) is expected


def test_what_is_launched_is_counted_as_the_output_code_launches_it(layers: Trace) -> None:
    """A kernel that is launched for each layer counts each time, and the loops of one C++ kernel together."""
    overview = Overview(layers)
    assert overview.call.launch_count == sum(step.count for step in overview.flow if step.is_launch) == 29


@pytest.mark.parametrize("name", ["mlp_train-torch2.13-cpu", "attention-torch2.13-cpu", "views/layers-torch2.13-h100"])
def test_the_parts_of_the_work_have_the_launches_of_the_flow(replayed: Callable[[str], Trace], name: str) -> None:
    """Kernels and library calls are counted alike in the flow and in the time of a call."""
    overview = Overview(replayed(name))
    assert {work.what: work.count for work in overview.work} == {
        {"kernel launch": "kernels", "library call": "library calls"}[step.noun]: step.count
        for step in overview.flow
        if step.is_launch
    }


def test_a_trace_without_kernels_says_so() -> None:
    """Nothing is launched: the table says why, and what failed is printed last."""
    empty = Trace({"name": "f", "target": "h100"}, failures=(Failure("compile", "Error", "it broke"),))
    assert launches(TracedCall(empty)).why_empty and repr(empty).endswith("it broke")


@pytest.mark.compile
def test_a_product_joined_with_an_addition_is_of_its_own_line() -> None:
    """The gradient of a weight that is used twice is an addmm, made of a product and a sum: it is of the product's line."""
    import torch

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(64, 32)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.embed(ids) * 2
            return torch.nn.functional.linear(x, self.embed.weight)

    trace = explorer.trace(Tied(), torch.arange(16), target="h100", train=True)
    (joined,) = [row for row in trace.profile.launches if row["what"].startswith("addmm")]
    assert "linear" in joined["code"] and joined["graph"] == "backward"


def test_a_pattern_without_recorded_targets_is_no_error(replayed: Callable[[str], Trace]) -> None:
    """A recording may lack the targets of what a pattern matched: then the lines of its nodes are told as they stand."""
    trace = replayed("mlp_train-torch2.13-cpu")
    matches = trace.find("pattern_match")
    assert matches
    lacking = {a.id: replace(a, data=replace(a.data, matched_targets=None)) for a in matches}
    other = trace_of(replace(trace, artifacts=tuple(lacking.get(a.id, a) for a in trace.artifacts)))
    assert len(other.profile.launches) == len(trace.profile.launches)
