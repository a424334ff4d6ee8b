"""The nodes that a node of an optimised graph was made of, on small graphs written out here."""

from __future__ import annotations

from explorer.stages.onnxrt.origins import OnnxGraph, OnnxNode, origins


def graph(*nodes: str, inputs: str = "x", constants: str = "") -> OnnxGraph:
    """A graph of lines such as "name: a b = Operator(c, d)"."""
    made = [OnnxNode(name=name, op="placeholder", target="", inputs=(), reads=(), writes=(name,)) for name in inputs.split()]
    for line in nodes:
        name, _, rest = line.partition(": ")
        writes, _, call = rest.partition(" = ")
        operator, _, reads = call.rstrip(")").partition("(")
        values = tuple(value for value in reads.split(", ") if value)
        made.append(OnnxNode(name=name, op="node", target=operator, inputs=(), reads=values, writes=tuple(writes.split())))
    return OnnxGraph(nodes=tuple(made), constants=tuple(constants.split()))


def test_a_fused_node_is_made_of_all_that_it_computes() -> None:
    """All nodes between its inputs and its result, constants that only they use among them."""
    before = graph("half: h = Constant()", "erf: e = Erf(x)", "add: a = Add(e, h)", "mul: m = Mul(a, x)", "out: y = Relu(m)")
    after = graph("gelu: m = Gelu(x)", "out: y = Relu(m)")
    assert origins(before, after) == {"gelu": ("half", "erf", "add", "mul"), "out": ("out",)}


def test_a_node_that_is_still_there_is_part_of_no_other() -> None:
    """What one of two users still reads is not said to be fused into the other."""
    before = graph("a: a = Relu(x)", "b: b = Exp(a)", "c: c = Neg(a)")
    after = graph("a: a = Relu(x)", "fused: b = ReluExp(x)", "c: c = Neg(a)")
    assert origins(before, after) == {"a": ("a",), "fused": ("b",), "c": ("c",)}


def test_a_value_that_another_took_the_place_of_is_not_guessed_at() -> None:
    """Of two equal nodes one is left; what read the other is made of itself alone."""
    before = graph("p: p = Exp(x)", "q: q = Exp(x)", "sum: s = Mul(q, w)", inputs="x w")
    after = graph("p: p = Exp(x)", "sum/cse: s = Mul(p, w)", inputs="x w")
    assert origins(before, after) == {"p": ("p",), "sum/cse": ("sum",)}


def test_nodes_that_hand_each_other_new_values_are_taken_together() -> None:
    """A change of layout gives its values new names: only the three nodes together compute what one did."""
    before = graph("relu: r = Relu(x)", "pool: y = MaxPool(r)")
    after = graph(
        "relu: r = Relu(x)", "in: n = ReorderInput(r)", "pool_nchwc: m = MaxPool(n)", "ReorderOutput: y = ReorderOutput(m)"
    )
    assert origins(before, after) == {"relu": ("relu",), **dict.fromkeys(("in", "pool_nchwc", "ReorderOutput"), ("pool",))}


def test_a_node_with_new_values_alone_is_made_of_nothing() -> None:
    """Where no name says what a node computes, nothing is claimed."""
    before = graph("relu: r = Relu(x)")
    after = graph("relu: r = Relu(x)", "other: n = Shape(r)")
    assert origins(before, after) == {"relu": ("relu",), "other": ()}


def test_one_node_may_compute_what_several_did() -> None:
    """A split takes the place of two slices, and is made of both."""
    before = graph("first: a = Slice(x, i)", "second: b = Slice(x, j)", constants="i j")
    after = graph("split: a b = Split(x)")
    assert origins(before, after) == {"split": ("first", "second")}


def test_a_node_that_reads_past_another_does_the_part_of_both() -> None:
    """Where an identity is taken out, the node behind it is still there, and is made of both."""
    before = graph("same: i = Identity(x)", "neg: y = Neg(i)")
    after = graph("neg: y = Neg(x)")
    assert origins(before, after) == {"neg": ("same", "neg")}
