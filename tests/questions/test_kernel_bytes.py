"""The bytes that pass between the kernels of a graph, also of a large one."""

from __future__ import annotations

from time import process_time

from explorer.model.artifacts import FxGraph
from explorer.model.records import blank
from explorer.model.rows import FxNode
from explorer.model.values import Artifact
from explorer.questions.kernel_bytes import Traffic, _Graph


def node(name: str, op: str, *inputs: str) -> FxNode:
    return blank(FxNode, name=name, op=op, target=f"aten.{name}.default", inputs=inputs, shape=("2",), dtype="torch.float32")


def test_each_use_is_looked_at_once() -> None:
    """Of 1,000 nodes in a chain, each a kernel of its own, each reads and writes 8 bytes; no kernel looks at all nodes."""
    names = [f"n{number}" for number in range(1000)]
    chain = [node(name, "call_function", before) for before, name in zip(("x", *names), names, strict=False)]
    nodes = (node("x", "placeholder"), *chain, node("output", "output", names[-1]))
    graph = Artifact("forward", "forward", "0/0", "forward", "forward", "fx", "", data=blank(FxGraph, nodes=nodes))
    kernels = [frozenset({name}) for name in names]
    began = process_time()
    whole = _Graph(graph, kernels)
    assert {whole.traffic(kernel) for kernel in kernels} == {Traffic(8, 8)}
    assert process_time() - began < 1
