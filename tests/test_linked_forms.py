"""Beside a kernel's texts stands "all forms": the lines of every text that the selected line became, text under text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from explorer.analysis.questions.program_lines import program_lines
from tests.in_tab import APP, drawn, load_axe, selected, serious, show, texts_shown

#: Give the page a process that keeps what it is asked.
ATTACH = f"""() => {{ window.asked = []; {APP}.parts.live.attach({{
    get: (name) => (name === 'edits' ? [] : {{}}), on() {{}}, off() {{}}, send: (question) => asked.push(question) }}); }}"""
#: Add a text of a kernel, whose lines are linked to the kernel's, as one that was made on demand.
GROW = f"""([artifact, stage, title, language]) => {{
    const app = {APP};
    const {{ payload }} = app.store;
    const at = payload.artifacts.findIndex(({{ id }}) => id === artifact);
    const count = app.store.count;
    const how = payload.links.find(([source]) => source === at)[2];
    app.grow({{
        artifacts: [{{ ...payload.artifacts[at], id: 'made', stage, title, language }}],
        stages: [...payload.stages, {{ ...payload.stages[0], name: stage, title }}],
        links: [[count, at, how, [1, payload.artifacts[at].lines, 1, 0]]],
        hows: payload.hows,
        forms: [[at, stage, count]],
    }});
}}"""


def click(tab: Any, code: str) -> None:
    """Click a line of the program."""
    line = tab.get_by_role("region", name="left text").locator(".cm-line", has_text=code)
    line.first.click(position={"x": 60, "y": 9})
    drawn(tab)


def linked(tab: Any) -> Any:
    """Press "all forms" over the kernel; what it shows."""
    tab.get_by_role("group", name="kernel, right text").get_by_role("button", name="all forms").click()
    return tab.get_by_role("group", name="linked lines of the kernel, right text")


def sections(panel: Any) -> dict[str, tuple[str, list[int]]]:
    """The texts by name: what the heading says, and the numbers of the lines that are listed."""
    found = panel.locator("section").evaluate_all(
        "all => all.map((one) => [one.getAttribute('aria-label'), one.querySelector('h4').textContent,"
        " [...one.querySelectorAll('.number')].map((number) => Number(number.textContent))])"
    )
    return {name: (heading, lines) for name, heading, lines in found}


def test_each_text_has_the_lines_that_the_selected_line_became(opened, rotary):
    """The heading counts them, the first are listed, and a press lists the rest."""
    tab = opened(rotary)
    click(tab, "torch.cos(angles)")
    panel = linked(tab)
    kernel = next(a for a in rotary.artifacts if a.id == texts_shown(tab)[1])
    by_name = sections(panel)
    assert list(by_name) == ["source", "TTIR", "TTGIR", "LLIR", "PTX"]
    texts = {a.stage: a for a in rotary.artifacts if a.kernel == kernel.kernel and a.graph == kernel.graph}
    stages = {"source": "kernel", "TTIR": "ttir", "TTGIR": "ttgir", "LLIR": "llir", "PTX": "ptx"}
    lit = tab.evaluate(f"() => [...{APP}.selection.lit].map(([text, lines]) => [text, [...lines.keys()]])")
    lit_lines = {rotary.artifacts[text].id: lines for text, lines in lit if text < len(rotary.artifacts)}
    for name, (heading, lines) in by_name.items():
        text = texts[stages[name]]
        count, total = (int(n.replace(",", "")) for n in re.findall(r"[\d,]+", heading.split("·")[1]))
        assert total == len(text.lines) and 0 < len(lines) <= count <= len(lit_lines[text.id])
        assert lines == sorted(lines) and set(lines) <= set(lit_lines[text.id])
    assert not any(texts["kernel"].lines[line - 1].startswith("def ") for line in by_name["source"][1])
    rest = panel.get_by_role("button", name=re.compile("^and .* more$")).last
    listed = len(by_name["PTX"][1])
    left = int(rest.inner_text().split()[1].replace(",", ""))
    rest.click()
    assert len(sections(panel)["PTX"][1]) == listed + left


def test_a_line_leads_to_its_text(opened, rotary):
    """A press on a line selects it in its text, which takes the place of the list and the focus."""
    tab = opened(rotary)
    click(tab, "torch.cos(angles)")
    panel = linked(tab)
    row = panel.locator("section[aria-label=PTX] .link:has(code)").nth(1)
    number = int(row.locator(".number").inner_text())
    row.focus()
    tab.keyboard.press("Enter")
    drawn(tab)
    artifact, line = selected(tab)
    assert line == number and next(a.stage for a in rotary.artifacts if a.id == artifact) == "ptx"
    assert texts_shown(tab)[1] == artifact and panel.is_hidden()
    assert tab.evaluate("() => document.querySelector('#explorer').shadowRoot.activeElement.className").startswith("cm-content")


def test_another_line_is_shown_in_the_same_way(opened, rotary):
    """As a pane stays at its stage: the next line's kernel is shown by its linked lines, until one of its texts is asked for."""
    tab = opened(rotary)
    click(tab, "torch.cos(angles)")
    panel = linked(tab)
    before = sections(panel)
    click(tab, "torch.softmax")
    assert panel.is_visible() and sections(panel) != before
    bar = tab.get_by_role("group", name="kernel, right text")
    assert bar.get_by_role("button", pressed=True).all_inner_texts() == ["all forms"]
    bar.get_by_role("button", name="PTX").click()
    assert panel.is_hidden() and bar.get_by_role("button", pressed=True).all_inner_texts() == ["PTX"]
    tab.keyboard.press("Escape")
    assert bar.get_by_role("button", name="all forms").count() == 0, "without a selected line nothing is linked"


def test_what_is_not_linked_is_said(opened, rotary):
    """PTX says how many of its instructions have no line, and the page that it has no SASS, as nothing can make it here."""
    tab = opened(rotary)
    click(tab, "torch.cos(angles)")
    panel = linked(tab)
    kernel = next(a for a in rotary.artifacts if a.id == texts_shown(tab)[1])
    ptx = next(a for a in rotary.artifacts if (a.stage, a.kernel, a.graph) == ("ptx", kernel.kernel, kernel.graph))
    of_line = {line for link in rotary.links if link.source == ptx.id for line in link.source_lines}
    instruction = re.compile(r"\s*(?:@!?%\w+\s+)?[a-z]")
    without = [n for n, code in enumerate(ptx.lines, 1) if n not in of_line and instruction.match(code)]
    said = panel.locator("section[aria-label=PTX]").inner_text()
    assert re.search(rf"\b{len(without)} instructions? without a line", said)
    assert "SASS · made on demand" in panel.inner_text()


def test_what_is_made_on_demand_is_made_by_the_press(opened, replayed):
    """The press on "all forms" asks for the assembly of a C++ kernel, which comes in beside the source, and opens no text."""
    trace = replayed("sin_cos-torch2.13-cpu")
    tab = opened(trace)
    show(tab, "code")
    tab.evaluate(ATTACH)
    lines = program_lines([trace])
    click(tab, next(line.first.line.code for line in lines if any(k.artifact.stage == "kernel" for k in line.kernels[0]))[:40])
    panel = linked(tab)
    kernel = texts_shown(tab)[1]
    assert tab.evaluate("() => asked") == [{"ask": "make", "artifact": kernel, "stage": "assembly"}]
    assert list(sections(panel)) == ["source"]
    tab.evaluate(GROW, [kernel, "assembly", "Assembly", "asm"])
    assert list(sections(panel)) == ["source", "Assembly"] and texts_shown(tab)[1] == kernel
    assert sections(panel)["Assembly"][1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, rotary, scheme):
    """In the linked lines of a kernel."""
    tab = opened(rotary, color_scheme=scheme)
    click(tab, "torch.cos(angles)")
    linked(tab)
    load_axe(tab)
    assert serious(tab) == []
