"""Which line of its PTX each instruction of SASS was assembled from, by ptxas's own line table.

nvdisasm names the line that a `.loc` of the PTX states, but not what that was inlined into, and where the PTX states line 0
ptxas goes on with the line before. So the same PTX is assembled once more with a `.loc` for each instruction, which names
the instruction's own line in the PTX. Line information changes no code; where the two disassemblies differ all the same,
nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from explorer.errors import ExplorerError
from explorer.ladder.ladder import Ladder, assembler
from explorer.ladder.triton_pool import Pool
from explorer.ladder.triton_tools import disassemble
from explorer.model.values import text_lines
from explorer.stages.triton.instructions import SASS_INSTRUCTION, is_instruction

_LOC = re.compile(r"^\s*\.loc\b")
_FILE = re.compile(r"^\s*\.file\s+(\d+)", re.MULTILINE)
_PLACE = re.compile(r'^\s*//## File "[^"]*", line (\d+)')
#: What a statement of PTX ends with; one that goes on in the next line takes no `.loc` in between.
_ENDS = (";", "{", "}", ":")


def ptx_lines(ladders: Sequence[Ladder]) -> list[tuple[int, ...]]:
    """For each ladder the line of its PTX that each instruction of its SASS is from, in order; () where that is not known.

    Costs ptxas and nvdisasm once more a kernel, and 0.3 s to start the workers.
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
        return () if answer is None else own_lines(disassemble(answer.result()["binary"]), ladder.sass())
    except ExplorerError:  # ptxas takes no label where an instruction is written in a way that is not known here
        return ()


def labelled(ptx: str) -> str:
    """The PTX with a `.loc` before each instruction, of the instruction's own line, and no other; "" where it names no file."""
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


def own_lines(made: str, sass: str) -> tuple[int, ...]:
    """The line that stands above each instruction of a labelled disassembly; () where it is not that of the same code."""
    code: list[str] = []
    numbers: list[int] = []
    last = 0
    for line in text_lines(made):
        if place := _PLACE.match(line):
            last = int(place[1])
        elif SASS_INSTRUCTION.match(line):
            code.append(" ".join(line.split()))
            numbers.append(last)
    same = code == [" ".join(line.split()) for line in text_lines(sass) if SASS_INSTRUCTION.match(line)]
    return tuple(numbers) if same else ()
