"""The keys of the view: "?" lists them and gives the focus back; the stages are named by what their kernels compute."""

from __future__ import annotations

import re

from explorer.view.payload import payload
from tests.in_tab import APP, drawn, show


def test_a_question_mark_lists_the_keys(opened, rotary):
    """The dialog takes the focus; Escape closes it, keeps what is selected, and the focus is where it was."""
    tab = opened(rotary)
    show(tab, "code")
    line = tab.get_by_role("region", name="left text").locator(".cm-line[data-line]").nth(2)
    line.click(position={"x": 60, "y": 9})
    drawn(tab)
    said = tab.get_by_role("status").last.inner_text()
    focused = "() => document.querySelector('#explorer').shadowRoot.activeElement.className"
    before = tab.evaluate(focused)
    tab.keyboard.press("?")
    dialog = tab.get_by_role("dialog", name="keys")
    dialog.wait_for()
    assert "search all texts" in dialog.inner_text()
    tab.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert tab.evaluate(focused) == before
    assert tab.get_by_role("status").last.inner_text() == said


def test_the_list_of_keys_lets_those_of_the_notebook_pass(opened, rotary):
    """Ctrl+S goes on from the dialog to what is around the view; a plain key stays in it."""
    tab = opened(rotary)
    show(tab, "code")
    tab.keyboard.press("?")
    tab.get_by_role("dialog", name="keys").wait_for()
    tab.evaluate("() => { window.met = []; document.addEventListener('keydown', ({ key }) => window.met.push(key)); }")
    tab.keyboard.press("d")
    tab.keyboard.press("Control+s")
    met = tab.evaluate("() => window.met")
    assert "s" in met and "d" not in met


def test_a_question_mark_that_is_typed_opens_nothing(opened, rotary):
    """In the search box it is a letter."""
    tab = opened(rotary)
    box = tab.get_by_role("searchbox", name="search all texts")
    box.focus()
    tab.keyboard.press("?")
    assert box.input_value() == "?"
    assert tab.get_by_role("dialog", name="keys").count() == 0


def test_the_stages_name_a_kernel_by_what_it_computes(opened, rotary):
    """Each kernel has in the rail the title that the table of kernels has, and its number; the name is in its tooltip. A title of
    one operator, such as "sum", which other kernels have too, has the line of the program behind it. A frame explains its number.
    """
    tab = opened(rotary)
    kernels = [kernel for kernel in payload(rotary)["kernels"] if kernel["title"]]
    assert kernels
    items = "items => items.map((item) => [item.querySelector('.label').textContent, item.title])"
    labels = {hint.splitlines()[0]: label for label, hint in tab.get_by_role("treeitem").evaluate_all(items) if hint}
    for kernel in kernels:
        number = re.search(r"_\d+$", kernel["name"])
        said = f"{kernel['title']} {number[0] if number else ''}".strip()
        place = kernel["user"][2]
        if place and kernel["title"].isidentifier():
            said += f", {place}"
        assert re.sub(r" ×\d+$", "", labels[kernel["name"]]) == said
    assert any(kernel["title"].isidentifier() and kernel["user"][2] for kernel in kernels)
    assert "compile id" in tab.get_by_role("treeitem", name="0/0").first.get_attribute("title")


def test_the_stages_that_few_ask_for_stand_under_more(opened, rotary):
    """They are in one node, closed at first, after the others of their frame; a text that is shown opens it."""
    tab = opened(rotary)
    rare = {stage["title"] for stage in payload(rotary)["stages"] if stage.get("secondary")}
    assert {"Settings", "Compiler phases", "Dynamo bytecode"} <= rare
    items = tab.get_by_role("treeitem")
    assert not rare & set(items.locator(".label").all_text_contents())  # an item out of sight has no inner text
    more = items.filter(has_text="More").first
    more.click()
    assert {"Settings", "Compiler phases"} <= set(items.locator(".label").all_text_contents())
    more.click()
    (place,) = [a.id for a in rotary.find("dynamo_bytecode")]
    tab.evaluate(f"place => {APP}.navigation.goToPlace(place)", place)
    items.filter(has_text="Dynamo bytecode").wait_for()


def test_the_arrows_walk_the_stages_as_they_stand_in_the_rail(opened, rotary):
    """From the source of a kernel they lead through its own texts, not to the source of the next kernel."""
    tab = opened(rotary)
    show(tab, "code")
    kernels = rotary.find("kernel")
    assert len(kernels) > 1
    tab.evaluate(f"id => {APP}.panes.show({APP}.panes.list[1], {APP}.store.byId.get(id))", kernels[0].id)
    tab.get_by_role("region", name="right text").get_by_role("textbox").focus()
    seen = []
    for _ in range(4):
        tab.keyboard.press("ArrowRight")
        seen.append(tab.evaluate(f"{APP}.store.artifact({APP}.panes.list[1].artifact)"))
    assert [text["stage"] for text in seen] == ["ttir", "ttgir", "llir", "ptx"]
    assert {text["kernel"] for text in seen} == {
        tab.evaluate(f"id => {APP}.store.artifact({APP}.store.byId.get(id)).kernel", kernels[0].id)
    }
