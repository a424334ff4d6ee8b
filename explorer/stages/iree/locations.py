"""How IREE's texts are linked to FX nodes: by their locations, see `stages/fx_locations.py`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from explorer.model.artifacts import IREE_FUNCTIONS, IreeAfterPass, IreeForTarget, IreeModule, IreePass, MachineFunction
from explorer.model.records import typed
from explorer.model.rows import Names
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Link
from explorer.stages.fx_locations import Places, links_to_nodes


def links(places: Callable[[Artifact], Places], how: str) -> Callable[[Artifact, TraceData], Iterator[Link]]:
    """The link function of a stage of IREE's whose text states FX nodes as `places` reads them."""
    return links_to_nodes(places, _fx_nodes, how)


def _fx_nodes(artifact: Artifact) -> Names:
    """The nodes of the FX graph, in the order in which locations count them."""
    if artifact.stage in IREE_FUNCTIONS:
        return typed(MachineFunction, artifact.data).fx_nodes
    if artifact.stage == "iree_pass":
        return typed(IreePass, artifact.data).fx_nodes
    if artifact.stage == "iree_after_pass":
        return typed(IreeAfterPass, artifact.data).fx_nodes
    if artifact.stage == "iree_target":
        return typed(IreeForTarget, artifact.data).fx_nodes
    return typed(IreeModule, artifact.data).fx_nodes
