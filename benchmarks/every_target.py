"""Check that every kernel of every model has every stage, for absent GPUs: a table.

    python benchmarks/every_target.py                                       the models of fidelity.py, for four GPUs
    python benchmarks/every_target.py --targets t4 mi355x --workloads mlp --no-sass

A cell says how many of the kernels have each stage down to machine code: Triton source, TTIR, TTGIR, LLIR, then PTX, cubin
and SASS on an NVIDIA GPU, AMDGCN and hsaco on an AMD one. Exit status 1 where one stage of one kernel is missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fidelity
from compile_cost import machine, table

WORKLOADS = ("elementwise", "mlp", "attention", "gpt2", "bert", "vit", "llama", "resnet")
STAGES = {"nvidia": ("kernel", "ttir", "ttgir", "llir", "ptx", "sass"), "amd": ("kernel", "ttir", "ttgir", "llir", "amdgcn")}


def traced(make: Any, dtype: str, target: str, train: bool, sass: bool) -> tuple[str, str]:
    """Make the cell of one trace, and say which stages are missing: "" where none is."""
    import torch

    import explorer

    function, args, kwargs = make(getattr(torch, dtype))
    try:
        trace = explorer.trace(function, *args, kwargs=kwargs, target=target, train=train)
    except Exception as error:  # noqa: BLE001 one workload's error is its cell
        return "failed", f"{type(error).__name__}: {error}"[:300]
    stages = STAGES[explorer.Target.parse(target).vendor]
    missing = [f"{k.name}: {stage}" for k in trace.kernels for stage in lacking(k, stages if sass else stages[:5])]
    missing += [str(f)[:300] for f in trace.failures if f.fatal or f.stage == "kernel"]
    whole = len(trace.kernels) - len({text.partition(":")[0] for text in missing})
    return f"{whole} of {len(trace.kernels)}", "; ".join(missing)


def lacking(kernel: Any, stages: Sequence[str]) -> list[str]:
    """List the stages that a kernel has no text of, and "binary" where it has none."""
    import explorer

    found = []
    for stage in stages:
        try:
            if not kernel.text(stage).strip():
                found.append(stage)
        except explorer.ExplorerError:
            found.append(stage)
    try:
        return found if kernel.binary()[:4] == b"\x7fELF" else [*found, "binary"]
    except explorer.ExplorerError:
        return [*found, "binary"]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=["h100", "a100", "b200", "mi300x"], metavar="NAME")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=WORKLOADS, metavar="NAME")
    parser.add_argument("--dtypes", nargs="+", default=["float32"], choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--no-sass", dest="sass", action="store_false", help="leave out the disassembly, 0.3 s a kernel")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Trace everything and print the table; 1 where something is missing."""
    options = parse(arguments)
    began, rows, missing = time.perf_counter(), [], []
    makers = fidelity.workloads("cpu")
    for name in options.workloads:
        for dtype in options.dtypes:
            for train in (False, True):
                row = [name, dtype, "training" if train else "inference"]
                for target in options.targets:
                    cell, why = traced(makers[name], dtype, target, train, options.sass)
                    row.append(cell)
                    missing += [f"{' '.join(row[:3])} {target}: {why}"] if why else []
                print(*row, file=sys.stderr, flush=True)
                rows.append(row)
    print(f"{machine()}\n\n{table(('workload', 'dtype', 'mode', *options.targets), rows)}")
    print(f"\n{len(rows) * len(options.targets)} traces in {time.perf_counter() - began:.0f} s")
    print("\n".join(f"missing: {line}" for line in missing) or "nothing is missing")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
