"""Casts that the program writes, and float64: the verdict names the line of the cast, not the dtype of the input."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from explorer.tracing.traced import Trace
from tests.facts import untold


@pytest.mark.parametrize(("name", "own"), [("cast by method h100", True), ("cast by autocast h100", False)])
def test_a_cast_of_the_programs_own_is_told_from_one_that_torch_adds(name: str, own: bool, zoo: Callable[[str], Trace]) -> None:
    """A cast that a line writes is named with that line alone; what autocast adds is said to be autocast's."""
    (verdict,) = [verdict for verdict in zoo(name).advise() if verdict.kind == "dtype cast"]
    assert (not untold(verdict.title, ".to()", "float32", "bfloat16")) == own
    assert (".to()" in verdict.remedy) == own
    assert ("autocast" in verdict.remedy) != own
    if own:
        assert [line.code for line in verdict.lines] == ["y = x.to(torch.float32)"]


def test_float64_that_a_line_makes_is_that_lines(zoo: Callable[[str], Trace]) -> None:
    """Where no input is float64 the verdict names the line that casts, and advises on it."""
    verdict = zoo("widened h100").advise()[0]
    assert verdict.kind == "float64" and not untold(verdict.title, ".double()", "float64", "bfloat16")
    assert verdict.lines[0].code == "wide = x.double()" and "NumPy" not in verdict.remedy
