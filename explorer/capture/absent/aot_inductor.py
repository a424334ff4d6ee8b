"""AOTInductor for an absent GPU: its C++ is written and recorded, but not compiled, linked or packaged.

AOTInductor tunes and compiles each Triton kernel while it writes the C++ that launches it: names, warps and shared memory
stand in that text. Here explorer compiles the kernel, with the first of its candidates.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.generated import Kernel
from explorer.capture.ladder.ladder import compile_ladder
from explorer.capture.observe.patch import replaced
from explorer.capture.observe.versions import compiles_kernels_of_cpp_wrapper_later
from explorer.model.syntax import parsed_expression

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target


def packaging() -> bool:
    """Whether AOTInductor compiles now."""
    from torch._inductor.virtualized import V

    return bool(V.aot_compilation)


def inputs_on_gpu(graph: Any, inputs: Any, device: str) -> list[Any]:
    """Replace an exported graph's inputs, and its placeholders' values, by fake tensors on the GPU."""
    import torch

    gpu = torch.device(device, 0)

    def moved(value: Any) -> Any:
        if not isinstance(value, torch._subclasses.FakeTensor):
            return value
        with value.fake_mode:
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=gpu)

    nodes = graph.graph.find_nodes(op="placeholder")
    for node in nodes:
        node.meta["val"] = moved(node.meta.get("val"))
    fakes = [node.meta["val"] for node in nodes]
    return [fake if isinstance(given, torch.Tensor) else given for fake, given in zip(fakes, inputs, strict=True)]


@contextmanager
def not_packaged(target: Target, folder: str) -> Iterator[None]:
    """Make AOTInductor write its C++ to a file in `folder` and stop there, with constants on the GPU."""
    from torch._inductor import graph as module
    from torch._inductor.codecache import AotCodeCompiler
    from torch._inductor.virtualized import V

    def make_compile(original: Callable[..., Any]) -> Any:
        def compile(graph: Any, wrapper_code: str, kernel_code: str, *args: Any, **kwargs: Any) -> str:
            path = Path(folder) / "aot_inductor.cpp"
            path.write_text(f"{wrapper_code}\n{kernel_code}\n", encoding="utf-8")
            V.debug.output_code(str(path), extension="cpp")
            return str(path)

        return staticmethod(compile)

    def make_attribute(original: Callable[..., Any]) -> Callable[..., Any]:
        def getattr_recursive(*args: Any, **kwargs: Any) -> Any:
            return placed(original(*args, **kwargs), target.device)

        return getattr_recursive

    with ExitStack() as stack:
        stack.enter_context(replaced(AotCodeCompiler, "compile", make_compile))
        stack.enter_context(replaced(module, "getattr_recursive", make_attribute))
        yield


@contextmanager
def not_tuned(target: Target, folder: str) -> Iterator[None]:
    """Skip the kernels that Inductor would run on the GPU to tune them. Give Inductor the launch parameters that C++ needs."""
    from torch._inductor.codecache import CudaKernelParamCache
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def generate_and_run_autotune_block(wrapper: Any) -> None:
            if not _launches_in_cpp():
                return
            for name, body in getattr(wrapper, "_kernel_name_to_body", {}).items():
                CudaKernelParamCache.cache[name] = launch_parameters(name, body, target, folder)

        return generate_and_run_autotune_block

    with replaced(CudaKernelParamCache, "cache", lambda _: {}):
        with replaced(PythonWrapperCodegen, "generate_and_run_autotune_block", make):
            yield


def _launches_in_cpp() -> bool:
    """Whether the C++ that is written now holds each kernel's launch parameters, which a run of the kernel gives."""
    from torch._inductor.virtualized import V

    return bool(V.graph.cpp_wrapper) and (packaging() or not compiles_kernels_of_cpp_wrapper_later())


def launch_parameters(name: str, body: str, target: Target, folder: str) -> dict[str, Any]:
    """A kernel's launch parameters in the C++: names, arguments, config, warps, bytes of shared memory."""
    from torch._inductor.codecache import get_cpp_wrapper_cubin_path_name
    from torch._inductor.runtime.triton_heuristics import config_to_dict

    call = parsed_expression(body.strip()).body
    assert isinstance(call, ast.Call)
    source = str(ast.literal_eval(call.args[1]))
    kernel, ladder = Kernel.of(name, source, target, None), compile_ladder(source, name, target)
    binary = Path(folder) / f"{name}.bin"
    binary.write_bytes(ladder.binary)
    return {
        "mangled_name": kernel.function.__name__,
        "num_warps": ladder.metadata["num_warps"],
        "shared_mem": ladder.metadata["shared"],
        "stream": "stream",
        "config": config_to_dict(kernel.config),
        "inductor_meta": dict(kernel.about),
        "triton_meta": dict(kernel.triton_meta),
        "def_args": list(kernel.names),
        "call_args": [n for n in kernel.names if n in kernel.function.arg_names],
        "global_scratch": None,
        "profile_scratch": None,
        get_cpp_wrapper_cubin_path_name(): str(binary),
    }


def placed(value: Any, device: str) -> Any:
    """Make a graph's constant report that it is on the GPU; its memory stays, and other values are unchanged."""
    import torch

    if not isinstance(value, torch.Tensor) or isinstance(value, torch._subclasses.FakeTensor) or value.device.type != "cpu":
        return value
    return value.detach().as_subclass(_on_gpu(device))


def _on_gpu(device: str) -> type:
    """The tensor class of constants that report that they are on the GPU."""
    import torch

    gpu = torch.device(device, 0)
    return type(
        "OnGpu",
        (torch.Tensor,),
        {
            "device": property(lambda self: gpu),
            "__torch_function__": torch._C._disabled_torch_function_impl,
        },
    )
