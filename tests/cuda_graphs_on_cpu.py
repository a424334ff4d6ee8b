"""torch's own tree of CUDA graphs, run on the CPU: stand-ins for the calls into CUDA that it makes.

The tree decides what to warm up, record and replay, and is Python. Below it are streams, the allocator's pool, and the capture.
Here a capture runs the graph, and a replay computes nothing: its outputs are where they were recorded, with the values of then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch._dynamo.backends import cudagraphs
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._inductor import compile_fx, cudagraph_trees
from torch._inductor.cudagraph_utils import get_placeholder_info
from torch._inductor.utils import count_tangents

Backend = Callable[[torch.fx.GraphModule, Sequence[torch.Tensor]], Any]


@contextmanager
def cuda_graphs_on_cpu() -> Iterator[Backend]:
    """Inside the block torch records CUDA graphs of CPU tensors. Yields the backend of torch.compile that asks for them."""
    with pytest.MonkeyPatch.context() as patch:
        pool = _Pool()
        _stand_in_for_cuda(patch, pool)
        _forget_trees()
        torch._dynamo.reset()
        try:
            yield partial(_backend, pool)
        finally:
            torch._dynamo.reset()
            _forget_trees()
            torch._C._set_cached_tensors_enabled(False)


# The backend: what Inductor does after its compile -----------------------------------------------------------------------


def _backend(pool: _Pool, gm: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Any:
    compilers = {
        "fw_compiler": partial(_compiled, pool),
        "bw_compiler": partial(_compiled, pool, is_backward=True),
        "inference_compiler": partial(_compiled, pool, is_inference=True),
    }
    return aot_autograd(**compilers, keep_inference_input_mutations=True)(gm, inputs)


def _compiled(
    pool: _Pool, gm: torch.fx.GraphModule, inputs: Any, *, is_backward: bool = False, is_inference: bool = False
) -> Callable[..., Any]:
    run = compile_fx.cudagraphify(
        pool.allocating(boxed_nop(gm, inputs)),
        range(count_tangents(gm)) if is_backward else compile_fx.get_static_input_idxs(0),
        device_index=0,
        stack_traces=cudagraphs.get_stack_traces(gm),
        is_backward=is_backward,
        is_inference=is_inference,
        placeholders=get_placeholder_info(gm.graph),
        mutated_input_idxs=tuple(cudagraphs.find_input_mutations(gm.graph)),
    )
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


# Below the tree ----------------------------------------------------------------------------------------------------------


class _Pool:
    """Memory that outlives the tensors in it, as that of CUDA graphs does."""

    def __init__(self) -> None:
        self._buffers: dict[int, bytearray] = {}

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._buffers

    def empty_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of the same layout in new memory of the pool."""
        buffer = bytearray(max(tensor.untyped_storage().nbytes(), 1))
        storage = torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
        self._buffers[storage.data_ptr()] = buffer
        return torch.empty(0, dtype=tensor.dtype).set_(storage, 0, tensor.size(), tensor.stride())

    def allocating(self, model: Callable[..., Any]) -> Callable[[list[Any]], list[Any]]:
        """The model with its new outputs in the pool."""

        def run(inputs: list[Any]) -> list[Any]:
            given = {each.untyped_storage().data_ptr() for each in inputs if isinstance(each, torch.Tensor)}
            outputs = model(inputs)
            is_new = [isinstance(o, torch.Tensor) and o.untyped_storage().data_ptr() not in given for o in outputs]
            return [self.empty_like(o).copy_(o) if new else o for o, new in zip(outputs, is_new, strict=True)]

        return run


class _Stream:
    """A stream on which nothing runs."""

    def wait_stream(self, other: _Stream) -> None:
        pass


class _Graph:
    """A CUDA graph whose replays compute nothing."""

    def replay(self) -> None:
        pass


def _same_addresses(tensors: Sequence[Any], addresses: Sequence[int | None], indices: Sequence[int]) -> bool:
    return all(tensors[index].data_ptr() == addresses[index] for index in indices)


def _tensor_of(metadata: dict[str, Any], storage: Any) -> torch.Tensor:
    empty = torch.empty(0, dtype=metadata["dtype"])
    return empty.set_(storage, metadata["storage_offset"], metadata["size"], metadata["stride"])


def _stand_in_for_cuda(patch: pytest.MonkeyPatch, pool: _Pool) -> None:
    def is_cuda(tensor: torch.Tensor) -> bool:
        try:
            return type(tensor) is torch.Tensor and tensor in pool
        except RuntimeError:  # one without memory, while something compiles
            return False

    patch.setattr(torch.Tensor, "is_cuda", property(is_cuda))
    nothing = lambda *args, **kwargs: None  # noqa: E731
    cuda = {
        "synchronize": nothing,
        "Stream": _Stream,
        "current_stream": _Stream,
        "CUDAGraph": _Graph,
        "graph_pool_handle": lambda: (0, 1),
        "graph": lambda *args, **kwargs: nullcontext(),
        "device": lambda *args, **kwargs: nullcontext(),
    }
    for name, value in cuda.items():
        patch.setattr(torch.cuda, name, value)
    patch.setattr(cudagraph_trees, "_use_cuda_memory_pool_manager", lambda *args, **kwargs: nullcontext())
    patch.setattr(cudagraph_trees, "static_input", pool.empty_like)
    answers = {
        "_tensors_data_ptrs_at_indices_equal": _same_addresses,
        "_construct_CUDA_Tensor_From_Storage_And_Metadata": _tensor_of,
        "_cuda_checkPoolLiveAllocations": lambda *args: True,
        "_cuda_getCheckpointState": lambda *args: object(),
        "_has_Standard_Deleter": lambda *args: True,
    }
    ignored = (
        "_cuda_clearCublasWorkspaces",
        "_cuda_get_conv_benchmark_empty_cache",
        "_cudnn_set_conv_benchmark_empty_cache",
        "_cuda_setCheckpointPoolState",
        "_cuda_cudaCachingAllocator_raw_delete",
        "_free_And_Remove_DeleterFn",
        "_set_storage_access_error_msg",
        "_set_storage_data_ptr_access_error_msg",
    )
    for name, value in {**answers, **dict.fromkeys(ignored, nothing)}.items():
        patch.setattr(torch._C, name, value, raising=False)


def _forget_trees() -> None:
    """Drop the trees of this thread, as a new process has none."""
    cudagraph_trees.get_obj(cudagraph_trees.local, "tree_manager_containers").clear()
    cudagraph_trees.MarkStepBox.mark_step_counter = 0
