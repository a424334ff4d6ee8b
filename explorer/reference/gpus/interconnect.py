"""What connects the GPUs of one host, with the public source of every figure, and how long a collective takes on it.

The time is that of a ring at the full rate of the link: no latency, no reduction inside a switch (NVLink SHARP), one host. NCCL
reaches less, and for small tensors its latency is most of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from explorer.reference.gpus.figures import GIGA

_NVLINK = "https://alpha-one-index.github.io/ai-infra-index/specs/networking-interconnects.html (links of a GPU, both directions)"
_MI300X = "https://www.wheelersnetwork.com/2024/01/ (7 links of 128 GB/s, both directions)"
_MI355X = "https://humeconsulting.co/amd-mi355x-strong-node-level-inference-but-not-yet-rack-scale (153 GB/s a link, of 7)"
#: How many GPUs a host connects: eight hang on the switches of a board, and eight are in AMD's mesh; larger hosts differ.
HOST = "https://developer.nvidia.com/blog/introducing-nvidia-hgx-h100-an-accelerated-server-platform-for-ai-and-high-performance-computing/"
#: The share of a ring's bytes that each rank sends: n ranks, times the bytes of the whole tensor.
FORMULA = "https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md (bus bandwidth)"


@dataclass(frozen=True)
class Interconnect:
    """What a GPU sends to the others of its host: bytes/s in one direction, over all of its links.

    `peers` is the number of other GPUs in a mesh, which share the links; 0 where a switch gives each pair all links. `gpus` is
    how many GPUs it connects, 0 where that is not stated.
    """

    title: str
    bandwidth: float
    source: str
    peers: int = 0
    gpus: int = 0

    def connects(self, size: int) -> bool:
        """Whether it can connect a group of `size` ranks."""
        return not self.gpus or size <= self.gpus

    def rate(self, size: int) -> float:
        """Bytes/s that a rank of a group of `size` can send: in a mesh, the links that lead to the others of the group."""
        return self.bandwidth * min(1.0, (size - 1) / self.peers) if self.peers and size > 1 else self.bandwidth


#: By the name of the GPU. Those that have PCI Express alone are not here: what a host gives them differs.
INTERCONNECTS: Mapping[str, Interconnect] = MappingProxyType(
    {
        "v100": Interconnect("NVLink 2", 150 * GIGA, _NVLINK, gpus=8),
        "a100": Interconnect("NVLink 3", 300 * GIGA, _NVLINK, gpus=8),
        "h100": Interconnect("NVLink 4", 450 * GIGA, _NVLINK, gpus=8),
        "h200": Interconnect("NVLink 4", 450 * GIGA, _NVLINK, gpus=8),
        "b200": Interconnect("NVLink 5", 900 * GIGA, _NVLINK, gpus=8),
        "mi300x": Interconnect("Infinity Fabric, a mesh of 8", 448 * GIGA, _MI300X, 7, 8),
        "mi355x": Interconnect("Infinity Fabric, a mesh of 8", 535 * GIGA, _MI355X, 7, 8),
    }
)


def sent_by_each(operator: str, size: int, bytes: int) -> float | None:
    """Count the bytes that each of `size` ranks sends of a collective on `bytes`; None for an operator without a formula.

    `operator` is its short name, `bytes` the size of the whole tensor, as nccl-tests counts it.
    """
    if operator.startswith("all_reduce"):
        return 2 * (size - 1) / size * bytes
    if operator.startswith(("all_gather", "reduce_scatter", "all_to_all", "shard_dim_alltoall")):
        return (size - 1) / size * bytes
    if operator.startswith(("broadcast", "reduce")):
        return float(bytes)
    return None


__all__ = ["FORMULA", "HOST", "INTERCONNECTS", "Interconnect", "sent_by_each"]
