"""Fusion verdicts asked by name, from a graph written down by hand; lines of a program, from a compile."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer import Trace
from explorer.analysis.questions.fusion import kind_of, unfulfilled_requests
from explorer.errors import InputError
from explorer.model.records import typed
from explorer.model.trace_data import artifact_of
from explorer.model.values import Fuse, KeepApart, plain
from explorer.stages.inductor.verdicts import FinalNode, Fusion, Verdicts
from explorer.stages.torch_compile.setting import ChangedSetting, ChangedSettings
from explorer.tracing.traced.trace import trace_of_events
from explorer.types import Artifact, Event
from tests.facts import says, untold


def row(name: str, reads: list[str], writes: list[str], inputs: list[str], origins: list[str], **more: Any) -> dict[str, Any]:
    base = {"name": name, "kind": "SchedulerNode", "device": "cuda:0", "inputs": inputs, "reads": reads, "writes": writes}
    return {**base, "origins": origins, "node": origins[-1], "line_count": 1, "fused": [], "sizes": [], **more}


#: op0 sin, op1 exp and op2 cos over one input, op3 a matrix product of op1, op4 reads op3, op5 touches none of it.
ROWS = [
    row("op0", ["x"], ["buf0"], [], ["sin"]),
    row("op1", ["x"], ["buf1"], [], ["mul", "exp"]),
    row("op2", ["x"], ["buf2"], [], ["cos"]),
    row("op3", ["buf1", "w"], ["buf3"], ["op1"], ["mul", "exp", "mm"], kind="ExternKernelSchedulerNode"),
    row("op4", ["buf3", "x"], ["buf4"], ["op3"], ["tan"]),
    row("op5", ["y"], ["buf5"], [], ["abs"]),
]
NAMES = [r["name"] for r in ROWS]
NONE = ["", "", 0, ""]


def data(**changes: Any) -> dict[str, Any]:
    """op0 and op1 are fused in round 1 to node 6; op2 could have been, but is refused afterwards."""
    return {
        "of": "",
        "names": NAMES,
        "groups": [{"kind": "FusedSchedulerNode", "of": [0, 1], "round": 0}],
        "rounds": [{"reorder": False, "before": 6, "after": 5}, {"reorder": False, "before": 5, "after": 5}],
        "rules": [
            NONE,
            ["exceeds max fusion", "", 0, ""],
            ["intermediate nodes between node1 & node2", "", 0, ""],
            ["no shared data", "", 0, ""],
            ["", "some/backend.py", 7, "Backend.can_fuse"],
            ["brand new (%s)", "", 0, ""],
            ["will create cycle", "", 0, ""],
        ],
        "args": [[], ["a1"], ["6"]],
        "pairs": [
            [0, "fused", 0, 0, 256, 1, "1"],
            [0, "possible", 0, 0, 256, 1, "2"],
            [1, "possible", 0, 0, 256, 1, "2"],
            [6, "refused", 1, 0, 256, 3, "2"],
            [6, "refused", 2, 0, 256, 3, "4"],
            [2, "refused", 3, 0, 0, 1, "4"],
            [2, "refused", 5, 1, 0, 2, "4"],
        ],
        "score_parts": ["memory_score", "proximity_score"],
        "scores": [[0, 0, 1, 256, -1]],
        "kernels": [["triton_a", [0, 1]], ["triton_b", [2]], ["triton_c", [4]], ["triton_d", [5]]],
        "final": [
            {"number": 6, "kind": "FusedSchedulerNode", "read": 256, "written": 512},
            {"number": 2, "kind": "SchedulerNode", "ir": "ComputedBuffer", "call": "", "read": 256, "written": 256},
            {
                "number": 3,
                "kind": "ExternKernelSchedulerNode",
                "ir": "ExternKernelOut",
                "call": "extern_kernels.mm",
                "read": 9,
                "written": 9,
            },
            {"number": 4, "kind": "SchedulerNode", "ir": "ComputedBuffer", "call": "", "read": 512, "written": 256},
            {"number": 5, "kind": "SchedulerNode", "ir": "ComputedBuffer", "call": "", "read": 4, "written": 4},
        ],
        "settings": {"max_fusion_size": 2, "max_fusion_buffer_group_pairwise_attempts": 64, "realize_reads_threshold": 4},
        "made": [
            {"buffer": "buf1", "lowering": "mm", "path": 0},
            {"buffer": "buf4", "lowering": "tan", "path": 1, "users": 3, "reads": 5},
        ],
        "paths": [
            [["a.py", 1, "MutableBox.realize"], ["ir.py", 2, "ExternKernel.realize_input"], ["mm.py", 3, "tuned_mm"]],
            [["ir.py", 2, "StorageBox.realize"], ["ir.py", 3, "StorageBox.mark_reuse"], ["g.py", 4, "GraphLowering.run_node"]],
        ],
        **changes,
    }


def events(rows: list[dict[str, Any]] = ROWS, graph: str = "inference", **changes: Any) -> list[Event]:
    text = "".join(f"{r['name']}: {r['kind']}\n\n\n" for r in rows)
    return [
        Event("ir_pre_fusion", 1.0, "0/0", graph, plain({"text": text, "nodes": rows, "of": ""})),
        Event("fusion", 2.0, "0/0", graph, plain(data(**changes))),
    ]


@pytest.fixture(scope="module")
def trace() -> Trace:
    made = trace_of_events(events())
    assert not made.failures, made.failures
    return made


# Why -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "fused", "rule", "facts"),
    [
        ("op0", "op1", True, "", ("op0", "op1", "kernel", "triton_a", "round 1", "256 B")),
        ("sin", "buf1", True, "", ("sin", "buf1", "kernel", "triton_a")),
        ("mul", "exp", True, "", ("mul", "exp", "scheduler node", "op1")),
        ("op0", "op2", False, "exceeds max fusion", ("op0", "op2", "op0_op1", "2 nodes", "max_fusion_size")),
        ("op4", "op1", False, "intermediate nodes between node1 & node2", ("op4", "op0_op1", "needs")),
        ("op2", "op4", False, "brand new (a1)", ("op2", "op4", "brand new (a1)")),
        ("op3", "op1", False, "", ("op3", "extern_kernels.mm")),
        ("op2", "op5", False, "", ("op2", "op5", "considered", "buffer")),
        ("triton_a", "triton_b", False, "exceeds max fusion", ("2 nodes", "max_fusion_size")),
        ("op0_op1", "cos", False, "exceeds max fusion", ("2 nodes", "max_fusion_size")),
    ],
)
def test_why_answers_for_any_two_names(
    trace: Trace, first: str, second: str, fused: bool, rule: str, facts: tuple[str, ...]
) -> None:
    """Scheduler nodes, groups, buffers, FX nodes and kernels; the last rule counts, and what came before it is told."""
    why = trace.why(first, second)
    assert (why.fused, why.rule) == (fused, rule)
    assert not untold(why.sentence, *facts) and str(why) == why.sentence and (rule in repr(why))


#: A mean and a variance by hand: op0 and op1 are their reductions, and op2 divides by the count for both.
NORMED = [
    row("op0", ["x"], ["buf0"], [], ["mean"], sizes=[["64"], ["512"]], node=""),
    row("op1", ["x"], ["buf1"], [], ["var"], sizes=[["64"], ["512"]], node=""),
    row("op2", ["x", "buf0", "buf1"], ["buf2"], ["op0", "op1"], ["mean", "var", "sub", "neg"], sizes=[["32768"], ["1"]]),
    row("op3", ["x"], ["buf3"], [], ["sub", "cos"], sizes=[["32768"], ["1"]]),
]


def normed(pairs: list[list[Any]], final: list[int], kernels: list[list[Any]]) -> Trace:
    rows = [{"number": n, "kind": "SchedulerNode", "ir": "ComputedBuffer", "call": "", "read": 1, "written": 1} for n in final]
    changes = {"names": [r["name"] for r in NORMED], "pairs": pairs, "final": rows, "kernels": kernels, "made": [], "scores": []}
    return trace_of_events(events(NORMED, **changes))


def test_names_that_share_a_node_are_answered_by_what_each_has_alone() -> None:
    """A reduction's name stands for what follows it too, wherever that is: the answer is that of the reductions."""
    fused = normed([[0, "fused", 0, 0, 256, 1, "1"]], [4, 2, 3], [["triton_a", [0, 1]], ["triton_b", [2]], ["triton_c", [3]]])
    refused = normed([[0, "refused", 1, 0, 256, 3, "1"]], [0, 1, 2, 3], [["triton_b", [2]], ["triton_c", [3]]])
    for names in (("mean", "var"), ("var", "mean")):
        why = fused.why(*names)
        assert why.fused and not untold(why.sentence, "op2", "op0 of mean", "op1 of var", "triton_a", "round 1")
        why = refused.why(*names)
        assert not why.fused and why.rule == "exceeds max fusion" and not untold(why.sentence, "op2 has code of")


def test_a_name_of_a_shared_node_is_not_all_of_the_other() -> None:
    """What follows a reduction is fused with its reader, and the reduction itself is refused: both are told."""
    trace = normed([[0, "refused", 1, 0, 256, 3, "2"]], [0, 1, 2, 3], [["triton_b", [2]], ["triton_c", [3]]])
    for names in (("neg", "mean"), ("mean", "neg"), ("op2", "mean")):
        why = trace.why(*names)
        assert not why.fused and why.rule == "exceeds max fusion" and not untold(why.sentence, "op2 has code of")
    why = trace.why("sub", "neg")  # lowering copied the pointwise `sub` into two nodes, and all of it is in op2
    assert why.fused  # neither need read the other: what reads both, such as a concatenation, has the code of both
    assert why.sentence == "sub and neg are one scheduler node, op2: lowering inlined both into one loop."


def test_operators_of_the_same_lines_are_answered_in_all_their_places(replayed: Any) -> None:
    """A norm and a GELU in each of seven layers: the first place's answer, which holds in the others, whose calls are given."""
    layers = replayed("views/layers-torch2.13-h100")
    answer = layers.why("native_layer_norm", "gelu")
    first = layers.why("add_1", "mul_4")
    same = first.sentence.replace("add_1", "native_layer_norm").replace("mul_4", "gelu")
    assert answer.fused is first.fused is False and answer.sentence.startswith(same)
    assert "Here native_layer_norm is add_1 and gelu is mul_4" in answer.sentence
    assert not untold(answer.sentence, "not fused in 6 more places", "t.why('add_5', 'mul_9', frame='0/0', graph='inference')")
    assert answer.sentence.count("t.why(") == 4 and answer.sentence.endswith("and 2 more.")
    assert layers.why("gelu", "erf").fused, "the one node of that name, and the GELU that it is a part of"


def test_a_name_stands_for_what_computes_it(replayed: Any) -> None:
    """A product in a variable is the call, not the view that follows it; a reshape is computed where its tensor is."""
    rotary = replayed("views/rotary-torch2.13-h100")
    graph = rotary.fusion.graphs[0]
    calls = {call.node for group in graph.verdicts.data.final for call in group.calls or () if call.node}
    for name in ("linear", "matmul"):
        assert all(place.central in calls for place in graph.uses[name]), name
    answer = rotary.why("matmul", "softmax")
    assert not answer.fused and not untold(answer.sentence, "matmul is a call of extern_kernels.bmm", "softmax is div")
    assert all(place.central in calls for place in graph.uses["view"]), "a view of a product, by the method's name"


def test_operators_apart_are_answered_for_those_that_are_nearest(replayed: Any) -> None:
    """Seven norms and seven GELUs that share no line: each GELU with the norm before it and the one behind it."""
    layers = replayed("views/layers-torch2.13-h100")
    answer = layers.why("gelu", "layer_norm")
    (gelu, norm) = (layers.fusion.graphs[0].uses[name] for name in ("gelu", "layer_norm"))
    assert len(gelu) == len(norm) == 7 and not answer.fused
    assert not untold(answer.sentence, f"gelu is {gelu[0].node}")


def test_places_that_differ_are_told_apart(replayed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the call for each of them, and its answer."""
    layers = replayed("views/layers-torch2.13-h100")
    graph = layers.fusion.graphs[0]
    own, wanted = type(graph)._why_sides, graph.uses["native_layer_norm"][1].numbers
    fused = lambda self, a, b: replace(own(self, a, b), fused=set(a.nodes) <= {*wanted})  # noqa: E731
    monkeypatch.setattr(type(graph), "_why_sides", fused)
    with pytest.raises(InputError, match=says("7 places", "t.why('add_5', 'mul_9', frame='0/0', graph='inference') is fused")):
        layers.why("native_layer_norm", "gelu")


def test_a_node_is_in_its_kernel(trace: Trace) -> None:
    """Asked about a kernel or a group and a node of it, the answer is not that both are one node."""
    for whole in ("triton_a", "op0_op1"):
        why = trace.why("exp", whole)
        assert why.fused and why.sentence == f"exp is in {whole}."


@pytest.mark.parametrize(
    ("kernels", "facts", "wrong"),
    [
        ([["cpp_a", [2, 4]]], ("kernel cpp_a anyway", "loops one after the other"), "launches"),
        ([["triton_a", [2]], ["triton_a", [4]]], ("two launches of one kernel source, triton_a", "equal code"), "loops"),
        ([["triton_a", [2]], ["triton_b", [4]]], ("op2", "op4"), "one after the other"),
    ],
    ids=["one launch", "two launches", "two kernels"],
)
def test_a_kernel_of_two_groups_is_one_launch_or_two(kernels: list[list[Any]], facts: tuple[str, ...], wrong: str) -> None:
    """A kernel in C++ has the loops of several groups; of equal groups Inductor writes one kernel, and launches it for each."""
    why = trace_of_events(events(pairs=[[2, "refused", 3, 0, 0, 1, "4"]], kernels=kernels)).why("op2", "op4")
    assert not why.fused and not untold(why.sentence, *facts) and wrong not in why.sentence


def test_nodes_that_were_never_considered_say_so() -> None:
    """The scheduler asks only the next few of those that touch a buffer, on one device, about each other."""
    far = trace_of_events(events(pairs=[])).why("op0", "op2")
    assert not far.considered
    assert not untold(far.sentence, "op0", "op2", "x", "64", "max_fusion_buffer_group_pairwise_attempts")


def test_a_cycle_names_what_is_in_the_way() -> None:
    """What was fused before, and lies between two nodes, is named in the sentence and in the table."""
    trace = trace_of_events(events(pairs=[[2, "refused", 6, 2, 256, 1, "4"]]))
    assert not untold(trace.why("op2", "op4").sentence, "op2", "op4", "op0_op1")
    (row,) = trace.fusion.table
    assert row["rule"] == "will create cycle" and row["after"] == ("op0_op1",)


def test_a_refusal_without_a_word_names_the_function() -> None:
    """Where the scheduler gives no reason, the function that said no and its line stand in for it."""
    why = trace_of_events(events(pairs=[[2, "refused", 4, 0, None, 1, "4"]])).why("op2", "op4")
    assert not untold(why.rule, "Backend.can_fuse", "some/backend.py:7")
    assert not untold(why.sentence, "op2", "op4", "Backend.can_fuse", "some/backend.py:7")


def test_wrong_and_ambiguous_names_are_errors(trace: Trace) -> None:
    """A misspelt name offers the nearest; a name that two graphs have asks which."""
    with pytest.raises(InputError, match="'op1'"):
        trace.why("op11", "op0")
    with pytest.raises(InputError, match=says("t.follow('model.py', 12, into='post_grad')")):
        trace.why("model.py:12", "op0")
    both = trace_of_events([*events(graph="forward"), *events(graph="backward")])
    with pytest.raises(InputError, match=says("'op0'", "'op1'", "0/0", "forward", "backward")):
        both.why("op0", "op1")
    assert both.why("op0", "op1", graph="backward").fused
    with pytest.raises(InputError, match=says("graph", "forward", "backward")):
        both.why("op0", "op1", graph="joint")
    assert both.fusion.table.where(graph="joint") == () != both.fusion.table.where(graph="forward")
    with pytest.raises(InputError, match=says("fusion verdicts", "scheduler", "stage")):
        Trace().why("op0", "op1")


@pytest.mark.compile
def test_two_lines_are_asked_about_by_their_nodes() -> None:
    """A line of the program stands for the scheduler nodes that compute it, beside another line or a node."""
    file = Path(__file__).name

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        first = torch.sin(x)
        second = first * 2
        product = second @ w
        return torch.relu(product) + 1

    line = function.__code__.co_firstlineno
    trace = explorer.trace(function, torch.randn(8, 8), torch.randn(8, 8))
    sine, doubled, last = (f"{file}:{line + after}" for after in (1, 2, 4))
    assert trace.why(sine, doubled).fused and sine in trace.why(sine, doubled).sentence
    apart = trace.why(doubled, last)
    assert not apart.fused and not untold(apart.sentence, doubled, last, "mm")
    assert trace.why(last, trace.kernels[-1].name).fused
    with pytest.raises(InputError, match=says(f"{file}:{line}", "no scheduler node")):
        trace.why(f"{file}:{line}", sine)


def test_nodes_of_different_graphs_are_never_fused() -> None:
    """Forward and backward are compiled apart, and the answer says so."""
    names = {"names": [n.replace("op", "bop") for n in NAMES], "kernels": [], "pairs": []}
    made = trace_of_events([*events(graph="forward"), *events(graph="backward", **names)[1:]])
    why = made.why("op0", "bop1")
    assert not why.fused and not why.considered
    assert not untold(why.sentence, "op0", "forward", "bop1", "backward")


@pytest.mark.parametrize(
    ("node", "fused", "considered", "facts"),
    [
        ("op0", True, True, ("triton_a", "op1")),
        ("op3", False, False, ("extern_kernels.mm",)),
        ("op2", False, True, ("alone", "refused", "op4", "op0_op1")),
        ("op5", False, False, ("considered", "buffer")),
    ],
)
def test_alone_says_why_a_node_is_a_kernel_by_itself(
    trace: Trace, node: str, fused: bool, considered: bool, facts: tuple[str, ...]
) -> None:
    """Fused, a call, refused by every partner, or without any."""
    why = trace.fusion.graphs[0].alone(node)
    assert (why.fused, why.considered) == (fused, considered) and not untold(why.sentence, node, *facts)


def with_setting(trace: Trace, name: str) -> Trace:
    """The trace as if a setting of Inductor's were not at its default."""
    (settings,) = trace.find("setting")
    rows = (*typed(ChangedSettings, settings.data).rows, ChangedSetting("inductor", name, "True", "False", "torch.compile"))
    changed = replace(settings, data=ChangedSettings(rows))
    return replace(trace, artifacts=tuple(changed if a is settings else a for a in trace.artifacts))


def test_a_librarys_product_says_how_its_reader_could_be_fused(rotary: Trace) -> None:
    """Only a pointwise node that reads the product in its order, and no reduction of it, can follow in a template."""
    way = ' With mode="max-autotune" Inductor may choose a Triton template for {}, and fuse {} into it.'
    (graph,) = rotary.fusion.graphs
    for first, second in (("mm_default_2", "op20"), ("op20", "mm_default_2"), ("sigmoid", "mm_default_1")):
        product, reader = sorted((first, second), key=lambda name: name[:2] != "mm")
        assert graph.why(first, second).sentence.endswith(f"stay separate.{way.format(product, reader)}")
    needing_a_reduction, reordering, reducing = ("bmm", "op11"), ("bmm_1", "op14"), ("bmm", "op8")
    for pair in (needing_a_reduction, reordering, reducing, ("op20", "mm_default"), ("mm_default_1", "mm_default_2")):
        assert graph.why(*pair).sentence.endswith("stay separate."), pair


def test_no_template_is_announced_that_inductor_would_not_choose(rotary: Trace) -> None:
    """On a GPU with few multiprocessors, where max_autotune was on, and where the trace does not have the settings."""
    (settings,) = rotary.find("setting")
    on = ChangedSetting(of="inductor", name="max_autotune", value="True", default="False", set_by="torch.compile")
    rows = (*typed(ChangedSettings, settings.data).rows, on)
    others = tuple(a for a in rotary.artifacts if a is not settings)
    small = replace(rotary, meta={**rotary.meta, "target": "t4"})
    tuned = replace(rotary, artifacts=(*others, replace(settings, data=ChangedSettings(rows=rows))))
    for trace in (small, tuned, replace(rotary, artifacts=others)):
        assert trace.why("mm_default_2", "op20", frame="0/0", graph="inference").sentence.endswith("stay separate.")


# Tables ----------------------------------------------------------------------------------------------------------------


def test_a_pair_that_others_made_one_kernel_is_not_said_to_be_apart() -> None:
    """op0 and op1 are in one group: their kernel is named. Loops of one C++ kernel are not said to be fused."""
    facts = data(pairs=[[0, "possible", 0, 0, 256, 1, "1"], [2, "possible", 0, 0, 256, 1, "4"]])
    together, loops = map(Verdicts(typed(Fusion, facts)).sentence, Verdicts(typed(Fusion, facts)).each())
    assert together == "op0 and op1 are one kernel: triton_a."
    assert loops == "op2 and op4 may be fused, but were not in this round."
    facts["kernels"] = [["triton_a", [0, 1]], ["triton_e", [0, 1]], ["cpp_b", [2, 4]]]
    together, loops = map(Verdicts(typed(Fusion, facts)).sentence, Verdicts(typed(Fusion, facts)).each())
    assert together == "op0 and op1 are one group, for which 2 kernels were written: triton_a, triton_e."
    assert loops == "op2 and op4 may be fused, but were not in this round; Inductor wrote their loops into one kernel, cpp_b."


def test_the_table_has_one_row_a_verdict(trace: Trace) -> None:
    """Pairs with direction, words, sentence, shared bytes, score by its parts, rounds from 1."""
    table = trace.fusion.table
    assert [(r["first"], r["second"], r["verdict"]) for r in table][:2] == [("op0", "op1", "fused"), ("op0", "op2", "possible")]
    assert table[0]["score"] == {"memory_score": 256, "proximity_score": -1} and table[0]["shared_bytes"] == 256
    (vertical,) = [r for r in table if (r["first"], r["second"]) == ("op0_op1", "op4")]
    assert vertical["direction"] == "vertical" and vertical["rounds"] == (1, 2) and vertical["after"] == ("op0_op1",)
    assert [r["rounds"] for r in table if r["rule"].startswith("brand new")] == [(2,)]
    assert not untold(table[1]["reason"], "op0", "op2", "may be fused", "not in this round")
    assert table[0]["direction"] == "horizontal" and len(table.to_pandas()) == len(table)
    assert not untold(next(r for r in table if r["rule"] == "no shared data")["reason"], "op2", "op4", "x")


def test_a_pair_with_a_template_is_told_apart() -> None:
    """An epilogue or prologue of a template is neither vertical nor horizontal."""
    final = [{**g, "template": 2} if g["number"] == 2 else g for g in data()["final"]]
    table = trace_of_events(events(final=final)).fusion.table
    assert {r["direction"] for r in table if "op2" in (r["first"], r["second"])} == {"template"}


def test_groups_are_kernels_and_calls(trace: Trace) -> None:
    """What each group is, which kernel it became, what it computes, and the calls around it."""
    groups = {r["name"]: r for r in trace.fusion.groups}
    assert [r["kind"] for r in groups.values()] == ["fused", "alone", "extern", "alone", "alone"]
    assert groups["op0_op1"]["kernels"] == ("triton_a",) and groups["op0_op1"]["fx_nodes"] == ("sin", "mul", "exp")
    assert groups["op3"]["fx_nodes"] == ("mm",) and groups["op3"]["call"] == "extern_kernels.mm"
    assert groups["op0_op1"]["after"] == ("op3",) and groups["op4"]["before"] == ("op3",)
    assert (groups["op4"]["read"], groups["op4"]["written"], groups["op4"]["buffers"]) == (512, 256, ("buf4",))


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ({"kind": "NopKernelSchedulerNode"}, "nop"),
        ({"kind": "ExternKernelSchedulerNode", "ir": "MultiOutput"}, "output of a call"),
        ({"kind": "ExternKernelSchedulerNode", "ir": "UserDefinedTritonKernel"}, "user's kernel"),
        ({"kind": "ForeachKernelSchedulerNode", "combo": True}, "combo"),
        ({"kind": "ForeachKernelSchedulerNode", "combo": False}, "foreach"),
        ({"kind": "FusedSchedulerNode", "template": 3}, "template"),
        ({"kind": "OuterLoopFusedSchedulerNode"}, "outer loop"),
        ({"kind": "FusedMixOrderReductions"}, "mix-order reduction"),
    ],
)
def test_each_class_of_the_scheduler_has_its_name(group: dict[str, Any], kind: str) -> None:
    """The scheduler's classes become words for people."""
    assert kind_of(typed(FinalNode, {"number": 6, "read": 0, "written": 0, **group}), (1, 2)) == kind


def test_made_and_inlined_tell_what_is_in_memory(trace: Trace) -> None:
    """A buffer for a call names the call, one for reuse its users; what is inside a node never had a buffer."""
    made = {r["buffer"]: r for r in trace.fusion.buffers}
    assert not untold(made["buf1"]["why"], "mm") and made["buf1"]["where"] == "ir.py:2 ExternKernel.realize_input"
    assert made["buf4"]["node"] == "op4" and not untold(made["buf4"]["why"], "3", "5", "4", "realize_reads_threshold")
    assert [(r["fx_node"], r["into"]) for r in trace.fusion.inlined] == [("mul", ("op1",))]


def test_the_trace_says_what_its_records_put_together(trace: Trace) -> None:
    """What came of the nodes of each graph, below the tables."""
    assert not untold(repr(trace.fusion), "0/0", "inference", "6 scheduler nodes", "5", "2 rounds")


# The stage -------------------------------------------------------------------------------------------------------------


def test_the_text_says_all_and_links_to_the_scheduler_nodes(trace: Trace) -> None:
    """A line a group and a verdict, linked to the lines of the nodes before fusion; the rules in the scheduler's words."""
    (made,) = trace.find("fusion")
    assert not untold(made.lines[0], "6 scheduler nodes", "5", "2 rounds") and "op0_op1 → triton_a" in made.lines
    (fused,) = (text for text in made.lines if "op0 + op1" in text)
    assert not untold(fused, "round 1", "256 bytes")
    ((line, refused),) = ((n, text) for n, text in enumerate(made.lines, 1) if "op0_op1 | op2" in text)
    assert not untold(refused, "1, 2", "exceeds max fusion")
    (link,) = [k for k in trace.links if k.source == made.id and k.source_lines == (line,)]
    before = artifact_of(trace, link.target)
    assert before.stage == "ir_pre_fusion" and link.how == "scheduler node"
    assert [before.lines[n - 1].partition(":")[0] for n in link.target_lines] == ["op0", "op1", "op2"]


@pytest.mark.compile
def test_verdicts_survive_saving_and_need_no_torch(trace: Trace, tmp_path: Path) -> None:
    """A loaded trace answers the same, in a process without torch."""
    path = tmp_path / "t.json.gz"
    trace.save(path)
    loaded = explorer.load(path)
    assert loaded.fusion.table == trace.fusion.table and loaded.fusion.groups == trace.fusion.groups
    code = (
        "import sys, explorer\n"
        "t = explorer.load(sys.argv[1]); print(t.why('op0', 'op2').rule); t.fusion.groups, t.fusion.buffers\n"
        "assert not {'torch', 'triton'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "exceeds max fusion", done.stderr


def test_a_graph_that_is_nested_links_to_its_own_nodes() -> None:
    """Branches of a cond have nodes of the same names: each is told apart by its graph's name."""
    inner = [Event(e.kind, e.time, e.frame, e.graph, plain({**e.data, "of": "true_graph_0"})) for e in events()]
    made = trace_of_events([*events(), *inner])
    for artifact in made.find("fusion"):
        targets = {link.target for link in made.links if link.source == artifact.id}
        assert {artifact_of(made, t).data["of"] for t in targets} == {artifact.data["of"]}
    assert "(true_graph_0)" in repr(made.fusion)


# Wishes ----------------------------------------------------------------------------------------------------------------


def wish(*rows: dict[str, Any], names: tuple[str, ...] = ("op0", "op1", "op2", "op4", "exp")) -> list[Event]:
    return [Event("fusion_wish", 3.0, "0/0", "inference", plain({"names": names, "rows": rows}))]


def test_a_wish_that_came_true_leaves_no_failure(trace: Trace) -> None:
    """Nodes kept apart that are apart, and put together that are together."""
    told = wish({"wish": 0, "same": False, "together": False}, {"wish": 1, "same": False, "together": True})
    assert unfulfilled_requests(trace, told, (KeepApart("op0", "op2"), Fuse("op0", "op1"))) == []


def test_a_wish_that_did_not_come_true_says_why(trace: Trace) -> None:
    """The Failure holds the scheduler's reason as a sentence."""
    told = wish({"wish": 0, "same": False, "together": False}, {"wish": 1, "same": False, "together": True})
    fuse, apart = unfulfilled_requests(trace, told, (Fuse("op0", "op2"), KeepApart("op0", "op1")))
    assert (fuse.stage, fuse.step) == ("fusion", "fuse") and not untold(fuse.message, "op0", "op2", "2 nodes")
    assert apart.step == "keep_apart" and not untold(apart.message, "op0", "op1", "triton_a")


@pytest.mark.parametrize(
    ("told", "facts"),
    [
        (wish(), ("'op0'", "'exp'", "graph")),
        (wish(names=("op0", "expm1")), ("'exp'", "'expm1'")),
        ([], ("keep_apart=", "fuse=", "graph")),
        (wish({"wish": 0, "same": True, "together": True}), ("op0", "exp", "scheduler node", "keep_apart=")),
    ],
    ids=["elsewhere", "misspelt", "no graph", "one node"],
)
def test_a_wish_that_cannot_be_meant_is_an_error(trace: Trace, told: list[Event], facts: tuple[str, ...]) -> None:
    """Names that no graph has, or no graph has both of, and one node to keep apart from itself."""
    with pytest.raises(InputError, match=says(*facts)):
        unfulfilled_requests(trace, told, (KeepApart("op0", "exp"),))


def test_an_artifact_of_another_kind_is_no_verdict() -> None:
    """A trace whose stages left the verdicts out says so."""
    with pytest.raises(InputError, match=says("fusion verdicts", "scheduler", "stage")):
        Trace(artifacts=(Artifact("a", "kernel", "", "", "", "", ""),)).why("a", "b")


def test_a_node_has_the_module_that_all_of_it_is_in(replayed) -> None:
    """A product has the name of its linear module; a kernel's node with code of two modules has none."""
    graph = replayed("views/layers-torch2.13-h100").fusion.graphs[0]
    assert [graph.module(name) for name in ("op1", "op4", "op6")] == ["norm", "up", "down"]
    assert graph.module("op5") == "", "the bias of one and a GELU"
