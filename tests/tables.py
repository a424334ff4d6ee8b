"""The tables that benchmarks print and the docs have, in Markdown."""

from __future__ import annotations


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of each line of a table: its head, the line below that, and its rows."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if line.startswith("|")]
