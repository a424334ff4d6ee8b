"""Find the vector operations of LLVM IR whose debug location is not that of all their lanes. Pure.

Triton lowers elementwise operations to one scalar operation an element; LLVM packs them, also those of different lines, and
the packed operation keeps the location of one of its lanes, or of the store before which it is put.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from explorer.model.syntax import IR_VALUE
from explorer.model.values import Artifact, once

_OPERATION = re.compile(r"^\s*(?:(?P<name>%[\w.$-]+) = )?(?:tail |musttail |notail )?(?P<op>\w+)\b(?P<rest>.*)$")
_ARITHMETIC = frozenset({"fadd", "fsub", "fmul", "fdiv", "fneg", "fcmp", "fptrunc", "fpext"})
_SHUFFLES = frozenset({"insertelement", "shufflevector"})
_VECTOR = re.compile(r"<\d+ x (?:float|double|half|bfloat)>")
_LISTED = re.compile(r"<((?:float|double|half|bfloat) [^<>]*)>")
_DEBUG = re.compile(r", !dbg (!\d+)")
_MEMORY = re.compile(r"\b(?:load|store)\b")


@once
def misplaced(llir: Artifact) -> frozenset[int]:
    """Return the lines of an LLVM IR whose debug location belongs to only one lane, or to a neighbouring instruction.

    These are vector operations of floating point with the location of a load or store, with different numbers in their lanes, or
    with lanes gathered from values of several locations; and all that is computed from them.
    """
    operations = {n: matched for n, line in enumerate(llir.lines, 1) if (matched := _OPERATION.match(line))}
    places = {n: location[1] for n in operations if (location := _DEBUG.search(llir.lines[n - 1]))}
    memory = {places[n] for n, operation in operations.items() if n in places and _moves_memory(operation)}
    makers = {operation["name"]: n for n, operation in operations.items() if operation["name"]}
    lines: set[int] = set()
    for number, operation in operations.items():
        if operation["op"] in _ARITHMETIC and _VECTOR.search(operation["rest"]):
            origins = {place for n in _operands(operation, makers) for place in _gathered(n, operations, places, makers, lines)}
            if places.get(number) in memory or _unequal(operation["rest"]) or len(origins) > 1:
                lines.add(number)
    return frozenset(lines)


def _moves_memory(operation: re.Match[str]) -> bool:
    return operation["op"] in ("load", "store") or (operation["op"] == "call" and bool(_MEMORY.search(operation["rest"])))


def _unequal(rest: str) -> bool:
    """Whether an operand is a vector of different numbers: one operation of the program has one number for all lanes."""
    return any(len({part.strip() for part in listed.split(",")}) > 1 for listed in _LISTED.findall(rest))


def _operands(operation: re.Match[str], makers: Mapping[str, int]) -> list[int]:
    return [makers[value] for value in IR_VALUE.findall(operation["rest"].partition(", !dbg")[0]) if value in makers]


def _gathered(
    number: int,
    operations: Mapping[int, re.Match[str]],
    places: Mapping[int, str],
    makers: Mapping[str, int],
    mixed: set[int],
) -> set[str]:
    """The locations of what an operand's lanes were put together of; one for an operand that was not, two for a mixed one."""
    if number in mixed:
        return {"", "mixed"}
    if operations[number]["op"] not in _SHUFFLES:
        return set()
    locations: set[str] = set()
    queue, seen = [number], {number}
    while queue:
        at = queue.pop()
        if operations[at]["op"] in _SHUFFLES:
            new = [n for n in _operands(operations[at], makers) if n not in seen]
            seen.update(new)
            queue += new
        else:
            locations |= {"", "mixed"} if at in mixed else {places.get(at, "")}
    return locations
