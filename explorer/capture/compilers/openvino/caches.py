"""Free what OpenVINO's backend keeps of a graph, when what runs the graph is no more.

The backend keeps each graph that it has run, with its constants, and each model that it has compiled, until the process ends: in
tables of its own, by the id of the graph and by a number. Its `reset` forgets to free what runs the models.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

#: The module of OpenVINO that has the tables.
EXECUTE = "openvino.frontend.pytorch.torchdynamo.execute"


def free_with(function: Callable[..., Any], graph: int) -> None:
    """Free the cached data of a graph, by the graph's id, as soon as the function that runs the graph is gone."""
    weakref.finalize(function, free, graph).atexit = False


def free(graph: int) -> None:
    """Free what OpenVINO's backend keeps of the graph with this id."""
    execute = sys.modules.get(EXECUTE)
    if execute is None:
        return
    for signature in tuple(execute.partitioned_modules):
        if signature.partition("_")[0] != str(graph):  # behind it are the types and sizes of inputs, without AOTAutograd
            continue
        partitioned = execute.partitioned_modules.pop(signature, None)
        for part in partitioned.modules() if partitioned is not None else ():
            number = getattr(part, "partition_id", None)
            execute.compiled_cache.pop(number, None)
            execute.req_cache.pop(number, None)
