"""The source follows: whatever is selected, the line of the user that it came from stands in a pane, and in the status."""

from __future__ import annotations

import re
from typing import Any

import pytest

from explorer.analysis.questions.memory import memory_of
from explorer.analysis.questions.provenance import follow
from explorer.tracing.traced import Trace
from tests.facts import untold
from tests.in_tab import APP, drawn, reveal, row_of, selected, show
from tests.tabs import to_view

#: What the panes show: the id of the text, and the lines of it that can be seen.
SEEN = f"""() => {APP}.panes.list.map((pane) => {{
    const [top, bottom] = [pane.element.querySelector('.cm-scroller').getBoundingClientRect()].flatMap((r) => [r.top, r.bottom]);
    const lines = [...pane.element.querySelectorAll('.cm-line[data-line]')].filter((line) => {{
        const box = line.getBoundingClientRect();
        return box.top >= top - 1 && box.bottom <= bottom + 1;
    }});
    return [pane.store.artifact(pane.artifact).id, lines.map((line) => Number(line.dataset.line))];
}})"""


def seen(tab: Any) -> dict[str, list[int]]:
    """The lines in sight of each text in a pane, once two frames have been drawn."""
    drawn(tab)
    return dict(tab.evaluate(SEEN))


def user_lines(trace: Trace, place: tuple[str, int]) -> set[tuple[str, int]]:
    """The user's lines that a line is linked to, as Python answers."""
    rows = [row for row in follow(trace, *place) if row["stage"] == "source"]
    return {(row["artifact"], line) for row in rows for line in row["lines"]}


def followed(tab: Any, trace: Trace) -> None:
    """The status begins with a line of the user that the selected line came from, and that line can be seen."""
    said = tab.locator(".status").inner_text()
    file, number, code = re.match(r"← ([\w.]+):(\d+) `(.*?)…?`", said).groups()
    found = [
        (a, int(number) - a.data["first_line"])
        for a in trace.find("source")
        if a.data["file"].endswith(file) and a.data["first_line"] <= int(number) < a.data["first_line"] + len(a.lines)
    ]
    ((source, at),) = ((a, at) for a, at in found if a.lines[at].strip().startswith(code))
    assert (source.id, at + 1) in user_lines(trace, selected(tab))
    assert at + 1 in seen(tab)[source.id]


@pytest.fixture
def opened(opened):
    """A page with one function in its left pane; tests/test_program.py holds what all of them in one text do."""

    def one_function(trace: Trace) -> Any:
        tab = opened(trace)
        pane(tab, "left").locator("select").select_option(str(text(trace, "source", 1)))
        return tab

    return one_function


def text(trace: Trace, stage: str, number: int = 0) -> int:
    """The index of a text of a stage."""
    return [n for n, a in enumerate(trace.artifacts) if a.stage == stage][number]


def pane(tab: Any, side: str) -> Any:
    return tab.get_by_role("region", name=f"{side} text")


def test_a_click_brings_the_users_line_into_sight(opened, rotary):
    """A click on lines of three functions: each time the left pane has the function that the line came from, at that line."""
    tab = opened(rotary)
    kernel = next(n for n, a in enumerate(rotary.artifacts) if a.stage == "kernel" and "cos" in a.kernel)
    pane(tab, "right").locator("select").select_option(str(kernel))
    functions = set()
    for code in ("tl_math.cos(tmp10)", "tmp39 + tmp40"):
        number = next(n for n, line in enumerate(rotary.artifacts[kernel].lines, 1) if code in line)
        reveal(tab, 1, number)
        pane(tab, "right").locator(f'.line[data-line="{number}"]').click(position={"x": 80, "y": 9})
        followed(tab, rotary)
        functions.add(next(iter(seen(tab))))
    pane(tab, "right").locator("select").select_option(str(text(rotary, "post_grad")))
    number = next(n for n, line in enumerate(rotary.artifacts[text(rotary, "post_grad")].lines, 1) if "aten.sigmoid" in line)
    reveal(tab, 1, number)
    pane(tab, "right").locator(f'.line[data-line="{number}"]').click(position={"x": 80, "y": 9})
    followed(tab, rotary)
    assert len(functions | {next(iter(seen(tab)))}) >= 2


def test_a_line_found_brings_its_source(opened, rotary):
    """Enter in the search walks the lines found; what is found in a graph or a kernel leaves the source beside it."""
    tab = opened(rotary)
    tab.keyboard.press("/")
    tab.keyboard.type("sigmoid")
    tab.locator(".matches", has_text="lines").wait_for()
    stages = []
    for _ in range(12):
        tab.keyboard.press("Enter")
        artifact, _ = selected(tab)
        tab.keyboard.press("/")  # the focus went to the line
        stage = next(a.stage for a in rotary.artifacts if a.id == artifact)
        stages.append(stage)
        if stage != "source" and user_lines(rotary, selected(tab)):
            followed(tab, rotary)
    assert len(set(stages)) >= 2


def test_a_point_of_the_memory_chart_brings_its_source(opened, rotary):
    """A click on a point of the chart at which a buffer is made goes to the output code, beside the user's line that makes it."""
    tab = opened(rotary)
    panel = show(tab, "Memory")
    output = rotary.artifacts[text(rotary, "output_code")].id
    points = [p["line"] for p in memory_of(rotary).timeline]
    at = next(n for n, line in enumerate(points) if user_lines(rotary, (output, line)))
    panel.locator(".memory-chart i").nth(at).click()
    assert selected(tab) == (output, points[at])
    followed(tab, rotary)


def test_a_row_of_the_kernels_brings_its_source(opened, rotary):
    """A kernel picked in the table: the status begins with its user lines at once, and its source stands beside the texts."""
    tab = opened(rotary)
    panel = show(tab, "Kernels")
    kernel = next(k for k in rotary.kernels if "sigmoid" in k.name)
    row_of(panel, kernel.name).click()
    said = tab.locator(".status").inner_text()
    assert re.match(r"← programs\.py:\d+ `return x \+ self\.down\(", said) and not untold(said, "2 more")
    to_view(tab, "Code")
    followed(tab, rotary)


def test_a_node_of_the_graph_brings_its_source(opened, rotary):
    """A node picked in the graph view: the status begins with its user line."""
    tab = opened(rotary)
    show(tab, "Graph")
    pick = f"""() => {{
        const view = {APP}.tabs.views.get('graph');
        view.go(view.nodes.name.findIndex((name) => name.startsWith('sigmoid')));
    }}"""
    tab.evaluate(pick)
    assert re.match(r"← programs\.py:\d+ `open_by = torch\.sigmoid\(gate\)`", tab.locator(".status").inner_text())


def test_a_text_leaves_what_is_followed(opened, rotary):
    """A text opened from the rail takes the place of neither the user's line nor, with room elsewhere, of the selected line."""
    tab = opened(rotary)
    kernel = rotary.artifacts[text(rotary, "kernel")]
    number = next(n for n, line in enumerate(kernel.lines, 1) if "rsqrt(" in line)
    go = f"([id, line]) => {APP}.navigation.goToPlace(`${{id}}:${{line}}`)"
    tab.evaluate(go, [kernel.id, number])
    source, *_ = seen(tab)
    opening = f"n => {APP}.navigation.open(n)"
    tab.evaluate(opening, text(rotary, "post_grad"))
    assert [*seen(tab)] == [source, rotary.artifacts[text(rotary, "post_grad")].id]
    tab.get_by_role("button", name="add a text pane").click()
    tab.evaluate(go, [kernel.id, number])
    tab.evaluate(opening, text(rotary, "ptx"))
    assert source in seen(tab) and kernel.id in seen(tab) and rotary.artifacts[text(rotary, "ptx")].id in seen(tab)


def test_no_pane_is_added_that_could_not_be_read(opened, rotary):
    """In a view as wide as a notebook's, two texts stay two: a third one would be too narrow, and the bar has the lines."""
    tab = opened(rotary)
    tab.set_viewport_size({"width": 970, "height": 680})
    kernel, ptx = text(rotary, "kernel"), text(rotary, "ptx")
    pane(tab, "left").locator("select").select_option(str(kernel))
    pane(tab, "right").locator("select").select_option(str(ptx))
    number = next(n for n, line in enumerate(rotary.artifacts[kernel].lines, 1) if "rsqrt(" in line)
    reveal(tab, 0, number)
    pane(tab, "left").locator(f'.line[data-line="{number}"]').click(position={"x": 80, "y": 9})
    assert len(seen(tab)) == 2
    assert tab.get_by_role("region", name="left text").locator(".lines button").count() > 1


@pytest.mark.parametrize("closes", [False, True])
def test_a_source_is_opened_where_none_is(opened, rotary, closes):
    """With two linked texts and no source a pane is added for it; one that the user closed does not come back by itself."""
    tab = opened(rotary)
    kernel, ptx = text(rotary, "kernel"), text(rotary, "ptx")
    pane(tab, "left").locator("select").select_option(str(kernel))
    pane(tab, "right").locator("select").select_option(str(ptx))
    number = next(n for n, line in enumerate(rotary.artifacts[kernel].lines, 1) if "rsqrt(" in line)
    reveal(tab, 0, number)
    line = pane(tab, "left").locator(f'.line[data-line="{number}"]')
    line.click(position={"x": 80, "y": 9})
    followed(tab, rotary)
    assert len(seen(tab)) == 3
    if closes:
        tab.get_by_role("button", name="close the third pane").click()
        pane(tab, "left").locator(f'.line[data-line="{number - 1}"]').click(position={"x": 80, "y": 9})
        assert len(seen(tab)) == 2


def test_a_line_of_a_kernel_lights_what_came_of_it_alone(opened, replayed):
    """Of the kernel's own texts those lines are lit that the same line of its source became, not all of the user's line; of
    other texts, and from the user's line, all.
    """
    trace = replayed("views/rotary-torch2.13-h100")
    ptx, kernel = (trace.find(stage)[0] for stage in ("ptx", "kernel"))
    became: dict[int, set[int]] = {}  # of each line of the kernel, as the PTX's .loc has it
    for link in trace.links:
        if (link.source, link.target) == (ptx.id, kernel.id):
            for line in link.target_lines:
                became.setdefault(line, set()).update(link.source_lines)
    tab = opened(trace)
    lit = f"""([of, line, other]) => {{
        {APP}.parts.selection.choose({APP}.store.byId.get(of), line);
        return [...({APP}.parts.selection.lit.get({APP}.store.byId.get(other)) ?? new Map()).keys()].sort((a, b) => a - b);
    }}"""
    every = set().union(*became.values())
    assert len(became) > 5
    for line, made in became.items():
        assert set(tab.evaluate(lit, [kernel.id, line, ptx.id])) == made != every
        alone = [one for one in made if sum(one in other for other in became.values()) == 1]
        for one in alone[:1]:
            assert tab.evaluate(lit, [ptx.id, one, kernel.id]) == [line]
    source = trace.find("source")[0]
    lights = [set(tab.evaluate(lit, [source.id, line, ptx.id])) for line in range(1, len(source.lines) + 1)]
    assert any(sum(made <= lines for made in became.values()) > 1 for lines in lights)


def test_the_next_question_takes_the_panes_of_the_last(opened: Any, rotary: Trace) -> None:
    """What a click in another view opens closes what was opened before it, but for what the user picked."""
    tab = opened(rotary)
    count = f"() => {APP}.panes.list.length"
    tab.evaluate(f"() => {{ {APP}.panes.add(); {APP}.panes.add(); }}")
    assert tab.evaluate(count) == 4
    row_of(show(tab, "Kernels"), rotary.kernels[0].name).click()
    rungs = show(tab, "Kernels").locator(".ladder button")
    rungs.first.click()
    assert tab.evaluate(count) == 2, "the one that the user picked, and what was asked for"
    tab.get_by_role("button", name="add a text pane").click()
    added = f"() => {APP}.panes.list.at(-1).artifact"
    before = tab.evaluate(added)
    show(tab, "Kernels")
    rungs.last.click()
    assert tab.evaluate(count) == 3 and tab.evaluate(added) == before, "the user added it"
