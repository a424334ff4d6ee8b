"""Run Triton's own tutorials for an absent GPU, unchanged, and print what of each was recorded.

    python benchmarks/tutorials.py FOLDER [--target h100] [--only 06] [--seconds 60]

FOLDER has the scripts of triton's python/tutorials, of the release that is installed; they are not part of this project.
Each runs in a process of its own inside `explorer.record(TARGET)`. A row says how it ended, how many of the kernels that it
launched have every stage down to machine code, and what was lost.

Three things are shortened, since an interpreter would take hours, and said in the row. Of a benchmark over many sizes only the
first runs (`triton.testing.perf_report`). A launch that is estimated to take longer than --seconds is recorded, not run: then
nothing is claimed of its results. A tutorial that profiles thousands of launches by triton's proton ends where that starts.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any

#: The last stage of each vendor's kernels.
LAST = {"cuda": "sass", "hip": "amdgcn"}


class Cut(BaseException):
    """Ends a tutorial before a part that is not run here."""


def main() -> int:
    """Run every tutorial of the folder; 0 where each came to its end with all of its kernels."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--target", default="h100")
    arguments.add_argument("--only", default="")
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.one:
        print(json.dumps(run(given.folder, given.target, given.seconds)))
        return 0
    rows = [asked(file, given) for file in sorted(given.folder.glob("[0-9]*.py")) if file.name.startswith(given.only)]
    good = sum(row["good"] for row in rows)
    print(f"\n{good} of {len(rows)} tutorials ran for {given.target} with every kernel down to machine code")
    return 0 if good == len(rows) else 1


def asked(file: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Run one tutorial in a process of its own; print and return its row."""
    command = [sys.executable, __file__, str(file), "--target", given.target, "--seconds", str(given.seconds), "--one"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "MPLBACKEND": "Agg"})
    last = done.stdout.strip().splitlines()[-1:] or [""]
    row: dict[str, Any] = (
        json.loads(last[0]) if last[0].startswith("{") else {"ended": done.stderr[-500:], "kernels": 0, "whole": 0}
    )
    row["good"] = row["ended"] in ("", "cut") and row["kernels"] == row["whole"]
    seconds = time.perf_counter() - began
    print(f"{file.name:40} {row['whole']}/{row['kernels']} kernels, {row.get('launches', 0)} launches, {seconds:.0f} s", end="")
    print(f": {row['ended']}" if row["ended"] not in ("", "cut") else "")
    for line in (*row.get("cuts", ()), *row.get("failures", ())):
        print(f"    {line}")
    sys.stdout.flush()
    return row


def run(file: Path, target: str, seconds: float) -> dict[str, Any]:
    """Run one tutorial here, and count what was recorded."""
    import explorer

    cuts: dict[str, int] = {}
    sys.argv[:] = [str(file)]
    sys.path.insert(0, str(file.parent))
    shortened(cuts, seconds)
    ended = ""
    with warnings.catch_warnings(), explorer.record(target) as recording:
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(str(file), run_name="__main__")
        except Cut:
            ended = "cut"
        except BaseException as error:  # noqa: BLE001 how a tutorial ends is what is asked
            ended = f"{type(error).__name__}: {error}"[:600] if not isinstance(error, SystemExit) else ""
    return {"ended": ended, "cuts": [f"{cut}: {n} times" for cut, n in cuts.items()], **counted(recording.trace)}


def counted(trace: Any) -> dict[str, Any]:
    """The kernels of a trace, those with every stage, how often they were launched, and what was lost."""
    whole = [k for k in trace.kernels if set(k.stages) & set(LAST.values())]
    launches = sum(row.get("times", 1) for k in trace.kernels for row in k.launches)
    failures = [str(f)[:300] for f in trace.failures if f.step != "do_bench"]
    return {"kernels": len(trace.kernels), "whole": len(whole), "launches": launches, "failures": failures}


def shortened(cuts: dict[str, int], seconds: float) -> None:
    """Shorten what would take hours, for the rest of this process; `cuts` counts each cut."""
    import triton.testing

    from explorer.capture.absent import user_kernels
    from explorer.capture.interpret import estimate
    from explorer.errors import InputError

    def count(what: str) -> None:
        cuts[what] = cuts.get(what, 0) + 1

    def first(
        self: Any, *args: Any, save_path: str = "", show_plots: bool = False, print_data: bool = False, **kwargs: Any
    ) -> None:
        benchmarks = self.benchmarks if isinstance(self.benchmarks, list) else [self.benchmarks]
        for bench in benchmarks:
            x = bench.x_vals[0]
            sizes = dict(zip(bench.x_names, x if isinstance(x, (tuple, list)) else [x] * len(bench.x_names), strict=True))
            for line in bench.line_vals:
                self.fn(**sizes, **{bench.line_arg: line}, **bench.args, **kwargs)
            count(f"{bench.plot_name}: only {sizes}")

    interpret = user_kernels.interpret

    def sometimes(kernel: Any, args: Any, constants: Any, grid: Any) -> None:
        try:
            expected = estimate.estimate_call(kernel, args, constants, grid)
        except InputError:
            expected = estimate.Estimate()
        if expected.seconds(user_kernels.SLOW) > seconds and expected.seconds(estimate.speed()) > seconds:
            count(f"{user_kernels.function_name(kernel)} recorded, not run")
            return
        interpret(kernel, args, constants, grid)

    triton.testing.Mark.run = first
    user_kernels.interpret = sometimes
    try:
        import triton.profiler as proton
    except ImportError:
        proton = sys.modules["triton.profiler"] = types.ModuleType("triton.profiler")

    def start(*args: Any, **kwargs: Any) -> None:
        count("profiling by proton not begun")
        raise Cut

    proton.start = start


if __name__ == "__main__":
    sys.exit(main())
