"""Graph breaks and recompiles by the calls that led to them, and a limit that was reached, in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from explorer.model.records import blank
from explorer.model.shared import Source
from explorer.model.values import Artifact
from explorer.stages.dynamo.recompile import Recompile, Recompiles
from explorer.tracing.traced import Trace
from tests.facts import untold
from tests.in_tab import load_axe, serious
from tests.tabs import to_view

#: The entries of the tree, each with its depth; an entry's text without those below it.
ENTRIES = """tree => [...tree.querySelectorAll('li')].map(item => {
    let depth = 0;
    for (let at = item.parentElement; at !== tree; at = at.parentElement) depth += at.localName === 'ul';
    const own = [...item.childNodes].filter(node => node.localName !== 'ul');
    return [depth, own.map(node => node.textContent).join('').trim()];
})"""


def breaks(tab: Any) -> Any:
    to_view(tab, "Guards")
    return tab.get_by_role("tabpanel", name="Guards")


def entries(panel: Any) -> list[tuple[int, str]]:
    return [(depth, text) for depth, text in panel.locator(".call-tree").evaluate(ENTRIES)]


def test_breaks_and_recompiles_stand_below_the_call_that_led_to_them(opened, replayed) -> None:
    """The program's call, the frame, what happened there, how it goes on, and the functions that it calls; as Dynamo compiled."""
    panel = breaks(opened(replayed("views/limit-torch2.13-cpu")))
    found = entries(panel)
    assert found[0][0] == 0 and "programs.py:" in found[0][1] and "compiled(torch.ones(n" in found[0][1]
    assert [depth for depth, _ in found].count(0) == 1, "one line calls; also that which is not compiled is called there"
    assert [text for depth, text in found if depth == 1] == ["0/0 times", "0/1 times", "0/2 times"]
    first = found[: found.index((1, "0/1 times"))]
    at = next(n for n, (_, text) in enumerate(first) if "1/0 torch_dynamo_resume_in_times" in text)
    assert first[at][0] == 2 and "graph break" in first[at - 1][1]
    call = next(n for n, (_, text) in enumerate(first) if text.endswith("return cosine(y)"))
    assert first[call][0] == 3 and first[call + 1] == (4, "2/0 cosine"), "the break in what is inlined: called by itself"
    again = found[found.index((1, "0/1 times")) :]
    assert again[1][0] == 2 and not untold(again[1][1], "↻", "guard of 0/0", "n == 2")
    last = found[found.index((1, "0/2 times")) :]
    assert (2, "↻ recompile_limit (2) is reached: times is not compiled for this call") in last
    panel.get_by_role("button", name="0/0 times").click()
    assert panel.page.get_by_role("tab", name="Code").get_attribute("aria-selected") == "true"


def test_a_limit_that_is_reached_is_a_card_with_the_way_there(opened, replayed) -> None:
    """It names the function, the setting and its value, what to do, and for each compile the guard that failed."""
    trace = replayed("views/limit-torch2.13-cpu")
    panel = breaks(opened(trace))
    card = panel.locator("article", has_text="recompile_limit reached")
    assert card.count() == 1 and "times (programs.py" in card.locator("h3").inner_text()
    assert "2 compiles" in card.locator("h3").inner_text() and not untold(card.inner_text(), "limit")
    first, second = card.locator(".way li").all_inner_texts()
    assert not untold(first, "0/1", "guard of 0/0", "n == 2") and "compiled" not in first
    assert not untold(second, "0/2", "compiled", "guard of 0/1", "n == 3")
    again = panel.locator("article", has_text="times (programs.py").filter(has_text="compiled again").first
    assert "compiled again, 1 time" in again.inner_text(), "a call that is not compiled is no recompile"
    card.get_by_role("button", name="0/2").click()
    assert panel.page.get_by_role("tab", name="Code").get_attribute("aria-selected") == "true"


def test_a_trace_without_breaks_has_no_tree(opened, replayed) -> None:
    """Nothing broke, and nothing was compiled again."""
    assert breaks(opened(replayed("sin_cos-torch2.13-cpu"))).locator(".call-tree").count() == 0


def test_a_tree_without_calls_says_nothing_that_the_cards_say(opened, replayed) -> None:
    """An older recording lacks the calls: where nothing is known of who called, there are only the cards."""
    panel = breaks(opened(replayed("toy_example-torch2.13-cpu")))
    assert panel.locator("article", has_text="Data-dependent branching").count() == 1
    assert panel.locator(".call-tree").count() == 0


def test_the_chip_counts_each_break_once(opened, replayed) -> None:
    """A break in a function with several callers is one, which each of these frames has a text of."""
    trace = replayed("views/limit-torch2.13-cpu")
    places = len(trace.dynamo.graph_breaks)
    assert len(trace.find("graph_break")) > places > 1
    header = opened(trace).locator("header")
    assert header.get_by_role("button", name=f"{places} graph breaks").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_tree(opened, replayed, scheme: str) -> None:
    """The tree and the card of the limit."""
    tab = opened(replayed("views/limit-torch2.13-cpu"), color_scheme=scheme)
    breaks(tab)
    load_axe(tab)
    assert serious(tab) == []


def recompiled(count: int) -> Trace:
    """A function that was compiled so often; each compile lists the failed guard of every earlier one, as Dynamo does."""
    source = replace(blank(Source), file="f.py", first_line=1, line=1, compiled=True, qualname="f")
    artifacts = []
    for n in range(count):
        text = "def f(x):\n    return x"
        artifacts.append(Artifact(f"0/{n}:source", "source", f"0/{n}", "", "f", "python", text, data=source))
        rows = tuple(Recompile(earlier=f"0/{m}", guard=f"guard of 0/{m} on x") for m in reversed(range(n)))
        if rows:
            data = Recompiles(rows=rows)
            artifacts.append(Artifact(f"0/{n}:recompile", "recompile", f"0/{n}", "", "Recompile", "text", "again", data=data))
    return Trace(artifacts=tuple(artifacts))


def test_what_is_drawn_of_recompiles_grows_with_their_number(opened) -> None:
    """Of the n² / 2 failed guards of n compiles a few stand below each, and a press shows all of one compile."""
    few, many = (breaks(opened(recompiled(count))) for count in (20, 60))
    drawn = [panel.locator("li").count() for panel in (few, many)]
    assert drawn[1] <= 3.3 * drawn[0]
    last = many.locator(".versions > li").last
    assert re.findall(r"guard of (\S+) failed", last.inner_text()) == ["0/58", "0/57", "0/56"]
    last.get_by_role("button", name="56 more").click()
    assert re.findall(r"guard of (\S+) failed", last.inner_text()) == [f"0/{n}" for n in reversed(range(59))]
