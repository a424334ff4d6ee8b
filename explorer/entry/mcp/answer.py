"""One answer: what is said, the rows it rests on, what was left out for its size, and what to ask next. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.errors import InputError
from explorer.model.values import jsonable, plain

#: The most characters of an answer as JSON, of its text, and of one cell of its rows: an agent reads all of it.
MAX_CHARACTERS, MAX_TEXT, MAX_CELL = 6000, 4000, 240


@dataclass(frozen=True)
class Answer:
    """What is said of a trace; `rows` begin at row `offset` of a table, from 0, and as many are sent as have room."""

    text: str
    rows: Sequence[Mapping[str, Any]] = ()
    next: tuple[str, ...] = ()
    offset: int = 0
    columns: tuple[str, ...] = field(default=(), compare=False)

    def sent(self) -> dict[str, Any]:
        """Return it as JSON's values, within `MAX_CHARACTERS`; `left_out` counts the rows and characters that are not in it.

        InputError for an offset that no row has.
        """
        if not 0 <= self.offset <= len(self.rows):
            raise InputError(f"there are {len(self.rows)} rows, so an offset is from 0 to {len(self.rows)}, not {self.offset}")
        cut = len(self.text) - MAX_TEXT
        whole: dict[str, Any] = {
            "answer": self.text if cut <= 0 else self.text[:MAX_TEXT],
            "evidence": [],
            "left_out": f"{cut} characters of the answer" if cut > 0 else "",
            "next": list(self.next),
        }
        rows = [self._cells(row) for row in self.rows[self.offset :]]
        room = MAX_CHARACTERS - len(json.dumps(whole))
        for row in rows:
            room -= len(json.dumps(row)) + 2
            if room < 0 and whole["evidence"]:
                break
            whole["evidence"].append(row)
        return self._with_left_out(whole, len(rows))

    def _with_left_out(self, whole: dict[str, Any], count: int) -> dict[str, Any]:
        sent = len(whole["evidence"])
        if sent < count:
            rows = f"{count - sent} of {len(self.rows)} rows; ask again with offset={self.offset + sent}"
            whole["left_out"] = "; ".join(filter(None, (whole["left_out"], rows)))
        return whole

    def _cells(self, row: Mapping[str, Any]) -> dict[str, Any]:
        names: Iterable[str] = self.columns or row
        return {name: _cell(row[name]) for name in names if name in row and row[name] not in ("", None, (), {})}


def _cell(value: Any) -> Any:
    """A value of a table as JSON's, cut where it is long."""
    made = jsonable(plain(float(f"{value:.4g}") if isinstance(value, float) else value))
    text = made if isinstance(made, str) else json.dumps(made)
    return made if len(text) <= MAX_CELL else f"{text[:MAX_CELL]}… ({len(text) - MAX_CELL} characters more)"


def as_text(sent: Mapping[str, Any]) -> str:
    """Write what is sent for an agent to read: the words, a line of JSON a row, what was left out, what to ask next."""
    head = f"trace {sent['trace']}\n" if "trace" in sent else ""
    rows = "".join(f"\n{json.dumps(row, ensure_ascii=False)}" for row in sent["evidence"])
    left_out = f"\nleft out: {sent['left_out']}" if sent["left_out"] else ""
    asking = f"\nnext: {'; '.join(sent['next'])}" if sent["next"] else ""
    return f"{head}{sent['answer']}{rows}{left_out}{asking}"


__all__ = ["MAX_CHARACTERS", "Answer", "as_text"]
