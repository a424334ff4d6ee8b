"""The bytes that pass between the kernels of a graph, also of a large one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import process_time

import pytest

from explorer.analysis.questions import kernel_bytes, user_lines
from explorer.analysis.questions.kernel_bytes import Traffic, _Graph, bytes_moved
from explorer.analysis.questions.provenance import origins
from explorer.analysis.questions.user_lines import compiled_kernels
from explorer.model.records import blank
from explorer.model.shared import FxNode
from explorer.model.values import Artifact
from explorer.stages.fx_graph import FxGraph
from explorer.tracing.traced import Trace


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


def test_bytes_take_one_walk_a_kernel_up_to_one_that_is_not_known(
    replayed: Callable[[str], Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum needs no user lines, and where one kernel's bytes are not known it looks at no other graph."""
    walked: list[str] = []

    def counted(trace: Trace, artifact: str, lines: Iterable[int]) -> dict[str, set[int]]:
        walked.append(artifact)
        return origins(trace, artifact, lines)

    for module in (kernel_bytes, user_lines):
        monkeypatch.setattr(module, "origins", counted)
    trained = replace(replayed("mlp_train-torch2.13-cpu"))
    assert bytes_moved(trained) and len(walked) == len(compiled_kernels(replayed("mlp_train-torch2.13-cpu"))) > 1
    walked.clear()
    recompiled = replayed("recompile-torch2.13-cpu")
    first = recompiled.find("forward")[0].id
    without = replace(recompiled, links=tuple(link for link in recompiled.links if link.target != first))
    assert len(recompiled.compile_ids) == 3 and bytes_moved(without) is None
    assert len(walked) == len(recompiled.find("kernel", "0/0"))
