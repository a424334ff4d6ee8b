"""Give each instruction of a code object the line of a text that shows it, so that a debugger steps through that text."""

from __future__ import annotations

import dis
from collections.abc import Mapping, Sequence
from types import CodeType

from explorer.model.values import text_lines

#: An entry of a location table without columns, as in CPython's Objects/locations.md: the kind, and the code units it covers.
_NO_COLUMNS, _MOST_UNITS = 13, 8


def disassembled_lines(code: CodeType, text: str) -> dict[int, int]:
    """The line of a disassembly for each instruction, by its offset; empty where `dis` did not print one line for each."""
    lines = [n for n, line in enumerate(text_lines(text.partition("\nExceptionTable:")[0]), 1) if line.strip()]
    instructions = list(dis.get_instructions(code))
    if len(lines) != len(instructions):
        return {}
    return {instruction.offset: line for instruction, line in zip(instructions, lines, strict=True)}


def with_lines(code: CodeType, file: str, line_of: Mapping[int, int]) -> CodeType:
    """The same code, each instruction at the line that `line_of` has for its offset in `file`."""
    table = bytearray()
    current = code.co_firstlineno
    for offset, units in _instructions(code):
        line = line_of[offset]
        for covered in _portions(units):
            table.append(0x80 | _NO_COLUMNS << 3 | covered - 1)
            table += _signed(line - current)
            current = line
    return code.replace(co_filename=file, co_linetable=bytes(table))


def _instructions(code: CodeType) -> Sequence[tuple[int, int]]:
    """Offset and number of code units of each instruction, its inline caches included."""
    starts = [instruction.offset for instruction in dis.get_instructions(code)]
    ends = [*starts[1:], len(code.co_code)]
    return [(start, (end - start) // 2) for start, end in zip(starts, ends, strict=True)]


def _portions(units: int) -> list[int]:
    """Split a number of code units into entries of at most eight each."""
    full, rest = divmod(units, _MOST_UNITS)
    return [_MOST_UNITS] * full + ([rest] if rest else [])


def _signed(number: int) -> bytes:
    """A signed number as the location table writes it: six bits a byte, low ones first, the sign lowest."""
    value = abs(number) << 1 | (number < 0)
    out = bytearray()
    while value >= 64:
        out.append(64 | value & 63)
        value >>= 6
    out.append(value)
    return bytes(out)
