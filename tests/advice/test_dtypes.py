"""Casts that the program writes, and float64: the verdict names the line of the cast, not the dtype of the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import explorer


def meta(*size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(*size, device="meta", dtype=dtype)


def by_method(x: torch.Tensor, weight: torch.Tensor) -> Any:
    y = x.to(torch.float32)
    return y @ weight


def by_promotion(x: torch.Tensor, weight: torch.Tensor) -> Any:
    with torch.autocast("cuda", torch.bfloat16):
        return x @ weight


@pytest.mark.parametrize(("program", "own"), [(by_method, True), (by_promotion, False)])
def test_a_cast_of_the_programs_own_is_told_from_one_that_torch_adds(program: Callable[..., Any], own: bool) -> None:
    """A cast that a line writes is named with that line alone; what autocast adds is said to be autocast's."""
    x = meta(8192, 4096, dtype=torch.bfloat16 if own else torch.float32)
    advice = explorer.trace(program, x, meta(4096, 64, dtype=torch.float32), target="h100").advise()
    (verdict,) = [verdict for verdict in advice if verdict.kind == "dtype cast"]
    assert (".to() makes float32 of bfloat16" in verdict.title) == own
    assert ("leave .to() out" in verdict.remedy) == own
    assert ("autocast" in verdict.remedy) != own
    if own:
        assert [line.code for line in verdict.lines] == ["y = x.to(torch.float32)"]


def test_float64_that_a_line_makes_is_that_lines() -> None:
    """Where no input is float64 the verdict names the line that casts, and advises on it."""

    def total(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        wide = x.double()
        return (wide * y).sum(-1)

    verdict = explorer.trace(total, meta(8192, 4096), meta(8192, 4096), target="h100").advise()[0]
    assert verdict.kind == "float64" and ".double() makes float64 of bfloat16" in verdict.title
    assert verdict.lines[0].code == "wide = x.double()" and "NumPy" not in verdict.remedy
