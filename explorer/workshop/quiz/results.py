"""What a quiz keeps of each exercise, and the file of it: the tries and their outcome, and no more of a person than a name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explorer.errors import FileError

#: The points of an exercise that is right at the first try, at the second, and at a later one.
POINTS = (3, 2, 1)
MAX_POINTS = POINTS[0]
#: What the file says that it is, and the version of its shape.
FORMAT, VERSION = "explorer.quiz", 1
#: Bounds on what a file may hold: it is read from people whom the reader need not know.
MAX_BYTES, MAX_NAME, MAX_ID, MAX_TRIES, MAX_FIGURE = 1_000_000, 80, 40, 1_000, 1_000_000
_ID = re.compile(rf"[\w.-]{{1,{MAX_ID}}}")
_TRY = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True)
class Result:
    """How one exercise stands. `tries` has a short hash of each different answer, the last one being right if `is_right`."""

    tries: tuple[str, ...] = ()
    is_right: bool = False
    figure: int | None = None

    @property
    def points(self) -> int:
        """3 if the first answer was right, 2 for the second, 1 for a later one, 0 while none is."""
        return POINTS[min(len(self.tries), len(POINTS)) - 1] if self.is_right and self.tries else 0

    @property
    def misses(self) -> int:
        """How many different answers were not right."""
        return len(self.tries) - self.is_right

    def after(self, mark: str, is_right: bool, figure: int | None) -> Result:
        """The result after one more answer. An answer that was given before does not count again, nor one after a right one.

        A better figure does. A miss that is right the next time, as after a helper function was mended, is right from then on,
        and takes no further try.
        """
        if self.is_right:
            better = figure is not None and (self.figure is None or figure < self.figure)
            return replace(self, figure=figure) if is_right and better else self
        if mark in self.tries and not is_right:
            return self
        earlier = tuple(each for each in self.tries if each != mark)
        return Result((*earlier, mark), is_right, figure)

    def best(self, other: Result) -> Result:
        """The better of two results of one exercise: the one with more points; where neither is right, the one with more tries.

        A better figure of the other one stays, as it does when an exercise is answered again.
        """
        better = max(self, other, key=lambda each: (each.points, len(each.tries) * (-1 if each.is_right else 1)))
        figures = [each.figure for each in (self, other) if each.is_right and each.figure is not None]
        return replace(better, figure=min(figures, default=None))


@dataclass(frozen=True, repr=False)
class Results:
    """The results of one learner by exercise, as a file has them.

    `from_before` has the exercises whose better result an export found in the file and kept.
    """

    name: str
    results: Mapping[str, Result]
    from_before: tuple[str, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        right = sum(result.is_right for result in self.results.values())
        lines = [f"{self.name}: {self.points} points, {right} of {len(self.results)} answered exercises are right"]
        if self.from_before:
            lines.append(f"  the better result of before stands in the file for {', '.join(self.from_before)}")
        return "\n".join(lines)

    @property
    def points(self) -> int:
        """All points together."""
        return sum(result.points for result in self.results.values())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file, by way of another one, so that what was there stays if writing fails.

        It keeps to the bounds of reading: the oldest tries and a figure that are beyond them are left out. FileError if the
        results are still too large.
        """
        rows = {id: _row(result) for id, result in sorted(self.results.items()) if result.tries}
        text = json.dumps(
            {"format": FORMAT, "version": VERSION, "name": self.name, "results": rows}, indent=1, ensure_ascii=False
        )
        content = f"{text}\n".encode()
        file = Path(path)
        if len(content) > MAX_BYTES:
            raise FileError(
                f"{file} was not written: the results are larger than {MAX_BYTES:,} bytes, the most that can be read again"
            )
        part = file.with_name(f".{file.name}.part")
        try:
            part.write_bytes(content)
            part.replace(file)
        except OSError as error:
            raise FileError(f"{file} cannot be written: {error.strerror or error}") from error

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Results:
        """Read such a file; FileError, which says what is wrong, for one that is none."""
        file = Path(path)
        try:
            with file.open("rb") as opened:
                content = opened.read(MAX_BYTES + 1)
        except OSError as error:
            raise FileError(f"{file.name}: it cannot be read ({error.strerror or error})") from error
        if len(content) > MAX_BYTES:
            raise FileError(f"{file.name}: it is larger than {MAX_BYTES:,} bytes, so it is not a file of results")
        try:
            return _checked(json.loads(content.decode("utf-8")))
        except (ValueError, RecursionError) as error:
            why = str(error) if type(error) is _WrongShape else "it is not JSON. It was cut off, or is another kind of file"
            raise FileError(f"{file.name}: {why}") from error


class _WrongShape(ValueError):
    """What JSON holds is no results."""


def _row(result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {"tries": list(result.tries[-MAX_TRIES:]), "right": result.is_right}
    return {**row, "figure": result.figure} if result.is_right and _is_figure(result.figure) else row


def checked_name(name: object) -> str:
    """A learner's name without spaces around it; ValueError for what is none."""
    if not isinstance(name, str) or not 0 < len(name.strip()) <= MAX_NAME or not name.strip().isprintable():
        raise _WrongShape(f"its name is not a text of 1 to {MAX_NAME} printable characters")
    return name.strip()


def _checked(value: Any) -> Results:
    """Make results of JSON; _WrongShape where it is anything else."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise _WrongShape("it is not a file of quiz results")
    if type(value.get("version")) is not int or not 1 <= value["version"] <= VERSION:
        raise _WrongShape(f"its version is not {VERSION}: it was written by a newer explorer, or altered")
    if set(value) != {"format", "version", "name", "results"} or not isinstance(value["results"], dict):
        raise _WrongShape("its fields are not those of quiz results")
    return Results(checked_name(value["name"]), {id: _result(id, row) for id, row in value["results"].items()})


def is_id(value: object) -> bool:
    """Whether a file may have results of an exercise with this id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_figure(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_FIGURE


def _result(id: str, row: Any) -> Result:
    if not is_id(id):
        raise _WrongShape(f"{id[:MAX_ID]!r} is not the id of an exercise")
    if not isinstance(row, dict) or not {"tries", "right"} <= set(row) <= {"tries", "right", "figure"}:
        raise _WrongShape(f"the fields of its result for {id} are not those of a result")
    tries, is_right, figure = row["tries"], row["right"], row.get("figure")
    if not isinstance(tries, list) or not 0 < len(tries) <= MAX_TRIES or len(set(map(str, tries))) != len(tries):
        raise _WrongShape(f"the tries of {id} are not a list of 1 to {MAX_TRIES} different answers")
    if not all(isinstance(each, str) and _TRY.fullmatch(each) for each in tries) or type(is_right) is not bool:
        raise _WrongShape(f"the tries of {id} are not recorded answers, or 'right' is not true or false")
    if figure is not None and not (is_right and _is_figure(figure)):
        raise _WrongShape(f"the figure of {id} must be a whole number from 0 to {MAX_FIGURE}, of a right answer")
    return Result(tuple(tries), is_right, figure)
