"""Layers that DDP or FSDP2 trains on a cluster you don't have, for tests of what their hooks send."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import explorer

WORLD, WIDTH, LAYERS, BATCH = 8, 512, 3, 64
#: The bytes of a layer's parameters, and the MiB of a bucket that holds them.
LAYER_BYTES, ONE_LAYER = (WIDTH * WIDTH + WIDTH) * 4, 1.0


class Layer(nn.Module):
    """A module of the program's own: Dynamo does not begin in torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


class Layers(nn.Module):
    """Layers that run in the order in which they are registered, or in reverse."""

    def __init__(self, *, reverse: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.reverse = reverse

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in reversed(self.layers) if self.reverse else self.layers:
            x = layer(x)
        return x


def sharded(*, reshard: bool = True) -> Layers:
    """The layers, each sharded by FSDP2 and compiled by itself."""
    model = Layers()
    for layer in model.layers:
        layer.compile()
        fully_shard(layer, reshard_after_forward=reshard)
    fully_shard(model)
    return model


def batch() -> torch.Tensor:
    """What one rank computes."""
    return torch.ones(BATCH, WIDTH)


def trained(model: nn.Module, cluster: explorer.Cluster) -> explorer.Trace:
    """The trace of a step of the model on the cluster."""
    torch._dynamo.reset()  # what an earlier test compiled is not recorded
    return explorer.trace(model, batch(), target=cluster, train=True)


def in_ddp(megabytes: float = ONE_LAYER) -> DistributedDataParallel:
    """The layers in DDP, with buckets of this size."""
    torch.manual_seed(0)
    return DistributedDataParallel(Layers(), bucket_cap_mb=megabytes)
