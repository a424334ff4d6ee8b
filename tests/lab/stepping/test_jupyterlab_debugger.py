"""JupyterLab's own debugger, clicked: it lists the file that runs, takes a breakpoint there, stops, and shows the values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.lab.stepping.kernel_sources import PREFIX, listed
from tests.in_lab import KERNEL, Lab

CELLS = (
    """import explorer, torch

def f(x):
    return torch.sin(x) * 2 + 1

t = explorer.trace(f, torch.arange(4.0), target="h100")
s = t.live.as_files("graph")
print("the file is", s.file)
""",
    "returned = s.run()",
    "print('equal:', torch.equal(returned, t.live.result))",
)
IN_NOTEBOOK = """() => {
    const main = [...window.jupyterapp.shell.widgets('main')];
    window.jupyterapp.shell.activateById(main.find((widget) => widget.title.label === 'first.ipynb').id);
}"""


def run_cell(tab: Any) -> None:
    """Run the selected cell and go on to the next, without waiting for its end."""
    tab.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')")


def click_beside(tab: Any, text: str) -> int:
    """Click left of the number of the line that has a text, where an editor has its breakpoints; the number."""
    editor = tab.locator(".cm-editor").filter(has_text="def forward").last
    line = editor.locator(".cm-line", has_text=text).first
    line.wait_for()
    top = line.bounding_box()["y"]
    for number in editor.locator(".cm-lineNumbers .cm-gutterElement").all():
        box = number.bounding_box()
        if box is not None and abs(box["y"] - top) < 3 and number.inner_text().isdigit():
            tab.mouse.click(box["x"] - 4, box["y"] + box["height"] / 2)
            return int(number.inner_text())
    raise AssertionError(f"no number stands beside {text!r}")


def test_a_breakpoint_clicked_in_jupyterlab_stops_the_run(lab: Lab) -> None:
    """The graph's file is opened from "Kernel Sources", a click sets a breakpoint, and a cell stops there with its tensors."""
    with lab.notebook(*CELLS) as tab:
        run_cell(tab)
        tab.locator(".jp-OutputArea-output", has_text="the file is").first.wait_for(timeout=KERNEL)
        tab.locator(".jp-DebuggerBugButton").first.click()
        tab.locator(".jp-Debugger-KernelSources-Filter input").fill(PREFIX)
        source = tab.locator(".jp-DebuggerKernelSource-source", has_text=PREFIX).first
        source.wait_for()
        source.dblclick()
        number = click_beside(tab, "mul + 1")
        tab.locator(".jp-DebuggerBreakpoints-body", has_text=str(number)).wait_for()

        tab.evaluate(IN_NOTEBOOK)
        run_cell(tab)
        tab.locator(".jp-DebuggerCallstack-body", has_text=f".py:{number}").wait_for()
        tab.locator(".jp-DebuggerVariables-toolbar select, .jp-DebuggerVariables select").first.select_option("Locals")
        tab.locator(".jp-DebuggerVariables-body", has_text="mul").first.wait_for()
        tab.evaluate("() => void window.jupyterapp.commands.execute('debugger:continue')")
        tab.wait_for_function("() => !document.querySelector('.jp-DebuggerCallstack-body')?.innerText.includes('.py:')")
        tab.evaluate(IN_NOTEBOOK)
        run_cell(tab)
        tab.locator(".jp-OutputArea-output", has_text="equal: True").wait_for()


def test_a_file_is_listed_until_it_is_removed(tmp_path: Path) -> None:
    """A file has an empty module with it as origin; of two of one name the later stays listed when the earlier goes."""
    first, second = (tmp_path / name / "0_0.dynamo.py" for name in ("a", "b"))
    before = set(sys.modules)
    remove_first = listed([str(first)])
    (name,) = set(sys.modules) - before
    remove_second = listed([str(second)])
    module = sys.modules[name]
    assert name == f"{PREFIX}0_0.dynamo" and not hasattr(module, "__file__")
    assert module.__spec__ is not None and module.__spec__.origin == str(second)
    remove_first()
    assert sys.modules[name] is module
    remove_second()
    assert set(sys.modules) == before


@pytest.mark.compile
def test_outside_a_notebook_nothing_is_listed() -> None:
    """A program's modules stay as they are."""
    import torch

    trace = explorer.trace(torch.sin, torch.ones(2), target="h100")
    with trace.live.as_files("graph"):
        assert not [name for name in sys.modules if name.startswith(PREFIX)]
