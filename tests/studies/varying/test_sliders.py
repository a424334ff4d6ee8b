"""The sliders of a probe: each change calls the function, and a saved notebook keeps the last state."""

from __future__ import annotations

import nbformat
import pytest
import torch
from nbclient import NotebookClient

import explorer
from tests.facts import untold

pytestmark = pytest.mark.compile


def scaled(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    return torch.relu(x) * n


def test_a_slider_calls_the_function() -> None:
    """A new size is compiled, the old one is served, and what was compiled for one call serves the next."""
    sliders = explorer.vary(scaled, torch.randn(8, 4), backend="eager", variations=[]).sliders()
    assert {"x.size(0)", "x.size(1)", "x.dtype", "x.stride", "x.requires_grad", "n", "mode", "stance"} <= sliders.controls.keys()
    for size in (9, 8, 11):
        sliders.controls["x.size(0)"].value = size
    assert [row["outcome"] for row in sliders.rows] == ["compiled", "recompiled", "served", "served"]
    assert {"mismatch", "index", "expected", "8,", "actual", "9"} <= set(repr(sliders).split())
    assert str(sliders.vary) == "x.size(0) = 11"
    assert not untold(sliders._repr_html_(), "x.size(0) = 11", "served", "0/1")
    sliders.controls["x.dtype"].value = "float64"
    assert "dtype mismatch" in sliders.rows[-1]["guard"]
    sliders.afresh()
    assert [row["outcome"] for row in sliders.rows] == ["compiled"] and sliders.controls["x.size(0)"].value == 8


def test_what_cannot_be_is_said() -> None:
    """A control whose change the call cannot have says so, and the next change works."""
    sliders = explorer.vary(scaled, torch.randn(8, 4), backend="eager", variations=[]).sliders()
    sliders.controls["x.size(0)"].value = 0
    sliders.controls["x.stride"].value = "expanded"
    assert not untold(sliders.wrong, "x expanded", "(0, 4)")
    sliders.controls["x.size(0)"].value = 8
    assert not sliders.wrong


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_saved_notebook_keeps_the_last_state() -> None:
    """The table under the widgets is an output of HTML, which a moved slider shows again."""
    cells = [
        "import torch, explorer\ndef f(x):\n    return x.sin() * x.shape[0]",
        "s = explorer.vary(f, torch.randn(8), backend='eager', variations=[]).sliders()\ns",
        "s.controls['x.size(0)'].value = 9",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    kept = "".join(output.get("data", {}).get("text/html", "") for output in notebook.cells[1].outputs)
    assert not untold(kept, "x.size(0) = 9", "recompiled", "0/1", "In[1]:3")
