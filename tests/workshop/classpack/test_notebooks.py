"""Where the workshop's notebooks are: in a clone beside the package, after an install among its data files."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, PackagePath
from pathlib import Path
from typing import Any

import pytest

from explorer.entry.cli import main
from explorer.errors import FileError
from explorer.workshop.classpack import notebooks
from explorer.workshop.classpack.notebooks import workshop_notebooks
from explorer.workshop.classpack.pack import Copy

ROOT = Path(__file__).parents[3]


def test_a_clone_has_them_in_their_order() -> None:
    """They are those of the folder `notebooks`."""
    assert workshop_notebooks() == sorted((ROOT / "notebooks").glob("*.ipynb")) and len(workshop_notebooks()) == 11


def test_an_installed_wheel_has_them_among_its_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder is that of the first one that the distribution lists."""
    share = tmp_path / "share"
    share.mkdir()
    for name in ("00_why_compile.ipynb", "01.ipynb"):
        (share / name).write_text("{}")

    class Listed(PackagePath):
        def locate(self) -> Any:
            return tmp_path / self

    monkeypatch.setattr(notebooks, "__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    monkeypatch.setattr(notebooks, "files", lambda name: [Listed("a/b.py"), Listed("share/00_why_compile.ipynb")])
    assert workshop_notebooks() == [share / "00_why_compile.ipynb", share / "01.ipynb"]


def test_an_installation_without_them_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a distribution without notebooks nor none at all is taken for an empty workshop."""

    def absent(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(notebooks, "__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    for found in (lambda name: None, absent):
        monkeypatch.setattr(notebooks, "files", found)
        with pytest.raises(FileError, match="no notebooks of the workshop"):
            workshop_notebooks()


def test_a_pack_is_made_of_them_unless_others_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without names the command takes the workshop's notebooks, with names only those."""
    pytest.importorskip("nbclient", reason="nbclient is not installed: it runs notebooks")
    packed: list[list[Path]] = []

    def make(found: Sequence[Path], folder: Path) -> Sequence[Copy]:
        packed.append(list(found))
        return ()

    monkeypatch.setattr("explorer.workshop.classpack.pack.make", make)
    for names in ([], ["mine.ipynb"]):
        assert main(["classpack", *names, "-o", str(tmp_path)]) == 0
    assert packed == [workshop_notebooks(), [Path("mine.ipynb")]]
