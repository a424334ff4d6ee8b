"""A program in a notebook: its lines are of cells, named as the notebook names them, wherever the view shows one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.analysis.questions.memory import memory_of
from explorer.tracing.traced import Trace
from explorer.view import page
from explorer.view.payload import payload
from tests.facts import untold
from tests.in_tab import show
from tests.tabs import to_view

pytestmark = pytest.mark.compile

#: Runs cells as a kernel of a notebook does, by IPython with ipykernel's names of files; the last one saves the trace.
RUN = """
import ast, sys
from IPython.core.interactiveshell import InteractiveShell
from ipykernel.compiler import XCachingCompiler

shell = InteractiveShell.instance(compiler_class=XCachingCompiler)
for cell in (*ast.literal_eval(sys.argv[2]), f"t.save({sys.argv[1]!r})"):
    shell.run_cell(cell, store_history=True).raise_error()
"""
CELLS = (
    "import torch, explorer",
    "def f(x):\n    y = torch.sin(x) + 1\n    return y @ y",
    "t = explorer.trace(f, torch.randn(32, 32), target='h100')",
)
#: The third cell has no function that is compiled, and calls the one that is.
RECORDED = (
    "import torch, explorer",
    "def f(x):\n    y = torch.sin(x) + 1\n    torch._dynamo.graph_break()\n    return y.cos()",
    "def call(compiled, x):\n    return compiled(x)",
    "with explorer.record() as recording:\n    call(torch.compile(f, backend='eager'), torch.randn(8))\nt = recording.trace",
)


def run(python: str, cells: tuple[str, ...], folder: Path) -> Trace:
    """The trace `t` of these cells, in a process of its own."""
    if importlib.util.find_spec("ipykernel") is None:
        pytest.skip("ipykernel is not installed")
    file = folder / "t.explorer"
    environment = {**os.environ, "IPYTHONDIR": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([python, "-c", RUN, str(file), repr(cells)], check=True, env=environment, timeout=300)
    return explorer.load(file)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory, warm: str) -> Trace:
    """The trace of a function of the second cell."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    return run(warm, CELLS, tmp_path_factory.mktemp("cells"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, warm: str) -> Trace:
    """A recording of a function with a graph break, which a function of another cell calls."""
    return run(warm, RECORDED, tmp_path_factory.mktemp("recorded"))


def temporary(trace: Trace) -> str:
    """The name of the file that stands for the cell."""
    (file,) = {str(a.data["file"]) for a in trace.find("source")}
    assert "ipykernel_" in file
    return Path(file).name


def test_a_source_names_its_cell(trace):
    """The title of the source has the name that the notebook shows beside the cell."""
    assert [a.title for a in trace.find("source")] == ["f (In[2]:1)"]


def test_no_user_line_of_the_payload_names_a_temporary_file(trace):
    """Tooltips, the memory table, titles and rows say In[2]; the texts of the compiler are left as they are."""
    made, name = payload(trace), temporary(trace)
    assert name in "".join(a.text for a in trace.artifacts), "what torch wrote has it"
    shown = [made["strings"], made["memory"], made["failures"], [{**a, "text": "", "before": ""} for a in made["artifacts"]]]
    assert name not in str(shown)
    assert {line for row in made["memory"]["table"] for line in row["lines"]} == {"In[2]:2", "In[2]:3"}
    assert "In[2]:2 in f" in made["strings"]
    assert "In[2]:2" in page.static_summary(trace) and name not in page.static_summary(trace).partition("<details")[0]


def test_the_view_names_cells(opened, trace):
    """The memory table's user lines, the tooltip of a line of the graph, and the program's heading."""
    tab = opened(trace)
    memory = show(tab, "Memory").get_by_role("table").first.inner_text()
    assert "In[2]:2" in memory and "ipykernel" not in memory
    guards = show(tab, "Guards").inner_text()
    assert temporary(trace) not in guards
    show_code(tab)
    assert "f (In[2]:1)" in tab.locator(".pane select").first.evaluate("one => one.selectedOptions[0].textContent")


def test_the_line_of_a_graph_break_is_shown_by_advice(recorded):
    """The verdict names the cell, the line and its code, and in the view it leads to the line."""
    verdict = next(verdict for verdict in recorded.advise() if verdict.kind == "graph break")
    assert [(line.file, line.number, line.code) for line in verdict.lines] == [("In[2]", 3, "torch._dynamo.graph_break()")]
    ((text, line, place, code),) = payload(recorded)["advice"]["verdicts"][0]["lines"]
    assert (place, code) == ("In[2]:3", "torch._dynamo.graph_break()")
    assert payload(recorded)["artifacts"][text]["stage"] == "source" and line == 3


def test_the_cell_that_calls_a_compiled_function_is_named(recorded):
    """Each place of the call: where torch.compile stands, and the line that called it, in a cell without a source."""
    row = next(row for row in recorded.dynamo.functions if row["frame"] == "0/0")
    assert (row["compile_file"], row["compile_line"]) == ("In[4]", 2) and (row["called_file"], row["called_line"]) == ("In[3]", 2)
    (text, *_) = [a.text for a in recorded.find("compile_call")]
    compiled, called = text.splitlines()
    assert not untold(compiled, "In[4]:2") and not untold(called, "In[3]:2", "return compiled(x)")
    (shown, *_) = [a["data"] for a in payload(recorded)["artifacts"] if a["stage"] == "compile_call"]
    assert (shown["file"], shown["called_file"]) == ("In[4]", "In[3]")


def test_a_graph_break_names_its_cell_in_python_too(recorded):
    """Its row, the table as text and as HTML, and its title; the link to the source goes by the file, as before."""
    assert [(row["file"], row["line"]) for row in recorded.dynamo.graph_breaks] == [("In[2]", 3)]
    breaks = recorded.find("graph_break")
    assert [untold(a.title, "In[2]:3") for a in breaks] == [[]]
    rows, table = recorded.dynamo.graph_breaks, recorded.table("graph_break")
    shown = [repr(rows), rows._repr_html_(), repr(table), repr(recorded)]
    assert "ipykernel_" not in "".join(shown) and all("In[2]" in text for text in shown[:3])
    assert [link for link in recorded.links if link.source == breaks[0].id]


def show_code(tab: Any) -> None:
    """Go back to the texts."""
    to_view(tab, "Code")


def test_a_file_is_named_without_its_folders(trace, replayed):
    """Outside of notebooks a user line of the memory table and of a tooltip has the file's name, as the sources' titles have."""
    rotary = replayed("views/rotary-torch2.13-h100")
    lines = [line for row in payload(rotary)["memory"]["table"] for line in row["lines"]]
    assert lines and all(line.startswith("programs.py:") for line in lines)
    assert any("tests/programs.py:" in line for row in memory_of(rotary).table for line in row["lines"]), "t.memory keeps them"
    assert [place for place in payload(rotary)["strings"] if place.startswith("programs.py:")]
