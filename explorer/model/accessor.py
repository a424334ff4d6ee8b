"""Accessor: one part of what a trace has, such as `t.dynamo`; its repr lists its tables and verbs."""

from __future__ import annotations

import html
import inspect
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from explorer.errors import ExplorerError
from explorer.model.guessed import NamesGuessed, guess
from explorer.model.trace_data import TraceData


class Member(NamedTuple):
    """A table or a verb of an accessor: its name, the number of its rows, and what it is in a few words."""

    name: str
    rows: str
    about: str


class Accessor(NamesGuessed):
    """The base of what a trace keeps by subject. A public property is data, a public method works."""

    #: What the user writes for it, such as "t.dynamo".
    path: ClassVar[str]

    def __init__(self, trace: TraceData) -> None:
        self._trace = trace

    def _guess(self, name: str) -> str:
        right = self._trace._right_name(name)
        listed = "" if right else f"; it has {', '.join(member for member, _ in self.members())}"
        return guess(self.path, name, right) + listed

    @classmethod
    def members(cls) -> Iterator[tuple[str, Any]]:
        """Yield the public properties and methods of the class, in the order of its source."""
        for name, member in vars(cls).items():
            if not name.startswith("_") and name not in _OWN and (isinstance(member, property) or inspect.isfunction(member)):
                yield name, member

    def contents(self) -> list[Member]:
        """List the tables with the number of their rows, and the verbs. No verb is called."""
        return [
            Member(name, self._count(name, member), _first_words(member))
            if isinstance(member, property)
            else Member(f"{name}()", "", _first_words(member))
            for name, member in self.members()
        ]

    def _count(self, name: str, member: property) -> str:
        """The number of rows of a table; "" for a property that is no table, and for one that this trace cannot have."""
        if not str(member.fget.__annotations__.get("return")).endswith(_COUNTED):
            return ""
        try:
            return str(len(getattr(self, name)))
        except ExplorerError:
            return ""

    def summary(self) -> str:
        """What is said below the list; "" for nothing."""
        return ""

    @property
    def title(self) -> str:
        """What the accessor is about: the first sentence of its class."""
        return (inspect.getdoc(type(self)) or "").partition("\n")[0].rstrip(".")

    def __repr__(self) -> str:
        members = self.contents()
        names, counts = (max((len(member[n]) for member in members), default=0) for n in (0, 1))
        lines = [f"  {name.ljust(names)}  {rows.rjust(counts)}  {about}" for name, rows, about in members]
        return "\n".join([f"<{self.path}: {self.title}>", *lines, *filter(None, [self.summary()])])

    def _repr_html_(self) -> str:
        cells = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(text)}</td>" for text in member) + "</tr>"
            for member in self.contents()
        )
        summary = f"<pre>{html.escape(self.summary())}</pre>" if self.summary() else ""
        head = f"<code>{html.escape(self.path)}</code>: {html.escape(self.title)}"
        return f"<div>{head}<table><tr><th>name</th><th>rows</th><th></th></tr>{cells}</table>{summary}</div>"


#: The public names of the base itself, which no accessor lists.
_OWN = {name for name in vars(Accessor) if not name.startswith("_")}
#: The types of properties that are tables or sequences; others are not read for the list, since reading them may raise or work.
_COUNTED = ("Table", "Choices", "Edits")


def _first_words(member: Any) -> str:
    """The first sentence of a docstring, up to its list of columns."""
    doc = inspect.getdoc(member.fget if isinstance(member, property) else member) or ""
    sentence = doc.partition("\n")[0].partition(". ")[0].partition(": ")[0].rstrip(".:")
    return sentence[:1].lower() + sentence[1:]
