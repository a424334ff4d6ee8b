"""Watch AOTAutograd: the joint graph, and the forward, backward or inference graph handed to the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.model.stage import Emit
from explorer.observe.structured import listening

#: The structured records that hold AOTAutograd's graphs: kind of event, graph.
LOGGED = {
    "aot_joint_graph": ("joint", "joint"),
    "aot_forward_graph": ("forward", "forward"),
    "aot_backward_graph": ("backward", "backward"),
    "aot_inference_graph": ("forward", "inference"),
}


@contextmanager
def graphs(emit: Emit) -> Iterator[None]:
    """Record the text of each graph AOTAutograd makes, for every backend that uses it."""

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        name = next(n for n in LOGGED if n in metadata)
        kind, graph = LOGGED[name]
        with emit.during(graph):
            emit(kind, lambda: {"text": payload})

    with listening(emit, dict.fromkeys(LOGGED, heard)):
        yield
