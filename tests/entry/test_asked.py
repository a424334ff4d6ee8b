"""Questions about a saved trace on the command line: the answer in words, and as JSON with the rows that it rests on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.entry import cli
from explorer.tracing.traced import Trace
from tests.facts import untold

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(rotary: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `explorer` where saved.gz is the trace of a block for an H100: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    rotary.save("saved.gz")

    def run(*arguments: str) -> tuple[int, str, str]:
        status = cli.main([*arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_advise_says_why_it_is_slow(command: Command, rotary: Trace) -> None:
    """The text is that of `t.advise()`, and JSON has a row per verdict."""
    assert command("advise", "saved.gz") == (0, f"{rotary.advise()!r}\n", "")
    told = json.loads(command("advise", "saved.gz", "--json")[1])
    assert told["answer"] == repr(rotary.advise())
    assert [row["title"] for row in told["rows"]] == [verdict.title for verdict in rotary.advise()]


def test_why_takes_two_nodes_or_one(command: Command, rotary: Trace) -> None:
    """Of two the scheduler's verdicts, of one how it was lowered; an unknown name is one line with the nearest."""
    status, out, err = command("why", "saved.gz", "op0", "op16")
    assert (status, out, err) == (0, f"{rotary.why('op0', 'op16')!r}\n", "")
    told = json.loads(command("why", "saved.gz", "op0", "op16", "--json")[1])
    assert told["rows"][0]["verdict"] == "refused" and "has to run in between" in told["answer"]
    assert command("why", "saved.gz", "bmm", "--graph", "inference")[1] == f"{rotary.why('bmm', graph='inference')}\n"
    status, out, err = command("why", "saved.gz", "op0", "op166")
    assert (status, out) == (2, "") and not untold(err, "explorer", "'op166'", "'op16'")


def test_follow_takes_a_line_of_a_stage_of_a_file_or_of_a_text(command: Command, rotary: Trace) -> None:
    """Each names the same line; `--into` leaves one stage."""
    by_file = command("follow", "saved.gz", "programs.py:217", "--into", "post_grad")
    assert by_file == command("follow", "saved.gz", "0/0:source:4", "--into", "post_grad")
    assert not untold(by_file[1], "return x + self.down", "0/0:post_grad:inference") and "ptx" not in by_file[1]
    told = json.loads(command("follow", "saved.gz", "post_grad:16", "--json")[1])
    found = rotary.follow(rotary.find("post_grad")[0].id, 16)
    assert [(row["artifact"], tuple(row["lines"])) for row in told["rows"]] == [(r["artifact"], r["lines"]) for r in found]


@pytest.mark.parametrize(
    ("where", "facts"),
    [
        ("ptx:2", ("9 texts", "0/0:ptx:")),
        ("programs.py:1", ("line 1 of programs.py", "t.text('source')")),
        ("post_grad", ("post_grad:3", "model.py:12")),
        ("post_grad:9999", ("lines 1 to", "9999")),
    ],
)
def test_a_line_that_is_not_there_is_told_in_one_line(command: Command, where: str, facts: tuple[str, ...]) -> None:
    """It says how to name one."""
    status, out, err = command("follow", "saved.gz", where)
    assert (status, out) == (2, "") and err.count("\n") == 1 and not untold(err, *facts)


def test_show_prints_a_table(command: Command, rotary: Trace) -> None:
    """A table of Trace or of a stage, as it prints in Python, and its rows as JSON; not beside a stage's text."""
    assert command("show", "saved.gz", "--table", "kernels") == (0, f"{rotary.kernels.table!r}\n", "")
    told = json.loads(command("show", "saved.gz", "--table", "dynamo.guards", "--json")[1])
    assert told["table"] == "dynamo.guards" and len(told["rows"]) == len(rotary.dynamo.guards)
    assert command("show", "saved.gz", "--table", "dynamo")[1].startswith("<t.dynamo")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["show", "saved.gz", "--table", "guards", "--text", "ptx"])
