"""Import an FX graph into MLIR's torch dialect, each operation with the location of its FX node.

IREE's importer takes an operation's location from its node's stack, see `compilers/graph_copy.py`; without one every operation
is at loc(unknown). IREE carries that location down to the machine code's debug information.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.capture.compilers.graph_copy import Results, located_copy, outputs_of


@dataclass(frozen=True)
class Imported:
    """A graph in the torch dialect; `nodes` has the names of the FX nodes, in their order."""

    text: str
    nodes: tuple[str, ...]
    results: Results


def imported(gm: Any) -> Imported:
    """The graph of a GraphModule in the torch dialect; the GraphModule itself is left as it is."""
    from iree.compiler.extras.fx_importer import FxImporter

    outputs = outputs_of(gm)
    importer = FxImporter()
    importer.import_graph_module(located_copy(gm, outputs))
    return Imported(
        text=str(importer.module.operation.get_asm(enable_debug_info=True)),
        nodes=tuple(node.name for node in gm.graph.nodes),
        results=Results.of(outputs),
    )
