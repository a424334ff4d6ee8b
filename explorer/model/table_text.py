"""Write a table as text, with its cells wrapped and not cut: in columns, or a row at a time where these do not fit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from explorer.model.wording import quantity

#: The most rows that are written.
MAX_ROWS = 60
#: The most rows that are written one below the other.
MAX_RECORDS = 3
#: A column that is wider may be wrapped to this many characters, and to more for a word that is no longer than the second number.
MIN_WIDTH, MAX_WORD = 24, 60
#: The most lines of a cell in a column; what is left of the cell is "…".
MAX_LINES = 12
#: A cell of several values has a line for each where one of them is longer than this: they are sentences.
MAX_PART = 60
#: The column of line numbers.
LINES = "lines"
#: What stands between two columns.
GAP = "  "


def table_text(rows: Sequence[Mapping[str, object]], columns: Sequence[str], width: int) -> str:
    """Write rows for a terminal of `width` characters. The first column is the number of the row.

    Wide columns are wrapped, and columns that do not fit go on below. A few rows that do not fit are written one below the other
    instead. A sentence that is in every row is written once, below. Of a long table the first rows are written, and the last line
    counts the others.
    """
    shown = rows[:MAX_ROWS]
    by_column = {name: [_cell_of(name, row[name]) if name in row else "" for row in shown] for name in columns}
    alike = {name: column[0] for name, column in by_column.items() if len(rows) > MAX_RECORDS and _is_said_once(column)}
    columns = [name for name in columns if name not in alike] or list(columns)
    cells = [by_column[name] for name in columns]
    texts = [[name, *column] for name, column in zip(columns, cells, strict=True)]
    widths, least = [max(map(_width, column)) for column in texts], [max(map(_least_width, column)) for column in texts]
    room = width - len(str(len(shown) - 1))
    if len(rows) <= MAX_RECORDS and sum(len(GAP) + each for each in widths) > room:
        text = "\n".join(_one_below_the_other(cells, columns, width))
    else:
        blocks = list(_blocks(least, room))
        fitting = [_fitting(widths[block], least[block], room) for block in blocks]
        parts = (_in_columns(shown, cells[block], columns[block], each) for block, each in zip(blocks, fitting, strict=True))
        text = "\n\n".join(map("\n".join, parts))
    for name, cell in alike.items():
        said = f"{name} of each row: {cell}" if cell else f"{name} is empty in each row"
        text += "\n" + textwrap.fill(said, width, subsequent_indent=GAP, break_on_hyphens=False)
    if left := len(rows) - len(shown):
        text += f"\n… and {quantity(left, 'more row')}: .to_pandas() has them all"
    return text


def _is_said_once(column: Sequence[str]) -> bool:
    """Whether a column has one long sentence in every row, or nothing in any."""
    return len(set(column)) == 1 and (not column[0] or (len(column[0]) > MAX_PART and " " in column[0]))


def _blocks(least: Sequence[int], room: int) -> Iterator[slice]:
    """Yield the columns that stand side by side, at least one, by the least widths that they may have."""
    start, taken = 0, 0
    for n, width in enumerate(least):
        if taken + len(GAP) + width > room and n > start:
            yield slice(start, n)
            start, taken = n, 0
        taken += len(GAP) + width
    yield slice(start, len(least))


def _fitting(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns that fit into this many characters, the wide ones wrapped alike."""
    most, fitting = max(widths), list(widths)
    while most > MIN_WIDTH and sum(len(GAP) + width for width in fitting) > room:
        most -= 1
        fitting = [max(min(width, most), low) for width, low in zip(widths, least, strict=True)]
    return fitting


def _in_columns(
    rows: Sequence[Mapping[str, object]], cells: Sequence[Sequence[str]], columns: Sequence[str], widths: Sequence[int]
) -> Iterator[str]:
    right = [all(_is_number(row.get(name)) for row in rows) for name in columns]
    first = len(str(len(rows) - 1))
    for number, row in [("", columns), *((str(n), row) for n, row in enumerate(zip(*cells, strict=True)))]:
        wrapped = [_at_most(MAX_LINES, _wrapped(cell, width)) for cell, width in zip(row, widths, strict=True)]
        for n in range(max(map(len, wrapped))):
            parts = [lines[n] if n < len(lines) else "" for lines in wrapped]
            placed = [
                part.rjust(w) if at_right else part.ljust(w) for part, w, at_right in zip(parts, widths, right, strict=True)
            ]
            yield GAP.join([(number if n == 0 else "").rjust(first), *placed]).rstrip()


def _one_below_the_other(cells: Sequence[Sequence[str]], columns: Sequence[str], width: int) -> Iterator[str]:
    names = max(map(len, columns))
    room = max(width - 1 - names - 2 * len(GAP), MIN_WIDTH)
    for number, row in enumerate(zip(*cells, strict=True)):
        head = str(number)
        for name, cell in zip(columns, row, strict=True):
            label = name
            for line in _wrapped(cell, room):
                yield GAP.join([head, label.ljust(names), line]).rstrip()
                head, label = " ", ""


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _width(cell: str) -> int:
    return max(map(len, cell.split("\n")))


def _least_width(cell: str) -> int:
    longest = max(map(len, cell.split()), default=0)
    return min(_width(cell), max(MIN_WIDTH, longest if longest <= MAX_WORD else 0))


def _wrapped(cell: str, width: int) -> list[str]:
    """Break a cell's lines at spaces, and within a word that is wider than the column."""
    lines = (textwrap.wrap(line, width, break_on_hyphens=False, drop_whitespace=True) or [""] for line in cell.split("\n"))
    return [part for parts in lines for part in parts]


def _at_most(lines: int, wrapped: list[str]) -> list[str]:
    return [*wrapped[: lines - 1], "…"] if len(wrapped) > lines else wrapped


def _cell_of(column: str, value: object) -> str:
    if column == LINES and isinstance(value, tuple) and all(isinstance(number, int) for number in value):
        return ", ".join(_ranges(value))
    return _cell(value)


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Write numbers with each run of them as its ends: 3-6, 9."""
    start = 0
    for n, number in enumerate(numbers, 1):
        if n == len(numbers) or numbers[n] != number + 1:
            yield str(number) if n - 1 == start else f"{numbers[start]}-{number}"
            start = n


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (tuple, list)):
        parts = [f"({_cell(each)})" if isinstance(each, (tuple, list)) else _cell(each) for each in value]
        return ("\n" if any(len(part) > MAX_PART for part in parts) else ", ").join(parts)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_cell(each)}" for name, each in value.items())
    return encodable(str(value)).expandtabs(4).replace("\r", "").rstrip("\n")


def encodable(text: str) -> str:
    """Return text as UTF-8 can hold it: half a surrogate pair, as the name of a file may have, is written as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
