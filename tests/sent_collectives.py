"""A collective outside of the graphs as it is recorded, for tests without torch."""

from __future__ import annotations

from explorer.stages.torch_compile.eager_collective import EagerCollective

#: An all_reduce of DDP's, as it is recorded.
ALL_REDUCE = EagerCollective(
    operator="all_reduce",
    call="c10d.allreduce_",
    group="0",
    ranks=(0, 1),
    dtype="float32",
    shape=(16,),
    bytes=64,
    sender="DDP",
    bucket=None,
    parameters=(),
    module="",
    hook="",
    prefetched=False,
    file="",
    line=0,
    code="",
    runs=1,
)
