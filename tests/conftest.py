"""Fixtures that several test files share: programs, traces replayed from recorded events, pages in a browser."""

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
from explorer.gpus.figures import Target
from explorer.live.function import LiveFunction
from explorer.live.ladders import Ladders
from explorer.model.artifacts import Source
from explorer.model.records import blank
from explorer.model.values import Artifact, Event, Failure
from explorer.traced import Trace
from explorer.traced.comparison import Comparison, compare
from explorer.widget import worker

HERE = Path(__file__).parent
#: The browser that shows what a browser must show.
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
    """Load a file as a module, by its path: scripts, and files of the tests that hold no tests."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def module_at() -> Callable[[Path], ModuleType]:
    """Give the function that loads a file as a module, by its path."""
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
    """Keep a sample of the cases of each test marked `sampled`: every value of every parameter at least once.

    Of what is marked `whole` nothing is kept.
    """
    if config.getoption("--whole"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {item.nodeid for group in cases.values() for item in covering(group)}
    left_out = [item for group in cases.values() for item in group if item.nodeid not in kept]
    left_out += [item for item in items if item.get_closest_marker("whole")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        names = {item.nodeid for item in left_out}
        items[:] = [item for item in items if item.nodeid not in names]


def covering(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Choose few cases of one test that together have every value of every parameter; always the same ones.

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
    """Check every payload that a test makes against the shape in `explorer/wire.py`, as the front end reads it."""
    config.addinivalue_line("markers", "sampled: run few of its cases, with every value of every parameter; `--whole` runs all")
    config.addinivalue_line("markers", "whole: run with `--whole` only")
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
    """Read the events file `data/NAME.events.json.gz`."""
    return load_events((HERE / "data" / f"{name}.events.json.gz").read_bytes(), name)


@cache
def replay_of(name: str) -> Trace:
    """Replay the events file `data/NAME.events.json.gz`."""
    return Trace.of_events(*read(name))


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Recorded]:
    """Give the events, failures and meta of a recording, such as `recorded("sin_cos-torch2.13-cpu")`."""
    return read


@pytest.fixture(scope="session")
def replayed() -> Callable[[str], Trace]:
    """Give the trace of a recording, such as `replayed("sin_cos-torch2.13-cpu")`, made once."""
    return replay_of


@pytest.fixture(scope="session")
def rotary() -> Trace:
    """The recording of a transformer's block in five functions, compiled for an absent H100."""
    return replay_of("views/rotary-torch2.13-h100")


@pytest.fixture(scope="session")
def tuned() -> Callable[[str], Trace]:
    """The trace of a recording with choices, and the process that compiled as far as it knows their sources."""

    def make(name: str) -> Trace:
        events, failures, meta = read(name)
        target = None if meta["target"] == "cpu" else Target.parse(str(meta["target"]))
        ladders = Ladders(target=target).with_choices(events)
        return Trace.of_events(events, failures, meta, live=LiveFunction(None, ladders=ladders, absent=target))  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def engines() -> Comparison:
    """One linear layer by IREE and by ONNX Runtime, recorded."""
    traces = map(replay_of, ("iree_linear-torch2.13-cpu", "onnxrt_linear-torch2.13-cpu"))
    return compare(*traces, names=("IREE", "ONNX"))


@pytest.fixture(scope="session")
def for_h100() -> Trace:
    """A training step compiled now for an absent H100: fusions made, refused and never considered, and library calls."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    import torch
    from torch import nn

    import explorer
    from tests.programs import Block

    torch.manual_seed(0)
    return explorer.trace(nn.Sequential(Block(), Block()), torch.randn(8, 32), target="h100", train=True)


@pytest.fixture(scope="session")
def with_source() -> Callable[..., Trace]:
    """Make a trace with one source, and other artifacts where given: `with_source(text, file, first_line, *artifacts)`."""

    def make(text: str, file: str, first_line: int, *others: Artifact) -> Trace:
        data = blank(Source, file=file, first_line=first_line)
        return Trace(artifacts=(Artifact("0/0:source", "source", "0/0", "", "f", "python", text, data=data), *others))

    return make


#: The least share of instructions that lead to a line of the user's: LLVM and ptxas give some of them no line at all.
LEAST = dict.fromkeys(("llir", "ptx", "amdgcn", "sass"), 0.85)


@pytest.fixture(scope="session")
def not_covered() -> Callable[[Trace], list[tuple[str, str, float]]]:
    """List the (stage, graph, share) of a trace that are not covered: wholly down to TTGIR, nearly below it."""

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
    """Open a trace's saved page; it must log nothing on the console, raise no error and request nothing beyond the file."""
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


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Show HTML in a tab: `shown(text, java_script_enabled=False)`; it must ask nothing of a network and raise no error."""
    asked: list[str] = []
    raised: list[str] = []
    contexts = []

    def show(text: str, fragment: str = "", **settings: Any) -> Any:
        file = tmp_path / "shown.html"
        file.write_text(text, encoding="utf-8")
        context = browser.new_context(viewport={"width": 1400, "height": 900}, **settings)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(20_000)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: raised.append(str(error)))
        tab.goto(f"{file.as_uri()}{fragment}")
        return tab

    yield show
    for context in contexts:
        context.close()
    assert raised == []
    assert {url.partition(":")[0] for url in asked} <= {"file", "blob", "data"}, "no network"
