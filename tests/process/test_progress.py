"""Progress: it shows the phase under way where somebody watches, and is silent elsewhere."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest
import torch

import explorer
from explorer.process import progress
from tests.facts import untold
from tests.in_tab import until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.compile
def test_a_terminal_is_shown_the_phase_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal names the phase, its start, the compile and the function while it lasts; then the line is cleared."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    drawn = re.compile(r"compiling f: backend_compile since \d\d:\d\d:\d\d, in 0/0 f \(test_progress\.py:\d+\)")

    def hangs(graph: Any, inputs: Any) -> Any:
        until(lambda: len(drawn.findall(terminal.getvalue())) > 1)
        return graph

    def f(x: torch.Tensor) -> torch.Tensor:
        until(lambda: not untold(terminal.getvalue(), "compiling f"))
        return x.sin()

    explorer.trace(f, torch.randn(3), backend=hangs)
    assert terminal.getvalue().rstrip(" ").endswith("\r")


@pytest.mark.compile
def test_between_compiles_the_terminal_is_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a recorded program the line is cleared when a compile is over, and no thread draws it until the next one."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with explorer.record():
        torch.compile(torch.sin, backend="eager")(torch.randn(3))
        assert terminal.getvalue().rstrip(" ").endswith("\r")
        assert "explorer-progress" not in {thread.name for thread in threading.enumerate()}


def test_a_log_has_a_line_of_a_phase_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `explorer trace` a stderr that is no terminal gets a line of a long phase; a short one leaves none."""
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with progress.logged(), progress.progress("train.py") as show:
        assert show is not None
        show("lowering")
        monkeypatch.setattr(progress, "QUIET", 0.0)
        show("kernel a, 1 of 2")
        until(lambda: "explorer: compiling train.py: kernel a, 1 of 2\n" in log.getvalue())
    assert "lowering" not in log.getvalue()


@pytest.mark.compile
def test_phases_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase that begins is told by its name, and the end of the compile by an empty one."""
    told: list[str] = []
    from contextlib import contextmanager

    @contextmanager
    def watching(label: str):  # type: ignore[no-untyped-def]
        yield told.append

    monkeypatch.setattr("explorer.tracing.recording.trace.progress", watching)
    explorer.trace(torch.sin, torch.randn(3), backend="aot_eager")
    assert {"Dynamo (bytecode_tracing)", "backend_compile", "Dynamo (build_guards)"} <= {
        each.partition(" since ")[0] for each in told
    }
    assert told[-1] == ""


@pytest.mark.compile
def test_a_compile_that_is_stopped_says_what_it_was_doing() -> None:
    """Ctrl+C during a compile raises KeyboardInterrupt with one note: the compile and the innermost phase; else there is none."""

    def hangs(graph: Any, inputs: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        explorer.trace(torch.sin, torch.randn(3), backend=hangs)
    (note,) = stopped.value.__notes__
    assert re.match(r"explorer: stopped while compiling 0/0 \w+ \(\w+\.py:\d+\): it was in backend_compile for ", note), note

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
