"""Let one thread check while another compiles: neither may disturb the other.

    python benchmarks/threads.py [--rounds 50] [--jobs 4] [--part 1/2]

In each round one thread checks a trace for a GPU that is not attached, again and again, or lets a view's thread do so, as
its button does. The main thread meanwhile compiles with torch.compile, with triton.compile, in a recording for that GPU and
in a trace for it, each a program of its own, and compares what it gets with what eager mode gives. A trace makes Dynamo
forget the function that is checked: that a check is then refused, in its own thread, is counted and no disturbance. A round
in which no check came to its end while the other thread compiled shows nothing and says so.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import children
from children import Step

TARGET = "h100"
#: The message with which a check is refused once Dynamo has forgotten the function.
ANEW = "would be compiled anew"
#: How often a round compiles with torch.compile and triton.compile before it records and traces.
TIMES = 5
#: A kernel that triton compiles; the number makes each another one.
KERNEL = """
import triton
import triton.language as tl

@triton.jit
def kernel(p, n, B: tl.constexpr, K: tl.constexpr):
    o = tl.arange(0, B) + tl.program_id(0) * B
    x = tl.load(p + o, mask=o < n)
    tl.store(p + o, tl.maximum(x * K + tl.sum(tl.exp(x), 0), 0.0), mask=o < n)
"""


class Checks:
    """The checks in the other thread and how they ended."""

    def __init__(self) -> None:
        self.equal = self.refused = 0
        self.disturbed: list[str] = []

    def add(self, rows: Any) -> None:
        """The rows of a check that came to its end."""
        wrong = [dict(row) for row in rows if row["equal"] is not True]
        if wrong or not rows:
            self.disturbed.append(f"a check's rows: {wrong}")
        else:
            self.equal += 1

    def error(self, said: str) -> None:
        """Note the error that ended a check."""
        if ANEW in said:
            self.refused += 1
        else:
            self.disturbed.append(f"a check: {said}"[:300])


@contextmanager
def checking(trace: Any) -> Iterator[Checks]:
    """Check a trace again and again in another thread; the block begins with the second check."""
    checks, stop, begun = Checks(), threading.Event(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                checks.add(trace.check())
            except Exception as error:  # noqa: BLE001 whatever a check meets is what is asked for
                checks.error(f"{type(error).__name__}: {error}")
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    try:
        yield checks
    finally:
        stop.set()
        thread.join()


@contextmanager
def clicking(trace: Any) -> Iterator[Checks]:
    """Let a view's own thread check, as clicks on its button make it do."""
    from explorer.view.widget import Explorer

    checks, view = Checks(), Explorer(trace)
    for _ in range(3):
        view._worker.answer({"ask": "check"})
    yield checks
    view._worker.wait()
    if error := view.progress.get("error"):
        checks.error(str(error))
    else:
        checks.equal += 1


def kernel_of(folder: Path) -> Any:
    """The kernel as a function of triton's; its source must be in a file."""
    import importlib.util

    place = folder / "kernel_of_threads.py"
    place.write_text(KERNEL)
    spec = importlib.util.spec_from_file_location(place.stem, place)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def compiles(number: int, kernel: Any) -> dict[str, Callable[[], object]]:
    """What the main thread compiles, by name; each raises where the result is wrong."""
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    import explorer

    x = torch.linspace(-2, 2, 100 + number)

    def right(made: Any, expected: Any) -> None:
        torch.testing.assert_close(made, expected)

    def plain() -> None:
        for n in range(TIMES):
            function = lambda t, n=n: torch.cos(t) + number + n  # noqa: E731
            right(torch.compile(function, backend="aot_eager")(x), function(x))

    def by_triton() -> None:
        for n in range(TIMES):
            signature = {"p": "*fp32", "n": "i32", "B": "constexpr", "K": "constexpr"}
            source = ASTSource(kernel, signature, {(2,): 64, (3,): number * TIMES + n + 2})
            text = triton_compile(source, target=GPUTarget("cuda", 90, 32), options={}).asm["ttir"]
            assert "tt.reduce" in text and "tt.store" in text, text

    def recorded() -> None:
        function = lambda t: (torch.exp(t) * (number + 1)).sum()  # noqa: E731
        with explorer.record(TARGET) as recording:
            made = torch.compile(function)(x)
        right(made, function(x))
        assert not recording.trace.failures and recording.trace.find("ptx"), recording.trace.failures

    def traced() -> None:
        function = lambda t: torch.tanh(t) * (number + 1)  # noqa: E731
        trace = explorer.trace(function, x, target=TARGET)
        assert not trace.failures and trace.find("ptx"), trace.failures
        right(trace.live.result, function(x))

    from triton import compile as triton_compile

    return {"torch.compile": plain, "triton.compile": by_triton, "record": recorded, "trace": traced}


def round_of(number: int, kernel: Any) -> dict[str, Any]:
    """Run one round, and list what was disturbed."""
    import torch

    import explorer

    torch._dynamo.reset()
    trace = explorer.trace(lambda x: torch.sin(x).sum(), torch.randn(20_000), target=TARGET)
    disturbed, done = [], Counter[str]()
    with (clicking if number % 5 == 4 else checking)(trace) as checks:
        before = checks.equal
        for name, compile_it in compiles(number, kernel).items():
            try:
                compile_it()
                done[name] += 1
            except Exception as error:  # noqa: BLE001 whatever a compile meets is what is asked for
                disturbed.append(f"{name}: {type(error).__name__}: {error}"[:300])
    disturbed += checks.disturbed
    if not disturbed and checks.equal == before:
        return {"kind": "nothing shown", "why": "no check came to its end while the other thread compiled"}
    return {
        "kind": "disturbed" if disturbed else "undisturbed",
        "why": "; ".join(disturbed),
        "checks": checks.equal,
        "refused": checks.refused,
    }


def steps() -> Callable[[int], Iterator[Step]]:
    """In the child: the steps for an item, the number of a round."""
    import tempfile

    folder = tempfile.TemporaryDirectory()
    kernel = kernel_of(Path(folder.name))

    def of(number: int) -> Iterator[Step]:
        assert Path(folder.name).exists()
        return iter([(f"round {number}", lambda: round_of(number, kernel))])

    return of


def main() -> int:
    """Print each round that was disturbed, and the counts; 1 where there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    children.add_arguments(parser, 180)
    options = parser.parse_args()
    if options.child:
        warnings.simplefilter("ignore")
        children.serve(steps())
        return 0
    began, counts, checks = time.perf_counter(), Counter[str](), 0
    for row in children.rows(children.part(range(options.rounds), options.part), [sys.executable, __file__, "--child"], options):
        counts[row["kind"]] += 1
        checks += row.get("checks", 0)
        print(f"{row['kind']:12} {row.get('seconds', 0):5}", row["name"], row.get("checks", ""), row.get("why", ""), flush=True)
    told = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    print(f"{counts.total()} rounds: {told}; {checks} checks equal; {time.perf_counter() - began:.0f} s", flush=True)
    return int(set(counts) != {"undisturbed"})


if __name__ == "__main__":
    sys.exit(main())
