"""Which instructions of Dynamo's bytecode are the user's own."""

from __future__ import annotations

import gc
import warnings
import weakref
from types import CodeType
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.observe.bytecode import copied_lines, decompiling
from explorer.capture.observe.functions import disassembly


def branching(a: int) -> int:
    if a:
        a += 1
    return a


def test_a_copy_is_known_by_its_positions() -> None:
    """Every instruction of a function counts as copied from its own line, none as copied from another function."""
    code, text = branching.__code__, disassembly(branching.__code__)
    copied = copied_lines(text, code, code)
    lines = text.splitlines()
    assert copied is not None and [n for n, _ in copied] == [n for n, line in enumerate(lines, 1) if line.strip()]
    assert {line for _, line in copied} == {line for _, _, line in code.co_lines() if line}
    assert copied_lines(text, code, is_same.__code__) == ()


def is_same(a: int) -> int:
    return a


def test_an_instruction_without_columns_is_no_copy() -> None:
    """Its line in the line table is only the line of the instruction before it."""
    code = branching.__code__
    table, at, bare = code.co_linetable, 0, bytearray()
    while at < len(table):  # each entry: a first byte with its length, then what has the top bit clear
        end = next((n for n in range(at + 1, len(table)) if table[n] & 0x80), len(table))
        bare += bytes([0b1_1101_000 | (table[at] & 7), 0])  # no columns, the line before
        at = end
    own = code.replace(co_linetable=bytes(bare))
    assert {line for _, _, line in own.co_lines()} == {code.co_firstlineno}
    assert copied_lines(disassembly(own), own, code) == copied_lines(disassembly(own), own, own) == ()


def test_a_disassembly_of_another_form_states_no_copies() -> None:
    """Where `dis` prints not one line per instruction, nothing is said of copies."""
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


def test_warnings_of_depyf_are_no_errors_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that makes warnings errors still gets the decompiled text, though depyf uses what is deprecated."""
    depyf = pytest.importorskip("depyf")
    decompile = depyf.decompile

    def decompile_with_warning(code: CodeType) -> str:
        warnings.warn("ast.Num is deprecated", DeprecationWarning, stacklevel=1)
        return str(decompile(code))

    monkeypatch.setattr(depyf, "decompile", decompile_with_warning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = decompiling(branching.__code__, branching.__code__)()
    assert "a += 1" in made.text and not made.undone


@pytest.mark.compile
@pytest.mark.parametrize("read", [True, False])
def test_what_was_compiled_is_freed_with_the_trace(*, read: bool) -> None:
    """What a backend gave, and Dynamo's own function, are freed once the trace is gone and Dynamo is reset.

    Dynamo removes that from the program's globals when the code that it made is freed. So too where the trace was never read.
    """
    pytest.importorskip("depyf")
    given: list[weakref.ref[Any]] = []

    def backend(gm: Any, inputs: Any) -> Any:
        def call(*arguments: Any) -> Any:
            return gm.forward(*arguments)

        given.append(weakref.ref(call))
        return call

    def compiled(names: dict[str, Any]) -> list[str]:
        return [name for name in names if name.startswith("__compiled_fn")]

    names: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for each in (names, plain):
        exec("def add_one(x):\n    return x + 1\n", each)
    torch.compile(plain["add_one"], backend="eager")(torch.ones(2))
    trace = explorer.trace(names["add_one"], torch.ones(2), backend=backend)
    assert not read or trace.find("decompiled")
    assert [each() is None for each in given] == [False]
    assert len(compiled(names)) == len(compiled(plain))  # none with torch 2.11
    del trace
    torch.compiler.reset()
    gc.collect()
    assert [each() is None for each in given] == [True]
    assert not compiled(names)
