"""Advice as the view shows it in a real browser: cards in their order, and the lines that they lead to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from tests.in_tab import load_axe, selected, serious, show


@pytest.fixture
def slow(zoo: Callable[[str], Trace]) -> Trace:
    """Two sums of one tensor, of which a setting forbids that one kernel makes both, for a GPU you don't have."""
    return zoo("two sums h100 apart")


def test_cards_are_the_verdicts_and_lead_to_their_lines(opened: Any, slow: Trace) -> None:
    """Each verdict is a card with its cost, evidence and what proves it; its user line and its text open on a click."""
    advice = slow.advise()
    assert [verdict.kind for verdict in advice] == ["fusion missed"]
    tab = opened(slow)
    panel = show(tab, "Advice")
    cards = panel.locator("article.advice")
    assert cards.locator("h3").all_inner_texts() == [verdict.title for verdict in advice]
    for number, verdict in enumerate(advice):
        text = cards.nth(number).inner_text()
        assert verdict.evidence in text and verdict.remedy in text and (verdict.call or verdict.why_unproved) in text
    load_axe(tab)
    assert serious(tab) == []
    at = next(n for n, verdict in enumerate(advice) if verdict.places)
    cards.nth(at).get_by_role("button").last.click()
    assert selected(tab) in [place for verdict in advice for place in verdict.places]


def test_a_trace_without_verdicts_says_why(opened: Any, slow: Trace) -> None:
    """Without a verdict the view has the headline of the advice: here that kernels were not recorded."""
    fine = replace(slow, artifacts=tuple(a for a in slow.artifacts if a.stage in ("source", "kernel")))
    panel = show(opened(fine), "Advice")
    assert "Cannot judge" in panel.inner_text() and payload(fine)["advice"]["verdicts"] == []
