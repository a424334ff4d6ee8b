"""The leader board: the results of several learners, from the files that they exported."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.errors import FileError, InputError
from explorer.model.values import Table
from explorer.model.wording import quantity
from explorer.workshop.quiz.exercises import Task
from explorer.workshop.quiz.outcome import points
from explorer.workshop.quiz.results import Results
from explorer.workshop.quiz.workshop import EXERCISES, FINAL

#: A board is of a class.
MAX_FILES = 2_000


@dataclass(frozen=True, repr=False)
class Board:
    """One row per learner, the most points first: name, points, exercises right, tries, and the figure of the final.

    `puzzles` has one row per puzzle that somebody solved: its title, par, the best figure, and who has it. `left_out` has a
    sentence for each file that has no results, or that is damaged.
    """

    rows: Table
    puzzles: Table
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = [
            f"{row['place']:3}. {row['name']}: {points(row['points'])}, {row['right']} right in {row['tries']} tries"
            f"{f', {row[FINAL_COLUMN]} launches' if row[FINAL_COLUMN] is not None else ''}"
            for row in self.rows
        ]
        best = [
            f"  {row['id']} {row['title']}: {quantity(row['best'], row['unit'])} (par {row['par']}), {row['who']}"
            for row in self.puzzles
        ]
        return "\n".join([*(lines or ["no results yet"]), *best, *(f"left out: {why}" for why in self.left_out)])

    def _repr_html_(self) -> str:
        names = {"place": "", "name": "name", "points": "points", "right": "right", "tries": "tries", FINAL_COLUMN: "launches"}
        learners = _table(self.rows, names)
        puzzles = _table(self.puzzles, {name: name for name in PUZZLE_COLUMNS}) if self.puzzles else ""
        left_out = "".join(f"<li>left out: {html.escape(why)}</li>" for why in self.left_out)
        return f"{learners}{puzzles}{f'<ul>{left_out}</ul>' if left_out else ''}"


def _table(rows: Table, names: Mapping[str, str]) -> str:
    """Write some columns of rows as HTML, under the titles given."""
    head = "".join(f"<th>{title}</th>" for title in names.values())
    body = "".join(
        "<tr>" + "".join(f"<td>{'–' if row[n] is None else html.escape(str(row[n]))}</td>" for n in names) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


#: The column of the final's figure.
FINAL_COLUMN = "launches"
PUZZLE_COLUMNS = ("id", "title", "unit", "par", "best", "who")


def board(*paths: str | os.PathLike[str]) -> Board:
    """The leader board of exported files: `explorer.quiz.board("folder")`, or the files themselves.

    Of a folder every file that ends in .json is read. A file without results, or a damaged one, is named and left out. With equal
    points, fewer tries come first. Only the workshop's exercises count, not a teacher's own. InputError for a folder that is not
    there.
    """
    learners, left_out = [], []
    ids = {item.id for item in EXERCISES}
    for file in _files(paths):
        try:
            one = Results.read(file)
        except FileError as error:
            left_out.append(str(error))
        else:
            learners.append(Results(one.name, {id: result for id, result in one.results.items() if id in ids}))
    rows = sorted(map(_row, learners), key=lambda row: (-row["points"], row["tries"], row[FINAL_COLUMN] or 10**9, row["name"]))
    ranking = Table({"place": n, **row} for n, row in enumerate(rows, 1))
    return Board(ranking, Table(_best_figures(learners), PUZZLE_COLUMNS), tuple(left_out))


def _best_figures(learners: Sequence[Results]) -> Iterator[dict[str, Any]]:
    """Give a row for each puzzle that a learner solved: the best figure, and everybody who has it."""
    for item in EXERCISES:
        if not isinstance(item, Task) or item.par is None:
            continue
        results = {one.name: one.results[item.id] for one in learners if item.id in one.results}
        figures = {name: result.figure for name, result in results.items() if result.is_right and result.figure is not None}
        if figures:
            best = min(figures.values())
            who = ", ".join(sorted(name for name, figure in figures.items() if figure == best))
            yield {"id": item.id, "title": item.title, "unit": item.par.unit, "par": item.par.par, "best": best, "who": who}


def _row(one: Results) -> dict[str, Any]:
    results = one.results.values()
    final = one.results.get(FINAL)
    return {
        "name": one.name,
        "points": one.points,
        "right": sum(result.is_right for result in results),
        "tries": sum(len(result.tries) for result in results),
        FINAL_COLUMN: final.figure if final is not None else None,
    }


def _files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The files of folders, and those given, each once."""
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            files += sorted(each for each in path.iterdir() if each.suffix == ".json" and not each.name.startswith("."))
        elif path.exists():
            files.append(path)
        else:
            raise InputError(f"there is no folder or file {path}: give a folder with exported results, or the files")
    return list(dict.fromkeys(files))[:MAX_FILES]
