"""Import an FX graph into MLIR's torch dialect, each operation with the location of its FX node.

IREE's importer takes an operation's location from its node's stack, which the graphs that a backend is given mostly lack: then
every operation is at loc(unknown). So each node of a copy is given a stack of its own, in a file that stands for the graph, see
`stages/iree/locations.py`. IREE carries that location down to the machine code's debug information.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explorer.stages.iree.locations import FIRST_NODE, FX_GRAPH, WHOLE_GRAPH


@dataclass(frozen=True)
class Imported:
    """A graph in the torch dialect.

    `nodes` has the names of the FX nodes, in their order. `results` says of each
    result of the graph whether the module returns it; the others, such as the None of an input without a gradient, are not
    tensors and stand in `constants`, None at those that are returned.
    """

    text: str
    nodes: tuple[str, ...]
    results: tuple[bool, ...]
    constants: tuple[Any, ...]
    values: tuple[Any, ...]  # the fake tensors or symbolic numbers of those that are returned

    def put_together(self, returned: Sequence[Any]) -> tuple[Any, ...]:
        """All results of the graph, of those that the module returned."""
        found = iter(returned)
        return tuple(next(found) if by_module else given for by_module, given in zip(self.results, self.constants, strict=True))


def imported(gm: Any) -> Imported:
    """The graph of a GraphModule in the torch dialect; the GraphModule itself is left as it is."""
    from iree.compiler.extras.fx_importer import FxImporter

    own, outputs = _copy(gm)
    by_module = [hasattr(value, "meta") for value in outputs]
    importer = FxImporter()
    importer.import_graph_module(own)
    return Imported(
        text=str(importer.module.operation.get_asm(enable_debug_info=True)),
        nodes=tuple(node.name for node in gm.graph.nodes),
        results=tuple(by_module),
        constants=tuple(None if own else value for own, value in zip(by_module, outputs, strict=True)),
        values=tuple(value.meta.get("val") for value in outputs if hasattr(value, "meta")),
    )


def _copy(gm: Any) -> tuple[Any, Sequence[Any]]:
    """A copy of the module that returns only what is computed, each node with its location, and all that the graph returns."""
    import torch

    graph = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    for number, node in enumerate(gm.graph.nodes, FIRST_NODE):
        if node.op != "output":
            copies[node] = graph.node_copy(node, copies.__getitem__)
            computes = node.op not in ("placeholder", "get_attr")
            copies[node].meta["stack_trace"] = stack_of(number if computes else WHOLE_GRAPH, node.name)
    outputs = _outputs(gm)
    returned = graph.output(tuple(copies[value] for value in outputs if value in copies))
    returned.meta["stack_trace"] = stack_of(WHOLE_GRAPH, "output")
    return torch.fx.GraphModule(gm, graph), outputs


def stack_of(line: int, name: str) -> str:
    """A stack that the importer reads a node's location from."""
    return f'File "{FX_GRAPH}", line {line}, in {name}'


def _outputs(gm: Any) -> Sequence[Any]:
    """What the graph returns, one by one."""
    given = next(node for node in gm.graph.nodes if node.op == "output").args[0]
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)
