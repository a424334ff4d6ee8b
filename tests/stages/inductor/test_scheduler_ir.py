"""Inductor's IR: each operation leads to the FX node it was traced for, each scheduler node to all of its FX nodes."""

from __future__ import annotations

from dataclasses import replace

from explorer.model.records import blank
from explorer.model.values import Artifact, Event, plain
from explorer.stages.inductor import ir_post_fusion, ir_pre_fusion
from explorer.stages.inductor.scheduler_ir import SchedulerNode, headers, operations
from explorer.tracing.traced import Trace

TEXT = """op0_op1: FusedSchedulerNode(SchedulerNode,SchedulerNode)
op0_op1.writes = []
op0: SchedulerNode(ComputedBuffer)
class op0_loop_body:
    var_ranges = {p0: 64}
    index0 = p0
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('x', get_index)
        sin = ops.sin(load)
        return sin
    def masked_subblock1(self, ops):
        load = ops.load('y', get_index)
op1: ExternKernelSchedulerNode(FallbackKernel)
op1.writes = []"""
BODIES = {"op0": {"body": {"load": "sine", "sin": "sine"}, "masked_subblock1": {"load": "pad"}}}
ROW = blank(SchedulerNode, name="op0_op1", fused=("op0", "op1"), origins=("sine", "pad"), bodies=BODIES)
GRAPH = """class M(torch.nn.Module):
    def forward(self):
        sine = f()
        pad = g()
    class branch(torch.nn.Module):
        pad = h()"""


def made(stage: str, *rows: SchedulerNode, within: str = "") -> Artifact:
    event = Event(stage, 1.0, "0/0", "forward", plain({"text": TEXT, "nodes": rows, "of": within}))
    return (ir_pre_fusion if stage == "ir_pre_fusion" else ir_post_fusion).STAGE.artifact_of(event, stage)


def links(artifact: Artifact, *others: Artifact) -> set[tuple[int, str, tuple[int, ...], str]]:
    graph = Artifact("graph", "post_grad", "0/0", "forward", "", "fx", GRAPH)
    stage = {"ir_pre_fusion": ir_pre_fusion, "ir_post_fusion": ir_post_fusion}[artifact.stage].STAGE
    found = stage.link(artifact, Trace(artifacts=(graph, *others, artifact)))
    return {(n, link.target, link.target_lines, link.how) for link in found for n in link.source_lines}


def test_the_first_line_of_each_scheduler_node_is_found() -> None:
    """Also of fused nodes and of the nodes in them."""
    assert headers(made("ir_post_fusion")) == {"op0_op1": 1, "op0": 3, "op1": 14}


def test_operations_are_those_of_the_bodies_with_their_blocks() -> None:
    """A name of the body and the same name of a masked block are two operations."""
    found = [(n, block, name) for n, _, block, name in operations(made("ir_post_fusion"))]
    assert found == [(8, "body", "get_index"), (9, "body", "load"), (10, "body", "sin"), (13, "masked_subblock1", "load")]


def test_operations_and_nodes_lead_to_the_post_grad_graph() -> None:
    """An operation to one node, the scheduler node as a whole to all."""
    assert links(made("ir_pre_fusion", ROW)) == {
        (1, "graph", (3, 4), "origins"),
        (9, "graph", (3,), "LoopBody"),
        (10, "graph", (3,), "LoopBody"),
        (13, "graph", (4,), "LoopBody"),
    }


def test_a_fused_node_leads_to_the_nodes_before_fusion() -> None:
    """It leads to its parts as a whole."""
    found = links(made("ir_post_fusion", replace(ROW, origins=(), bodies={})), made("ir_pre_fusion"))
    assert found == {(1, "ir_pre_fusion", (3, 14), "fused")}


def test_the_nodes_of_a_graph_inside_are_those_of_that_graph() -> None:
    """`pad` of a branch is the branch's node, not the outer graph's of the same name."""
    row = {**ROW, "origins": ("pad",), "bodies": {"op0": {"body": {"load": "branch.pad"}}}}
    assert links(made("ir_pre_fusion", row, within="branch")) == {(1, "graph", (6,), "origins"), (9, "graph", (6,), "LoopBody")}


def test_recordings_without_bodies_have_the_origins_only() -> None:
    """Facts that older recordings lack are not made up."""
    row = {k: v for k, v in ROW.items() if k != "bodies"}
    assert links(made("ir_pre_fusion", row)) == {(1, "graph", (3, 4), "origins")}
