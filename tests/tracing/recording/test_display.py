"""show and explore take what can be shown, and refuse the rest."""

from __future__ import annotations

import pytest

import explorer
from tests.facts import says


def test_show_takes_a_trace() -> None:
    """Anything else is an InputError, not a print of it."""
    with pytest.raises(explorer.errors.InputError, match=says("show", "Trace", "explorer.trace(f, x)", "show(t, other)", "int")):
        explorer.show(3)  # type: ignore[arg-type]
