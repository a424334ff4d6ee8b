"""Progress: it shows the phase under way where somebody watches, and is silent elsewhere."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest
import torch
from tqdm.auto import tqdm

import explorer
from explorer.process import progress
from tests.facts import untold


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class AtOnce(tqdm):
    """A bar that is drawn at each phase, however soon it comes after the last."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, mininterval=0)


@pytest.mark.compile
def test_a_terminal_is_shown_the_phase_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal the compiler's phases are named while they run, and the line is cleared at the end."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("tqdm.auto.tqdm", AtOnce)
    explorer.trace(torch.sin, torch.randn(3), backend="aot_eager")
    assert any(not untold(line, "sin", "backend_compile") for line in terminal.getvalue().split("\r"))
    assert terminal.getvalue().rstrip(" ").endswith("\r")


@pytest.mark.compile
def test_phases_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase that begins is told by its name, once."""
    told: list[str] = []
    from contextlib import contextmanager

    @contextmanager
    def watching(label: str):  # type: ignore[no-untyped-def]
        yield told.append

    monkeypatch.setattr("explorer.tracing.recording.trace.progress", watching)
    explorer.trace(torch.sin, torch.randn(3), backend="aot_eager")
    assert {"bytecode_tracing", "backend_compile", "build_guards"} <= set(told)
    assert told.count("backend_compile") == 1


@pytest.mark.compile
def test_a_compile_that_is_stopped_says_what_it_was_doing() -> None:
    """Ctrl+C during a compile raises KeyboardInterrupt with one note: the compile and the innermost phase; else there is none."""

    def hangs(graph: Any, inputs: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        explorer.trace(torch.sin, torch.randn(3), backend=hangs)
    (note,) = stopped.value.__notes__
    assert note.startswith("explorer: stopped while compiling 0/0: it was in backend_compile for ")

    def hangs_later(x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        explorer.trace(torch.sin, torch.randn(3), backend=lambda graph, inputs: hangs_later)
    assert not hasattr(stopped.value, "__notes__")


def test_nobody_watching_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stderr is no terminal there is no function to call."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.progress("f") as show:
        assert show is None


#: Runs a cell in a kernel and prints its outputs as JSON.
RUN = """
import json, nbclient, nbformat
code = "import explorer, torch\\nx = explorer.trace(torch.sin, torch.randn(3), backend='aot_eager')"
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
print(json.dumps([output["data"] for output in book.cells[0].outputs if output["output_type"] == "display_data"]))
"""


@pytest.mark.compile
@pytest.mark.skipif(find_spec("nbclient") is None, reason="nbclient is not installed: it comes with jupyterlab")
def test_a_notebook_keeps_no_widget_that_is_gone() -> None:
    """In a notebook the bar is an output while it runs, and empty afterwards: a saved notebook has no closed widget in it."""
    said = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True).stdout
    assert json.loads(said.splitlines()[-1]) == [{"text/html": "", "text/plain": ""}]


def test_a_program_that_imports_ipykernel_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that starts kernels for others imports ipykernel and IPython; its own outputs are text."""
    pytest.importorskip("IPython")
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert not progress.in_notebook()
