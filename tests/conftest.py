"""What several tests need: the programs, and the traces replayed from recorded events."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from explorer import page, payload, wire
from explorer.files.trace_file import load_events
from explorer.model.artifacts import Source
from explorer.model.records import blank
from explorer.model.values import Artifact, Event, Failure
from explorer.traced import Trace
from explorer.widget import worker

HERE = Path(__file__).parent
#: One headless chromium is asked for everything that a browser must show.
CHROMIUM = next((p for p in map(Path, ("/usr/bin/chromium", "/usr/bin/google-chrome")) if p.exists()), Path("/usr/bin/chromium"))
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Recorded = tuple[list[Event], list[Failure], dict[str, object]]


def load(path: Path) -> ModuleType:
    """A file as a module, by its path: scripts, and files of the tests that are no tests."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def module_at() -> Callable[[Path], ModuleType]:
    """What loads a file as a module, by its path."""
    return load


@pytest.fixture(scope="session")
def programs(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The module `programs.py`, loaded by its path."""
    return module_at(HERE / "programs.py")


# What is sampled ---------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--whole`, which runs every case of the sampled tests."""
    parser.addoption("--whole", action="store_true", help="run every case of the tests that are sampled otherwise")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a sample of the cases of each test marked `sampled`: every value of every parameter at least once."""
    if config.getoption("--whole"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {item.nodeid for group in cases.values() for item in covering(group)}
    left_out = [item for group in cases.values() for item in group if item.nodeid not in kept]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        names = {item.nodeid for item in left_out}
        items[:] = [item for item in items if item.nodeid not in names]


def covering(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Few cases of one test that together have every value of every parameter; always the same ones.

    The next case is the one with the most values that none before it had.
    """
    # one name for each `parametrize` of the test; pytest gives no public way to it
    values = {case.nodeid: set(enumerate(case.callspec._idlist)) for case in cases}  # type: ignore[attr-defined]
    missing, chosen = set().union(*values.values()), []
    while missing:
        best = max(cases, key=lambda case: len(values[case.nodeid] & missing))
        missing -= values[best.nodeid]
        chosen.append(best)
    return chosen


def pytest_configure(config: pytest.Config) -> None:
    """Hold every payload that a test has made to the shape that `explorer/wire.py` gives it, as the front end reads it."""
    config.addinivalue_line("markers", "sampled: run few of its cases, with every value of every parameter; `--whole` runs all")
    check = load(HERE / "wire_types.py").check

    def checked(make: Callable[..., Any], shape: Any) -> Callable[..., Any]:
        @wraps(make)
        def made(*given: Any) -> Any:
            value = make(*given)
            check(json.loads(json.dumps(value)), shape)
            return value

        return made

    payload.payload = page.payload = checked(payload.payload, wire.Payload)
    page.payload_of_comparison = checked(page.payload_of_comparison, wire.Payload)
    payload.addition = worker.addition = checked(payload.addition, wire.Addition)


@cache
def read(name: str) -> Recorded:
    """The events file `data/NAME.events.json.gz`."""
    return load_events((HERE / "data" / f"{name}.events.json.gz").read_bytes(), name)


@cache
def replay_of(name: str) -> Trace:
    """The trace of the events file `data/NAME.events.json.gz`."""
    return Trace.of_events(*read(name))


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Recorded]:
    """Events, failures and meta of a recording, such as `recorded("sin_cos-torch2.13-cpu")`."""
    return read


@pytest.fixture(scope="session")
def replayed() -> Callable[[str], Trace]:
    """The trace of a recording, such as `replayed("sin_cos-torch2.13-cpu")`; made once."""
    return replay_of


@pytest.fixture(scope="session")
def rotary() -> Trace:
    """The recording of a transformer's block in five functions, compiled for an H100 that is not there."""
    return replay_of("views/rotary-torch2.13-h100")


@pytest.fixture(scope="session")
def for_h100() -> Trace:
    """A training step compiled now for an H100 that is not there: fusions made, refused and never considered, and calls."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    import torch
    from torch import nn

    import explorer
    from tests.programs import Block

    torch.manual_seed(0)
    return explorer.trace(nn.Sequential(Block(), Block()), torch.randn(8, 32), target="h100", train=True)


@pytest.fixture(scope="session")
def with_source() -> Callable[..., Trace]:
    """A trace with one source, and other artifacts where given: `with_source(text, file, first_line, *artifacts)`."""

    def make(text: str, file: str, first_line: int, *others: Artifact) -> Trace:
        data = blank(Source, file=file, first_line=first_line)
        return Trace(artifacts=(Artifact("0/0:source", "source", "0/0", "", "f", "python", text, data=data), *others))

    return make


#: The least share of instructions that lead to a line of the user's: LLVM and ptxas give some of them no line at all.
LEAST = dict.fromkeys(("llir", "ptx", "amdgcn", "sass"), 0.85)


@pytest.fixture(scope="session")
def not_covered() -> Callable[[Trace], list[tuple[str, str, float]]]:
    """The (stage, graph, share) of a trace that are not covered: wholly down to TTGIR, nearly below it."""

    def rows(trace: Trace) -> list[tuple[str, str, float]]:
        found = [(row["stage"], row["graph"], row["share"]) for row in trace.coverage() if row["counted"]]
        return [row for row in found if row[2] < LEAST.get(row[0], 1.0)]

    return rows


# The browser -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One headless chromium."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a trace's saved page; at the end no console error, exception or request beyond the file may have been."""
    said: list[str] = []
    asked: list[str] = []
    file = tmp_path / "page.html"
    contexts = []

    def open_page(trace: Trace, fragment: str = "", **settings: object) -> Any:
        page.save(trace, file)
        context = browser.new_context(viewport={"width": 1400, "height": 800}, **settings)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(15_000)
        tab.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: said.append(f"exception: {error}"))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(f"{file.as_uri()}{fragment}")
        tab.wait_for_selector("#explorer[data-state]")
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert {url.partition("#")[0] for url in asked} <= {file.as_uri()}
