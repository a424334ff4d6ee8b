"""A table as text: aligned, wrapped and whole. No torch."""

from __future__ import annotations

import re

import pytest

from explorer.model.table_text import MAX_LINES, MAX_ROWS, table_text
from explorer.model.values import Table


def test_a_small_table_has_a_line_a_row() -> None:
    """Numbers stand right, None is nothing, a tuple is its values, and rows have their numbers."""
    rows = Table([{"kernel": "a_long_name", "ms": 1.25, "of": ("x", "y")}, {"kernel": "b", "ms": None, "of": ()}])
    assert table_text(rows, rows.columns, 80).splitlines() == [
        "   kernel         ms  of",
        "0  a_long_name  1.25  x, y",
        "1  b",
    ]


@pytest.mark.parametrize("width", [40, 60, 100, 200])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_no_word_is_lost_and_no_line_too_wide(width: int, count: int) -> None:
    """Wherever it is wrapped, each word of each cell is there whole; only a column that is one long word is wider."""
    why = "also needs a node that itself needs op0: that node has to run in between"
    rows = Table(
        [{"first": f"op{n}", "reason": f"op{n} {why}", "bytes": 1024 * n, "rule": "intermediate nodes"} for n in range(count)]
    )
    text = table_text(rows, rows.columns, width)
    assert all(len(line) <= width for line in text.splitlines())
    words = re.findall(r"\S+", text)
    for word in why.split():
        assert words.count(word) >= count, (word, text)


def test_a_sentence_of_every_row_is_written_once() -> None:
    """Below the rows, as is a column without any value; a name is not, nor anything of a few rows."""
    row = {"n": 1, "known": "estimated, not measured, since there is no such GPU here " * 2, "name": "k" * 70, "left": ""}
    text = str(Table([row] * 5))
    assert text.count("estimated, not measured") == 2 and "known of each row: estimated" in text
    assert "left is empty in each row" in text and text.count("k" * 70) == 5
    assert str(Table([row] * 3)).count("0  n") == str(Table([row] * 3)).count("2  n") == 1


def test_a_name_is_not_broken() -> None:
    """A kernel's name can be searched for and copied, also where its column is wrapped."""
    name = "triton_per_fused__softmax_prepare_softmax_online_sin_0"
    rows = Table([{"kernel": name, "why": f"sentence {n} that is long enough to be wrapped " * 3} for n in range(5)])
    assert table_text(rows, rows.columns, 90).count(name) == 5


def test_columns_that_do_not_fit_go_on_below() -> None:
    """Of many rows, so that these can be compared; each part has the numbers of the rows."""
    rows = Table([{f"column_{n}": f"value {n} of {row}" for n in range(12)} for row in range(5)])
    text = table_text(rows, rows.columns, 60)
    assert len(re.findall(r"(?m)^4  ", text)) == text.count("\n\n") + 1 > 2
    assert all(f"value {n} of {row}" in text for n in range(12) for row in range(5))


def test_a_few_wide_rows_stand_one_below_the_other() -> None:
    """Each column is a line then, a sentence of several a line of its own, and nothing is cut."""
    hints = ("Avoid calling the builtin `print` in a function that torch.compile compiles, it breaks the graph.", "Or report it.")
    rows = Table([{"frame": "0/0", "reason": "Failed to trace builtin operator", "hints": hints}])
    lines = table_text(rows, rows.columns, 120).splitlines()
    assert lines[0] == "0  frame   0/0" and lines[2:] == [f"   hints   {hints[0]}", f"           {hints[1]}"]


def test_a_long_table_counts_the_rows_that_it_leaves_out() -> None:
    """And a cell of very many lines ends with an ellipsis."""
    rows = Table([{"n": n} for n in range(MAX_ROWS + 2)])
    lines = table_text(rows, rows.columns, 80).splitlines()
    assert lines[-2].split() == [str(MAX_ROWS - 1)] * 2 and "2 more rows" in lines[-1]
    tall = Table([{"text": "line\n" * 50, "n": n} for n in range(4)])
    assert table_text(tall, tall.columns, 80).count("…") == 4 and table_text(tall, tall.columns, 80).count("line") == 4 * (
        MAX_LINES - 1
    )


def test_line_numbers_in_a_row_are_written_as_their_ends() -> None:
    """Only in the column of lines: a shape of ascending sizes is written whole."""
    text = str(Table([{"lines": (3, 4, 5, 9, 11, 12), "shape": (1, 2, 3)}]))
    assert "3-5, 9, 11-12" in text and "1, 2, 3" in text


def test_a_table_is_asked_for_a_column_or_a_part() -> None:
    """A slice is a table; a column's name, a word of pandas, or a row's key as an attribute says what is meant."""
    rows = Table([{"reason": "x", "n": n} for n in range(4)])
    assert isinstance(rows[1:3], Table) and rows[1:3] == (rows[1], rows[2]) and rows[:0].columns == ("reason", "n")
    with pytest.raises(TypeError, match=re.escape("row['reason'] for row in table")):
        rows["reason"]  # type: ignore[call-overload]
    for name, right in (("df", "table.to_pandas()"), ("reason", "row['reason']"), ("head", "table[:5]"), ("groupby", ".groupby")):
        with pytest.raises(AttributeError, match=re.escape(right)):
            getattr(rows, name)
