"""Dynamo's bytecode: instructions that it copied lead to the function, the others are Dynamo's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import explorer
from explorer.model.records import blank
from explorer.model.trace_data import artifact_of
from explorer.model.values import Artifact, Event
from explorer.stages.dynamo import decompiled
from explorer.stages.dynamo.dynamo_bytecode import STAGE, DynamoBytecodeText, kinds
from explorer.tracing.traced import Trace

TEXT = """  4           0 RESUME                   0
              2 LOAD_GLOBAL              1 (NULL + __compiled_fn_1)

  6          12 CALL                     1
             22 RETURN_VALUE
ExceptionTable:
  4 to 8 -> 10"""


def made(**facts: object) -> Artifact:
    return STAGE.artifact_of(
        Event("dynamo_bytecode", 0.0, "0/0", data=blank(DynamoBytecodeText, text=TEXT, file="f.py", qualname="f", **facts)), "b"
    )


def test_copied_instructions_lead_to_their_lines(with_source: Callable[..., Trace]) -> None:
    """Only they do: an instruction below a copied one in the disassembly is not of its line."""
    trace = with_source("def f(a):\n    pass\n    print(a)", "f.py", 4)
    links = list(STAGE.link(made(copied=((1, 4), (4, 6), (5, 99))), trace))
    assert [(x.source_lines, x.target, x.target_lines, x.how) for x in links] == [
        ((1,), "0/0:source", (1,), "instruction positions"),
        ((4,), "0/0:source", (3,), "instruction positions"),
    ]
    assert list(STAGE.link(made(), trace)) == []


def test_the_other_instructions_are_dynamos_own() -> None:
    """In a recording that does not say which are copied, no line is stated."""
    own, table = "Dynamo's own", ["exception table"] * 2
    assert kinds(made(copied=((1, 4), (4, 6)))) == ["", own, "blank", "", own, *table]
    assert kinds(made()) == [*["no line stated"] * 2, "blank", *["no line stated"] * 2, *table]


def broken(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = a / 2
    print(end="")
    if b.sum() < 0:
        b = b * -1
    return x * b


@pytest.mark.compile
def test_what_dynamo_copies_of_a_function_with_breaks() -> None:
    """The call that broke the graph and the branch on data lead to their lines; every other instruction is Dynamo's own."""
    with torch.no_grad():
        trace = explorer.trace(broken, torch.ones(4), torch.ones(4), backend="eager")
    rows = trace.coverage().where(stage="dynamo_bytecode")
    assert [row["share"] for row in rows if row["counted"]] == [1.0, 1.0]
    assert all(row["exempt"]["Dynamo's own"] > 20 for row in rows)
    found = set()
    for artifact in trace.find("dynamo_bytecode"):
        for number, _ in artifact.data["copied"]:
            lines = {  # once, though a resume function's line stands in the function around it too
                artifact_of(trace, row["artifact"]).lines[n - 1].strip()
                for row in trace.follow(artifact.id, number).where(stage="source")
                for n in row["lines"]
            }
            opcode = next(word for word in artifact.lines[number - 1].split() if word.isupper())
            found.add((opcode.partition("_")[0], *lines))
    assert found == {
        ("RESUME", "def broken(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:"),
        ("CALL", 'print(end="")'),
        ("POP", "if b.sum() < 0:"),
    }


def test_the_decompilers_lines_are_named() -> None:
    """The decompiler states no instruction's line, so none is linked and none counts as missing."""
    artifact = Artifact("d", "decompiled", "0/0", "", "", "python", "def f(a):\n\n    return a")
    assert decompiled.kinds(artifact) == ["no line stated", "blank", "no line stated"]
