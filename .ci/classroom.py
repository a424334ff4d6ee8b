"""What a class pack must do where torch is not installed: `python -I classroom.py FOLDER`. See wheel.py.

Every notebook of the folder is run as it is, and once more with a right answer. An assertion says what does not work.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

#: A prediction of each notebook that recorded traces can judge, and its answer.
ANSWERS = {
    "00_why_compile": ('q("M0.4")', 'q("M0.4").answer(5, 1)', "✓ M0.4: right, 3 points"),
    "06_graph_breaks_guards_dynamic_shapes": ('q("M2.1")', 'q("M2.1").answer(3, 2)', "✓ M2.1: right, 3 points"),
}
#: In the HTML of a view: the trace that it shows.
VIEW = 'class="explorer-kept"'


def main(folder: Path) -> None:
    """Run each notebook of the pack."""
    assert not importlib.util.find_spec("torch") and not importlib.util.find_spec("triton"), "torch or triton is here"
    for path in sorted(folder.glob("*.ipynb")):
        check(path)
    print("a class pack runs without torch: views, figures, and predictions that recorded traces judge")


def check(path: Path) -> None:
    """No cell fails; views open; what is live says so; the figures are there; the score is that of who runs it."""
    book: Any = nbformat.read(path, as_version=4)
    question, answer, row = ANSWERS[path.stem]
    (asking,) = (cell for cell in book.cells if cell.cell_type == "code" and question in cell.source)
    asking.source = asking.source.replace(question, answer)
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(book, timeout=300, kernel_name="python3", resources=where).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    texts = ["".join(output.get("text") or output.get("data", {}).get("text/plain", "")) for output in outputs]
    assert row in texts[-1] and texts[-1].count("✓") == 1 and "✗" not in texts[-1], f"{path.name}: {texts[-1]}"
    assert any(VIEW in "".join(output.get("data", {}).get("text/html", "")) for output in outputs), f"{path.name} shows no view"
    assert any("this is live: it needs PyTorch" in text for text in texts), f"{path.name} does not say what is live"
    figures = sorted((path.parent / "recorded" / path.stem / "figures").glob("*.svg"))
    assert figures and all(f"({figure.relative_to(path.parent)})" in nbformat.writes(book) for figure in figures)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
