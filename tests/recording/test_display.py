"""show and explore take what can be shown, and refuse the rest."""

from __future__ import annotations

import pytest

import explorer


def test_show_takes_a_trace() -> None:
    """Anything else is an InputError, not a print of it."""
    with pytest.raises(
        explorer.InputError, match=r"show takes a Trace, such as explorer.trace\(f, x\) gives, or two or three, .* not int$"
    ):
        explorer.show(3)  # type: ignore[arg-type]
