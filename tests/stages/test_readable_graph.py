"""The nodes of a graph's text are those of the graph that the text was written of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from explorer.stages.readable_graph import graph_of_text
from tests.each import each

#: What a text states of a node. It does not state modules, decompositions and autograd's numbers.
STATED = ("name", "op", "target", "args", "kwargs", "inputs", "shape", "stride", "dtype", "device", "value")


#: Recordings that hold the text of a graph beside its nodes, which were copied from torch's own objects.
RECORDINGS = ("iree_linear", "onnxrt_linear", "openvino_parts", "tvm_linear", "xla_linear")


@each(f"{program}-torch2.13-cpu" for program in RECORDINGS)
def test_the_nodes_are_those_that_were_copied_from_the_graph(name: str, recorded: Callable[[str], Any]) -> None:
    """Every node, its call, its inputs and what it gives, of each recorded graph whose nodes were copied from torch's objects."""
    graphs = [e for e in recorded(name)[0] if e.data.get("graph_text") is not None and e.kind != "onnx_exported_program"]
    assert graphs
    for event in graphs:
        read = graph_of_text(event.data["text"])
        nodes = (*read.nodes, *(read.inner or ()))
        copied = (*event.data["nodes"], *(event.data.get("inner") or ()))
        assert [[node.get(key) for key in STATED] for node in nodes] == [[node.get(key) for key in STATED] for node in copied]


WRITTEN = """class GraphModule(torch.nn.Module):
    def forward(
        self,
        primals_1: "f32[s77, Mod(s0, 2)][Mod(s0, 2), 1]cuda:0",  # PlainAOTInput(idx=0)
        primals_2: "bf16[8]",  # ParamAOTInput(target='fc.weight')
        primals_3: "Sym(s77)",  # PlainAOTInput(idx=1)
    ):
        # File: /home/me/model.py:7 in forward, code: y = x.clamp_(0)[1:]
        mul: "f8e4m3fn[2]" = torch.ops.aten.mul.Tensor(primals_1, -0.5, out = primals_2);  primals_1 = None
        x_1 = mul.clamp_(0)
        true_graph_0 = self.true_graph_0
        cond = torch.ops.higher_order.cond(x_1, true_graph_0, true_graph_0, (mul,));  x_1 = None
        getitem: "f32[2]" = cond[0];  cond = None

        # No stacktrace found for following nodes
        mul[0] = getitem;  setitem = mul;  mul = None
        add = primals_3 + 1
        return (
            getitem,  # PlainAOTOutput(idx=0)
            add,  # PlainAOTOutput(idx=1)
        )

    class true_graph_0(torch.nn.Module):
        def forward(self, arg0_1: "f32[2]"):
            # File: /home/me/model.py:9 in branch, code: return a.sin()
            sin: "f32[2]" = torch.ops.aten.sin.default(arg0_1);  arg0_1 = None
            return (sin,)
"""


def test_everything_that_a_text_can_hold() -> None:
    """Inputs on lines of their own, operators, methods, changes in place, attributes, graphs inside, several lines of outputs."""
    read = graph_of_text(WRITTEN)
    nodes = {node.name: node for node in (*read.nodes, *(read.inner or ()))}
    assert [node.name for node in read.nodes] == [
        *("primals_1", "primals_2", "primals_3", "mul", "x_1", "true_graph_0", "cond", "getitem", "setitem", "add", "output")
    ]
    assert nodes["primals_1"].shape == ("s77", "Mod(s0, 2)")
    assert nodes["primals_1"].stride == ("Mod(s0, 2)", "1")
    assert (nodes["primals_1"].input, nodes["primals_2"].input) == ("args[0]", "self.get_parameter('fc.weight')")
    assert (nodes["primals_2"].dtype, nodes["primals_2"].stride, nodes["primals_2"].device) == ("bfloat16", None, None)
    assert nodes["primals_3"].value == "s77"
    mul = nodes["mul"]
    assert (mul.op, mul.target, mul.args, mul.kwargs) == (
        "call_function",
        "aten.mul.Tensor",
        "(primals_1, -0.5)",
        "{'out': primals_2}",
    )
    assert (mul.inputs, mul.dtype) == (("primals_1", "primals_2"), "float8_e4m3fn")
    assert (nodes["x_1"].op, nodes["x_1"].target, nodes["x_1"].args) == ("call_method", "clamp_", "(mul, 0)")
    assert (nodes["true_graph_0"].op, nodes["true_graph_0"].target) == ("get_attr", "true_graph_0")
    assert nodes["cond"].target == "torch.ops.higher_order.cond"
    assert (nodes["getitem"].target, nodes["getitem"].args) == ("_operator.getitem", "(cond, 0)")
    assert (nodes["setitem"].target, nodes["setitem"].inputs) == ("_operator.setitem", ("mul", "getitem"))
    assert (nodes["add"].target, nodes["add"].inputs) == ("_operator.add", ("primals_3",))
    assert nodes["output"].inputs == ("getitem", "add")
    inner = [node.name for node in read.inner or ()]
    assert inner == ["true_graph_0.arg0_1", "true_graph_0.sin", "true_graph_0.output"]
    assert nodes["true_graph_0.sin"].inputs == ("true_graph_0.arg0_1",)
    stacks = read.stacks or ()
    assert 'File "/home/me/model.py", line 7, in forward\n    y = x.clamp_(0)[1:]' in stacks[mul.stack or 0]
    assert nodes["setitem"].stack is None
    assert "line 9, in branch" in stacks[nodes["true_graph_0.sin"].stack or 0]


def test_a_line_that_is_no_code_loses_itself_alone() -> None:
    """A text that was cut off in the middle of a line gives the nodes before it."""
    read = graph_of_text(WRITTEN[: WRITTEN.index("higher_order") + 5])
    assert [node.name for node in read.nodes][-2:] == ["x_1", "true_graph_0"]


def test_a_return_that_was_cut_off_does_not_take_the_next_graph_away() -> None:
    """The graph that follows is read."""
    text = "class A(M):\n    def forward(self, a):\n        b = a + 1\n        return (b,\n"
    text += "    class inner(M):\n        def forward(self, c):\n            d = c + 1\n            return (d,)\n"
    read = graph_of_text(text)
    assert [node.name for node in read.inner or ()] == ["inner.d", "inner.output"]


@pytest.mark.parametrize(
    "line", ["x = " + "-" * 5000 + "a", "x = " + "(" * 500, "return pytree.tree_unflatten()", "x = a ** b ** 9"]
)
def test_strange_lines_are_no_errors(line: str) -> None:
    """The lines before and after them are read."""
    read = graph_of_text(f"class A(M):\n    def forward(self, a):\n        b = a + 1\n        {line}\n        c = b + 1\n")
    assert {"b", "c"} <= {node.name for node in read.nodes}
