"""The outputs that the notebooks are kept with: `python docs/outputs.py [NOTEBOOK …]` runs them and writes them anew.

Each notebook is run from top to bottom in a kernel of its own. GitHub and nbviewer then show tables, texts and figures. Of a view
only the static summary is kept: the trace and the front end in the output would weigh more than all else. What differs from
machine to machine and says nothing (folders, addresses, numbers of processes) is made the same.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"

#: The most seconds that one cell may take.
PATIENCE = 600

WIDGET = "application/vnd.jupyter.widget-view+json"

#: What is replaced in the text of an output, in this order.
SAME = (
    (re.compile(re.escape(sysconfig.get_path("purelib"))), "site-packages"),
    (re.compile(re.escape(sys.base_prefix) + r"(?=/)"), "python"),
    (re.compile(re.escape(str(NOTEBOOKS.parent)) + r"/?"), ""),
    (re.compile(r"/tmp/ipykernel_\d+/\d+\.py"), "cell.py"),
    (re.compile(r"/tmp/(torchinductor_\w+|explorer-\w+|tmp\w+)"), "/tmp/cache"),
    (re.compile(re.escape(str(Path.home())) + r"(?=/)"), "~"),
    (re.compile(r"\b0x[0-9a-f]{9,}\b"), "0x7f0000000000"),
    (re.compile(r' data-key="[0-9a-f]*"'), ""),  # of the live view that there is no more
)
SCRIPT = re.compile(r"<script\b.*?</script>\s*", re.DOTALL)


def main(names: list[str]) -> None:
    paths = [Path(name) for name in names] or sorted(NOTEBOOKS.glob("*.ipynb"))
    for path in paths:
        started = time.perf_counter()
        write(path)
        print(f"{path.name}: {time.perf_counter() - started:.0f} s, {path.stat().st_size / 1e3:.0f} KB")


def write(path: Path) -> None:
    """Run a notebook and keep it with what its cells put out."""
    book = nbformat.read(path, as_version=4)
    settings = dict(book.metadata)
    folder = {"metadata": {"path": str(path.parent)}}
    NotebookClient(book, timeout=PATIENCE, kernel_name="python3", coalesce_streams=True, resources=folder).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # when the cell ran
        if cell.cell_type == "code":
            cell.outputs = [kept(output) for output in cell.outputs if not empty(output)]
    book.metadata.clear()  # the state of widgets, and the version of Python
    book.metadata.update(settings)
    path.write_text(nbformat.writes(book, version=4) + "\n", encoding="utf-8")


def kept(output: Any) -> Any:
    """An output without scripts and widgets, in words that every machine would write."""
    if "text" in output:
        output.text = same(output.text)
    data = output.get("data", {})
    data.pop(WIDGET, None)
    for kind, value in data.items():
        if isinstance(value, str) and kind.startswith(("text/", "image/svg")):
            data[kind] = same(SCRIPT.sub("", value) if kind == "text/html" else value)
    if "metadata" in output:
        output.metadata = {}
    return output


def empty(output: Any) -> bool:
    """Whether an output shows nothing, such as that of a progress bar that is done."""
    if output.output_type != "display_data":
        return False
    return not any(value for value in output.data.values())


def same(text: str) -> str:
    for pattern, word in SAME:
        text = pattern.sub(word, text)
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
