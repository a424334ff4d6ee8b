"""Plug-ins: stages, compilers and checks of other packages, the template of one, and what happens to one that is broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import explorer
from explorer.analysis.advice.verdicts import Check, Cost, Verdict
from explorer.capture.compilers.backend import registered
from explorer.capture.compilers.catalogue import known_backend
from explorer.capture.compilers.compiler import Compiler
from explorer.errors import InputError
from explorer.model.stage import Stage
from explorer.model.values import Artifact
from explorer.process import plugins
from explorer.stages.plugged import with_plugged
from explorer.view.payload import payload
from tests.conftest import replay_of
from tests.facts import says, untold

ROOT = Path(__file__).parents[1]
Installs = Callable[..., None]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installs]:
    """A function that installs plug-ins: a group, and what each of its entry points gives, or the error that it raises."""
    groups: dict[str, list[Any]] = {}

    def install(group: str, **values: Any) -> None:
        def load(value: Any) -> Any:
            if isinstance(value, Exception):
                raise value
            return value

        theirs = SimpleNamespace(name="theirs")
        groups[group] = [SimpleNamespace(name=n, dist=theirs, load=lambda v=v: load(v)) for n, v in values.items()]
        plugins.brought.cache_clear()

    monkeypatch.setattr(plugins, "_entry_points", lambda group: groups.get(group, []))
    yield install
    plugins.brought.cache_clear()


def stage(name: str) -> Stage:
    def render(event: Any, id: str) -> Artifact:
        return Artifact(id, name, event.frame, event.graph, name, "text", "a line", time=event.time)

    def gather(events: Any, frames: Any) -> Any:
        return [type(event)(name, event.time, event.frame, event.graph, {}) for event in events]

    return Stage(name, name.title(), "text", "A stage of theirs.", render, gather=gather, consumes={"dynamo": None})


# The template ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A trace that the template's tests saved, and what pytest said of them: they ran with wheels of explorer and of itself."""
    folder = tmp_path_factory.mktemp("plugin")
    for name in ("explorer", "notebooks", "docs/plugin"):  # the wheel has the notebooks, and the two pages that they link to
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules", "src"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "docs/backends.md", "docs/glossary.md"):
        shutil.copy(ROOT / name, folder / name)
    target, base = folder / "site", folder / "base"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(target)]
    for source in (folder, folder / "docs" / "plugin"):
        subprocess.run([*pip, str(source)], check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    tests = folder / "docs" / "plugin" / "tests"
    pytest_ = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:testmon",
        "-p",
        "no:benchmark",
        "-n",
        "0",
        str(tests),
    ]
    code = f"import explorer; assert explorer.__file__.startswith({str(target)!r}), explorer.__file__"
    environment = {**os.environ, "PYTHONPATH": str(target)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tests, env=environment)
    made = subprocess.run(
        [*pytest_, f"--basetemp={base}", f"--rootdir={tests}"], cwd=tests, env=environment, capture_output=True, text=True
    )
    return next(base.rglob("t.trace"), Path()), made.stdout + made.stderr


@pytest.mark.compile
def test_the_template_passes_its_tests_when_it_is_installed(tried: tuple[Path, str]) -> None:
    """The template's own tests pass with a wheel of explorer and one of the template, not with the checkout."""
    assert "4 passed" in tried[1], tried[1][-3000:]


@pytest.mark.compile
def test_a_trace_of_a_plug_in_opens_without_it(tried: tuple[Path, str], opened: Any) -> None:
    """Where the package is missing, its stage still has its title, sentence, table, coverage and links, also in the page."""
    loaded = explorer.load(tried[0])
    told = next(stage for stage in payload(loaded)["stages"] if stage["name"] == "loads")
    assert (told["title"], told["about"]) == ("Loads", "Each load of the generated kernels, and what masks it.")
    (loads,) = loaded.find("loads")
    rows = loaded.table("loads")
    assert len(rows) == len(loads.lines) > 0 and list(rows[0]) == ["frame", "line", "value", "pointer", "mask"]
    (row,) = loaded.coverage("loads")
    assert row["counted"] == row["linked"] == len(loads.lines)
    assert next(row["changes"] for row in loaded.stages if row["stage"] == "loads") == f"{len(loads.lines)} loads"
    assert opened(loaded).get_by_role("treeitem", name="Loads").count() == 1


# Each group --------------------------------------------------------------------------------------------------------------


@pytest.mark.compile
def test_a_stage_is_observed_without_being_asked_for(installed: Installs) -> None:
    """Stages of plug-ins stand behind explorer's; with stages= given, only those given do."""
    installed("explorer.stages", one=stage("theirs"), several=(stage("first"), stage("second")))
    trace = explorer.trace(torch.sin, torch.randn(4), backend="eager")
    assert [trace.text(name) for name in ("theirs", "first", "second")] == ["a line"] * 3
    assert [each.name for each in with_plugged(None)][-3:] == ["theirs", "first", "second"]
    assert with_plugged((stage("mine"),))[0].name == "mine"


@pytest.mark.compile
def test_a_broken_plug_in_is_a_named_failure(installed: Installs) -> None:
    """One that cannot be loaded, is of another type or takes a name of explorer's is left out; the trace says so."""
    absent = ImportError("no module named m")
    installed("explorer.stages", absent=absent, text="a text", taken=stage("dynamo"), sound=stage("theirs"))
    installed("explorer.compilers", other=3)
    trace = explorer.trace(torch.sin, torch.randn(4), backend="eager")
    assert trace.text("theirs") == "a line"
    told = [failure.message for failure in trace.failures if failure.stage == "plugin"]
    of_stages = (("absent", "theirs", "no module named m"), ("text", "str", "Stage"), ("taken", "dynamo"))
    facts = (*of_stages, ("other", "int", "Compiler"))
    assert [untold(message, *each) for message, each in zip(told, facts, strict=True)] == [[]] * 4


def test_a_check_is_asked_of_each_trace(installed: Installs) -> None:
    """Its verdict stands among explorer's, with the user lines of its places; a check that raises is named."""

    def ask(trace: Any) -> Iterator[Verdict]:
        kernel = trace.find("kernel")[0]
        places = tuple((kernel.id, number) for number in range(1, len(kernel.lines) + 1))
        yield Verdict("theirs", "a kernel", Cost(1.0, "estimated", "assumed"), "it is there", "look at it", places=places)

    def fail(trace: Any) -> Iterator[Verdict]:
        raise KeyError("mine")
        yield

    installed("explorer.checks", one=Check("theirs", ask), other=Check("failing", fail), absent=ImportError("no module named m"))
    trace = replay_of("views/rotary-torch2.13-h100")
    advice = trace.advise()
    (verdict,) = [verdict for verdict in advice.verdicts if verdict.kind == "theirs"]
    assert verdict.lines and all(line.file.endswith(".py") for line in verdict.lines)
    assert not untold(advice.about, "Not asked about failing", "KeyError", "absent", "no module named m")
    assert "theirs" in [each["kind"] for each in payload(trace)["advice"]["verdicts"]]


@pytest.mark.compile
def test_a_compiler_is_a_backend_by_name(installed: Installs) -> None:
    """`backend=` takes its name, the list of backends has its package, and one whose modules are missing says which."""

    def backend(emit: Any, options: Any) -> Any:
        def compile_graph(gm: Any, inputs: Any) -> Any:
            emit("theirs", lambda: {"text": "compiled"})
            return gm.forward

        return compile_graph

    def compiler(name: str, module: str) -> Compiler:
        return Compiler(name, "Theirs", "a compiler", "", (module,), backend, ("theirs",), {})

    installed("explorer.compilers", one=compiler("theirs", "torch"), other=compiler("lacking", "no_such_module"))
    text = stage("theirs")
    installed("explorer.stages", one=Stage(text.name, text.title, "text", "", text.render))
    trace = explorer.trace(torch.sin, torch.randn(4), backend="theirs")
    assert trace.text("theirs") == "a line" and [row["equal"] for row in trace.check()] == [True]
    assert {"theirs", "lacking"} <= set(registered())
    known = known_backend("theirs")
    assert known is not None and (known.package, known.what) == ("theirs", "Theirs, a compiler")
    with pytest.raises(InputError, match=says("lacking", "no_such_module")):
        explorer.trace(torch.sin, torch.randn(4), backend="lacking")


def test_a_backend_of_another_package_is_said_to_be_its(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch finds by an entry point is that package's, and not one of PyTorch's own; the package is not imported."""
    point = SimpleNamespace(name="swift", dist=SimpleNamespace(name="swift-compiler"))
    monkeypatch.setattr(plugins, "_entry_points", lambda group: [point] if group == "torch_dynamo_backends" else [])
    known = known_backend("swift")
    assert known is not None and not untold(known.what, "swift-compiler") and known_backend("aot_eager_nothing") is None
