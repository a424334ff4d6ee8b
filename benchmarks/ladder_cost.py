"""Measure a trace for an absent GPU, every kernel down to machine code, beside torch.compile for the CPU.

    python benchmarks/ladder_cost.py                         GPT-2 of 12 layers, inference and training, for an H100
    python benchmarks/ladder_cost.py --targets h100 mi300x --rounds 5
    python benchmarks/ladder_cost.py --cold                  plain torch.compile makes its C++ header too

Each measurement runs in a process of its own with fresh caches; plain and traced take turns. Timed, with everything
imported and the model built, is the first call of `torch.compile(model)` to its result, and `explorer.trace(model, …)`
from the call to the Trace with TTIR, TTGIR, LLIR, PTX or AMDGCN, and cubin or hsaco of every kernel. SASS is made only when
it is asked for. Warm for both, as after the first time on a machine, are the C++ header that Inductor precompiles (17 to
35 s; unless --cold) and explorer's own helper (5 s). Ratios of processor seconds hardly change with other programs' load.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import compile_cost as cost

PLAIN = "plain"


# In the child -----------------------------------------------------------------------------------------------------


def measured(what: str, name: str, train: bool) -> cost.Result:
    """Measure one compile in seconds, by the clock and of the processor: `what` is PLAIN, or the target of a trace."""
    cost.import_tool("plain" if what == PLAIN else "explorer")
    function, args = cost.built(name, "cpu", train)
    began, worked = time.perf_counter(), cost.cpu_seconds()
    trace = compiled(what, function, args, train)
    result = {"seconds": time.perf_counter() - began, "cpu": cost.cpu_seconds() - worked}
    return result if trace is None else {**result, **facts(trace, result["seconds"])}


def compiled(what: str, function: Any, args: tuple[Any, ...], train: bool) -> Any:
    """Do what is timed; return the Trace, or None for plain torch.compile."""
    import torch

    import explorer

    if what == PLAIN:
        return cost.run_step(torch.compile(function), args, train)
    return explorer.trace(function, *args, target=what, train=train)


def facts(trace: Any, seconds: float) -> cost.Result:
    """How many kernels, how many of them different, what failed, and where the seconds went."""
    from explorer.lab.live.protocol import live_of

    lowered = {id(ladder.lowered): ladder for ladder in live_of(trace).ladders.by_source.values()}
    missing = [kernel.name for kernel in trace.kernels if not kernel.resources]
    return {
        "kernels": len(trace.kernels),
        "compiled": len(lowered),
        "failures": [str(f) for f in trace.failures if f.fatal] + [f"{name} has no machine code" for name in missing],
        "steps": steps(trace, seconds, sum(sum(ladder.seconds.values()) for ladder in lowered.values())),
    }


def steps(trace: Any, seconds: float, ladders: float) -> dict[str, float]:
    """Seconds of each step: the compiler's by its own clock, each without the steps inside it."""

    def phase(name: str) -> float:
        return sum(row["seconds"] or 0.0 for row in trace.compiler.phases if row["name"] == name)

    dynamo, whole, inductor = phase("bytecode_tracing"), phase("create_aot_dispatcher_function"), phase("inductor_compile")
    return {
        "Dynamo": dynamo,
        "AOTAutograd": whole - inductor,
        "Inductor": inductor,
        "the rest: guards, the call itself, waiting for kernels, links": seconds - dynamo - whole,
        "in all of these, recording": trace.meta["cost"],
        "beside these, in worker processes: triton's passes, LLVM, ptxas": ladders,
    }


# In the parent ----------------------------------------------------------------------------------------------------


def measure(options: argparse.Namespace, caches: cost.Caches) -> list[cost.Result]:
    """Measure every (mode, round, plain or target); each round begins with another one."""
    results, whats = [], [PLAIN, *options.targets]
    for mode in options.modes:
        for number in range(options.rounds):
            turn = number % len(whats)
            for what in (*whats[turn:], *whats[:turn]):
                key = {"what": what, "workload": options.workload, "mode": mode}
                with caches.fresh() as (_, variables):
                    found = cost.start(key, variables, __file__)
                print(f"  {mode} {what} {found.get('seconds', found.get('error'))}", file=sys.stderr)
                results.append({**key, **found})
    return results


def table(results: Sequence[cost.Result], modes: Sequence[str], whats: Sequence[str]) -> str:
    """Medians and minima of plain and of each target, with their ratios to plain."""
    head = ("mode", "what", "seconds", "ratio", "least", "ratio", "CPU s, least", "ratio", "kernels", "compiled")
    return cost.table(head, [row(results, mode, what) for mode in modes for what in whats])


def row(results: Sequence[cost.Result], mode: str, what: str) -> tuple[str, ...]:
    """One row: the numbers of `what` beside those of plain torch.compile in the same mode."""

    def values(name: str, field: str) -> list[float]:
        return [r[field] for r in results if r["what"] == name and r["mode"] == mode and field in r]

    cells = [mode, "torch.compile, CPU" if what == PLAIN else f"trace for {what}"]
    for pick, field in ((statistics.median, "seconds"), (min, "seconds"), (min, "cpu")):
        own, base = (pick(found) if (found := values(name, field)) else None for name in (what, PLAIN))
        cells += [cost.cell(own), cost.ratio(own, base)]
    counts = (values(what, field) for field in ("kernels", "compiled"))
    return (*cells, *(str(max(found)) if found else "–" for found in counts))


def where(results: Sequence[cost.Result]) -> str:
    """Where the seconds of the quickest trace of each mode and target went."""
    best: dict[tuple[str, str], cost.Result] = {}
    for result in sorted((r for r in results if "steps" in r), key=lambda r: r["seconds"]):
        best.setdefault((result["mode"], result["what"]), result)
    rows = [(mode, what, step, cost.cell(s)) for (mode, what), r in best.items() for step, s in r["steps"].items()]
    return cost.table(("mode", "target", "step", "seconds"), rows)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--workload", type=cost.workload, default="gpt2-12", help="one of compile_cost.py's (default gpt2-12)")
    add("--targets", nargs="+", default=["h100"], metavar="NAME", help="of explorer.targets() (default h100)")
    add("--modes", nargs="+", choices=("inference", "training"), default=["inference", "training"])
    add("--rounds", type=int, default=3, help="how often each is measured (default 3)")
    add("--cold", dest="warm_headers", action="store_false", help="every cache from nothing, the C++ header too")
    add("--cache", metavar="DIR", help="share one cache among all runs: to try the script, not to measure")
    add("--json", type=Path, metavar="FILE", help="write every single measurement there")
    add("--child", type=json.loads, help=argparse.SUPPRESS)
    parser.set_defaults(device="cpu", graph_caches=True)
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a measurement failed or a kernel has no machine code."""
    options = parse(arguments)
    if options.child:
        asked = options.child
        print(json.dumps(measured(asked["what"], asked["workload"], asked["mode"] == "training")))
        return 0
    with tempfile.TemporaryDirectory(prefix="ladder-cost-", ignore_cleanup_errors=True) as root:
        results = measure(options, cost.Caches(options, Path(root)))
    caches = (
        "SHARED, so the seconds say nothing"
        if options.cache
        else f"fresh, C++ header {'warm' if options.warm_headers else 'cold'}"
    )
    print(f"{cost.machine()}\n{options.workload}, caches {caches}, rounds {options.rounds}\n")
    print(f"{table(results, options.modes, [PLAIN, *options.targets])}\n\n{where(results)}")
    failed = [(r, why) for r in results for why in [*([r["error"]] if "error" in r else []), *r.get("failures", ())]]
    for result, why in failed:
        print(f"failed: {result['mode']} {result['what']}: {why}")
    if options.json:
        options.json.write_text(json.dumps({"machine": cost.machine(), "results": results}, indent=1), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
