"""Measure explorer's own share of a trace's processor time: copying texts, links, verdicts, the rest.

    python benchmarks/own_cost.py                       GPT-2 of 12 layers, inference and training, for the CPU
    python benchmarks/own_cost.py --workloads gpt2-12 gpt2-48 --target h100 --modes inference

Every millisecond a signal looks at the stack, which counts for the processor time of the compiling thread since the last look.
A timer of processor time would be no finer than the kernel's ticks, which are 4 ms on many machines. Time counts as explorer's
where its recorder is under way, with all that it calls, or where a function of explorer's is innermost. Torch's functions that
a hook calls in their own place count as torch's. The file of explorer's function says whether its time is for links, for
verdicts or for neither. Time in other processes, g++ and triton's workers, is not seen, and the looks themselves are left out.
Other programs change these shares little, since what counts is processor time.

A trace is replayed when it is first read: that reads the texts, links them and decompiles the frames. It is no part of the
compile, is not sampled, and has a column of its own. Each measurement runs in a process of its own, with fresh caches but for
the C++ header.
"""

from __future__ import annotations

import argparse
import collections
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType

sys.path.insert(0, str(Path(__file__).parent))
import compile_cost as cost

PERIOD = 0.001
TORCH, TEXTS, LINKS, VERDICTS, REST = "torch's own", "texts and tables", "links", "verdicts", "hooks, the rest"
OWN = (TEXTS, LINKS, VERDICTS, REST)
#: A file of explorer's that runs while a program compiles, and the beginning of a function's name in it → what its time counts
#: as; the first found counts.
FILES = (
    ("capture/observe/scheduler.py", "", VERDICTS),
    ("capture/observe/scheduler_log.py", "", VERDICTS),
    ("capture/observe/refusals.py", "", VERDICTS),
    ("capture/observe/realized.py", "", VERDICTS),
    ("capture/observe/kernel_lines.py", "", LINKS),
    ("tracing/recording/recorder.py", "_append", TEXTS),
)
#: While one of these is under way all is explorer's, also what of torch it calls.
WHOLE = (
    ("tracing/recording/recorder.py", "_append"),
    ("tracing/recording/recorder.py", "finish"),
    ("tracing/recording/finish.py", "finished"),
)


# In the child -----------------------------------------------------------------------------------------------------


class Sampler:
    """Counts what the processor's time is spent on while it is on; `folder` is the package's."""

    def __init__(self, folder: Path) -> None:
        self.found: collections.defaultdict[str, float] = collections.defaultdict(float)  # seconds
        self._folder = f"{folder}/"
        self._last = 0.0

    def __enter__(self) -> Sampler:
        signal.signal(signal.SIGALRM, self._look)
        self._last = time.thread_time()
        signal.setitimer(signal.ITIMER_REAL, PERIOD, PERIOD)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _look(self, _: int, frame: FrameType | None) -> None:
        seconds = time.thread_time() - self._last
        stack = []
        while frame is not None:
            stack.append(frame.f_code)
            frame = frame.f_back
        self.found[self._kind(stack)] += seconds
        self._last = time.thread_time()

    def _kind(self, stack: Sequence[CodeType]) -> str:
        """What a stack, innermost function first, is spent on."""
        own = [self._place(code) for code in self._own_part(stack)]
        for file, function, kind in FILES:
            if any(place.startswith(file) and name.startswith(function) for place, name in own if place):
                return kind
        return REST if own else TORCH

    def _own_part(self, stack: Sequence[CodeType]) -> Sequence[CodeType]:
        """The innermost functions of a stack for as long as they are explorer's work; none where torch is at its own."""
        for number, code in enumerate(stack):
            if self._place(code) in WHOLE:
                return stack[: number + 1]
        for number, code in enumerate(stack):
            if self._place(code)[0]:
                return stack[: number + 1]
            if "site-packages" in code.co_filename:
                return ()
        return ()

    def _place(self, code: CodeType) -> tuple[str, str]:
        """The file, "" for those that are not explorer's, and the function."""
        file = code.co_filename
        return (file[len(self._folder) :] if file.startswith(self._folder) else "", code.co_name)


def measured(name: str, target: str, train: bool) -> cost.Result:
    """Seconds of processor time of one trace, by what they were spent on."""
    cost.import_tool("explorer")
    function, args = cost.built(name, "cpu", train)
    import explorer

    with Sampler(Path(explorer.__file__).parent) as sampler:
        trace = explorer.trace(function, *args, target=target, train=train)
    began = time.process_time()
    failures = [str(f) for f in trace.failures if f.fatal]
    return {"found": sampler.found, "replay": time.process_time() - began, "failures": failures}


# In the parent ----------------------------------------------------------------------------------------------------


def row(result: cost.Result) -> tuple[str, ...]:
    """One row: seconds of torch and of each kind, and their ratios to torch's."""
    head = (result["workload"], result["mode"])
    if "error" in result:
        return (*head, f"failed: {result['error']}", *[""] * (len(OWN) + 3))
    found = result["found"]
    base = found[TORCH]
    cells = [f"{cost.cell(found.get(kind, 0.0))} ({found.get(kind, 0.0) / base:.1%})" for kind in OWN]
    both = (found.get(LINKS, 0.0) + found.get(VERDICTS, 0.0)) / base
    share = sum(found.get(kind, 0.0) for kind in OWN) / base
    replay = f"{cost.cell(result['replay'])} ({result['replay'] / base:.1%})"
    return (*head, cost.cell(base), *cells, f"{both:.1%}", f"{share:.1%}", replay)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--workloads", nargs="+", type=cost.workload, default=["gpt2-12"], help="of compile_cost.py's (default gpt2-12)")
    add("--modes", nargs="+", choices=("inference", "training"), default=["inference", "training"])
    add("--target", default="cpu", help="of explorer.targets() (default cpu)")
    add("--cache", metavar="DIR", help="share one cache among all runs: to try the script, not to measure")
    add("--child", type=json.loads, help=argparse.SUPPRESS)
    parser.set_defaults(device="cpu", graph_caches=True, warm_headers=True)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a measurement failed."""
    options = parse(arguments)
    if options.child:
        asked = options.child
        print(json.dumps(measured(asked["workload"], asked["target"], asked["mode"] == "training")))
        return 0
    results = []
    with tempfile.TemporaryDirectory(prefix="own-cost-", ignore_cleanup_errors=True) as root:
        caches = cost.Caches(options, Path(root))
        for name in options.workloads:
            for mode in options.modes:
                key = {"workload": name, "mode": mode, "target": options.target, "tool": "explorer"}
                with caches.fresh() as (_, variables):
                    results.append({**key, **cost.start(key, variables, __file__)})
    head = ("workload", "mode", f"{TORCH}, CPU s", *OWN, "links and verdicts", "all of explorer's", "replay, when read")
    print(f"{cost.machine()}\ntarget {options.target}\n\n{cost.table(head, [row(result) for result in results])}")
    return 1 if any("error" in result or result["failures"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
