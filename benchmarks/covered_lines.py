"""The lines of `explorer/` that each test runs: a pytest plugin, and the table of the rooms.

`python benchmarks/covered_lines.py run FOLDER [pytest's arguments]` runs the tests of the current folder with coverage.py and
keeps what it measures in FOLDER; processes that a test starts count. `table FOLDER [EARLIER]` prints the share of the
statements that ran, by room, beside an earlier folder's. `lost FOLDER EARLIER` prints the statements that ran in the earlier
run alone. It compares line numbers, and is wrong of a file that has changed between the two runs.

Tests share what a fixture of a module or of the session makes, and the traces of the zoo. What makes one is noted for the
fixture or the trace, with all that use it; otherwise only the first test would be known to need it. `COVERED_BY` in the
environment tells a process that starts for which test, fixture or trace it runs.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import coverage
import pytest

SETTINGS = """\
[run]
source_pkgs = explorer
data_file = {folder}/lines
parallel = true
concurrency = thread
context = ${{COVERED_BY-}}
disable_warnings = no-data-collected, module-not-imported, couldnt-parse, no-contexts, module-not-measured, no-ctracer
"""
ROOT = Path(__file__).resolve().parents[1]

# The plugin --------------------------------------------------------------------------------------------------------------


def name_of(fixture: Any) -> str:
    """The context of what a fixture runs."""
    return f"fixture {fixture.baseid}::{fixture.argname}"


class Contexts:
    """Tells coverage.py which test, fixture or trace of the zoo runs, and keeps which tests passed and what they share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.context = ""
        self.users: dict[str, set[str]] = defaultdict(set)
        """Context of a fixture or trace → the contexts that use it."""
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def switch(self, context: str) -> None:
        """Note what runs from now on for a context, in this process and in those that it starts."""
        self.context = os.environ["COVERED_BY"] = context
        current = coverage.Coverage.current()
        if current is not None:
            current.switch_context(context)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note a test, and the fixtures that it shares with others."""
        self.switch(item.nodeid)
        for fixtures in item._fixtureinfo.name2fixturedefs.values() if hasattr(item, "_fixtureinfo") else ():
            for fixture in fixtures:
                if fixture.scope != "function":
                    self.users[name_of(fixture)].add(item.nodeid)
        result = yield
        self.switch("")
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Note what a shared fixture runs for the fixture."""
        before = self.context
        if fixturedef.scope != "function":
            self.switch(name_of(fixturedef))
        try:
            made = yield
        finally:
            if fixturedef.scope != "function":
                self.switch(before)
        if fixturedef.argname == "zoo":
            made = Zoo(made, self)
            fixturedef.cached_result = (made, *fixturedef.cached_result[1:])
        return made

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the phases of a test."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Keep what is known of the tests that this process ran."""
        if self.seconds:
            passed = {test: seconds for test, seconds in self.seconds.items() if test not in self.failed}
            known = {"users": {context: sorted(users) for context, users in self.users.items()}, "seconds": passed}
            (self.folder / f"tests-{os.getpid()}.json").write_text(json.dumps(known), encoding="utf-8")


class Zoo:
    """Stands for the fixture `zoo` and notes what makes a trace for the trace, whichever test asks first."""

    def __init__(self, zoo: Callable[[str], Any], contexts: Contexts) -> None:
        self.zoo = zoo
        self.contexts = contexts

    def __call__(self, name: str) -> Any:
        """Return a trace by its name."""
        before, context = self.contexts.context, f"trace {name}"
        self.contexts.users[context].add(before)
        self.contexts.switch(context)
        try:
            return self.zoo(name)
        finally:
            self.contexts.switch(before)

    def __getattr__(self, name: str) -> Any:
        """Return what else the zoo has."""
        return getattr(self.zoo, name)


def pytest_configure(config: pytest.Config) -> None:
    """Begin to note contexts where the run is measured."""
    settings = os.environ.get("COVERAGE_PROCESS_START")
    if settings:
        config.pluginmanager.register(Contexts(Path(settings).parent))


# What was measured -------------------------------------------------------------------------------------------------------


def run(folder: Path, arguments: list[str]) -> int:
    """Run the tests of the checkout in the current folder, and keep what they cover; pytest's exit status.

    The zoo's traces are removed first: what makes one that is kept would not run.
    """
    shutil.rmtree(Path(".cache/zoo"), ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "settings.ini"
    settings.write_text(SETTINGS.format(folder=folder.resolve()), encoding="utf-8")
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    measured = {"COVERAGE_PROCESS_START": str(settings.resolve()), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "pytest", "-p", "covered_lines", *arguments]
    done = subprocess.run(command, env=os.environ | measured, check=False)
    whole = coverage.Coverage(config_file=str(settings), data_file=str(folder / "lines"))
    whole.combine([str(folder)], keep=False)
    whole.save()
    return done.returncode


def place_of(file: str) -> str:
    """A file of the package, from `explorer/` on, whichever checkout it is in."""
    return re.sub(r".*/explorer/", "explorer/", file)


def room_of(place: str) -> str:
    """The room of a file of the package: the folder in its group, or the file."""
    return "/".join(place.split("/")[1:3]).removesuffix(".py")


def lines_of(folder: Path) -> dict[str, set[int]]:
    """File of the package → the lines that any test ran."""
    data = coverage.CoverageData(str(folder / "lines"))
    data.read()
    return {place_of(file): set(data.lines(file) or ()) for file in data.measured_files()}


def statements(path: Path) -> set[int]:
    """The first lines of a file's statements, docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    return {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)} - {node.lineno for node in texts}


def by_room(lines: Mapping[str, set[int]]) -> dict[str, tuple[int, int]]:
    """Room → (statements that ran, statements)."""
    counts: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for path in sorted((ROOT / "explorer").rglob("*.py")):
        there = statements(path)
        place = path.relative_to(ROOT).as_posix()
        ran, every = counts[room_of(place)]
        counts[room_of(place)] = ran + len(there & lines.get(place, set())), every + len(there)
    return {room: (ran, every) for room, (ran, every) in counts.items() if every}


def table(folder: Path, earlier: Path | None) -> None:
    """Print the share of statements by room, beside an earlier run's."""
    now = by_room(lines_of(folder))
    before = by_room(lines_of(earlier)) if earlier else {}
    total = tuple(map(sum, zip(*now.values(), strict=True)))
    total_before = tuple(map(sum, zip(*before.values(), strict=True))) if before else None
    print(f"| room | statements | {'before | ' if before else ''}covered |\n| --- | ---: | {'---: | ' if before else ''}---: |")
    for room, (ran, every) in [*now.items(), ("all", total)]:
        past = before.get(room, total_before if room == "all" else None)
        print(f"| {room} | {every} | {f'{past[0] / past[1]:.2%} | ' if past else ''}{ran / every:.2%} |")


def lost(folder: Path, earlier: Path) -> None:
    """Print the statements that only the earlier run ran."""
    now, before = lines_of(folder), lines_of(earlier)
    for place in sorted(before):
        path = ROOT / place
        if path.exists():
            texts = path.read_text(encoding="utf-8").split("\n")
            for line in sorted((before[place] - now.get(place, set())) & statements(path)):
                print(f"{place}:{line}: {texts[line - 1].strip()}")


class Covering:
    """Which tests cover a line of the package, from a folder that `run` wrote; the quickest first."""

    def __init__(self, folder: Path) -> None:
        self.data = coverage.CoverageData(str(folder / "lines"))
        self.data.read()
        self.files = {place_of(file): file for file in self.data.measured_files()}
        self.users: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        for file in folder.glob("tests-*.json"):
            known = json.loads(file.read_text(encoding="utf-8"))
            self.seconds |= known["seconds"]
            for context, users in known["users"].items():
                self.users[context] |= set(users)

    def tests(self, place: str, line: int) -> list[str]:
        """The tests that passed and cover a line, themselves or by a fixture or trace; the quickest first."""
        if place not in self.files:
            return []
        waiting = list(self.data.contexts_by_lineno(self.files[place]).get(line, []))
        contexts: set[str] = set()
        while waiting:
            context = waiting.pop()
            if context not in contexts:
                contexts.add(context)
                waiting += self.users.get(context, ())
        return sorted(contexts & set(self.seconds), key=lambda test: (self.seconds[test], test))


def main() -> int:
    """Run the tests, or print what they ran."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table", "lost"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    if asked.what == "run":
        return run(asked.folder, asked.rest)
    earlier = Path(asked.rest[0]) if asked.rest else None
    if asked.what == "lost":
        if earlier is None:
            parser.error("lost takes two folders: FOLDER EARLIER")
        lost(asked.folder, earlier)
    else:
        table(asked.folder, earlier)
    return 0


if __name__ == "__main__":
    sys.exit(main())
