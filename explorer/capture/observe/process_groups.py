"""The process groups of torch.distributed: which ranks are in each."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.capture.observe.patch import observed
from explorer.capture.observe.structured import listening
from explorer.model.stage import Emit


def process_groups() -> Mapping[str, tuple[int, ...]]:
    """Map each process group's name, which collectives are given, to its ranks; {} where torch.distributed is not set up."""
    if "torch.distributed.distributed_c10d" not in sys.modules:
        return {}
    from torch.distributed import distributed_c10d

    world = distributed_c10d._world
    return {str(name): tuple(sorted(world.pg_group_ranks.get(group, ()))) for group, name in world.pg_names.items()}


@contextmanager
def groups_at_compiles(emit: Emit) -> Iterator[None]:
    """Record the process groups when a frame or a graph of it is compiled: the program may end them before the recording ends."""
    from torch._inductor.compile_fx import _InProcessFxCompile

    last: dict[str, tuple[int, ...]] = {}

    def note() -> None:
        groups = process_groups()
        if groups and groups != last:
            last.update(groups)
            emit("process_groups", lambda: {"groups": groups})

    def started(metadata: Mapping[str, Any], payload: str) -> None:
        note()

    def graph_begun(*args: Any, **kwargs: Any) -> Iterator[None]:
        note()
        yield

    with listening(emit, {"dynamo_start": started}), observed(_InProcessFxCompile, "codegen_and_compile", graph_begun):
        yield


__all__ = ["groups_at_compiles", "process_groups"]
