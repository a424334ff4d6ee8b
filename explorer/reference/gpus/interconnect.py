"""What connects the GPUs of one host, with the public source of every figure, and how long a collective takes on it.

NCCL sends by one of several protocols, and takes the one that it expects to be the fastest: a latency, and the bytes at a share
of the link's rate (https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc). `PROTOCOLS` has both as measured between two
GPUs. Reductions inside a switch (NVLink SHARP) and links between hosts are left out.
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
#: Where the latencies and shares of `PROTOCOLS` were measured, and the name of the link between those GPUs.
MEASURED_ON, MEASURED_LINK = "two H200 with NCCL 2.28", "NVLink 4"
MICRO = 1e-6


@dataclass(frozen=True)
class Protocol:
    """A protocol of NCCL for one kind of collective: its seconds of latency, and the share of a link's rate that it reaches.

    `latency` is that of two ranks. `per_step` are the seconds of each further step of the ring, from NCCL's own model.
    """

    latency: float
    share: float
    per_step: float = 0.0


def _protocols(low: tuple[float, float], high: tuple[float, float]) -> tuple[Protocol, Protocol]:
    """The protocols for small and large tensors, each given by its latency in microseconds and its share."""
    return Protocol(low[0] * MICRO, low[1], 0.6 * MICRO), Protocol(high[0] * MICRO, high[1], 3.4 * MICRO)


_ALL_TO_ALL = Protocol(4.75 * MICRO, 0.15), Protocol(8.0 * MICRO, 0.63)
_ROOTED = _protocols((3.75, 0.48), (9.0, 0.77))
#: By the beginning of the operator's short name. Fitted to every second size of benchmarks/collectives.py, checked by the others.
PROTOCOLS: Mapping[str, tuple[Protocol, ...]] = MappingProxyType(
    {
        "all_reduce": _protocols((5.0, 0.31), (19.0, 0.70)),
        "all_gather": _protocols((4.0, 0.19), (14.0, 0.54)),
        "reduce_scatter": _protocols((3.75, 0.26), (24.0, 0.59)),
        "all_to_all": _ALL_TO_ALL,
        "shard_dim_alltoall": _ALL_TO_ALL,
        "broadcast": _ROOTED,
        "reduce": _ROOTED,
    }
)


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


def seconds_of_collective(link: Interconnect, operator: str, size: int, bytes: int) -> float | None:
    """Estimate how long a collective of `size` ranks takes over a link; None for an operator without a formula.

    It is the time of the fastest protocol, once all ranks have started. The arguments are those of `sent_by_each`.
    """
    sent = sent_by_each(operator, size, bytes)
    protocols = next((found for name, found in PROTOCOLS.items() if operator.startswith(name)), ())
    if sent is None or not protocols:
        return None
    if size < 2:
        return 0.0
    further_steps = (size - 2) * (2 if operator.startswith("all_reduce") else 1)
    rate = link.rate(size)
    return min(each.latency + further_steps * each.per_step + sent / (each.share * rate) for each in protocols)


__all__ = [
    "FORMULA",
    "HOST",
    "INTERCONNECTS",
    "MEASURED_LINK",
    "MEASURED_ON",
    "Interconnect",
    "seconds_of_collective",
    "sent_by_each",
]
