"""ONNX Runtime's stages, made from recorded events without the engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from explorer.model.values import Artifact
from explorer.stages.fx_graph import node_lines
from explorer.stages.onnxrt import STAGES, graph
from explorer.stages.onnxrt.origins import OnnxGraph, OnnxNode
from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from tests.facts import untold

RECORDING = "onnxrt_linear-torch2.13-cpu"
#: Only where options ask for them.
ON_REQUEST = {"onnx_optimize", "onnxrt_disable"}


@pytest.fixture
def trace(replayed: Callable[[str], Trace]) -> Trace:
    """The recorded inference of a linear layer, relu and an addition."""
    return replayed(RECORDING)


def reached_from(trace: Trace, artifact: Artifact, line: int) -> set[str]:
    """The FX nodes that a line of a text comes from, down the links."""
    (forward,) = trace.find("forward")
    names = {number: name for name, number in node_lines(forward).items()}
    waiting, seen = [(artifact.id, line)], set()
    while waiting:
        place = waiting.pop()
        if place not in seen:
            seen.add(place)
            waiting += [
                (k.target, n) for k in trace.links if k.source == place[0] and place[1] in k.source_lines for n in k.target_lines
            ]
    return {names[n] for id, n in seen if id == forward.id and n in names}


def test_every_stage_is_there(trace: Trace) -> None:
    """Each stage has its text, and the whole graph ran on the engine."""
    assert {stage.name for stage in STAGES} - ON_REQUEST <= {artifact.stage for artifact in trace.artifacts}
    assert not trace.failures
    assert not untold(trace.text("execution"), "whole graph", "1 time", "ONNX Runtime", "CPUExecutionProvider")


@pytest.mark.parametrize(
    ("stage", "nodes"),
    [
        ("onnx", {"Transpose": {"t"}, "Gemm": {"addmm"}, "Relu": {"relu"}, "Constant": {"add"}, "Add": {"add"}}),
        ("onnxrt_basic", {"Gemm": {"t", "addmm"}, "Relu": {"relu"}, "Add": {"add"}}),
        ("onnxrt_extended", {"com.microsoft.FusedGemm": {"t", "addmm", "relu"}, "Add": {"add"}}),
        ("onnxrt_all", {"com.microsoft.FusedGemm": {"t", "addmm", "relu"}, "Add": {"add"}}),
    ],
)
def test_a_node_comes_from_the_fx_nodes_that_it_computes(trace: Trace, stage: str, nodes: dict[str, set[str]]) -> None:
    """Each operator leads to the FX nodes that it stands for, a fused one to all of them, and to no other."""
    (artifact,) = trace.find(stage)
    lines = graph.lines_of(artifact)
    found = {node.target: reached_from(trace, artifact, lines[node.name][0]) for node in graph.nodes_of(artifact)}
    assert found == nodes


def test_the_table_says_what_each_level_fused_and_folded(trace: Trace) -> None:
    """The rows are the two fusions and the constant that became an initializer, with their levels."""
    rows = trace.table("onnxrt_changes")
    assert [(row["level"], row["operator"]) for row in rows if row["change"] == "fused"] == [
        ("basic", "Transpose"),
        ("basic", "Gemm"),
        ("extended", "Gemm"),
        ("extended", "Relu"),
    ]
    assert [row["operator"] for row in rows if row["change"] == "folded"] == ["Constant"]
    assert [row["operator"] for row in rows if row["change"] == "added"] == ["Gemm", "com.microsoft.FusedGemm"]
    assert trace.text("onnxrt_changes").count("\n") + 1 == len(rows)
    assert {row["provider"] for row in trace.table("onnxrt_providers")} == {"CPUExecutionProvider"}


def test_every_computing_line_of_each_graph_leads_to_a_users_line(trace: Trace) -> None:
    """The nodes count, constants and declarations do not, and of those that count each is linked."""
    for row in trace.coverage():
        if row["stage"].startswith("onnx"):
            assert row["counted"] == row["linked"] > 0, row["stage"]
    (level,) = trace.find("onnxrt_all")
    kinds = dict(zip(level.lines, graph.kinds(level), strict=True))
    assert [line.split(" = ")[1].split(" ")[0] for line, kind in kinds.items() if not kind] == ["com.microsoft.FusedGemm", "Add"]


def test_a_view_opens_on_the_graph_that_runs_and_finds_its_nodes(trace: Trace) -> None:
    """Of the stages that are there the last level is the one to open on; each node of a diagram leads to its line."""
    shown = payload(trace)
    there = {artifact["stage"] for artifact in shown["artifacts"]}
    assert max((s for s in shown["stages"] if s["name"] in there), key=lambda stage: stage["opens_at"])["name"] == "onnxrt_all"
    (level,) = (artifact for artifact in shown["artifacts"] if artifact["stage"] == "onnxrt_all")
    lines = trace.text("onnxrt_all").split("\n")
    operators = {
        name: lines[number - 1].split(" = ")[1].split(" ")[0]
        for name, number in zip(level["nodes"]["name"], level["nodes"]["line"], strict=True)
        if number
    }
    assert operators == {"fused node_addmm/GemmTransposeFusion/": "com.microsoft.FusedGemm", "node_add": "Add"}
    assert "com.microsoft.FusedGemm" in trace.diagram("onnxrt_all").source


INNER = """\
<
   ir_version: 10,
   opset_import: ["" : 20]
>
main_graph (bool c) => (float y) {
   ["first"] y = If (c) <else_branch: graph = g () => (float q) {
      q = Constant <value: tensor = float {1}> ()
   }, then_branch: graph = g () => (float q) {
      q = Constant <value: tensor = float {2}> ()
   }>
   z = Relu (y)
}"""


def made(text: str, *nodes: OnnxNode) -> Artifact:
    """An artifact of a graph in ONNX."""
    return Artifact("-:onnx", "onnx", "-", "", "ONNX", "onnx", text, data=OnnxGraph(nodes=nodes, constants=()))


def test_the_lines_of_a_node_are_those_of_the_graphs_inside_it_too() -> None:
    """A node with branches goes on to the node behind it, and a line that the nodes do not fit gives no lines at all."""
    branches = OnnxNode(name="first", op="node", target="If", inputs=(), reads=("c",), writes=("y",))
    relu = OnnxNode(name="z", op="node", target="Relu", inputs=("first",), reads=("y",), writes=("z",))
    assert graph.lines_of(made(INNER, branches, relu)) == {"first": (6, 7, 8, 9, 10), "z": (11,)}
    assert graph.lines_of(made(INNER, relu, branches)) == {}
    assert graph.lines_of(made(INNER, branches)) == {}


def test_a_graph_that_computes_nothing_has_no_lines_of_nodes() -> None:
    """ONNX Runtime optimises `torch.logsumexp` of a number to a graph that returns its input."""
    assert graph.lines_of(made("ir_version: 8\ngraph {\n}")) == {}
