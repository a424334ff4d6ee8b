"""Where the function that a line of a traceback is in is defined."""

from __future__ import annotations

import textwrap

import pytest

from explorer.capture.observe.functions import definition_line, qualified_name

FILE = textwrap.dedent(
    '''\
    import torch

    class Model(torch.nn.Module):
        """A model."""

        @torch.no_grad()
        def forward(
            self,
            x,
        ):
            y = x + 1

            def inner(z):
                return z * 2
    # a comment at the margin
            total = sum(
                inner(v)
                for v in (x, y)
            )
            return total

    def alone(x):
        return [v + 1
                for v in x]

    top = alone(1)
    '''
).splitlines(True)


@pytest.mark.parametrize(
    ("line", "function", "expected", "name"),
    [
        (11, "forward", 7, "Model.forward"),
        (14, "inner", 13, "Model.forward.inner"),
        (17, "forward", 7, "Model.forward"),
        (17, "<genexpr>", 7, "Model.forward"),
        (20, "forward", 7, "Model.forward"),
        (23, "alone", 22, "alone"),
        (24, "<listcomp>", 22, "alone"),
    ],
)
def test_the_definition_of_a_tracebacks_line_is_found(line: int, function: str, expected: int, name: str) -> None:
    """The def that a line is in is found by name and indentation, past nested functions, comments and comprehensions."""
    assert definition_line(FILE, line, function) == expected
    assert qualified_name(FILE, expected) == name


def test_a_line_of_the_module_itself_is_in_no_function() -> None:
    """A line at the top level has no definition, nor has one of a file that cannot be read."""
    assert definition_line(FILE, 26, "<module>") == 0
    assert definition_line([], 26, "f") == 0
