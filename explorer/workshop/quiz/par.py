"""What a puzzle counts, and the picture of it: bars for the program to begin with, for the answer, and for par."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from explorer.model.wording import quantity

#: The picture's width in pixels, the height of a bar's row, where bars begin, and the longest bar.
WIDTH, ROW, LEFT, LONGEST = 620, 22, 52, 400
#: The longest bar in a terminal, in characters.
MAX_CHARACTERS = 30
#: The colours of the bars. The words beside them say the same.
COLOURS = {"start": "#9e9e9e", "yours": "#1f6feb", "best": "#8ecdf0", "par": "#2e7d32"}


@dataclass(frozen=True)
class Par:
    """The figure that makes a task a puzzle: fewer is better, and `par` is enough.

    `of` counts it in the subject of an answer; `start` is the figure of the program to begin with. `unit` is a noun in the
    singular, such as "launch".
    """

    unit: str
    of: Callable[[Any], int]
    start: int
    par: int

    def row(self, figure: int) -> dict[str, Any]:
        """Return the row of a check: whether a figure reaches par."""
        found = quantity(figure, self.unit)
        above = figure - self.par
        return {"part": self.goal, "passed": above <= 0, "found": f"{found}, {above:,} above par" if above > 0 else found}

    @property
    def goal(self) -> str:
        """What to reach, in words: "at most 2 launches" or "no races"."""
        return f"at most {quantity(self.par, self.unit)}" if self.par else f"no {quantity(0, self.unit)[2:]}"

    def praise(self, figure: int) -> str:
        """Say how a figure that reaches par stands to it."""
        below = f"{self.par - figure:,} below par" if figure < self.par else "which is par"
        return f"{quantity(figure, self.unit)}, {below}."


@dataclass(frozen=True)
class Standing:
    """How a puzzle stands: the figure of an answer and the best so far, beside the start and par."""

    par: Par
    figure: int | None = None
    best: int | None = None

    @property
    def bars(self) -> list[tuple[str, int]]:
        """The figures to draw, from the start to par."""
        best = None if self.best == self.figure else self.best
        figures = (("start", self.par.start), ("yours", self.figure), ("best", best), ("par", self.par.par))
        return [(name, figure) for name, figure in figures if figure is not None]

    def lengths(self, longest: int, shortest: int) -> list[int]:
        """Return the length of each bar; that of 0 can still be seen."""
        most = max(1, *(figure for _, figure in self.bars))
        return [max(shortest, round(longest * figure / most)) for _, figure in self.bars]

    def __str__(self) -> str:
        lengths = self.lengths(MAX_CHARACTERS, 0)
        rows = zip(self.bars, lengths, strict=True)
        return "\n".join(f"  {name:5} {'█' * n or '▏'} {quantity(figure, self.par.unit)}" for (name, figure), n in rows)

    def _repr_html_(self) -> str:
        said = ", ".join(f"{name} {quantity(figure, self.par.unit)}" for name, figure in self.bars)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ROW * len(self.bars)}" width="{WIDTH}" role="img" '
            f'aria-label="{escape(said)}" font-family="sans-serif" font-size="13" fill="currentColor" style="max-width:100%">'
        ]
        for n, ((name, figure), length) in enumerate(zip(self.bars, self.lengths(LONGEST, 2), strict=True)):
            y = ROW * n
            parts.append(f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{name}</text>')
            parts.append(f'<rect x="{LEFT}" y="{y + 4}" width="{length}" height="14" fill="{COLOURS[name]}"/>')
            parts.append(f'<text x="{LEFT + length + 8}" y="{y + 15}">{escape(quantity(figure, self.par.unit))}</text>')
        return f"{''.join(parts)}</svg>"
