"""Which launches of a call take longer, or less, in one trace than in another. No torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from explorer.analysis.overview.changed import MAX_CHANGES
from explorer.tracing.traced import Trace
from explorer.tracing.traced.comparison import Comparison, compare


@pytest.fixture(scope="module")
def gpus(replayed: Callable[[str], Trace]) -> Comparison:
    """The same code with the figures of an H100 and of an A100."""
    layers = replayed("views/layers-torch2.13-h100")
    return compare(layers, replace(layers, meta={**layers.meta, "target": "a100"}))


def test_the_changes_add_up_to_that_of_the_work(gpus: Comparison) -> None:
    """Each launch of both traces is in one row, and the largest change is first."""
    rows = gpus.launches
    names = [row["figure"] for row in gpus.figures]
    assert "kernel launches" in names and gpus.names == ("h100", "a100")
    for trace, name in zip(gpus.traces, gpus.names, strict=True):
        assert sum(row[name] for row in rows) == pytest.approx(sum(row["seconds"] for row in trace.profile.launches))
        assert sum(row[f"{name} launches"] for row in rows) == len(trace.profile.launches)
    changes = [row["change"] for row in rows]
    assert changes == sorted(changes, key=abs, reverse=True) and all(change > 0 for change in changes), "an A100 is slower"


def test_the_largest_changes_are_printed_with_their_lines(gpus: Comparison) -> None:
    """And what a call takes in each, launches included."""
    _, found, printed = repr(gpus).partition("a call takes ")
    head, *lines = printed.split("\n")
    assert found and "in h100 and" in head and "in a100, launches from Python included; what changes most" in head
    assert 1 < len(lines) <= MAX_CHANGES and all(" → " in line and "programs.py:" in line for line in lines)
    assert str(gpus.launches[0]["what"]) in lines[0]


def test_what_only_one_trace_launches_has_no_seconds_in_the_other(replayed: Callable[[str], Trace]) -> None:
    """Such as what was fused otherwise: its whole time is the change."""
    rows = compare(replayed("views/layers-torch2.13-h100"), replayed("views/rotary-torch2.13-h100")).launches
    names = rows.columns[1:3]
    alone = [row for row in rows if None in (row[names[0]], row[names[1]])]
    assert alone and all(abs(row["change"]) == next(row[name] for name in names if row[name] is not None) for row in alone)


def test_traces_whose_time_is_not_known_say_so() -> None:
    """Two traces without a kernel have no launches, and print no time."""
    both = compare(Trace({"name": "f", "target": "h100"}), Trace({"name": "f", "target": "a100"}))
    assert not both.launches and both.launches.why_empty and "a call takes" not in repr(both)
