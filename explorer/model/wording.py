"""How numbers are written for people."""

from __future__ import annotations


def quantity(number: int, noun: str) -> str:
    """Write a number with its noun: "1 launch", "3 launches", "12,288 nodes"."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
