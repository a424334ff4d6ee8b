"""The Funcs that a Halide kernel's source defines, and the lines that compute each. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from explorer.model.values import Artifact, once
from explorer.stages.kinds import kernel_kinds

_DEFINITION = re.compile(r"^        (\w+)\[.*?\] \+?= ")
#: An expression with a name, such as a part of a variance, or the domain of a masked load and what it is restricted to.
_EXPRESSION = re.compile(r"^        (\w+)(?: = (?!hl\.(?:Func|argmax|argmin)\b)|\.where\()")
#: What Halide makes a Func of by itself, which it names "argmax" or "argmin".
_ARG = re.compile(r"^        (\w+) = hl\.(argmax|argmin)\(")
#: A name, where more than its type is used.
_NAME = re.compile(r"\b[A-Za-z_]\w*\b(?!\.type\()")


class Funcs(NamedTuple):
    """The lines on which each Func is defined, its updates after its pure definition, and those of other expressions.

    `names` has what each of these lines names.
    """

    definitions: Mapping[str, tuple[int, ...]]
    expressions: Mapping[str, tuple[int, ...]]
    names: Mapping[int, frozenset[str]]

    def lines_of(self, name: str, stage: int | None, produced: Collection[str]) -> tuple[int, ...]:
        """The lines that compute what is stored in a Func: its definitions, and those of the Funcs inlined into them.

        `stage` is the number of a definition, None where the text does not say. A Func that is not `produced` in memory is
        inlined wherever it is read.
        """
        defined = self.definitions.get(name, ())
        todo = list(defined if stage is None else defined[stage : stage + 1])
        lines: set[int] = set()
        while todo:
            line = todo.pop()
            if line not in lines:
                lines.add(line)
                for read in self.names[line] - {name}:
                    todo += self.expressions.get(read, ())
                    todo += () if read in produced else self.definitions.get(read, ())
        return tuple(sorted(lines))


@once
def funcs(kernel: Artifact) -> Funcs:
    """The Funcs of a kernel's source."""
    computing = [line if not kind else "" for line, kind in zip(kernel.lines, kernel_kinds(kernel), strict=True)]
    definitions, expressions = _lines_by_name(computing, _DEFINITION), _lines_by_name(computing, _EXPRESSION)
    arg = [(number, match[1], match[2]) for number, line in enumerate(computing, 1) if (match := _ARG.match(line))]
    made = Counter(function for _, _, function in arg)
    func_by_result = {result: function if made[function] == 1 else result for _, result, function in arg}
    definitions |= {func_by_result[result]: (number, number) for number, result, _ in arg}
    numbers = {number for found in (definitions, expressions) for lines in found.values() for number in lines}
    names = {number: _NAME.findall(kernel.lines[number - 1]) for number in numbers}
    return Funcs(
        definitions, expressions, {n: frozenset(func_by_result.get(name, name) for name in found) for n, found in names.items()}
    )


def _lines_by_name(lines: Sequence[str], pattern: re.Pattern[str]) -> dict[str, tuple[int, ...]]:
    """The lines, counted from 1, that begin with a name as the pattern says, by that name."""
    found: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(lines, 1):
        if match := pattern.match(line):
            found[match[1]] = (*found.get(match[1], ()), number)
    return found
