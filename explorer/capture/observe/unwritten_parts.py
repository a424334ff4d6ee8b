"""Leave parts of the scheduler's texts out until the recording is read: dependencies, and the expressions of loop bodies.

Such a part is a mark in its text. What it is written of cannot change: sympy's expressions, Inductor's frozen dependencies,
texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

#: What stands in a text for a part: no text of Inductor's has this character.
_MARK = re.compile("\0([0-9]+)\0")


class UnwrittenParts:
    """The parts of the texts of one graph, by the number in their marks."""

    def __init__(self) -> None:
        self._parts: list[Callable[[], str]] = []
        self._expressions: dict[Any, str] = {}  # layers have the same ones, and sympy takes 0.1 ms for an index

    def dependencies(self, write: Callable[[Any], str], deps: Iterable[Any]) -> str:
        """Give the mark of a set of dependencies, which `write` writes in the order of their texts."""
        copies = tuple(deps)
        return self._mark(lambda: write(sorted([self._dependency(dep) for dep in copies], key=str)))

    def body(self, write: Callable[[Any], str], body: Any, code: Callable[[Any], str]) -> str:
        """Give the mark of a loop body, which `write` writes; `code` gives the code of a block, now."""
        ranges, expressions = tuple(body.var_ranges.items()), tuple(body.indexing_exprs.items())
        root, blocks = _Block(code(body.root_block)), {name: _Block(code(block)) for name, block in body.subblocks.items()}
        return self._mark(
            lambda: write(
                SimpleNamespace(
                    var_ranges={self._expression(name): self._expression(size) for name, size in ranges},
                    indexing_exprs={name: self._expression(value) for name, value in expressions},
                    root_block=root,
                    subblocks=blocks,
                )
            )
        )

    def filled(self, text: str) -> str:
        """Put the parts in the places of their marks, each line of a part as far to the right as the mark's line."""
        return "\n".join([self._line(line) if "\0" in line else line for line in text.split("\n")])

    def _mark(self, write: Callable[[], str]) -> str:
        self._parts.append(write)
        return f"\0{len(self._parts) - 1}\0"

    def _line(self, line: str) -> str:
        first, *others = _MARK.sub(lambda found: self._parts[int(found[1])](), line).split("\n")
        margin = line[: len(line) - len(line.lstrip(" "))]
        return "\n".join([first, *(margin + other if other and not other.isspace() else other for other in others)])

    def _dependency(self, dep: Any) -> Any:
        """A dependency whose expressions are written once."""
        from torch._inductor.dependencies import MemoryDep

        if type(dep) is not MemoryDep:
            return dep
        names, sizes = (tuple([self._expression(part) for part in parts]) for parts in (dep.var_names, dep.size))
        return replace(dep, index=self._expression(dep.index), var_names=names, size=sizes)

    def _expression(self, value: Any) -> _Expression:
        key = (type(value), value)
        text = self._expressions.get(key)
        if text is None:
            text = self._expressions[key] = str(value)
        return _Expression(text)


@dataclass(frozen=True, slots=True, repr=False)
class _Expression:
    """An expression's text, which it is written as."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Block:
    """The code of a block of a loop body, as the body asks for it."""

    code: str

    def debug_str(self, name: str = "block") -> str:
        """The code under a name."""
        return self.code.replace("def forward(", f"def {name}(")
