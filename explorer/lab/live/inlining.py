"""Read from debug information through which calls each instruction of an assembly text was inlined.

The text's own .loc lines name only the innermost place, which for vector code is a header of intrinsics. The calls are in
the debug information (DWARF 5, 3.3.8: DW_TAG_inlined_subroutine with DW_AT_call_file and DW_AT_call_line). To ask for them,
a copy of the text with a label before each instruction is assembled; labels make no code. This needs objdump and addr2line
of GNU binutils, which g++ needs as well.
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
    """The calls through which each instruction was inlined, by its line in an assembly text, counted from 1.

    `compiler` is a C++ compiler with its flags for the machine, which assembles in `folder`. LiveError, with the reason, if a
    tool is missing or fails.
    """
    objdump, addr2line = tool("objdump"), tool("addr2line")
    source, assembled = folder / "labelled.s", folder / "labelled.o"
    source.write_text(labelled(text), encoding="utf-8")
    output([*compiler, "-c", str(source), "-o", str(assembled)])
    calls: dict[int, Calls] = {}
    for section, places in addresses(output([objdump, "-t", str(assembled)])).items():
        command = [addr2line, "-a", "-i", "-j", section, "-e", str(assembled)]
        answers = _ANSWER.split(output(command, given="\n".join(places.values())))[1:]
        if len(answers) != len(places):
            raise LiveError(f"addr2line answered {len(answers)} of {len(places)} addresses of {section}")
        calls |= dict(zip(places, map(read_answer, answers), strict=True))
    return calls


def tool(name: str) -> str:
    """Find a program of binutils; LiveError if it is not installed."""
    path = shutil.which(name)
    if path is None:
        raise LiveError(f"{name} is not installed, so inlined code is not linked to the kernel's lines: install binutils")
    return path


def output(command: Sequence[str], given: str = "") -> str:
    """Run a program and return its output; LiveError with the program's own words if it fails."""
    process = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if process.returncode:
        raise LiveError(f"{Path(command[0]).name} failed, so inlined code is not linked: {process.stderr.strip()[-500:]}")
    return process.stdout


def labelled(text: str) -> str:
    """Put a label with the line's number before each instruction of an assembly text."""
    lines = enumerate(text_lines(text), 1)
    return "\n".join(f"{_LABEL}{n}:\n{line}" if is_instruction(line) else line for n, line in lines) + "\n"


def addresses(table: str) -> Mapping[str, Mapping[int, str]]:
    """Read the address of each labelled line, by section, from a symbol table as `objdump -t` writes it.

    A row: address, flags, section, a tab, size, name.
    """
    addresses_by_section: dict[str, dict[int, str]] = {}
    for row in text_lines(table):
        head, _, tail = row.partition("\t")
        name = tail.rpartition(" ")[2]
        if name.startswith(_LABEL):
            parts = head.split()
            addresses_by_section.setdefault(parts[-1], {})[int(name.removeprefix(_LABEL))] = f"0x{parts[0]}"
    return addresses_by_section


def read_answer(answer: str) -> Calls:
    """Read what `addr2line -i` writes for one address: a line for each place, the innermost first; 0 for an unknown line.

    The first place is left out. It is the one of the line table, which the text has as .loc, and addr2line 2.40 reads it
    wrongly where a section begins in the file that DWARF 5 gives the number 1.
    """
    places = [_PLACE.match(line) for line in text_lines(answer)]
    return tuple((m["file"], int(m["line"]) if m["line"] != "?" else 0) for m in places[1:] if m)
