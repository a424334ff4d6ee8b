"""What became of one answer, in words and with an icon, and how it is shown."""

from __future__ import annotations

import html
import re
import sys
from dataclasses import dataclass, field

from explorer.model.trace_data import artifact_of
from explorer.model.values import Table
from explorer.model.wording import quantity
from explorer.process.progress import in_notebook
from explorer.workshop.quiz.exercises import Place
from explorer.workshop.quiz.par import Standing

#: How an answer may stand: its icon, its words, and the colour of the bar beside it, which says nothing that they do not.
RIGHT, NOT_YET, UNANSWERED, REFUSED, NOT_JUDGED = "right", "not yet", "not answered yet", "not an answer", "not judged"
ICONS = {RIGHT: "✓", NOT_YET: "✗", UNANSWERED: "○", REFUSED: "!", NOT_JUDGED: "?"}
_COLOURS = {RIGHT: "#2e7d32", NOT_YET: "#c62828", UNANSWERED: "#757575", REFUSED: "#b26a00", NOT_JUDGED: "#b26a00"}
#: How many lines around the one to look at a terminal shows.
_AROUND = 2
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, repr=False)
class Outcome:
    """What became of one answer.

    `status` is "right", "not yet", "not answered yet", "not an answer" or "not judged"; `text` says the rest, `hint` helps after
    a miss, `rows` has one row per check or a value, and `place` is the line to look at after the second miss. `standing` has
    the figures of a puzzle.
    """

    id: str
    status: str
    text: str = ""
    hint: str = ""
    rows: Table = field(default_factory=Table)
    place: Place | None = None
    points: int = 0
    standing: Standing | None = None

    @property
    def is_right(self) -> bool:
        """Whether the answer is right."""
        return self.status == RIGHT

    def __repr__(self) -> str:
        return f"<{self.id}: {self.status}{f', {points(self.points)}' if self.is_right else ''}>"

    def __str__(self) -> str:
        lines = [f"{ICONS[self.status]} {self.id}: {self.status}. {self.text}".rstrip()]
        lines += [f"    {ICONS[RIGHT if row['passed'] else NOT_YET]} {row['part']}: {row['found']}" for row in self.rows]
        lines += [str(self.standing)] if self.standing else []
        lines += [f"  hint: {self.hint}"] if self.hint else []
        lines += [f"  look at {self.place}"] if self.place else []
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<b>{ICONS[self.status]} {html.escape(self.id)}: {self.status}.</b> {with_code(self.text)}"]
        parts += [_table(self.rows)] if self.rows else []
        parts += [f"<div>{self.standing._repr_html_()}</div>"] if self.standing else []
        parts += [f"<div>hint: {with_code(self.hint)}</div>"] if self.hint else []
        parts += [f"<div>look at {html.escape(str(self.place))}</div>"] if self.place else []
        bar = f"border-left:4px solid {_COLOURS[self.status]};padding:2px 0 2px 10px"
        return f'<div role="status" style="{bar}">{"".join(parts)}</div>'

    def _ipython_display_(self) -> None:
        """Show nothing: `tell` has shown it, also where the answer is not the last line of its cell."""

    def tell(self) -> Outcome:
        """Show the outcome, and after a second miss the line; in a notebook that opens the view. Returns itself."""
        if in_notebook():
            from IPython.display import HTML, display

            display(HTML(self._repr_html_()))
        else:
            sys.stdout.write(f"{self}\n")
        if self.place is not None:
            open_place(self.place)
        return self


def _table(rows: Table) -> str:
    """The rows as a table whose first column has icon and word."""
    head = "<tr><th></th><th style='text-align:left'>check</th><th style='text-align:left'>found</th></tr>"
    cells = "".join(
        f"<tr><td>{ICONS[RIGHT if row['passed'] else NOT_YET]} {'passed' if row['passed'] else NOT_YET}</td>"
        f"<td style='text-align:left'>{html.escape(str(row['part']))}</td>"
        f"<td style='text-align:left'>{html.escape(str(row['found']))}</td></tr>"
        for row in rows
    )
    return f"<table>{head}{cells}</table>"


def with_code(text: str) -> str:
    """Text as HTML, with what stands between backquotes as code."""
    return _CODE.sub(r"<code>\1</code>", html.escape(text))


def points(number: int) -> str:
    """A number of points in words."""
    return quantity(number, "point")


def open_place(place: Place) -> object:
    """Open the view at the line, and return it; in a terminal print the lines around it, and return None."""
    if not in_notebook():
        sys.stdout.write(f"{excerpt(place)}\n")
        return None
    from explorer.tracing.recording.display import show

    view = show(place.trace)
    view.show(place.artifact, line=place.line)
    if place.view:
        view.tab(place.view)
    return view


def excerpt(place: Place) -> str:
    """The lines around a place, numbered, with an arrow before the line itself."""
    lines = artifact_of(place.trace, place.artifact).lines
    numbers = range(max(1, place.line - _AROUND), min(len(lines), place.line + _AROUND) + 1)
    return "\n".join(f"  {'→' if n == place.line else ' '} {n:4}  {lines[n - 1][:160]}" for n in numbers)
