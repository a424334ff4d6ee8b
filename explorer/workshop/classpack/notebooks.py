"""Find the workshop's notebooks: beside the package in a clone, among the data files of an installed wheel."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from explorer.errors import DISTRIBUTION, FileError

#: The notebook that a class opens first.
FIRST = "00_why_compile.ipynb"


def workshop_notebooks() -> list[Path]:
    """Return the paths of the notebooks, in their order; FileError where this installation has none."""
    folder = Path(__file__).parents[3] / "notebooks"
    if not (folder / FIRST).is_file():
        folder = _installed()
    return sorted(folder.glob("*.ipynb"))


def _installed() -> Path:
    """Return the folder into which the wheel put the notebooks."""
    try:
        listed = files(DISTRIBUTION) or []
    except PackageNotFoundError:
        listed = []
    first = next((Path(str(file.locate())) for file in listed if file.name == FIRST), None)
    if first is None or not first.is_file():
        raise FileError("this installation has no notebooks of the workshop: name the notebooks, or install the wheel")
    return first.parent.resolve()
