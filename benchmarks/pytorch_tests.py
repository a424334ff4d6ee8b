"""Run PyTorch's own tests, each plain and inside `explorer.record()`: the outcomes must be the same.

    python benchmarks/pytorch_tests.py FOLDER_OR_FILES… [--jobs 2] [--select "not cuda"] [--rerun]
        [--deadline 500] [--part 1/2] [--skip 9]

The tests are not part of explorer: take `test/dynamo` and `test/inductor` of a checkout of PyTorch, best of the release that
is installed. `--path` names folders for PYTHONPATH, `--plugin` modules to import before the tests, such as one that gives
what another release of the tests asks for.

The tests run in batches, each batch in a process of its own, once plain and once recorded. A test that takes too long or that
ends its process is counted as such, and the rest of its batch goes on in a new process. Each batch prints how many of its
tests had the same outcome, with the sum so far, and each test that had not. Two tests that fail have the same outcome where
the type of the error is the same. With --rerun a test whose outcome differs is run alone once more both ways, so that one
that is not steady by itself is told apart.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

#: Outcome and message of each test by its name.
Outcomes = dict[str, tuple[str, str]]

#: What a test is called that no process came to: the time was up before.
NOT_RUN = ("not run", "")


# In the process that runs the tests ------------------------------------------------------------------------------------


@dataclass
class Plugin:
    """Write each test's begin and outcome down at once, and run it inside a recording where asked."""

    recorded: bool
    out: Path
    seconds: float

    def pytest_collection_finish(self) -> None:
        """Import what a recording imports, so that the first test's time is its own."""
        if self.recorded:
            import explorer

            with explorer.record():
                pass

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """End this process where a test takes too long: the parent sees which one was begun."""
        self._write([item.nodeid, "begun", ""])
        faulthandler.dump_traceback_later(self.seconds, exit=True, file=sys.__stderr__)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Run the test, inside a recording where asked."""
        if not self.recorded:
            return (yield)
        import explorer

        with explorer.record() as recording:
            result = yield
        for failure in recording.trace.failures:  # replayed too: an error there must not be the user's
            if failure.step in ("render", "link", "record", "watch"):
                print(f"explorer: {item.name}: {failure}", file=sys.__stderr__, flush=True)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of the call, or of the set-up where that failed."""
        if report.when == "call" or report.outcome != "passed":
            crash = getattr(report.longrepr, "reprcrash", None)
            self._write([report.nodeid, report.outcome, crash.message if crash else str(report.longrepr or "")])

    def _write(self, row: list[str]) -> None:
        with self.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


@dataclass
class Collector:
    """Write down the names of the tests of a file, in the order in which they stand."""

    out: Path

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """The names, once all are known."""
        self.out.write_text(json.dumps([item.nodeid for item in session.items]))


def child(options: argparse.Namespace) -> int:
    """Run or collect tests of one file by pytest in this process."""
    out = Path(options.child)
    plugin = Collector(out) if options.collect else Plugin(options.recorded, out, options.limit)
    file = options.files[0]
    names = json.loads(Path(options.names).read_text()) if options.names else []
    folder = str(Path(file).parent)
    arguments = [f"{folder}/{name}" for name in names] or [file]
    arguments += ["-q", "--capture=sys", "-p", "no:cacheprovider", "-p", "no:warnings", "-p", "no:faulthandler", "--no-header"]
    arguments += ["--import-mode=importlib", "-c", os.devnull, "--rootdir", folder]
    arguments += [part for name in options.plugin for part in ("-p", name)]
    arguments += ["--collect-only"] if options.collect else []
    if options.select:
        arguments += ["-k", options.select]
    return int(pytest.main(arguments, [plugin]))


# In the process that compares ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Some tests of a file, by pytest's names."""

    file: str
    names: tuple[str, ...]


@dataclass
class Sum:
    """What the batches came to so far."""

    same: Counter[str] = field(default_factory=Counter)
    different: list[dict[str, Any]] = field(default_factory=list)
    not_run: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Ended:
    """What a process wrote down, its exit status (None where the time was up), and what it said on stderr."""

    written: str
    status: int | None
    said: str


def run_child(file: str, options: argparse.Namespace, *more: str) -> Ended:
    """Run this script as a process of its own, and end with it what it has started."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        out, errors = Path(folder) / "out.json", Path(folder) / "stderr"
        given = [part for name in options.plugin for part in ("--plugin", name)]
        command = [sys.executable, __file__, file, "--child", str(out), f"--select={options.select}", *given, *more]
        command += ["--limit", str(options.limit)]
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache", "PYTHONPATH": _path(options)}
        with errors.open("w") as stderr:
            process = subprocess.Popen(command, stdout=stderr, stderr=stderr, env=environment, cwd=folder, start_new_session=True)
            try:
                status: int | None = process.wait(max(options.end - time.time(), 1))
            except subprocess.TimeoutExpired:
                status = None
            with contextlib.suppress(ProcessLookupError):  # workers of Inductor, or the process itself
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return Ended(out.read_text() if out.exists() else "", status, errors.read_text(errors="replace"))


def _path(options: argparse.Namespace) -> str:
    folders = [str(Path(path).resolve()) for path in options.path]
    return os.pathsep.join([*folders, os.environ.get("PYTHONPATH", ""), str(Path(__file__).resolve().parent.parent)])


def run_batch(file: str, names: Sequence[str], recorded: bool, options: argparse.Namespace) -> Outcomes:
    """The outcomes of some tests of a file; a test that ends its process is followed by the rest in a new one."""
    outcomes: Outcomes = {}
    while (left := [name for name in names if name not in outcomes]) and time.time() < options.end:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as chosen:
            chosen.write(json.dumps(left))
            chosen.flush()
            ended = run_child(file, options, "--names", chosen.name, *(["--recorded"] if recorded else []))
        for line in ended.said.splitlines():
            if line.startswith("explorer: "):
                print(line, flush=True)
        found = outcomes_of(ended)
        if ended.status is None:
            return outcomes | found
        outcomes |= found or dict.fromkeys(left, ("cannot be run", ended.said[-600:]))
    return outcomes


def outcomes_of(ended: Ended) -> Outcomes:
    """The outcomes that a process wrote down; the test under way when it ended has that as its outcome."""
    outcomes: Outcomes = {}
    under_way = ""
    for name, outcome, message in map(json.loads, ended.written.splitlines()):
        under_way = name if outcome == "begun" else ""
        if outcome != "begun":
            outcomes[name] = (outcome, message)
    if under_way and ended.status is not None:
        how = "too long" if "Timeout (" in ended.said else f"ended its process with {ended.status}"
        outcomes[under_way] = (how, ended.said[-600:])
    return outcomes


def error_type(message: str) -> str:
    """The type of the error that a failed test's message begins with."""
    return message.split(":", 1)[0].split("\n", 1)[0].strip()


def is_same(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two outcomes are the same: two failures, where the error is of one type."""
    return one[0] == other[0] and (one[0] != "failed" or error_type(one[1]) == error_type(other[1]))


def compare(batch: Batch, options: argparse.Namespace, total: Sum) -> None:
    """Run a batch both ways, and print what came of it."""
    plain, recorded = (run_batch(batch.file, batch.names, way, options) for way in (False, True))
    same: Counter[str] = Counter()
    different = []
    missing = 0
    for name in batch.names:
        one, other = plain.get(name, NOT_RUN), recorded.get(name, NOT_RUN)
        if NOT_RUN in (one, other):
            missing += 1
            continue
        again = ""
        if not is_same(one, other) and options.rerun:
            alone = [run_batch(batch.file, [name], way, options).get(name, NOT_RUN) for way in (False, True)]
            if NOT_RUN not in alone:
                again = f" (before, in a batch: {one[0]} plain, {other[0]} recorded)"
                one, other = alone
        if is_same(one, other):
            same[one[0] + (", otherwise in a batch" if again else "")] += 1
        else:
            different.append({"test": name, "plain": one[0], "recorded": other[0] + again, "said": [one[1], other[1]]})
    with total.lock:
        total.same += same
        total.different += different
        total.not_run += missing
        print_batch(batch, same, different, missing, total)


def print_batch(batch: Batch, same: Counter[str], different: Sequence[dict[str, Any]], missing: int, total: Sum) -> None:
    """The figures of a batch, the sum so far, and each test whose outcome differs."""
    done, tests = total.same.total(), total.same.total() + len(total.different)
    late = f", {missing} not run" if missing else ""
    print(f"{Path(batch.file).name}: {dict(same)}, {len(different)} different{late}; so far {done} of {tests} the same")
    for row in different:
        print(f"  DIFFERENT {row['test']}: plain {row['plain']}, recorded {row['recorded']}")
        for way, said in zip(("plain", "recorded"), row["said"], strict=True):
            print(f"    {way}: {said[:600]}" if said else f"    {way}: nothing said")
    sys.stdout.flush()


def batches_of(file: str, options: argparse.Namespace) -> list[Batch]:
    """The tests of a file in batches; none, and said, where they cannot be collected."""
    ended = run_child(file, options, "--collect")
    names = json.loads(ended.written) if ended.written else []
    if not names and ended.status != pytest.ExitCode.NO_TESTS_COLLECTED:
        print(f"{Path(file).name} cannot be collected: {ended.said[-400:]}", flush=True)
    return [Batch(file, tuple(names[n : n + options.batch])) for n in range(0, len(names), options.batch)]


def files_of(given: Sequence[str]) -> list[str]:
    """The test files given, those of a folder included, the largest first."""
    found = [f for path in map(Path, given) for f in (sorted(path.rglob("test_*.py")) if path.is_dir() else [path])]
    return [str(f.resolve()) for f in sorted(found, key=lambda f: -f.stat().st_size)]


def part_of(batches: Sequence[Batch], part: str, sample: int, skip: int = 0) -> list[Batch]:
    """The batches of one part of several, but for the first `skip` of them, in an order that is mixed and always the same.

    With `sample`, the batches of a sample of so many tests.
    """
    number, parts = map(int, part.split("/"))
    mixed = sorted(batches, key=lambda batch: random.Random("".join(batch.names)).random())
    if sample:
        tests = [(batch.file, name) for batch in mixed for name in batch.names]
        chosen = sorted(random.Random(0).sample(tests, min(sample, len(tests))))
        files = sorted({file for file, _ in chosen})
        mixed = [Batch(file, tuple(name for of, name in chosen if of == file)) for file in files]
    return mixed[number - 1 :: parts][skip:]


def options_of() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=25, help="tests in a process")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a test")
    parser.add_argument("--deadline", type=float, default=0, help="seconds after which nothing is begun and all is ended")
    parser.add_argument("--part", default="1/1", help="such as 1/2: the first half of the batches")
    parser.add_argument("--skip", type=int, default=0, help="so many batches of the part are left out: an earlier run had them")
    parser.add_argument("--sample", type=int, default=0, help="so many tests of all, always the same")
    parser.add_argument("--select", default="", help="an expression for pytest's -k")
    parser.add_argument("--path", nargs="*", default=[], help="folders for PYTHONPATH")
    parser.add_argument("--plugin", action="append", default=[], help="a module to import before the tests")
    parser.add_argument("--rerun", action="store_true")
    for name in ("--recorded", "--collect"):
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    for name in ("--child", "--names"):
        parser.add_argument(name, default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Print the figures; 1 where an outcome differs or nothing was compared."""
    options = options_of()
    if options.child:
        return child(options)
    options.end = time.time() + (options.deadline or 1e8)
    total = Sum()
    with ThreadPoolExecutor(options.jobs) as pool:
        files = pool.map(lambda file: batches_of(file, options), files_of(options.files))
        chosen = part_of([batch for batches in files for batch in batches], options.part, options.sample, options.skip)
        print(f"{sum(len(batch.names) for batch in chosen)} tests in {len(chosen)} batches", flush=True)
        list(pool.map(lambda batch: compare(batch, options, total), chosen))
    same, tests = total.same.total(), total.same.total() + len(total.different)
    print(f"\n{same} of {tests} tests have the same outcome: {dict(total.same)}; {total.not_run} were not run")
    for row in total.different:
        print(f"  {row['test']}: plain {row['plain']}, recorded {row['recorded']}")
    return int(bool(total.different) or not tests)


if __name__ == "__main__":
    sys.exit(main())
