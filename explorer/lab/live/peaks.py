"""Measure what the attached GPU, or this CPU, attains: bytes a second of a copy, operations a second of matrix products."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from explorer.analysis.timing.roofline import Peak
from explorer.process.under_way import step

#: Bytes of each buffer that is copied, and the sides of the products, on a GPU and on the CPU.
COPIED, SIDES, REPEATS = {"cuda": 1 << 29, "cpu": 1 << 26}, {"cuda": 8192, "cpu": 1024}, 11
#: The dtypes whose products are timed.
DTYPES = {"cuda": ("float16", "bfloat16", "float32"), "cpu": ("float32", "float64", "bfloat16")}


def attained_peaks(device: str) -> list[Peak]:
    """Measure the peaks of "cuda" or "cpu" (about 2 s); random numbers are left as they are."""
    return list(_peaks(device))


def device_title(device: str) -> str:
    """The name of the attached GPU, or of this CPU with the number of threads that torch uses."""
    import torch

    if device == "cuda":
        return str(torch.cuda.get_device_name())
    return f"this CPU, {torch.get_num_threads()} threads"


def _peaks(device: str) -> Iterator[Peak]:
    import torch

    step("measuring the memory's bandwidth")
    yield _memory(device)
    side = SIDES[device]
    random = torch.Generator(device).manual_seed(0)  # a GPU's clock is higher for zeros than for numbers
    for name in DTYPES[device]:
        step(f"measuring products of {name}")
        dtype = getattr(torch, name)
        a, b = (torch.randn(side, side, device=device, generator=random).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        multiply = _product(a, b, out)
        yield Peak(name, 2 * side**3 / _seconds(multiply, device), f"a product of {side} × {side} with {side} × {side}")


def _memory(device: str) -> Peak:
    import torch

    source = torch.ones(COPIED[device] // 4, dtype=torch.float32, device=device)
    into = torch.empty_like(source)
    seconds = _seconds(partial(into.copy_, source), device)
    return Peak("memory", 2 * source.nbytes / seconds, f"a copy of {source.nbytes >> 20} MiB, read and written")


def _product(a: Any, b: Any, out: Any) -> Callable[[], object]:
    import torch

    return partial(torch.mm, a, b, out=out)


def _seconds(call: Callable[[], object], device: str) -> float:
    """The fewest seconds of a call, after one that is not timed: whatever else the machine does only takes from a peak."""
    call()
    if device == "cpu":
        return min(_by_clock(call) for _ in range(REPEATS))
    import torch

    torch.cuda.synchronize()
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(REPEATS)]
    for begin, end in pairs:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return min(float(begin.elapsed_time(end)) / 1000 for begin, end in pairs)


def _by_clock(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
