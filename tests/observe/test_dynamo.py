"""What Dynamo's hooks make of code and tracebacks."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
import torch
from torch import nn

import explorer
from explorer.observe.dynamo import (
    OWN_FOLDER,
    copied_lines,
    definition_line,
    disassembly,
    qualified_name,
    without_own_calls,
)
from explorer.traced import Trace

FILE = textwrap.dedent(
    '''\
    import torch

    class Model(torch.nn.Module):
        """A model."""

        @torch.no_grad()
        def forward(
            self,
            x,
        ):
            y = x + 1

            def inner(z):
                return z * 2
    # a comment at the margin
            total = sum(
                inner(v)
                for v in (x, y)
            )
            return total

    def alone(x):
        return [v + 1
                for v in x]

    top = alone(1)
    '''
).splitlines(True)


@pytest.mark.parametrize(
    ("line", "function", "expected", "name"),
    [
        (11, "forward", 7, "Model.forward"),
        (14, "inner", 13, "Model.forward.inner"),
        (17, "forward", 7, "Model.forward"),
        (17, "<genexpr>", 7, "Model.forward"),
        (20, "forward", 7, "Model.forward"),
        (23, "alone", 22, "alone"),
        (24, "<listcomp>", 22, "alone"),
    ],
)
def test_the_definition_of_a_tracebacks_line_is_found(line: int, function: str, expected: int, name: str) -> None:
    """The def that a line is in is found by name and indentation, past nested functions, comments and comprehensions."""
    assert definition_line(FILE, line, function) == expected
    assert qualified_name(FILE, expected) == name


def test_a_line_of_the_module_itself_is_in_no_function() -> None:
    """A line at the top level has no definition, nor has one of a file that cannot be read."""
    assert definition_line(FILE, 26, "<module>") == 0
    assert definition_line([], 26, "f") == 0


def test_explorers_own_calls_are_cut_from_a_traceback() -> None:
    """Entries of explorer's files go, with their code lines; everything else stays as it is."""
    own = f'  File "{OWN_FOLDER}session.py", line 9, in trace\n    run()\n    ^^^^^\n'
    users = '  File "mine.py", line 3, in f\n    return x\n'
    assert without_own_calls(f"Reason\n{own}{users}{own}after\n") == f"Reason\n{users}after\n"


def branching(a: int) -> int:
    if a:
        a += 1
    return a


def test_a_copy_is_known_by_its_positions() -> None:
    """Every instruction of a function is one of its own lines, none is of another function's."""
    code, text = branching.__code__, disassembly(branching.__code__)
    copied = copied_lines(text, code, code)
    lines = text.splitlines()
    assert copied is not None and [n for n, _ in copied] == [n for n, line in enumerate(lines, 1) if line.strip()]
    assert {line for _, line in copied} == {line for _, _, line in code.co_lines() if line}
    assert copied_lines(text, code, is_same.__code__) == []


def is_same(a: int) -> int:
    return a


def test_an_instruction_without_columns_is_no_copy() -> None:
    """Its line in the line table is only that of the instruction before."""
    code = branching.__code__
    table, at, bare = code.co_linetable, 0, bytearray()
    while at < len(table):  # each entry: a first byte with its length, then what has the top bit clear
        end = next((n for n in range(at + 1, len(table)) if table[n] & 0x80), len(table))
        bare += bytes([0b1_1101_000 | (table[at] & 7), 0])  # no columns, the line before
        at = end
    own = code.replace(co_linetable=bytes(bare))
    assert {line for _, _, line in own.co_lines()} == {code.co_firstlineno}
    assert copied_lines(disassembly(own), own, code) == copied_lines(disassembly(own), own, own) == []


def test_a_disassembly_of_another_form_states_no_copies() -> None:
    """Where lines and instructions are not one to one nothing is known."""
    text = disassembly(branching.__code__)
    assert copied_lines(text.partition("\n")[2] + "\nmore\nand more", branching.__code__, branching.__code__) is None


def test_a_long_jump_is_copied_with_its_prefix() -> None:
    """EXTENDED_ARG has the positions of the instruction that it belongs to."""
    names: dict[str, object] = {}
    body = "\n".join(f"        a = a + {n}" for n in range(300))
    exec(compile(f"def long(a):\n    while a:\n{body}\n    return a\n", "<nowhere>", "exec"), names)
    code = names["long"].__code__  # type: ignore[attr-defined]
    text = disassembly(code)
    copied = dict(copied_lines(text, code, code) or ())
    prefixes = [n for n, line in enumerate(text.splitlines(), 1) if "EXTENDED_ARG" in line]
    assert prefixes and all(n in copied for n in prefixes)


def test_a_module_of_torchs_own_is_linked_to_its_lines(not_covered: Callable[[Trace], object]) -> None:
    """Dynamo writes no stack inside torch's modules; where nothing else is traced, nodes lead to the modules' source."""
    made = explorer.trace(nn.Sequential(nn.Linear(8, 8), nn.GELU()), torch.randn(4, 8), target="h100", train=True)
    assert not_covered(made) == []
    titles = [a.title.partition(" ")[0] for a in made.find("source")]
    assert {"Sequential.forward", "Linear.forward", "GELU.forward"} <= set(titles) and len(titles) == len(set(titles))
    line = next(n for n, text in enumerate(made.kernels[0].source.splitlines(), 1) if "libdevice.erf" in text)
    reached = {row["artifact"] for row in made.follow(made.kernels[0].artifact.id, line).where(stage="source")}
    assert "GELU.forward" in {made.artifact(id).title.partition(" ")[0] for id in reached}
    assert len(made.follow_module("0")) and len(made.follow_module("1"))


def test_what_dynamo_switches_is_linked_to_the_line_that_asks_for_it() -> None:
    """Autocast and vmap leave nodes without a stack; they were made on a line of the program."""

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.mm(x, x)
        return torch.vmap(torch.sum)(y)

    made = explorer.trace(f, torch.randn(4, 4), target="h100")
    (row,) = made.coverage("dynamo")
    assert "_enter_autocast" in made.text("dynamo") and "_vmap_decrement_nesting" in made.text("dynamo")
    assert row["missing"] == ()
