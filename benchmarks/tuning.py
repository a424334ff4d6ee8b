"""A tuned config beside Inductor's choice and beside a bad one, on the attached GPU.

    python benchmarks/tuning.py

It prints, for softmax, layer norm and a matrix product, the time of a launch with the best config that `k.tune()` finds over that
with Inductor's, and the slowest of those it tried. Below 1 the tuned one is faster.
"""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F

import explorer


def main() -> None:
    """Print a line for each program."""
    warnings.simplefilter("ignore")
    x = torch.randn(8192, 1024, device="cuda")
    half = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    templates = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
    traces = {
        "softmax": explorer.trace(lambda a: torch.softmax(a, -1), x),
        "layer norm": explorer.trace(lambda a: F.layer_norm(a, a.shape[-1:]), x),
        "matmul": explorer.trace(lambda a: F.relu(a @ a), half, options=templates),
    }
    for name, trace in traces.items():
        if not trace.kernels:
            print(f"{name}: Inductor called a library")
            continue
        kernel = trace.kernels[-1]
        tuning = kernel.tune()
        timed = [row for row in tuning._rows if row["ratio"] is not None]
        print(f"{name}: best {timed[0]['ratio']:.3f} of Inductor's choice, slowest {timed[-1]['ratio']:.2f} ({len(timed)} timed)")
        print(f"  {tuning}")
        for row in tuning._rows:
            if row["error"]:
                print(f"  {row['config']}: {row['error'][:160]}")
        print(f"  {kernel.edit(kernel.source, config=tuning.best)}", flush=True)


if __name__ == "__main__":
    main()
