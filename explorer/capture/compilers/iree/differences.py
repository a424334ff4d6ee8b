"""The difference of two texts of a module in MLIR, without locations, and without what only got another number.

An operation that goes makes MLIR count all values behind it anew. So lines are compared with their values left out, and two
that are equal then must name the same values: those that were defined on equal lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.capture.compilers.line_differences import LineMatcher
from explorer.model.syntax import IR_VALUE
from explorer.model.values import text_lines
from explorer.reference.layouts.attributes import LOCATION
from explorer.stages.fx_locations import FIRST_NODE, FX_GRAPH
from explorer.stages.triton.origins import mlir_chains

Place = tuple[str, int]
#: Lines around a change.
AROUND = 3
#: Characters of a line: attributes can be of any length.
LONGEST = 1000
#: Values with commas between them, and what follows: an equals sign behind all of them, or a type behind the last.
_ROW = re.compile(r"%[\w$.-]+(?::\d+)?(?: *, *%[\w$.-]+(?::\d+)?)*(?P<set> *\)? *=(?!=))?(?P<typed>:(?!:))?")


@dataclass(frozen=True)
class Module:
    """A module: its text, its lines without locations, and for each line the FX nodes' places that its location states."""

    text: str
    lines: tuple[str, ...]
    places: dict[int, tuple[Place, ...]]

    @classmethod
    def of(cls, text: str) -> Module:
        """The module of a text with locations."""
        chains = ((n, tuple(p for p in chain if p[0] == FX_GRAPH and p[1] >= FIRST_NODE)) for n, chain in mlir_chains(text))
        lines = (LOCATION.sub("", line).rstrip() for line in text_lines(text) if not line.startswith("#loc"))
        return cls(text, tuple(lines), {number: chain for number, chain in chains if chain})


@dataclass(frozen=True)
class Line:
    """A line of a difference, marked " " if both texts have it, "-" if only the text before, "+" if only the text after."""

    mark: str
    old: int
    new: int


def difference(before: Module, after: Module) -> tuple[str, tuple[tuple[int, tuple[Place, ...]], ...]]:
    """Return the difference in the unified format, "" if there is none, and the source places of its lines."""
    if before.lines == after.lines:
        return "", ()
    lines = list(compared(before.lines, after.lines))
    shown, places = ["--- before", "+++ after"], []
    for hunk in hunks(lines):
        shown.append(_head(hunk))
        for line in hunk:
            module, number = (before, line.old) if line.mark == "-" else (after, line.new)
            text = module.lines[number]
            shown.append(line.mark + (text if len(text) <= LONGEST else f"{text[:LONGEST]}…"))
            if number + 1 in module.places:
                places.append((len(shown), module.places[number + 1]))
    return ("\n".join(shown), tuple(places)) if len(shown) > 2 else ("", ())


def compared(old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    """The lines of two texts, equal ones once."""
    names: dict[str, str] = {}
    for line in _aligned([IR_VALUE.sub("%", each) for each in old], [IR_VALUE.sub("%", each) for each in new]):
        if line.mark == "-":
            for value in defined(old[line.old]):
                names.pop(value[0], None)
        if line.mark != " " or _same_values(old[line.old], new[line.new], names):
            yield line
        else:
            yield from (Line("-", line.old, line.new), Line("+", line.old, line.new))


def defined(line: str) -> Iterator[re.Match[str]]:
    """The values that a line defines, each where it stands: results, and arguments of functions and blocks."""
    for row in _ROW.finditer(line):
        values = list(IR_VALUE.finditer(line, *row.span()))
        if row["set"] and line[: row.start()].rstrip()[-1:] in ("", "("):
            yield from values
        elif row["set"] or row["typed"]:  # the others are operands, as the first of `%0, %b = %1`
            yield values[-1]


def _same_values(old: str, new: str, names: dict[str, str]) -> bool:
    """Whether two lines that are equal but for their values name the same; `names` has the new name of each old one."""
    new_names = {value.start() for value in defined(old)}
    same = True
    for ours, theirs in zip(IR_VALUE.finditer(old), IR_VALUE.finditer(new), strict=True):
        if ours.start() in new_names:
            names[ours[0]] = theirs[0]
        else:
            same = same and names.setdefault(ours[0], theirs[0]) == theirs[0]
    return same


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    """The lines of two texts, equal ones once."""
    for tag, i, i_end, j, j_end in LineMatcher(old, new).get_opcodes():
        if tag == "equal":
            yield from (Line(" ", i + n, j + n) for n in range(i_end - i))
            continue
        yield from (Line("-", n, j) for n in range(i, i_end))
        yield from (Line("+", i_end, n) for n in range(j, j_end))


def hunks(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Runs of lines with changes in them, and some equal lines around."""
    changes = [n for n, line in enumerate(lines) if line.mark != " "]
    first = 0
    for n, at in enumerate(changes):
        if n + 1 == len(changes) or changes[n + 1] - at > 2 * AROUND:
            yield lines[max(0, changes[first] - AROUND) : at + AROUND + 1]
            first = n + 1


def _head(hunk: Sequence[Line]) -> str:
    old, new = (sum(line.mark != mark for line in hunk) for mark in "+-")
    return f"@@ -{hunk[0].old + 1},{old} +{hunk[0].new + 1},{new} @@"
