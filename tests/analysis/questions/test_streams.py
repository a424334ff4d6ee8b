"""Two streams of a GPU: when each work begins, and how long a wait holds what computes."""

from __future__ import annotations

import pytest

from explorer.analysis.questions.streams import Laid, Work, laid_out


def test_what_runs_meanwhile_hides_a_collective() -> None:
    """A collective of 5 s with 3 s of kernels until its wait holds the next kernel for 2 s."""
    works = [Work(1.0), Work(5.0, starts=0), Work(3.0), Work(waits=0), Work(1.0)]
    assert laid_out(works) == [Laid(0.0), Laid(1.0), Laid(1.0), Laid(4.0, 2.0), Laid(6.0)]


def test_what_hides_two_collectives_counts_once() -> None:
    """Two collectives of 4 s run one after the other, 5 s of kernels hide the first and a second of the other."""
    works = [Work(4.0, starts=0), Work(4.0, starts=1), Work(5.0), Work(waits=0), Work(waits=1)]
    laid = laid_out(works)
    assert [one.begins for one in laid] == [0.0, 4.0, 0.0, 5.0, 5.0]
    assert [one.stalled for one in laid] == [None, None, None, 0.0, 3.0]


def test_the_exposed_seconds_are_what_communication_adds() -> None:
    """The end of the last work is the sum of the kernels and of what the waits hold."""
    works = [Work(2.0), Work(1.0, starts=0), Work(3.0, starts=1), Work(0.5), Work(waits=1), Work(2.0), Work(waits=0), Work(1.0)]
    laid = laid_out(works)
    assert (laid[-1].begins or 0) + 1.0 == 2.0 + 0.5 + 2.0 + 1.0 + sum(one.stalled or 0 for one in laid)


@pytest.mark.parametrize("unknown", [Work(None, starts=0), Work(1.0, starts=0)])
def test_what_is_not_known_is_not_told(unknown: Work) -> None:
    """A collective or kernel of unknown time makes the wait's unknown, and every time after it; a later wait is known again."""
    between = Work(1.0) if unknown.seconds is None else Work(None)
    works = [unknown, between, Work(waits=0), Work(4.0, starts=1), Work(1.0), Work(waits=1)]
    laid = laid_out(works)
    assert laid[2].stalled is None and laid[2].begins is None
    assert (laid[-1].begins, laid[-1].stalled) == (None, 3.0)


def test_a_wait_for_what_never_started_holds_nothing() -> None:
    """Such as a second wait for one collective."""
    assert laid_out([Work(waits=3)]) == [Laid(0.0, 0.0)]


def test_groups_do_not_wait_for_each_other() -> None:
    """Collectives of two process groups run beside each other, those of one group one after the other."""
    works = [Work(4.0, starts=0, group="0"), Work(4.0, starts=1, group="1"), Work(1.0, starts=2, group="0")]
    assert [one.begins for one in laid_out(works)] == [0.0, 0.0, 4.0]
