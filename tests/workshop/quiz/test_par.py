"""What a puzzle counts: par, the best figure, and the bars that show both."""

from __future__ import annotations

import re
from typing import Any

import pytest

from explorer.errors import InputError
from explorer.workshop.quiz import Check, Par, Place, Quiz, Task
from explorer.workshop.quiz import row as rows
from explorer.workshop.quiz.par import Standing
from tests.facts import untold

PAR = Par("launch", int, start=5, par=2)


def puzzle(**more: Any) -> Any:
    """A puzzle whose answers are functions that give their figure."""
    given: dict[str, Any] = {
        "title": "Fewer",
        "text": "Launch less.",
        "takes": "a function: f",
        "make": lambda function: function(),
        "checks": (Check("is even", lambda value: (value % 2 == 0, f"{value}")),),
        "hint": "less",
        "where": lambda subject: Place(subject, "", 1),
        "par": PAR,
        **more,
    }
    return Quiz(Task(id="T.1", **given))("T.1")


def test_an_answer_must_reach_par() -> None:
    """Above par it is refused with the figure and the distance; at par and below it is right."""
    one = puzzle()
    refused = one.judge(lambda: 4)
    (row,) = (row for row in refused.rows if not row["passed"])
    assert not refused.is_right and not untold(f"{row['part']}: {row['found']}", "2 launches", "4 launches", "2 above par")
    assert not untold(one.judge(lambda: 2).text, "2 launches", "par") and not untold(one.judge(lambda: 0).text, "2 below par")


def test_a_figure_counts_only_with_a_right_answer() -> None:
    """A low figure of a wrong result is shown and not kept, and the best figure stays."""
    one = puzzle()
    kept = [(one.judge(f).is_right, one.result.figure) for f in (lambda: 1, lambda: 2, lambda: 0, lambda: 2)]
    assert kept == [(False, None), (True, 2), (True, 0), (True, 0)] and "0 launches" in one.state()


def test_a_figure_that_cannot_be_counted_is_a_miss() -> None:
    """What the trace lacks is the row's reason."""

    def none(_: int) -> int:
        raise InputError("the trace has no stage 'ptx'")

    outcome = puzzle(par=Par("launch", none, start=5, par=2)).judge(lambda: 2)
    assert outcome.rows[-1]["found"] == "the trace has no stage 'ptx'" and outcome.standing.figure is None


def test_the_picture_has_a_bar_for_each_figure() -> None:
    """Start, answer, best and par are as long as their figures are large; all is in words too, and fits a cell of 620 px."""
    picture = Standing(PAR, figure=4, best=2)._repr_html_()
    lengths = [int(width) for width in re.findall(r'<rect [^>]*width="(\d+)"', picture)]
    assert lengths == [400, 320, 160, 160]
    assert not untold(picture, "start 5 launches", "yours 4 launches", "best 2 launches", "par 2 launches", 'width="620"')
    assert str(Standing(PAR, figure=4)).count("\n") == 2 and not untold(str(Standing(PAR)), "start", "5 launches", "par")


def test_a_goal_of_nothing_is_said_in_words() -> None:
    """Where par is 0 the check says so, and the bar of 0 can still be seen."""
    none = Par("race", int, start=3, par=0)
    assert none.goal == "no races" and none.row(0)["passed"] and not none.row(1)["passed"]
    assert 'width="2"' in Standing(none)._repr_html_()


def test_a_puzzle_shows_title_program_and_bars_before_it_is_answered() -> None:
    """In a terminal, in a notebook, and as the outcome of an unanswered cell."""
    one = puzzle(start="def f():\n    return 5")
    assert not untold(repr(one), "T.1 Fewer", "return 5", "start", "5 launches", "2 launches")
    assert "<svg" in one.judge(...)._repr_html_() and "start" in str(one.judge(...))
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed")
    question, _, status = rows.row_of(one).children
    assert "T.1 Fewer" in question.value and "<svg" in status.value
    one.judge(lambda: 4)
    assert "yours 4 launches" in status.value
