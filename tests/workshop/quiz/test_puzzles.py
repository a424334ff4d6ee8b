"""Every puzzle of the workshop on real traces: two solutions reach par, the program to begin with and near misses do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from explorer.errors import InputError
from explorer.workshop.quiz import Quiz, Task
from explorer.workshop.quiz.exercise import Exercise
from explorer.workshop.quiz.m5 import findings
from explorer.workshop.quiz.workshop import EXERCISES
from tests.each import each

HERE = Path(__file__).parent
PUZZLES = {item.id: item for item in EXERCISES if isinstance(item, Task) and item.par is not None}
DOCS = HERE.parents[2] / "docs" / "workshop.md"
#: Puzzles that need no compiler for a GPU.
WITHOUT_TRITON = ("M2.3", "M8.2", "M8.3", "P.1", "P.2", "P.3", "P.4")
#: Puzzles whose first wrong answer is the program to begin with.
BEGUN_WITH = ("M2.3", "M5.7", "M5.8", "M6.6", "M8.2", "M8.3", "P.18", "P.20")


@pytest.fixture(scope="session")
def answers(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The right and the wrong answers."""
    return module_at(HERE / "answers.py")


def exercise(id: str) -> Exercise:
    """Make a puzzle that nobody has answered; skip it where its compiler is not installed."""
    if id not in WITHOUT_TRITON:
        pytest.importorskip("triton", reason="triton is not installed: it compiles for an H100")
    return Quiz(id)(id)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
@pytest.mark.parametrize("id", PUZZLES)
def test_two_solutions_reach_par(id: str, answers: ModuleType) -> None:
    """The best of them is kept with the result."""
    figures: list[int] = []
    for given, options in (answers.RIGHT[id], answers.ALSO_RIGHT[id]):
        one = exercise(id)
        outcome = one.judge(*given, **options)
        assert outcome.is_right and outcome.standing is not None, str(outcome)
        assert one.result.figure is not None and one.result.figure == outcome.standing.figure
        figures.append(one.result.figure)
    par = PUZZLES[id].par
    assert par is not None and figures[0] <= par.par


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
@pytest.mark.parametrize("id", PUZZLES)
def test_the_program_to_begin_with_and_near_misses_are_refused_with_a_reason(id: str, answers: ModuleType) -> None:
    """The program has the figure of the first bar; three more fail a check each, in words, or raise, and no figure is kept.

    Together they fail every check.
    """
    one, item = exercise(id), PUZZLES[id]
    assert item.par is not None and item.program is not None
    outcomes = [one.judge(*given, **options) for given, options in answers.WRONG[id]]
    assert len(outcomes) >= 3 and {outcome.status for outcome in outcomes} == {"not yet"}, [*map(str, outcomes)]
    begun = outcomes[0] if id in BEGUN_WITH else exercise(id).judge(item.program.load())
    assert begun.standing is not None and (begun.status, begun.standing.figure) == ("not yet", item.par.start), str(begun)
    failed = [{row["part"]: row["found"] for row in outcome.rows if not row["passed"]} for outcome in outcomes]
    assert all(outcome.text or (all(rows.values()) and rows) for outcome, rows in zip(outcomes, failed, strict=True)), failed
    assert {part for rows in failed for part in rows} == {*(check.name for check in item.checks), item.par.goal}
    assert one.result.figure is None and one.result.misses == len(outcomes)


def test_accesses_that_could_not_be_judged_are_no_success() -> None:
    """Where the sanitizer did not judge every access there is no figure, and the reason is told."""
    launches = [{"complete": False, "note": "2 pairs are not judged"}]
    t: Any = SimpleNamespace(sanitize=lambda: SimpleNamespace(end="", launches=launches, table=[]))
    with pytest.raises(InputError, match="2 pairs are not judged"):
        findings(t, "outside")


@each(PUZZLES)
def test_every_puzzle_is_short(name: str) -> None:
    """It has a title of six words at most, a program of eleven lines at most to begin with, and a par below its start."""
    item = PUZZLES[name]
    assert item.par is not None and item.program is not None and item.hint
    assert 0 < len(item.title.split()) <= 6 and item.par.par < item.par.start and item.text.count(". ") < 2
    assert item.program.text.count("\n") <= 11 or name == "M6.6"


def test_the_teacher_s_page_lists_every_puzzle() -> None:
    """It has a row for each, with its title, the figure to begin with, and par."""
    rows = [
        f"| {item.id} | {item.title} | {item.par.start:,} | {item.par.par:,} | {item.par.unit} |"
        for item in PUZZLES.values()
        if item.par is not None
    ]
    text = DOCS.read_text(encoding="utf-8")
    assert len(rows) == 27 and [row for row in rows if row not in text] == []
