"""Report when a graph runs on the CPU in place of the code for an absent GPU, and when its backward begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from explorer.capture.observe.eager_collectives import Running
from explorer.capture.observe.patch import guarded_always


def reporting_runs(run: Callable[..., Any], frame: str, number: int) -> Callable[..., Any]:
    """Report each run of a graph, the `number`-th of its frame, to the recordings; `run` itself without process groups.

    Eager mode has no call for the backward of a graph. So a hook stands before the first node of autograd that the graph made.
    """
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return run

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def reported(*args: Any) -> Any:
            from torch import is_grad_enabled

            trains = is_grad_enabled() and any(tensor.requires_grad for tensor in _tensors(args))
            Running.began(frame, "forward" if trains else "inference", number)
            results = original(*args)
            _report_backward(args, results, frame, number)
            return results

        return reported

    return guarded_always(run, make, "runs of graphs")


def _report_backward(args: Any, results: Any, frame: str, number: int) -> None:
    """Report the backward once, when the first of the results that the graph computed gets its gradient."""
    given = {tensor.grad_fn for tensor in _tensors(args)}
    made = {tensor.grad_fn for tensor in _tensors(results)} - given - {None}
    reported: list[bool] = []

    def begins(gradients: Any) -> None:
        if not reported:
            reported.append(True)
            Running.began(frame, "backward", number)

    for node in made:
        node.register_prehook(begins)


def _tensors(values: Any) -> Iterator[Any]:
    import torch

    return (value for value in values if isinstance(value, torch.Tensor))
