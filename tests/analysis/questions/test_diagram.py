"""Diagrams: what is drawn, and how a large graph is collapsed."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import graphviz
import pytest

from explorer.analysis.questions.diagram import collapsed_diagram, fx_diagram, modules, scheduler_diagram
from explorer.errors import InputError
from explorer.model.values import Artifact, plain
from explorer.tracing.traced import Trace
from tests.facts import says

Replayed = Callable[[str], Trace]


def node(name: str, *inputs: str, module: str | None = None, op: str = "call_function") -> dict[str, object]:
    own = {} if module is None else {"module": module}
    return {"name": name, "op": op, "target": f"aten.{name[:3]}", "inputs": inputs, **own}


GRAPH = (
    node("x", op="placeholder"),
    node("mm_1", "x", module="layers.0.up"),
    node("permute", "mm_1"),
    node("relu", "permute", module="layers.0.act"),
    node("mm_2", "relu", module="layers.1.up"),
    node("head", "mm_2", module="head"),
    node("output", "head", op="output"),
)


def test_modules_are_as_deep_as_the_boxes_allow() -> None:
    """With room for three boxes two layers and the head; with more, what is inside them; a pass's node is around both."""
    assert modules(GRAPH, 3) == {
        "mm_1": "layers.0",
        "permute": "layers.0",
        "relu": "layers.0",
        "mm_2": "layers.1",
        "head": "head",
    }
    assert modules(GRAPH, 10)["permute"] == "layers.0" and modules(GRAPH, 10)["mm_1"] == "layers.0.up"
    assert set(modules(GRAPH, 1).values()) == {"layers", "head"}


def test_a_collapsed_diagram_has_one_arrow_between_two_boxes() -> None:
    """Nodes of one module are one box with their number; inputs and the output are not drawn."""
    source = collapsed_diagram(GRAPH, modules(GRAPH, 3), lambda inside: (f"{len(inside)} nodes",)).source
    assert source.count(" -> ") == 2 and "3 nodes" in source and "placeholder" not in source


def test_a_large_graph_is_collapsed_and_a_small_one_is_not() -> None:
    """More nodes than `boxes` are drawn by module."""
    trace = Trace(artifacts=(Artifact("a", "post_grad", "0/0", "forward", "t", "fx", "", data=plain({"nodes": GRAPH})),))
    assert "relu" in trace.diagram("post_grad").source
    small = trace.diagram("post_grad", boxes=3).source
    assert "layers.0" in small and "permute" not in small


@pytest.mark.parametrize("stage", ["dynamo", "post_grad", "ir_pre_fusion", "ir_post_fusion"])
def test_every_stage_with_nodes_can_be_drawn(stage: str, replayed: Replayed) -> None:
    """A recorded trace gives a digraph with a box for each node."""
    trace = replayed("attention-torch2.13-cpu")
    (artifact,) = trace.find(stage)
    source = trace.diagram(stage).source
    assert source.startswith("digraph") and source.count("label=") >= len(artifact.nodes)


def test_what_was_fused_is_in_a_frame(replayed: Replayed) -> None:
    """The two nodes that backward fuses stand in one cluster; by default it is the fused IR that is drawn."""
    trace = replayed("mlp_train-torch2.13-cpu")
    source = trace.diagram(graph="backward").source
    assert source.count("subgraph cluster_") == sum(
        1 for a in trace.find("ir_post_fusion", graph="backward") for n in a.nodes if n["fused"]
    )
    assert "op2" in trace.diagram(graph="backward", boxes=1).source


def test_a_graph_that_is_not_there_is_an_error_that_names_those_that_are(replayed: Replayed) -> None:
    """An unknown stage, and two graphs of one stage."""
    trace = replayed("mlp_train-torch2.13-cpu")
    with pytest.raises(InputError, match=says("'guards'", "post_grad")):
        trace.diagram("guards")
    with pytest.raises(InputError, match=says("graph='forward'", "graph='backward'")):
        trace.diagram("post_grad")


FUSED = (
    {"name": "op0_op1", "kind": "FusedSchedulerNode", "fused": ["op0", "op1"], "inputs": []},
    {"name": "op2", "inputs": ["op0_op1"]},
)
SINGLE = (
    {"name": "op0"},
    {"name": "op1", "inputs": ["op0"], "origins": ["sin", "cos"]},
    {"name": "op2", "inputs": ["op1"]},
)


def test_fused_nodes_share_a_frame() -> None:
    """In the diagram after fusion a fused group is one cluster around its nodes; the edges are those before fusion."""
    source = scheduler_diagram(SINGLE, FUSED).source
    inside, outside = source[source.index("subgraph") : source.index("}")], source[source.index("}") :]
    assert "op0_op1" in inside and "sin, cos" in inside and "op2" not in inside
    assert "n0 -> n1" in outside and "n1 -> n2" in outside


def test_a_diagram_without_the_ir_before_fusion() -> None:
    """If the trace has no IR before fusion, the diagram still has the fused nodes' names."""
    source = scheduler_diagram((), FUSED).source
    assert all(name in source for name in ("op0", "op1", "op2"))


@pytest.mark.parametrize("name", ["<b>x</b>", "<TABLE>", 'a"; evil [', "back\\nslash\\", "port:s", "end", "\x00\x1b", "a&b;"])
def test_any_name_can_be_drawn(name: str) -> None:
    """A node's name is drawn as it is, whatever it means to dot, HTML or XML."""
    drawn = fx_diagram(({"name": name, "target": name}, {"name": "user", "inputs": [name]}))
    try:
        svg = drawn.pipe(format="svg", quiet=True)
    except graphviz.ExecutableNotFound:
        pytest.skip("graphviz's dot is not installed")
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    shown = "".join(c if c.isprintable() else " " for c in name).strip()
    assert shown in ["".join(text.itertext()).strip() for text in texts]
