"""AOTAutograd's graphs as another compiler is handed them, and what it makes of one as AOTAutograd calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any


def backend_of(compile_graph: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return a backend for torch.compile that compiles each AOTAutograd graph with `compile_graph(gm, inputs, graph=…)`.

    Without AOTAutograd a change of an input would be lost. `options` are AOTAutograd's own, such as `decompositions`.
    """
    from torch._dynamo.backends.common import aot_autograd

    backend: Callable[..., Any] = aot_autograd(
        fw_compiler=partial(compile_graph, graph="forward"),
        bw_compiler=partial(compile_graph, graph="backward"),
        inference_compiler=partial(compile_graph, graph="inference"),
        **options,
    )
    return backend


def backward_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return core ATen's decompositions of backward operators, and of the losses that count their targets for one.

    Engines that are made for inference lack many of these operators, or compute them wrongly: IREE `leaky_relu_backward`, and
    ONNX's exporter the `total_weight` of `nll_loss_forward`, by which the gradient of a mean is divided.
    """
    from torch._decomp import core_aten_decompositions, decomposition_table

    core = [op for op in core_aten_decompositions() if op in decomposition_table]  # the others PyTorch decomposes for all
    losses = ("nll_loss_forward", "nll_loss2d_forward")
    return {op: decomposition_table[op] for op in core if "_backward" in op.__name__ or op.__name__.startswith(losses)}


def boxed(call: Callable[[Sequence[Any]], tuple[Any, ...]]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return a boxed function: it takes its inputs as AOTAutograd's list and empties the list, so that they can be freed."""

    def run(given: list[Any]) -> tuple[Any, ...]:
        inputs = list(given)
        given.clear()
        return call(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
