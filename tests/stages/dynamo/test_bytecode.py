"""Bytecode: each instruction is linked to its line, in what `dis` prints on each Python."""

from __future__ import annotations

import dis
import io
from collections.abc import Callable

import pytest

from explorer.model.records import blank
from explorer.model.values import Artifact, Event
from explorer.stages.dynamo.bytecode import STAGE, BytecodeText
from explorer.tracing.traced import Trace

PYTHON_3_11 = """ 22           0 RESUME                   0

 24           2 LOAD_FAST                0 (a)
              4 LOAD_GLOBAL              1 (NULL + torch)
             52 STORE_FAST               2 (x)

 25          54 LOAD_FAST                1 (b)
            100 POP_JUMP_FORWARD_IF_FALSE     5 (to 112)

 27     >>  112 LOAD_FAST                2 (x)
            120 RETURN_VALUE
ExceptionTable:
  4 to 52 -> 112 [0]"""
PYTHON_3_12 = PYTHON_3_11.replace("POP_JUMP_FORWARD_IF_FALSE     5", "POP_JUMP_IF_FALSE        5")
PYTHON_3_13 = """ 22           RESUME                   0

 24           LOAD_FAST                0 (a)
              LOAD_GLOBAL              1 (torch + NULL)
              STORE_FAST               2 (x)

 25           LOAD_FAST                1 (b)
              POP_JUMP_IF_FALSE        9 (to L1)

 27   L1:     LOAD_FAST                2 (x)
              RETURN_VALUE
ExceptionTable:
  L1 to L2 -> L3 [0]"""
WITHOUT_LINE = """ 24           LOAD_FAST                0 (a)

  --  L2:     PUSH_EXC_INFO
              RERAISE                  0

 25           LOAD_FAST                1 (b)"""
SOURCE = "def f(a, b):\n    '''Doc.'''\n    x = a / (torch.abs(a) + 1)\n    if b.sum() < 0:\n        b = -b\n    return x\n"


def links(text: str, trace: Trace) -> dict[str, int]:
    """The source's line of each instruction, by its opcode."""
    made = rendered(text)
    return {
        made.lines[n - 1].partition("(")[0]: link.target_lines[0] for link in STAGE.link(made, trace) for n in link.source_lines
    }


def rendered(text: str) -> Artifact:
    return STAGE.artifact_of(Event("bytecode", 0.0, "0/0", data=blank(BytecodeText, text=text, file="f.py", qualname="f")), "b")


@pytest.fixture
def trace(with_source: Callable[..., Trace]) -> Trace:
    return with_source(SOURCE, "f.py", 22)


@pytest.mark.parametrize("text", [PYTHON_3_11, PYTHON_3_12, PYTHON_3_13], ids=["3.11", "3.12", "3.13"])
def test_each_instruction_links_to_its_line(text: str, trace: Trace) -> None:
    """The number at the first instruction of a line holds for those below it; labels and jump marks do not disturb."""
    found = links(text, trace)
    assert [line for opcode, line in found.items()] == [1, 3, 3, 3, 4, 4, 6, 6]
    assert len(found) == sum(bool(line.strip()) for line in text.splitlines()) - 2


def test_the_exception_table_belongs_to_no_line(trace: Trace) -> None:
    """What `dis` prints after the instructions is not linked."""
    made = rendered(PYTHON_3_11)
    last = max(n for link in STAGE.link(made, trace) for n in link.source_lines)
    assert made.lines[last].startswith("ExceptionTable")


def test_instructions_without_a_line_are_not_linked(trace: Trace) -> None:
    """From Python 3.13 on `dis` says where an instruction has no line: no link rather than the line above."""
    assert list(links(WITHOUT_LINE, trace).values()) == [3, 4]


def test_a_line_outside_the_source_is_not_linked(trace: Trace) -> None:
    """Instructions of lines that no source of the trace holds have no link."""
    assert list(links(PYTHON_3_11.replace(" 27     >>", "270     >>"), trace).values()) == [1, 3, 3, 3, 4, 4]


def test_the_running_pythons_own_form_is_known(with_source: Callable[..., Trace]) -> None:
    """What `dis` prints here, for a function with branches and a try, links every line that has code."""

    def f(a: int) -> int:
        if a:
            a += 1
        try:
            return a * 2
        finally:
            print(a)

    out = io.StringIO()
    dis.dis(f.__code__, file=out, depth=0)
    first = f.__code__.co_firstlineno
    made = rendered(out.getvalue().rstrip())
    trace = with_source("\n" * 6 + "x", "f.py", first)
    expected = {line - first + 1 for _, _, line in f.__code__.co_lines() if line}
    assert {line for link in STAGE.link(made, trace) for line in link.target_lines} == expected
