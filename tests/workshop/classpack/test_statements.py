"""statements: each statement of a cell runs alone, with the line numbers that it has in the cell."""

from __future__ import annotations

import pytest

from explorer.workshop.classpack.statements import statements


def test_each_statement_keeps_its_lines() -> None:
    """Decorators belong to their function; comments stand in place of the lines above, so that line numbers stay."""
    cell = "import json\n\n\n@staticmethod\ndef f():\n    return 1\n\n\nf"
    found = statements(cell)
    assert [(one.first, one.last) for one in found] == [(1, 1), (4, 6), (9, 9)]
    assert found[1].code.split("\n") == ["#", "#", "#", "@staticmethod", "def f():", "    return 1"]
    assert compile(found[2].code, "", "exec").co_code and found[2].code.count("\n") == 8


def test_only_the_last_expression_of_a_cell_shows_its_value() -> None:
    """An expression above the last line ends in a semicolon, which keeps IPython from showing it."""
    assert [one.code.rpartition("\n")[2] for one in statements("f(1)  # one\nf(2)")] == ["f(1);", "f(2)"]


def test_a_statement_has_the_names_of_the_notebook_that_it_uses() -> None:
    """Also those that a function in it uses, but none that is local to one."""
    cell = "class A(n.B):\n    def f(self, a):\n        q, k = a\n        return q + c\n\n\nx = list(z)"
    assert [set(one.names) for one in statements(cell)] == [{"A", "n", "c"}, {"x", "list", "z"}]
    assert statements("a = 1; b = a")[0].names == {"a", "b"} and statements("%magic a")[0].names == set()


@pytest.mark.parametrize("cell", ["%load_ext explorer", "%%explore\nf(x)", "a = 1; b = 2", "!ls\na = 1"])
def test_what_cannot_be_split_is_one_statement(cell: str) -> None:
    """A cell with a magic, or with two statements on a line, runs whole."""
    (one,) = statements(cell)
    assert (one.code, one.first, one.last) == (cell, 1, cell.count("\n") + 1)
