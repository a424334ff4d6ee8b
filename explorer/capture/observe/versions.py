"""The only file that asks "which torch, which triton, which Python?": one function for each question."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


def version_of(package: str) -> str:
    """The installed version of a distribution, "" where it is not installed; imports nothing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def installed_distributions() -> tuple[str, ...]:
    """Every installed distribution with its version, such as "torch==2.13.0"; imports none of them."""
    return tuple(sorted({f"{each.name}=={each.version}" for each in importlib.metadata.distributions()}))


def python_version() -> str:
    """The running Python, as "3.11.7"."""
    return ".".join(map(str, sys.version_info[:3]))


def counts_frames_of_full_graphs() -> bool:
    """True where a call of torch.compile(fullgraph=True) raises if it has compiled no frame; not every torch does."""
    from torch._dynamo import eval_frame

    return hasattr(eval_frame, "set_fullgraph_compiled_frame_count")


def isolates_recompiles() -> bool:
    """True where torch.compile(isolate_recompiles=True) gives a callable its own cache: torch 2.13 and newer."""
    import inspect

    import torch

    return "isolate_recompiles" in inspect.signature(torch.compile).parameters


def device_switches() -> tuple[str, ...]:
    """The functions of torch.cuda that Dynamo holds for `with torch.cuda.device(n)`; torch 2.11 holds none."""
    from torch._dynamo.variables.ctx_manager import CUDADeviceVariable

    return tuple(name for name in ("_exchange_fn", "_maybe_exchange_fn") if hasattr(CUDADeviceVariable, name))


def defines_metal() -> bool:
    """True where a wrapper of Inductor's defines its kernels in Metal by async_compile, as torch 2.13 does."""
    from torch._inductor.async_compile import AsyncCompile

    return hasattr(AsyncCompile, "metal")


def partitions_graphs() -> bool:
    """True where Inductor splits a graph into parts for CUDA graphs; not every torch does."""
    from torch._inductor.scheduler import Scheduler

    return hasattr(Scheduler, "graph_partition")


def compiles_in_stages() -> bool:
    """True where AOTAutograd hands its graphs to the backend in a function of its own; not every torch does."""
    from torch._functorch import aot_autograd

    return hasattr(aot_autograd, "aot_stage2_compile")


def passes_before_cache() -> bool:
    """True where Inductor runs its pre-grad passes before AOTAutograd's cache is asked, as torch 2.11 does."""
    import inspect

    from torch._functorch.aot_autograd import aot_module_simplified

    return "pre_grad_passes" not in inspect.signature(aot_module_simplified).parameters


def compiles_backward_apart() -> bool:
    """True where Inductor has a function for backward graphs; not every torch does."""
    from torch._inductor import compile_fx

    return hasattr(compile_fx, "compile_fx_backward")


def inside_compile_fx() -> tuple[str, ...]:
    """Return the name of the inner function in which Inductor's `compile_fx` does its work, if this torch has it."""
    from torch._inductor import compile_fx

    return tuple(name for name in ("_maybe_wrap_and_compile_fx_main",) if hasattr(compile_fx, name))


def compiles_kernels_of_cpp_wrapper_later() -> bool:
    """True where a wrapper in C++ compiles its Triton kernels when it first calls them; torch 2.11 needs them to write it."""
    from torch._inductor.codegen.cpp_wrapper_gpu import DeferredTritonCallWrapper

    return hasattr(DeferredTritonCallWrapper, "generate_lazy")


def keeps_original_inner_fn() -> bool:
    """True where Inductor can undo the split of a reduction; not every torch can."""
    from torch._inductor import ir

    return hasattr(ir.ComputedBuffer, "with_original_inner_fn")


def localizes_functions() -> bool:
    """True where the C++ backend rewrites a loop's function to use a local buffer; not every torch does."""
    from torch._inductor.codegen.cpp_utils import LocalBufferContext

    return hasattr(LocalBufferContext, "localize_function")


def cpp_rewriters() -> tuple[str, ...]:
    """Return the names of the functions with which the C++ backend rewrites its lines; not every torch has both."""
    from torch._inductor.codegen import cpp

    return tuple(name for name in ("replace_acc_name", "replace_cascade_sum_with_add") if hasattr(cpp, name))


def has_pallas() -> bool:
    """True where Inductor can write Pallas kernels, whether or not JAX is installed; not every torch can."""
    try:
        from torch._inductor.codegen.pallas import PallasKernel
    except ImportError:
        return False
    return hasattr(PallasKernel, "store")


def has_halide() -> bool:
    """True where Inductor fills in the indices of a Halide kernel's lines by a pattern, as every torch from 2.11 on does."""
    try:
        from torch._inductor.codegen.halide import HalideCSEVariable
    except ImportError:
        return False
    return hasattr(HalideCSEVariable, "undefined_re")


def cutlass_epilogues() -> Any:
    """Return the class that writes the epilogue of a CUTLASS template in Python; None where this torch has none."""
    try:
        from torch._inductor.codegen.cutlass import python_evt
    except ImportError:
        try:
            from torch._inductor.codegen.cuda import cutlass_python_evt as python_evt
        except ImportError:
            return None
    codegen = getattr(python_evt, "CutlassEVTCodegen", None)
    return codegen if has_function(codegen, "get_value") else None


def requests_with_workspace() -> Iterator[type]:
    """Yield the classes of benchmark requests that run a template to learn its workspace's size; their names changed."""
    from torch._inductor import autotune_process
    from torch._inductor.codegen.rocm import rocm_benchmark_request

    for module, name in (
        (autotune_process, "CUTLASSBenchmarkRequest"),
        (autotune_process, "CUDABenchmarkRequest"),
        (rocm_benchmark_request, "ROCmBenchmarkRequest"),
    ):
        request = getattr(module, name, None)
        if request is not None and has_function(request, "update_workspace_size"):
            yield request


def graph_generators() -> tuple[str, ...]:
    """Return the names of GraphLowering's code-writing methods; not every torch has one for a subgraph."""
    from torch._inductor.graph import GraphLowering

    return tuple(name for name in ("codegen", "codegen_subgraph") if hasattr(GraphLowering, name))


def draws_four_numbers() -> bool:
    """True where Inductor's kernels draw four random numbers at once; not every torch does."""
    from torch._inductor.runtime import triton_helpers

    return hasattr(triton_helpers, "rand4x")


def tensor_methods_of_dynamo(names: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """Where Dynamo's TensorVariable has its answers of these names: attributes of the class, or entries of torch 2.15's table."""
    from torch._dynamo.variables.tensor import TensorVariable

    table = getattr(TensorVariable, "tp_methods", {})
    for name in names:
        if entry := table.get(name.removeprefix("method_")):
            yield entry, "handler"
        elif hasattr(TensorVariable, name):
            yield TensorVariable, name


def has_function(owner: Any, name: str) -> bool:
    """True where this torch has a function of that name, for what another release may have moved or not have yet."""
    return callable(getattr(owner, name, None))


def user_lowerings() -> Mapping[Any, Any]:
    """The lowerings that the user registered, which Inductor asks before its own; none where this torch does not know them."""
    from torch._inductor import lowering

    found: Mapping[Any, Any] = getattr(lowering, "user_lowerings", {})
    return found


def oldest_capability() -> int:
    """The least compute capability that torch's own CUDA compiles for: 75 in CUDA 13, which left out Volta; 0 without CUDA."""
    import torch

    return 75 if int((torch.version.cuda or "0").partition(".")[0]) >= 13 else 0


@dataclass(frozen=True)
class Libraries:
    """The CUDA, ROCm and SYCL versions of a torch release's GPU wheels, and cuDNN as 91900 for 9.19.0."""

    cuda: str
    hip: str
    xpu: str
    cudnn: int


#: (cuDNN, ROCm) of each torch release's GPU wheels, as pytorch's RELEASE.md publishes them:
#: https://github.com/pytorch/pytorch/pull/187075 for 2.13, 194367 for 2.14.
PUBLISHED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "2.11": ("9.19.0", "7.2"),
        "2.12": ("9.20.0", "7.2"),
        "2.13": ("9.20.0", "7.2"),
        "2.14": ("9.24.0", "7.14"),
        "2.15": ("9.26.0", "7.14"),
    }
)
#: The release whose row stands for releases that the table does not have yet.
NEWEST = "2.15"


def release_of_libraries() -> Libraries:
    """Return the versions of the libraries that the CUDA build of this torch uses. Only this function goes by a release number.

    A CUDA build pins its cuDNN (nvidia-cudnn-cu13==…). For a build without CUDA, `PUBLISHED` lists its release's version.
    """
    release = ".".join(version_of("torch").split(".")[:2])
    published, rocm = PUBLISHED.get(release, PUBLISHED[NEWEST])
    cudnn = version_of("nvidia-cudnn-cu13") or version_of("nvidia-cudnn-cu12") or published
    major, minor, patch = (int(part) for part in cudnn.split(".")[:3])
    version = 10000 * major + 100 * minor + patch
    return Libraries(cuda="13.0", hip=f"{rocm}.0", xpu="20250302", cudnn=version)
