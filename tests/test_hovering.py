"""Hover: the lines linked to the one under the pointer are lit in every text in sight, and its tooltip leads to them."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.analysis.questions.provenance import follow
from explorer.tracing.traced import Trace
from tests.in_tab import APP, drawn, selected, show

#: Of each pane the lines that can be seen, the line under the pointer and those that it lights: id of the text, and number.
PANES = f"""() => {APP}.panes.list.map((pane) => ['', '.hovered', '.hover-lit'].map((kind) =>
    [...pane.element.querySelectorAll(`.line${{kind}}:not(.heading)`)]
        .flatMap((line) => {{
            const place = pane.store.written(pane.artifact, Number(line.dataset.line));
            return place ? [[pane.store.artifact(place[0]).id, place[1]]] : [];
        }})))"""
#: The lines of one side that are drawn, and those that the pointer lights.
CELLS = """side => ['', '.hover-lit'].map((kind) => [...document.querySelector('#explorer').shadowRoot.querySelectorAll(
    `.compare .cell${kind}[data-side="${side}"]:not(.none)`)].map((cell) => Number(cell.dataset.line)))"""


Places = set[tuple[str, int]]


def linked(trace: Trace, artifact: str, line: int) -> Places:
    """The lines of all texts that are linked to a line, as Python answers."""
    return {(row["artifact"], line) for row in follow(trace, artifact, line) for line in row["lines"]}


def panes(tab: Any) -> list[tuple[Places, Places, Places]]:
    """The lines that each pane shows, has under the pointer and lights, once two frames have been drawn."""
    drawn(tab)
    return [tuple({(id, line) for id, line in lines} for lines in pane) for pane in tab.evaluate(PANES)]


def line_of(tab: Any, pane: int, code: str) -> Any:
    """A line of a pane that has this code, scrolled to."""
    reveal = f"""([at, code]) => {{
        const {{ editor, lines }} = {APP}.panes.list[at];
        editor.reveal(1 + lines.findIndex((line) => line.includes(code)));
    }}"""
    tab.evaluate(reveal, [pane, code])
    return tab.locator(".pane").nth(pane).locator(".line", has_text=code).first


def test_the_pointer_lights_the_linked_lines_of_every_pane(opened, rotary):
    """In three texts those lines that Python calls linked are lit, no others; the selection stays, and leaving takes all away."""
    tab = opened(rotary)
    ttgir = next(n for n, a in enumerate(rotary.artifacts) if a.stage == "ttgir")
    tab.get_by_role("button", name="add a text pane").click()
    tab.get_by_role("region", name="third text").locator("select").select_option(str(ttgir))
    line_of(tab, 1, "tmp").click()
    before = tab.locator(".line.lit").count()
    kernel = rotary.artifacts[tab.evaluate(f"() => {APP}.panes.list[1].artifact")]
    lit = 0
    for code in ("libdevice.rsqrt(", "tl.load(", "tl.store("):
        tab.locator(".status").hover()  # a tooltip may lie over the line
        line_of(tab, 1, code).hover(position={"x": 40, "y": 9})
        number = next(n for n, text in enumerate(kernel.lines, 1) if code in text)
        wanted = linked(rotary, kernel.id, number)
        for pane, (seen, under, found) in enumerate(panes(tab)):
            assert under == ({(kernel.id, number)} if pane == 1 else set())
            assert found == (wanted & seen) - under
            lit += len(found)
    assert lit > 6 and tab.locator(".line.lit").count() == before
    tab.locator(".status").hover()
    assert not any(under or found for _, under, found in panes(tab))
    assert tab.locator(".hover-lit").count() == 0 and tab.locator(".line.lit").count() == before


def test_the_pointer_lights_both_sides_of_a_comparison(opened, engines):
    """Two compilers' texts of one layer: in the panes and in Compare, a line lights those of the other text."""
    tab = opened(engines)
    line_of(tab, 1, "arith.cmpf ugt").hover(position={"x": 60, "y": 9})
    assert all(under or found for _, under, found in panes(tab))
    panel = show(tab, "Diff")
    panel.get_by_role("combobox", name="first text to compare").select_option("0")
    other = tab.evaluate(f"() => {APP}.store.byId.get('ONNX 0/0:onnxrt_all:inference')")
    panel.get_by_role("combobox", name="second text to compare").select_option(str(other))
    panel.locator('.cell[data-side="0"]', has_text="torch.relu(").hover(position={"x": 90, "y": 9})
    seen, found = tab.evaluate(CELLS, 1)
    (graph,) = engines.traces[1].find("onnxrt_all")
    source = engines.traces[1].find("source")[0]
    line = next(n for n, text in enumerate(source.lines, 1) if "torch.relu(" in text)
    wanted = {at for id, at in linked(engines.traces[1], source.id, line) if id == graph.id}
    assert found == sorted(wanted & set(seen)) != []
    tab.locator(".status").hover()
    assert tab.evaluate(CELLS, 1) == [seen, []]


def test_the_pointer_goes_along_the_line_into_its_tooltip(opened, rotary):
    """The tooltip stays on the way into it, and a line listed there is gone to by a click, which closes it."""
    tab = opened(rotary)
    line = line_of(tab, 1, "libdevice.rsqrt(")
    line.hover(position={"x": 120, "y": 9})
    tooltip = tab.locator(".cm-tooltip .hover")
    tooltip.wait_for()
    (under,) = panes(tab)[1][1]
    row = tooltip.get_by_role("button").first
    box, at = row.bounding_box(), line.bounding_box()
    tab.mouse.move(at["x"] + 124, at["y"] + 9)
    tab.mouse.move(box["x"] + 30, box["y"] + box["height"] / 2, steps=12)
    assert tooltip.is_visible() and panes(tab)[1][1] == {under}, "the line stays lit while its tooltip is read"
    code = row.locator("code").inner_text()
    row.click()
    artifact, there = selected(tab)
    assert code == next(a for a in rotary.artifacts if a.id == artifact).lines[there - 1].strip()
    assert (artifact, there) in linked(rotary, *under)
    assert tab.locator(".cm-tooltip").count() == 0


#: Whether a point shows what is known of a line.
ON_TOP = "([x, y]) => !!document.querySelector('#explorer').shadowRoot.elementFromPoint(x, y)?.closest('.hover')"


@pytest.mark.parametrize("contain", ["none", "layout"])
def test_a_tooltip_covers_no_line_that_it_is_of(opened, rotary, contain):
    """It stands below the line, or above where no room is below, whole in the window, also where each pane cuts what it holds."""
    tab = opened(rotary, viewport={"width": 1024, "height": 600})
    pane = tab.evaluate(f"() => {APP}.panes.list[0].element.getBoundingClientRect().right")
    tab.evaluate(f"() => {APP}.panes.list.forEach((pane) => (pane.element.style.contain = '{contain}'))")
    tooltip = tab.locator(".hover")
    ends = []
    for code in ("torch.cos(angles)", "torch.softmax"):
        line = line_of(tab, 0, code)
        line.hover(position={"x": 60, "y": 9})
        tooltip.wait_for()
        drawn(tab)
        card, under = tooltip.bounding_box(), line.bounding_box()
        left, top, right, bottom = card["x"], card["y"], card["x"] + card["width"], card["y"] + card["height"]
        assert left >= 0 and right <= 1024 and top >= 0 and bottom <= 600
        assert top >= under["y"] + under["height"] - 0.5 or bottom <= under["y"] + 0.5, "beside the line"
        for point in ((left + 3, top + 8), (right - 3, bottom - 8)):
            assert tab.evaluate(ON_TOP, point), "no pane cuts it"
        ends.append(right)
        tab.locator(".status").hover()
        tooltip.wait_for(state="detached")
    assert max(ends) > pane, "one is wider than its pane"


def test_keys_alone_lead_along_a_link(opened, rotary):
    """Alt+L lists the linked lines of the caret's line, arrows walk them, Escape goes back, Enter goes to one and its text."""
    tab = opened(rotary)
    line_of(tab, 1, "libdevice.rsqrt(").click(position={"x": 40, "y": 9})
    start = selected(tab)
    tab.locator(".status").hover()  # where the pointer rests there is a tooltip too
    tab.keyboard.press("Alt+l")
    dialog = tab.get_by_role("dialog", name=f"what is known of line {start[1]}")
    dialog.wait_for()
    tab.keyboard.press("Escape")
    assert tab.locator(".cm-tooltip").count() == 0 and selected(tab) == start
    tab.keyboard.press("Alt+l")
    dialog.wait_for()
    tab.keyboard.press("ArrowDown")
    sections = dialog.get_by_role("region")
    assert sections.first.get_attribute("aria-label").startswith("Rotary.forward")
    wanted = dialog.get_by_role("button").nth(1).locator("code").inner_text()
    tab.keyboard.press("Enter")
    artifact, there = selected(tab)
    assert (artifact, there) != start
    assert next(a for a in rotary.artifacts if a.id == artifact).lines[there - 1].strip() == wanted
    focused = f"""() => {{
        const at = document.querySelector('#explorer').shadowRoot.activeElement.closest('.pane');
        const pane = {APP}.panes.list.find((one) => one.element === at);
        return pane.lines[pane.chosen - 1];
    }}"""
    assert tab.evaluate(focused).strip() == wanted, "the focus is in the text with that line"
