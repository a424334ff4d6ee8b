"""The process groups of torch.distributed: which ranks are in each."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def process_groups() -> Mapping[str, tuple[int, ...]]:
    """Map each process group's name, which collectives are given, to its ranks; {} where torch.distributed is not set up."""
    if "torch.distributed.distributed_c10d" not in sys.modules:
        return {}
    from torch.distributed import distributed_c10d

    world = distributed_c10d._world
    return {str(name): tuple(sorted(world.pg_group_ranks.get(group, ()))) for group, name in world.pg_names.items()}


__all__ = ["process_groups"]
