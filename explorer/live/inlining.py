"""What the debug information of an assembly text says of inlining: by which calls each instruction came where it is.

The text's own .loc lines name only the innermost place, for vector code a header of intrinsics. The calls that it was
inlined by are in the debug information (DWARF 5, 3.3.8: DW_TAG_inlined_subroutine with DW_AT_call_file and
DW_AT_call_line). To ask for them, a copy of the text with a label before each instruction is assembled; labels make no
code. Needs objdump and addr2line of GNU binutils, which g++ needs as well.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from explorer.errors import LiveError
from explorer.model.values import text_lines
from explorer.stages.cpp.assembly import Calls, is_instruction

_LABEL = "explorer.instruction."
_ANSWER = re.compile(r"^0x[0-9a-f]+\n", re.MULTILINE)
_PLACE = re.compile(r"^(?P<file>.*):(?P<line>\d+|\?)(?: \(discriminator \d+\))?$")


def calls_of(text: str, folder: Path, compiler: Sequence[str]) -> dict[int, Calls]:
    """For each instruction, by its line in an assembly text, counted from 1: where it was inlined.

    `compiler` is a C++ compiler with its flags for the machine, which assembles in `folder`. LiveError, with the reason,
    where a tool is missing or fails.
    """
    objdump, addr2line = tool("objdump"), tool("addr2line")
    source, made = folder / "labelled.s", folder / "labelled.o"
    source.write_text(labelled(text), encoding="utf-8")
    output([*compiler, "-c", str(source), "-o", str(made)])
    found: dict[int, Calls] = {}
    for section, places in addresses(output([objdump, "-t", str(made)])).items():
        command = [addr2line, "-a", "-i", "-j", section, "-e", str(made)]
        answers = _ANSWER.split(output(command, given="\n".join(places.values())))[1:]
        if len(answers) != len(places):
            raise LiveError(f"addr2line answered {len(answers)} of {len(places)} addresses of {section}")
        found |= dict(zip(places, map(read_answer, answers), strict=True))
    return found


def tool(name: str) -> str:
    """The path of a program of binutils; LiveError where there is none."""
    path = shutil.which(name)
    if path is None:
        raise LiveError(f"{name} is not installed, so that inlined code is not linked to the kernel's lines: install binutils")
    return path


def output(command: Sequence[str], given: str = "") -> str:
    """What a program writes; LiveError with its own words where it fails."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LiveError(f"{Path(command[0]).name} failed, so that inlined code is not linked: {done.stderr.strip()[-500:]}")
    return done.stdout


def labelled(text: str) -> str:
    """An assembly text with a label before each instruction that has the number of its line."""
    lines = enumerate(text_lines(text), 1)
    return "\n".join(f"{_LABEL}{n}:\n{line}" if is_instruction(line) else line for n, line in lines) + "\n"


def addresses(table: str) -> Mapping[str, Mapping[int, str]]:
    """By section the address of each labelled line, of an object's symbol table as `objdump -t` writes it.

    A row: address, flags, section, a tab, size, name.
    """
    found: dict[str, dict[int, str]] = {}
    for row in text_lines(table):
        head, _, tail = row.partition("\t")
        name = tail.rpartition(" ")[2]
        if name.startswith(_LABEL):
            parts = head.split()
            found.setdefault(parts[-1], {})[int(name.removeprefix(_LABEL))] = f"0x{parts[0]}"
    return found


def read_answer(answer: str) -> Calls:
    """What `addr2line -i` writes of one address: a line for each place, the innermost first; 0 for a line that is not stated.

    The first is the line table's and left out: the text has it as .loc, which addr2line 2.40 reads wrongly where a section
    begins in the file that DWARF 5 gives the number 1.
    """
    places = [_PLACE.match(line) for line in text_lines(answer)]
    return tuple((m["file"], int(m["line"]) if m["line"] != "?" else 0) for m in places[1:] if m)
