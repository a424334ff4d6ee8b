"""Dynamo's graph for an absent GPU, and its copy that runs on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from explorer.capture.absent.helion_kernels import moved_results
from explorer.capture.observe.patch import guarded_always


def on_the_cpu(graph: Any) -> Any:
    """Copy Dynamo's graph and the graphs in it, which compiling changes in place; parameters and buffers are shared.

    A region that is compiled once for all its calls is called as it is: its operator has a backward only while compiling.
    What only a GPU's operator takes is given to the CPU's as it takes it, and memory that is pinned for a GPU is not pinned.
    """
    import torch

    copied = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for node in copied.graph.find_nodes(op="call_function", target=torch.ops.higher_order.invoke_subgraph):
        node.target = _called
    for node in copied.graph.nodes:
        if (node.op, node.target) in (("call_function", torch.histc), ("call_method", "histc")):
            node.op, node.target = "call_function", _histogram
        if node.op == "call_function" and str(node.target).startswith("streams."):
            node.target, node.args, node.kwargs = _nothing, (), {}
        if node.kwargs.get("pin_memory"):
            node.kwargs = {**node.kwargs, "pin_memory": False}
    copied.recompile()
    for name, child in copied.named_children():
        if isinstance(child, torch.fx.GraphModule):
            setattr(copied, name, on_the_cpu(child))
    return copied


def marking_dynamic(run: Callable[..., Any], outputs: Sequence[Any]) -> Callable[..., Any]:
    """Mark dynamic sizes of a graph's results, as the code that AOTAutograd compiles does.

    Dynamo then takes them for dynamic in the graph after a break. Without the marks it specializes on them, and what the
    program marked by `mark_dynamic` and computes with them is a ConstraintViolationError.
    """
    import torch
    from torch.fx.experimental.symbolic_shapes import is_concrete_int

    mark = _mark()
    dynamic = [
        {n for n, size in enumerate(output.shape) if not is_concrete_int(size)} if isinstance(output, torch.Tensor) else set()
        for output in outputs
    ]
    if not any(dynamic):
        return run

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def marked(*args: Any) -> Any:
            results = original(*args)
            for result, sizes in zip(results, dynamic, strict=False):
                if sizes and isinstance(result, torch.Tensor):
                    mark(result, sizes)
            return results

        return marked

    return guarded_always(run, make, "dynamic sizes of the outputs")


def outputs_of(graph: Any) -> list[Any]:
    """List the fake results of Dynamo's graph, None for one that has none; [] for a graph that gives no tuple."""
    (output,) = graph.graph.find_nodes(op="output")
    results = output.args[0] if isinstance(output.args[0], (list, tuple)) else ()
    return [getattr(result, "meta", {}).get("example_value") for result in results]


def _mark() -> Callable[[Any, set[int]], None]:
    """Return torch's own function that marks sizes of a result; an earlier torch has none, and its compiled code does this."""
    from torch._functorch._aot_autograd import runtime_wrappers

    def mark(tensor: Any, sizes: set[int]) -> None:
        tensor._dynamo_weak_dynamic_indices = getattr(tensor, "_dynamo_weak_dynamic_indices", set()) | sizes

    return getattr(runtime_wrappers, "mark_dynamo_propagated_dynamic_indices", mark)


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


def to_gpu(graph: Any, device: str) -> None:
    """Replace the CPU by the GPU ("cuda" or "xpu", number 0) as a device of Dynamo's graph and the graphs in it.

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
            moved_results(node, str(gpu))
        module.recompile()
