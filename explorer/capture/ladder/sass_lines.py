"""The PTX line of each SASS instruction, from ptxas's own line table.

nvdisasm names the line of the PTX's `.loc`, but not the call sites it was inlined into, and for line 0 ptxas repeats the line
before. So the same PTX is assembled once more with a `.loc` before each instruction, which names the instruction's own line
in the PTX. Line information changes no code. If the two disassemblies differ all the same, no lines are given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from explorer.capture.ladder.ladder import Ladder, assembler
from explorer.capture.ladder.triton_pool import Pool
from explorer.capture.ladder.triton_tools import disassemble
from explorer.errors import ExplorerError
from explorer.model.values import text_lines
from explorer.stages.triton.instructions import SASS_INSTRUCTION, is_instruction

_LOC = re.compile(r"^\s*\.loc\b")
_FILE = re.compile(r"^\s*\.file\s+(\d+)", re.MULTILINE)
_PLACE = re.compile(r'^\s*//## File "[^"]*", line (\d+)')
#: The ends of a PTX statement; one that goes on in the next line takes no `.loc` in between.
_ENDS = (";", "{", "}", ":")


def ptx_lines(ladders: Sequence[Ladder]) -> list[tuple[int, ...]]:
    """For each ladder, the PTX line of each SASS instruction in order; () if not known.

    Runs ptxas and nvdisasm once more for each kernel, and takes 0.3 s to start the workers.
    """
    if not ladders:
        return []
    with Pool(len(ladders) // 4 + 1, assembler(ladders[0].target)) as pool:
        answers = [pool.submit(_job(ladder)) if ladder.lowered else None for ladder in ladders]
        return [_lines(ladder, answer) for ladder, answer in zip(ladders, answers, strict=True)]


def _job(ladder: Ladder) -> dict[str, Any]:
    assert ladder.lowered is not None, "a ladder that was loaded has no process to ask"
    return {**ladder.lowered.job, "ptx": labelled(ladder.texts["ptx"])}


def _lines(ladder: Ladder, answer: Future[dict[str, Any]] | None) -> tuple[int, ...]:
    try:
        return () if answer is None else instruction_lines(disassemble(answer.result()["binary"]), ladder.sass())
    except ExplorerError:  # `labelled` put a `.loc` where ptxas takes none: an instruction's form that it does not know
        return ()


def labelled(ptx: str) -> str:
    """Replace the PTX's `.loc` lines by one before each instruction, with its own line; "" if it names no file."""
    file = _FILE.search(ptx)
    if file is None:
        return ""
    lines: list[str] = []
    complete = True
    for number, line in enumerate(text_lines(ptx), 1):
        if _LOC.match(line):
            continue
        if complete and is_instruction(line):
            lines.append(f"\t.loc\t{file[1]} {number} 0")
        lines.append(line)
        code = line.partition("//")[0].strip()
        complete = complete if not code else code.endswith(_ENDS) or code.startswith(".")
    return "\n".join(lines) + "\n"


def instruction_lines(labelled_sass: str, sass: str) -> tuple[int, ...]:
    """The line above each instruction of a labelled disassembly; () if its code differs from `sass`."""
    code: list[str] = []
    numbers: list[int] = []
    last = 0
    for line in text_lines(labelled_sass):
        if place := _PLACE.match(line):
            last = int(place[1])
        elif SASS_INSTRUCTION.match(line):
            code.append(" ".join(line.split()))
            numbers.append(last)
    same = code == [" ".join(line.split()) for line in text_lines(sass) if SASS_INSTRUCTION.match(line)]
    return tuple(numbers) if same else ()
