"""Say where a constant of the program is moved to the absent GPU, which torch makes on a GPU that is there."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from explorer.capture.observe.compile_fx import is_joint
from explorer.capture.observe.patch import observed

if TYPE_CHECKING:
    from explorer.capture.absent.measured import Assume

#: What is assumed of such a constant, and why.
ASSUMED = "kept for the backward, which on the GPU computes it again"
WHY = "torch makes a constant on the CPU and moves it where it has no GPU, and makes it on the GPU where it has one"


@contextmanager
def moved_constants(assume: Assume) -> Iterator[None]:
    """Inside the block, record an assumption for each constant of a joint graph that is made on the CPU and moved."""
    from torch._inductor import compile_fx

    def begun(gm: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        for node in moved(gm.graph):
            assume(f"{node.name}, a constant of {list(node.meta['val'].shape)}", ASSUMED, WHY)
        yield

    with observed(compile_fx, "_recursive_joint_graph_passes", begun):
        yield


def moved(graph: Any) -> Iterator[Any]:
    """The nodes of a joint graph that move a constant to another device, and that both its halves use."""
    from torch import ops

    if not is_joint(graph):
        return
    for node in graph.find_nodes(op="call_function", target=ops.prims.device_put.default):
        made = node.args[0]
        if made.target is ops.aten.lift_fresh_copy.default and len(node.users) > 1:
            yield node
