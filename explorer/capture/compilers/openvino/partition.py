"""How OpenVINO's backend partitioned a graph: the parts that OpenVINO is handed, and what is left to PyTorch, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.capture.observe.fx import readable
from explorer.stages.openvino.partition import OpenVinoOrigin, OpenVinoPart, OpenVinoPartitionText

#: Why an operator is left to PyTorch.
UNSUPPORTED = "OpenVINO's backend has it not among the operators that it supports"
ALONE = "OpenVINO's backend makes no part of one operator; it does with options={'testing': True}"


@dataclass
class Part:
    """A part of a graph that is handed to OpenVINO: its GraphModule, its operators, and its compiled model or error.

    `pytorch_calls` counts the calls in which PyTorch ran the part because of the `error` that OpenVINO raised. `compiled` is
    OpenVINO's CompiledModel, None until there is one.
    """

    name: str
    module: Any
    operators: tuple[str, ...]
    pytorch_calls: int = 0
    error: str = ""
    compiled: Any = field(default=None, repr=False)

    @property
    def settled(self) -> bool:
        """Whether OpenVINO has compiled it, or has failed to."""
        return self.compiled is not None or bool(self.error)


@dataclass(frozen=True)
class Partition:
    """A partitioned graph: its text, its parts, the operators left to PyTorch by the reason, and where its lines come from."""

    text: str
    parts: tuple[Part, ...]
    left: Mapping[str, tuple[str, ...]]
    origins: tuple[OpenVinoOrigin, ...]

    def facts(self) -> OpenVinoPartitionText:
        """Return the record of the partition."""
        rows = [OpenVinoPart(part=part.name, engine="OpenVINO", fx_nodes=part.operators, why="") for part in self.parts]
        rows += [OpenVinoPart(part="", engine="PyTorch", fx_nodes=names, why=why) for why, names in self.left.items()]
        return OpenVinoPartitionText(text=self.text, rows=tuple(rows), origins=self.origins)


def partition_of(gm: Any, before: Mapping[str, Any], supported: Any) -> Partition:
    """Return the partition of a graph. `before` has the names and targets of its nodes before the partitioning.

    The partitioner copies the nodes. The copies keep their names, in parts and among the nodes left to PyTorch. No new node
    gets an old node's name.
    """
    parts, left = [], dict[str, tuple[str, ...]]()
    modules = dict(gm.named_modules())
    for node in gm.graph.nodes:
        if node.op == "call_module" and "fused_" in node.name:
            names = tuple(n.name for n in _computing(modules[node.target]) if before.get(n.name) == n.target)
            parts.append(Part(node.name, modules[node.target], names))
        elif node.op == "call_function" and before.get(node.name) == node.target:
            why = ALONE if supported.is_node_supported(modules, node) else UNSUPPORTED
            left[why] = (*left.get(why, ()), node.name)
    return Partition(readable(gm), tuple(parts), left, tuple(_origins(gm, before, parts)))


def _computing(gm: Any) -> Iterator[Any]:
    return (node for node in gm.graph.nodes if node.op not in ("placeholder", "get_attr", "output"))


def _origins(gm: Any, before: Mapping[str, Any], parts: Sequence[Part]) -> Iterator[OpenVinoOrigin]:
    """The FX nodes that each line of the partitioned graph stands for; a line in a part is named `part.node`."""
    of_parts = {part.name: part for part in parts}
    for node in _computing(gm):
        if node.name in of_parts:
            yield OpenVinoOrigin(name=node.name, fx_nodes=of_parts[node.name].operators)
        elif before.get(node.name) == node.target:
            yield OpenVinoOrigin(name=node.name, fx_nodes=(node.name,))
        elif returned := _returned(node, of_parts):
            yield OpenVinoOrigin(name=node.name, fx_nodes=(returned,))
    for part in parts:
        for name in part.operators:
            yield OpenVinoOrigin(name=f"{part.name}.{name}", fx_nodes=(name,))


def _returned(node: Any, parts: Mapping[str, Part]) -> str:
    """The operator of a part whose result a `part[i]` takes; "" for another node."""
    if len(node.args) != 2 or getattr(node.args[0], "name", "") not in parts:
        return ""
    part = parts[node.args[0].name]
    results = next(n for n in part.module.graph.nodes if n.op == "output").args[0]
    name = getattr(results[node.args[1]], "name", "") if isinstance(results, (tuple, list)) else ""
    return name if name in part.operators else ""
