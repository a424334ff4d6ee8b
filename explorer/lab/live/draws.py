"""Compare random values: decide from several calls of each side whether both draw from one distribution.

Every statistic is judged by a permutation test over the calls, which holds however the elements of one call depend on each other.
The sides differ if no other split of all calls into two halves is as far apart, and if the distance is far beyond what the calls
vary by. By chance that happens about once in ten thousand values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

#: Fewer calls of each side have too few splits: the most extreme of them is not rare.
MIN_CALLS = 6
#: Two means of a statistic differ if they are apart by this many of their standard errors.
STANDARD_ERRORS = 6.0
#: Differences below this share are not judged: a GPU and the CPU cut random bits to 16-bit floats differently.
MIN_SHARE = 0.01
#: Two calls' elements differ if the sides are this many times as far apart as two halves of one side's calls are on average.
TIMES_APART = 2.0
#: The most elements of a call whose distribution and repetitions are counted.
MAX_ELEMENTS = 2**18
#: At how many places of the pooled values the distribution functions are compared.
PLACES = 32
#: The names of the statistics whose power is stated.
MEAN, DISTRIBUTION = "the mean", "the distribution"


@dataclass(frozen=True)
class Draws:
    """Whether the calls of both sides are alike. `differs` names the statistics that differ.

    `smallest` says how small a difference would be found.
    """

    alike: bool
    differs: str = ""
    smallest: str = ""


@dataclass(frozen=True)
class _Statistic:
    """A number for each call, and the least difference of its means that is judged."""

    name: str
    values: Any
    least: float
    elements: int = 0  # how many elements a share is taken of; 0 where the number is no share


def compare_draws(eager: Sequence[Any], given: Sequence[Any]) -> Draws | None:
    """Compare random values of equally many calls of each side; None for too few calls.

    Compared are each element's values (by their energy distance), and of all elements of a call together: mean, spread, smallest,
    largest, the shares of zeros, of infinite or NaN, and of repeated values, and the distribution function, also of each element
    relative to its largest.
    """
    import torch

    count = len(eager)
    if count < MIN_CALLS:
        return None
    rows = torch.stack([_flat(value) for value in (*eager, *given)])
    if not rows.shape[1]:
        return Draws(True)
    infinite = ~rows.isfinite()
    rows = rows.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    statistics = list(_statistics(rows, infinite))
    if not _is_coarse(eager[0].dtype):
        statistics.append(_Statistic("the share of repeated values", _repeated(rows), 10 * MIN_SHARE))
    found = list(dict.fromkeys(statistic.name for statistic in statistics if _differs(statistic, count)))
    if _elements_differ(rows, count):
        found.insert(0, "the values of single elements")
    return Draws(not found, ", ".join(found), "" if found else _in_words(statistics, count))


def _is_coarse(dtype: Any) -> bool:
    """Whether a type has so few numbers that how random bits are cut decides how many of them repeat."""
    return bool(dtype.is_floating_point and dtype.itemsize < 4)


def _flat(value: Any) -> Any:
    """The elements of one call's value in a row, in float64; complex numbers as pairs."""
    import torch

    value = value.detach().flatten()
    return torch.view_as_real(value.to(torch.complex128)).flatten() if value.is_complex() else value.double()


def _statistics(rows: Any, infinite: Any) -> Iterator[_Statistic]:
    """Compute the statistics of each call's elements."""
    size = float(rows.abs().mean())
    width = float(rows.amax() - rows.amin())
    yield _Statistic(MEAN, rows.mean(1), MIN_SHARE * size)
    yield _Statistic("the spread", rows.std(1, correction=0), MIN_SHARE * size)
    yield _Statistic("the smallest value", rows.amin(1), MIN_SHARE * width)
    yield _Statistic("the largest value", rows.amax(1), MIN_SHARE * width)
    yield _Statistic("the share of zeros", (rows == 0).double().mean(1), MIN_SHARE, rows.shape[1])
    yield _Statistic("the share of infinite or NaN", infinite.double().mean(1), 0.0, rows.shape[1])
    largest = rows.abs().amax(0).clamp_min(1e-300)
    for name, values in (
        (DISTRIBUTION, rows),
        ("the distribution of elements relative to their largest", rows / largest),
    ):
        for share in _distribution(values).T:
            yield _Statistic(name, share, MIN_SHARE, min(rows.shape[1], MAX_ELEMENTS))


def _repeated(rows: Any) -> Any:
    """Return the share of repeated elements in each call."""
    import torch

    first = rows[:, :MAX_ELEMENTS]
    return torch.tensor([1 - len(row.unique()) / len(row) for row in first], dtype=torch.float64)


def _distribution(rows: Any) -> Any:
    """The share of each call's elements up to each of some values: calls by places."""
    import torch

    step = max(1, math.ceil(rows.shape[1] / MAX_ELEMENTS))
    rows = rows[:, ::step].contiguous().sort(1).values
    pooled = rows.flatten().sort().values
    places = pooled[torch.linspace(0, len(pooled) - 1, PLACES + 1).long()[:-1]]
    counts = torch.searchsorted(rows, places.repeat(len(rows), 1), right=True)
    return counts.double() / rows.shape[1]


def _differs(statistic: _Statistic, count: int) -> bool:
    """Whether the means of both sides differ by more than chance allows, and no other split is as far apart."""
    values = statistic.values
    apart = abs(float(values[:count].mean() - values[count:].mean()))
    if apart <= _smallest_found(statistic, count):
        return False
    return _is_most_extreme((_splits(count).to(values.device) @ values).abs())


def _is_most_extreme(distances: Any) -> bool:
    """Whether the given split, the first, is farther apart than every other."""
    return int((distances >= distances[0] * (1 - 1e-9)).sum()) == 1


def _smallest_found(statistic: _Statistic, count: int) -> float:
    """Return the smallest difference between both sides' means that counts as a difference."""
    values = statistic.values
    variance = float(values[:count].var()) + float(values[count:].var())
    if statistic.elements:  # a few calls may vary less than shares of so many independent elements do
        share = float(values.mean())
        variance = max(variance, 2 * share * (1 - share) / statistic.elements)
    return max(statistic.least, STANDARD_ERRORS * math.sqrt(variance / count))


def _elements_differ(rows: Any, count: int) -> bool:
    """Whether the energy distance of the elements' values is larger than that of any other split."""
    import torch

    distances = torch.cdist(rows, rows, p=1.0)
    signs = _splits(count).to(rows.device)
    energies = -((signs @ distances) * signs).sum(1)  # twice the distances between the halves less those within them
    by_chance = float(distances.sum()) / (2 * count - 1)  # the mean energy over all splits
    return float(energies[0]) > TIMES_APART * by_chance and _is_most_extreme(energies)


@cache
def _splits(count: int) -> Any:
    """All splits of twice `count` calls into halves, the given one first.

    Each is a row, with 1.0 for a call in the first half, else -1.0.
    """
    import torch

    splits = torch.full((math.comb(2 * count - 1, count - 1), 2 * count), -1.0, dtype=torch.float64)
    for row, others in zip(splits, itertools.combinations(range(1, 2 * count), count - 1), strict=True):
        row[[0, *others]] = 1.0
    return splits


def _in_words(statistics: Sequence[_Statistic], count: int) -> str:
    """State which differences would have been found: of the mean, relative to the mean size, and of the distribution."""
    mean = next(statistic for statistic in statistics if statistic.name == MEAN)
    if not mean.least:
        return ""
    size = mean.least / MIN_SHARE
    share = max(_smallest_found(statistic, count) for statistic in statistics if statistic.name == DISTRIBUTION)
    return f"a mean off by {_smallest_found(mean, count) / size:.0%} of the values' size, or a share of values off by {share:.0%}"


__all__ = ["MIN_CALLS", "Draws", "compare_draws"]
