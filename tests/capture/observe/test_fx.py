"""The facts of FX nodes: what is copied of a graph, and that it is a copy."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import torch
from torch import fx, nn

from explorer.capture.observe.fx import decomposition_site, graph_record, module_path, node_row, target_name
from explorer.model.shared import FxNode


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return torch.relu(self.linear(x)).mul(self.weight).clamp(min=0, max=scale)


@pytest.fixture
def graph() -> fx.GraphModule:
    """The traced module: placeholders, a call of each kind, a parameter, an output."""
    return fx.symbolic_trace(Small())


def rows(graph: fx.GraphModule) -> dict[str, FxNode]:
    return {row.name: row for row in graph_record(graph).nodes or ()}


def test_there_is_a_row_a_node_in_order(graph: fx.GraphModule) -> None:
    """Each node has a row with its name and opcode, in the graph's order."""
    made = graph_record(graph).nodes or ()
    assert [row.name for row in made] == [node.name for node in graph.graph.nodes]
    assert [row.op for row in made] == [
        "placeholder",
        "placeholder",
        "call_module",
        "call_function",
        "get_attr",
        "call_method",
        "call_method",
        "output",
    ]


def test_a_row_has_target_arguments_and_inputs(graph: fx.GraphModule) -> None:
    """Arguments are text; inputs are the names of the nodes among them, once each."""
    made = rows(graph)
    assert made["relu"].target == "torch.relu" and made["relu"].args == "(linear,)" and made["relu"].inputs == ("linear",)
    assert made["linear"].target == "linear" and made["mul"].inputs == ("relu", "weight")
    assert made["clamp"].kwargs == "{'min': 0, 'max': scale}" and made["clamp"].inputs == ("mul", "scale")
    assert made["relu"].kwargs == "" and made["scale"].args == "(2.0,)"


def test_shapes_come_from_the_nodes_meta(graph: fx.GraphModule) -> None:
    """A tensor has shape, stride, dtype and device, several have each theirs, a number its value; nothing where unknown."""
    node = next(iter(graph.graph.nodes))
    node.meta["val"] = torch.empty(2, 3, dtype=torch.float16).t()
    row = node_row(node, {})
    assert (row.shape, row.stride, row.dtype, row.device) == (("3", "2"), ("1", "3"), "float16", "cpu")
    node.meta["val"] = (torch.empty(2), torch.empty(3, dtype=torch.int64))
    assert [output.dtype for output in node_row(node, {}).outputs or ()] == ["float32", "int64"]
    node.meta["val"] = 7
    assert node_row(node, {}).value == "7"
    del node.meta["val"]
    assert not {"shape", "outputs", "value"} & set(node_row(node, {}))


def test_stacks_are_kept_once_and_referred_to_by_number(graph: fx.GraphModule) -> None:
    """Nodes made by one line of the program share its stack."""
    first, second, third, *_ = graph.graph.nodes
    first.meta["stack_trace"] = second.meta["stack_trace"] = "A"
    third.meta["stack_trace"] = "B"
    made = graph_record(graph)
    assert made.stacks == ("A", "B")
    assert [row.stack for row in made.nodes or ()][:4] == [0, 0, 1, None]


def test_the_innermost_module_is_recorded() -> None:
    """As Dynamo reaches it."""
    assert module_path({"a": ("L['self']", Small), "b": ("L['self'].h.0.attn", nn.Linear)}) == "L['self'].h.0.attn"


def test_a_node_says_where_it_comes_from(graph: fx.GraphModule) -> None:
    """Its module, its number for the backward, and the nodes that it was made of; nothing where meta does not say."""
    node = next(node for node in graph.graph.nodes if node.op == "call_function")
    plainly = node_row(node, {})
    assert not {"module", "original", "decomposition", "seq_nr", "from", "stack"} & set(plainly)
    node.meta |= {"nn_module_stack": {"a": ("L['self'].linear", nn.Linear)}, "seq_nr": 0}
    node.meta["from_node"] = [SimpleNamespace(name="relu_1"), SimpleNamespace(name="relu_2")]
    row = node_row(node, {})
    assert (row.module, row.seq_nr, row.from_) == ("L['self'].linear", 0, ("relu_1", "relu_2"))


def test_a_decomposed_operator_names_what_defines_it(graph: fx.GraphModule) -> None:
    """A node that came from another operator says which, and where its decomposition stands; others say nothing."""
    node = next(node for node in graph.graph.nodes if node.op == "call_function")
    node.target = torch.ops.aten.mul.Tensor
    node.meta["original_aten"] = torch.ops.aten.silu.default
    row = node_row(node, {})
    assert row.original == "aten.silu.default" and re.fullmatch(r"torch/\S+\.py:\d+ silu", row.decomposition or "")
    node.meta["original_aten"] = torch.ops.aten.mul.Tensor
    assert "decomposition" not in node_row(node, {})
    output = next(node for node in graph.graph.nodes if node.op == "placeholder")
    output.meta["original_aten"] = torch.ops.aten.silu.default
    assert "decomposition" not in node_row(output, {})


def test_an_operator_that_aten_itself_decomposes_has_no_place() -> None:
    """The place is empty where no Python function decomposes an operator, and for an unknown operator."""
    assert decomposition_site("aten.linear.default") == "" == decomposition_site("aten.no_such.default")


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("l_x_", "l_x_"),
        (torch.sin, "torch.sin"),
        (torch.ops.aten.add.Tensor, "aten.add.Tensor"),
        (torch.ops.aten.add, "aten.add"),
    ],
)
def test_targets_are_named_as_people_write_them(target: object, name: str) -> None:
    """Names of inputs, torch functions, and operators with their overload."""
    assert target_name(target) == name


def test_the_copy_does_not_follow_the_graph(graph: fx.GraphModule) -> None:
    """What was recorded stays when a pass changes the graph in place."""
    before = graph_record(graph)
    node = next(node for node in graph.graph.nodes if node.op == "call_function")
    node.target = torch.sigmoid
    node.name = "other"
    assert rows(graph)["other"].target == "torch.sigmoid"
    assert [row.target for row in before.nodes or () if row.name == "relu"] == ["torch.relu"]


def test_the_text_is_readable_python(graph: fx.GraphModule) -> None:
    """The text is the graph as a class with a forward, one line per node."""
    text = graph_record(graph).text
    assert "class Small(torch.nn.Module):" in text and "def forward(self, x" in text
    assert text.index("linear = self.linear(x)") < text.index("relu = torch.relu(linear)") < text.index("return clamp")
