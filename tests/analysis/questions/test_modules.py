"""Graphs by module: a node is in its own module or in the one around it, and no arrow leads back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from time import process_time
from typing import Any

import pytest

from explorer.analysis.questions.modules import NOT_COMPUTED, boxes_in_order, module_paths
from explorer.model.trace_data import artifact_of
from explorer.tracing.traced import Trace

#: Recordings of programs with modules, some with a backward.
RECORDED = ("attention-torch2.13-cpu", "attention-torch2.11-cuda", "mlp_train-torch2.13-cpu", "mlp_train-torch2.11-cuda")


def node(name: str, *inputs: str, module: str | None = None, op: str = "call_function") -> dict[str, Any]:
    return {"name": name, "op": op, "inputs": inputs, **({} if module is None else {"module": module})}


def in_order(nodes: Sequence[Mapping[str, Any]], boxes: Mapping[str, str]) -> list[str]:
    """The boxes in an order in which each comes after those that it reads; graphlib's CycleError where there is none."""
    above: dict[str, set[str]] = {box: set() for box in boxes.values()}
    for each in nodes:
        if each["name"] in boxes:
            above[boxes[each["name"]]] |= {boxes[i] for i in each.get("inputs", ()) if i in boxes} - {boxes[each["name"]]}
    return list(TopologicalSorter(above).static_order())


def by_module(nodes: Sequence[Mapping[str, Any]], depth: int) -> dict[str, str]:
    return {name: ".".join(path[:depth]) for name, path in module_paths(nodes).items()}


def graphs(trace: Trace) -> Iterable[Sequence[Mapping[str, Any]]]:
    yield from (a.nodes for a in trace.artifacts if a.nodes and a.nodes[0].get("op"))


@pytest.fixture
def blocks(zoo: Callable[[str], Trace]) -> Trace:
    """A training step of PyTorch's own block and of transformers' GPT-2, one after the other."""
    pytest.importorskip("transformers", reason="transformers is not installed: it has GPT-2's block")
    return zoo("layers training h100")


def test_a_transformer_block_is_drawn_in_its_order(blocks: Trace) -> None:
    """The additions are the block's own, each a box between what it adds and the norm that reads it."""
    nodes = artifact_of(blocks, "0/0:forward:forward").nodes
    boxes = boxes_in_order(nodes, by_module(nodes, 2))
    order = in_order(nodes, boxes)
    assert [box for box in order if box.startswith("gpt2")] == [
        *("gpt2.ln_1", "gpt2.attn", "gpt2", "gpt2.ln_2", "gpt2.mlp", "gpt2 (2)")
    ]
    own = ("torch.norm1", "torch.self_attn", "torch", "torch.norm2", "torch.linear1", "torch (2)", "torch.linear2", "torch (3)")
    assert [box for box in order if box.startswith("torch")] == [*own]
    adds = {each["name"]: boxes[each["name"]] for each in nodes if each.get("target") == "aten.add.Tensor"}
    assert {"torch", "torch (3)", "gpt2", "gpt2 (2)"} <= set(adds.values())


@pytest.mark.parametrize("name", RECORDED)
def test_no_box_of_a_recorded_graph_is_above_and_below_another(name: str, replayed: Callable[[str], Trace]) -> None:
    """As graphlib orders the boxes that the nodes' own arrows give, at every depth."""
    orders = [
        in_order(nodes, boxes_in_order(nodes, by_module(nodes, depth))) for nodes in graphs(replayed(name)) for depth in (1, 2, 3)
    ]
    assert any(len(order) > 1 for order in orders)


def test_no_box_of_a_block_is_above_and_below_another(blocks: Trace) -> None:
    """Also in its joint graph, which passes each module twice, and in its backward."""
    found = list(graphs(blocks))
    assert len(found) >= 7
    for nodes in found:
        for depth in (1, 2, 3, 4):
            boxes = boxes_in_order(nodes, by_module(nodes, depth))
            assert set(boxes) == {each["name"] for each in nodes if each["op"] not in NOT_COMPUTED}
            in_order(nodes, boxes)


def test_boxes_of_any_graph_are_in_order_and_few() -> None:
    """Of random graphs too, where plain contraction has cycles; a graph in which it has none keeps one box a label."""
    choose = random.Random(0)
    cycles = 0
    for _ in range(300):
        nodes = [node(f"n{n}", *(f"n{choose.randrange(n)}" for _ in range(choose.randint(0, 2)) if n)) for n in range(12)]
        labels = {each["name"]: choose.choice("abcd") for each in nodes}
        boxes = boxes_in_order(nodes, labels)
        in_order(nodes, boxes)
        assert {name: box[0] for name, box in boxes.items()} == labels
        try:
            in_order(nodes, labels)
        except ValueError:  # graphlib's CycleError
            cycles += 1
        else:
            assert boxes == labels
    assert 50 < cycles < 300


def test_what_a_pass_made_is_in_the_module_around_it() -> None:
    """Around all that it reads and all that reads it, over others without a module; never simply where its first input is."""
    nodes = (
        node("x", op="placeholder"),
        node("mm", "x", module="h.0.up"),
        node("permute", "mm"),
        node("clone", "permute"),
        node("relu", "clone", module="h.0.act"),
        node("cast", "relu"),
        node("tanh", "cast", module="h.0.act"),
        node("add", "x", "tanh", module=""),
        node("scale", "add"),
        node("output", "scale", op="output"),
    )
    paths = module_paths(nodes)
    assert paths["permute"] == paths["clone"] == ("h", "0")
    assert paths["cast"] == ("h", "0", "act") and paths["add"] == paths["scale"] == ()
    assert "x" not in paths and "output" not in paths


def test_a_module_that_is_called_twice_is_two_boxes() -> None:
    """A node between its two calls reads the first and feeds the second."""
    nodes = (node("a", module="lin"), node("b", "a", module="act"), node("c", "b", module="lin"), node("d", module="lin"))
    boxes = boxes_in_order(nodes, by_module(nodes, 1))
    assert boxes == {"a": "lin", "b": "act", "c": "lin (2)", "d": "lin (2)"}


def test_a_loop_over_two_modules_takes_little_longer_than_its_length() -> None:
    """Of 4,000 steps of a loop that calls two modules in turn each is a box; no box is compared with all before it."""
    nodes = [node(f"n{step}", *([f"n{step - 1}"] if step else []), module=f"m{step % 2}") for step in range(4000)]
    began = process_time()
    boxes = boxes_in_order(nodes, by_module(nodes, 1))
    assert process_time() - began < 1
    assert boxes["n0"] == "m0" and boxes["n3999"] == "m1 (2000)" and len(set(boxes.values())) == 4000
