"""The program as far as a log quotes it: whole functions from files that are as they were, else the quoted lines alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from explorer.model.records import typed
from explorer.model.shared import Place
from explorer.sources.logs.quoted_source import QuotedSources
from explorer.stages.dynamo.source import SourceText
from tests.facts import untold

PROGRAM = """import torch

class A:
    @torch.no_grad()
    def forward(self, x):
        y = x.sin()
        return y

class B:
    def forward(self, x):
        return x.cos()
"""


def sources(quoted: QuotedSources) -> list[SourceText]:
    """The sources that are made of what was quoted."""
    return [typed(SourceText, event.data) for event in quoted.events()]


def stack(file: Path, line: int, code: str) -> str:
    """The stack of a node, as a graph's comment gives it."""
    return f'  File "{file}", line {line}, in forward\n    {code}\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The program's file."""
    path = tmp_path / "model.py"
    path.write_text(PROGRAM)
    return path


def test_each_function_of_a_name_is_shown_whole_with_its_decorators(file: Path) -> None:
    """The frame's own function comes first and is not inlined; a method of the same name in another class is."""
    quoted = QuotedSources()
    quoted.compiled("0/0", Place(file=str(file), line=9 + 1, function="forward"))
    quoted.quote_stacks("0/0", [stack(file, 11, "return x.cos()"), stack(file, 6, "y = x.sin()")])
    own, inlined = sources(quoted)
    assert (own.first_line, own.text, own.inlined, own.unseen) == (
        10,
        "def forward(self, x):\n    return x.cos()\n",
        None,
        "today",
    )
    assert (inlined.first_line, inlined.inlined) == (4, True)
    assert inlined.text == "@torch.no_grad()\ndef forward(self, x):\n    y = x.sin()\n    return y\n"


def test_a_file_that_changed_gives_only_what_the_log_quotes(file: Path) -> None:
    """Lines between the quoted ones are named by their numbers, and nothing of the new file is shown."""
    file.write_text(PROGRAM.replace("x.sin()", "x.tan()"))
    quoted = QuotedSources()
    quoted.quote_stacks("0/0", [stack(file, 6, "y = x.sin()"), stack(file, 8, "z = 1")])
    (source,) = sources(quoted)
    first, between, last = source.text.splitlines()
    assert (first, last) == ("y = x.sin()", "z = 1")
    assert between.startswith("#") and not untold(between, "line 7", "log")
    assert (source.first_line, source.unseen) == (6, "quoted")


def test_a_resume_function_begins_where_it_goes_on(file: Path) -> None:
    """It has no `def` of its own: its text begins with the first line that the log names."""
    quoted = QuotedSources()
    quoted.compiled("1/0", Place(file=str(file), line=6, function="torch_dynamo_resume_in_forward_at_6"))
    quoted.quote(str(file), 6, "y = x.sin()")
    (source,) = sources(quoted)
    assert (source.resume, source.first_line, source.text) == (True, 6, "y = x.sin()\nreturn y\n")


def test_lines_far_from_each_other_are_texts_of_their_own() -> None:
    """What is shown grows with what is quoted, not with the numbers of the lines."""
    quoted = QuotedSources()
    quoted.quote_stacks("0/0", [stack(Path("x.py"), 1, "a = 1"), stack(Path("x.py"), 30_000_000, "b = 2")])
    assert [(source.first_line, source.text) for source in sources(quoted)] == [(1, "a = 1\n"), (30_000_000, "b = 2\n")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    """A log may name any path; a pipe, on which reading waits for ever, is left alone."""
    os.mkfifo(tmp_path / "model.py")
    quoted = QuotedSources()
    quoted.quote_stacks("0/0", [stack(tmp_path / "model.py", 6, "y = x.sin()")])
    assert [source.unseen for source in sources(quoted)] == ["quoted"]
