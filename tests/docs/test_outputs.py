"""The outputs that notebooks are kept with: what anybody's machine would write, without scripts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat comes with jupyterlab")
pytest.importorskip("nbclient", reason="nbclient comes with jupyterlab")

pytestmark = pytest.mark.docs

SCRIPT = Path(__file__).parents[2] / "docs" / "outputs.py"


@pytest.fixture(scope="module")
def outputs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("outputs", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_run_is_kept_without_scripts_and_folders(outputs: ModuleType, tmp_path: Path) -> None:
    """A notebook keeps text and HTML of its cells, with neither scripts nor this machine's folders, and its own metadata."""
    path = tmp_path / "book.ipynb"
    cells = [
        "import json; print(json.__file__); import nbformat; print(nbformat.__file__)",
        "from IPython.display import HTML; HTML('<b>bold</b><script>\\nalert(1)\\n</script>')",
        "object()",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
    book.metadata["language_info"] = {"name": "python"}
    path.write_text(nbformat.writes(book))
    outputs.write(path)
    read = nbformat.read(path, as_version=4)
    nbformat.validate(read)
    printed, shown, value = (cell.outputs[0] for cell in read.cells)
    assert printed.text.splitlines()[1] == "site-packages/nbformat/__init__.py"
    assert shown.data["text/html"] == "<b>bold</b>"
    assert value.data["text/plain"] == "<object at 0x7f0000000000>"
    assert [cell.execution_count for cell in read.cells] == [1, 2, 3]
    assert dict(read.metadata) == {"language_info": {"name": "python"}}


def test_a_cell_that_fails_is_not_kept(outputs: ModuleType, tmp_path: Path) -> None:
    """A notebook with a cell that raises stays as it was, and the error names the cell's code."""
    path = tmp_path / "book.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])))
    before = path.read_text()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        outputs.write(path)
    assert path.read_text() == before
