"""Facts that a recording of format 1 lacks are read from its texts, once, when it is loaded."""

from __future__ import annotations

import gzip
import json

import pytest

from explorer.model.values import Event, jsonable
from explorer.sources.files import trace_file as files
from explorer.sources.files.upgrades import upgraded, with_sections
from explorer.stages.records import event_data

PASS = {
    "name": "p",
    "section": "joint",
    "seconds": 0.1,
    "before": "",
    "made": ["seed", "one"],
    "erased": [],
    "replaced": {"one": ["a"]},
    "text": "x = placeholder x_1()\nseed = prims.seed(x)\none = aten.add.Tensor(seed, x)\noutput = output output((one,))",
}
MATCH = {
    "pattern": "p",
    "kind": "k",
    "file": "f.py",
    "line": 1,
    "matched": ["a"],
    "made": ["b"],
    "expression": "e",
    "text": "matched\n  a = aten.sin.default(x)\nmade\n  b = call_module sub(x)",
}
NODE = {"name": "op0", "kind": "k", "device": "cpu", "fused": [], "inputs": [], "reads": [], "writes": ["buf0"]}
IR = {
    "nodes": [{**NODE, "sizes": [], "origins": [], "line_count": 2}],
    "text": "op0: SchedulerNode(ComputedBuffer)\n"
    "    buf0.layout = FixedLayout('cuda:0', torch.bfloat16, size=[s0, 4], stride=[4, 1])\n",
}


def test_the_nodes_of_a_pass_are_read_out_of_its_text() -> None:
    """Name and target of each line but the output's, of placeholders and modules too, and the users of a node without a line."""
    data = upgraded("event", "fx_pass", PASS, 1)
    assert (data["names"], data["targets"]) == (["x", "seed", "one"], ["x_1", "prims.seed", "aten.add.Tensor"])
    assert data["users"] == {"seed": ["one"]}
    assert jsonable(event_data("fx_pass", data))["names"] == ["x", "seed", "one"]


def test_the_nodes_of_a_pattern_are_read_out_of_its_text() -> None:
    """One target for each name that it says it matched and made."""
    data = upgraded("event", "pattern_match", MATCH, 1)
    assert (data["matched_targets"], data["made_targets"]) == (["aten.sin.default"], ["sub"])


@pytest.mark.parametrize(
    ("graph", "time", "section"), [("", 1.0, "pre_grad"), ("inference", 1.0, "joint"), ("inference", 3.0, "post_grad")]
)
def test_the_round_of_a_pattern_is_known_by_the_graph_before_it(graph: str, time: float, section: str) -> None:
    """A pattern that fires after the graph was handed to Inductor is of the post-grad round."""
    node = {"name": "a", "op": "output", "target": "output", "args": "", "kwargs": "", "inputs": []}
    handed = Event(
        "inductor_input", 2.0, "0/0", "inference", event_data("inductor_input", {"text": "", "nodes": [node], "stacks": []})
    )
    match = Event("pattern_match", time, "0/0", graph, event_data("pattern_match", upgraded("event", "pattern_match", MATCH, 1)))
    (found,) = [event for event in with_sections(sorted([handed, match], key=lambda e: e.time)) if event.kind == "pattern_match"]
    assert found.data["section"] == section


def test_the_layouts_of_buffers_are_read_out_of_the_schedulers_text() -> None:
    """Each at the node that writes the buffer; in a saved trace too, whose text is not among its data."""
    expected = {"buf0": {"dtype": "torch.bfloat16", "size": ["s0", "4"], "stride": ["4", "1"]}}
    (node,) = upgraded("event", "ir_post_fusion", IR, 1)["nodes"]
    assert node["layouts"] == expected
    artifact = {"id": "i", "stage": "ir_post_fusion", "frame": "0/0", "graph": "inference", "title": "t", "language": "text"}
    value = {
        "meta": {},
        "artifacts": [{**artifact, "text": IR["text"], "data": {"nodes": IR["nodes"]}}],
        "links": [],
        "failures": [],
    }
    whole = {"explorer": "trace", "format": 1, "sha256": files._digest(value), "trace": value}
    (loaded,) = files.loads(gzip.compress(json.dumps(whole).encode())).artifacts
    assert jsonable(loaded.nodes[0]["layouts"]) == expected and "text" not in loaded.data
