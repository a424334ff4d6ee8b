"""Compile Dynamo's graph for an absent GPU, and run the graph itself on the CPU.

The graph goes to the GPU where Inductor takes it over, before AOTAutograd: each of its inputs becomes a fake tensor on
the GPU, and each `torch.device` it names becomes the GPU. So AOTAutograd, its decompositions, autograd, the choice of
operators (attention, convolution, batch norm), every graph pass and all of Inductor see the target and nothing else. What
they make is recorded and kept for a check. In its place Dynamo gets a copy of its own graph, so the function returns what
eager returns.
"""

from __future__ import annotations

import copy
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from explorer.absent.absent_gpu import pretending
from explorer.absent.active_driver import answered
from explorer.absent.aot_inductor import inputs_on_gpu, not_packaged, packaging
from explorer.absent.generated import Code, Generated, compile_fx_replaced
from explorer.absent.in_place_of_gpu import autocast_on_the_gpu, in_place_of_gpu
from explorer.absent.native import library
from explorer.absent.random_draws import noting_draws
from explorer.absent.seen_by_dynamo import not_seen_in_eager_mode, seen_as_they_are, seen_by_dynamo, seen_in_eager_mode
from explorer.absent.standalone import (
    artifacts_loaded_here,
    copied_graph,
    fake_tensors_of_its_own,
    of_this_machine,
    standalone,
    standalone_calls_noted,
)
from explorer.absent.untimed import assuming, untimed
from explorer.absent.unviewed import unviewed
from explorer.absent.user_kernels import captured_by_dynamo
from explorer.model.stage import Emit
from explorer.observe.fresh import no_graph_caches
from explorer.observe.patch import ON_PURPOSE, Guard, added, guard_here, guarding, replaced
from explorer.observe.without_data import on_fakes

if TYPE_CHECKING:
    from explorer.absent.launches import Launches
    from explorer.gpus.figures import Target


@contextmanager
def retargeted(
    target: Target,
    emit: Emit,
    compiled: Callable[[], object],
    generated: Generated | None = None,
    launches: Launches | None = None,
) -> Iterator[bool]:
    """Make Inductor compile for `target` what Dynamo traced on the CPU; InputError if g++ is missing.

    `compiled` is called after each graph of Dynamo's that was compiled, outside of the pretence; `generated` is
    given what is made, and `launches` what the program launches outside of these graphs.

    The pretence is only in the thread that compiles, and only for that compile. Where explorer's part of it fails,
    the compile for the GPU is given up: a Failure says so, and the graph runs on the CPU as it does otherwise.
    """
    from torch._dynamo.backends import cudagraphs

    library()
    inside, drawn = _Inside(), noting_draws(assuming(emit))
    kept = generated if generated is not None else Generated()
    guard = guard_here()

    def for_aot_inductor(graph: Any, inputs: Any, *args: Any, call: Callable[..., Any], **kwargs: Any) -> bool:
        copied = on_the_cpu(graph)
        copied.meta.update(graph.meta)
        with _compiling(target, emit, copied, kept.codes.append, folder), not_packaged(target, folder):
            to_gpu(copied, target.device)
            call(copied, inputs_on_gpu(copied, inputs, target.device), *args, **kwargs)
        compiled()
        return True

    def for_standalone(graph: Any, inputs: Any, *args: Any, compile_for_the_cpu: Callable[..., Any], **kwargs: Any) -> Any:
        def for_the_gpu(call: Callable[..., Any]) -> Any:
            graph_for_gpu = copied_graph(graph)
            ignores = bool(kwargs.get("ignore_shape_env"))
            with (
                _compiling(target, emit, graph_for_gpu, kept.codes.append, folder),
                fake_tensors_of_its_own(ignore_shape_env=ignores),
            ):
                to_gpu(graph_for_gpu, target.device)
                made = call(graph_for_gpu, inputs, *args, **kwargs)
            compiled()
            return made

        with not_seen_in_eager_mode():
            for_gpu = None
            try:
                for_gpu = _given_up_where_ours_fails(for_the_gpu, compile_for_the_cpu, guard)
            except ON_PURPOSE:
                raise
            except Exception as error:  # noqa: BLE001 torch's own for that GPU: what the program saves does not need it
                guard.lose("standalone_compile", error)
            # what the program saves is for this machine: its cache entry names triton's driver, and a load compares it
            with emit.muted(), of_this_machine():
                for_cpu = compile_for_the_cpu(graph, inputs, *args, **kwargs)
        if for_gpu is None:
            return for_cpu
        either = kept.in_place_of(for_cpu, for_gpu)
        vars(either).update({name: value for name, value in vars(for_cpu).items() if name not in vars(either)})  # as `serialize`
        return either

    def make(original: Callable[..., Any], runs: Callable[[Any, Any], Any] = kept.in_place_of) -> Callable[..., Any]:
        def compile_fx(graph: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if inside.compile:
                return original(graph, inputs, *args, **kwargs)
            if packaging():
                inside.compile = True
                try:
                    with not_seen_in_eager_mode():
                        _given_up_where_ours_fails(
                            lambda call: for_aot_inductor(graph, inputs, *args, call=call, **kwargs), original, guard
                        )
                        with emit.muted():  # the package that the program asked for, which runs on this machine
                            return original(graph, inputs, *args, **kwargs)
                finally:
                    inside.compile = False
            if standalone():
                inside.compile = True
                try:
                    return for_standalone(graph, inputs, *args, compile_for_the_cpu=original, **kwargs)
                finally:
                    inside.compile = False
            # from here on the graph is changed in place: whatever fails, its copy runs
            own = on_fakes(unviewed(on_the_cpu(graph)))

            def for_the_gpu(call: Callable[..., Any]) -> Any:
                with _compiling(target, emit, graph, kept.codes.append, folder):
                    to_gpu(graph, target.device)
                    made = call(graph, inputs, *args, **kwargs)
                compiled()
                return runs(launches.inside(own) if launches is not None else own, made)

            inside.compile = True
            try:
                return _given_up_where_ours_fails(for_the_gpu, original, guard) or own
            finally:
                inside.compile = False

        return compile_fx

    with tempfile.TemporaryDirectory(prefix="explorer-") as folder:
        with (
            seen_in_eager_mode(target, drawn),
            compile_fx_replaced(make),
            # this backend generates no code: what runs is the graph on the CPU
            replaced(cudagraphs, "cudagraphs", partial(make, runs=lambda own, _: own)),
            standalone_calls_noted(),
            artifacts_loaded_here(),
            _hashed_ahead(),
            captured_by_dynamo(target),
            in_place_of_gpu(launches),
        ):
            with answered(target, launches.note if launches is not None else lambda *what: False), seen_by_dynamo(target, drawn):
                yield True


class _Inside(threading.local):
    """Whether this thread is compiling for the GPU."""

    compile = False


def _given_up_where_ours_fails(
    compile_it: Callable[[Callable[..., Any]], Any], original: Callable[..., Any], guard: Guard
) -> Any:
    """Call `compile_it` with torch's own function; None, and a Failure, if explorer's part failed."""
    torchs: list[BaseException] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            torchs.append(error)
            raise

    answers = guard.essential_here()
    try:
        with guarding(answers):
            return compile_it(call)
    except ON_PURPOSE:
        raise
    except Exception as error:
        if error in torchs and not answers.failed:
            raise
        if not answers.failed:
            answers.lose("compile", error)
    finally:
        torchs.clear()
    answers.lose("compile", RuntimeError("explorer failed while it compiled for the GPU: the graph runs on the CPU as it is"))
    return None


@contextmanager
def _hashed_ahead() -> Iterator[None]:
    """Compute triton's hash, which Inductor writes into each kernel, in a thread while Dynamo works (0.3 s)."""
    from torch._inductor.runtime.triton_compat import triton_key

    thread = threading.Thread(target=triton_key, name="explorer-triton-key")
    thread.start()
    try:
        yield
    finally:
        thread.join()


@contextmanager
def _compiling(target: Target, emit: Emit, graph: Any, keep: Callable[[Code], None], folder: str) -> Iterator[None]:
    """Set up everything for the compile of one graph; Inductor's modules are written into `folder`."""
    import torch._functorch.config
    import torch._inductor.config

    with ExitStack() as stack:
        stack.enter_context(torch._functorch.config.patch({"force_non_lazy_backward_lowering": True}))
        # Inductor's own workers would only be started: its kernels for this GPU are compiled in explorer's
        stack.enter_context(torch._inductor.config.patch({"compile_threads": 1}))
        # a module of this GPU in the program's own caches would be loaded by a later run, and could not be imported
        stack.enter_context(no_graph_caches())
        stack.enter_context(_modules_in(folder))
        stack.enter_context(untimed(emit, target))
        stack.enter_context(_code_not_loaded(target, keep))
        stack.enter_context(pretending(target, assuming(emit)))
        stack.enter_context(autocast_on_the_gpu())
        stack.enter_context(seen_as_they_are())
        stack.enter_context(_inputs_on_gpu(graph, target.device))
        stack.enter_context(_mesh_on_gpu(target.device))
        stack.enter_context(_nothing_tuned())
        yield


@contextmanager
def _nothing_tuned() -> Iterator[None]:
    """Skip the kernels that Inductor would run on the GPU to tune them."""
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    with replaced(PythonWrapperCodegen, "generate_and_run_autotune_block", lambda _: lambda wrapper: None):
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


def on_the_cpu(graph: Any) -> Any:
    """A copy of Dynamo's graph and the graphs in it, which compiling changes in place; parameters and buffers are shared.

    A region that is compiled once for all its calls is called as it is: its operator has a backward only while compiling.
    What only a GPU's operator takes is given to the CPU's as it takes it, and memory that is pinned for a GPU is not pinned.
    """
    import torch

    made = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for node in made.graph.find_nodes(op="call_function", target=torch.ops.higher_order.invoke_subgraph):
        node.target = _called
    for node in made.graph.nodes:
        if (node.op, node.target) in (("call_function", torch.histc), ("call_method", "histc")):
            node.op, node.target = "call_function", _histogram
        if node.op == "call_function" and str(node.target).startswith("streams."):
            node.target, node.args, node.kwargs = _nothing, (), {}
        if node.kwargs.get("pin_memory"):
            node.kwargs = {**node.kwargs, "pin_memory": False}
    made.recompile()
    for name, child in made.named_children():
        if isinstance(child, torch.fx.GraphModule):
            setattr(made, name, on_the_cpu(child))
    return made


def _called(region: Callable[..., Any], name: str, *operands: Any) -> Any:
    """Call a region with its arguments, as `invoke_subgraph` does, outside of a compile."""
    return region(*operands)


def _nothing() -> None:
    """Do nothing, in place of waiting for a GPU."""


def _histogram(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """torch.histc, also of integers, which it counts on a GPU alone."""
    import torch

    if tensor.is_floating_point():
        return torch.histc(tensor, *args, **kwargs)
    return torch.histc(tensor.double(), *args, **kwargs).to(tensor.dtype)


# The graph -----------------------------------------------------------------------------------------------------------


def to_gpu(graph: Any, device: str) -> None:
    """Name the GPU ("cuda" or "xpu", number 0) wherever Dynamo's graph names the CPU as a device, in nested graphs too.

    Dynamo writes `x.device` down as a torch.device and what a program wrote as a string as a string: `device="cpu"` is
    meant. Autocast is for the device that the program computes on, also where it is named by a string.
    """
    import torch
    from torch.fx.node import map_aggregate

    gpu = torch.device(device, 0)

    def moved(value: Any) -> Any:
        return gpu if isinstance(value, torch.device) and value.type == "cpu" else value

    for module in graph.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            node.args, node.kwargs = map_aggregate(node.args, moved), map_aggregate(node.kwargs, moved)
            if node.target is torch.amp.autocast_mode._enter_autocast and node.args[0] == "cpu":
                node.args = (device, *node.args[1:])
        module.recompile()


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
        def from_tensor(self: Any, tensor: Any, **kwargs: Any) -> Any:
            moving.append(id(tensor) not in stay)
            try:
                return original(self, tensor, **kwargs)
            finally:
                moving.pop()

        return from_tensor

    def make_describe(original: Callable[..., Any]) -> Callable[..., Any]:
        def describe_tensor(self: Any, tensor: Any, **kwargs: Any) -> Any:
            described = original(self, tensor, **kwargs)
            return on_gpu(described, device) if moving[-1] else described

        return describe_tensor

    with replaced(FakeTensorMode, "from_tensor", make_from), replaced(MetaTensorDescriber, "describe_tensor", make_describe):
        yield


@contextmanager
def _mesh_on_gpu(device: str) -> Iterator[None]:
    """Make a mesh on the CPU a mesh of GPUs: DTensor moves its local tensors to its mesh's device."""
    import torch.distributed

    if not torch.distributed.is_available():
        yield
        return
    from torch.distributed.device_mesh import DeviceMesh

    def device_type(mesh: Any) -> str:
        return device if mesh._device_type == "cpu" else str(mesh._device_type)

    with added(DeviceMesh, "device_type", property(device_type)):
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


# The code ------------------------------------------------------------------------------------------------------------


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
