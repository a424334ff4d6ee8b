"""The row of widgets: the same state as plain calls, accessible names, and lines that a click in the view puts in."""

from __future__ import annotations

from typing import Any

import pytest
import traitlets

from explorer.model.values import Artifact
from explorer.tracing.traced import Trace
from explorer.workshop.quiz import Choice, Choices, Lines, Names, Number, Place, Question, Quiz, Text
from explorer.workshop.quiz import outcome as outcomes
from explorer.workshop.quiz import row as rows
from tests.facts import untold

widgets = pytest.importorskip("ipywidgets", reason="ipywidgets is not installed")

TRACE = Trace(artifacts=(Artifact("0/0:kernel", "kernel", "0/0", "", "k", "cpp", "first\nsecond"),))


class View(traitlets.HasTraits):
    """What of the view a row listens to."""

    selected = traitlets.Dict()


def exercise(*fields: Any, truth: Any = 3) -> Any:
    item = Question(
        id="Q.1",
        text="How <many>?",
        fields=fields or (Number(),),
        make=lambda: TRACE,
        truth=lambda t: truth,
        hint="count",
        where=lambda t: Place(t, "0/0:kernel", 2),
    )
    return Quiz(item)("Q.1")


def of_type(box: Any, kind: type) -> list[Any]:
    return [each for each in box.children if type(each) is kind]


def test_the_button_answers_with_what_the_inputs_hold() -> None:
    """An empty input is no answer; a wrong one gets the hint; the right one its points, in words and with an icon."""
    e = exercise()
    box = rows.row_of(e)
    (control,), (button,), (_, status) = of_type(box, widgets.Text), of_type(box, widgets.Button), of_type(box, widgets.HTML)
    button.click()
    assert f"○ Q.1: {outcomes.UNANSWERED}." in status.value and not e.result.tries
    control.value = "2"
    button.click()
    assert "✗ Q.1: not yet." in status.value and "hint: count" in status.value and 'role="status"' in status.value
    control.value = "3"
    button.click()
    assert "✓ Q.1: right." in status.value and "2 points" in status.value
    assert not button.disabled and button.description == "answer Q.1"


def test_a_call_and_a_row_have_one_state() -> None:
    """What is answered by a call shows in the row, and a row made later shows how it stands."""
    e = exercise()
    status = of_type(rows.row_of(e), widgets.HTML)[1]
    e.judge(3)
    assert "✓ Q.1: right." in status.value
    assert "✓ Q.1: right." in of_type(rows.row_of(e), widgets.HTML)[1].value


def test_every_input_has_a_name_and_what_is_asked_is_text() -> None:
    """Each input and the button have a description that a screen reader reads; the question is escaped."""
    e = exercise(
        Number("bytes"),
        Choice("why", options=("a", "b")),
        Choices("which", options=("8", "9")),
        Text(),
        truth=(3, "b", ["9"], "x"),
    )
    box = rows.row_of(e)
    names = [each.description for each in box.children if hasattr(each, "description") and type(each) is not widgets.HTML]
    assert names == ["bytes", "why", "which", "your answer to Q.1", "answer Q.1"]
    assert "How &lt;many&gt;?" in box.children[0].value
    number, why, which, text = box.children[1:5]
    number.value, why.value, which.value, text.value = "3", "b", ("9",), "X"
    of_type(box, widgets.Button)[0].click()
    assert e.outcome.is_right
    which.value = ("none of them",)
    of_type(box, widgets.Button)[0].click()
    assert [row["passed"] for row in e.outcome.rows] == [True, True, False, True]


def test_a_click_in_the_view_fills_in_the_line() -> None:
    """A line of the stage that is asked about goes into the input, a line of another one does not."""
    e, view = exercise(Lines(stage="kernel"), truth=[2]), View()
    box = rows.row_of(e, view)
    (control,) = of_type(box, widgets.Text)
    view.selected = {"stage": "ptx", "line": 7}
    assert control.value == ""
    view.selected = {"stage": "kernel", "line": 2}
    assert control.value == "2"
    of_type(box, widgets.Button)[0].click()
    assert e.outcome.is_right


def test_the_second_miss_opens_the_line_below_the_row(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a notebook it is printed, as for a call."""
    e = exercise()
    box = rows.row_of(e)
    for value in ("1", "2"):
        of_type(box, widgets.Text)[0].value = value
        of_type(box, widgets.Button)[0].click()
    assert not untold(of_type(box, widgets.HTML)[1].value, "stage kernel", "line 2")
    assert "→    2  second" in capsys.readouterr().out


def test_a_task_has_no_input() -> None:
    """It says which call answers it."""
    (item,) = (each.item for each in Quiz("M1.5"))
    box = rows.row_of(Quiz(item)("M1.5"))
    assert not of_type(box, widgets.Button) and "q(&quot;M1.5&quot;).answer(your_function)" in box.children[1].value


def test_a_row_that_is_saved_shows_the_question() -> None:
    """Where no widget lives, as on GitHub, the output is the question and how it stands, not the names of widgets' classes."""
    e = exercise(Number("bytes"))
    bundle = rows.row_of(e)._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "<b>Q.1</b> How &lt;many&gt;?" in data["text/html"] and f"○ {outcomes.UNANSWERED}" in data["text/html"]
    assert data["text/plain"] == repr(e)
    e.judge(3)
    assert "✓ Q.1: right." in rows.row_of(e)._repr_mimebundle_()[0]["text/html"]


def test_an_empty_input_says_what_it_takes() -> None:
    """The text in an empty input is an example of what its field reads."""
    box = rows.row_of(exercise(Number("a"), Lines("b"), Names("c"), truth=(1, [1], ["x"])))
    examples = ["a number", "lines, such as 7-8", "names, such as sin, mul"]
    assert [each.placeholder for each in of_type(box, widgets.Text)] == examples
    assert Names().read("sin, mul") == ("mul", "sin")
