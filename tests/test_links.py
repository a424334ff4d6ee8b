"""Links are right by the program's own test: a changed line changes the kernel lines linked to it, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.benchmarks

ROOT = Path(__file__).parents[1]


def test_a_changed_line_changes_what_is_linked_to_it(module_at: Callable[[Path], ModuleType]) -> None:
    """One operator after another of a fused program; the whole table is `benchmarks/links.py`."""
    pytest.importorskip("triton")
    links = module_at(ROOT / "benchmarks" / "links.py")
    body, shapes = ["a = x * 1.0117", "b = torch.softmax(a, -1) * 1.0229", "return torch.sin(b) + a"], ((16, 64),)
    rows = list(links.perturbed(body, shapes, "h100"))
    assert [row.line for row in rows] == body
    assert [(row.changed > 0, row.found == row.changed, row.strange) for row in rows] == [(True, True, ())] * len(body)


def test_a_number_of_the_program_leads_to_its_line(module_at: Callable[[Path], ModuleType]) -> None:
    """In every text below the kernels that has it: down to SASS, and in AMDGCN, whose instructions are packed."""
    pytest.importorskip("triton")
    links = module_at(ROOT / "benchmarks" / "links.py")
    body, shapes = (
        ["a = x * 1.0117", "b = y * 1.0229 + 1.0331", "c = torch.tanh(a + b)", "return c * 1.0447, b"],
        ((64, 64), (64, 64)),
    )
    for target in ("h100", "mi300x"):
        trace = links.traced(body, shapes, target)
        rows = list(links.constants(trace.attach("sass") if target == "h100" else trace, body))
        assert {stage for stage, _, right in rows if right} >= ({"llir", "sass"} if target == "h100" else {"llir"})
        assert [row for row in rows if row[2] is False] == []
