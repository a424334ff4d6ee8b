"""All of the user's source as one text: functions in the order of their calls, with links as in a text of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from explorer.analysis.questions.memory import memory_of
from explorer.analysis.questions.provenance import follow
from explorer.model.records import blank
from explorer.model.shared import Source
from explorer.model.values import Artifact, Link
from explorer.stages.records import ARTIFACTS
from explorer.tracing.traced import Trace
from tests.facts import untold
from tests.in_tab import APP, selected, show

#: What the left pane shows: its lines, those that are lit, and the selected one, each with the number beside it.
LEFT = f"""() => {{
    const [{{ lines, sorted, chosen, store }}] = {APP}.panes.list;
    return [lines, [...sorted, ...(chosen ? [chosen] : [])].map((line) => [lines[line - 1], Number(store.program.number(line))])];
}}"""


def open_program(tab: Any) -> None:
    tab.get_by_role("treeitem", name="All source").click()


def left(tab: Any) -> tuple[list[str], list[tuple[str, int]]]:
    lines, lit = tab.evaluate(LEFT)
    return lines, [(text, number) for text, number in lit]


def user_lines(trace: Trace, artifact: str, line: int) -> set[tuple[str, int]]:
    """The text of each user line that a line is linked to and its number in its file, as Python answers."""
    rows = [row for row in follow(trace, artifact, line) if row["stage"] == "source"]
    sources = {a.id: a for a in trace.find("source")}
    return {numbered(sources[row["artifact"]], line) for row in rows for line in row["lines"]}


def numbered(source: Artifact, line: int) -> tuple[str, int]:
    """The text of a line of a source, and its number in its file."""
    return source.lines[line - 1], source.data["first_line"] + line - 1


def test_all_functions_stand_in_one_text_in_the_order_of_their_calls(opened, rotary):
    """Each function is whole under its heading: forward, the norm that it calls first, attend and what that calls, last gated."""
    tab = opened(rotary)
    open_program(tab)
    lines, _ = left(tab)
    headings = [line.split(" · ")[0] for line in lines if line.startswith("# ")]
    names = ["Rotary.forward", "RmsNorm.forward", "Rotary.attend", "rotate", "gated"]
    assert headings == [f"# {name}" for name in names]
    for source in rotary.find("source"):
        at = next(n for n, line in enumerate(lines) if line.startswith(f"# {source.data['qualname']} "))
        assert tuple(lines[at + 1 : at + 1 + len(source.lines)]) == tuple(source.lines)
    tab.set_viewport_size({"width": 1400, "height": 420})
    tab.get_by_role("treeitem", name="Python source").click()
    tab.get_by_role("treeitem", name="gated").click()
    assert tab.locator(".pane").first.get_by_text("# gated").is_visible(), "the rail leads to the function in the whole"
    assert left(tab)[0] == lines


def test_a_function_in_it_is_not_listed_when_a_search_leads_there(opened, rotary):
    """The rail keeps the functions under one row with their number, and marks the program, which has the line."""
    tab = opened(rotary)
    open_program(tab)
    tab.get_by_role("searchbox").fill("open_by =")
    tab.keyboard.press("Enter")
    tab.locator(".line.chosen", has_text="open_by =").wait_for()
    functions = tab.get_by_role("treeitem", name="Python source")
    assert functions.get_attribute("aria-expanded") == "false" and "×5" in functions.inner_text()
    assert tab.locator(".rail [tabindex='0']").inner_text().startswith("All source")


def test_links_lead_into_it_and_out_of_it(opened, rotary):
    """A kernel's line lights user lines of several functions in it; a line of it is selected as a line of its function."""
    tab = opened(rotary)
    open_program(tab)
    kernel = rotary.find("kernel")[0]
    number = next(n for n, line in enumerate(kernel.lines, 1) if "libdevice.rsqrt(" in line)
    tab.get_by_role("region", name="right text").locator(f'.line[data-line="{number}"]').click(position={"x": 60, "y": 9})
    assert set(left(tab)[1]) == user_lines(rotary, kernel.id, number)
    assert len(left(tab)[1]) > 1
    shown = tab.evaluate(f"() => {APP}.panes.list[0].store.name({APP}.panes.list[0].artifact)")
    assert not untold(shown, "source", "5 functions")
    tab.locator(".pane").first.get_by_text("open_by = torch.sigmoid(gate)").click()
    gated = next(a for a in rotary.find("source") if a.data["qualname"] == "gated")
    assert selected(tab) == (gated.id, 3)
    shown = left(tab)[1][-1]
    assert shown == numbered(gated, 3) and shown[0] == "    open_by = torch.sigmoid(gate)"
    said = tab.locator(".status").inner_text()
    assert "← " not in said and not untold(said, f"Line {shown[1]} of gated")


@pytest.fixture(scope="module")
def library() -> Trace:
    """A function that calls one of a library and then one of its own; the sources stand in another order."""
    texts = {
        "f": "def f(x):\n    return g(norm(x))",
        "g": "def g(x):\n    return x.sin()",
        "norm": "def norm(x):\n    return x / 2",
    }
    files = {"f": "f.py", "g": "f.py", "norm": "/env/lib/python3.11/site-packages/norms/norm.py"}
    sources = [
        Artifact(
            name, "source", "0/0", "", f"{name} (file.py:1)", "python", text, data=blank(Source, file=files[name], qualname=name)
        )
        for name, text in texts.items()
    ]
    graph = Artifact("graph", "dynamo", "0/0", "", "graph", "fx", "norm\nsin", data=blank(ARTIFACTS["dynamo"]))
    links = (
        Link("graph", (1,), "norm", (2,), "stack_trace"),
        Link("graph", (1, 2), "f", (2,), "called from"),
        Link("graph", (2,), "g", (2,), "stack_trace"),
    )
    return Trace(artifacts=(sources[0], sources[2], sources[1], graph), links=links)


def test_library_code_is_apart(opened, library):
    """The library's function stands last, folded under a heading; following a link into it opens the fold."""
    tab = opened(library)
    open_program(tab)
    lines, _ = left(tab)
    headings = [line.split(" · ")[0] for line in lines if line.startswith("# ")]
    assert headings == ["# f", "# g", "# Library code", "# norm"]
    pane = tab.locator(".pane").first
    assert pane.get_by_text("def norm(x):").count() == 0
    graph = next(n for n, a in enumerate(library.artifacts) if a.stage == "dynamo")
    tab.get_by_role("region", name="right text").locator("select").first.select_option(str(graph))
    tab.get_by_role("region", name="right text").locator('.line[data-line="1"]').click()
    assert pane.get_by_text("return x / 2").is_visible()


def test_library_code_that_computes_all_is_open(opened, library):
    """A script that only calls a model of a package shows the model: its own lines compute nothing."""
    kernel = Artifact("k", "kernel", "0/0", "", "k", "triton", "a kernel", "k", data=blank(ARTIFACTS["kernel"]))
    link = Link("k", (1,), "norm", (2,), "stack_trace")
    tab = opened(replace(library, artifacts=(*library.artifacts, kernel), links=(*library.links, link)))
    open_program(tab)
    assert tab.locator(".pane").first.get_by_text("def norm(x):").count() == 1


def test_a_link_keeps_it_and_other_views_open_beside_it(opened, rotary):
    """The address of what is shown brings the whole program back, and the graph view opens while a pane has it."""
    tab = opened(rotary)
    tab.locator(".pane").first.get_by_text("open_by = torch.sigmoid(gate)").click()
    end = tab.evaluate("() => location.hash")
    again = opened(rotary, end)
    shown = again.evaluate(f"() => {APP}.panes.list.map((pane) => pane.store.name(pane.artifact))[0]")
    assert not untold(shown, "source", "5 functions")
    assert again.locator(".line.chosen").inner_text() == "    open_by = torch.sigmoid(gate)"
    assert show(again, "Graph").is_visible()


def test_the_texts_before_and_after_it_are_the_first(opened, rotary):
    """→ leads from all of the source to the first text of the trace, and ← stays; a new pane shows what comes after the last."""
    tab = opened(rotary)
    shown = f"() => {APP}.panes.list.map((pane) => pane.artifact)"
    open_program(tab)
    whole = tab.evaluate(shown)[0]
    tab.get_by_role("button", name="add a text pane").click()
    kernel, after = (rotary.artifacts[at] for at in tab.evaluate(shown)[1:])
    assert (kernel.stage, after.stage) == ("kernel", "ttir") and after.kernel == kernel.kernel
    pane = tab.locator(".pane").first
    pane.get_by_text("open_by = torch.sigmoid(gate)").click()
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate(shown)[0] == whole >= len(rotary.artifacts), "none of the trace's own texts"
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(shown)[0] == 0


def test_one_function_has_no_such_text(opened, library):
    """A trace of one function shows that function, and offers no other text of the source."""
    tab = opened(replace(library, artifacts=(library.artifacts[0], library.artifacts[3]), links=library.links[1:2]))
    assert tab.get_by_role("treeitem", name="All source").count() == 0


def test_a_point_at_which_a_buffer_is_freed_leads_to_its_source(opened, rotary):
    """Each point of the memory chart after the first leads to a user's line, and names one that Python links to it."""
    tab = opened(rotary)
    output = rotary.find("output_code")[0]
    points = [point["line"] for point in memory_of(rotary).timeline]
    freed = [n for n, line in enumerate(points) if n and not user_lines(rotary, output.id, line)]
    assert len(freed) > 5
    for n in freed[:: len(freed) // 5]:
        show(tab, "Memory").locator(".memory-chart i").nth(n).dispatch_event("click")
        assert tab.locator(".status").inner_text().startswith("← ")
        artifact, line = selected(tab)
        assert artifact == output.id and line < points[n] and user_lines(rotary, artifact, line)
