"""Random values: several calls of each side tell whether both draw from one distribution."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from explorer.lab.live.draws import MIN_CALLS, Draws, compare_draws
from tests.facts import untold

CALLS, SIZE = 8, 1024
X = torch.linspace(0.1, 3, SIZE) * torch.tensor([1.0, -1.0]).repeat(SIZE // 2)
FIXED = torch.rand(SIZE, generator=torch.Generator().manual_seed(99))
Draw = Callable[[], torch.Tensor]


def compare(eager: Draw, given: Draw, seed: int = 0) -> Draws | None:
    """Compare eight calls of each after the seed; neither sees random numbers of the other's."""
    torch.manual_seed(seed)
    return compare_draws([eager() for _ in range(CALLS)], [given() for _ in range(CALLS)])


def blocks_repeated() -> torch.Tensor:
    """A quarter of the numbers, four times over, as of blocks that share their offsets."""
    return torch.rand(SIZE // 4).repeat(4)


FAULTS: dict[str, tuple[Draw, Draw]] = {
    "never the largest": (lambda: torch.randint(0, 5, (SIZE,)), lambda: torch.randint(0, 4, (SIZE,))),
    "a wider normal distribution": (lambda: torch.randn(SIZE), lambda: torch.randn(SIZE) * 1.5),
    "uniform, not normal": (lambda: torch.randn(SIZE), lambda: (torch.rand(SIZE) - 0.5) * 12**0.5),
    "two generators that draw the same": (lambda: torch.rand(SIZE) - torch.rand(SIZE), lambda: torch.zeros(SIZE)),
    "another share of zeros": (lambda: F.dropout(X, 0.3), lambda: F.dropout(X, 0.35)),
    "another share of zeros, the same mean": (lambda: F.dropout(X, 0.3), lambda: F.dropout(X, 0.35) * 0.65 / 0.7),
    "another share of ones": (lambda: torch.full((SIZE,), 0.5).bernoulli(), lambda: torch.full((SIZE,), 0.45).bernoulli()),
    "the same in each call": (lambda: torch.rand(SIZE), lambda: FIXED),
    "one number for all": (lambda: torch.rand(SIZE), lambda: torch.rand(1).expand(SIZE)),
    "numbers that are repeated": (lambda: torch.rand(SIZE), blocks_repeated),
    "some NaN": (lambda: torch.rand(SIZE), lambda: torch.rand(SIZE).where(torch.rand(SIZE) > 0.02, torch.nan)),
    "no permutation": (lambda: torch.randperm(SIZE), lambda: torch.arange(SIZE)),
    "something else is masked": (lambda: F.dropout(X.sin(), 0.5), lambda: F.dropout(X.cos(), 0.5)),
    "complex, of twice the size": (
        lambda: torch.randn(SIZE, dtype=torch.cfloat),
        lambda: 2 * torch.randn(SIZE, dtype=torch.cfloat),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_another_distribution_is_told_apart(name: str) -> None:
    """Also where each element's mean is the same."""
    draws = compare(*FAULTS[name])
    assert draws is not None and not draws.alike and draws.differs


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("seed", range(5))
def test_the_same_distribution_is_alike_by_every_seed(name: str, seed: int) -> None:
    """No false alarm; what difference would have been found is said, where values have a size."""
    eager, _ = FAULTS[name]
    draws = compare(eager, eager, seed)
    assert draws is not None and draws.alike and not untold(draws.smallest, "mean", "share")


@pytest.mark.parametrize("size", [0, 1, 3])
def test_few_values_are_no_false_alarm(size: int) -> None:
    """Nor is none."""
    for seed in range(50):
        draws = compare(lambda: torch.rand(size), lambda: torch.rand(size), seed)
        assert draws is not None and draws.alike


def test_of_too_few_calls_nothing_is_said() -> None:
    """The most extreme of few splits is not rare."""
    values = [torch.rand(9) for _ in range(MIN_CALLS - 1)]
    assert compare_draws(values, [value + 5 for value in values]) is None


def test_what_a_gpu_rounds_otherwise_is_alike() -> None:
    """The CPU cuts the random bits of bfloat16, a GPU rounds float32: their means differ by a part in a thousand."""
    draws = compare(lambda: torch.rand(SIZE, dtype=torch.bfloat16), lambda: torch.rand(SIZE).bfloat16())
    assert draws is not None and draws.alike
