"""The classes below a class."""

from __future__ import annotations


def subclasses(kind: type) -> list[type]:
    """Every class below `kind`, once, each before those below it."""
    found: dict[type, None] = {}
    child: type
    for child in kind.__subclasses__():
        found |= {child: None, **dict.fromkeys(subclasses(child))}
    return list(found)
