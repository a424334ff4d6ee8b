"""A cluster you don't have: one rank's view of several GPUs, in one process.

torch's fake process group stands for the others: a collective has the right shapes and its values are not exchanged. A device
mesh of GPUs is made one of the CPU, since the program's tensors are there: Inductor then compiles for the GPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from explorer.capture.absent.fake_sums import sums_with_results
from explorer.capture.absent.target import named_gpu
from explorer.capture.observe.patch import replaced
from explorer.errors import InputError
from explorer.model.values import Plain
from explorer.reference.gpus.figures import Target
from explorer.reference.gpus.interconnect import INTERCONNECTS

#: torch's name of the process group that exchanges nothing.
FAKE = "fake"


@dataclass(frozen=True)
class Cluster:
    """Several GPUs of one kind, as one of their ranks sees them; none need be here.

        with explorer.Cluster("h100", 8) as cluster:
            mesh = init_device_mesh("cuda", (8,))
            model = parallelize_module(model, mesh, plan)
            t = explorer.trace(model, x, target=cluster)

    `target` is a GPU by name or a `Target`, `world` the number of ranks, `rank` the one whose view is traced, from 0.
    `interconnect` is a GPU's bandwidth to the others in one direction, in bytes/s; None takes the named GPU's. Inside the
    block torch.distributed is set up with a fake process group, which exchanges nothing. Afterwards it is as before. A trace
    for the cluster sets up the group by itself; the block is for a model that needs the group earlier, for example for tensor
    parallelism. Raises InputError for impossible values, and if a different process group is set up.
    """

    target: str | Target
    world: int
    rank: int = 0
    interconnect: float | None = None
    _entered: list[ExitStack] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what no cluster is."""
        if isinstance(self.world, bool) or not isinstance(self.world, int) or self.world < 1:
            raise InputError(f"world is the number of ranks, 1 or more, not {self.world!r}")
        if isinstance(self.rank, bool) or not isinstance(self.rank, int) or not 0 <= self.rank < self.world:
            raise InputError(f"rank is one of 0 to {self.world - 1}, since world={self.world}, not {self.rank!r}")
        object.__setattr__(self, "target", named_gpu(self.target))

    def __enter__(self) -> Cluster:
        """Set up the fake process group, unless the program has set up one like it."""
        stack = ExitStack()
        stack.enter_context(self.joined())
        self._entered.append(stack)
        return self

    def __exit__(self, *error: object) -> None:
        """Take the process group down again."""
        self._entered.pop().close()

    def joined(self) -> AbstractContextManager[None]:
        """Be this rank inside the block; InputError where torch.distributed is set up otherwise."""
        from torch import distributed

        if not distributed.is_available():
            raise InputError("this torch is built without torch.distributed, which a trace for a cluster needs: install another")
        if distributed.is_initialized():
            self._refuse_other_group()
            return sums_with_results()
        return _as_rank(self.rank, self.world)

    def _refuse_other_group(self) -> None:
        from torch import distributed

        backend, rank, size = distributed.get_backend(), distributed.get_rank(), distributed.get_world_size()
        if (backend, rank, size) != (FAKE, self.rank, self.world):
            raise InputError(
                f"torch.distributed is set up already, with the backend {backend!r}, as rank {rank} of {size}: a trace as rank "
                f"{self.rank} of {self.world} needs a process group of its own. Call torch.distributed.destroy_process_group() "
                "first, or trace without world= on the ranks that there are"
            )

    def meta(self) -> dict[str, Plain]:
        """What a trace's meta says of the cluster: rank, number of ranks, and what connects them."""
        return {"world": self.world, "rank": self.rank, "interconnect": self._link()}

    def _link(self) -> Mapping[str, Plain] | None:
        if self.interconnect is not None:
            return {"title": "as given", "bandwidth": float(self.interconnect), "source": "the caller", "peers": 0}
        name = self.target.name if isinstance(self.target, Target) else self.target
        known = INTERCONNECTS.get(name)
        return dataclasses.asdict(known) if known else None


def cluster_of(target: object, world: int | None, rank: int) -> Cluster | None:
    """The cluster that a trace is for, None for one device; InputError for a rank without a world, and for two worlds."""
    if isinstance(target, Cluster):
        if world is not None:
            raise InputError(f"the cluster has {target.world} ranks: give no world= beside target=Cluster(…)")
        if rank:
            raise InputError(f"the cluster is rank {target.rank}: give Cluster(…, rank={rank}) and no rank= beside it")
        return target
    if world is not None:
        if not isinstance(target, (str, Target)) or target in ("auto", "cpu", "cuda"):
            raise InputError(f"world={world} is for GPUs you don't have: name one, such as target='h100', not {target!r}")
        return Cluster(target, world, rank)
    if rank:
        raise InputError(f"rank={rank} of how many? Give world= too, such as world=8")
    return None


@contextmanager
def _as_rank(rank: int, world: int) -> Iterator[None]:
    """Set up a fake process group and take it down again, with all that was made of it."""
    from torch import distributed
    from torch.distributed import device_mesh
    from torch.distributed.tensor import _random
    from torch.testing._internal.distributed.fake_pg import FakeStore

    tracker = _random._rng_tracker
    with replaced(device_mesh.DeviceMesh, "__init__", _on_the_cpu):
        distributed.init_process_group(FAKE, rank=rank, world_size=world, store=FakeStore())
        try:
            with sums_with_results():
                yield
        finally:
            if distributed.is_initialized():  # the program may have taken it down
                distributed.destroy_process_group()
            _random._rng_tracker = tracker  # DTensor makes one for its first mesh, and keeps it


def _on_the_cpu(original: Any) -> Any:
    """Make a mesh of GPUs one of the CPU: `distribute_tensor` moves tensors to the mesh's device, which is not here."""

    def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
        if "device_type" in kwargs:
            kwargs["device_type"] = _here(kwargs["device_type"])
        original(self, *map(_here, args[:1]), *args[1:], **kwargs)

    return init


def _here(device_type: str) -> str:
    return "cpu" if device_type in ("cuda", "xpu", "mps") else device_type


__all__ = ["Cluster", "cluster_of"]
