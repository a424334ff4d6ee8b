"""Give the sums of torch's fake process group what DistributedDataParallel waits for.

DDP's reducer takes a bucket's result from the future of its all_reduce. The work of the fake group has a future without one, and
torch stops at an internal assert (torch 2.13, `parseHookResult` in torch/csrc/distributed/c10d/comm.cpp).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def sums_with_results() -> Iterator[None]:
    """Inside the block, an all_reduce of a fake group on the CPU has its own tensors as its result."""
    import torch

    before = torch.library.get_kernel(torch.ops.c10d.allreduce_.default, "CPU")
    library = torch.library.Library("c10d", "IMPL")

    def summed(keys: Any, tensors: Any, group: Any, *args: Any) -> Any:
        results, work = before.call_boxed(keys, tensors, group, *args)
        return results, _done(results) if _is_fake(group) else work

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
            library.impl("allreduce_", summed, "CPU", with_keyset=True, allow_override=True)
        yield
    finally:
        library._destroy()


def _is_fake(boxed: Any) -> bool:
    import torch
    from torch import distributed
    from torch._C._distributed_c10d import FakeProcessGroup

    group = distributed.ProcessGroup.unbox(boxed)
    return isinstance(group._get_backend(torch.device("cpu")), FakeProcessGroup)


def _done(tensors: Any) -> Any:
    """A work that has ended, with these tensors as its result."""
    import torch
    from torch._C import _distributed_c10d

    untyped: Any = _distributed_c10d  # torch's stubs do not have the function
    result: Any = torch.futures.Future()
    result.set_result(list(tensors))
    return untyped._create_work_from_future(result).boxed()


__all__ = ["sums_with_results"]
