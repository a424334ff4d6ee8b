"""Count the bytes that pass between the kernels of a compiler, by the tensors of the graph that it was handed. Pure.

A kernel reads each tensor that one of its FX nodes uses and that none of them computes. It writes each tensor that another
kernel uses or that the graph returns. A view that no kernel computes is no tensor of its own: whoever reads it reads the tensor
behind it, at most as much of it as the view has. So the bytes are the same for every compiler that puts the same nodes into the
same kernels. What a kernel reads twice, packs or keeps in a cache is not counted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from explorer.analysis.questions.memory import element_size
from explorer.analysis.questions.provenance import origins
from explorer.analysis.questions.user_lines import CompiledKernel, compiled_kernels, kernels_with_launches, texts_with_kernels
from explorer.model.shared import FxNode
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.stages.fx_graph import VIEWS, node_lines, outer_nodes

#: The arguments of a product by 1, which compilers leave out; a decomposition of addmm writes one.
_BY_ONE = re.compile(r"^\(\w+, 1(\.0)?\)$")


@dataclass(frozen=True)
class Traffic:
    """The bytes that a kernel reads and writes; None where they are not known.

    They are unknown if a size is not a number, if a node of the graph has no kernel, and if a node of this kernel is in another
    kernel too: the values between two halves of a node are not tensors of the graph. Nor are they known of a kernel that is
    called several times, since nothing states which of its nodes one call computes.
    """

    read: int | None
    written: int | None


#: A kernel by its text, its lines there that compute, and how often it is called.
_Place = tuple[str, tuple[int, ...], int]


def traffic(trace: TraceData) -> list[tuple[CompiledKernel, Traffic]]:
    """List the kernels of a trace with the bytes that each reads and writes."""
    found: list[tuple[CompiledKernel, Traffic]] = []
    by_graph: dict[tuple[str, str], list[CompiledKernel]] = {}
    for kernel in compiled_kernels(trace):
        by_graph.setdefault((kernel.artifact.frame, kernel.artifact.graph), []).append(kernel)
    for graph in _graphs(trace):
        kernels = by_graph.get((graph.frame, graph.graph), [])
        places = [(kernel.artifact.id, kernel.lines, kernel.calls) for kernel in kernels]
        found += zip(kernels, _traffic(trace, graph, places), strict=True)
    return found


def bytes_moved(trace: TraceData) -> int | None:
    """Add up what all kernels read and write; None if one is unknown, or if there are none.

    It stops at the first kernel with unknown bytes, because each kernel takes a walk along the links.
    """
    texts: dict[tuple[str, str], list[Artifact]] = {}
    for text in texts_with_kernels(trace):
        texts.setdefault((text.frame, text.graph), []).append(text)
    total = None
    for graph in _graphs(trace):
        of_graph = texts.get((graph.frame, graph.graph), ())
        places = [(a.id, lines, calls) for a in of_graph for _, lines, calls in kernels_with_launches(trace, a)]
        for moved in _traffic(trace, graph, places):
            if moved.read is None or moved.written is None:
                return None
            total = (total or 0) + moved.read + moved.written
    return total


def _graphs(trace: TraceData) -> tuple[Artifact, ...]:
    """The graphs that a compiler was handed."""
    return (*trace.find("forward"), *trace.find("backward"))


def _traffic(trace: TraceData, graph: Artifact, kernels: Sequence[_Place]) -> Iterator[Traffic]:
    """Yield what each kernel of a graph reads and writes."""
    members = [_members(trace, text, lines, graph) for text, lines, _ in kernels]
    whole = _Graph(graph, members)
    for nodes, (_, _, calls) in zip(members, kernels, strict=True):
        yield whole.traffic(nodes) if calls == 1 else Traffic(None, None)


def _members(trace: TraceData, text: str, lines: tuple[int, ...], graph: Artifact) -> frozenset[str]:
    """List the nodes of the graph that a kernel computes."""
    from_lines = origins(trace, text, lines).get(graph.id, set())
    return frozenset(name for name, line in node_lines(graph).items() if line in from_lines)


class _Graph:
    """A graph whose nodes are spread over kernels."""

    def __init__(self, artifact: Artifact, members: Iterable[frozenset[str]]) -> None:
        self._nodes: Mapping[str, FxNode] = {node.name: node for node in outer_nodes(artifact)}
        kernels = Counter(name for nodes in members for name in nodes)
        self._computed = kernels.keys()
        self._split = {name for name, count in kernels.items() if count > 1}
        # a graph of a file may lack a node that others use
        inputs = {name for node in self._nodes.values() for name in node.inputs}
        self._whole = inputs <= self._nodes.keys() and all(self._has_a_kernel(node) for node in self._nodes.values())

    def traffic(self, members: frozenset[str]) -> Traffic:
        """Count the bytes that a kernel of these nodes reads and writes."""
        if not self._whole or not members or members & self._split:
            return Traffic(None, None)
        return Traffic(self._sum(self._reads(members)), self._sum(self._writes(members)))

    def _has_a_kernel(self, node: FxNode) -> bool:
        """Tell whether a kernel computes a node, or no kernel needs to."""
        return node.op in ("placeholder", "get_attr", "output") or node.name in self._computed or _computes_nothing(node)

    def _reads(self, members: frozenset[str]) -> Iterator[tuple[str, int | None]]:
        """Yield the tensors that some nodes use and none of them computes, with the bytes that are used."""
        for name in (name for name in members if name in self._nodes):
            for used in self._nodes[name].inputs:
                source, size = self._source(used)
                if source not in members:
                    yield source, size

    def _writes(self, members: frozenset[str]) -> Iterator[tuple[str, int | None]]:
        """Yield the tensors that some nodes compute and others use, with their bytes."""
        for source in members:
            for user, looked_at in self._uses.get(source, ()):
                if user not in members:  # of an operator with several results only those that are used
                    yield source, looked_at if self._nodes[source].outputs else _size(self._nodes[source])

    @cached_property
    def _uses(self) -> Mapping[str, Sequence[tuple[str, int | None]]]:
        """The nodes that use each tensor, or a view of it, with the bytes that they use."""
        uses: dict[str, list[tuple[str, int | None]]] = {}
        for node in self._nodes.values():
            viewed = node.op == "call_function" and node.name not in self._computed
            for used in () if viewed else node.inputs:
                source, looked_at = self._source(used)
                uses.setdefault(source, []).append((node.name, looked_at))
        return uses

    def _source(self, name: str) -> tuple[str, int | None]:
        """Return the tensor that a node views, and the part of it that the view has; the node itself where it is no view."""
        node = self._nodes[name]
        size = _size(node)
        while node.op == "call_function" and node.name not in self._computed and node.inputs:
            node = self._nodes[node.inputs[0]]
            whole = _size(node)
            size = whole if size is None else size if whole is None else min(size, whole)
        return node.name, size

    def _sum(self, tensors: Iterable[tuple[str, int | None]]) -> int | None:
        """Add up the bytes of the tensors; one that is used several times counts at most once in whole."""
        sizes: dict[str, set[int | None]] = {}
        for name, size in tensors:
            sizes.setdefault(name, set()).add(size)
        total = 0
        for name, parts in sizes.items():
            whole = _size(self._nodes[name])
            known = [part for part in parts if part is not None]
            if whole is None or len(known) < len(parts):
                return None
            total += min(whole, sum(known))
        return total


def _computes_nothing(node: FxNode) -> bool:
    """Tell whether a node computes nothing of its own: it gives its first input, or a view of it."""
    return bool(VIEWS.match(node.target)) or (node.target == "aten.mul.Tensor" and bool(_BY_ONE.match(node.args)))


def _size(node: FxNode) -> int | None:
    """Count the bytes of a node's result: 0 where it is no tensor, None where a size is a symbol."""
    tensors = [(node.shape, node.dtype)] if node.shape is not None else [(one.shape, one.dtype) for one in node.outputs or ()]
    if not all(length.isdigit() for shape, _ in tensors for length in shape or ()):
        return None
    return sum(math.prod(map(int, shape or ())) * element_size(dtype or "") for shape, dtype in tensors)


__all__ = ["Traffic", "bytes_moved", "traffic"]
