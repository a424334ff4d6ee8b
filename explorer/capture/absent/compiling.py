"""Set up the compile of one graph for an absent GPU: its inputs are on the GPU, and the generated code is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.absent_gpu import guarded_property, pretending
from explorer.capture.absent.aot_inductor import not_tuned, packaging
from explorer.capture.absent.generated import Code
from explorer.capture.absent.helion_kernels import examples_without_data
from explorer.capture.absent.in_place_of_gpu import autocast_on_the_gpu
from explorer.capture.absent.moved_constants import moved_constants
from explorer.capture.absent.seen_by_dynamo import seen_as_they_are
from explorer.capture.absent.untimed import assuming, untimed
from explorer.capture.observe.fresh import no_graph_caches
from explorer.capture.observe.patch import added, replaced
from explorer.model.stage import Emit

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target


@contextmanager
def compiling_for(target: Target, emit: Emit, graph: Any, keep: Callable[[Code], None], folder: str) -> Iterator[None]:
    """Set up everything for the compile of one graph; Inductor's modules are written into `folder`."""
    import torch._functorch.config
    import torch._inductor.config

    assume = assuming(emit)
    with ExitStack() as stack:
        stack.enter_context(torch._functorch.config.patch({"force_non_lazy_backward_lowering": True}))
        # Inductor's own workers would only be started: its kernels for this GPU are compiled in explorer's
        stack.enter_context(torch._inductor.config.patch({"compile_threads": 1}))
        # a module of this GPU in the program's own caches would be loaded by a later run, and could not be imported
        stack.enter_context(no_graph_caches())
        stack.enter_context(_modules_in(folder))
        stack.enter_context(untimed(emit, target))
        stack.enter_context(moved_constants(assume))
        stack.enter_context(_code_not_loaded(target, keep))
        stack.enter_context(pretending(target, assume))
        stack.enter_context(autocast_on_the_gpu())
        stack.enter_context(seen_as_they_are())
        stack.enter_context(_inputs_on_gpu(graph, target.device))
        stack.enter_context(_mesh_on_gpu(target.device))
        stack.enter_context(not_tuned(target, folder))
        stack.enter_context(examples_without_data())
        yield


@contextmanager
def _modules_in(folder: str) -> Iterator[None]:
    """Write Inductor's modules into `folder`, not into its cache, which the program's own compiles use."""
    from torch._inductor import codecache

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def write(content: Any, extension: str, *args: Any, **kwargs: Any) -> Any:
            return original(content, extension, *args, **kwargs, **({"specified_dir": folder} if extension == "py" else {}))

        return write

    with replaced(codecache, "write", make):
        yield


# Its inputs ----------------------------------------------------------------------------------------------------------


@contextmanager
def _inputs_on_gpu(graph: Any, device: str) -> Iterator[None]:
    """Make AOTAutograd's fake tensors of the graph's inputs, which are on the CPU, tensors on the GPU.

    Numbers that Dynamo passes as tensors without dimensions stay on the CPU, as they do with a real GPU.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch._subclasses.meta_utils import MetaTensorDescriber

    stay = {id(example) for example in _numbers(graph)}
    moving: list[bool] = [packaging()]  # of an exported graph the weights are constants, and meet its fake tensors anywhere

    def make_from(original: Callable[..., Any]) -> Callable[..., Any]:
        def from_tensor(self: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
            moving.append(id(tensor) not in stay)
            try:
                return original(self, tensor, *args, **kwargs)
            finally:
                moving.pop()

        return from_tensor

    def make_describe(original: Callable[..., Any]) -> Callable[..., Any]:
        def describe_tensor(self: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
            described = original(self, tensor, *args, **kwargs)
            return on_gpu(described, device) if moving[-1] else described

        return describe_tensor

    with replaced(FakeTensorMode, "from_tensor", make_from), replaced(MetaTensorDescriber, "describe_tensor", make_describe):
        yield


@contextmanager
def _mesh_on_gpu(device: str) -> Iterator[None]:
    """Make a mesh on the CPU a mesh of GPUs: DTensor moves its local tensors to its mesh's device.

    Since torch 2.13 a mesh is an input of Dynamo's graph, and stands for itself there by an object that has its device's type as
    it was when Dynamo made that. With the other type DTensor computes the shape of a result of tensors on both devices.
    """
    import torch.distributed

    if not torch.distributed.is_available():
        yield
        return
    from torch._library.fake_class_registry import FakeScriptObject
    from torch.distributed.device_mesh import DeviceMesh

    def device_type(mesh: Any) -> str:
        return device if mesh._device_type == "cpu" else str(mesh._device_type)

    def make_read(original: Callable[..., Any]) -> Callable[..., Any]:
        def read(fake: Any, name: str) -> Any:
            value = original(fake, name)
            return device if name == "device_type" and value == "cpu" else value

        return read

    with added(DeviceMesh, "device_type", guarded_property(DeviceMesh, "device_type", device_type)):
        with replaced(FakeScriptObject, "__getattribute__", make_read):
            yield


def on_gpu(described: Any, device: str) -> Any:
    """Replace the CPU by the GPU in a tensor's description."""
    import dataclasses

    import torch

    if described.device.type != "cpu":
        return described
    return dataclasses.replace(described, device=torch.device(device, 0))


def _numbers(graph: Any) -> Iterator[Any]:
    for node in graph.graph.nodes:
        argument = node.meta.get("grapharg")
        if node.op == "placeholder" and argument is not None and argument.pass_arg_as_tensor:
            yield argument.example


# Its code ------------------------------------------------------------------------------------------------------------


@contextmanager
def _code_not_loaded(target: Target, keep: Callable[[Code], None]) -> Iterator[None]:
    """Record Inductor's code instead of importing it, and prepare no CUDA graphs."""
    import types
    from pathlib import Path

    from torch._inductor import cudagraph_trees, cudagraph_utils, output_code
    from torch._inductor.codecache import PyCodeCache

    def make(original: Callable[..., Any]) -> Any:
        def load_by_key_path(key: str, path: str, *args: Any, **kwargs: Any) -> Any:
            if "linemap" not in kwargs:  # a candidate's kernel, imported for its source
                return original(key, path, *args, **kwargs)
            text, constants = Path(path).read_text(encoding="utf-8"), dict(kwargs.get("attrs") or {})
            code = Code(text, Path(path).name, target, constants, _sizes())
            keep(code)
            return types.SimpleNamespace(__file__=path, key=key, call=code, runner=None)

        return staticmethod(load_by_key_path)

    with ExitStack() as stack:
        stack.enter_context(replaced(PyCodeCache, "load_by_key_path", make))
        for owner, name in (
            (output_code, "cudagraph_post_compile"),
            (output_code, "cudagraph_partition_post_compile"),
            (cudagraph_utils, "check_caching_allocator_for_cudagraphs"),
        ):
            if hasattr(owner, name):
                stack.enter_context(replaced(owner, name, lambda _: lambda *args, **kwargs: None))
        stack.enter_context(replaced(cudagraph_trees, "cudagraphify_impl", lambda _: lambda model, *args, **kwargs: model))
        yield


def _sizes() -> dict[str, int]:
    """The value of each symbol of the current graph in this call."""
    from torch._inductor.virtualized import V

    shapes = V.graph.sizevars.shape_env
    sizes = shapes.backed_var_to_val if hasattr(shapes, "backed_var_to_val") else shapes.var_to_val
    return {str(symbol): int(value) for symbol, value in sizes.items() if str(value).lstrip("-").isdigit()}
