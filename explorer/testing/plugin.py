"""The pytest plugin: the fixture `compiled`, which traces and compares with stored expectations, and `--explorer-update`.

    def test_block(compiled):
        t = compiled(block, x, target="h100")   # an explorer.Trace
        compiled.check(t)                       # as stored in __explorer__/, which `pytest --explorer-update` writes

pytest imports this in every project that has explorer installed, so it imports pytest alone: neither torch nor the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from explorer.tracing.traced import Trace

#: The property of a test's report that names a file which it stored; it comes from the processes of pytest-xdist too.
STORED = "explorer_stored"


class Compiled:
    """What the fixture gives: called, it is `explorer.trace`; `check` compares a trace with what is stored for this test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._names: set[str] = set()

    def __call__(self, fn: Callable[..., Any], *args: Any, **settings: Any) -> Trace:
        """Trace one call of `fn`; the settings are those of `explorer.trace`, such as `target="h100"`."""
        from explorer.tracing.recording.trace import trace

        with trace_log_not_captured():
            return trace(fn, *args, **settings)

    def check(self, trace: Trace, name: str = "") -> None:
        """Assert that a trace compiled what is stored for this test; with `--explorer-update` store it.

        Compared are graphs, graph breaks, recompiles, the nodes that each kernel computes, calls of libraries and fallbacks,
        spills, the peak memory and failures. `name` tells several traces of one test apart. ContractError lists the
        differences, and says so where nothing is stored, or only for another version of torch.
        """
        __tracebackhide__ = True
        from explorer.errors import InputError
        from explorer.testing import stored

        if name in self._names:
            raise InputError(f"{name!r} is checked twice in one test: give each trace a name, compiled.check(t, name='second')")
        self._names.add(name)
        node = self._request.node
        path = stored.file_of(Path(node.path), node.nodeid.partition("::")[2].replace("::", "."), name)
        if not self._request.config.getoption("--explorer-update"):
            stored.compare(path, trace)
        elif stored.update(path, trace):
            node.user_properties.append((STORED, str(path)))


@contextmanager
def trace_log_not_captured() -> Iterator[None]:
    """Keep torch's structured log out of what pytest shows of a failed test: hundreds of records without a text.

    From version 9 pytest captures loggers too that do not propagate.
    """
    log = logging.getLogger("torch.__trace")
    captured = [handler for handler in log.handlers if type(handler).__module__ == "_pytest.logging"]
    for handler in captured:
        log.removeHandler(handler)
    try:
        yield
    finally:
        for handler in captured:
            log.addHandler(handler)


@pytest.fixture
def compiled(request: pytest.FixtureRequest) -> Compiled:
    """Trace a function with `compiled(fn, *args, target="h100")`; compare with stored expectations by `compiled.check(trace)`."""
    return Compiled(request)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--explorer-update`."""
    group = parser.getgroup("explorer", "torch-compile-explorer")
    group.addoption("--explorer-update", action="store_true", help="store what is compiled now as what compiled.check expects")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the files that were stored."""
    reports = (report for reports in terminalreporter.stats.values() for report in reports)
    properties = (pair for report in reports for pair in getattr(report, "user_properties", ()))
    for path in sorted({str(value) for key, value in properties if key == STORED}):
        terminalreporter.write_line(f"explorer: stored {path}")
