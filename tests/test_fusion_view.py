"""The fusion view: the verdict on two nodes comes first, both are in sight, and what cannot be fused is not offered."""

from __future__ import annotations

import re
from typing import Any

import pytest

from explorer.tracing.traced import Trace
from tests.facts import untold
from tests.in_tab import APP, fitted, name_nodes, show
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
    return panel.get_by_role("button", name="fuse anyway"), panel.locator(".answer .note").inner_text()


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


def test_an_answer_leaves_the_drawing_where_it_is(opened, rotary: Trace) -> None:
    """A selected line, a first node and the verdict on two all stand in the same room. The first sentence is bold."""
    tab = opened(rotary)
    panel = show(tab, "Fusion")
    canvas = panel.locator("canvas").first
    place = canvas.bounding_box()
    names = tab.evaluate(f"{APP}.tabs.views.get('fusion').nodes.name")
    panel.get_by_label("first node").fill(names[1])
    panel.get_by_label("first node").press("Enter")
    assert panel.locator(".of-line p").count() > 1 and canvas.bounding_box() == place
    call = next(row for row in rotary.fusion.groups if row["call"])["nodes"][0]
    name_nodes(panel, call, names[1])
    assert canvas.bounding_box() == place
    said = panel.locator(".why").inner_text()
    assert said.startswith(panel.locator(".why b").inner_text() + " ") and re.fullmatch(
        rf"✕ not fused: {call} is a call of extern_kernels\.\w+\.", panel.locator(".why b").inner_text()
    )


def test_a_drawing_keeps_its_middle_in_a_smaller_window(opened, rotary: Trace) -> None:
    """What stands in the middle of the drawing stands there when the window shrinks."""
    tab = opened(rotary)
    show(tab, "Fusion")
    fitted(tab, "fusion")
    middle = f"() => {{ const {{ left, right }} = {APP}.tabs.views.get('fusion').canvas.view(); return (left + right) / 2; }}"
    before = tab.evaluate(middle)
    tab.set_viewport_size({"width": 900, "height": 700})
    fitted(tab, "fusion")
    assert tab.evaluate(middle) == pytest.approx(before, abs=1)


def test_only_a_refusal_for_speed_can_be_overridden(opened, rotary: Trace) -> None:
    """ "fuse anyway" is offered for a heuristic; what the result needs, or a library call, disables it and says why."""
    panel = show(opened(rotary), "Fusion")
    graph = panel.get_by_label("graph", exact=True).locator("option:checked").inner_text().split()[-1]
    rows = [row for row in rotary.fusion.table if row["graph"] == graph]
    needed = next(row for row in rows if row["rule"].startswith(("memory deps", "intermediate nodes")))
    button, said = chosen(panel, needed["first"], needed["second"])
    assert button.is_disabled() and "overrides only refusals for speed" in said and button.get_attribute("title") == said
    speed = next(row for row in rows if row["rule"] == "no shared data")
    button, said = chosen(panel, speed["first"], speed["second"])
    assert button.is_enabled() and said == ""
    call = next(row for row in rotary.fusion.groups if row["graph"] == graph and row["call"])["nodes"][0]
    button, said = chosen(panel, call, speed["first"])
    assert button.is_disabled() and "overrides only refusals for speed" in said
    together = next(row["nodes"] for row in rotary.fusion.groups if row["graph"] == graph and len(row["nodes"]) > 1)
    button, said = chosen(panel, *together[:2])
    assert button.is_disabled() and said == "", "they are one kernel"


def test_the_count_says_of_which_graph_it_is(opened, replayed) -> None:
    """Of a training step, which has two graphs, the scheduler's nodes are counted as those of the forward."""
    panel = show(opened(replayed("mlp_train-torch2.13-cpu")), "Fusion")
    assert re.match(r"forward: \d+ scheduler nodes? became", panel.locator(".why").inner_text())


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
    assert first.input_value() == place and panel.locator(".why").inner_text().startswith(f"{place} is the first node.")
    second.fill(code)
    second.press("Enter")
    said = panel.locator(".why").inner_text()
    assert (first.input_value(), second.input_value()) == (place, code), "what was typed stays"
    (one,), (other,) = (re.findall(rf"{re.escape(typed)} is (op\d+)", said) for typed in (place, code))
    assert one != other and f"other {place}" in said
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


def test_only_what_computes_a_line_is_why_it_is_several_kernels(opened, rotary: Trace) -> None:
    """A product that reads a view of the line is no kernel of the line."""
    tab = opened(rotary)
    panel = show(tab, "Fusion")
    source = rotary.find("source")
    at = {a.id: f"{APP}.store.byId.get({a.id!r})" for a in source}
    asked = 0
    for a in source:
        for line in range(1, len(a.lines) + 1):
            tab.evaluate(f"() => {APP}.parts.selection.choose({at[a.id]}, {line})")
            titles = panel.locator(".of-line p button").all_inner_texts()
            known = tab.evaluate(f"""() => {APP}.store.linesAt({at[a.id]}, {line})
                .flatMap(({{ kernels }}) => kernels.flat()).map((place) => {APP}.store.calledAt(place))""")
            assert {name for title in titles for name in title.split(" → ")} <= set(known)
            asked += len(titles)
    assert asked


def test_a_verdict_is_found_by_the_programs_operators(opened, rotary: Trace) -> None:
    """The filter of the verdicts knows an operator of the program that was decomposed into others."""
    panel = show(opened(rotary), "Fusion")
    panel.get_by_label("filter verdicts").fill("softmax")
    count = panel.locator(".table-bar [role=status]").first.inner_text()
    assert re.match(r"[1-9]\d* of \d+ rows", count), count


def typed(panel: Any, which: str, name: str) -> str:
    """Type one name into the fusion view; what the view says then."""
    panel.get_by_label(f"{which} node").fill(name)
    panel.get_by_label(f"{which} node").press("Enter")
    return str(panel.locator(".why").inner_text())


#: The places of the lines that a node can be picked by.
PLACES = f"[...{APP}.tabs.views.get('fusion').lines().keys()]"


def test_a_line_is_typed_by_its_number(opened, rotary: Trace) -> None:
    """A number alone is that line where one file has it. Where several have it their places are named."""
    tab = opened(rotary)
    panel = show(tab, "Fusion")
    place = tab.evaluate(PLACES)[3]
    number = place.partition(":")[2]
    assert typed(panel, "second", number).startswith(f"{place} is the second node.")
    said = typed(panel, "first", "rsqrt")
    assert said.startswith(("✓ fused", "✕ not fused")) and f"{place} is op" in said
    panel.get_by_role("button", name="clear", exact=True).click()
    other = f"other.py:{number}"
    tab.evaluate(f"place => {APP}.tabs.views.get('fusion').places.set(place, {{ nodes: ['op0'], code: '' }})", other)
    said = typed(panel, "second", number)
    assert said == f"? no answer: several files have a line {number}: type {place} or {other}."


def test_an_unknown_name_is_told_how_a_line_is_written(opened, rotary: Trace) -> None:
    """The message names a line of this program, also for a single name, and for a line that no node comes from."""
    tab = opened(rotary)
    panel = show(tab, "Fusion")
    how = f"Write a line of the program by its number, or as {tab.evaluate(PLACES)[0]}."
    for name, why in (("nonesuch", "operator or kernel nonesuch here"), ("9999", "comes from line 9999")):
        said = typed(panel, "first", name)
        assert said.startswith("? no answer: ") and said.endswith(f"{why}. {how}")
        assert panel.locator(".of-line p").count() == 0 or not panel.locator(".of-line").is_visible()


def test_what_stands_in_a_field_stays(opened, rotary: Trace) -> None:
    """A name stays as it was typed when the other is corrected, and is looked up anew; "clear" takes both away."""
    panel = show(opened(rotary), "Fusion")
    first, second = panel.get_by_label("first node"), panel.get_by_label("second node")
    typed(panel, "first", "nonesuch")
    typed(panel, "second", "addmm")
    assert typed(panel, "first", "sigmoid").startswith(("✓ fused", "✕ not fused"))
    assert (first.input_value(), second.input_value()) == ("sigmoid", "addmm")
    panel.get_by_role("button", name="clear", exact=True).click()
    assert (first.input_value(), second.input_value()) == ("", "")


def test_another_line_is_another_question(opened, rotary: Trace) -> None:
    """A verdict on two names goes once a line of the program is chosen: what is asked then is why that is several kernels."""
    tab = opened(rotary)
    panel = show(tab, "Fusion")
    typed(panel, "first", "sigmoid")
    typed(panel, "second", "addmm")
    show(tab, "Code")
    tab.locator(".pane").first.locator(".cm-line").filter(has_text="cos").first.click()
    panel = show(tab, "Fusion")
    assert [panel.get_by_label(f"{which} node").input_value() for which in ("first", "second")] == ["", ""]
    assert "fused:" not in panel.locator(".why").inner_text()


@pytest.mark.parametrize("which", ["first", "second"])
def test_one_name_is_answered_with_the_nodes_next_to_it(opened, rotary: Trace, which: str) -> None:
    """Each node that it reads, and that reads it, has a row with the scheduler's reason; a row asks about its pair."""
    panel = show(opened(rotary), "Fusion")
    missing = "second" if which == "first" else "first"
    assert typed(panel, which, "sigmoid") == f"sigmoid is the {which} node. Choose the {missing} one."
    rows = panel.locator(".of-line p")
    titles = [one.split(" → ") for one in rows.get_by_role("button").all_inner_texts()]
    (graph,) = rotary.fusion.graphs
    (own,) = graph.find("sigmoid")
    reads, readers = (tuple(ns) for ns in (graph.inputs[own], [n for n, inputs in enumerate(graph.inputs) if own in inputs]))
    assert reads and [one for one, other in titles if other == "sigmoid"] != []
    assert bool(readers) is any(one == "sigmoid" for one, _ in titles)
    call = next(one for one, _ in titles if graph.find(one) and "extern_kernels" in graph.unfusable("", graph.find(one)[0]))
    row = rows.filter(has_text=f"{call} → sigmoid")
    reason = str(rotary.why(call, "sigmoid", frame="0/0", graph="inference")).partition(" Here ")[0]
    assert row.inner_text() == f"{call} → sigmoid ✕ {reason}"
    row.get_by_role("button").click()
    assert panel.get_by_label(f"{which} node").input_value() == "sigmoid", "what was typed stays"
    assert panel.get_by_label(f"{missing} node").input_value() == call
    assert panel.locator(".why").inner_text() == f"✕ not fused: {reason}" and not rows.first.is_visible()


def test_no_two_neighbours_of_a_node_have_one_title(opened, rotary: Trace) -> None:
    """A neighbour in the node's own kernel is named by itself, since the kernel's name would stand for each of them."""
    fused = next(group for group in rotary.fusion.groups if len(group["nodes"]) > 4)
    panel = show(opened(rotary), "Fusion")
    for node in fused["nodes"]:
        assert typed(panel, "first", node).startswith(node)
        titles = panel.locator(".of-line p").get_by_role("button").all_inner_texts()
        assert titles and len(titles) == len(set(titles))
        for row in panel.locator(".of-line p").filter(has_text="✓").all():
            one, other = row.get_by_role("button").inner_text().split(" → ")
            assert {one, other} <= set(fused["nodes"]) and f"{one} and {other} are one kernel" in row.inner_text()


def test_a_line_with_several_nodes_is_not_compared_by_the_node_that_is_asked_about(opened, rotary: Trace) -> None:
    """Beside an operator in one of its nodes a line stands for another of them, so no node is compared with itself."""
    tab = opened(rotary)
    panel = show(tab, "Fusion")
    panel.get_by_label("first node").focus()
    found = tab.evaluate(f"""() => {{
        const {{ places, verdicts }} = {APP}.tabs.views.get('fusion');
        const alone = [...verdicts.operators].filter(([, of]) => of.length === 1 && of[0].numbers.length === 1);
        return [...places].flatMap(([place, {{ nodes }}]) => nodes.length < 2 || !/:\\d+$/.test(place) ? [] :
            alone.map(([name, [{{ numbers }}]]) => [place, name, verdicts.names[numbers[0]]])
                .filter(([, , node]) => nodes.includes(node)));
    }}""")
    assert found
    for place, operator, node in found:
        name_nodes(panel, place, operator)
        taken = re.search(rf"{re.escape(place)} is (op\d+)", panel.locator(".why").inner_text())
        assert taken and taken[1] != node


def test_what_is_left_out_is_shown_by_a_press(opened, replayed) -> None:
    """Of many nodes that a name stands for some are offered at first; a press on what counts the others offers all."""
    panel = show(opened(replayed("views/layers-torch2.13-h100")), "Fusion")
    name_nodes(panel, "op0", "add")
    places = panel.locator(".why .places").get_by_role("button")
    more = places.last
    count = int(re.fullmatch(r"and (\d+) more", more.inner_text())[1])
    before = places.count() - 1
    more.click()
    assert places.count() == before + count and not re.search(r"and \d+ more", panel.locator(".why .places").inner_text())


def test_the_node_that_alone_is_chosen_comes_into_sight(opened, replayed) -> None:
    """A node that was named and stands below the graph's edge is brought into sight before a second one is."""
    tab = opened(replayed("views/layers-torch2.13-h100"))
    panel = show(tab, "Fusion")
    last = tab.evaluate(f"{APP}.tabs.views.get('fusion').nodes.name.at(-1)")
    assert not tab.evaluate(IN_SIGHT, [last])
    first = panel.get_by_label("first node")
    first.fill(last)
    first.press("Enter")
    assert tab.evaluate(IN_SIGHT, [last])


def test_all_that_is_offered_is_in_sight_in_a_small_view(opened, rotary: Trace) -> None:
    """At 970 x 680 pixels the other nodes of a name need no scrolling, and no placeholder is cut."""
    tab = opened(rotary, viewport={"width": 970, "height": 680})
    panel = show(tab, "Fusion")
    room = "one => { one.value = one.placeholder; const fits = one.scrollWidth <= one.clientWidth; one.value = ''; return fits; }"
    assert all(panel.get_by_label(f"{which} node").evaluate(room) for which in ("first", "second"))
    name_nodes(panel, "addmm", "sigmoid")
    sight = """one => {
        const { left, top, width, height } = one.getBoundingClientRect();
        return one.getRootNode().elementFromPoint(left + width / 2, top + height / 2) === one;
    }"""
    panel.locator(".why p").evaluate("one => { one.textContent = 'a long reason '.repeat(99); }")
    buttons = panel.locator(".places").get_by_role("button")
    assert buttons.count() and all(buttons.evaluate_all(f"all => all.map({sight})"))


def test_a_second_click_on_a_node_asks_nothing(opened, rotary: Trace) -> None:
    """The first click puts a line above the drawing, which moves: a node under the pointer again is no answer about itself."""
    tab = opened(rotary)
    panel = show(tab, "Fusion")
    click = f"node => {{ const view = {APP}.tabs.views.get('fusion'); view.pick(view.graph.visible.get(node)); }}"
    for node in (0, 0):
        tab.evaluate(click, node)
        assert not untold(panel.locator(".why").inner_text(), "op0 is the first node", "Choose the second one")
    tab.evaluate(click, 1)
    assert panel.get_by_label("second node").input_value() == "op1"


def test_the_label_of_a_chosen_node_begins_with_the_picked_name(opened, rotary: Trace) -> None:
    """A long label is cut at its end, so the FX node that was picked comes first, and goes back when another is."""
    tab = opened(rotary)
    panel = show(tab, "Fusion")
    node, origins = tab.evaluate(
        f"(({{ nodes }}) => {{ const at = nodes.origins.findIndex((one) => one.length > 3);"
        f" return [at, nodes.origins[at]]; }})({APP}.tabs.views.get('fusion'))"
    )
    label = f"""node => {{
        const {{ graph, canvas }} = {APP}.tabs.views.get('fusion');
        return canvas.painter.label(graph.visible.get(node))[1];
    }}"""
    assert tab.evaluate(label, node) == ", ".join(origins)
    typed(panel, "first", origins[-1])
    assert tab.evaluate(label, node) == ", ".join([origins[-1], *origins[:-1]])
    panel.get_by_role("button", name="clear", exact=True).click()
    assert tab.evaluate(label, node) == ", ".join(origins)


def test_a_box_is_called_by_its_module(opened, replayed) -> None:
    """A product says which of the model's it is; a node of no one module has its name alone."""
    tab = opened(replayed("views/layers-torch2.13-h100"))
    show(tab, "Fusion")
    labels = tab.evaluate(f"""() => {{
        const {{ graph, canvas, nodes }} = {APP}.tabs.views.get('fusion');
        return nodes.name.map((_, node) => canvas.painter.label(graph.visible.get(node))[0]);
    }}""")
    assert {"op4 · up", "op5", "op6 · down"} <= set(labels)
