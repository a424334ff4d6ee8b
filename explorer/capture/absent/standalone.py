"""`torch._inductor.standalone_compile` and `torch.compile(f).aot_compile(…)` for an absent GPU.

The program saves what these functions give, and loads it on this machine. So its graph is compiled twice: a copy for the GPU,
which is recorded, and the graph itself for the CPU, as without explorer.
"""

from __future__ import annotations

import copy
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from explorer.capture.absent.active_driver import this_machines
from explorer.capture.absent.seen_by_dynamo import not_seen_in_eager_mode
from explorer.capture.absent.torch_cuda import torch_cuda_of_this_machine
from explorer.capture.observe.patch import observed, replaced


class _UnderWay(threading.local):
    """The call of standalone_compile that is under way in a thread, and the tracing context around it."""

    now = False
    outer: Any = None


_UNDER_WAY = _UnderWay()


@contextmanager
def standalone_calls_noted() -> Iterator[None]:
    """Note inside the block when standalone_compile, or `torch.compile(f).aot_compile(…)`, is under way."""
    from torch._guards import TracingContext

    # an attribute of the package with this name is the function
    module = importlib.import_module("torch._inductor.standalone_compile")

    def under_way(*args: Any, **kwargs: Any) -> Iterator[None]:
        before = _UNDER_WAY.now, _UNDER_WAY.outer
        _UNDER_WAY.now, _UNDER_WAY.outer = True, TracingContext.try_get()
        try:
            yield
        finally:
            _UNDER_WAY.now, _UNDER_WAY.outer = before

    def ahead(*args: Any, **kwargs: Any) -> Iterator[None]:
        # no compiled function is called that takes the modes off: Dynamo would trace them as the program's
        with not_seen_in_eager_mode():
            yield from under_way(*args, **kwargs)

    def called(*args: Any, **kwargs: Any) -> Iterator[None]:
        with not_seen_in_eager_mode():  # its guards hold for the modes under which it was compiled
            yield

    with ExitStack() as stack:
        stack.enter_context(observed(module, "standalone_compile", under_way))
        with suppress(ImportError):  # before torch 2.9
            aot_compile = importlib.import_module("torch._dynamo.aot_compile")
            stack.enter_context(observed(aot_compile, "aot_compile_fullgraph", ahead))
            stack.enter_context(observed(aot_compile.AOTCompiledFunction, "__call__", called))
        yield


@contextmanager
def of_this_machine() -> Iterator[None]:
    """Show the program's artifacts this machine inside the block: they are compiled for it, and a load compares its driver."""
    with not_seen_in_eager_mode(), this_machines(), torch_cuda_of_this_machine():
        yield


@contextmanager
def artifacts_loaded_here() -> Iterator[None]:
    """Load inside the block the artifacts that a program saved, which are for this machine, as without explorer."""
    module = importlib.import_module("torch._inductor.standalone_compile")

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def load(*args: Any, **kwargs: Any) -> Any:
            with of_this_machine():
                return original(*args, **kwargs)

        return load

    with ExitStack() as stack:
        for name in ("CompiledArtifact", "CacheCompiledArtifact", "AOTCompiledArtifact"):
            kind = getattr(module, name, None)
            if "load" in vars(kind or object):
                stack.enter_context(replaced(kind, "load", make))
        yield


def standalone() -> bool:
    """Whether standalone_compile compiles now, in this thread."""
    return _UNDER_WAY.now


def copied_graph(graph: Any) -> Any:
    """Copy a graph and the graphs in it; parameters and buffers are shared."""
    import torch

    copy_of_graph = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    copy_of_graph.meta.update(graph.meta)
    for name, child in graph.named_children():
        if isinstance(child, torch.fx.GraphModule):
            setattr(copy_of_graph, name, copied_graph(child))
    return copy_of_graph


def has_fakes_of_dynamo(inputs: Sequence[Any]) -> bool:
    """Whether inputs are fake tensors of the compile under way: a backend that splits Dynamo's graph runs it on these."""
    from torch._guards import TracingContext
    from torch._subclasses import FakeTensor

    context = TracingContext.try_get()
    return any(isinstance(value, FakeTensor) and value.fake_mode is getattr(context, "fake_mode", None) for value in inputs)


@contextmanager
def fake_tensors_of_its_own(*, ignore_shape_env: bool) -> Iterator[None]:
    """Make separate fake tensors of the inputs inside the block, not those of the program's own compile.

    A fake mode keeps the fake tensor that it made for an input, on the GPU or on the CPU. Dynamo gives each backend its own
    fake mode for such reasons. Symbols come from the surrounding compile, whose tracing context knows their sources. With
    `ignore_shape_env` every size is static.
    """
    from torch import _guards
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    outer = _UNDER_WAY.outer if _UNDER_WAY.now else _guards.TracingContext.try_get()
    if ignore_shape_env or getattr(outer, "fake_mode", None) is None:
        context = _guards.TracingContext(FakeTensorMode(shape_env=ShapeEnv()))
    else:
        context = copy.copy(outer)
        context.fake_mode = FakeTensorMode(
            shape_env=outer.fake_mode.shape_env, allow_non_fake_inputs=outer.fake_mode.allow_non_fake_inputs
        )
    before = _guards.TracingContext.try_get()
    # `_guards.tracing` would also drop the stacks of the symbols of the compile around it
    _guards._TLS.tracing_context = context
    try:
        yield
    finally:
        _guards._TLS.tracing_context = before
        if getattr(before, "ddp_optimizer_ctx", None) is not None:
            before.fw_metadata = context.fw_metadata  # DDPOptimizer reads there what AOTAutograd found of each bucket
