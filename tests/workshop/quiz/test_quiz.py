"""A quiz: what an answer does to the score, what is shown at which miss, and what is no answer, without a compile."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.errors import FileError, InputError
from explorer.model.values import Artifact
from explorer.tracing.traced import Trace
from explorer.workshop.quiz import Check, Number, Outcome, Place, Question, Quiz, Task, Text
from explorer.workshop.quiz import outcome as outcomes
from explorer.workshop.quiz.results import Results
from tests.facts import says, untold

TRACE = Trace(artifacts=(Artifact("0/0:kernel", "kernel", "0/0", "", "k", "cpp", "first\nsecond <b>\nthird"),))


def place(subject: object) -> Place:
    return Place(TRACE, "0/0:kernel", 2)


def question(id: str = "Q.1", truth: Callable[[Any], Any] = lambda t: 3, **more: Any) -> Question:
    """A question whose truth is 3, with a trace that nothing had to be compiled for."""
    given = {"text": "How many?", "fields": (Number(),), "make": lambda: TRACE, "hint": "count", "where": place, **more}
    return Question(id=id, truth=truth, **given)


def double(function: Any) -> int:
    return int(function(2))


def task(id: str = "T.1") -> Task:
    """A task: a function that doubles."""
    checks = (
        Check("is 4", lambda value: (value == 4, f"it is {value}")),
        Check("is even", lambda value: (value % 2 == 0, f"{value}")),
    )
    return Task(id=id, text="Double.", takes="a function: f", make=double, checks=checks, hint="twice", where=place)


def answers(exercise: Any, *given: Any) -> list[Outcome]:
    return [exercise.judge(each) for each in given]


# Answers -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "points"),
    [((3,), 3), ((2, 3), 2), ((2, 4, 3), 1), ((2, 4, 5, 6, 3), 1), ((2, 4), 0), ((2, 2, 2, 3), 2), ((3, 2), 3)],
)
def test_points_are_fewer_with_each_different_wrong_answer(given: tuple[int, ...], points: int) -> None:
    """3, 2, then 1 point; the same answer again, as by Run All, counts once, and a right answer stands."""
    q = Quiz(question())
    answers(q("Q.1"), *given)
    assert q.score().points == points and q.score().out_of == 3


@pytest.mark.parametrize("given", [(), (...,), (None,), ("",)])
def test_an_unanswered_question_says_so_and_counts_nothing(given: tuple[Any, ...]) -> None:
    """The exercise is not answered yet, and its truth is not looked for."""
    q = Quiz(question(make=lambda: pytest.fail("a trace was made")), task())
    for id in ("Q.1", "T.1"):
        outcome = q(id).judge(*given)
        assert outcome.status == outcomes.UNANSWERED and f'q("{id}").answer(' in outcome.text
    assert not q.score().points and not any(row["tries"] for row in q.score().rows)


def test_a_half_answered_question_is_not_answered() -> None:
    """Where several values are asked for, one of which is missing, nothing is counted."""
    q = Quiz(question(fields=(Number("before"), Number("after")), truth=lambda t: (3, 1)))
    assert q("Q.1").judge(3, ...).status == outcomes.UNANSWERED
    assert not untold(q("Q.1").judge(3).text, "2", "before", "after", "1")


def test_the_first_miss_gives_the_hint_and_the_second_the_line() -> None:
    """The line is named in words, with its stage and its text; nothing tells the truth."""
    first, second = answers(Quiz(question())("Q.1"), 1, 2)
    assert (first.status, first.hint, first.place) == ("not yet", "count", None)
    assert not untold(str(second), "stage kernel", "line 2", "second <b>", "count")


def test_a_right_answer_praises_with_words_and_icon() -> None:
    """What a right answer shows has the points, and the note."""
    outcome = Quiz(question(note="Because of that."))("Q.1").judge(3)
    assert not untold(str(outcome), "✓ Q.1", "right", "3 points", "first", "Because of that.")
    assert outcome.is_right and outcome.points == 3


def test_what_cannot_be_an_answer_is_no_try() -> None:
    """A value of another kind gets a sentence, and the points stay."""
    q = Quiz(question(), task())
    assert q("Q.1").judge([3]).status == outcomes.REFUSED and not untold(q("Q.1").judge([3]).text, "number", "list")
    assert not untold(q("T.1").judge(3).text, "function", "int")
    assert not untold(q("T.1").judge(double, num_warps=1).text, "options", "num_warps")
    assert not untold(q("Q.1").judge(3, n=1).text, "position", "n")
    assert not any(row["tries"] for row in q.score().rows)


def test_each_value_of_several_is_said_to_be_right_or_not() -> None:
    """A half right answer has one row per value."""
    exercise = Quiz(question(fields=(Number("before"), Text("why")), truth=lambda t: (3, "Sum")))("Q.1")
    outcome = exercise.judge(3, "max")
    assert [(row["part"], row["passed"]) for row in outcome.rows] == [("before", True), ("why", False)]
    assert exercise.judge(3, "sum").is_right and exercise.judge((3, "sum")).is_right


def test_a_trace_of_the_learners_own_may_be_asked() -> None:
    """With `trace` the truth is that trace's; one that lacks what is asked about is no miss."""
    q = Quiz(question(truth=lambda t: len(t.find("kernel")) + 2, make=lambda: pytest.fail("a trace was made")))
    assert q("Q.1").judge(3, trace=TRACE).is_right
    outcome = Quiz(question(truth=lambda t: t.text("ptx")))("Q.1").judge(3, trace=TRACE)
    assert outcome.status == outcomes.NOT_JUDGED and not untold(outcome.text, "trace", "ptx")


def test_a_truth_that_cannot_be_found_is_no_miss() -> None:
    """Where there is no compiler, say, the learner is told why, and loses nothing."""

    def make() -> Trace:
        raise InputError("this question needs triton")

    q = Quiz(question(make=make))
    outcome = q("Q.1").judge(3)
    assert outcome.status == outcomes.NOT_JUDGED and "needs triton" in outcome.text and not q.score().rows[0]["tries"]


@pytest.mark.parametrize(("id", "given"), [("M1.1", 2), ("M1.5", double), ("M2.9", 1)])
def test_without_torch_an_answer_is_not_judged(monkeypatch: pytest.MonkeyPatch, id: str, given: Any) -> None:
    """The outcome says what to install, and nothing is counted."""
    monkeypatch.setitem(sys.modules, "torch", None)
    exercise = Quiz(id)(id)
    outcome = exercise.judge(given)
    assert outcome.status == outcomes.NOT_JUDGED and not untold(outcome.text, "needs torch", "pip install")
    assert not exercise.result.tries


def test_without_torch_a_saved_trace_may_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question whose trace is there needs no torch."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert Quiz(question())("Q.1").judge(3).is_right


# Tasks -------------------------------------------------------------------------------------------------------------------


def test_a_task_has_a_row_for_each_check() -> None:
    """Each check says whether it passed and what was found."""
    exercise = Quiz(task())("T.1")
    outcome = exercise.judge(lambda x: x + 4)
    assert [(r["part"], r["passed"], r["found"]) for r in outcome.rows] == [("is 4", False, "it is 6"), ("is even", True, "6")]
    assert exercise.judge(lambda x: 2 * x).points == 2


def test_a_function_that_raises_is_a_miss_with_its_error() -> None:
    """The cell does not fail; the error is shown, and a second one has no line to look at."""

    def unfinished(x: int) -> int:
        raise ZeroDivisionError("not finished")

    exercise = Quiz(task())("T.1")
    outcome = exercise.judge(unfinished)
    assert outcome.status == "not yet" and "ZeroDivisionError: not finished" in outcome.text
    assert exercise.judge(lambda x: 1 // 0).place is None and exercise.result.misses == 2


def test_the_same_function_again_counts_once() -> None:
    """Run All defines the function anew from the same source: that is no other try."""
    exercise = Quiz(task())("T.1")
    for _ in range(3):
        exercise.judge(lambda x: x + 1)
    assert exercise.result.misses == 1


def test_a_task_scores_once_what_it_needs_was_mended() -> None:
    """The function is the same text as before; now that its helper function is right, so is it."""
    exercise = Quiz(task())("T.1")
    statuses = [exercise.judge(lambda x, factor=factor: factor * x).status for factor in (3, 3, 2)]
    assert statuses == ["not yet", "not yet", "right"] and exercise.state() == "right, 3 points"


def test_random_numbers_and_modes_are_the_users_own_afterwards() -> None:
    """A learner's function that draws numbers, seeds and turns gradients off leaves no trace of it."""
    import torch

    def careless(x: int) -> int:
        torch.manual_seed(7)
        torch.rand(3)
        return 2 * x

    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with torch.no_grad():
        assert Quiz(task())("T.1").judge(careless).is_right
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(2), expected)


# The quiz ----------------------------------------------------------------------------------------------------------------


def test_exercises_that_share_a_subject_make_it_once() -> None:
    """The trace is made when the first of them is answered, and kept in the quiz."""
    made: list[int] = []

    def make() -> Trace:
        made.append(1)
        return TRACE

    q = Quiz(question(make=make), question("Q.2", make=make))
    assert q("Q.1").judge(3).is_right and q("Q.2").judge(3).is_right and q("Q.2").trace is TRACE and made == [1]


def test_a_quiz_is_made_of_parts_and_single_exercises() -> None:
    """Without an argument it is the whole workshop; a wrong id says which there are, and in which part another one is."""
    assert len(Quiz()) == len({each.id for each in Quiz()}) >= 44
    assert {each.id[:2] for each in Quiz("M1")} == {"M1"} and [e.id for e in Quiz("M1.2", "M0.1")] == ["M1.2", "M0.1"]
    with pytest.raises(InputError, match=says("M2.1", 'explorer.quiz.Quiz("M2")')):
        Quiz("M1")("M2.1")
    with pytest.raises(InputError, match=r"M1\.1"):
        Quiz("M1")("M1.12")
    with pytest.raises(InputError, match="'M0'"):
        Quiz("M10")
    with pytest.raises(InputError, match=says("int", 'explorer.quiz.Quiz("M1")')):
        Quiz(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("id", ["my question", "", "X.1\n", "X" * 41, "X/1", 3])
def test_an_id_that_no_file_could_have_is_refused(id: Any) -> None:
    """Its results would be written and never be read again; the error says what an id may have."""
    with pytest.raises(InputError, match=says(repr(id), "1 to 40", '"X.1"')):
        Quiz(question(id))


def test_results_are_exported_without_the_answers_and_gone_on_from(tmp_path: Path) -> None:
    """Another quiz takes over points and tries; the answers and anything of the person but the name are not in the file."""
    file = tmp_path / "ada.json"
    q = Quiz(question(), task(), resume=file)
    answers(q("Q.1"), 271828, 3)
    q.export(file, name="Ada")
    text = file.read_text()
    assert "271828" not in text and set(json.loads(text)) == {"format", "version", "name", "results"}
    again = Quiz(question(), question("Q.2"), resume=file)
    assert again.score().points == 2 and again("Q.1").judge(3).points == 2
    again("Q.1").judge(271828)
    again("Q.2").judge(3)
    again.export(file)
    assert {id: row["right"] for id, row in json.loads(file.read_text())["results"].items()} == {"Q.1": True, "Q.2": True}


def test_an_export_keeps_what_other_parts_wrote(tmp_path: Path) -> None:
    """One file serves all notebooks, also without `resume`; somebody else's stays as it is."""
    file = tmp_path / "ada.json"
    for id in ("Q.1", "Q.2"):
        q = Quiz(question(id))
        q(id).judge(3)
        q.export(file, name="Ada")
    assert set(json.loads(file.read_text())["results"]) == {"Q.1", "Q.2"}
    before = file.read_text()
    with pytest.raises(InputError, match=says("ada.json", "'Ada'")):
        q.export(file, name="Bob")
    with pytest.raises(InputError, match=says('name="Ada"', "80 characters")):
        Quiz(question()).export(tmp_path / "other.json")
    file.write_text("{")
    with pytest.raises(FileError, match=says("ada.json", "JSON")):
        q.export(file, name="Ada")
    assert file.read_text() == "{" and before


def test_an_export_does_not_put_back_what_was_only_resumed(tmp_path: Path) -> None:
    """A quiz writes what was answered in it; of the rest the file's own results are newer than those it resumed from."""
    file = tmp_path / "ada.json"
    q = Quiz(question(), question("Q.2"))
    for id in ("Q.1", "Q.2"):
        q(id).judge(1)
    q.export(file, name="Ada")
    both, first, second = Quiz(question(), question("Q.2"), resume=file), Quiz(question(), resume=file), Quiz(resume=file)
    both("Q.2").judge(3)
    both.export(file)
    for stale in (first, second, Quiz(question("Q.2"), resume=file)):
        stale.export(file)
    first("Q.1").judge(3)
    first.export(file)
    assert {id: each.is_right for id, each in Results.read(file).results.items()} == {"Q.1": True, "Q.2": True}
    both.export(tmp_path / "copy.json")
    assert set(Results.read(tmp_path / "copy.json").results) == {"Q.1", "Q.2"}


def test_of_two_notebooks_that_answer_one_exercise_the_better_result_stands(tmp_path: Path) -> None:
    """More points win, whichever is exported last, and the export says so; a miss never takes the place of a right answer."""
    file = tmp_path / "ada.json"
    good, late, missed = (Quiz(question(), question("Q.2")) for _ in range(3))
    answers(good("Q.1"), 3)
    answers(late("Q.1"), 1, 3)
    answers(late("Q.2"), 1)
    answers(missed("Q.1"), 1, 2)
    answers(missed("Q.2"), 1, 2)
    assert late.export(file, name="Ada").results["Q.1"].points == 2
    assert good.export(file, name="Ada").from_before == ()
    assert Results.read(file).results["Q.1"].points == 3
    again = late.export(file)
    assert again.from_before == ("Q.1",) and again.points == 3
    assert not untold(repr(again).splitlines()[-1], "better", "file", "Q.1")
    written = missed.export(file, name="Ada")
    assert written.from_before == ("Q.1",) and written == Results.read(file)
    assert [(each.points, len(each.tries)) for each in written.results.values()] == [(3, 1), (0, 2)]


def test_the_score_shows_each_exercise_in_words(tmp_path: Path) -> None:
    """One line per exercise, with icon and words."""
    q = Quiz(question(), question("Q.2"), task())
    answers(q("Q.1"), 3)
    answers(q("Q.2"), 1)
    lines = repr(q).splitlines()
    assert sorted(re.findall(r"\d+", lines[0])) == ["1", "3", "3", "9"] and not untold(lines[0], "3 points", "exercises")
    rows = (
        ("✓ Q.1", outcomes.RIGHT, "3 points"),
        ("✗ Q.2", outcomes.NOT_YET, "1 try"),
        ("○ T.1", outcomes.UNANSWERED),
    )
    assert [untold(line, *facts) for line, facts in zip(lines[1:], rows, strict=True)] == [[]] * 3
    assert "<td>✓</td>" in q._repr_html_()


def test_in_a_terminal_an_answer_is_printed_with_the_lines_around(capsys: pytest.CaptureFixture[str]) -> None:
    """The cell's last value shows nothing twice; after the second miss the lines are printed, with an arrow."""
    exercise = Quiz(question())("Q.1")
    exercise.answer(1)
    assert repr(exercise.answer(2)) == "<Q.1: not yet>"
    assert "→    2  second <b>" in capsys.readouterr().out


def test_what_is_shown_is_text_and_never_html() -> None:
    """What a learner gives, and the lines of a trace, are escaped."""
    exercise = Quiz(question(fields=(Text(),), truth=lambda t: "x"))("Q.1")
    answers(exercise, "<script>1</script>", "b")
    assert (
        "<script>" not in exercise.judge("<script>2</script>")._repr_html_()
        and "second &lt;b&gt;" in exercise.outcome._repr_html_()
    )  # type: ignore[union-attr]


@pytest.mark.compile
def test_the_quiz_is_imported_when_it_is_asked_for() -> None:
    """`import explorer` leaves it out, and `explorer.quiz.board` brings it in, without torch."""
    code = (
        "import sys, explorer\n"
        "assert not [m for m in sys.modules if m.startswith('explorer.workshop')]\n"
        "explorer.quiz.board; explorer.quiz.Quiz('M1')\n"
        "assert not {'torch', 'triton', 'ipywidgets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "quiz" in dir(explorer) and explorer.quiz.Quiz is explorer.quiz.Quiz
