"""Several processes: one file per rank, and a word on what other processes compile."""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from pathlib import Path

import pytest
import torch

import explorer
from explorer.entry import cli
from explorer.process.ranks import path_of_rank, rank
from tests.facts import untold


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("out.json.gz", "out.rank3.json.gz"),
        ("out.html", "out.rank3.html"),
        ("my.run.json.gz", "my.run.rank3.json.gz"),
        ("out.v2", "out.rank3.v2"),
        ("out", "out.rank3"),
        ("OUT.HTML", "OUT.rank3.HTML"),
    ],
)
def test_a_rank_stands_before_the_ending(name: str, own: str) -> None:
    """The file is of the kind that was asked for, and another for each rank."""
    assert path_of_rank(Path("folder") / name, 3) == Path("folder") / own
    assert path_of_rank(Path(name), None) == Path(name)


def test_a_rank_is_one_of_several() -> None:
    """torchrun, mpirun and srun say which process this is; one alone has no rank."""
    assert rank({"RANK": "1", "WORLD_SIZE": "2"}) == 1
    assert rank({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"}) == 0
    assert rank({"RANK": "0", "WORLD_SIZE": "1"}) is rank({}) is rank({"RANK": "x", "WORLD_SIZE": "2"}) is None


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that compiles one function, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    file = tmp_path / "program.py"
    file.write_text("import torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n")
    return file


@pytest.mark.compile
def test_each_rank_writes_a_file_of_its_own(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under torchrun two ranks write two files, and no rank writes that of another."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    for number in ("0", "1"):
        monkeypatch.setenv("RANK", number)
        assert cli.main(["trace", "-o", "out.json.gz", "program.py"]) == 0
    assert sorted(path.name for path in program.parent.glob("out*")) == ["out.rank0.json.gz", "out.rank1.json.gz"]
    assert explorer.load(program.parent / "out.rank1.json.gz").find("dynamo")


@pytest.mark.compile
def test_ranks_that_are_not_asked_for_run_unrecorded(
    program: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A folder is made for the ranks that are, each with its job in its trace; the program of the others runs all the same."""
    program.write_text(f"{program.read_text()}print('ran')")
    monkeypatch.setenv("WORLD_SIZE", "3")
    for number in ("0", "1", "2"):
        monkeypatch.setenv("RANK", number)
        assert cli.main(["trace", "program.py", "--ranks", "0,2", "-o", "out/"]) == 0
    assert capfd.readouterr().out == "ran\n" * 3
    files = sorted((program.parent / "out").iterdir())
    assert [file.name for file in files] == ["trace.rank0.json.gz", "trace.rank2.json.gz"]
    jobs = [explorer.load(file).meta for file in files]
    assert [(meta["rank"], meta["world"]) for meta in jobs] == [(0, 3), (2, 3)]


@pytest.mark.compile
@pytest.mark.parametrize("rank", ["1", ""])
def test_the_error_of_a_rank_is_in_its_failures(program: Path, monkeypatch: pytest.MonkeyPatch, rank: str) -> None:
    """With its line, by the command and by `record`; a single process has shown it to whoever started it."""
    program.write_text(f"{program.read_text()}raise KeyError('no such batch')")
    if rank:
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", rank)
    assert cli.main(["trace", "program.py", "-o", "out.json.gz"]) == 1
    (file,) = program.parent.glob("out*.json.gz")
    with pytest.raises(KeyError), explorer.record() as recording:
        raise KeyError("no such batch")
    for trace, line in (
        (explorer.load(file), "raise KeyError('no such batch')"),
        (recording.trace, 'raise KeyError("no such batch")'),
    ):
        failures = [failure for failure in trace.failures if failure.stage == "run"]
        assert len(failures) == bool(rank)
        assert not any(untold(f.message, "KeyError", line) for f in failures)


@pytest.mark.compile
def test_a_recording_saves_each_rank_into_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`save` of a folder makes the folder, and names the file after the rank; one process has the plain name."""
    with explorer.record() as recording:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    recording.save(f"{tmp_path}/new/")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    recording.save(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["trace.json.gz", "trace.rank1.json.gz"]


@pytest.mark.parametrize(
    ("number", "name", "told"),
    [
        ("1", "out.json.gz", True),
        ("1", "out.10.json.gz", True),
        ("1", "out.rank1.json.gz", False),
        ("1", "rank01/out.json.gz", False),
        ("1", "out.PID.json.gz", False),
        ("0", "out.json.gz", False),
        ("", "out.json.gz", False),
    ],
)
def test_a_rank_that_saves_where_others_do_is_told(number: str, name: str, told: bool, tmp_path: Path) -> None:
    """Two ranks that save one name leave one file: the warning names another; rank 0 alone is let be, and the file is written."""
    path = tmp_path / "saved" / name.replace("PID", str(os.getpid()))  # a parameter must be the same in all of xdist's workers
    path.parent.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if number:
            patch.setenv("RANK", number)
            patch.setenv("WORLD_SIZE", "2")
        explorer.Trace({"name": "f"}).save(path)
        explorer.Trace({"name": "f"}).to_html(path.with_suffix(".html"))
    said = [str(warning.message) for warning in caught]
    written = (path, path.with_suffix(".html"))
    assert len(said) == 2 * told
    for sentence, file in zip(said, written, strict=False):
        assert not untold(sentence, "rank 1", file.name, path_of_rank(file, 1).name)
    assert [warning.filename for warning in caught] == [__file__] * len(said) and path.exists()


@pytest.mark.compile
def test_a_launcher_is_told_to_start_explorer(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A program that only starts others compiles nothing itself: the command that traces each is named."""
    program.rename(program.with_name("torchrun")).write_text("print('started')")
    assert cli.main(["trace", "torchrun"]) == 0
    assert "--no-python explorer trace -o out.json.gz SCRIPT ARGS" in capfd.readouterr().err


@pytest.mark.compile
def test_processes_that_a_program_starts_are_spoken_of_where_nothing_was_compiled_here() -> None:
    """What a DataLoader's worker compiles is not seen: how to record it is said; a recording with a compile says nothing."""
    for compiles in (False, True):
        with explorer.record() as recording:
            worker = multiprocessing.get_context("spawn").Process(target=os.getpid)  # which imports nothing
            worker.start()
            worker.join()
            if compiles:
                # a function of its own: torch.sin has code that an earlier test may have compiled
                torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(2))
        said = [f.message for f in recording.trace.failures]
        assert len(said) == (not compiles) and not any(
            untold(s, "1", "__getitem__", "explorer.record()", "r.trace.save") for s in said
        )
