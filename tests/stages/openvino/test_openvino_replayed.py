"""OpenVINO's stages, made from recorded events without OpenVINO."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import pytest

from explorer.model.stage import text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.fx_graph import node_lines
from explorer.stages.openvino import STAGES, executed, ir
from explorer.tracing.traced import Trace
from tests.facts import untold

RECORDING = "openvino_parts-torch2.13-cpu"
#: The FX node that each layer of the IR must come from, by the layer's type; each occurs in one part.
TYPES = {"MatMul": "addmm", "ReLU": "relu", "Transpose": "t"}


@pytest.fixture
def trace(replayed: Callable[[str], Trace]) -> Trace:
    """The recorded inference, which PyTorch has a part in."""
    return replayed(RECORDING)


def nodes_linked(trace: Trace, artifact: Artifact) -> dict[int, list[str]]:
    """The FX nodes that each line of a text is linked to."""
    (graph,) = trace.find("forward")
    names = {line: name for name, line in node_lines(graph).items()}
    links = [link for link in trace.links if link.source == artifact.id and link.target == graph.id]
    return {n: [names[line] for line in link.target_lines] for link in links for n in link.source_lines}


def test_every_stage_is_there(trace: Trace) -> None:
    """Each stage has its text: one of the graph, and of each part its IR and the graph that was executed."""
    assert not trace.failures
    assert [len(trace.find(stage.name)) for stage in STAGES] == [1, 2, 2]
    assert {a.kernel for a in trace.find("openvino_ir")} == {a.kernel for a in trace.find("openvino_executed")}


def test_what_ran_each_operator_is_said(trace: Trace) -> None:
    """Every operator of the graph is in one row; the one that OpenVINO does not have is PyTorch's, and says why."""
    (graph,) = trace.find("forward")
    rows = trace.table("openvino_partition")
    operators = sorted(node["name"] for node in graph.nodes if node["op"] == "call_function")
    assert sorted(name for row in rows for name in row["fx_nodes"]) == operators
    (left,) = trace.table("execution").where(engine="PyTorch")
    assert (left["what"], left["calls"]) == ("special_bessel_j0", 1) and not untold(left["why"], "OpenVINO", "operators")
    summary = next(stage for stage in STAGES if stage.name == "openvino_partition").summary(trace.find("openvino_partition"))
    assert not untold(summary, str(len(operators) - 1), f"{len(operators)} operators", "2 parts")


def test_lines_of_the_partition_stand_for_their_nodes(trace: Trace) -> None:
    """A node in a part is that of the same operator; the call of a part is all of the part's nodes."""
    (partition,), (graph,) = trace.find("openvino_partition"), trace.find("forward")
    targets = {node["name"]: node["target"] for node in graph.nodes}
    linked = nodes_linked(trace, partition)
    for number, names in linked.items():
        line = partition.lines[number - 1]
        if "self.fused_" in line:
            assert len(names) > 1
        else:
            assert [targets[name] in line for name in names] == [True], line
    assert len(linked) == len([n for n in graph.nodes if n["op"] == "call_function"]) + 2


def test_layers_are_read_as_an_xml_parser_reads_them(trace: Trace) -> None:
    """The layers found line by line are those of the XML, in its order, with their names and types."""
    for model in trace.find("openvino_ir"):
        expected = [(each.get("name"), each.get("type")) for each in ElementTree.fromstring(model.text).iter("layer")]
        assert [(layer.name, layer.type) for layer in ir.layers(model)] == expected
        assert all("<layer " in model.lines[layer.first - 1] for layer in ir.layers(model))
        assert all("</layer>" in model.lines[layer.last - 1] for layer in ir.layers(model))


def test_a_layer_is_linked_to_its_own_node(trace: Trace) -> None:
    """What only one operator becomes is linked to that node alone, with all lines of the layer."""
    seen = {}
    for model in trace.find("openvino_ir"):
        linked = nodes_linked(trace, model)
        for layer in ir.layers(model):
            if layer.type in TYPES:
                seen[layer.type] = {name for n in range(layer.first, layer.last + 1) for name in linked[n]}
    assert seen == {type: {node} for type, node in TYPES.items()}


def test_an_executed_layer_is_linked_to_the_layers_it_was_made_of(trace: Trace) -> None:
    """The link of a fused layer has the lines of exactly the layers that OpenVINO names, in the IR of the same part."""
    fused = 0
    for graph in trace.find("openvino_executed"):
        (model,) = [a for a in trace.find("openvino_ir") if a.kernel == graph.kernel]
        places = {layer.name: layer for layer in ir.layers(model)}
        links = {link.source_lines[0]: link for link in trace.links if link.source == graph.id}
        for number, row in enumerate(graph.data["rows"], 2):
            wanted = {n for name in row["original"] for n in range(places[name].first, places[name].last + 1)}
            assert row["name"] in graph.lines[number - 1] and row["kernel"] in graph.lines[number - 1]
            assert (links[number].target, set(links[number].target_lines)) == (model.id, wanted)
            fused += len(row["original"]) > 1
    assert fused == 2


def test_a_users_line_leads_to_its_kernel_alone(trace: Trace) -> None:
    """The line of the linear layer is in the matrix product of one part; that of the last addition in the other part."""
    (source,) = [a for a in trace.find("source") if "self.linear(x)" in a.text]

    def parts(code: str) -> dict[str, set[str]]:
        line = next(n for n, text in enumerate(source.lines, 1) if code in text)
        found = {a.id: a for a in trace.find("openvino_executed")}
        reached = [(found[r["artifact"]], r["lines"]) for r in trace.follow(source.id, line) if r["artifact"] in found]
        return {a.kernel: {a.data["rows"][n - 2]["layer"] for n in lines} for a, lines in reached}

    assert parts("self.linear(x)") == {"fused_1": {"MatMul", "Subgraph"}}
    assert parts("w * 2 + 1.5") == {"fused_0": {"Subgraph"}}


LOOP = """\
<net name="Model" version="11">
	<layers>
		<layer id="0" name="a&lt;b" type="Loop" version="opset5">
			<body>
				<layers>
					<layer id="0" name="inner" type="Add" version="opset1" />
					<layer id="1" name="after/aten.add/Add" type="Add" version="opset1">
					</layer>
				</layers>
			</body>
		</layer>
	</layers>
</net>"""


def test_layers_inside_a_layer_are_layers_of_their_own() -> None:
    """A loop's layer goes on to its own end, and what is in its body stands behind it; a name is read as XML has it."""
    event = Event("openvino_ir", 0.0, data={"name": "fused_0", "text": LOOP})
    artifact = text_artifact(event, "id", "IR", "xml")
    found = [(layer.name, layer.fx_node, layer.first, layer.last) for layer in ir.layers(artifact)]
    assert found == [("a<b", "a<b", 3, 11), ("inner", "inner", 6, 6), ("after/aten.add/Add", "after", 7, 8)]
    assert [n for n, kind in enumerate(ir.kinds(artifact), 1) if not kind] == [3, 6, 7]


def test_a_layer_that_openvino_gives_no_origin_is_not_linked(trace: Trace) -> None:
    """A Reorder names no layer of the IR: it counts as computing, and has no link."""
    rows = [
        {**dict(row), "layer": "Reorder", "original": ()} if row["layer"] == "MatMul" else dict(row)
        for row in trace.find("openvino_executed")[0].data["rows"]
    ]
    event = Event("openvino_executed", 0.0, "0/0", "inference", {"name": "fused_1", "rows": rows})
    artifact = executed.STAGE.artifact_of(event, "id")
    number = next(n for n, line in enumerate(artifact.lines, 1) if "Reorder" in line)
    assert executed.kinds(artifact)[number - 1] == ""
    linked = {line for link in executed.link(artifact, trace) for line in link.source_lines}
    assert linked and number not in linked
