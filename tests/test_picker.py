"""The picker of a pane's text: what the first screen costs does not grow with the number of texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import explorer
from tests.tabs import to_texts

#: Count, at the moment at which the page is ready, what its pickers offer.
COUNT = """addEventListener('DOMContentLoaded', () => new MutationObserver(() => {
    const { shadowRoot } = document.querySelector('#explorer');
    const pickers = [...shadowRoot.querySelectorAll('.pane .bar select')];
    window.offered ??= pickers.map((one) => one.querySelectorAll('option').length);
}).observe(document.querySelector('#explorer'), { attributes: true, attributeFilter: ['data-state'] }));"""


def test_the_first_screen_makes_no_options(tabs: Callable[..., Any], saved: Callable[[Any], Path], rotary):
    """When a page is ready no picker is made, and soon after it each has all texts, with the one picked that it shows."""
    tab = tabs(alone=True)  # because of the script
    tab.add_init_script(COUNT)
    tab.goto(saved(explorer.compare(rotary, rotary, names=("before", "after"))).as_uri())
    tab.wait_for_selector("#explorer[data-state=ready]")
    assert tab.evaluate("window.offered") == []
    shown = tab.evaluate("document.querySelector('#explorer').app.panes.list.map((pane) => pane.artifact)")
    pickers = tab.locator(".pane .bar select")
    pickers.first.locator("option").nth(9).wait_for(state="attached")
    to_texts(tab)
    for at, artifact in enumerate(shown):
        picker = pickers.nth(at)
        picker.focus()
        assert picker.locator("option").count() >= 2 * len(rotary.artifacts)
        assert picker.evaluate("one => Number(one.value)") == artifact
