"""Triton's active driver while a program runs for an absent GPU: the target's name and figures, no times.

    triton.runtime.driver.active.get_current_target()                       the target's
    triton.runtime.driver.active.utils.get_device_properties(0)             the target's
    triton.runtime.driver.active.get_active_torch_device()                  the target's, where the program sees it
    triton.testing.do_bench(f)                                              runs f once, and gives NaN

Only what is recorded is answered so; other threads have the drivers of this machine. A driver that the program sets itself
stays.
"""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.seen_by_dynamo import seen_here
from explorer.capture.ladder.absent_driver import AbsentDriver
from explorer.capture.observe.patch import added
from explorer.errors import InterpretError

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target

#: Whether this thread sees the driver of the machine's own GPU.
_THIS_MACHINES: ContextVar[bool] = ContextVar("explorer driver of this machine", default=False)
#: Called with what was lost and a sentence on it; True for the first time.
Note = Callable[[str, str], bool]


class ActiveDriver(AbsentDriver):
    """The driver that a program sees for an absent GPU; it launches and times nothing."""

    def get_active_torch_device(self) -> Any:
        """The target's device if the program sees the GPU, whose tensors are on the CPU; else the CPU."""
        import torch

        return torch.device(self._target.device, 0) if seen_here() else torch.device("cpu")

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """The compute capability of the target."""
        return self._target.capability

    def get_device_interface(self) -> Any:
        """A device interface that has nothing to wait for, and whose events time nothing."""
        return types.SimpleNamespace(synchronize=lambda *args: None, current_device=lambda: 0, Event=self._event)

    def get_benchmarker(self) -> Callable[..., Any]:
        """Triton's do_bench, which here runs the function once and gives NaN."""
        import triton.testing

        benchmarker: Callable[..., Any] = triton.testing.do_bench
        return benchmarker

    def get_empty_cache_for_benchmark(self) -> Any:
        """An empty buffer: there is no L2 cache to clear."""
        import torch

        return torch.empty(0, dtype=torch.int8)

    def clear_cache(self, cache: Any) -> None:
        """Do nothing: the driver keeps no cache."""

    def _event(self, enable_timing: bool = False, **rest: Any) -> Any:
        if enable_timing:
            raise InterpretError(untimed(self._target))
        return types.SimpleNamespace(record=lambda *args: None, synchronize=lambda: None, wait=lambda *args: None)


def untimed(target: Target) -> str:
    """Explain why there are no times, and what there is instead."""
    return (
        f"nothing can be timed on {target.name}, which is not attached: do_bench runs its function once and gives NaN; "
        "see kernels.table of the trace for estimates of the kernels that torch.compile generated"
    )


@contextmanager
def answered(target: Target, note: Note) -> Iterator[None]:
    """Answer the program's questions to triton's driver for the target inside the block; do_bench times nothing.

    `note` is told when something was to be timed. Without triton this does nothing.
    """
    try:
        import triton.testing
        from triton.runtime.driver import DriverConfig
    except ImportError:
        yield
        return
    import torch

    own, driver = vars(DriverConfig)["active"], ActiveDriver(target)

    def active(config: Any) -> Any:
        chosen = config._active
        if _THIS_MACHINES.get() or (chosen is not None and chosen is not config._default):
            return own.__get__(config, DriverConfig)
        return driver

    def do_bench(fn: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
        fn()
        if note("do_bench", untimed(target)):
            warnings.warn(f"explorer: {untimed(target)}", stacklevel=2)
        return _nothing(*args, **kwargs)

    with ExitStack() as stack:
        stack.enter_context(added(DriverConfig, "active", property(active)))
        for name in ("set_stream", "empty_cache"):  # the program's device is the CPU, whose module has streams, but not these
            if not hasattr(torch.cpu, name):
                stack.enter_context(added(torch.cpu, name, lambda *args: None))
        for name in ("do_bench", "do_bench_cudagraph"):
            if hasattr(triton.testing, name):
                stack.enter_context(added(triton.testing, name, do_bench))
        yield


def _nothing(*args: Any, quantiles: Any = None, return_mode: str = "mean", **kwargs: Any) -> Any:
    """NaN in the shape of do_bench's times."""
    if quantiles is not None:
        return [math.nan] * len(quantiles) if len(quantiles) > 1 else math.nan
    return [math.nan] if return_mode == "all" else math.nan


@contextmanager
def this_machines() -> Iterator[None]:
    """Restore the machine's own triton driver inside the block, for launches on the attached GPU."""
    before = _THIS_MACHINES.set(True)
    try:
        yield
    finally:
        _THIS_MACHINES.reset(before)
