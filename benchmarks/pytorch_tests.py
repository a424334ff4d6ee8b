"""PyTorch's own tests, each file plain and with every test under `explorer.record()`: the outcomes must be the same.

    python benchmarks/pytorch_tests.py FOLDER_OR_FILES… [--jobs 2] [--limit 600] [--select "not cuda"] [--rerun]

The tests are not part of explorer: take `test/dynamo` and `test/inductor` of a checkout of PyTorch, best of the release that
is installed. Prints how many tests had the same outcome in both, and each that had not, with what pytest said of it. A test
whose outcome differs is run alone once more both ways with --rerun, so that one that is not steady by itself is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

#: Outcome and message of each test by its name.
Outcomes = dict[str, tuple[str, str]]


@dataclass
class Plugin:
    """A plugin of pytest that writes each test's outcome down, and runs it inside a recording where asked."""

    recorded: bool
    out: Path
    outcomes: Outcomes = field(default_factory=dict)

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
                print(f"explorer: {item.name}: {failure}", file=sys.stderr)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of the call, or of the set-up where that failed; written at once, for a crash may follow."""
        if report.when == "call" or report.outcome != "passed":
            name = report.nodeid.rpartition("/")[2]
            self.outcomes[name] = report.outcome, str(report.longrepr or "")[-600:]
            self.out.write_text(json.dumps(self.outcomes))


def run_file(file: str, recorded: bool, options: argparse.Namespace, only: str = "") -> Outcomes:
    """The outcomes of one file's tests, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "outcomes.json"
        command = [sys.executable, __file__, "--child", str(out), "--select", options.select, f"{file}{only}"]
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache", "PYTHONPATH": _path(options)}
        if recorded:
            command.insert(2, "--recorded")
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=options.limit, env=environment, cwd=folder
            )
            ended, said = f"exit {done.returncode}", done.stderr
        except subprocess.TimeoutExpired as error:
            ended, said = f"stopped after {options.limit} s", str(error.stderr or "")
        for line in said.splitlines():
            if line.startswith("explorer: "):
                print(line)
        found: Outcomes = json.loads(out.read_text()) if out.exists() else {}
        return found or {Path(file).name: (ended, said[-600:])}


def _path(options: argparse.Namespace) -> str:
    return os.pathsep.join([*options.path, os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent.parent)])


def child(options: argparse.Namespace) -> int:
    """Run one file's tests by pytest in this process."""
    plugin = Plugin(options.recorded, Path(options.child))
    arguments = [*options.files, "-q", "-p", "no:cacheprovider", "-p", "no:warnings", "--no-header", "--import-mode=importlib"]
    if options.select:
        arguments += ["-k", options.select]
    return int(pytest.main([*arguments, "-c", os.devnull, "--rootdir", str(Path(options.files[0]).parent)], [plugin]))


def compare(file: str, options: argparse.Namespace) -> tuple[Counter[str], list[dict[str, Any]]]:
    """How many tests of a file had the same outcome both ways, by outcome, and those that had not."""
    plain, recorded = (run_file(file, way, options) for way in (False, True))
    same: Counter[str] = Counter()
    different = []
    for name in {**plain, **recorded}:
        one, other = plain.get(name, ("not run", "")), recorded.get(name, ("not run", ""))
        if one[0] != other[0] and options.rerun and "::" in name:
            only = name[name.index("::") :]
            one, other = (run_file(file, way, options, only).get(name, ("not run", "")) for way in (False, True))
        if "::" not in name:  # the file itself: nothing of it was run
            print(f"{name} cannot be run: {one[0]} plain, {other[0]} recorded: {(one[1] or other[1])[-300:]}")
            continue
        if one[0] == other[0]:
            same[one[0]] += 1
        else:
            different.append({"test": name, "plain": one[0], "recorded": other[0], "said": other[1] or one[1]})
    print(f"{Path(file).name}: {dict(same)}, {len(different)} different", flush=True)
    return same, different


def files_of(given: Sequence[str]) -> list[str]:
    """The test files given, those of a folder included, the largest first."""
    found = [f for path in map(Path, given) for f in (sorted(path.rglob("test_*.py")) if path.is_dir() else [path])]
    return [str(f.resolve()) for f in sorted(found, key=lambda f: -f.stat().st_size)]


def main() -> int:
    """Print the figures; 1 where an outcome differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600, help="seconds for a file")
    parser.add_argument("--select", default="", help="an expression for pytest's -k")
    parser.add_argument("--path", nargs="*", default=[], help="folders for PYTHONPATH")
    parser.add_argument("--rerun", action="store_true")
    parser.add_argument("--recorded", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda file: compare(file, options), files_of(options.files)))
    same = sum((counts for counts, _ in results), Counter[str]())
    different = [row for _, rows in results for row in rows]
    print(f"\n{same.total()} of {same.total() + len(different)} tests have the same outcome: {dict(same)}")
    for row in different:
        print(f"\n{row['test']}: plain {row['plain']}, recorded {row['recorded']}\n{row['said']}")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
