"""The sliders of a probe in JupyterLab: one that is moved calls the function, and the table says which guard failed."""

from __future__ import annotations

import re
from typing import Any

from tests.in_lab import KERNEL, Lab, run

CELLS = (
    """import explorer, torch

def f(x, n=2):
    return torch.relu(x) * n

s = explorer.vary(f, torch.randn(8, 4), backend="eager", variations=[]).sliders()
s
""",
)


def moved(tab: Any, name: str, key: str) -> None:
    """Press a key on the handle of the slider of that name."""
    handle = tab.locator(".widget-slider", has_text=name).locator(".noUi-handle")
    handle.focus()
    handle.press(key)


def test_a_moved_slider_shows_the_guard_that_failed(lab: Lab) -> None:
    """A size is compiled anew, by the guard on it; the old size is served; a type fails another guard; afresh begins again."""
    with lab.notebook(*CELLS) as tab:
        tab.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-cell')")
        said = tab.locator(".jp-OutputArea-output p b").first
        said.get_by_text("compiled").wait_for(timeout=KERNEL)
        table = tab.locator(".jp-OutputArea-output table").last

        moved(tab, "x.size(0)", "ArrowRight")
        said.get_by_text(re.compile(r"x\.size\(0\) = 9\b.*recompiled.*0/1")).wait_for()
        assert "size mismatch at index 0. expected 8, actual 9" in table.inner_text()
        moved(tab, "x.size(0)", "ArrowRight")
        said.get_by_text(re.compile(r"x\.size\(0\) = 10\b.*served.*0/1")).wait_for()
        moved(tab, "n", "ArrowRight")
        said.get_by_text(re.compile(r"x\.size\(0\) = 10, n = 3\b.*recompiled.*0/2")).wait_for()
        assert "n == 2" in table.inner_text()
        tab.locator(".widget-dropdown", has_text="x.dtype").locator("select").select_option("float64")
        said.get_by_text("x.dtype = 'float64'").wait_for()
        assert "tensor 'x' dtype mismatch. expected Float, actual Double" in table.inner_text()
        tab.get_by_role("button", name="begin afresh").click()
        tab.wait_for_function("() => document.querySelectorAll('.jp-OutputArea-output table tbody tr').length === 1")
        assert run(tab, "[each.value for each in s.controls.values()][:2]") == [8, 4]
