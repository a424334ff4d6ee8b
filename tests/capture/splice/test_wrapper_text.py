"""Another text of a wrapper: what in it is other, and what keeps it from being a wrapper's."""

from __future__ import annotations

import pytest

from explorer.capture.splice.wrapper_text import changed_kernels, unreadable

KERNEL = "{name} = async_compile.cpp_pybinding(['float*'], r'''\nvoid kernel(float* x) {{ x[0] = {value}; }}\n''')\n"
CALL = "def call(args):\n    return args\n"


def text(**values: int) -> str:
    return "".join(KERNEL.format(name=name, value=value) for name, value in values.items()) + CALL


def test_kernels_that_are_other_or_new_are_changed() -> None:
    """A kernel with another source and one that the original lacks; with the lines of their sources."""
    changed = changed_kernels(text(a=1, b=3, c=4), text(a=1, b=2))
    assert [(kernel.name, kernel.language, kernel.first_line) for kernel in changed] == [("b", "cpp", 4), ("c", "cpp", 7)]
    assert changed_kernels(text(a=1) + "\n# a comment\n", text(a=1, b=2)) == []


@pytest.mark.parametrize(
    ("source", "line", "word"), [("x = (\n", 1, "SyntaxError"), ("def f(args): ...\n", 0, "'call'"), ("x = '\0'", 0, "null")]
)
def test_what_is_no_wrapper_says_why(source: str, line: int, word: str) -> None:
    """A syntax error has its line; a text without a call, and one that is no text of Python's, have none."""
    found = unreadable(source)
    assert found is not None and found[0] == line and word in found[1]


def test_a_wrapper_may_have_its_call_as_a_method_or_a_function() -> None:
    """Inductor assigns a method; a function by that name does too."""
    assert unreadable(text(a=1)) is None and unreadable("runner = None\ncall = runner\n") is None
