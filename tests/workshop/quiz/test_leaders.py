"""The leader board: who stands where, and which files are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from explorer.errors import InputError
from explorer.workshop.quiz.results import Result, Results
from tests.facts import says, untold


def written(folder: Path, name: str, *tries: int, figure: int | None = None) -> None:
    """Write the results of a learner whose exercises of M1 took so many tries."""
    results = {f"M1.{n}": Result(tuple(f"{t:08x}" for t in range(count)), True) for n, count in enumerate(tries, 1)}
    if figure is not None:
        results["M6.6"] = Result(("0000000a",), True, figure)
    Results(name, results).write(folder / f"{name.lower()[:3]}.json")


def test_the_most_points_stand_first_and_then_the_fewest_tries(tmp_path: Path) -> None:
    """Ada has more points; of two with as many, who needed fewer tries, and then who has fewer launches."""
    written(tmp_path, "Bob", 1, 3, figure=9)
    written(tmp_path, "Ada", 1, 1, figure=9)
    written(tmp_path, "Cyd", 2, 2, figure=7)
    board = explorer.quiz.board(tmp_path)
    assert [(row["place"], row["name"], row["points"], row["launches"]) for row in board.rows] == [
        (1, "Ada", 9, 9),
        (2, "Cyd", 7, 7),
        (3, "Bob", 7, 9),
    ]
    first, *_ = repr(board).splitlines()
    assert not untold(first, "1. Ada", "9 points", "3 right", "3 tries", "9 launches") and not board.left_out


def test_the_best_of_each_puzzle_is_on_the_board(tmp_path: Path) -> None:
    """Each puzzle that somebody solved has its par, the best figure, and everybody who has it."""
    for name, figure in (("Ada", 1), ("Bob", 1), ("Cyd", 0)):
        solved = {"P.7": Result(("00000001",), True, figure), "P.8": Result(("00000001",), figure > 0, figure or None)}
        Results(name, solved).write(tmp_path / f"{name}.json")
    board = explorer.quiz.board(tmp_path)
    assert [(row["id"], row["par"], row["best"], row["who"]) for row in board.puzzles] == [
        ("P.7", 1, 0, "Cyd"),
        ("P.8", 1, 1, "Ada, Bob"),
    ]
    for shown in (repr(board), board._repr_html_()):
        assert not untold(shown, "Make it one kernel", "Ada, Bob")


def test_damaged_files_are_named_and_left_out(tmp_path: Path) -> None:
    """A cut file, and a foreign one do not stop the board."""
    written(tmp_path, "Ada", 1)
    (tmp_path / "cut.json").write_text((tmp_path / "ada.json").read_text()[:40])
    (tmp_path / "foreign.json").write_text("[1, 2]")
    (tmp_path / "notes.txt").write_text("not read at all")
    board = explorer.quiz.board(tmp_path)
    assert [row["name"] for row in board.rows] == ["Ada"]
    assert [why.partition(":")[0] for why in board.left_out] == ["cut.json", "foreign.json"]
    for shown in (repr(board), board._repr_html_()):
        assert not untold(shown, "left out", "cut.json", "foreign.json")


def test_only_exercises_of_the_workshop_count(tmp_path: Path) -> None:
    """A file that also has a teacher's own question is on the board, with the points of the workshop."""
    of_both = {"M1.1": Result(("00000001", "00000002"), True), "X.1": Result(("00000003",), True)}
    Results("Ada", of_both).write(tmp_path / "ada.json")
    board = explorer.quiz.board(tmp_path)
    assert [(row["name"], row["points"], row["right"], row["tries"]) for row in board.rows] == [("Ada", 2, 1, 2)]
    assert not board.left_out


def test_names_are_shown_as_text(tmp_path: Path) -> None:
    """A name that is HTML is escaped."""
    written(tmp_path, "<script>alert(1)</script>", 1)
    assert "<script>" not in explorer.quiz.board(tmp_path)._repr_html_()


def test_a_board_takes_files_and_folders_and_says_if_there_is_none(tmp_path: Path) -> None:
    """A file that is given twice counts once; an empty folder has no results; a missing one is an error."""
    written(tmp_path, "Ada", 1)
    assert len(explorer.quiz.board(tmp_path, tmp_path / "ada.json").rows) == 1
    (tmp_path / "empty").mkdir()
    empty = explorer.quiz.board(tmp_path / "empty")
    assert not empty.rows and not untold(repr(empty), "no results")
    with pytest.raises(InputError, match=says(str(tmp_path / "nowhere"), "folder")):
        explorer.quiz.board(tmp_path / "nowhere")
