"""The graph by module, in a real browser: equal layers are one box, noise is hidden on request, the wheel zooms."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.model.values import Artifact, plain
from explorer.tracing.traced import Trace
from tests.in_tab import drawn, fitted, load_axe, serious
from tests.tabs import to_view

GRAPH = "document.querySelector('#explorer').app.tabs.views.get('graph')"
#: The titles of the groups that are shown, those of open ones with the layer that they show.
GROUPS = f"() => {GRAPH}.graph.boxes.filter(box => box.group).map(box => {GRAPH}.label(box)[0])"
#: The nodes that have a box of their own.
NODES = f"() => {GRAPH}.graph.boxes.filter(box => box.kind === 'node').map(box => {GRAPH}.nodes.name[box.node])"
#: Edges between nodes that are shown, by name; an end in a group is the group's title.
EDGES = f"""() => {{
    const view = {GRAPH};
    const name = box => box.kind === 'node' ? view.nodes.name[box.node] : view.label(box)[0];
    return view.graph.edges.map(({{ from, to }}) => [name(from), name(to)]);
}}"""
#: Whether each edge leads down.
DOWN = f"() => {GRAPH}.graph.edges.every(({{ from, to }}) => from.y < to.y)"


def node(name: str, target: str, *inputs: str, module: str = "", **more: str) -> dict[str, Any]:
    return {"name": name, "op": "call_function", "target": target, "inputs": inputs, "module": module, "dtype": "f32", **more}


def layer(number: int, before: str, act: str = "aten.relu.default", name: str = "model.h.{}") -> list[dict[str, Any]]:
    """A block with a view, a linear layer, what the linear layer's result is made to, and an addition."""
    here = name.format(number)
    return [
        node(f"view_{number}", "aten.view.default", before, module=f"{here}.lin", args=f"({before}, [4])"),
        node(f"mm_{number}", "aten.mm.default", f"view_{number}", "w", module=f"{here}.lin", args=f"(view_{number}, w)"),
        node(f"act_{number}", act, f"mm_{number}", module=here, args=f"(mm_{number},)"),
        node(f"add_{number}", "aten.add.Tensor", before, f"act_{number}", module=here, args=f"({before}, act_{number})"),
    ]


def stack(*acts: str, name: str = "model.h.{}") -> Trace:
    """Layers one after the other, each with its activation."""
    nodes = [{"name": name, "op": "placeholder", "target": name, "inputs": (), "dtype": "f32"} for name in ("x", "w")]
    for number, act in enumerate(acts):
        nodes += layer(number, f"add_{number - 1}" if number else "x", act, name)
    nodes.append(node("head", "aten.sum.default", f"add_{len(acts) - 1}", module="model"))
    text = "\n".join(["class G:", "    def forward(self):", *(f"        {n['name']}: f32 = {n['target']}()" for n in nodes)])
    return Trace(artifacts=(Artifact("g", "post_grad", "0/0", "inference", "g", "fx", text, data=plain({"nodes": nodes})),))


def graph_of(tab: Any) -> Any:
    to_view(tab, "Graph")
    fitted(tab, "graph")
    return tab.get_by_role("tabpanel", name="Graph")


def open_box(tab: Any, title: str) -> None:
    """Click the box of a group."""
    script = f"""title => {{
        const {{ canvas, graph }} = {GRAPH};
        const box = graph.boxes.find(box => box.group && {GRAPH}.label(box)[0] === title);
        const {{ left, top }} = canvas.canvas.getBoundingClientRect();
        canvas.reveal([box]);
        return [left + canvas.x + (box.x + 10) * canvas.scale, top + canvas.y + (box.y + 8) * canvas.scale];
    }}"""
    tab.mouse.click(*tab.evaluate(script, title))


# Layers ------------------------------------------------------------------------------------------------------------------

RELU, GELU = "aten.relu.default", "aten.gelu.default"


def test_twelve_equal_layers_are_one_box_that_opens_to_one_of_them(opened) -> None:
    """The box counts them; open, it shows one, which one can be chosen; arrows between them are none within the one shown."""
    tab = opened(stack(*[RELU] * 12))
    panel = graph_of(tab)
    assert tab.evaluate(GROUPS) == ["model", "h.0 … h.11 ×12"]
    assert ["h.0 … h.11 ×12", "head"] in tab.evaluate(EDGES)
    open_box(tab, "h.0 … h.11 ×12")
    assert {"act_0", "add_0"} <= set(tab.evaluate(NODES)) and "act_1" not in tab.evaluate(NODES)
    edges = tab.evaluate(EDGES)
    assert ["x", "add_0"] in edges and ["act_0", "add_0"] in edges
    assert ["h.0 of h.0 … h.11 ×12", "head"] in edges, "the last layer's result, whose layer is not shown"
    assert tab.evaluate(DOWN)
    panel.get_by_label("layer of h.0 … h.11 that is shown").select_option("h.7")
    assert "h.7 of h.0 … h.11 ×12" in tab.evaluate(GROUPS) and {"act_7", "add_7"} <= set(tab.evaluate(NODES))
    assert not [edge for edge in tab.evaluate(EDGES) if edge[1] == "add_7" and edge[0] not in ("act_7", "x")]


def test_equal_layers_of_a_plain_list_are_one_box(opened) -> None:
    """As those of a ModuleList; those of a dict whose keys are texts stay by themselves."""
    tab = opened(stack(*[RELU] * 12, name="blocks[{}]"))
    panel = graph_of(tab)
    assert tab.evaluate(GROUPS) == ["blocks[0] … blocks[11] ×12", "model"]
    open_box(tab, "blocks[0] … blocks[11] ×12")
    panel.get_by_label("layer of blocks[0] … blocks[11] that is shown").select_option("blocks[7]")
    assert {"act_7", "add_7"} <= set(tab.evaluate(NODES)) and "lin" in tab.evaluate(GROUPS)
    tab = opened(stack(*[RELU] * 3, name="blocks['{}.a']"))
    graph_of(tab)
    titles = [title for title in tab.evaluate(GROUPS) if title != "lin"]
    assert titles == ["blocks['0.a']", "blocks['1.a']", "blocks['2.a']", "model"]


def test_a_layer_that_differs_is_shown_by_itself(opened) -> None:
    """Another operator, another constant, another shape: the layers before and after it are boxes of their own."""
    tab = opened(stack(*[RELU] * 5, GELU, *[RELU] * 6))
    graph_of(tab)
    assert [title for title in tab.evaluate(GROUPS) if "h." in title] == ["h.0 … h.4 ×5", "h.5", "h.6 … h.11 ×6"]
    assert tab.evaluate(DOWN)


@pytest.mark.parametrize("change", [{"args": "(view_4, w, 0.5)"}, {"kwargs": "{'alpha': 2}"}, {"dtype": "f16"}])
def test_a_constant_or_a_type_tells_layers_apart(opened, change: dict[str, str]) -> None:
    """A layer is equal to another if its operators have equal arguments, positional or by name, and results of equal types."""
    trace = stack(*[RELU] * 8)
    nodes = [{**n, **change} if n["name"] == "mm_4" else n for n in trace.artifacts[0].nodes]
    graph = Artifact("g", "post_grad", "0/0", "inference", "g", "fx", trace.artifacts[0].text, data=plain({"nodes": nodes}))
    tab = opened(Trace(artifacts=(graph,)))
    graph_of(tab)
    assert [title for title in tab.evaluate(GROUPS) if "h." in title][:2] == ["h.0 … h.3 ×4", "h.4"]


def test_layers_that_something_stands_between_are_not_joined(opened) -> None:
    """A box that holds layers before and after another box would stand above and below it."""
    nodes = [{"name": name, "op": "placeholder", "target": name, "inputs": (), "dtype": "f32"} for name in ("x", "w")]
    for number in range(6):
        before = "x" if number == 0 else "between" if number == 3 else f"add_{number - 1}"
        nodes += layer(number, before)
        nodes += [node("between", "aten.sin.default", "add_2", module="model")] if number == 2 else []
    text = "\n".join(["class G:", "    def forward(self):", *(f"        {n['name']}: f32 = {n['target']}()" for n in nodes)])
    graph = Artifact("g", "post_grad", "0/0", "inference", "g", "fx", text, data=plain({"nodes": nodes}))
    tab = opened(Trace(artifacts=(graph,)))
    graph_of(tab)
    assert [title for title in tab.evaluate(GROUPS) if "h." in title] == ["h.0 … h.2 ×3", "h.3 … h.5 ×3"]
    assert tab.evaluate(DOWN)


def test_a_node_of_a_layer_that_is_not_shown_is_brought_into_view(opened) -> None:
    """Find, and a line selected in the text, show the layer that has the node."""
    tab = opened(stack(*[RELU] * 12))
    panel = graph_of(tab)
    panel.get_by_role("searchbox", name="find a node").fill("act_9")
    panel.get_by_role("searchbox", name="find a node").press("Enter")
    assert "h.9 of h.0 … h.11 ×12" in tab.evaluate(GROUPS) and "act_9" in tab.evaluate(NODES)
    line = 3 + 2 + 4 * 3 + 2  # act_3 in the text
    tab.evaluate("line => document.querySelector('#explorer').app.selection.choose(0, line)", line)
    assert "h.3 of h.0 … h.11 ×12" in tab.evaluate(GROUPS)
    assert tab.evaluate(f"() => {GRAPH}.nodes.name[{GRAPH}.canvas.chosen.node]") == "act_3"
    panel.get_by_role("button", name="repeats").click()
    assert len([title for title in tab.evaluate(GROUPS) if "h." in title]) == 12


def picked(panel: Any) -> str:
    """The layer that the choice of layers says is shown."""
    script = "one => one.selectedOptions[0].textContent"
    return str(panel.get_by_label("layer of h.0 … h.11 that is shown").evaluate(script))


def test_the_choice_of_layers_says_which_is_shown_as_long_as_the_box_is_open(opened) -> None:
    """It follows a node that is looked for, stays beside a node's facts, keeps the focus, and "open all" offers it too."""
    tab = opened(stack(*[RELU] * 12))
    panel = graph_of(tab)
    panel.get_by_role("button", name="open all groups").click()
    choice = panel.get_by_label("layer of h.0 … h.11 that is shown")
    choice.focus()
    choice.select_option("h.5")
    assert choice.evaluate("one => one.getRootNode().activeElement === one")
    panel.get_by_role("searchbox", name="find a node").fill("act_9")
    panel.get_by_role("searchbox", name="find a node").press("Enter")
    assert picked(panel) == "h.9" and "aten.relu" in panel.locator(".graph-detail").inner_text()
    line = 3 + 2 + 4 * 3 + 2  # act_3 in the text
    tab.evaluate("line => document.querySelector('#explorer').app.selection.choose(0, line)", line)
    assert picked(panel) == "h.3"
    assert "mm_3" in tab.evaluate(NODES), "what was open in the layer before is open in this one"
    panel.get_by_role("button", name="close all groups").click()
    choice.wait_for(state="hidden")


def test_an_open_box_is_closed_by_keys(opened) -> None:
    """Up from its first node is its head, down from there is its first node."""
    tab = opened(stack(*[RELU] * 12))
    panel = graph_of(tab)
    open_box(tab, "h.0 … h.11 ×12")
    panel.get_by_role("searchbox", name="find a node").fill("add_0")
    panel.get_by_role("searchbox", name="find a node").press("Enter")
    panel.get_by_role("application").focus()
    ways = []
    for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown", "ArrowUp"):
        tab.keyboard.press(key)
        ways.append(tab.evaluate(f"() => {GRAPH}.label({GRAPH}.canvas.chosen)[0]"))
    assert ways[-1] == "h.0 of h.0 … h.11 ×12" and ways[-1] in ways[:-2], ways
    tab.keyboard.press("Enter")
    assert "h.0 … h.11 ×12" in tab.evaluate(GROUPS)


def test_the_kept_graph_has_its_layer_and_its_switches(opened) -> None:
    """What is handed on to the view that comes after: the layer of each box, hidden views, and repeats."""
    tab = opened(stack(*[RELU] * 12))
    panel = graph_of(tab)
    open_box(tab, "h.0 … h.11 ×12")
    panel.get_by_label("layer of h.0 … h.11 that is shown").select_option("h.5")
    kept = tab.evaluate(f"() => {GRAPH}.grouped")
    panel.get_by_role("button", name="hide views").click()
    panel.get_by_role("button", name="repeats").click()
    switched = tab.evaluate(f"() => {GRAPH}.grouped")
    tab.evaluate(f"kept => {GRAPH}.regroup(kept)", kept)
    assert "h.5 of h.0 … h.11 ×12" in tab.evaluate(GROUPS) and picked(panel) == "h.5" and "x" in tab.evaluate(NODES)
    tab.evaluate(f"kept => {GRAPH}.regroup(kept)", switched)
    pressed = [panel.get_by_role("button", name=name).get_attribute("aria-pressed") for name in ("hide views", "repeats")]
    assert pressed == ["true", "false"] and "x" not in tab.evaluate(NODES) and "h.11" in tab.evaluate(GROUPS)


def test_repeats_are_offered_where_something_repeats(opened) -> None:
    """Two equal layers are no repeats: the switch would do nothing."""
    panel = graph_of(opened(stack(RELU, RELU)))
    assert panel.get_by_role("button", name="repeats").is_hidden()


def test_the_blocks_of_a_real_model_are_found_equal_by_what_they_compute(opened, replayed) -> None:
    """Before and after Inductor's passes; they are called as the program calls them.

    The recording is of seven blocks, of which the fourth is wider, in a model that is an argument.
    """
    tab = opened(replayed("views/layers-torch2.13-h100"))
    panel = graph_of(tab)
    for graph in ("Dynamo FX graph", "Post-grad graph · inference"):
        panel.get_by_label("graph", exact=True).select_option(label=graph)
        blocks = [title for title in tab.evaluate(GROUPS) if title.startswith("net.")]
        assert blocks == ["net.0 … net.2 ×3", "net.3", "net.4 … net.6 ×3"]
        assert tab.evaluate(DOWN)


# Noise -------------------------------------------------------------------------------------------------------------------


def test_inputs_and_views_are_hidden_on_request(opened) -> None:
    """What reads a hidden view reads what the view was of; a hidden node that is looked for is shown again."""
    tab = opened(stack(RELU, GELU))
    panel = graph_of(tab)
    assert {"x", "w", "view_0", "view_1"} <= set(tab.evaluate(NODES))
    switch = panel.get_by_role("button", name="hide views")
    switch.click()
    shown = {f"{name}_{number}" for name in ("mm", "act", "add") for number in (0, 1)} | {"head"}
    assert set(tab.evaluate(NODES)) == shown
    assert ["add_0", "mm_1"] in tab.evaluate(EDGES) and tab.evaluate(DOWN)
    panel.get_by_role("searchbox", name="find a node").fill("view_1")
    panel.get_by_role("searchbox", name="find a node").press("Enter")
    assert switch.get_attribute("aria-pressed") == "false" and "view_1" in tab.evaluate(NODES)


def test_a_part_of_a_tensor_taken_by_another_tensor_is_no_view(opened) -> None:
    """x[0] only says where it is, x[mask] gathers."""
    nodes = [
        {"name": "x", "op": "placeholder", "target": "x", "inputs": ()},
        {"name": "mask", "op": "placeholder", "target": "mask", "inputs": ()},
        node("part", "_operator.getitem", "x"),
        node("gathered", "_operator.getitem", "part", "mask"),
    ]
    text = "class G:\n    def forward(self):\n        part = x[0]\n        gathered = part[mask]"
    tab = opened(Trace(artifacts=(Artifact("g", "dynamo", "0/0", "", "g", "fx", text, data=plain({"nodes": nodes})),)))
    graph_of(tab).get_by_role("button", name="hide views").click()
    assert tab.evaluate(NODES) == ["gathered"]


# The wheel ---------------------------------------------------------------------------------------------------------------

SCALE = f"() => {GRAPH}.canvas.scale"
#: Says whether the wheel is the graph's: by where it was told of the pointer, and when the wheel was last turned.
GATE = f"{GRAPH}.canvas.gate"


def test_the_wheel_zooms_without_a_click(opened) -> None:
    """Once the pointer has moved over the graph, at the place where the pointer is."""
    tab = opened(stack(RELU, GELU))
    box = graph_of(tab).get_by_role("application").bounding_box()
    before = tab.evaluate(SCALE)
    tab.mouse.move(box["x"] + 100, box["y"] + 100)
    tab.mouse.move(box["x"] + 160, box["y"] + 120)
    tab.mouse.wheel(0, -200)
    tab.wait_for_function(f"before => {GRAPH}.canvas.scale > before", arg=before)


def in_a_tall_page(tab: Any) -> None:
    """Make the view a part of a page that can be scrolled, somewhere above the view."""
    tab.evaluate("document.body.style.paddingTop = '1500px'; document.documentElement.style.overflow = 'auto'")
    tab.evaluate("document.documentElement.style.height = document.body.style.height = 'auto'")
    tab.evaluate("document.querySelector('#explorer').style.height = '800px'; scrollTo(0, 300)")
    drawn(tab)


def assert_the_page_scrolls(tab: Any, scale: float) -> None:
    """Turn the wheel for a while: the page moves, and the graph keeps its scale."""
    for _ in range(12):
        tab.mouse.wheel(0, 100)
        drawn(tab)
    tab.wait_for_function("() => scrollY > 1200")
    assert tab.evaluate(SCALE) == scale


def test_a_page_that_is_scrolled_over_a_graph_scrolls_on(opened) -> None:
    """The graph comes under a pointer that rests: the wheel stays the page's, until the pointer moves and the wheel rests."""
    tab = opened(stack(RELU, GELU))
    graph_of(tab)
    in_a_tall_page(tab)
    tab.mouse.move(700, 300)
    before = tab.evaluate(SCALE)
    assert_the_page_scrolls(tab, before)
    box = tab.get_by_role("application").first.bounding_box()
    assert box["y"] < 300 < box["y"] + box["height"], "the graph is under the pointer"
    tab.wait_for_function(f"() => {GATE}.at && performance.now() - {GATE}.turned > 250")  # the pause after which a turn is new
    tab.mouse.move(705, 305)
    tab.mouse.wheel(0, 100)
    tab.wait_for_function(f"before => {GRAPH}.canvas.scale < before", arg=before)


def test_a_graph_that_has_the_focus_leaves_the_wheel_to_the_page(opened) -> None:
    """Where it comes under a pointer that rests, and where it can be zoomed no further."""
    tab = opened(stack(RELU, GELU))
    graph_of(tab)
    in_a_tall_page(tab)
    tab.get_by_role("application").first.focus()
    tab.evaluate("scrollTo(0, 300)")
    tab.mouse.move(700, 300)
    before = tab.evaluate(SCALE)
    assert_the_page_scrolls(tab, before)


# How it reads ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_an_open_layer(opened, scheme: str) -> None:
    """The switches, and the choice of the layer."""
    tab = opened(stack(*[RELU] * 12), color_scheme=scheme)
    graph_of(tab)
    open_box(tab, "h.0 … h.11 ×12")
    load_axe(tab)
    assert serious(tab) == []
