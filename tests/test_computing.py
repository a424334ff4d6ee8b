"""A click on a line of the user shows what computes it: the kernel or call beside it, and a strip through all of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

import explorer
from explorer.analysis.questions.argument_lines import argument_lines
from explorer.analysis.questions.program_lines import program_lines
from explorer.model.values import Artifact, Link
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of
from explorer.view.payload import payload
from tests.in_tab import APP, called, drawn, in_a_long_page, row_of, selected, show, texts_shown

#: The chips of the strip: what each says, and whether it is the one that is shown.
CHIPS = "chips => chips.map((chip) => [chip.querySelector('.what').textContent, chip.getAttribute('aria-pressed') === 'true'])"
#: The lines of the last pane that are lit, and those that are in sight.
LIT = f"() => {APP}.panes.list.at(-1).sorted"
IN_SIGHT = f"() => {APP}.panes.list.at(-1).editor.inView()"


def click(tab: Any, code: str) -> None:
    """Click a line of the program."""
    line = tab.get_by_role("region", name="left text").locator(".cm-line", has_text=code)
    line.first.click(position={"x": 60, "y": 9})
    drawn(tab)


#: How many rows of buttons or words each of some parts of a pane takes.
ROWS = "parts => parts.map((part) => Math.round(part.clientHeight / 24))"
#: Whether what stands around an element cuts nothing of it off.
IS_WHOLE = "(e) => e.parentElement.scrollWidth <= e.parentElement.clientWidth"


def strip(tab: Any) -> list[tuple[str, bool]]:
    return [tuple(chip) for chip in tab.locator(".computing .row button").evaluate_all(CHIPS)]


def stage_and_kernel(trace: Trace, id: str) -> tuple[str, str]:
    a = next(a for a in trace.artifacts if a.id == id)
    return a.stage, a.kernel


def lit_in_sight(tab: Any) -> bool:
    """Whether a linked line of the last pane is in sight."""
    first, last = tab.evaluate(IN_SIGHT)
    return any(first <= line <= last for line in tab.evaluate(LIT))


def test_a_click_opens_the_kernel_of_the_line(opened, rotary):
    """Each line of the program opens a kernel or call that computes it at a linked line, whatever the pane showed before."""
    tab = opened(rotary)
    computing = {line.first.line.code: {k.artifact.id for k in line.kernels[0]} for line in program_lines([rotary])}
    shown = []
    for code in (*computing, *reversed(computing)):
        click(tab, code)
        shown.append(texts_shown(tab)[1])
        assert shown[-1] in computing[code] and lit_in_sight(tab)
        assert sum(pressed for _, pressed in strip(tab)) == 1
    assert shown == shown[::-1], "a line opens the same each time"
    assert len(set(shown)) >= 4


def test_the_strip_has_all_that_computes_the_line(opened, rotary):
    """The strip names each kernel and call of the line, the one that mostly computes it first, and leads through them."""
    tab = opened(rotary)
    line = next(line for line in program_lines([rotary]) if "torch.softmax" in line.first.line.code)
    click(tab, "torch.softmax")
    titles = {called(info) for info in payload(rotary)["kernels"] + payload(rotary)["calls"]}
    chips = strip(tab)
    assert len(chips) == len(line.kernels[0]) > 2 and {title for title, _ in chips} <= titles
    assert tab.locator(".computing [role=status]").inner_text() == f"1 of {len(chips)}"
    assert chips[0][0].startswith("bmm") and chips[0][1]
    seen = {texts_shown(tab)[1]}
    for number in range(1, len(chips)):
        tab.get_by_role("button", name="next kernel of the line").click()
        assert [pressed for _, pressed in strip(tab)].index(True) == number
        seen.add(texts_shown(tab)[1])
        assert selected(tab)[0] != texts_shown(tab)[1], "the line of the program stays selected"
    assert seen == {k.artifact.id for k in line.kernels[0]}
    tab.get_by_role("button", name="next kernel of the line").click()
    assert strip(tab) == chips, "after the last comes the first"


def test_what_runs_in_the_forward_comes_before_the_backward(opened, replayed):
    """A line of a training step opens its forward, though the backward takes longer, and the backward's chips say so."""
    trace = replayed("mlp_train-torch2.11-cuda")
    tab = opened(trace)
    show(tab, "code")
    slow = "kernels => kernels.forEach(({ cost, graph }) => (cost.seconds = graph === 'backward' ? 1 : 1e-6))"
    tab.evaluate(f"() => ({slow})({APP}.store.payload.kernels)")
    source = next(a for a in trace.artifacts if a.stage == "source")
    click(tab, source.lines[2].strip())
    chips = [chip for chip, _ in strip(tab)]
    assert len(chips) >= 3 and next(a.graph for a in trace.artifacts if a.id == texts_shown(tab)[1]) == "forward"
    late = ["backward: " in chip for chip in chips]
    assert late == sorted(late) and late[0] is False and late[-1] is True


def test_the_layers_of_a_model_have_one_chip(opened, replayed):
    """Calls that compute the same, one for each layer, are counted in one chip; a click on it goes from one to the next."""
    trace = replayed("views/layers-torch2.13-h100")
    tab = opened(trace)
    line = program_lines([trace])[0]
    click(tab, line.first.line.code[:40])
    chips = strip(tab)
    counts = [
        int(found[1] or found[2]) if (found := re.search(r"^(\d+) × | \(\d+ of (\d+) alike\)", title)) else 1
        for title, _ in chips
    ]
    assert sum(counts) == len(line.kernels[0]) > len(chips) and max(counts) > 3
    chip = tab.locator(".computing .row button", has_text=re.compile(rf"^{max(counts)} × |of {max(counts)} alike"))
    seen = set()
    for _ in range(max(counts)):
        chip.first.click()
        seen.add(tab.locator(".computing [role=status]").inner_text())
    assert len(seen) == max(counts)


def test_calls_that_compute_the_same_for_other_lines_are_told_apart_by_them(opened, replayed):
    """Two kernels of one title, as those of a query and a key are, say which line each is of."""
    trace = replayed("views/layers-torch2.13-h100")
    tab = opened(trace)
    assert not any(".py" in title for title, _ in strip(tab)), "layers are of one line"
    tab.evaluate(f"() => {APP}.store.payload.calls.forEach((call, n) => (call.user[2] = `model.py:${{n}}`))")
    click(tab, program_lines([trace])[0].first.line.code[:40])
    assert any(re.search(r" \(model\.py:\d+, \d of \d+ alike\)$", title) for title, _ in strip(tab))


def test_the_strip_keeps_to_one_instance(opened, replayed):
    """With the links of one layer alone, the strip has the calls of that layer."""
    trace = replayed("views/layers-torch2.13-h100")
    tab = opened(trace)
    click(tab, program_lines([trace])[0].first.line.code[:40])
    count = tab.locator(".computing [role=status]")
    every = int(count.inner_text().split()[-1])
    tab.get_by_label("module whose links are shown").select_option(index=1)
    drawn(tab)
    assert 0 < int(count.inner_text().split()[-1]) < every


def test_a_pane_stays_at_its_stage(opened, rotary):
    """With PTX in the pane, a click shows the PTX of the line's kernel at a linked instruction; a call opens the output code."""
    tab = opened(rotary)
    click(tab, "square = x.pow(2)")
    ptx = next(n for n, a in enumerate(rotary.artifacts) if a.stage == "ptx")
    tab.get_by_role("region", name="right text").locator("select").select_option(str(ptx))
    for code, named in (("torch.softmax", "softmax"), ("torch.cos(angles)", "cos"), ("open_by = torch.sigmoid", "sigmoid")):
        click(tab, code)
        stage, kernel = stage_and_kernel(rotary, texts_shown(tab)[1])
        assert stage == "ptx" and named in kernel and lit_in_sight(tab)
    click(tab, "torch.softmax")
    tab.locator(".computing .row button", has_text="bmm").click()
    assert stage_and_kernel(rotary, texts_shown(tab)[1])[0] == "output_code"
    click(tab, "torch.cos(angles)")
    assert stage_and_kernel(rotary, texts_shown(tab)[1])[0] == "ptx", "the stage that was looked at before the call"


def test_a_text_with_linked_lines_is_left_alone(opened, rotary):
    """A graph that the user has chosen stays, at its linked lines; the strip then opens a kernel in its place."""
    tab = opened(rotary)
    graph = next(n for n, a in enumerate(rotary.artifacts) if a.stage == "post_grad")
    tab.get_by_role("region", name="right text").locator("select").select_option(str(graph))
    click(tab, "torch.cos(angles)")
    assert texts_shown(tab)[1] == rotary.artifacts[graph].id and lit_in_sight(tab)
    assert [pressed for _, pressed in strip(tab)] == [False]
    tab.locator(".computing .row button").click()
    assert stage_and_kernel(rotary, texts_shown(tab)[1])[0] == "kernel" and lit_in_sight(tab)


def test_a_saved_place_wins(opened, rotary):
    """A link to a line beside another kernel shows that kernel, not the first that computes the line."""
    source = next(a for a in rotary.artifacts if a.stage == "source" and "def rotate" in a.text)
    line = next(n for n, text in enumerate(source.lines, 1) if "torch.cos" in text)
    other = next(a for a in rotary.artifacts if a.stage == "kernel" and "sigmoid" in a.kernel)
    tab = opened(rotary, f"#view=code&left={source.id}&right={other.id}&at={source.id}:{line}")
    assert texts_shown(tab) == [source.id, other.id] and selected(tab) == (source.id, line)
    assert [pressed for _, pressed in strip(tab)] == [False]


def test_a_line_of_a_kernel_keeps_the_strip(opened, rotary):
    """A line selected in a kernel leaves the texts where they are; the strip tells what else computes its line of the program."""
    tab = opened(rotary)
    click(tab, "square = x.pow(2)")
    before = texts_shown(tab)
    line = tab.get_by_role("region", name="right text").locator(".line.lit", has_text=" * ").first
    line.click(position={"x": 80, "y": 9})
    assert selected(tab)[0] == before[1] and texts_shown(tab) == before
    assert sorted(pressed for _, pressed in strip(tab)) == [False, True]
    tab.keyboard.press("Escape")
    assert strip(tab) == []


def test_the_pointer_on_a_clicked_line_covers_nothing(opened, rotary):
    """What is known of a line is shown where the pointer rests, but not over what the click on that line has just opened."""
    tab = opened(rotary)
    card = tab.locator(".hover")
    left = tab.get_by_role("region", name="left text")
    left.locator(".cm-line", has_text="torch.cos(angles)").hover(position={"x": 60, "y": 9})
    card.wait_for()
    assert card.locator("h4").first.inner_text().startswith("Kernel"), "kernels first"
    click(tab, "torch.cos(angles)")
    card.wait_for(state="detached")
    left.locator(".cm-line", has_text="open_by = torch.sigmoid").hover(position={"x": 60, "y": 9})
    card.wait_for()
    assert "sigmoid" in card.inner_text()


#: Have a saved page take edits, as one whose process is there.
ATTACH = f"() => {APP}.parts.live.attach({{ get: (name) => (name === 'edits' ? [] : {{}}), on() {{}}, off() {{}}, send() {{}} }})"


def test_fusion_says_why_a_line_is_not_one_kernel(opened, rotary):
    """The tab Fusion answers for the selected line: which of its nodes are apart."""
    tab = opened(rotary)
    click(tab, "torch.softmax")
    show(tab, "Fusion")
    said = tab.locator(".of-line p").all_inner_texts()
    assert "more than one kernel" in said[0] and "→" in said[1]


def twice(trace: Trace) -> Trace:
    """A trace with each text once more, as of a second frame: a short table has no filter."""
    copies = tuple(replace(a, id=a.id.replace("0/0", "1/0", 1), frame="1/0") for a in trace.artifacts if a.frame)
    again = {a.id.replace("1/0", "0/0", 1): a.id for a in copies}
    links = tuple(
        replace(each, source=again.get(each.source, each.source), target=again.get(each.target, each.target))
        for each in trace.links
    )
    return trace_of(replace(trace, artifacts=(*trace.artifacts, *copies), links=(*trace.links, *links)))


def test_the_filter_of_kernels_finds_every_line_of_one(opened, replayed):
    """A kernel is found by each line of the program that it computes, not only by the one that it shows."""
    trace = twice(replayed("views/layers-torch2.13-h100"))
    tab, known = opened(trace), payload(trace)
    titles = {info["artifact"]: called(info) for info in known["kernels"]}
    computed = [(info["place"], place["artifact"]) for info in known["lines"] for place in info["kernels"][0]]
    shown = {info["artifact"]: info["user"][2] for info in known["kernels"]}
    place, title = next((at, titles[kernel]) for at, kernel in computed if kernel in titles and at != shown[kernel])
    panel = show(tab, "Kernels")
    panel.get_by_label("filter kernels").fill(place)
    found = panel.get_by_role("table", name="kernels").locator("tbody tr").all_inner_texts()
    assert any(re.sub(r" _\d+$", "", title) in row for row in found)


def test_another_search_takes_the_place_of_the_last(opened, rotary):
    """A click into the search field selects the word that is in it; a click within it puts the caret there."""
    tab = opened(rotary)
    box = tab.get_by_label("search all texts")
    box.click()
    tab.keyboard.type("softmax")
    tab.get_by_role("tab", name="Kernels").click()
    box.click()
    tab.keyboard.type("sigmoid")
    assert box.input_value() == "sigmoid"
    box.click()
    tab.keyboard.press("End")
    tab.keyboard.type("s")
    assert box.input_value() == "sigmoids"


def test_a_line_is_followed_beside_an_edit(opened, rotary):
    """A click on a line leaves an edit and its draft where they are, and shows the line's kernels in a pane of their own."""
    tab = opened(rotary)
    tab.evaluate(ATTACH)
    click(tab, "torch.cos(angles)")
    edited = texts_shown(tab)[1]
    right = tab.get_by_role("region", name="right text")
    right.get_by_role("button", name="edit", exact=True).click()
    right.locator(".cm-content").press("Control+Home")
    tab.keyboard.type("# mine")
    click(tab, "torch.softmax")
    shown = texts_shown(tab)
    assert len(shown) == 3 and shown[1] == edited
    chips = strip(tab)
    assert len(chips) > 2 and [pressed for _, pressed in chips].index(True) == 0
    assert right.locator(".computing").count() == 0, "the strip stands over the kernel that is the line's"
    softmax = tab.locator(".computing .row button", has_text="softmax").first
    softmax.click()
    assert "softmax" in stage_and_kernel(rotary, texts_shown(tab)[2])[1]
    click(tab, "torch.cos(angles)")
    assert len(texts_shown(tab)) == 3, "another line opens there too"
    assert right.locator(".cm-content").inner_text().startswith("# mine") and right.locator(".edit-box").is_visible()


def test_the_next_kernel_of_a_line_opens_beside_the_edit_of_one(opened, rotary):
    """The strip over a kernel that is edited leads to the others in another pane."""
    tab = opened(rotary)
    tab.evaluate(ATTACH)
    click(tab, "torch.softmax")
    right = tab.get_by_role("region", name="right text")
    right.get_by_role("button", name="edit", exact=True).click()
    edited = texts_shown(tab)[1]
    right.locator(".computing .row button").last.click()
    shown = texts_shown(tab)
    assert len(shown) == 3 and shown[1] == edited != shown[2] and right.locator(".edit-box").is_visible()


def test_an_edit_begins_in_the_table_of_kernels(opened, rotary):
    """The button of a kernel opens its source, which is edited at once and has the focus; a saved trace has no such button."""
    tab = opened(rotary)
    panel = show(tab, "Kernels")
    button = panel.get_by_role("button", name="edit its source")
    row_of(panel, rotary.kernels[1].name).click()
    assert button.count() == 0
    tab.evaluate(ATTACH)
    button.click()
    tab.keyboard.press("Control+Home")
    tab.keyboard.type("# mine")
    assert rotary.kernels[1].artifact.id in texts_shown(tab)
    assert tab.locator(".editing .cm-content").inner_text().startswith("# mine")


def test_the_view_follows_the_kernel_that_is_opened(opened, rotary):
    """A text of a kernel that has nothing of the selected line selects a line of its own: the strip is that of the kernel."""
    tab = opened(rotary)
    kernel = next(one for one in rotary.kernels if "softmax" in one.name)
    row_of(show(tab, "Kernels"), kernel.name).click()
    show(tab, "Code")
    click(tab, "torch.cos(angles)")
    lit = "at => document.querySelector('#explorer').app.parts.selection.lit.has(at)"
    at = [artifact.id for artifact in rotary.artifacts].index(kernel.artifact.id)
    assert not tab.evaluate(lit, at), "the line is another kernel's"
    show(tab, "Kernels").locator(".ladder button").first.click()
    assert kernel.artifact.id in texts_shown(tab) and selected(tab)[0] == kernel.artifact.id
    assert [pressed for _, pressed in strip(tab)].count(True) == 1


def test_your_lines_with_what_computes_each(opened, rotary):
    """The table of kernels can be that of the program's lines: the time of each, and its kernels, which lead to their text."""
    tab = opened(rotary)
    panel = show(tab, "Kernels")
    lines = program_lines([rotary])
    panel.get_by_role("button", name=f"your lines {len(lines)}").click()
    assert not panel.get_by_role("table", name="kernels").is_visible()
    rows = panel.get_by_role("table", name="lines").locator("tbody tr")
    assert rows.count() == len(lines)
    softmax = next(line for line in lines if "torch.softmax" in line.first.line.code)
    row = rows.filter(has_text="torch.softmax")
    assert row.locator("button.place").count() == len(softmax.kernels[0])
    row.locator("button.place", has_text="softmax").click()
    assert "softmax" in stage_and_kernel(rotary, selected(tab)[0])[1]
    show(tab, "Kernels")
    panel.get_by_role("button", name=f"all {len(rotary.kernels) + len(rotary.inductor.extern_calls)}").click()
    assert panel.get_by_role("table", name="kernels").is_visible() and not panel.get_by_role("table", name="lines").is_visible()


# A call over several lines ------------------------------------------------------------------------------------------------

SOURCE = """def f(x):
    y = g(
        x,
        3,
    )
    return h(
        (
            x.sin()
            .cos(
                y
            )
        ),
        y,
    )
"""
#: Which lines of it the nodes of a graph come from.
TRACED = (2, 6, 8, 9)


def several_lines(source: str = SOURCE, traced: tuple[int, ...] = TRACED) -> Trace:
    """A trace of that function and its graph, each node of which comes from one line."""
    nodes = tuple({"name": f"n{line}", "op": "call_function", "target": "aten.sin"} for line in traced)
    text = "\n".join(f"n{line} = aten.sin()" for line in traced)
    data = {"file": "a.py", "function": "f", "line": 1, "first_line": 1, "qualname": "f", "resume": False, "compiled": True}
    function = Artifact("0/0:source", "source", "0/0", "", "f (a.py:1)", "python", source, data=data)
    graph = Artifact("0/0:dynamo", "dynamo", "0/0", "", "graph", "python", text, data={"nodes": nodes})
    links = tuple(Link(graph.id, (n,), function.id, (line,), "stack_trace") for n, line in enumerate(traced, 1))
    return Trace(meta={"name": "f"}, artifacts=(function, graph), links=links)


@pytest.mark.parametrize(
    ("source", "traced", "expected"),
    [
        (SOURCE, TRACED, {3: 2, 4: 2, 5: 2, 10: 9, 11: 9, 7: 6, 12: 6, 13: 6, 14: 6}),
        ("def f(x): return x\n", (1,), {}),
        ("    lambda x: (\n", (1,), {}),
        (SOURCE, (), {}),
        ("def f(x):\n    a = g(\n        x.sin(),\n        2)\n", (2, 3), {4: 2}),
    ],
)
def test_lines_with_arguments_belong_to_their_call(source, traced, expected):
    """A line that nothing comes from is the innermost call's around it, also in a chain of methods; a line of its own stays."""
    trace = several_lines(source, traced)
    assert argument_lines(trace, trace.artifacts[0]) == expected


def test_a_click_on_an_argument_selects_its_call(opened):
    """A click on a line with arguments alone lights what came of the call, and has the call's colour."""
    trace = several_lines()
    tab = opened(trace)
    for code, line in (("        3,", 2), ("                y", 9), ("        y,", 6)):
        at = SOURCE.split("\n").index(code) + 1
        tab.get_by_role("region", name="left text").locator(f'.line[data-line="{at}"]').click(position={"x": 60, "y": 9})
        assert selected(tab) == ("0/0:source", line)
        assert tab.evaluate(LIT) == [TRACED.index(line) + 1]
        look = f"([at, line]) => [at, line].map((one) => {APP}.parts.colours.look(0, one))"
        drawn(tab)
        first, second = tab.evaluate(look, [at, line])
        assert first == second is not None


def test_a_source_alone_gets_a_pane_beside_it(opened, rotary):
    """Where every other pane was closed, a click on a line opens what computes it in a new one, as the view says it does."""
    tab = opened(rotary)
    tab.get_by_role("button", name="close the right pane").click()
    assert len(texts_shown(tab)) == 1
    click(tab, "torch.cos(angles)")
    assert stage_and_kernel(rotary, texts_shown(tab)[1])[0] == "kernel" and lit_in_sight(tab)


def test_a_chip_has_the_time_of_what_is_shown(opened, replayed):
    """That of the one kernel or call which is shown; of several that do the same together while none of them is, with the number
    of launches that it is for.
    """
    trace = replayed("views/layers-torch2.13-h100")
    tab = opened(trace, "#view=code")
    click(tab, "self.up")
    shown, *others = [re.sub(r"\s+", " ", text) for text in tab.locator(".computing .row button").all_inner_texts()]
    known = payload(trace)
    costs = {info["title"]: info["cost"]["seconds"] for info in (*known["kernels"], *known["calls"])}

    def times(chip: str) -> tuple[int, float, float, str | None]:
        """How many a chip stands for, its time, and that of one of them, in microseconds, and for how many launches it is."""
        pattern = r"(?:(\d+) × )?(?:backward: )?(.*?)(?: \(1 of (\d+) alike\))? ≈ ([\d.]+) µs(?: in (\d+) launches)?"
        found = re.fullmatch(pattern, chip)
        assert found, chip
        return int(found[1] or found[3]), float(found[4]), costs[found[2]] * 1e6, found[5]

    count, time, own, launches = times(shown)
    assert count > 1 and time == pytest.approx(own, rel=0.05) and launches is None
    count, time, own, launches = times(others[0])
    assert count > 1 and time == pytest.approx(count * own, rel=0.05) and launches == str(count)


# The other texts of a kernel, and its lines ----------------------------------------------------------------------------------


def test_what_stands_over_a_kernel_takes_three_rows(opened, rotary):
    """In a pane of JupyterLab's view: the strip, every form with PTX beside SASS in sight, and what it is not fused with.

    The lines that the kernel computes stand beside the pane's tools, none of them cut off.
    """
    tab = opened(rotary)
    tab.set_viewport_size({"width": 970, "height": 680})
    tab.evaluate(ATTACH)
    click(tab, "torch.cos(angles)")
    pane = tab.get_by_role("region", name="right text")
    for form in ("source", "PTX"):
        pane.locator(".forms").get_by_role("button", name=form, exact=True).click()
        drawn(tab)
        assert pane.locator(".computing, .forms, .apart").evaluate_all(ROWS) == [1, 1, 1]
        for part in (pane.get_by_role("button", name="PTX + SASS"), pane.locator(".about .lines button").last):
            box, whole = part.bounding_box(), pane.bounding_box()
            assert box["x"] + box["width"] <= whole["x"] + whole["width"] and part.evaluate(IS_WHOLE)


def test_ptx_beside_sass_is_the_first_button_over_a_kernel(opened, rotary):
    """PTX beside SASS follows the source, and is the only outlined button: the filled one is the text that is shown."""
    tab = opened(rotary)
    tab.evaluate(ATTACH)
    click(tab, "torch.cos(angles)")
    forms = tab.get_by_role("group", name="kernel, right text").get_by_role("button")
    assert forms.all_inner_texts()[:3] == ["source", "PTX + SASS", "all forms"]
    shadows = forms.evaluate_all("forms => forms.map((form) => getComputedStyle(form).boxShadow)")
    assert [at for at, shadow in enumerate(shadows) if shadow != "none"] == [1]
    backs = forms.evaluate_all("forms => forms.map((form) => getComputedStyle(form).backgroundColor)")
    assert [at for at, back in enumerate(backs) if back != backs[1]] == [0]


def test_a_chip_keeps_the_number_of_its_kernel(opened, rotary):
    """However narrow the pane, a kernel's name is cut before its number, and the file before the line's number."""
    tab = opened(rotary)
    tab.set_viewport_size({"width": 970, "height": 680})
    click(tab, "torch.cos(angles)")
    strip = tab.locator(".computing")
    number = strip.get_by_role("button", pressed=True).locator(".stays", has_text=re.compile(r"_\d+$")).last
    place = strip.locator("> .in-parts")
    for part in (number, place.locator(".stays")):
        assert part.evaluate("e => e.clientWidth > 0 && e.scrollWidth <= e.clientWidth")
    assert place.get_attribute("title") == place.text_content()


def test_a_kernels_texts_are_a_press_away(opened, rotary):
    """Over a kernel stand its texts: a press shows another one in this pane, at a linked instruction."""
    tab = opened(rotary)
    click(tab, "torch.cos(angles)")
    kernel = stage_and_kernel(rotary, texts_shown(tab)[1])[1]
    bar = tab.get_by_role("group", name="kernel, right text")
    forms = bar.locator("button").all_inner_texts()
    assert forms[:2] == ["source", "all forms"] and forms[-1] == "PTX" and len(forms) == 6
    bar.get_by_role("button", name="PTX").click()
    assert stage_and_kernel(rotary, texts_shown(tab)[1]) == ("ptx", kernel) and lit_in_sight(tab)
    assert bar.get_by_role("button", pressed=True).all_inner_texts() == ["PTX"]


def test_the_users_lines_of_a_kernel_stand_over_it(opened, rotary):
    """They are those that the table of lines has for the kernel, by their numbers in the file; a press selects one, beside it."""
    tab = opened(rotary)
    click(tab, "torch.cos(angles)")
    shown = texts_shown(tab)
    kernel = next(a for a in rotary.artifacts if a.id == shown[1])
    lines = [row.first.line for row in program_lines([rotary]) if any(k.artifact is kernel for k in row.kernels[0])]
    buttons = tab.get_by_role("region", name="right text").locator(".lines button")
    assert [int(text) for text in buttons.all_inner_texts()] == [line.number for line in lines] and len(lines) > 1
    over = tab.get_by_role("region", name="right text").locator(".about")
    assert over.inner_text().startswith("your lines") and over.locator(".facts").is_hidden(), "nothing else is said there"
    assert int(over.locator(".lines").evaluate("lines => getComputedStyle(lines).fontWeight")) > 500
    other = next(n for n, line in enumerate(lines) if "torch.cos(angles)" not in line.code)
    buttons.nth(other).click()
    artifact, at = selected(tab)
    source = next(a for a in rotary.artifacts if a.id == artifact)
    assert source.lines[at - 1].strip() == lines[other].code and source.data["first_line"] + at - 1 == lines[other].number
    assert texts_shown(tab)[1] == kernel.id, "the kernel stays"


def test_a_source_opens_left_of_a_kernel_alone(opened, rotary):
    """Where the kernel's pane is the only one, a press on one of its lines opens the program before it, and keeps the kernel."""
    tab = opened(rotary)
    click(tab, "torch.cos(angles)")
    kernel = texts_shown(tab)[1]
    tab.get_by_role("button", name="close the left pane").click()
    assert texts_shown(tab) == [kernel]
    tab.get_by_role("region", name="left text").locator(".lines button").first.click()
    source, other = texts_shown(tab)
    assert other == kernel and source != kernel
    assert tab.get_by_role("region", name="left text").locator(".line.chosen").is_visible()


def test_lines_of_the_program_have_the_numbers_of_their_file(opened, rotary):
    """The numbers beside a source are those of its file, and "line…" goes to one of them."""
    tab = opened(rotary)
    source = next(a for a in rotary.find("source") if a.data["qualname"] == "gated")
    at = next(n for n, line in enumerate(source.lines) if "torch.sigmoid" in line)
    number = source.data["first_line"] + at
    pane = tab.get_by_role("region", name="left text")
    pane.get_by_role("button", name="go to line").click()
    pane.get_by_label("line:").fill(str(number))
    pane.get_by_label("line:").press("Enter")
    numbers = pane.locator(".cm-lineNumbers .cm-gutterElement")
    assert str(number) in numbers.all_inner_texts()
    assert pane.locator(".cm-line", has_text="torch.sigmoid").is_visible()


def test_a_click_leaves_the_page_where_it_is(opened, rotary):
    """In a long page, as a notebook is, a kernel's PTX opens at its linked lines within its pane; the page does not move."""
    tab = opened(rotary, "#view=code", viewport={"width": 1200, "height": 700})
    scrolled = in_a_long_page(tab)
    ptx = next(n for n, a in enumerate(rotary.artifacts) if a.stage == "ptx")
    tab.evaluate(f"(ptx) => {APP}.panes.show({APP}.panes.list[1], ptx)", ptx)
    tab.locator(".pane").first.dispatch_event("pointerdown")
    shown = set()
    for code in ("torch.cos(angles)", "open_by = torch.sigmoid"):
        tab.evaluate(CHOOSE, code)
        drawn(tab)
        assert tab.evaluate("scrollY") == scrolled and lit_in_sight(tab)
        shown.add(texts_shown(tab)[1])
    assert len(shown) == 2, "else nothing was opened"


CHOOSE = f"""(code) => {{
    const {{ panes, store, selection }} = {APP};
    const [pane] = panes.list;
    const line = pane.lines.findIndex((text) => text.includes(code)) + 1;
    selection.choose(pane.artifact, line, pane);
}}"""


def test_the_program_is_coloured_by_what_is_open_now(opened, rotary):
    """After another kernel is opened, no line of the program keeps the colour that it had for the one before."""
    tab = opened(rotary)
    tab.set_viewport_size({"width": 1280, "height": 1200})  # a kernel's computing lines stand below its decorator
    kernels = [n for n, a in enumerate(rotary.artifacts) if a.stage == "kernel"]
    for kernel in (kernels[1], kernels[0], kernels[3]):
        tab.evaluate(f"(kernel) => {APP}.panes.show({APP}.panes.list[1], kernel)", kernel)
        drawn(tab)
        looks = [
            set(pane.locator(".cm-line").evaluate_all("all => all.map((line) => line.dataset.source)"))
            for pane in tab.locator(".pane").all()
        ]
        coloured = [{look for look in each if look.isdigit()} for each in looks]
        assert coloured[0] <= coloured[1] and coloured[1], rotary.artifacts[kernel].id


# A line that computes nothing ---------------------------------------------------------------------------------------------------


def view_of_product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    product = x @ weight
    return product.view(2, 2, 8)


@pytest.mark.compile
def test_a_line_that_makes_a_view_says_why_it_has_no_kernel(opened):
    """The footer says that it makes a view; of the line that computes it says no such thing."""
    tab = opened(explorer.trace(view_of_product, torch.ones(4, 8), torch.ones(8, 8)), "#view=code")
    footer = tab.locator(".status")
    click(tab, "return product.view(2, 2, 8)")
    expect(footer).to_contain_text("it makes a view, which takes no kernel")
    click(tab, "product = x @ weight")
    expect(footer).to_contain_text("linked line")
    expect(footer).not_to_contain_text("makes a view")
