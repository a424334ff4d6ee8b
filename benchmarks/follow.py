"""How fast `Trace.follow` answers: the lines of every text of a trace, SASS included, each asked once.

    python benchmarks/follow.py                         GPT-2 of 12 layers, training, for an H100 (a GPU you don't have)
    python benchmarks/follow.py --workload attention --mode inference --target cpu
    python benchmarks/follow.py --save FILE             also save the trace, which takes most of the time to make
    python benchmarks/follow.py --trace FILE            a saved trace instead
    python benchmarks/follow.py --trace FILE --within 60

With --within the lines are asked in an order that is random and always the same, those of the user's source first, until the
seconds are over; the table then says how many of them were asked.

Timed is the call alone, in this process, by processor time: of a busy machine a clock would count what others do as well.
The first call of a trace also sorts its links by place, once; that has a row of its own. Python's collector of cycles is told
to leave alone what the compile and the sorting left behind (gc.freeze): one walk over it takes 0.4 s, in whatever function the
collector happens to run. Nothing is asserted: the table is to be read. Making the default trace takes longer than all of its
answers.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import compile_cost as cost

MILLI = 1000.0


def made(options: argparse.Namespace) -> tuple[Any, float | None]:
    """The trace, and how long it took to make where it was made here."""
    import explorer

    if options.trace:
        return explorer.load(options.trace), None
    function, args = cost.built(options.workload, "cpu", options.mode == "training")
    began = time.perf_counter()
    trace = explorer.trace(function, *args, target=options.target, train=options.mode == "training")
    trace = trace.attach("sass") if trace.find("ptx") else trace
    if options.save:
        trace.save(options.save)
    return trace, time.perf_counter() - began


def timed(call: Any, *args: Any) -> tuple[float, Any]:
    """Milliseconds of processor time of one call, and what it returned."""
    began = time.process_time()
    found = call(*args)
    return (time.process_time() - began) * MILLI, found


def order(trace: Any) -> list[tuple[Any, int]]:
    """Every line of every text: those of the user's source first, then the others at random, always in the same order."""
    lines = [(artifact, line) for artifact in trace.artifacts for line in range(1, len(artifact.lines) + 1)]
    random.Random(0).shuffle(lines)
    return sorted(lines, key=lambda place: place[0].stage != "source")


def rows(trace: Any, within: float) -> list[tuple[str, ...]]:
    """A row a stage, one for the sorting of the links, one for all; lines are asked until the seconds are over."""
    from explorer.analysis.questions.link_index import index

    gc.collect()
    gc.freeze()
    sorting, _ = timed(lambda: index(trace))
    gc.freeze()
    stages: dict[str, list[float]] = {}
    most: dict[str, int] = {}
    places = order(trace)
    end = time.monotonic() + within
    for artifact, line in places:
        if time.monotonic() > end:
            break
        took, found = timed(trace.follow, artifact.id, line)
        stages.setdefault(artifact.stage, []).append(took)
        most[artifact.stage] = max(most.get(artifact.stage, 0), len(found))
    every = [took for times in stages.values() for took in times]
    of = Counter(artifact.stage for artifact, _ in places)
    in_order = [stage for stage in dict.fromkeys(artifact.stage for artifact in trace.artifacts) if stage in stages]
    body = [row(stage, stages[stage], of[stage], most[stage]) for stage in in_order]
    whole = row("all", every, of.total(), max(most.values()))
    return [*body, whole, ("the links sorted, once", "1", cost.cell(sorting), *[""] * 4)]


def row(name: str, times: Sequence[float], lines: int, most: int) -> tuple[str, ...]:
    """One row of the table."""
    ordered = sorted(times)
    middle, late = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    asked = str(lines) if len(ordered) == lines else f"{len(ordered)} of {lines}"
    over = str(sum(took > 10 for took in times))
    return (name, asked, *(cost.cell(value) for value in (middle, late, ordered[-1])), over, str(most))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--workload", type=cost.workload, default="gpt2-12", help="one of compile_cost.py's (default gpt2-12)")
    add("--mode", choices=("inference", "training"), default="training")
    add("--target", default="h100", help="of explorer.targets() (default h100)")
    add("--trace", type=Path, metavar="FILE", help="a saved trace")
    add("--save", type=Path, metavar="FILE", help="where to save the trace that is made")
    add("--within", type=float, default=float("inf"), metavar="SECONDS", help="ask no further line after this")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = parse(arguments)
    trace, seconds = made(options)
    what = options.trace or f"{options.workload}, {options.mode}, for {options.target}, made in {cost.cell(seconds)} s"
    print(f"{cost.machine()}\n{what}: {len(trace.artifacts)} texts, {len(trace.links)} links\n", flush=True)
    print(
        cost.table(
            ("stage", "lines", "median ms", "99 % below", "most", "over 10 ms", "places in the longest answer"),
            rows(trace, options.within),
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
