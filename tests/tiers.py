"""The tiers of the tests, by what a test needs, and the table at the end of a run: seconds by tier, and the slowest tests.

A test belongs to the first tier of `TIERS` whose marker it has. One without a marker is `fast`: it reads recorded events or a
trace of the zoo (`zoo.py`), and fails if anything is compiled while it runs. The fixture `browser` is a marker too.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: Marker → what its tests need, as `pytest --markers` prints it.
TIERS = {
    "benchmarks": "runs a script of benchmarks/",
    "docs": "builds the site, or runs guides, notebooks or the check of binder/",
    "browser": "drives a browser",
    "compile": "compiles a program of its own, or starts a process",
}
#: How many of the slowest tests the table has.
SLOWEST = 40
#: What the marker `smoke` says.
SMOKE = "a test of the tier `compile` that `make test` runs too: each verb once"
#: The compiles that began while the current test ran.
COMPILES = pytest.StashKey[list[str]]()


def tier_of(item: pytest.Item) -> str:
    """The tier of a test."""
    return next((tier for tier in TIERS if item.get_closest_marker(tier)), "fast")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and keep the times where this process prints them."""
    for tier, needs in (*TIERS.items(), ("fast", "none of those; given to each test without a tier"), ("smoke", SMOKE)):
        config.addinivalue_line("markers", f"{tier}: {needs}")
    config.stash[COMPILES] = []
    if not hasattr(config, "workerinput"):
        file = config.getoption("--times")
        config.pluginmanager.register(Times(Path(file) if file else None))


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses the browser, and what has no tier; a report carries its test's tier.

    A test of the tier `browser` that fails is run once more, and listed as unstable.
    """
    reruns = config.pluginmanager.hasplugin("rerunfailures")
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if item.path.suffix == ".ipynb":
            item.add_marker("docs")
        tier = tier_of(item)
        if tier == "fast":
            item.add_marker("fast")
        if tier == "browser" and reruns:
            item.add_marker(pytest.mark.flaky(reruns=1))
        item.user_properties.append(("tier", tier))


# A fast test compiles nothing --------------------------------------------------------------------------------------------


class Kept(list[Any]):
    """Dynamo's callbacks at the start of a compile; the first of them stays when `torch._dynamo.reset()` clears the others."""

    def clear(self) -> None:
        """Remove all but the first."""
        del self[1:]


def watch(compiles: list[str]) -> None:
    """Have Dynamo note in a list where a compile starts; once is enough."""
    from torch._dynamo.callback import callback_handler

    if not isinstance(callback_handler.start_callbacks, Kept):
        callback_handler.start_callbacks = Kept([lambda args: compiles.append(str(args)), *callback_handler.start_callbacks])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Begin a test without compiles, and with the same random numbers whatever ran before it."""
    item.config.stash[COMPILES].clear()
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
        watch(item.config.stash[COMPILES])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a fast test for which something was compiled, in its fixtures too."""
    if "torch" in sys.modules:
        watch(item.config.stash[COMPILES])
    result = yield
    if tier_of(item) == "fast" and item.config.stash[COMPILES]:
        pytest.fail("this test compiles: mark it `compile`, or have it read recorded events or a trace of the zoo", pytrace=False)
    return result


# The table ---------------------------------------------------------------------------------------------------------------


class Times:
    """The seconds of each test, and the tests that were run again. With a file, the seconds of the runs before too."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.seconds: Counter[tuple[str, str]] = Counter()
        #: Test → the reports of its failures after which it was run once more, and how it ended.
        self.unstable: dict[str, list[pytest.TestReport]] = {}
        if file is not None and file.exists() and file.stat().st_size:
            self.seconds.update({(tier, test): seconds for tier, test, seconds in json.loads(file.read_text(encoding="utf-8"))})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test: its setup with the fixtures that it makes, its call, or its teardown."""
        self.seconds[dict(report.user_properties).get("tier", "fast"), report.nodeid] += report.duration
        if report.outcome == "rerun" or (report.failed and report.nodeid in self.unstable):
            self.unstable.setdefault(report.nodeid, []).append(report)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table and write the file."""
        if self.file is not None:
            rows = [(tier, test, seconds) for (tier, test), seconds in self.seconds.items()]
            self.file.write_text(json.dumps(rows), encoding="utf-8")
        if self.unstable:
            terminalreporter.section("UNSTABLE: tests of the browser that failed and were run once more", red=True, bold=True)
            for test, (first, *again) in self.unstable.items():
                reason = str(getattr(getattr(first.longrepr, "reprcrash", None), "message", first.longrepr)).partition("\n")[0]
                terminalreporter.write_line(f"UNSTABLE {test} {'failed again' if again else 'then passed'}: {reason}")
        terminalreporter.section(f"seconds of the workers by tier, and the {SLOWEST} slowest tests")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> Iterator[str]:
        """The lines of the table."""
        for tier in ("fast", *TIERS):
            tests = [seconds for (its, _), seconds in self.seconds.items() if its == tier]
            if tests:
                yield f"{sum(tests):8.1f} s  {tier}: {len(tests)} tests"
        for (tier, test), seconds in self.seconds.most_common(SLOWEST):
            yield f"{seconds:8.1f} s  {tier}: {test}"
