"""Compile Helion's kernels for an absent GPU.

Helion's operator in Dynamo's graph names the device of its results, which is the CPU's where the program runs there. While
Inductor lowers it Helion makes example tensors on the GPU, and where the program gives no config it measures candidates there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from explorer.capture.observe.patch import replaced

if TYPE_CHECKING:
    from explorer.capture.absent.measured import Assume

#: How the names of Helion's operators begin in a graph.
OPERATOR = "helion_kernel_wrapper"
#: What Helion compares to tell whether a kernel is lowered as Dynamo saw it, which was on the CPU.
_FINGERPRINT = "_host_semantic_fingerprint"
#: Whether Helion lowers the kernel apart from the program's own calls, and keeps nothing of it for them.
_ISOLATED = "_requires_isolated_lowering"
WHY = "Helion measures configs on the GPU, which is not attached; config= in @helion.kernel gives another one"


def moved_results(node: Any, device: str) -> None:
    """Have a node of Helion's operator state that its results are on the GPU; another node stays as it is."""
    if not str(node.target).startswith(OPERATOR):
        return
    stated = node.kwargs["output_spec"]
    leaves = [{**leaf, "device": device} if leaf.get("device") == "cpu" else leaf for leaf in stated["leaf_specs"]]
    moved = {name: value for name, value in stated.items() if name != _FINGERPRINT}
    node.kwargs = {**node.kwargs, "output_spec": {**moved, "leaf_specs": leaves, _ISOLATED: True}}


@contextmanager
def examples_without_data() -> Iterator[None]:
    """Inside the block Helion's example tensors on the GPU are fake ones of Inductor's."""
    lowering = sys.modules.get("helion._compiler._inductor.template_buffer")
    if lowering is None:
        yield
        return

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def rand_strided(size: Any, stride: Any, *, dtype: Any, device: Any, extra_size: int = 0) -> Any:
            import torch
            from torch._inductor.virtualized import V

            elements = sum((extent - 1) * step for extent, step in zip(size, stride, strict=True)) + 1 + extra_size
            with V.fake_mode:
                return torch.empty(max(0, elements), dtype=dtype, device=device).as_strided(size, stride)

        return rand_strided

    with replaced(lowering, "rand_strided", make):
        yield


@contextmanager
def without_measuring(assume: Assume) -> Iterator[None]:
    """Inside the block Helion measures nothing: without a config it takes the first of those given, or its default.

    A persistent kernel, which is launched once for each multiprocessor, is launched once on the CPU.
    Afterwards the program's kernels have no config that they had not before.
    """
    runtime = sys.modules.get("helion.runtime.kernel")
    if runtime is None:
        yield
        return
    bound_here: list[Any] = []

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def user_provided_config(bound: Any) -> Any:
            if (given := original(bound)) is not None:
                return given
            configs = bound.kernel.configs
            bound_here.append(bound)
            if bound.env.device.type != "cpu":
                taken = "the first of its configs" if configs else "Helion's default config"
                assume(f"{bound.kernel.name}, a Helion kernel", taken, WHY)
            return configs[0] if configs else bound.config_spec.default_config()

        return user_provided_config

    def make_count(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_num_sm(device: Any, *, reserved_sms: int = 0) -> int:
            return 1 if device.type == "cpu" else int(original(device, reserved_sms=reserved_sms))

        return get_num_sm

    with ExitStack() as stack:
        stack.callback(lambda: _forget_configs(bound_here))
        stack.enter_context(replaced(sys.modules["helion.runtime"], "get_num_sm", make_count))
        stack.enter_context(replaced(runtime.BoundKernel, "_user_provided_config", make))
        yield


def _forget_configs(kernels: list[Any]) -> None:
    """Leave kernels as without a config: the program's next call measures."""
    for bound in kernels:
        for name in ("_config", "_run"):
            if getattr(bound, name, None) is not None:
                setattr(bound, name, None)
