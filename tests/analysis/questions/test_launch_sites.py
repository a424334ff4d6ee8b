"""Arguments of a launch, as the wrapper's code writes them."""

from __future__ import annotations

import pytest

from explorer.analysis.questions.launch_sites import viewed


def test_a_view_from_the_first_element_on_is_read() -> None:
    """Its variable, sizes and strides are the code's own expressions."""
    assert viewed("reinterpret_tensor(buf0, (8, s77), (s77, 1), 0)") == ("buf0", ("8", "s77"), ("s77", "1"))


@pytest.mark.parametrize(
    "argument",
    [
        "reinterpret_tensor(buf0, (8, 16), (16, 1), 4)",
        "reinterpret_tensor(buf0[0], (8, 16), (16, 1), 0)",
        "reinterpret_tensor(buf0, sizes, (16, 1), 0)",
        "reinterpret_tensor(buf0, (8, 16), (16, 1))",
        "other(buf0, (8, 16), (16, 1), 0)",
        "buf0",
        "buf0,",
        "buf0(",
    ],
)
def test_other_arguments_are_no_such_view(argument: str) -> None:
    """No view rather than a wrong one: from another element on, of an expression, with sizes that are not written out."""
    assert viewed(argument) is None
