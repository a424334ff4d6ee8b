"""How numbers are written for people."""

from __future__ import annotations


def quantity(number: int, noun: str) -> str:
    """Write a number with its noun: "1 launch", "3 launches", "12,288 nodes"."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def cut(text: str, width: int) -> str:
    """Return a text of at most so many columns, with "…" where its end is left out."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def readable_bytes(size: float) -> str:
    """Write a number of bytes: 1536 is "1.5 KiB"."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while size >= 1024 and power < len(units) - 1:
        size, power = size / 1024, power + 1
    return f"{size:.4g} {units[power]}"
