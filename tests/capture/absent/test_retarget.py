"""Errors that end a compile for an absent GPU: torch's own go through, explorer's make it give up the compile."""

from __future__ import annotations

import pytest

from explorer.capture.absent.retarget import _given_up_where_ours_fails
from explorer.capture.observe.patch import Guard


def in_a_circle() -> ValueError:
    """An error raised from another one that was raised while the first was handled."""
    try:
        raise ValueError("first")
    except ValueError as first:
        try:
            raise KeyError("second")
        except KeyError as second:
            other = second
        first.__cause__ = other
        return first


def test_an_error_of_torchs_goes_through_whatever_it_was_raised_from() -> None:
    """Errors that name each other as their causes are looked through once."""
    errors: dict[tuple[str, str, str], None] = {}
    error = in_a_circle()
    assert error.__cause__ is not None and error.__cause__.__context__ is error

    def torchs() -> None:
        raise error

    with pytest.raises(ValueError, match="first"):
        _given_up_where_ours_fails(lambda call: call(), torchs, Guard(None, errors))
    assert not errors
