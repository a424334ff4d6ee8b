"""How the view is arranged: splitters, the rail that folds away, full screen, narrow columns; and what a next view keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from explorer.view import page, saved_output
from tests.facts import untold
from tests.tabs import TWO_FRAMES, to_texts, to_view

PANES = "all => all.map((one) => Math.round(one.getBoundingClientRect().width))"
#: Show an output of a notebook, as JupyterLab does: its HTML in the area of its cell, and then its scripts run.
RUN_CELL = """async ([area, html]) => {
    const cell = document.querySelector(area);
    cell.replaceChildren();
    await new Promise(requestAnimationFrame);
    const child = document.createElement('div');
    child.className = 'jp-OutputArea-child';
    child.innerHTML = html;
    cell.append(child);
    for (const old of child.querySelectorAll('script:not([type])')) {
        const script = document.createElement('script');
        script.textContent = old.textContent;
        old.replaceWith(script);
    }
}"""


def widths(tab: Any) -> list[int]:
    return list(tab.locator(".pane").evaluate_all(PANES))


def value(splitter: Any) -> int:
    return int(splitter.get_attribute("aria-valuenow"))


def drag(tab: Any, splitter: Any, by: int) -> None:
    """Drag a splitter to the side, or down where it lies."""
    box = splitter.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    lies = splitter.get_attribute("aria-orientation") == "horizontal"
    tab.mouse.move(x + (0 if lies else by / 2), y + (by / 2 if lies else 0))
    tab.mouse.move(x + (0 if lies else by), y + (by if lies else 0))
    tab.mouse.up()


def test_a_splitter_between_the_panes_is_dragged(opened, rotary):
    """The text before it grows by as much as the pointer moves and the one after it shrinks; a double click has them alike."""
    tab = opened(rotary)
    left, right = widths(tab)
    splitter = tab.get_by_role("separator", name="between the left and the right text")
    drag(tab, splitter, 120)
    assert widths(tab) == [pytest.approx(left + 120, abs=2), pytest.approx(right - 120, abs=2)]
    drag(tab, splitter, 3000)
    assert widths(tab)[1] == pytest.approx(90, abs=2), "no text is pushed away altogether"
    splitter.dblclick()
    assert widths(tab) == [pytest.approx(left, abs=2), pytest.approx(right, abs=2)]
    assert tab.locator(".cm-selectionBackground").count() == 0, "no text was selected on the way"


def test_a_splitter_is_moved_with_keys(opened, rotary):
    """Arrows move it, with Shift further, Home and End to the ends; it says where it stands and is named."""
    tab = opened(rotary)
    left, right = widths(tab)
    splitter = tab.get_by_role("separator", name="between the left and the right text")
    splitter.focus()
    assert value(splitter) == 50 and splitter.get_attribute("aria-orientation") == "vertical"
    tab.keyboard.press("ArrowLeft")
    assert widths(tab)[0] == pytest.approx(left - 24, abs=2)
    tab.keyboard.press("Shift+ArrowRight")
    assert widths(tab)[0] == pytest.approx(left + 72, abs=2) and value(splitter) == round(100 * (left + 72) / (left + right))
    tab.keyboard.press("ArrowUp")
    assert widths(tab)[0] == pytest.approx(left + 72, abs=2), "it stands upright: up is no way for it"
    tab.keyboard.press("Home")
    assert widths(tab)[0] == pytest.approx(90, abs=2)
    tab.keyboard.press("End")
    assert widths(tab)[1] == pytest.approx(90, abs=2)
    tab.keyboard.press("Enter")
    assert widths(tab) == [pytest.approx(left, abs=2), pytest.approx(right, abs=2)]


def test_three_panes_have_two_splitters(opened, rotary):
    """Each moves the two texts beside it and leaves the third alone; a pane that is closed takes its splitter with it."""
    tab = opened(rotary)
    tab.get_by_role("button", name="add a text pane").click()
    before = widths(tab)
    drag(tab, tab.get_by_role("separator", name="between the right and the third text"), -60)
    assert widths(tab) == [pytest.approx(width, abs=2) for width in (before[0], before[1] - 60, before[2] + 60)]
    tab.get_by_role("button", name="close the third pane").click()
    assert tab.get_by_role("separator").count() == 2 and len(widths(tab)) == 2


def test_a_pane_that_is_closed_leaves_its_room_to_the_others(opened, rotary):
    """However small the others were made: one alone has all of the room, and several keep what they are to each other."""
    tab = opened(rotary)
    room = sum(widths(tab))
    tab.get_by_role("separator", name="between the left and the right text").focus()
    tab.keyboard.press("Home")
    tab.get_by_role("button", name="close the right pane").click()
    assert widths(tab) == [pytest.approx(room, abs=3)]
    tab.reload()
    tab.wait_for_selector("#explorer[data-state=ready]")
    tab.get_by_role("button", name="add a text pane").click()
    tab.get_by_role("button", name="add a text pane").click()
    drag(tab, tab.get_by_role("separator", name="between the left and the right text"), -3000)
    first, second, third = widths(tab)
    tab.get_by_role("button", name="close the left pane").click()
    assert widths(tab) == [pytest.approx(share * room / (second + third), abs=4) for share in (second, third)]
    assert first == pytest.approx(90, abs=2) and second > 1.5 * third


def test_the_rail_is_made_wider_and_folds_away(opened, rotary):
    """Its splitter gives it room; the button, and Enter on the splitter, take it away and bring it back as wide as it was."""
    tab = opened(rotary)
    rail, button = tab.locator(".rail"), tab.get_by_role("button", name="show or hide the stages")
    splitter = tab.get_by_role("separator", name="beside the stages")
    assert rail.bounding_box()["width"] == pytest.approx(290, abs=1) and button.get_attribute("aria-expanded") == "true"
    drag(tab, splitter, 70)
    assert rail.bounding_box()["width"] == pytest.approx(360, abs=2)
    room = sum(widths(tab))
    splitter.focus()
    tab.keyboard.press("Enter")
    assert rail.is_hidden() and splitter.is_hidden() and sum(widths(tab)) == pytest.approx(room + 361, abs=3)
    assert button.get_attribute("aria-expanded") == "false"
    tab.keyboard.press("Enter")  # the button has the focus now
    assert rail.bounding_box()["width"] == pytest.approx(360, abs=2)


def test_a_rail_dragged_to_nothing_is_hidden(opened, rotary):
    """It comes back as wide as it was; a narrow one keeps its names, in place of times and numbers of lines."""
    tab = opened(rotary)
    rail, splitter = tab.locator(".rail"), tab.get_by_role("separator", name="beside the stages")
    assert not untold(splitter.get_attribute("title"), "Drag", "arrow keys", "Double-click", "Enter", "stages")
    splitter.focus()
    tab.keyboard.press("Home")
    labels = rail.locator(".item .label").evaluate_all("all => all.map((one) => one.getBoundingClientRect().width)")
    assert rail.bounding_box()["width"] == pytest.approx(90, abs=1) and min(labels) > 20
    drag(tab, splitter, 150)
    drag(tab, splitter, -3000)
    assert rail.is_hidden() and splitter.is_hidden()
    tab.get_by_role("button", name="show or hide the stages").click()
    assert rail.bounding_box()["width"] == pytest.approx(240, abs=2)


def test_the_tabs_stay_in_one_row(opened, rotary):
    """In every width the toolbar is one row: the tabs that do not fit stand under "more", that of the view shown does not."""
    tab = opened(rotary)
    every = tab.locator(".tabs [role=tab]").evaluate_all("all => all.map((one) => one.dataset.title)")
    bar, more = tab.locator(".viewbar"), tab.get_by_label("more views")
    for width in (1400, 900, 620, 480):
        tab.set_viewport_size({"width": width, "height": 800})
        for name in (every[0], every[-1]):
            to_view(tab, name)
            tab.evaluate(TWO_FRAMES)
            shown = [one.inner_text() for one in tab.locator(".tabs [role=tab]:visible").all()]
            folded = more.locator("option:not([hidden])").all_inner_texts() if more.is_visible() else []
            assert sorted(shown + folded) == sorted(every) and name in shown
            assert bar.bounding_box()["height"] < 50
    assert folded, "at 480 pixels they do not all fit"
    more.select_option(label="Graph")
    tab.get_by_role("tab", name="Graph", selected=True).wait_for()
    focused = tab.evaluate("document.querySelector('#explorer').shadowRoot.activeElement.dataset.view")
    assert focused == "graph", "the focus is on the tab of what is shown"


def test_the_tabs_are_the_same_in_every_view(opened, rotary):
    """What a view adds to the toolbar takes no tab's place: those in a row as wide as in JupyterLab stay, Guards among them.

    A view from under "more" has its tab after them.
    """
    tab = opened(rotary)
    tab.set_viewport_size({"width": 970, "height": 680})

    def shown() -> list[str]:
        tab.evaluate(TWO_FRAMES)
        return tab.locator(".tabs [role=tab]:visible").all_inner_texts()

    first = shown()
    assert "Guards & breaks" in first
    for name in first:
        to_view(tab, name)
        assert shown() == first
    for name in tab.get_by_label("more views").locator("option:not([hidden])").all_inner_texts():
        to_view(tab, name)
        assert shown() == [*first, name]


def test_full_screen(opened, rotary):
    """The button gives the view the whole screen and gives it back; where the browser refuses, the view fills its page."""
    tab = opened(rotary)
    button = tab.get_by_role("button", name="full screen")
    button.click()
    tab.wait_for_function("() => document.fullscreenElement?.id === 'explorer'")
    pressed = tab.get_by_role("button", name="full screen", pressed=True)
    pressed.wait_for()  # the browser tells the page after it has given the screen
    button.click()
    tab.wait_for_function("() => !document.fullscreenElement")
    pressed.wait_for(state="detached")
    tab.evaluate("""() => {
        const host = document.querySelector('#explorer');
        host.style.cssText = 'height:300px;border:1px solid red';
        host.requestFullscreen = () => Promise.reject(new TypeError('not allowed in this frame'));
    }""")
    button.click()
    tab.wait_for_function("() => document.querySelector('#explorer').getBoundingClientRect().height >= innerHeight")
    tab.keyboard.press("Escape")
    assert tab.locator("#explorer").evaluate("one => one.style.cssText") == "height: 300px; border: 1px solid red;"
    assert button.get_attribute("aria-pressed") == "false"


def test_escape_leaves_full_screen_after_a_search(opened, rotary):
    """Where no text is in sight, Escape in the search leads to the tab, and the next Escape gives the page back."""
    tab = opened(rotary, "#view=kernels")
    tab.locator("#explorer").evaluate("one => one.requestFullscreen = () => Promise.reject(new TypeError('not allowed'))")
    button = tab.get_by_role("button", name="full screen")
    button.click()
    tab.get_by_role("searchbox").fill("tl.load")
    tab.keyboard.press("Escape")
    assert button.get_attribute("aria-pressed") == "true"
    tab.keyboard.press("Escape")
    assert button.get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("window", [600, 1400])
def test_a_column_of_600_pixels_can_be_used(opened, rotary, window):
    """In a narrow window, and in a narrow column of a wide one, the texts stand below each other and the rail is folded away.

    Nothing reaches out of the view, each text shows several lines, and the splitters move up and down.
    """
    tab = opened(rotary)
    tab.set_viewport_size({"width": window, "height": 900})
    tab.locator("#explorer").evaluate("one => { one.style.width = '600px'; one.style.height = '680px'; }")
    tab.locator(".rail").wait_for(state="hidden")
    boxes = [pane.bounding_box() for pane in tab.locator(".pane").all()]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"] and {round(box["width"]) for box in boxes} == {600}
    assert min(tab.locator(".pane .cm-scroller").evaluate_all("all => all.map((one) => one.clientHeight)")) > 7 * 18
    outside = "all => all.filter((one) => one.getBoundingClientRect().right > 601).map((one) => one.outerHTML)"
    assert tab.locator("button:visible, select:visible, input:visible").evaluate_all(outside) == []
    splitter = tab.get_by_role("separator", name="between the left and the right text")
    splitter.focus()
    assert splitter.get_attribute("aria-orientation") == "horizontal"
    tab.keyboard.press("ArrowDown")
    assert tab.locator(".pane").first.bounding_box()["height"] == pytest.approx(boxes[0]["height"] + 24, abs=2)
    tab.get_by_role("button", name="show or hide the stages").click()
    rail = tab.locator(".rail").bounding_box()
    assert rail["width"] == pytest.approx(600, abs=1) and rail["y"] + rail["height"] <= boxes[0]["y"] + rail["height"] + 1


def test_beside_a_notebooks_files_the_stages_are_there_for_texts(opened, rotary):
    """In 970 pixels the rail is there where it chooses a text, until it is said to be there or away: then it is so everywhere."""
    tab = opened(rotary, "#view=overview")
    rail, toggler = tab.locator(".rail"), tab.get_by_role("button", name="show or hide the stages")
    assert rail.is_visible()
    tab.set_viewport_size({"width": 970, "height": 680})
    rail.wait_for(state="hidden")
    whole = "e => [e.scrollHeight - e.clientHeight, e.scrollWidth - e.clientWidth]"
    assert tab.get_by_role("tabpanel", name="Overview").evaluate(whole) == [0, 0], "the first screen needs no scrolling"
    for name, is_there in (("Code", True), ("Kernels", False), ("Graph", True), ("Memory", False)):
        to_view(tab, name)
        assert rail.is_visible() == is_there, name
    toggler.click()
    assert rail.is_visible()
    to_view(tab, "Kernels")
    assert rail.is_visible()


def test_opening_a_view_scrolls_nothing_around_it(opened, rotary):
    """At 200 % zoom the first lines of a text lie below the window: a page, or a notebook, stays where it is nevertheless."""
    tab = opened(rotary)
    tab.set_viewport_size({"width": 640, "height": 400})
    tab.reload()
    tab.wait_for_selector("#explorer[data-state=ready]")
    tab.wait_for_function("() => document.querySelector('#explorer').app.parts.colours.swatches.size")
    assert tab.locator("#explorer").evaluate("one => one.getBoundingClientRect().top") == 0
    first, last = tab.evaluate("document.querySelector('#explorer').app.panes.list[1].editor.inView()")
    assert first > 1 and last > first, "its first linked lines are in the middle"


def test_a_splitter_is_dragged_on_a_page_that_is_scrolled(opened, rotary):
    """At 200 % zoom the text before it begins above the window."""
    tab = opened(rotary)
    tab.set_viewport_size({"width": 640, "height": 400})
    tab.locator(".rail").wait_for(state="hidden")
    splitter = tab.get_by_role("separator", name="between the left and the right text")
    splitter.evaluate("one => { scrollTo(0, scrollY + one.getBoundingClientRect().top - 60); one.focus(); }")
    before = tab.locator(".pane").first.bounding_box()
    assert before["y"] < -60, "the pane is larger than what is in sight of it"
    drag(tab, splitter, 40)
    assert tab.locator(".pane").first.bounding_box()["height"] == pytest.approx(before["height"] + 40, abs=2)


def test_a_tall_rail_leaves_room_in_a_window_made_lower(opened, rotary):
    """In a narrow view the rail keeps to its part: its splitter and the texts below it stay in the view."""
    tab = opened(rotary)
    tab.set_viewport_size({"width": 600, "height": 900})
    tab.locator(".rail").wait_for(state="hidden")
    tab.get_by_role("button", name="show or hide the stages").click()
    splitter = tab.get_by_role("separator", name="beside the stages")
    splitter.focus()
    tab.keyboard.press("End")
    tab.set_viewport_size({"width": 600, "height": 650})
    main = tab.locator("main").bounding_box()
    end = main["y"] + main["height"]
    assert splitter.bounding_box()["y"] <= end - 150 and end <= 650
    assert tab.locator(".pane").last.bounding_box()["y"] < end


# What the next view keeps ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rotary_packed(rotary: Any) -> bytes:
    """The payload of `rotary` as an output holds it."""
    return page.packed(rotary)


@pytest.fixture
def notebook(shown: Any, rotary: Any, rotary_packed: bytes) -> Any:
    """A page with the areas of two cells, and what shows an output in one: `run(area, trace, key)` is its view."""
    areas = '<div class="jp-OutputArea" id="one"></div><div class="jp-OutputArea" id="two"></div>'
    tab = shown(f"<!doctype html><meta charset=utf-8><body>{areas}")

    def run(area: str, trace: Any, key: str) -> Any:
        packed = rotary_packed if trace is rotary else page.packed(trace)
        tab.evaluate(RUN_CELL, [f"#{area}", saved_output.output(trace, packed, key)])
        view = tab.locator(f"#{area} .explorer-host")
        view.locator(".pane").first.wait_for(state="attached")
        return view

    return tab, run


def arranged(tab: Any, view: Any) -> None:
    """Select a line, open a third text and a group of the rail, move the splitters and go to the graph with all groups open."""
    to_texts(view)
    view.locator(".pane").first.locator(".line", has_text="cos").first.click()
    view.get_by_role("button", name="add a text pane").click()
    graph = view.evaluate("host => String(host.app.store.first('post_grad'))")
    view.locator(".pane").nth(2).locator("select").select_option(graph)
    closed = view.locator('.item[aria-expanded="false"]').first
    closed.click()
    view.get_by_role("separator", name="beside the stages").focus()
    tab.keyboard.press("Shift+ArrowRight")
    view.get_by_role("separator", name="between the left and the right text").focus()
    tab.keyboard.press("Shift+ArrowLeft")
    to_view(view, "Graph")
    view.get_by_role("button", name="open all groups").click()


SHOWN = """host => {
    const { app } = host;
    const { tabs, panes, selection, arrangement, parts } = app;
    const open = [...parts.rail.open].sort();
    const graph = [...tabs.views.get('graph').expanded].sort();
    const texts = panes.list.map((pane) => app.store.artifact(pane.artifact).id);
    return [tabs.name, texts, selection.placed(), arrangement.arranged, open, graph];
}"""


def test_a_cell_that_is_run_again_shows_what_it_showed(notebook, rotary):
    """Tab, texts, line, sizes, groups of the rail and of the graph are those of the output before, in the same cell only."""
    tab, run = notebook
    view = run("one", rotary, "first")
    arranged(tab, view)
    before = view.evaluate(SHOWN)
    assert before[0] == "graph" and len(before[1]) == 3 and before[2]["line"] and before[3]["width"] == 386 and before[5]
    other = run("two", rotary, "other")
    assert other.get_by_role("tab", name="Overview").get_attribute("aria-selected") == "true", "another cell begins anew"
    assert other.locator(".pane").count() == 2 and other.locator(".line.chosen").count() == 0
    assert run("one", rotary, "second").evaluate(SHOWN) == before
    assert run("one", rotary, "third").evaluate(SHOWN) == before, "and once more"


def edited(trace: Any) -> Any:
    """The trace with a line before the first of each of its sources, as after an edit."""
    texts = [replace(a, text=f"# edited\n{a.text}") if a.stage == "source" else a for a in trace.artifacts]
    return replace(trace, artifacts=tuple(texts))


def test_an_edited_program_keeps_the_line_by_its_text(notebook, rotary):
    """The selected line is found again where it stands now; one that is no more there is not selected."""
    _, run = notebook
    view = run("one", rotary, "first")
    to_texts(view)
    view.locator(".pane").first.locator(".line", has_text="cos").first.click()
    before = view.evaluate("host => host.app.selection.placed()")
    after = run("one", edited(rotary), "second").evaluate("host => host.app.selection.placed()")
    assert (after["artifact"], after["line"], after["text"]) == (before["artifact"], before["line"] + 1, before["text"])
    gone = [replace(a, text=a.text.replace(before["text"], "    pass")) for a in rotary.artifacts]
    view = run("one", replace(rotary, artifacts=tuple(gone)), "third")
    assert view.evaluate("host => host.app.selection.chosen") is None and view.locator(".pane").count() == 2


def test_another_function_in_the_same_cell_has_its_own_texts(notebook, rotary, replayed):
    """Of a cell that now traces something else only the arrangement stays."""
    tab, run = notebook
    arranged(tab, run("one", rotary, "first"))
    view = run("one", replayed("sin_cos-torch2.13-cpu"), "second")
    assert view.get_by_role("tab", name="Overview").get_attribute("aria-selected") == "true"
    assert view.locator(".pane").count() == 2 and view.locator(".line.chosen").count() == 0
    assert view.locator(".rail").bounding_box()["width"] == pytest.approx(386, abs=1)


def test_a_link_comes_before_what_was_shown(notebook, rotary):
    """An address that names the view says what it shows, also where the cell showed something else before."""
    tab, run = notebook
    arranged(tab, run("one", rotary, "first"))
    tab.evaluate("location.hash = 'trace=second&view=kernels'")
    view = run("one", rotary, "second")
    assert view.get_by_role("tab", name="Kernels").get_attribute("aria-selected") == "true"


def test_a_link_without_a_line_selects_none(opened, rotary):
    """Back to it from one with a line, the line is no more selected, and the address stays as it was."""
    tab = opened(rotary, "#view=kernels")
    tab.evaluate("place => { location.hash = place }", f"view=code&at={rotary.find('source')[0].id}:3")
    tab.wait_for_function("() => document.querySelector('#explorer').app.selection.chosen")
    tab.evaluate("() => history.pushState(null, '', '#view=kernels')")
    tab.evaluate("() => dispatchEvent(new HashChangeEvent('hashchange'))")
    tab.wait_for_function("() => !document.querySelector('#explorer').app.selection.chosen")
    tab.wait_for_function("() => document.querySelector('#explorer').app.tabs.name === 'kernels'")
    assert "at=" not in tab.evaluate("location.hash")


def test_a_page_that_is_loaded_again_keeps_its_arrangement(opened, rotary):
    """Sizes and folded groups outlive a reload of a saved page, as what its address says does."""
    tab = opened(rotary)
    arranged(tab, tab.locator("#explorer"))
    before = tab.locator("#explorer").evaluate(SHOWN)
    tab.reload()
    tab.wait_for_selector("#explorer[data-state=ready]")
    assert tab.locator("#explorer").evaluate(SHOWN) == before


def test_a_trace_after_one_of_nothing_has_its_stages(tabs, saved, rotary, tmp_path: Path):
    """A page of an empty recording shows no rail, which says nothing about the page that takes its place."""
    tab, file = tabs(), tmp_path / "page.html"
    page.save(replace(rotary, artifacts=(), links=()), file)
    tab.goto(file.as_uri())
    tab.wait_for_selector("#explorer[data-state]")
    assert tab.locator(".rail").is_hidden()
    copy(saved(rotary), file)
    tab.reload()
    tab.wait_for_selector("#explorer[data-state=ready]")
    assert tab.locator(".rail").is_visible()
