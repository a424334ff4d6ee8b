"""Place each kernel and library call of GPT-2 below the roof, and compare the sum of their times with the profiler's.

    python benchmarks/roofline.py cuda              # where a GPU is attached
    python benchmarks/roofline.py cpu --layers 1 --tokens 64

A profile of some runs is read in with `t.attach`. The last line has the sum over the rows of the roofline, that of all device
events of the profiler (on the CPU: the events of the kernels and calls themselves), and their ratio.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import torch

import explorer
from explorer.lab.live.protocol import needs_live

RUNS = 5


def model_of(layers: int, device: str) -> torch.nn.Module:
    """GPT-2 with random weights, in 16 bits on a GPU."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=layers, use_cache=False)).eval()
    return model.cuda().half() if device == "cuda" else model  # type: ignore[no-any-return]


def profiled(trace: Any, tokens: torch.Tensor) -> Any:
    """A profile of some runs of what was compiled, after one that warms up."""
    compiled = needs_live(trace, "profiling").compiled
    with torch.no_grad():
        compiled(tokens)
        with torch.profiler.profile() as profiler:
            for _ in range(RUNS):
                compiled(tokens)
            if tokens.is_cuda:
                torch.cuda.synchronize()
    return profiler


def seconds_of(profiler: Any, device: str) -> float:
    """The seconds of all events of the profiler on the device; on the CPU each event's own."""
    averages = profiler.key_averages()
    if device == "cuda":
        events = [e for e in averages if e.device_type == torch.autograd.DeviceType.CUDA and not e.is_user_annotation]
        return sum(float(event.self_device_time_total) for event in events) / 1e6
    return sum(float(event.self_cpu_time_total) for event in averages) / 1e6


def main() -> None:
    """Print a row for each kernel and call, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", choices=("cpu", "cuda"))
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=256)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model = model_of(options.layers, options.device)
    tokens = torch.randint(0, 50257, (4, options.tokens), device=options.device)
    kernels = {"cpp.enable_kernel_profile": True} if options.device == "cpu" else {}
    trace = explorer.trace(model, tokens, target=options.device, options=kernels)
    profiler = profiled(trace, tokens)
    line = trace.attach(profiler).profile.roofline()
    rows = line.table()
    for row in rows:
        share = f"{row['share']:.0%} of the roof" if row["share"] is not None else "not placed"
        print(f"{(row['seconds'] or 0) * 1e6:10.1f} us  {row['timed'] or 'not timed':10} {share:18} {row['kernel']}")
    timed = [row for row in rows if row["timed"] == "measured"]
    total, all_events = sum(row["seconds"] for row in timed), seconds_of(profiler, options.device) / RUNS
    placed = sum(row["share"] is not None for row in rows)
    print(f"{line.device}: {len(rows)} rows, {len(timed)} measured, {placed} below the roof")
    print(f"sum {total * 1e3:.3f} ms a run, the profiler's {all_events * 1e3:.3f} ms, ratio {total / all_events:.3f}")


if __name__ == "__main__":
    main()
