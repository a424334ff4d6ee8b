"""How the time to save, load, ask, compare and open a trace grows with it: a recording of many compiles, made of one.

    python benchmarks/scale.py [COPIES] [--times 4] [--ranks 64] [--save FILE] [--before FILE]

A small training step is traced for an H100; its artifacts and links are copied under other frames, as a program has that compiles
COPIES functions alike, and `--times` as often. Each verb is timed on both. The last column is the ratio of the two times over the
ratio of the sizes: near 1 the verb is linear, near `--times` it is quadratic. The seconds are those of the processor. A job of
`--ranks` is loaded too, each rank with ten of the compiles, and one of them with another function. "open" makes what a view shows
at first, "to_html" the page of everything. `--save` keeps the seconds, and with `--before` each is divided by
those that another version of explorer kept.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import explorer
from explorer.analysis.questions.compiles import opened
from explorer.model.trace_data import TraceData
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of
from explorer.view.page import packed


def step(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A few softmaxes and norms."""
    for _ in range(3):
        x = torch.nn.functional.layer_norm(torch.softmax(x @ w, -1).relu(), x.shape[-1:])
    return x.sum(0), x.amax(1)


def copied(trace: Trace, count: int) -> Trace:
    """A trace of as many compiles, each of which is that of the one given."""
    (frame,) = trace.compile_ids
    artifacts, links = [], []
    for number in range(count):
        names = {a.id: a.id.replace(frame, f"{number}/0", 1) if a.frame else f"{number}:{a.id}" for a in trace.artifacts}
        frames = {frame: f"{number}/0", "": ""}
        artifacts += [replace(a, id=names[a.id], frame=frames[a.frame]) for a in trace.artifacts]
        links += [replace(link, source=names[link.source], target=names[link.target]) for link in trace.links]
    return trace_of(TraceData(meta=trace.meta, artifacts=tuple(artifacts), links=tuple(links)))


def timed(trace: Trace, folder: Path) -> dict[str, float]:
    """The seconds of each verb on a trace that nothing was asked of yet."""
    seconds: dict[str, float] = {}

    def time_of(name: str, verb: Callable[[], Any]) -> Any:
        began = time.process_time()
        answer = verb()
        seconds[name] = time.process_time() - began
        return answer

    time_of("save", lambda: trace.save(folder / "trace.json.gz"))
    loaded = time_of("load", lambda: explorer.load(folder / "trace.json.gz", limit=1 << 36))
    time_of("one text", lambda: loaded.kernels[-1].source)
    time_of("repr", lambda: repr(loaded))
    time_of("kernels.table", lambda: loaded.kernels.table)
    again = explorer.load(folder / "trace.json.gz", limit=1 << 36)
    time_of("follow", lambda: again.follow(again.kernels[0].artifact, 10))
    time_of("fusion.table", lambda: loaded.fusion.table)
    time_of("memory.table", lambda: loaded.memory.table)
    time_of("advise", lambda: loaded.advise())
    time_of("compare", lambda: repr(explorer.compare(loaded, trace)))
    time_of("open", lambda: packed(opened(loaded)))
    time_of("to_html", lambda: loaded.to_html(folder / "trace.html"))
    return seconds


def other(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What one rank computes otherwise."""
    total, most = step(x, w)
    return total.cos(), most


def of_ranks(trace: Trace, odd: Trace, number: int, folder: Path) -> dict[str, float]:
    """The seconds in which a job of so many ranks is loaded and compared, and one is read; `odd` is the trace of the last."""
    if not number:
        return {}
    trace.save(folder / "trace.rank0.json.gz")
    for rank in range(1, number):
        shutil.copy(folder / "trace.rank0.json.gz", folder / f"trace.rank{rank}.json.gz")
    odd.save(folder / f"trace.rank{number - 1}.json.gz")
    began = time.process_time()
    ranks = explorer.load(folder)
    assert ranks.groups == (tuple(range(number - 1)), (number - 1,))
    loaded = time.process_time()
    repr(ranks[number // 2])
    return {f"load {number} ranks": loaded - began, "one of them": time.process_time() - loaded}


def compared(seconds: float, name: str, before: dict[str, float]) -> str:
    """The seconds as a share of those before, where they are known."""
    return f"   {seconds / before[name]:6.3f} of before" if before.get(name) else ""


def main() -> int:
    """Print a line for each verb."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("copies", nargs="?", type=int, default=20)
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--before", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    x, w = (torch.randn(64, 64, requires_grad=True) for _ in range(2))
    one = explorer.trace(step, x, w, train=True, target="h100")
    sizes = (options.copies, options.copies * options.times)
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for size in sizes:
            trace = copied(one, size)
            text = sum(len(a.text) for a in trace.artifacts) / 1e6
            found.append(timed(trace, Path(folder)))
            texts = f"{len(trace.artifacts)} texts of {text:.0f} MB"
            print(f"{size} compiles: {len(trace.kernels)} kernels, {texts}, {len(trace.links)} links")
    with tempfile.TemporaryDirectory() as folder:
        odd = explorer.trace(other, x, w, train=True, target="h100")
        found[1] |= of_ranks(copied(one, 10), copied(odd, 10), options.ranks, Path(folder))
    before = json.loads(options.before.read_text()) if options.before else {}
    for name, large in found[1].items():
        small = found[0].get(name)
        growth = (
            f"{small:8.2f} s {large:8.2f} s   {large / max(small, 1e-3) / options.times:5.2f}" if small else f"{large:21.2f} s"
        )
        print(f"{name:14} {growth}{compared(large, name, before)}")
    if options.save:
        options.save.write_text(json.dumps(found[1]))
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
