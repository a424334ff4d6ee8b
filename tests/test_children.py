"""Work in child processes, as the long scripts of benchmarks/ do it: no step stops another one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).parents[1] / "benchmarks" / "children.py"
#: A child in which a step ends its process, another takes too long, and prints go nowhere.
CHILD = f"""
import os, sys, time
sys.path.insert(0, {str(FILE.parent)!r})
import children

def step(name):
    print("noise")
    if name == "ends":
        os._exit(3)
    if name == "hangs":
        time.sleep(60)
    return {{"kind": "done", "value": name}}

children.serve(lambda item: ((name, lambda name=name: step(name)) for name in item))
"""


@pytest.fixture
def rows(tmp_path: Path, module_at: Callable[[Path], ModuleType]) -> Callable[..., list[dict[str, Any]]]:
    """Give the function that makes the rows of items."""
    script = tmp_path / "child.py"
    script.write_text(CHILD)

    def given(items: list[list[str]], jobs: int = 1, within: float | None = None) -> list[dict[str, Any]]:
        options = argparse.Namespace(jobs=jobs, seconds=2.0, within=within)
        return list(module_at(FILE).rows(items, [sys.executable, str(script)], options))

    return given


@pytest.mark.compile
@pytest.mark.parametrize("jobs", [1, 3])
def test_a_step_that_ends_its_process_or_hangs_is_named_and_the_rest_is_done(jobs: int, rows: Callable[..., Any]) -> None:
    """Each step has its row; the row of one that does not finish says how it ended."""
    found = rows([["a", "ends", "b"], ["c", "hangs"], ["d"]], jobs)
    assert {row["name"]: row["kind"] for row in found} == {
        "a": "done", "ends": "died", "b": "done", "c": "done", "hangs": "died", "d": "done",
    }  # fmt: skip
    assert len(found) == 6
    why = {row["name"]: row.get("why", "") for row in found}
    assert "exit status 3" in why["ends"] and "noise" in why["ends"] and why["hangs"] == "more than 2 s"
    assert next(row["item"] for row in found if row["name"] == "b") == ["a", "ends", "b"]


@pytest.mark.compile
def test_what_is_not_begun_in_time_is_named(rows: Callable[..., Any]) -> None:
    """What is left when the time is over has a row that says so, and is in the counts."""
    assert [row["kind"] for row in rows([["a"], ["b"]], within=1e-9)] == ["not tried", "not tried"]


@pytest.mark.compile
def test_a_process_that_cannot_start_is_named(module_at: Callable[[Path], ModuleType]) -> None:
    """A child that ends at once gives one row for each item, and no endless loop."""
    options = argparse.Namespace(jobs=1, seconds=2.0, within=None)
    found = list(module_at(FILE).rows(["x", "y"], [sys.executable, "-c", "raise SystemExit('no such thing')"], options))
    assert [row["kind"] for row in found] == ["died", "died"] and "no such thing" in found[0]["why"]


def test_parts_have_everything_once(module_at: Callable[[Path], ModuleType]) -> None:
    """Three parts of ten are ten; a part that there is not is refused."""
    part = module_at(FILE).part
    assert sorted(n for which in ("1/3", "2/3", "3/3") for n in part(range(10), which)) == list(range(10))
    with pytest.raises(SystemExit, match="4/3"):
        part(range(10), "4/3")
