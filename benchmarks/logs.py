"""Read every log below a folder, such as the test inputs of tlparse and tritonparse, and print what is made of each.

    git clone https://github.com/meta-pytorch/tlparse && python benchmarks/logs.py tlparse/tests

One row per file: its size, seconds, compiles, artifacts, links, kernels, and failures: what is damaged and what is not shown. A
file that is no log is named with the reason. The last line has the sums.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

import explorer
from explorer.sources.logs.read import kind_of


def row(path: Path, totals: Counter[str]) -> str:
    """What is made of one file, as a line; the totals get what it adds."""
    kind = kind_of(path)
    if not kind:
        totals["no log"] += 1
        return f"{'no log: it holds no record':>60}"
    start = time.perf_counter()
    try:
        trace = explorer.load(path)
    except explorer.errors.ExplorerError as error:
        totals["refused"] += 1
        return f"refused: {error}"
    seconds = time.perf_counter() - start
    steps = Counter(failure.step for failure in trace.failures)
    totals.update(read=1, artifacts=len(trace.artifacts), links=len(trace.links), damaged=steps["damaged"])
    compiles = len({a.frame for a in trace.artifacts if a.frame})
    size = path.stat().st_size / 1e6
    return (
        f"{kind:<12} {size:6.2f} MB {seconds:6.2f} s {compiles:4} compiles {len(trace.artifacts):5} artifacts "
        f"{len(trace.links):6} links {len(trace.kernels):4} kernels  {dict(steps)}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    totals: Counter[str] = Counter()
    folder = parser.parse_args().folder
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".log", ".txt", ".ndjson", ".gz") and p.is_file()):
        print(f"{str(path.relative_to(folder))[-60:]:<60} {row(path, totals)}", flush=True)
    print(dict(totals))


if __name__ == "__main__":
    main()
