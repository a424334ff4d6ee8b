"""Quiz: exercises by their id, the score, and a file of the results."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.errors import InputError, unknown_name
from explorer.model.values import Table, text_lines
from explorer.workshop.quiz.exercise import Exercise
from explorer.workshop.quiz.exercises import Item, Question, Subject, Task
from explorer.workshop.quiz.outcome import ICONS, NOT_YET, RIGHT, UNANSWERED, points
from explorer.workshop.quiz.results import MAX_ID, MAX_POINTS, Result, Results, checked_name, is_id
from explorer.workshop.quiz.workshop import EXERCISES, PARTS


@dataclass(frozen=True, repr=False)
class Score:
    """How a quiz stands: one row per exercise, and the points together."""

    rows: Table
    points: int
    out_of: int

    def __repr__(self) -> str:
        right = sum(row["right"] for row in self.rows)
        lines = [f"{points(self.points)} of {self.out_of}; {right} of {len(self.rows)} exercises are right"]
        return "\n".join([*lines, *(f"  {_icon(row)} {row['id']}: {row['state']}" for row in self.rows)])

    def _repr_html_(self) -> str:
        head = html.escape(text_lines(repr(self))[0])
        cells = "".join(
            f"<tr><td>{_icon(row)}</td><td>{html.escape(row['id'])}</td><td style='text-align:left'>{html.escape(row['state'])}"
            f"</td></tr>"
            for row in self.rows
        )
        return (
            f"<p><b>{head}</b></p><table><tr><th></th><th>exercise</th><th style='text-align:left'>state</th></tr>{cells}</table>"
        )


def _icon(row: Any) -> str:
    return ICONS[RIGHT if row["right"] else NOT_YET if row["tries"] else UNANSWERED]


class Quiz:
    """Exercises, by id: `q = explorer.quiz.Quiz("M1")`, then `q("M1.1").answer(2)`.

    `parts` are parts of the workshop ("M0" to "M8", "P" for the puzzles), ids of single exercises, or questions and tasks of your
    own; without any it is the whole workshop. `resume` is a file that `export` wrote. Its results are taken over, also of other
    parts, and the next export writes them again. A file that is not there yet is taken as empty.
    """

    def __init__(self, *parts: str | Question | Task, resume: str | os.PathLike[str] | None = None) -> None:
        items = dict.fromkeys(item for part in parts or PARTS for item in _items(part))
        self.name = ""
        self._loaded: dict[str, Result] = {}
        self._subjects: dict[Callable[[], Subject], Subject] = {}
        if resume is not None and Path(resume).exists():
            kept = Results.read(resume)
            self.name, self._loaded = kept.name, dict(kept.results)
        self._exercises = {i.id: Exercise(i, self._subject, self._loaded.get(i.id, Result())) for i in items}

    def _subject(self, make: Callable[[], Subject]) -> Subject:
        """The subject that `make` gives, made once for all exercises that share it."""
        if make not in self._subjects:
            self._subjects[make] = make()
        return self._subjects[make]

    def __call__(self, id: str) -> Exercise:
        """The exercise of that id; InputError, with the ids that there are, for another."""
        if id not in self._exercises:
            if any(item.id == id for item in EXERCISES):
                raise InputError(f'{id} is not in this quiz: explorer.quiz.Quiz("{id.partition(".")[0]}") has it')
            raise unknown_name("exercise", id, self._exercises)
        return self._exercises[id]

    def __iter__(self) -> Iterator[Exercise]:
        """The exercises in their order."""
        return iter(self._exercises.values())

    def __len__(self) -> int:
        """How many exercises there are."""
        return len(self._exercises)

    def judge_by(self, subjects: Mapping[str, Subject]) -> None:
        """Find the truths of the questions with these ids in the traces given, such as loaded ones, instead of compiling.

        Questions that share a trace share the one given. InputError for an id that this quiz does not have.
        """
        for id, subject in subjects.items():
            item = self(id).item
            if isinstance(item, Question):
                self._subjects[item.make] = subject

    def score(self) -> Score:
        """Return the score, one row per exercise: 3 points for a right first try, 2 for the second, 1 later."""
        rows = Table(
            {
                "id": each.id,
                "state": each.state(),
                "right": each.result.is_right,
                "tries": len(each.result.tries),
                "points": each.result.points,
                "figure": each.result.figure,
            }
            for each in self
        )
        return Score(rows, sum(row["points"] for row in rows), MAX_POINTS * len(rows))

    def export(self, path: str | os.PathLike[str], name: str = "") -> Results:
        """Write the results to a small JSON file, and return them: each exercise's tries, and `name`, which you choose.

        A file of yours that is there keeps the results of exercises that this quiz does not have, or that you have not answered
        here. If two notebooks answered an exercise, the better result counts: more points, and the best figure. No answer is in
        the file. InputError without a name, and for a file of somebody else; FileError for a file that has no results, which
        stays as it is.
        """
        name = name or self.name
        try:
            name = checked_name(name)
        except ValueError:
            raise InputError(
                'give a name for the leader board: quiz.export("ada.json", name="Ada"), 80 characters at most'
            ) from None
        before = Results.read(path) if Path(path).exists() else Results(name, {})
        if before.name != name:
            raise InputError(
                f"{Path(path).name} has the results of {before.name!r}: choose another file, or export under that name"
            )
        here = {**self._loaded, **{each.id: each.result for each in self if each.result.tries}}
        best = {id: before.results[id].best(result) if id in before.results else result for id, result in here.items()}
        scored = {id: (best[id].points, best[id].figure) for id in here}
        from_before = tuple(id for id, result in here.items() if scored[id] != (result.points, result.figure))
        results = Results(name, {**before.results, **best}, from_before)
        results.write(path)
        self.name = name
        return results

    def __repr__(self) -> str:
        return repr(self.score())

    def _repr_html_(self) -> str:
        return self.score()._repr_html_()


def _items(part: str | Question | Task) -> tuple[Item, ...]:
    """The exercises of a part's name or an id, or the one given; InputError for what is neither, or has no proper id."""
    if isinstance(part, (Question, Task)):
        if not is_id(part.id):
            raise InputError(
                f"an exercise cannot have the id {part.id!r}, since a file of results could not have it: choose one of 1 to"
                f' {MAX_ID} letters, digits, ".", "_" and "-", such as "X.1"'
            )
        return (part,)
    if not isinstance(part, str):
        raise InputError(f'a quiz is made of parts, such as explorer.quiz.Quiz("M1"), not of {type(part).__name__}')
    chosen = tuple(item for item in EXERCISES if part in (item.id, item.id.partition(".")[0]))
    if not chosen:
        raise unknown_name("part", part, [*PARTS, *(item.id for item in EXERCISES)])
    return chosen
