"""Dynamo's graph for an absent GPU, and its copy that runs on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any


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
        module.recompile()
