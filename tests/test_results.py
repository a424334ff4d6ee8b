"""The search lists the lines that it has found: the program's first, equal lines once, and a press leads to each."""

from __future__ import annotations

import re
from typing import Any

import pytest

from explorer.analysis.questions.program_lines import program_lines
from explorer.model.records import blank
from explorer.model.shared import Source
from explorer.model.values import Artifact
from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from tests.in_tab import drawn, load_axe, selected, serious, show, texts_shown

#: Whether an element has the focus.
HAS_FOCUS = "e => e === e.getRootNode().activeElement"
METADATA = ("triton_meta", "inductor_meta", "@", "import ", "from ", "def ", "# kernel path", "# Topologically")
#: The list as (heading, lines that are listed).
LISTED = """list => { const groups = []; for (const one of list.children) {
    if (one.tagName === 'H3') groups.push([one.textContent, []]);
    else if (one.matches('.hit')) groups.at(-1)[1].push(one.querySelector('code').textContent); } return groups; }"""


def search(tab: Any, word: str) -> Any:
    """Search for a word, as with the keyboard; the list."""
    tab.keyboard.press("/")
    tab.keyboard.type(word)
    found = tab.get_by_role("group", name="lines found")
    found.wait_for()
    return found


def lines_with(trace: Trace, word: str, *, metadata: bool) -> dict[str, set[str]]:
    """The lines that have a word, by stage; of kernels only those that are metadata, or the others.

    A line that has the word in its kernel's name alone is metadata.
    """
    found: dict[str, set[str]] = {}
    for a in trace.artifacts:
        for line in (line.strip() for line in a.lines if word in line.lower()):
            is_named = bool(a.kernel) and word not in line.replace(a.kernel, "").lower()
            if bool(a.kernel and (line.startswith(METADATA) or is_named)) is metadata:
                found.setdefault(a.stage, set()).add(line)
    return found


def test_lines_are_listed_by_stage_and_once(opened, rotary):
    """Each stage that has the word has a heading; equal lines are one; metadata of kernels comes last."""
    tab = opened(rotary)
    show(tab, "code")
    groups = search(tab, "rsqrt").evaluate(LISTED)
    bodies, last = groups[:-1], groups[-1]
    lines, metadata = lines_with(rotary, "rsqrt", metadata=False), lines_with(rotary, "rsqrt", metadata=True)
    assert len(bodies) == len(lines) and last[0] == "Metadata of kernels" and metadata
    everything = set().union(*lines.values())
    for _, listed in bodies:
        assert 0 < len(listed) <= 5 and len(set(listed)) == len(listed)
        assert all(any(cut.strip("…") in line for line in everything) for cut in listed)
    assert bodies[0][0] == "Python source"


def test_a_line_where_a_word_begins_comes_before_one_with_the_letters_inside(opened):
    """Parts of a name, such as _rope and Rope, begin as words do."""
    lines = ("properly = x", "x = property_of(x)", "self.apply_rope(x)", "y = MiniRope(x)", "rope = y")
    data = blank(Source, function="f", qualname="f", file="f.py", first_line=1, compiled=True)
    trace = Trace(artifacts=(Artifact("s", "source", "0/0", "", "f", "python", "\n".join(lines), data=data),))
    listed = search(opened(trace), "rope").evaluate(LISTED)
    assert listed == [["Python source", [lines[2], lines[3], lines[4], lines[0], lines[1]]]]


def test_a_line_says_which_text_it_is_in(opened, rotary):
    """A line of the program has its file, one of a kernel what the kernel computes."""
    found = search(opened(rotary), "rsqrt")
    assert ".py:" in found.locator("h3", has_text="Python source").locator("xpath=following-sibling::*[1]").inner_text()
    row = found.locator("h3", has_text=re.compile("^Kernel$")).locator("xpath=following-sibling::*[1]")
    computed = row.locator(".soft").first.inner_text()
    assert any(computed.startswith(info["title"]) for info in payload(rotary)["kernels"] if info["title"])


def test_enter_takes_the_first_line_of_the_list(opened, rotary):
    """Enter goes to the program's line, with the focus, and opens its kernel beside it. Again, to the next one."""
    tab = opened(rotary)
    found = search(tab, "softmax")
    first = found.evaluate(LISTED)[0]
    assert first[0] == "Python source"
    tab.keyboard.press("Enter")
    found.wait_for(state="hidden")
    drawn(tab)
    by_id = {a.id: a for a in rotary.artifacts}
    source, line = selected(tab)
    assert by_id[source].lines[line - 1].strip() == first[1][0]
    line_info = next(each for each in program_lines([rotary]) if each.first.line.code == first[1][0])
    beside = texts_shown(tab)[1]
    assert beside in {k.artifact.id for k in line_info.kernels[0]}
    assert tab.get_by_role("region", name="left text").locator(".cm-content").evaluate(HAS_FOCUS)
    tab.keyboard.press("/")
    tab.keyboard.press("Enter")
    kernel, line = selected(tab)
    assert by_id[kernel].stage == "kernel" and not by_id[kernel].lines[line - 1].strip().startswith(METADATA)
    tab.keyboard.press("/")
    tab.keyboard.press("Shift+Enter")
    assert selected(tab)[0] == source


def test_a_slash_after_enter_begins_another_search(opened, rotary):
    """The key that leads to the box takes the place of what Enter went through; within a word it is a letter."""
    tab = opened(rotary)
    box = tab.get_by_label("search all texts")
    found = search(tab, "softmax")
    tab.keyboard.press("Enter")
    found.wait_for(state="hidden")
    tab.keyboard.press("/")
    tab.keyboard.type("a/b")
    assert box.input_value() == "a/b"


def test_a_kernel_with_the_word_in_its_name_is_listed_by_it(opened, rotary):
    """It leads to the first line that computes something; its decorator and its signature stand with the metadata at the end."""
    tab = opened(rotary)
    groups = dict(search(tab, "softmax").evaluate(LISTED))
    kernels = [k.name for k in rotary.kernels if "softmax" in k.name]
    assert kernels and list(groups)[:2] == ["Python source", "Kernel"] and set(groups["Kernel"]) >= set(kernels)
    assert list(groups)[-1] == "Metadata of kernels"
    tab.get_by_role("group", name="lines found").get_by_role("button", name=kernels[0]).first.click()
    kernel, line = selected(tab)
    text = next(a for a in rotary.artifacts if a.id == kernel)
    assert text.kernel == kernels[0] and rotary.follow(kernel, line)
    signature = next(number for number, code in enumerate(text.lines, 1) if code.startswith("def "))
    assert line > signature


def test_what_dynamo_guards_comes_after_the_graphs(opened, rotary):
    """The long lines of guards and metrics stand behind those of the stages that compute."""
    tab = opened(rotary)
    titles = [title for title, _ in search(tab, "sigmoid").evaluate(LISTED)]
    late = [title for title in titles if title in ("Guards", "Compile metrics")]
    assert late and titles.index(late[0]) > titles.index("Dynamo FX graph")
    assert titles[titles.index(late[0]) :] in (late, [*late, "Metadata of kernels"])


def test_a_line_is_reached_by_keys(opened, rotary):
    """The arrow goes into the list and Enter to the line; the list is gone then."""
    tab = opened(rotary)
    show(tab, "code")
    found = search(tab, "rsqrt")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    found.wait_for(state="hidden")
    drawn(tab)
    artifact, line = selected(tab)[:2]
    text = next(a for a in rotary.artifacts if a.id == artifact)
    assert "rsqrt" in text.lines[line - 1] and text.stage == "source"


def test_escape_goes_back_to_the_box(opened, rotary):
    """And what was selected stays; more lines of a stage come at a press, with the focus on the first of them."""
    tab = opened(rotary)
    show(tab, "code")
    found = search(tab, "mul")
    before = found.locator(".hit").count()
    found.locator(".more").first.click()
    assert found.locator(".hit").count() > before
    tab.keyboard.press("Escape")
    found.wait_for(state="hidden")
    focused = tab.evaluate("() => document.querySelector('#explorer').shadowRoot.activeElement.getAttribute('aria-label')")
    assert focused == "search all texts"


def test_what_is_not_found_lists_nothing(opened, rotary):
    """The count says so."""
    tab = opened(rotary)
    tab.keyboard.press("/")
    tab.keyboard.type("no such word")
    tab.get_by_text("0 lines in 0 texts").wait_for()
    assert tab.get_by_role("group", name="lines found").get_by_role("button").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_what_opens_by_a_key(opened, rotary, scheme):
    """The list of the search, and the list of the keys."""
    tab = opened(rotary, color_scheme=scheme)
    show(tab, "code")
    load_axe(tab)
    search(tab, "mul")
    assert serious(tab) == []
    tab.keyboard.press("Escape")
    tab.keyboard.press("?")
    tab.get_by_role("dialog", name="keys").wait_for()
    assert serious(tab) == []


#: The names in the rail whose text lies over what stands beside it, such as how many lines were found.
OVERPRINTED = """root => [...root.querySelectorAll('.item[role=treeitem]')].flatMap((item) => {
    const rects = (one) => {
        const range = document.createRange();
        range.selectNodeContents(one);
        return [...range.getClientRects()];
    };
    const beside = [...item.querySelectorAll('.side, .found, .links, .size, .time')].flatMap(rects).filter(({ width }) => width);
    const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
    const label = item.querySelector('.label');
    return rects(label).some((a) => beside.some((b) => over(a, b))) ? [label.textContent] : [];
})"""


#: The words of names, in parts that end with "_" or ".", that go on in another line.
BROKEN = r"""(rail) => [...rail.querySelectorAll(".item .label")].flatMap((label) =>
    [...label.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).flatMap((node) =>
        [...node.data.matchAll(/\S+/g)].filter(({ 0: word, index }) => {
            const range = document.createRange();
            range.setStart(node, index);
            range.setEnd(node, index + word.length);
            return range.getClientRects().length > 1;
        }).map(([word]) => word)))"""


def test_names_in_the_rail_break_between_their_parts(opened, rotary):
    """A name that goes on in another line does so after "_", "." or a space, not within a word."""
    tab = opened(rotary)
    show(tab, "Code")
    search(tab, "softmax")
    tab.keyboard.press("Enter")
    drawn(tab)
    rail = tab.get_by_role("navigation", name="stages of the compile")
    lines = rail.locator(".item .label").evaluate_all("labels => labels.map((one) => one.getClientRects()[0].height)")
    assert max(lines) > 1.5 * min(lines) and rail.evaluate(BROKEN) == []


@pytest.mark.parametrize("width", [970, 1400])
def test_no_name_in_the_rail_lies_over_the_lines_found(opened, rotary, width):
    """Names leave room for what stands beside them, however many lines are found and linked."""
    tab = opened(rotary, viewport={"width": width, "height": 680})
    show(tab, "code")
    search(tab, "t")
    tab.keyboard.press("Enter")
    drawn(tab)
    rail = tab.get_by_role("navigation", name="stages of the compile")
    rail.locator(".found", has_text="×").first.wait_for()
    assert rail.evaluate(OVERPRINTED) == []
    rail.evaluate("rail => { for (const mark of rail.querySelectorAll('.edited-mark')) mark.textContent = 'edited'; }")
    assert rail.evaluate(OVERPRINTED) == []  # nor where an edit of a kernel is marked too
