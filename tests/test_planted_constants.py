"""A number that one line of a program has leads from every text below its kernels to that line."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.benchmarks

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def oracle(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The script `benchmarks/planted_constants.py`, which has the whole table."""
    pytest.importorskip("triton")
    return module_at(ROOT / "benchmarks" / "planted_constants.py")


@pytest.mark.parametrize(
    ("target", "idioms"),
    [
        ("h100", ("torch.sin({v} * {c})", "torch.cos({v} + {c})", "torch.fmod({v}, {c})", "{v} + (i * {c})")),
        ("h100", ("torch.where(y > 0, {c}, {v})", "torch.where(y > 0, {v}, {c})", "torch.pow({v}.abs(), {c})")),
        ("mi300x", ("{v} * {c}", "torch.pow({v}.abs() + {c}, 1.75)", "{v} * {c} + {w}")),
    ],
    ids=["moved by LLVM", "two lines in one selection", "packed"],
)
def test_a_planted_number_leads_to_its_line(oracle: ModuleType, target: str, idioms: tuple[str, ...]) -> None:
    """No link is false, and the few numbers without a link are counted as missing by `coverage()`."""
    verdicts: list[str] = []
    for seed in range(2):
        planted = oracle.program(random.Random(seed), idioms, 5)
        found = list(oracle.findings(oracle.traced(planted, target), planted))
        assert [each for each in found if each.verdict in (oracle.FALSE, oracle.SILENT)] == []
        verdicts += [each.verdict for each in found]
    assert len(verdicts) > 40 and verdicts.count(oracle.RIGHT) > 0.9 * len(verdicts)
