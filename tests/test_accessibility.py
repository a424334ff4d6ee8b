"""The view without eyes or without a mouse: axe-core's rules on every view, and a walk by keys alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from explorer.model.records import blank
from explorer.model.shared import Source
from explorer.model.values import Artifact, Link
from explorer.stages.records import ARTIFACTS
from explorer.tracing.traced import Trace
from tests.in_tab import load_axe, name_nodes, serious, show

VIEWS = ("Overview", "Code", "Graph", "Advice", "Kernels", "Fusion", "Passes", "Diff", "Guards", "Memory", "Compiler", "Run")

#: Those of two traces that differ from the views of one.
SEVERAL = ("Overview", "Code", "Compare", "Passes", "Diff")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, for_h100, scheme):
    """No view, light or dark, breaks a rule of axe-core that it calls serious or critical; the list has every view."""
    tab = opened(for_h100, color_scheme=scheme)
    shown = tab.get_by_role("tab").all_inner_texts()
    assert [name for name in shown if not name.startswith(VIEWS)] == [] and len(shown) == len(VIEWS)
    tab.locator(".pane .line.lit, .pane .line").first.click()
    load_axe(tab)
    found = [f"{view}: {problem}" for view in VIEWS for problem in problems(tab, view)]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_beside_each_other(opened, engines, scheme):
    """Two traces by other compilers: their differences, their passes, and a text that is itself a coloured difference."""
    tab = opened(engines, color_scheme=scheme)
    difference = next(n for n, a in enumerate(engines.traces[0].artifacts) if a.language == "diff")
    tab.get_by_role("region", name="right text").locator("select").select_option(str(difference))
    assert tab.locator(".t-made, .t-gone").count()
    tab.locator(".pane .line").first.click()
    load_axe(tab)
    found = [f"{view}: {problem}" for view in SEVERAL for problem in problems(tab, view)]
    assert found == [], "\n".join(found)


def problems(tab: Any, view: str) -> list[str]:
    """What axe-core calls serious of one view."""
    panel = show(tab, view)
    if view == "Fusion":  # its answer has colours of its own
        name_nodes(panel, "op0", "op5")
    return serious(tab)


def ladder() -> Trace:
    """A source line that became lines of every stage down to SASS."""
    stages = ("dynamo", "post_grad", "output_code", "kernel", "ttir", "ttgir", "llir", "ptx", "sass")
    data = blank(Source, function="f", qualname="f", file="f.py", first_line=1, compiled=True)
    texts = [Artifact("source", "source", "0/0", "", "f", "python", "def f(x):\n    return x.sin()", data=data)]
    for stage in stages:
        in_kernel = "k_0" if stages.index(stage) > 2 else ""
        lines = "\n".join(f"{stage} {n}" for n in range(40))
        texts.append(Artifact(stage, stage, "0/0", "inference", stage, stage, lines, in_kernel, data=blank(ARTIFACTS[stage])))
    steps = pairwise(texts)
    links = [Link(below.id, (30,), above.id, (2 if above.stage == "source" else 30,), "says so") for above, below in steps]
    return Trace(artifacts=tuple(texts), links=tuple(links))


def walk(tab: Any, key: str, wanted: str) -> None:
    """Press a key until the focus is on an element with this label or role."""
    focused = """() => {
        const at = document.querySelector('#explorer').shadowRoot.activeElement;
        return at && (at.getAttribute('aria-label') || at.getAttribute('role'));
    }"""
    for _ in range(40):
        tab.keyboard.press(key)
        if tab.evaluate(focused) == wanted:
            return
    pytest.fail(f"{key} does not lead to {wanted}")


def test_keys_alone_lead_from_the_source_to_sass(opened):
    """Tab, arrows and Enter reach the source's line, then the rail's SASS, and the linked instruction is in view and said."""
    tab = opened(ladder())
    walk(tab, "Tab", "left text, lines")
    tab.keyboard.press("ArrowDown")
    assert "Line 2 of f" in tab.locator(".status").inner_text()
    walk(tab, "Shift+Tab", "treeitem")
    tab.keyboard.press("End")
    tab.keyboard.press("Enter")
    right = tab.get_by_role("region", name="right text")
    assert right.locator("select").evaluate("s => s.selectedOptions[0].textContent").startswith("sass")
    assert right.locator(".line.lit").inner_text() == "sass 29"
    walk(tab, "Tab", "right text, lines")
    tab.keyboard.press("Control+Home")
    tab.keyboard.press("Control+End")
    assert "Line 40 of sass" in tab.locator(".status").inner_text()


def test_the_status_says_what_is_selected(opened):
    """A selection is announced in words, also how it is known."""
    tab = opened(ladder())
    tab.get_by_role("region", name="left text").locator('[data-line="2"]').click()
    status = tab.get_by_role("status").filter(has_text="Line 2").inner_text()
    assert "9 linked lines in 9 texts" in status and "says so" in status
