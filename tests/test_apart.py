"""Over a kernel or library call stands what it is apart from: its producers and consumers, and why they are not one kernel."""

from __future__ import annotations

import re
from typing import Any

from explorer.analysis.questions.program_lines import program_lines
from tests.in_tab import drawn, load_axe, serious, show, texts_shown

#: What is apart from the kernel of the right pane: each title with the whole reason.
ROWS = "rows => rows.map((row) => [row.querySelector('button').textContent, row.title])"
#: The button that shows the rest.
MORE = re.compile(r"^\d+ more$")


def click(tab: Any, code: str) -> None:
    """Click a line of the program."""
    line = tab.get_by_role("region", name="left text").locator(".cm-line", has_text=code)
    line.first.click(position={"x": 60, "y": 9})
    drawn(tab)


def apart(tab: Any) -> Any:
    return tab.get_by_role("region", name="right text").get_by_role("group", name="why not one kernel")


def test_a_call_says_what_it_is_not_fused_with(opened, rotary):
    """The line's own kernel comes first, with the reason; a press asks Fusion about the two, which says the same."""
    tab = opened(rotary)
    click(tab, "torch.softmax")
    rows = apart(tab).locator("p").evaluate_all(ROWS)
    line = next(line for line in program_lines([rotary]) if "torch.softmax" in line.first.line.code)
    own = {k.name for k in line.kernels[0]}
    title, sentence = rows[0]
    assert "softmax" in title and any("softmax" in name for name in own)
    assert "(line 211): this is a library call" in apart(tab).inner_text()
    apart(tab).get_by_role("button", name=title).press("Enter")
    panel = tab.get_by_role("tabpanel", name="Fusion")
    assert all(panel.get_by_label(f"{which} node").input_value() for which in ("first", "second"))
    said = panel.locator(".why").inner_text()
    assert said.startswith("✕ not fused: ") and "nothing is fused with it" in said and "nothing is fused with it" in sentence


def test_a_kernel_says_what_it_is_not_fused_with(opened, rotary):
    """It names no kernel twice, itself not at all, and each by the line of the program that it is of."""
    tab = opened(rotary)
    click(tab, "torch.cos(angles)")
    more = apart(tab).get_by_role("button", name=MORE)
    if more.count():
        more.click()
    titles = [title for title, _ in apart(tab).locator("p").evaluate_all(ROWS)]
    kernel = next(k for k in rotary.kernels if k.artifact.id == texts_shown(tab)[1])
    assert titles and len(set(titles)) == len(titles)
    number = kernel.name.rsplit("_", 1)[-1]
    assert not any(f"_{number} (" in title for title in titles)
    assert all(title.endswith(")") and "line " in title for title in titles)


def test_it_is_said_when_the_texts_come_into_sight(opened, rotary):
    """The overview works nothing out for the panes behind it; the kernel's row is there with them."""
    tab = opened(rotary, "#view=overview")
    assert apart(tab).locator("p").count() == 0
    show(tab, "Code")
    assert apart(tab).locator("p").count() > 0


def test_the_rest_is_behind_a_press(opened, rotary):
    """One is said; a press shows the others."""
    tab = opened(rotary)
    for line in program_lines([rotary]):
        click(tab, line.first.line.code[:40])
        if apart(tab).get_by_role("button", name=MORE).count():
            break
    more = apart(tab).get_by_role("button", name=MORE)
    left = int(more.inner_text().split()[0])
    assert apart(tab).locator("p").count() == 1
    more.press("Enter")
    assert apart(tab).locator("p").count() == 1 + left
    focused = tab.evaluate("() => document.querySelector('#explorer').shadowRoot.activeElement.textContent")
    assert focused == apart(tab).locator("p").nth(1).get_by_role("button").inner_text()


def test_what_is_no_kernel_is_apart_from_nothing(opened, rotary):
    """A text that is no kernel's has no such head, and the linked lines of a kernel have its room."""
    tab = opened(rotary)
    click(tab, "torch.cos(angles)")
    assert apart(tab).is_visible()
    tab.get_by_role("group", name="kernel, right text").get_by_role("button", name="all forms").click()
    assert apart(tab).is_hidden()
    graph = next(n for n, a in enumerate(rotary.artifacts) if a.stage == "post_grad")
    tab.get_by_role("region", name="right text").locator("select").select_option(str(graph))
    assert apart(tab).is_hidden()


def test_axe_finds_nothing_serious_beside_a_call(opened, rotary):
    """Over the output code, in the dark."""
    tab = opened(rotary, color_scheme="dark")
    show(tab, "code")
    click(tab, "torch.softmax")
    load_axe(tab)
    assert serious(tab) == []
