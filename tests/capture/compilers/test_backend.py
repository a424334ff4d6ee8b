"""Backends: which are registered, and whether each runs here, which is tried."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.compilers import trials
from explorer.capture.compilers.backend import is_module_compiler, registered, resolve
from explorer.capture.compilers.catalogue import KNOWN
from explorer.capture.compilers.trial_process import tried
from explorer.process import user_cache
from tests.facts import says, untold


@pytest.fixture(autouse=True)
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let the tests remember answers in a folder of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path


@pytest.mark.compile
def test_backends_are_tried_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that works says so, one that cannot run here says why; a second table starts no process."""
    rows = {row["backend"]: row for row in explorer.backends(["eager", "aot_ts", "hidet"], timeout=300)}
    assert rows["eager"]["works"] is True and rows["eager"]["registered"] and not rows["eager"]["why"]
    assert rows["aot_ts"]["works"] is False and "RuntimeError" in rows["aot_ts"]["why"]
    assert (rows["hidet"]["works"], rows["hidet"]["registered"], rows["hidet"]["installed"]) == (False, False, False)
    assert "pip install hidet" in rows["hidet"]["why"]
    monkeypatch.setattr(trials, "tried", None)
    again = explorer.backends(["eager", "aot_ts"])
    assert [row["tried"] for row in again] == [rows[name]["tried"] for name in ("eager", "aot_ts")]


def test_what_is_remembered_is_of_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of any package, or another compiler, has another key."""
    before = trials.key()
    assert before == trials.key()
    monkeypatch.setattr(trials, "installed_distributions", lambda: ("torch==0.1",))
    other = trials.key()
    monkeypatch.setenv("CXX", "another-compiler")
    assert len({before, other, trials.key()}) == 3


def test_the_table_shows_before_the_trials_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows at once what is known, and says which backends are being tried."""

    def slowly(names: Any, limit: float) -> Iterator[dict[str, Any]]:
        shown.wait()
        yield {"registered": ["eager", "mine"]}
        yield from ({"backend": name, "works": True, "why": ""} for name in names)

    shown = threading.Event()
    monkeypatch.setattr(trials, "tried", slowly)
    table = explorer.backends()
    assert table.rows.where(backend="eager")[0]["works"] is None
    tried_now = re.search(r"(?m)^.*\binductor, cudagraphs, eager\b.*$", repr(table))
    assert tried_now and not untold(tried_now[0], str(len(table.rows.where(works=None))), "tried")
    shown.set()
    assert {row["backend"] for row in table.wait()} == {*(known.name for known in KNOWN), "mine"}
    assert table.where(backend="mine")[0]["works"] is True and not re.search("inductor, cudagraphs, eager", repr(table))


def test_each_row_is_given_as_soon_as_its_backend_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first can be read while the second is tried, which ends only when the first has been read."""

    def slowly(names: Any, limit: float) -> Iterator[dict[str, Any]]:
        yield {"registered": list(names)}
        for event, name in zip((asked, read), names, strict=True):
            assert event.wait(60)
            yield {"backend": name, "works": True, "why": ""}

    asked, read = threading.Event(), threading.Event()
    monkeypatch.setattr(trials, "tried", slowly)
    rows = explorer.backends(["eager", "inductor"]).as_tried()
    threading.Timer(0.05, asked.set).start()
    assert next(rows)["backend"] == "eager"
    read.set()
    assert [row["backend"] for row in rows] == ["inductor"]


def test_a_damaged_file_is_no_answer(remembered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend whose answer cannot be read is tried again."""
    file = user_cache.directory() / f"backends-{trials.key()}.json"
    file.parent.mkdir()
    file.write_text("{", encoding="utf-8")
    monkeypatch.setattr(trials, "tried", lambda names, limit: iter([{"backend": n, "works": True, "why": ""} for n in names]))
    assert explorer.backends(["eager"])[0]["works"] is True
    assert json.loads(file.read_text(encoding="utf-8"))["eager"]["works"] is True


def test_every_registered_backend_is_known() -> None:
    """Debugging backends and those that explorer brings are listed too."""
    assert {"inductor", "eager", "aot_eager", "iree", "onnxrt"} <= set(registered())


def test_a_backend_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch, remembered: Path) -> None:
    """The trials have a time limit; a backend without an answer says so, and that is not remembered."""
    monkeypatch.setattr(trials, "GRACE", 0.0)
    (row,) = explorer.backends(["eager"], timeout=0.01)
    assert row["works"] is False
    assert not untold(row["why"], "no answer", "0.01 s")
    assert not list(remembered.rglob("*.json"))


@pytest.mark.compile
@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU torch captures the graph")
def test_cudagraphs_do_not_work_without_a_gpu() -> None:
    """torch runs the graph without capturing it; the row says so in torch's words."""
    works, why = tried("cudagraphs")
    assert not works and not untold(why, "captured", "cpu device")


@pytest.mark.parametrize("name", ["hidet", "ipex", "torch_tensorrt"])
def test_a_backend_that_is_not_installed_says_what_it_is(name: str) -> None:
    """A user who names it learns what it is and what to install, and is offered no name that is spelled alike."""
    known = next(known for known in KNOWN if known.name == name)
    if known.installed:
        pytest.skip(f"{known.package} is installed")
    with pytest.raises(explorer.errors.InputError, match=says(repr(name), known.what, "pip install")):
        resolve(name)


def test_module_compilers_are_told_from_backends() -> None:
    """One required parameter is a compiler of modules; two are a backend; a name is neither."""
    assert is_module_compiler(lambda module: module)
    assert not is_module_compiler(lambda graph, inputs: graph)
    assert not is_module_compiler(lambda *args: args)
    assert not is_module_compiler("inductor")
