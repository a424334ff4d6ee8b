"""Every exercise of the workshop, on real traces: right answers are right, wrong ones are not, and each check fails once."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from explorer.stages import STAGES
from explorer.view.payload import payload
from explorer.view.views import VIEWS
from explorer.workshop.quiz import Question, Quiz, Task
from explorer.workshop.quiz.quiz import Quiz as Made
from explorer.workshop.quiz.workshop import EXERCISES, FINAL, PARTS
from tests.each import each

HERE = Path(__file__).parent
ITEMS = {item.id: item for item in EXERCISES}
#: What runs without `--whole`: some of each part, every kind of answer and every way to make a subject.
SAMPLE = ("M0.2", "M1.1", "M1.2", "M1.5", "M2.2", "M2.4", "M2.6", "M2.7", "M2.9", "M3.2", "M3.6", "M4.2", "M4.7", "M8.1", "M8.3")
#: What a hint calls by its name on the screen: a tab, or a stage.
ON_SCREEN = re.compile(r"(?P<tab>tab )?“(?P<title>[^”]+)”")
SAMPLE_OF_KERNELS = ("M5.1", "M5.2", "M5.7", "M5.8", "M6.1", "M6.5", "M7.3", "M7.4")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the long test a sample of the exercises, and with `--whole` all of them."""
    if "exercise_id" in metafunc.fixturenames:
        whole = metafunc.config.getoption("--whole")
        metafunc.parametrize("exercise_id", list(ITEMS) if whole else [*SAMPLE, *SAMPLE_OF_KERNELS])


@cache
def quiz() -> Made:
    """One quiz for this file: exercises that share a trace share it here too."""
    return Quiz()


@pytest.fixture(scope="session")
def answers(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The right and the wrong answers."""
    return module_at(HERE / "answers.py")


def needs(id: str) -> None:
    """Skip an exercise whose compiler is not installed."""
    if id[:2] in ("M3", "M4", "M5", "M7", "P.") or id in ("M1.2", "M1.6", "M6.5", "M6.6"):
        pytest.importorskip("triton", reason="triton is not installed: it compiles for an H100")
    if id == "M6.4":
        pytest.importorskip("iree.compiler", reason="IREE is not installed")


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
def test_right_answers_are_right_and_wrong_ones_are_not(exercise_id: str, answers: ModuleType) -> None:
    """The first wrong answer gets the hint, the second the line; each check of a task fails once; the right one is right."""
    id = exercise_id
    needs(id)
    exercise = Quiz(id)(id) if isinstance(ITEMS[id], Task) else quiz()(id)
    missed = [exercise.judge(*given, **options) for given, options in answers.wrong(exercise)]
    assert len(missed) > 1 and {outcome.status for outcome in missed} == {"not yet"}, missed
    assert missed[0].hint == exercise.item.hint and missed[0].place is None
    places = [outcome.place for outcome in missed[1:] if outcome.place is not None]
    assert places and places[0].text and f"line {places[0].line}" in str(places[0])
    tabs = {view["name"]: view["title"] for view in payload(places[0].trace)["views"]}
    assert not places[0].view or places[0].view in tabs, "a view without that tab raises"
    hinted = {match["title"] for match in ON_SCREEN.finditer(exercise.item.hint) if match["tab"]}
    assert hinted <= set(tabs.values()), "the hint names a tab that this view does not have"
    if isinstance(exercise.item, Task):
        failed = {row["part"] for outcome in missed for row in outcome.rows if not row["passed"]}
        goal = {exercise.item.par.goal} if exercise.item.par else set()
        assert failed == {check.name for check in exercise.item.checks} | goal
    given, options = answers.right(exercise)
    outcome = exercise.judge(*given, **options)
    assert outcome.is_right, outcome


def test_there_is_an_answer_for_every_exercise(answers: ModuleType) -> None:
    """Each exercise has a right answer and wrong ones, but those whose truth is the machine's; no answer is left over."""
    of_the_machine = set(ITEMS) - set(answers.RIGHT)
    assert of_the_machine == {"M0.1", "M0.3", "M0.5"} == set(ITEMS) - set(answers.WRONG) and set(answers.RIGHT) <= set(ITEMS)


@each(ITEMS)
def test_every_exercise_is_well_formed(name: str) -> None:
    """It has a text, a hint, and says how it is answered; its program is the text that is traced; no answer is in its words."""
    item = ITEMS[name]
    assert item.text and item.hint and f'q("{name}").answer(' in item.how and name.partition(".")[0] in PARTS
    if item.program is not None and not item.program.is_triton:
        assert item.program.load().__name__ == item.program.name
    assert isinstance(item, Question) or (item.checks and ": " in item.takes)


@each(ITEMS)
def test_a_hint_uses_the_words_on_the_screen(name: str) -> None:
    """What is in quotes is the title of a tab, which is said to be one, or of a stage; no tab is called otherwise."""
    item = ITEMS[name]
    titles = {True: {view.title for view in VIEWS}, False: {stage.title for stage in STAGES}}
    words = f"{item.text} {item.hint}"
    assert [m["title"] for m in ON_SCREEN.finditer(words) if m["title"] not in titles[m["tab"] is not None]] == []
    assert not re.search(r"\btabs?\b(?! “)", words)


def test_the_leader_board_s_figure_is_that_of_an_exercise() -> None:
    """The final is there, and it has a par."""
    item: Any = ITEMS[FINAL]
    assert item.par is not None
