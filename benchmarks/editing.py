"""What a spliced kernel costs, and what configs cost, on the attached GPU, or for the CPU without one.

    python benchmarks/editing.py [cpu|cuda]

It prints, for softmax, layer norm and a matrix product: a call of the compiled function with its own kernel spliced in over a
call without, which should be 1 within the noise; and a launch with a bad config over a launch with Inductor's choice.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F

import explorer
from explorer.lab.live.protocol import live_of

#: Rounds of calls without and with the spliced kernel, and the calls of each.
ROUNDS, CALLS = 15, 100


def softmax(x: torch.Tensor) -> torch.Tensor:
    """A persistent reduction."""
    return torch.softmax(x * 2, -1)


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    """A reduction with a loop."""
    return F.layer_norm(x, x.shape[-1:]).relu()


def matmul(x: torch.Tensor) -> torch.Tensor:
    """A matrix product, and what follows it."""
    return F.gelu(x @ x.t())


def seconds(compiled: Callable[..., object], x: torch.Tensor) -> float:
    """The seconds of one call."""
    _synchronize(x)
    began = time.perf_counter()
    compiled(x)
    _synchronize(x)
    return time.perf_counter() - began


def _synchronize(x: torch.Tensor) -> None:
    if x.is_cuda:
        torch.cuda.synchronize()


def spliced_over_plain(kernel: explorer.Kernel, x: torch.Tensor) -> list[float]:
    """The median call with the kernel's own source spliced in over that without, for each round of calls in turn."""
    live = live_of(kernel._trace)
    space = vars(live.wrappers[0].module)
    plain = space[kernel.name]
    kernel.edit(kernel.source, check=False)
    spliced = space[kernel.name]
    ratios = []
    with torch.no_grad():
        for _ in range(ROUNDS):
            times: dict[bool, list[float]] = {True: [], False: []}
            for number in range(2 * CALLS):
                space[kernel.name] = spliced if number % 2 else plain
                times[bool(number % 2)].append(seconds(live.compiled, x))
            ratios.append(statistics.median(times[True]) / statistics.median(times[False]))
    space[kernel.name] = spliced
    kernel.edits.reset()
    return sorted(ratios)


def main(device: str) -> None:
    """Print a line for each program."""
    warnings.simplefilter("ignore")
    for program, shape in ((softmax, (4096, 1000)), (layer_norm, (4096, 4096)), (matmul, (2048, 512))):
        x = torch.randn(shape, device=device)
        kernel = explorer.trace(program, x).kernels[0]
        ratios = spliced_over_plain(kernel, x)
        middle = statistics.median(ratios)
        print(f"{program.__name__}: spliced / plain {middle:.4f} (from {ratios[0]:.4f} to {ratios[-1]:.4f})", flush=True)
        if device == "cuda":
            variant = kernel.edit(kernel.source, config={"num_warps": 1})
            print(f"  {variant}", flush=True)
            kernel.edits.reset()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu")
