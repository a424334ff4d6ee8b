"""Progress: shows the phase under way to who watches, and is silent for who does not."""

from __future__ import annotations

import io
import sys

import pytest
import torch

import explorer
from explorer import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_shown_the_phase_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal the compiler's phases are named while they run, and the line is cleared at the end."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    explorer.trace(torch.sin, torch.randn(3), backend="aot_eager")
    assert "compiling sin" in terminal.getvalue()
    assert terminal.getvalue().rstrip(" ").endswith("\r")


def test_phases_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase that begins is told by its name."""
    told: list[str] = []
    from contextlib import contextmanager

    @contextmanager
    def watching(label: str):  # type: ignore[no-untyped-def]
        yield told.append

    monkeypatch.setattr("explorer.session.progress", watching)
    explorer.trace(torch.sin, torch.randn(3), backend="aot_eager")
    assert {"bytecode_tracing", "backend_compile", "build_guards"} <= set(told)


def test_nobody_watching_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stderr is no terminal there is nothing to call."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.progress("f") as show:
        assert show is None
