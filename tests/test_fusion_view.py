"""The fusion view: the verdict on two nodes comes first, both are in sight, and what cannot be fused is not offered."""

from __future__ import annotations

import re
from typing import Any

import pytest

from explorer.tracing.traced import Trace
from tests.facts import untold
from tests.in_tab import APP, name_nodes, show
from tests.tabs import to_view

#: Whether the boxes of two scheduler nodes are in sight.
IN_SIGHT = f"""names => {{
    const {{ canvas, graph, nodes }} = {APP}.tabs.views.get('fusion');
    const {{ left, right, top, bottom }} = canvas.view();
    const boxes = names.map((name) => graph.visible.get(nodes.name.indexOf(name)));
    return boxes.every((b) => b.x >= left && b.x + b.w <= right && b.y >= top && b.y + b.h <= bottom);
}}"""
#: The scale of the fusion view and where it begins.
PLACE = f"(({{ canvas }}) => [canvas.scale, canvas.x, canvas.y])({APP}.tabs.views.get('fusion'))"


def chosen(panel: Any, first: str, second: str) -> tuple[Any, str]:
    """Ask about two nodes; the button "fuse anyway", and what stands beside it."""
    name_nodes(panel, first, second)
    return panel.get_by_role("button", name="fuse anyway"), panel.locator(".what-if [role=status]").inner_text()


def test_two_chosen_nodes_are_both_in_sight(opened, replayed) -> None:
    """Nodes far apart come into sight together; what is in sight stays where it is. The verdict stands above all else."""
    trace: Trace = replayed("views/layers-torch2.13-h100")
    tab = opened(trace)
    panel = show(tab, "Fusion")
    names = tab.evaluate(f"{APP}.tabs.views.get('fusion').nodes.name")
    assert not tab.evaluate(IN_SIGHT, [names[0], names[-1]])
    name_nodes(panel, names[0], names[-1])
    assert tab.evaluate(IN_SIGHT, [names[0], names[-1]])
    before = tab.evaluate(PLACE)
    name_nodes(panel, names[-1], names[0])
    assert tab.evaluate(PLACE) == pytest.approx(before), "both were in sight"
    assert panel.locator(".why").evaluate("one => one === one.parentElement.firstElementChild")


def test_only_a_refusal_for_speed_can_be_overridden(opened, rotary: Trace) -> None:
    """ "fuse anyway" is offered for a heuristic; what the result needs, or a library call, disables it and says why."""
    panel = show(opened(rotary), "Fusion")
    graph = panel.get_by_label("graph", exact=True).locator("option:checked").inner_text().split()[1]
    rows = [row for row in rotary.fusion.table if row["graph"] == graph]
    needed = next(row for row in rows if row["rule"].startswith(("memory deps", "intermediate nodes")))
    button, said = chosen(panel, needed["first"], needed["second"])
    assert button.is_disabled() and "cannot help" in said and button.get_attribute("title") == said
    speed = next(row for row in rows if row["rule"] == "no shared data")
    button, said = chosen(panel, speed["first"], speed["second"])
    assert button.is_enabled() and said == ""
    call = next(row for row in rotary.fusion.groups if row["graph"] == graph and row["call"])["nodes"][0]
    button, said = chosen(panel, call, speed["first"])
    assert button.is_disabled() and "cannot help" in said
    together = next(row["nodes"] for row in rotary.fusion.groups if row["graph"] == graph and len(row["nodes"]) > 1)
    button, said = chosen(panel, *together[:2])
    assert button.is_disabled() and said == "", "they are one kernel"


def test_a_node_is_picked_by_a_line_of_the_program(opened, rotary: Trace) -> None:
    """The inputs offer the user's lines; a line stands for its node nearest to the other, and the verdict says which."""
    panel = show(opened(rotary), "Fusion")
    first, second = panel.get_by_label("first node"), panel.get_by_label("second node")
    first.focus()
    offered = panel.locator("datalist option").evaluate_all("all => all.map((one) => [one.value, one.textContent])")
    lines = {place: code for place, code in offered if re.fullmatch(r"\w+\.py:\d+", place)}
    place, code = next((place, code) for place, code in lines.items() if "softmax" in code)
    first.fill(place)
    first.press("Enter")
    assert first.input_value() == place and "now a second node" in panel.locator(".why").inner_text()
    second.fill(code)
    second.press("Enter")
    said = panel.locator(".why").inner_text()
    nodes = [first.input_value(), second.input_value()]
    assert all(re.fullmatch(r"op\d+", node) for node in nodes) and len(set(nodes)) == 2
    assert not untold(said, f"{place} is {nodes[0]}", f"{code} is {nodes[1]}", f"other {place}")
    assert said.startswith(("✓ fused", "✕ not fused"))
    soft = panel.get_by_role("table", name="verdicts").locator("tbody tr").first.locator("small").all_inner_texts()
    assert len(soft) == 2 and all(soft)


def test_the_selected_line_says_why_it_is_several_kernels(opened, rotary: Trace) -> None:
    """Each pair of its nodes that read one another and are not one kernel, once for all layers, with the scheduler's reason."""
    tab = opened(rotary)
    to_view(tab, "Code")
    tab.locator(".pane").first.get_by_text("return x + self.down(").click()
    panel = show(tab, "Fusion")
    rows = panel.locator(".of-line p")
    place = re.match(r"(programs\.py:\d+) became more than one kernel", rows.first.inner_text())
    assert place and rows.count() > 1
    row = rows.nth(1)
    first, second = row.get_by_role("button").inner_text().split(" → ")
    assert "mm" in first + second and "nothing is fused with it" in row.inner_text()
    row.get_by_role("button").click()
    nodes = [panel.get_by_label(f"{which} node").input_value() for which in ("first", "second")]
    assert panel.locator(".why").inner_text() == f"✕ not fused: {rotary.why(*nodes)}" and not rows.first.is_visible()
    panel.get_by_role("button", name="clear", exact=True).click()
    assert rows.first.is_visible(), "no question is open any more"


def test_a_verdict_is_found_by_the_programs_operators(opened, rotary: Trace) -> None:
    """The filter of the verdicts knows an operator of the program that was decomposed into others."""
    panel = show(opened(rotary), "Fusion")
    panel.get_by_label("filter verdicts").fill("softmax")
    count = panel.locator(".table-bar [role=status]").first.inner_text()
    assert re.match(r"[1-9]\d* of \d+ rows", count), count
