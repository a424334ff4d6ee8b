"""The lab of a probe, without a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from explorer.studies.varying import lab
from explorer.studies.varying.lab import with_progress
from explorer.studies.varying.vary import Vary


def test_each_call_is_told_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who watches hears which call is under way."""
    told: list[str] = []

    @contextmanager
    def watching(name: str, verb: str) -> Iterator[Callable[[str], None]]:
        yield told.append

    monkeypatch.setattr("explorer.studies.varying.lab.progress", watching)
    calls = with_progress("f", [Vary("n", value=1), Vary("n", value=2)])
    next(calls)
    assert told == ["call 1 of 2: n = 1"]
    assert list(calls) == [Vary("n", value=2)] and told[1:] == ["call 2 of 2: n = 2"]
    assert list(with_progress("f", iter([Vary("n", value=1)]))) and told[2:] == ["call 1: n = 1"], "of how many is not known"


def test_a_long_silence_is_broken_where_no_bar_can_be_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line on stderr names the call that is under way, once the seconds have passed, and not before."""
    calls = [Vary("n", value=1), Vary("n", value=2)]
    assert list(with_progress("f", calls)) == calls and capsys.readouterr().err == ""
    monkeypatch.setattr(lab, "SECONDS_OF_SILENCE", -1.0)
    assert list(with_progress("f", calls)) == calls
    assert capsys.readouterr().err.splitlines() == [f"explorer: probing f: call {number} of 2, n = {number}" for number in (1, 2)]
