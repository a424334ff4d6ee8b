"""Integer expressions of sizes and grids."""

from __future__ import annotations

import ast

import pytest

from explorer.model.integers import evaluated, value_of

NAMES = {"s77": 12, "x": 1000}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64),
        ("4*s77", 48),
        (" s77 // 5", 2),
        ("s77**2", 144),
        ("max(1, s77)", 12),
        ("Min(1, s77)", 1),
        ("-s77 + 1", -11),
        ("-((x) // -(256))", 4),
        ("tl.cdiv(x, 256) * triton.cdiv(3, 2)", 8),
        ("(0 if s77 == 0 else x % s77)", 4),
        ("x / 8", 125),
        ("1 << 4 | 3", 19),
    ],
)
def test_arithmetic_on_known_names_has_a_value(text: str, value: int) -> None:
    """Numbers, symbols and what the compilers write between them; a division where it leaves no remainder."""
    assert evaluated(text, NAMES) == value


@pytest.mark.parametrize(
    "text",
    [
        *("__import__('os')", "a.b", "open('x')", "[1][0]", "1 +", "", "y", "s99", "x / 3", "x // 0", "1.5", "'a' * 3"),
        *("max(1, key=s77)", "max()", "tl.sum(x)", "2**-1", "1 << -1", "9**9**9", "1 << 10**9", "(10**30 * 10**30)", "(" * 500),
    ],
)
def test_nothing_but_arithmetic_is_evaluated(text: str) -> None:
    """A call, an attribute, an unknown name, a fraction, a number of no size, or broken text has no value."""
    assert evaluated(text, NAMES) is None


def test_a_name_that_is_no_integer_has_no_value() -> None:
    """A kernel's arguments are tensors too."""
    size = ast.parse("x + 1", mode="eval").body
    assert value_of(size, {"x": 2}) == 3 and value_of(size, {"x": 2.0}) is None and value_of(size, {"x": "2"}) is None  # type: ignore[dict-item]
