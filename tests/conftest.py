"""Fixtures that several test files share: programs, traces replayed from recorded events, pages in a browser."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from explorer.lab.live.function import LiveFunction
from explorer.lab.live.ladders import Ladders
from explorer.model.records import blank
from explorer.model.shared import Source
from explorer.model.values import Artifact, Event, Failure
from explorer.reference.gpus.figures import Target
from explorer.sources.files.trace_file import load_events
from explorer.tracing.traced import Trace
from explorer.tracing.traced.comparison import Comparison, compare
from explorer.tracing.traced.trace import trace_of_events
from explorer.view import page, payload, wire
from explorer.view.widget import worker
from tests.warm import Warm

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


# Processes ---------------------------------------------------------------------------------------------------------------


class WarmPlugin:
    """The process that forks, from when a test first needs it to the end of the run."""

    def __init__(self) -> None:
        self.warm: Warm | None = None
        self.folder = contextlib.ExitStack()

    def get(self) -> Warm | None:
        """The process that forks; None without pidfds or torch, and where coverage is measured: that begins with a process."""
        possible = hasattr(os, "pidfd_open") and importlib.util.find_spec("torch") is not None
        if self.warm is None and possible and "COVERAGE_PROCESS_START" not in os.environ:
            self.warm = Warm(Path(self.folder.enter_context(tempfile.TemporaryDirectory(prefix="warm-"))))
        return self.warm

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Have the kernel of a notebook forked."""
        forking = self.get() if item.path.suffix == ".ipynb" else None
        if forking is None:
            return (yield)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JUPYTER_PATH", str(forking.kernels))
            return (yield)

    def pytest_unconfigure(self) -> None:
        """End it."""
        if self.warm is not None:
            self.warm.close()
        self.folder.close()


@pytest.fixture(scope="session")
def warm(pytestconfig: pytest.Config) -> str:
    """A program that runs Python programs in processes that need not import torch; Python where the system has no such."""
    forking = pytestconfig.pluginmanager.get_plugin("warm").get()
    return forking.python if forking is not None else sys.executable


@pytest.fixture
def warm_python(warm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `warm` run what a test starts, and what explorer starts for it."""
    monkeypatch.setattr(sys, "executable", warm)


# What is sampled ---------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--whole`, which runs every case of the sampled tests, and `--times`."""
    parser.addoption("--whole", action="store_true", help="run every case of the tests that are sampled otherwise")
    parser.addoption("--times", help="the file that adds up the seconds of several runs, for the table at the end")


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
    """Sort the tests into tiers, and check each payload that a test makes against `view/wire.py`, as the front end does."""
    tiers = load(HERE / "tiers.py")
    config.pluginmanager.register(tiers, "tiers")
    config.pluginmanager.register(WarmPlugin(), "warm")
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
    return trace_of_events(*read(name))


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
        return trace_of_events(events, failures, meta, live=LiveFunction(None, ladders=ladders, absent=target))  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def engines() -> Comparison:
    """One linear layer by IREE and by ONNX Runtime, recorded."""
    traces = map(replay_of, ("iree_linear-torch2.13-cpu", "onnxrt_linear-torch2.13-cpu"))
    return compare(*traces, names=("IREE", "ONNX"))


@pytest.fixture(scope="session")
def zoo(pytestconfig: pytest.Config) -> Callable[[str], Trace]:
    """Give a trace of the zoo, such as `zoo("block training h100")`. The first test that asks has it compiled, a fast one too."""
    for package in ("torch", "triton"):
        pytest.importorskip(package, reason=f"{package} is not installed: the traces of the zoo are compiled with it")
    from tests.zoo import zoo_of_checkout

    return zoo_of_checkout(pytestconfig.stash[pytestconfig.pluginmanager.get_plugin("tiers").COMPILES])


@pytest.fixture(scope="session")
def for_h100(zoo: Callable[[str], Trace]) -> Trace:
    """A training step for an absent H100: fusions made, refused and never considered, and library calls."""
    return zoo("block training h100")


@pytest.fixture(scope="session")
def with_source() -> Callable[..., Trace]:
    """Make a trace with one source, and other artifacts where given: `with_source(text, file, first_line, *artifacts)`."""

    def make(text: str, file: str, first_line: int, *others: Artifact) -> Trace:
        data = blank(Source, file=file, first_line=first_line)
        return Trace(artifacts=(Artifact("0/0:source", "source", "0/0", "", "f", "python", text, data=data), *others))

    return make


#: The least share of instructions that lead to a line of the user's: LLVM and ptxas give some of them no line at all.
MIN_LINKED = dict.fromkeys(("llir", "ptx", "amdgcn", "sass"), 0.85)


@pytest.fixture(scope="session")
def not_covered() -> Callable[[Trace], list[tuple[str, str, float]]]:
    """List the (stage, graph, share) of a trace that are not covered: wholly down to TTGIR, nearly below it."""

    def rows(trace: Trace) -> list[tuple[str, str, float]]:
        found = [(row["stage"], row["graph"], row["share"]) for row in trace.coverage() if row["counted"]]
        return [row for row in found if row[2] < MIN_LINKED.get(row[0], 1.0)]

    return rows


@pytest.fixture
def tried_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits are tried in the process of the test: its subject is what stands or is shown afterwards."""
    from tests.trials import try_in_this_process

    try_in_this_process(monkeypatch)


# The browser -------------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note whether a phase of the test failed, for the fixtures that end after it."""
    from tests.tabs import FAILED

    report: Any = yield
    if report.when == "setup" or report.failed:
        item.stash[FAILED] = report.failed
    return report


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


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], Path]:
    """Give the file with the page of a trace or comparison, written once: `saved(trace)`."""
    from tests.tabs import Pages

    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def tabs_of_module(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The tabs that the tests of a module use one after the other."""
    from tests.tabs import Tabs

    tabs = Tabs(browser, tmp_path_factory.mktemp("tabs"))
    yield tabs
    tabs.close()


@pytest.fixture
def tabs(tabs_of_module: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Give empty tabs: `tabs(viewport=…, color_scheme="dark")`; no page may raise an error or request anything of a network."""
    with tabs_of_module.lent_to(request.node) as lent:
        yield lent
        lent.leave()
        assert lent.raised == []
        assert lent.requested_outside == []


@pytest.fixture
def opened(tabs_of_module: Any, saved: Callable[[Any], Path], request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Open a trace's saved page at its texts; it must log nothing on the console, raise no error and request nothing else."""
    files: set[str] = set()

    def open_page(trace: Trace, fragment: str = "#view=code", **settings: object) -> Any:
        address = saved(trace).as_uri()
        files.add(address)
        tab = lent(**settings)
        tab.goto(f"{address}{fragment}")
        tab.wait_for_selector("#explorer[data-state]")
        return tab

    with tabs_of_module.lent_to(request.node) as lent:
        yield open_page
        lent.leave()
        assert lent.logged == []
        assert lent.requested <= files


@pytest.fixture
def shown(tabs: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Show HTML in a tab: `shown(text, java_script_enabled=False)`."""

    def show(text: str, fragment: str = "", **settings: Any) -> Any:
        file = tmp_path / "shown.html"
        file.write_text(text, encoding="utf-8")
        tab = tabs(viewport={"width": 1400, "height": 900}, **settings)
        tab.goto(f"{file.as_uri()}{fragment}")
        return tab

    return show


@pytest.fixture(scope="session")
def jupyter(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """JupyterLab's server, one for all tests of a worker; it serves Notebook 7 too where it is installed."""
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: pip install jupyterlab")
    from tests.in_lab import serving

    forking = pytestconfig.pluginmanager.get_plugin("warm").get()
    with serving(tmp_path_factory.mktemp("jupyter"), forking.kernels if forking is not None else None) as server:
        yield server


@pytest.fixture
def lab(jupyter: Any, browser: Any) -> Iterator[Any]:
    """JupyterLab with a folder of the test's own: `lab.notebook(*cells)` is a notebook's page; its kernel ends with the test."""
    from tests.in_lab import Lab

    folder = jupyter.new_folder()
    yield Lab(jupyter, browser, folder)
    jupyter.end_kernels(folder)
