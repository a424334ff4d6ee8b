"""The files and functions by which `benchmarks/own_cost.py` counts explorer's own time."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

import explorer

PACKAGE = Path(explorer.__file__).parent


def test_every_place_that_it_counts_by_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or function that moved would silently count as something else."""
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[1] / "benchmarks"), *sys.path])
    own_cost = importlib.import_module("own_cost")
    for place, begin in (*((place, begin) for place, begin, _ in own_cost.FILES), *own_cost.WHOLE):
        files = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).as_posix().startswith(place)]
        trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
        functions = [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert any(name.startswith(begin) for name in functions), (place, begin)
