"""Run hand-written Triton kernels of a program that is traced for an absent GPU.

Two things stand in their way on a machine without a GPU. Dynamo takes a kernel's launch into its graph only where it
believes that triton works; and whoever runs the launch, eager or Dynamo's graph on the CPU, asks for a driver. So for
the time of a trace Dynamo is told what is true of the target, and a launch on CPU tensors is run by triton's interpreter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.active_driver import this_machines
from explorer.capture.ladder.triton_jit import EXPLORER_COPY, function_name
from explorer.capture.observe.patch import replaced
from explorer.capture.observe.without_data import without_data
from explorer.errors import ExplorerError, InputError, InterpretError

if TYPE_CHECKING:
    from explorer.capture.absent.launches import Launches
    from explorer.reference.gpus.figures import Target

#: The object that notes this thread's launches.
_NOTING: ContextVar[Launches | None] = ContextVar("explorer launches", default=None)
#: Seconds that one launch may be estimated to take.
LIMIT = 120.0
#: Seconds an operation and an element, slower than any machine: if this is below the limit, no speed is measured.
SLOW = (1e-3, 1e-7)


@contextmanager
def captured_by_dynamo(target: Target) -> Iterator[None]:
    """Let Dynamo put kernel launches into its graph, and TMA descriptors if the target has TMA; triton runs on no Apple GPU."""
    import torch.utils._triton as asked

    if target.device == "mps":
        yield
        return
    tma = target.vendor == "nvidia" and target.capability >= (9, 0)
    with ExitStack() as stack:
        # torch 2.15 asks with `include_cpu`
        stack.enter_context(replaced(asked, "has_triton", lambda _: lambda *args, **kwargs: True))
        if hasattr(asked, "has_triton_tensor_descriptor_host_tma"):
            stack.enter_context(replaced(asked, "has_triton_tensor_descriptor_host_tma", lambda _: lambda *args, **kwargs: tma))
        yield


@contextmanager
def launched_on_the_cpu(launches: Launches | None = None) -> Iterator[None]:
    """Run kernels that are launched on CPU tensors in explorer's interpreter, without timing.

    An autotuned kernel runs with the first of its configs. Kernels that are launched on a GPU's tensors are left alone.
    With `launches` those outside of a graph of Dynamo's are noted, and give what the GPU would launch; in a block inside
    such a one too. InterpretError, from the launch, for what cannot be interpreted.
    """
    try:
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction
    except ImportError:
        yield
        return

    make = partial(_interpreted, launches)
    before = _NOTING.set(launches or _NOTING.get())
    try:
        with replaced(JITFunction, "run", make), replaced(Autotuner, "run", make):
            yield
    finally:
        _NOTING.reset(before)


def _interpreted(launches: Launches | None, original: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    note = torch.compiler.disable(_as_they_are(partial(_noted, launches)))
    run_it = torch.compiler.disable(_as_they_are(interpret))  # after a graph break Dynamo would compile the interpreter
    on_cpu = torch.compiler.disable(_as_they_are(on_the_cpu))

    @functools.wraps(original)
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if getattr(self, EXPLORER_COPY, False):
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        if not on_cpu(args, kwargs):
            with this_machines():
                return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        noting = launches or _NOTING.get()
        if warmup:
            if noting is None:
                return original(self, *args, grid=grid, warmup=True, **kwargs)
            return torch.compiler.disable(_as_they_are(noting.compiled))(self, args, kwargs)
        kernel = note(self, args, kwargs, grid)
        run_it(self, args, kwargs, grid)
        return kernel

    return run


def _as_they_are(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call a function outside torch-function modes: one of them makes CPU tensors report the GPU."""
    import torch

    def called(*args: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return function(*args)

    return called


def _noted(launches: Launches | None, kernel: Any, args: tuple[Any, ...], constants: Mapping[str, Any], grid: Any) -> Any:
    """Note a launch and return what the GPU would launch; an error becomes a message in the trace."""
    launches = launches or _NOTING.get()
    if launches is None:
        return None
    try:
        return launches.launched(kernel, args, constants, grid)
    except (ExplorerError, TypeError, KeyError, ValueError, AttributeError) as error:
        name = function_name(kernel)
        launches.note("record", f"this launch was not recorded: {type(error).__name__}: {error}", kernel=name)
        return None


def interpret(kernel: Any, args: tuple[Any, ...], constants: Mapping[str, Any], grid: Any) -> None:
    """Run `kernel[grid](*args, **constants)` on CPU tensors; InterpretError if it cannot, or is too slow."""
    from explorer.capture.interpret.interpreter import interpreting

    try:
        _allowed(kernel, args, constants, grid)
        with interpreting() as interpreter:
            interpreter.run(kernel, args, constants, grid)
    except InputError as error:
        raise InterpretError(f"the program's own Triton kernel {error}; it runs in the interpreter, as no GPU is here") from error


def _allowed(kernel: Any, args: tuple[Any, ...], constants: Mapping[str, Any], grid: Any) -> None:
    """Raise InputError if tensors have no data or the launch would take longer than the limit."""
    from explorer.capture.interpret.estimate import estimate_call, speed

    if empty := without_data(kernel, args, constants):
        raise InputError(f"{function_name(kernel)} has nothing to work on: {empty} has no data, it is fake or on the meta device")
    expected = estimate_call(kernel, args, constants, grid)
    if expected.seconds(SLOW) > LIMIT and (seconds := expected.seconds(speed())) > LIMIT:
        raise InputError(
            f"{function_name(kernel)} has {expected.programs} programs in one launch, which take about {seconds:.0f} s here, "
            f"more than {LIMIT:.0f} s: give smaller inputs"
        )


def on_the_cpu(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether all tensors of a launch are on the CPU or meta; a descriptor counts as its tensor."""
    import torch
    from torch.utils import _pytree as pytree

    leaves = [getattr(leaf, "base", leaf) for leaf in pytree.arg_tree_leaves(*args, **kwargs)]
    return {leaf.device.type for leaf in leaves if isinstance(leaf, torch.Tensor)} <= {"cpu", "meta"}
