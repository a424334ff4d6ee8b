"""The file of results: what is written is read again, and what is damaged or of another shape is refused in words."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import FileError
from explorer.workshop.quiz.results import MAX_BYTES, MAX_FIGURE, MAX_TRIES, Result, Results
from tests.facts import says, untold

GOOD = Results("Ada", {"M1.1": Result(("00000001",), is_right=True), "M6.6": Result(("00000002", "00000003"), True, 5)})


def altered(**changes: Any) -> str:
    """The text of a good file with some fields changed."""
    return json.dumps({"format": "explorer.quiz", "version": 1, "name": "Ada", "results": {}, **changes})


def result(**changes: Any) -> dict[str, Any]:
    return {"M1.1": {"tries": ["00000001"], "right": True, **changes}}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Name, tries, outcome and figure come back, and nothing is left beside the file."""
    GOOD.write(tmp_path / "ada.json")
    assert Results.read(tmp_path / "ada.json") == GOOD and GOOD.points == 5
    assert [each.name for each in tmp_path.iterdir()] == ["ada.json"]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ("JSON",)),
        (altered()[:-5], ("JSON",)),
        ("\x00\xff", ("JSON",)),
        ("[" * 100_000, ("JSON",)),
        ("9" * 10_000, ("JSON",)),
        ("[]", ("results", "quiz")),
        ("{}", ("results", "quiz")),
        (altered(format="other"), ("results", "quiz")),
        (altered(version=2), ("version", "1")),
        (altered(version=True), ("version", "1")),
        (altered(more=1), ("fields",)),
        (altered(results=[]), ("fields",)),
        (altered(name=""), ("name", "1", "80")),
        (altered(name="a\nb"), ("name", "1", "80")),
        (altered(name="a" * 81), ("name", "1", "80")),
        (altered(name=["Ada"]), ("name", "1", "80")),
        (altered(results={"<b>": result()["M1.1"]}), ("id", "'<b>'")),
        (altered(results={"M1.1\n": result()["M1.1"]}), ("id", r"'M1.1\n'")),
        (altered(results=result(points=99)), ("fields", "M1.1")),
        (altered(results=result(tries=[])), ("tries", "M1.1", "different")),
        (altered(results=result(tries=["00000001"] * 2)), ("tries", "M1.1", "different")),
        (altered(results=result(tries=["zz"])), ("tries", "M1.1")),
        (altered(results=result(tries=["00000001\n"])), ("tries", "M1.1")),
        (altered(results=result(tries=[1])), ("tries", "M1.1")),
        (altered(results=result(right=1)), ("tries", "M1.1")),
        (altered(results=result(figure=-1)), ("figure", "M1.1")),
        (altered(results=result(figure=True)), ("figure", "M1.1")),
        (altered(results=result(right=False, figure=3)), ("figure", "M1.1")),
        (" " * (MAX_BYTES + 1), (f"{MAX_BYTES:,} bytes",)),
    ],
    ids=range(29),
)
def test_a_file_of_another_shape_is_refused_by_name(tmp_path: Path, text: str, facts: tuple[str, ...]) -> None:
    """A FileError says which file it is and what is wrong with it; nothing else is ever raised."""
    file = tmp_path / "bob.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FileError) as raised:
        Results.read(file)
    assert not untold(str(raised.value), "bob.json", *facts)
    assert bool(untold(str(raised.value), "different")) == ("different" not in facts), "only of answers given twice, or of none"


def test_a_file_that_is_not_there_or_cannot_be_written_is_an_error_of_files(tmp_path: Path) -> None:
    """Reading what is missing, and writing into no folder, say why."""
    with pytest.raises(FileError, match=says("none.json", os.strerror(errno.ENOENT))):
        Results.read(tmp_path / "none.json")
    with pytest.raises(FileError, match=says(str(tmp_path / "no" / "ada.json"), os.strerror(errno.ENOENT))):
        GOOD.write(tmp_path / "no" / "ada.json")


def test_points_are_counted_and_not_read() -> None:
    """The points of a file follow from its tries: no field of it can claim more."""
    assert [Result(tuple(f"{n:08x}" for n in range(tries)), True).points for tries in (1, 2, 3, 9)] == [3, 2, 1, 1]
    assert Result(("00000001",)).points == 0


def test_a_miss_that_is_right_the_next_time_scores() -> None:
    """The same source may be right later, as when a helper function was mended: it counts at the number of tries so far."""
    once = Result().after("0000000a", is_right=False, figure=None)
    assert once.after("0000000a", is_right=True, figure=7) == Result(("0000000a",), True, 7)
    twice = once.after("0000000b", is_right=False, figure=None)
    right = twice.after("0000000a", is_right=True, figure=7)
    assert (right.tries, right.points, right.misses, right.figure) == (("0000000b", "0000000a"), 2, 1, 7)
    assert twice.after("0000000a", is_right=False, figure=None) is twice


def test_a_right_answer_stands() -> None:
    """Given again it neither gains nor loses points, whatever comes after it; only a better figure is taken over."""
    right = Result(("0000000a", "0000000b"), True, 7)
    assert right.after("0000000b", is_right=True, figure=7) is right
    assert right.after("0000000b", is_right=False, figure=None) is right
    assert right.after("0000000a", is_right=True, figure=9) is right
    assert right.after("0000000a", is_right=True, figure=5) == Result(right.tries, True, 5)


@pytest.mark.parametrize("figure", [MAX_FIGURE + 1, -1, 2.5, True])
def test_a_file_that_is_written_can_be_read(tmp_path: Path, figure: Any) -> None:
    """The oldest tries and a figure out of bounds are left out of the file, so that no reader refuses it."""
    tries = tuple(f"{n:08x}" for n in range(MAX_TRIES + 5))
    Results("Ada", {"M6.6": Result(tries, True, figure)}).write(tmp_path / "ada.json")
    assert Results.read(tmp_path / "ada.json").results == {"M6.6": Result(tries[5:], True)}


def test_a_file_that_nobody_would_read_is_not_written(tmp_path: Path) -> None:
    """Results of more bytes than a file may have are an error, and what was there stays."""
    GOOD.write(tmp_path / "ada.json")
    tries = tuple(f"{n:08x}" for n in range(MAX_TRIES))
    with pytest.raises(FileError, match=says("ada.json", f"{MAX_BYTES:,} bytes")):
        Results("Ada", {f"X.{n}": Result(tries) for n in range(100)}).write(tmp_path / "ada.json")
    assert Results.read(tmp_path / "ada.json") == GOOD


def test_the_best_figure_of_two_results_stays() -> None:
    """The result with more points has the better figure of the two; one that is not right has none to give."""
    first, second, missed = Result(("a",), True, 7), Result(("b", "c"), True, 5), Result(("b",), False)
    assert first.best(second) == second.best(first) == Result(("a",), True, 5)
    assert first.best(missed) == missed.best(first) == first
    assert missed.best(Result(("b", "d"), False)) == Result(("b", "d"), False)
