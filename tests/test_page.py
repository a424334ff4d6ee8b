"""The saved page: its texts, links and selection, its keys and its address, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.analysis.questions import provenance
from explorer.capture.compilers.iree.targets import TARGETS as IREE_TARGETS
from explorer.capture.compilers.tvm.targets import TARGETS as TVM_TARGETS
from explorer.model.records import blank
from explorer.model.shared import Kernel, Source
from explorer.model.values import Artifact, Failure, Link, plain, text_lines
from explorer.stages.records import ARTIFACTS
from explorer.stages.torch_compile.cache import CacheLookup, CacheLookups
from explorer.tracing.traced import Trace
from explorer.view import page
from explorer.view.payload import payload
from tests.facts import untold
from tests.in_tab import SOURCES, functions, wait_for_colours
from tests.tabs import to_texts, to_view

FOCUSED = "document.querySelector('#explorer').shadowRoot.activeElement"
HOSTILE = '</script><img src=x onerror="window.hacked=1"><!--<script>window.hacked=2//\'"&\u202e\u2028\ud800 ${1}`'

#: The words that are explained, which are in the front end as they are.
HELP = Path(explorer.__file__).parent / "reference" / "help"
TABLES = [table.read_text(encoding="utf-8") for table in sorted(HELP.glob("*.tsv"))]

Opened = Callable[..., Any]


# Traces made by hand -----------------------------------------------------------------------------------------------------


def source(text: str, **more: object) -> Artifact:
    """The source of the frame 0/0."""
    data = blank(Source, function="f", qualname="f", file="f.py", first_line=1, compiled=True)
    return Artifact("0/0:source", "source", "0/0", "", "f (f.py:1)", "python", text, data=data, **more)


def text_of(stage: str, text: str, graph: str = "", id: str = "", **more: object) -> Artifact:
    """An artifact of the frame 0/0."""
    data = blank(ARTIFACTS[stage])
    return Artifact(id or f"0/0:{stage}", stage, "0/0", graph, stage, more.pop("language", "fx"), text, **{"data": data, **more})


def numbered(count: int, word: str = "line") -> str:
    return "\n".join(f"{word} {n} of the text" for n in range(1, count + 1))


@pytest.fixture(scope="module")
def small() -> Trace:
    """Two source lines; the second became lines 2 and 90 of a graph, and by the graph line 3 of a kernel."""
    artifacts = (
        source("def f(x):\n    return x.sin() + 1"),
        text_of("dynamo", numbered(100, "graph"), seconds=0.25),
        text_of("output_code", numbered(5, "wrapper"), "inference"),
        text_of("kernel", numbered(4, "kernel"), "inference", kernel="fused_sin_0", language="cpp"),
    )
    links = (
        Link("0/0:dynamo", (2, 90), "0/0:source", (2,), "stack_trace"),
        Link("0/0:output_code", (4,), "0/0:dynamo", (90,), "line map"),
        Link("0/0:kernel", (3,), "0/0:output_code", (4,), "cut out"),
    )
    return Trace(plain({"name": "f", "target": "cpu"}), artifacts, links)


# Reading the page --------------------------------------------------------------------------------------------------


def pane(tab: Any, side: str) -> Any:
    return tab.get_by_role("region", name=f"{side} text")


def line(tab: Any, side: str, number: int) -> Any:
    return pane(tab, side).locator(f'.line[data-line="{number}"]')


def lit(tab: Any, side: str) -> list[int]:
    """The numbers of the lit lines that a pane shows."""
    return [int(n) for n in pane(tab, side).locator(".line.lit").evaluate_all("rows => rows.map(r => r.dataset.line)")]


def stage_of(tab: Any, side: str) -> str:
    """The title of the text that a pane shows."""
    return str(pane(tab, side).locator("select").evaluate("s => s.selectedOptions[0].textContent"))


def signs(tab: Any, side: str) -> list[str]:
    """The signs that stand beside the lines a pane shows."""
    return [t for t in pane(tab, side).locator(".signs .sign").all_inner_texts() if t]


def module(name: str) -> str:
    return (SOURCES / name).read_text(encoding="utf-8")


# The page ----------------------------------------------------------------------------------------------------------------


def test_page_opens_from_the_file_system(opened, small):
    """A saved page opens by file://, without console errors or requests, and shows name, counts, stages and two texts."""
    tab = opened(small)
    assert tab.locator("#explorer").get_attribute("data-state") == "ready"
    assert tab.title() == "f · explorer"
    assert tab.get_by_role("heading").inner_text() == "f"
    assert "1 frame, 1 kernel" in tab.locator("header").inner_text()
    assert "return x.sin() + 1" in line(tab, "left", 2).inner_text()
    assert "kernel 1 of the text" in line(tab, "right", 1).inner_text()


def test_the_page_begins_with_the_source_of_the_kernel(opened):
    """Beside a kernel stands the source that its lines come from, not the wrapper that the frame begins with."""
    wrapper, own = source("def wrapper(): ..."), replace(source("def forward(x): ..."), id="own", title="forward")
    kernel = text_of("kernel", "import triton\ny = x")
    link = Link(kernel.id, (2,), own.id, (1,), "codegen")
    tab = opened(Trace(artifacts=(wrapper, own, kernel), links=(link,)))
    assert "def forward" in tab.locator(".pane").first.locator(".cm-content").inner_text()
    tab = opened(Trace(artifacts=(wrapper, own, kernel)))
    assert "def wrapper" in tab.locator(".pane").first.locator(".cm-content").inner_text(), "where no link says"


def test_a_click_lights_every_linked_line(opened, small):
    """A click on the user's line lights all that came from it, over any distance, and marks the texts in the rail."""
    tab = opened(small)
    line(tab, "left", 2).click()
    assert lit(tab, "right") == [3]
    assert signs(tab, "left") == ["▶"] and signs(tab, "right") == ["◆"]
    line(tab, "right", 3).hover(position={"x": 30, "y": 9})
    assert "linked by" in (told := tab.locator(".hover").inner_text()) and "stack_trace → line map → cut out" in told
    marked = tab.locator(".item.linked").evaluate_all("rows => rows.map(r => r.querySelector('.label').textContent)")
    assert marked == ["0/0 f", "Dynamo FX graph", "inference graph", "Output code", "fused_sin_0"]
    status = tab.locator(".status").inner_text()
    assert not untold(status, "4 linked", "3 texts", "line map")


def test_a_click_scrolls_to_a_linked_line(opened, small):
    """The linked line to which the fewest links lead is brought into view in the other pane."""
    tab = opened(small)
    pane(tab, "left").locator("select").select_option("1")
    line(tab, "right", 3).click()
    assert lit(tab, "left") == [90]
    assert pane(tab, "left").locator(".count").get_attribute("title") == "2 linked lines"


def test_a_text_opens_beside_the_selected_line(opened, small):
    """A click in the rail shows the text in the pane that does not hold the selected line, at a linked line."""
    tab = opened(small)
    line(tab, "left", 2).click()
    tab.get_by_role("treeitem", name="Dynamo FX graph").click()
    assert (stage_of(tab, "left"), stage_of(tab, "right")) == ("f (f.py:1)", "dynamo")
    assert lit(tab, "right")[0] == 2
    tab.get_by_role("button", name="next linked line, right text").click()
    assert lit(tab, "right") == [90]
    tab.get_by_role("button", name="next linked line, right text").click()
    assert lit(tab, "right") == [2]


def test_the_lines_of_one_user_line_have_one_colour(opened, small):
    """Lines that came from the same user line bear the same colour in every text, others none."""
    tab = opened(small)
    of = "row => row.dataset.source"
    wait_for_colours(tab)
    assert line(tab, "left", 2).evaluate(of) == line(tab, "right", 3).evaluate(of) == "0"
    assert line(tab, "right", 1).evaluate(of) == line(tab, "left", 1).evaluate(of) == ""


def test_escape_takes_the_light_away(opened, small):
    """Escape clears the selection in panes and rail."""
    tab = opened(small)
    line(tab, "left", 2).click()
    tab.keyboard.press("Escape")
    assert tab.locator(".line.lit, .line.chosen, .item.linked").count() == 0


def test_keyboard_alone_walks_from_source_to_kernel(opened, small):
    """Arrows move in panes and rail, Enter opens, left and right walk the stages of a pane; focus is never lost."""
    tab = opened(small)
    pane(tab, "left").get_by_role("textbox").focus()
    tab.keyboard.press("ArrowDown")
    assert lit(tab, "right") == [3]
    assert line(tab, "left", 2).get_attribute("class").split()[-1] == "chosen"
    tab.keyboard.press("ArrowRight")
    assert stage_of(tab, "left") == "dynamo"
    tab.keyboard.press("ArrowLeft")
    tab.locator('.item[tabindex="0"]').focus()
    tab.keyboard.press("End")
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("Enter")
    assert (stage_of(tab, "left"), stage_of(tab, "right")) == ("f (f.py:1)", "output_code · inference")
    assert tab.evaluate(f"{FOCUSED}.getAttribute('role')") == "treeitem"
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate(f"{FOCUSED}.getAttribute('aria-expanded')") == "false"
    assert tab.get_by_role("treeitem", name="fused_sin_0").count() == 0


def test_roles_and_labels_name_every_part(opened, small):
    """A screen reader finds the tree with levels, labelled texts that cannot be changed, selectors, views and search."""
    tab = opened(small)
    tree = tab.get_by_role("tree", name="stages")
    assert [i.get_attribute("aria-level") for i in tree.get_by_role("treeitem").all()] == ["1", "2", "2", "2", "3", "3"]
    for side in ("left", "right"):
        assert tab.get_by_role("combobox", name=f"stage in the {side} pane").count() == 1
        assert tab.get_by_role("textbox", name=f"{side} text, lines").get_attribute("aria-readonly") == "true"
    assert tab.get_by_role("searchbox", name="search all texts").count() == 1
    assert tab.get_by_role("tab", name="Code").get_attribute("aria-selected") == "true"


def test_search_finds_in_every_text(opened, small):
    """A search counts the lines found in every text, marks them, and Enter walks them from text to text."""
    tab = opened(small)
    tab.keyboard.press("/")
    tab.keyboard.type("4 OF")
    tab.locator(".matches", has_text=re.compile("^12 lines in 3 texts$")).wait_for()  # between two letters it may search, too
    assert "".join(pane(tab, "right").locator("mark").all_inner_texts()) == "4 of"
    tab.keyboard.press("Enter")
    assert "4 of the text" in tab.locator(".line.chosen").first.inner_text()
    tab.keyboard.press("/")
    tab.keyboard.press("Shift+Enter")
    assert "wrapper 4 of the text" in tab.locator(".line.chosen").first.inner_text()


def test_enter_right_after_the_last_letter_searches_for_the_word(opened, small):
    """Enter does not wait for the pause after which a search begins, and does not walk what an earlier word has found."""
    tab = opened(small)
    tab.get_by_role("searchbox").fill("wrapper 5")
    tab.locator(".matches", has_text="1 line in 1 text").wait_for()
    tab.get_by_role("searchbox").fill("graph 7 of")
    tab.keyboard.press("Enter")
    assert "graph 7 of the text" in tab.locator(".line.chosen").first.inner_text()
    assert tab.locator(".matches").inner_text() == "1 line in 1 text"


@pytest.mark.parametrize(
    ("fragment", "shown", "chosen"),
    [
        ("#0/0:dynamo:90", "dynamo", "90"),
        ("#0/0:output_code", "output_code · inference", None),
        ("#0%2F0%3Adynamo:5000", "dynamo", "100"),
    ],
)
def test_fragment_opens_its_place(opened, small, fragment, shown, chosen):
    """A URL fragment `#artifact:line` opens that text at that line, the last one if there are fewer."""
    tab = opened(small, fragment)
    assert stage_of(tab, "right") == shown
    assert pane(tab, "right").locator(".line.chosen").evaluate_all("rows => rows.map(r => r.dataset.line)") == (
        [chosen] if chosen else []
    )


def test_fragment_follows_the_selection(opened, small):
    """A selected line is in the address, so that it can be sent to somebody; one that does not exist changes nothing."""
    tab = opened(small, "#nothing:3")
    assert tab.evaluate("location.hash") == "#nothing:3", "nothing was moved yet"
    to_texts(tab)
    line(tab, "left", 2).click()
    assert tab.evaluate("location.hash") == "#view=code&left=0/0:source&right=0/0:kernel&at=0/0:source:2"
    tab.evaluate("location.hash = '#0/0:dynamo:7'")
    tab.wait_for_selector('.line.chosen[data-line="7"]')


def test_a_link_is_the_view_the_panes_and_the_line(opened, small):
    """An address copied from one page opens another with its view, the same text in each pane, and the line selected."""
    tab = opened(small, permissions=["clipboard-read", "clipboard-write"])
    tab.get_by_role("button", name="add a text pane").click()
    pane(tab, "third").locator("select").select_option("1")
    line(tab, "left", 2).click()
    texts = [stage_of(tab, side) for side in ("left", "right", "third")]
    to_view(tab, "Diff")
    tab.get_by_role("button", name="copy a link to what is shown").click()
    tab.locator(".status", has_text="Copied").wait_for()
    link = tab.evaluate("navigator.clipboard.readText()")
    assert link == tab.evaluate("location.href")
    to_view(tab, "Code")
    assert tab.locator(".status").inner_text().startswith("Line 2 of "), "another view says what is selected, not what was copied"
    other = opened(small, f"#{link.partition('#')[2]}")
    assert other.get_by_role("tab", name="Diff").get_attribute("aria-selected") == "true"
    to_view(other, "Code")
    assert [stage_of(other, side) for side in ("left", "right", "third")] == texts
    assert "return x.sin() + 1" in other.locator(".line.chosen").inner_text() and lit(other, "third") == [2]


def test_a_link_of_another_trace_shows_what_there_is(opened, small):
    """Texts and views that a trace lacks are left out of a link: where nothing is left of it, the overview stays."""
    tab = opened(small, "#view=<img src=x>&at=%ff:1&&=")
    assert tab.get_by_role("tab", name="Overview").get_attribute("aria-selected") == "true", "hostile ones are text"
    to_texts(tab)
    assert tab.locator(".pane").count() == 2 and stage_of(tab, "right") == "kernel · inference"
    tab = opened(small, "#view=nothing&left=gone&right=0/0:dynamo&at=gone:1")
    assert stage_of(tab, "left") == "dynamo" and tab.locator(".pane").count() == 1
    tab = opened(small, "#view=memory")  # which other traces have
    assert tab.get_by_role("tab", name="Overview").get_attribute("aria-selected") == "true" and tab.locator(".pane").count() == 2


def test_a_link_fills_its_panes_whatever_line_is_selected(opened, small):
    """Also where the selected line is of a text that no pane shows, the panes are those of the link."""
    tab = opened(small, "#left=0/0:source&right=0/0:dynamo&at=0/0:kernel:2")
    assert [stage_of(tab, side) for side in ("left", "right")] == ["f (f.py:1)", "dynamo"]


def test_an_empty_table_keeps_its_columns(opened, small):
    """A filter that leaves no row leaves the headings; a trace without a guard has the headings of their table."""
    tab = opened(replace(small, artifacts=(*small.artifacts, text_of("recompile", "r", data=blank(ARTIFACTS["recompile"])))))
    to_view(tab, "Guards")
    guards = tab.get_by_role("table", name="guards")
    assert guards.locator("thead th").all_inner_texts() == ["must hold", "line", "seen at"]
    assert guards.locator("tbody tr").count() == 0


def test_failures_are_chips_that_tell_all(opened):
    """Each failure is a button in the header; pressed it shows the whole message and opens the stage's text."""
    failures = (
        Failure("kernel", "link", "ValueError: " + "long" * 200),
        Failure("compile", "InductorError", "no compiler", True),
    )
    trace = Trace(artifacts=(source("def f(): pass"), text_of("kernel", "k"), text_of("assembly", "a")), failures=failures)
    tab = opened(trace)
    chip = tab.get_by_role("button", name="Kernel: lines not linked")
    chip.click()
    detail = tab.locator(".detail").inner_text()
    assert detail.startswith("Kernel") and detail.endswith(failures[0].message)
    assert chip.get_attribute("aria-expanded") == "true"
    tab.get_by_role("button", name="compile: InductorError").click()
    assert "no compiler" in tab.locator(".detail").inner_text()
    assert chip.get_attribute("aria-expanded") == "false"


def test_what_explorer_calls_its_own_work_is_said_in_words(opened, shown):
    """A stage by its title, a step by what it means, a device that each call chose: in the view, its static form and the repr."""
    failures = (Failure("decompiled", "record", "ValueError: no"), Failure("guards", "render", "KeyError: 'x'"))
    artifacts = (
        source("def f(): pass"),
        Artifact("g", "ttgir", "0/0", "", "k", "mlir", "%0 = tt.load loc(#loc1)\n#loc1 = loc(1:1)"),
    )
    trace = Trace(artifacts=artifacts, failures=failures, meta={"name": "f", "target": "auto"})
    tab = opened(trace)
    assert tab.locator(".chip").all_inner_texts() == ["⚠ Decompiled: not recorded", "⚠ Guards: not shown"]
    assert not untold(tab.locator(".meta").inner_text(), "target", "device")
    assert tab.get_by_role("button", name="show locations").first.inner_text() == "locations"
    static = shown(page.static_summary(trace), java_script_enabled=False).locator("body").inner_text()
    for text in (static, repr(trace)):
        assert not untold(text, "decompiled", "ValueError: no", "device")
        assert "auto" not in text and " / record" not in text


def test_what_stopped_the_compile_is_told_from_the_start(opened):
    """The reason of a failure that ended the compile is on the page before anything is pressed; its chip puts it away."""
    failures = (Failure("kernel", "link", "a lesser one"), Failure("compile", "InductorError", "no compiler here", True))
    tab = opened(Trace(artifacts=(source("def f(): pass"), text_of("kernel", "k")), failures=failures))
    assert "no compiler here" in tab.locator(".detail").inner_text()
    chip = tab.get_by_role("button", name="compile: InductorError")
    assert chip.get_attribute("aria-expanded") == "true"
    chip.click()
    assert tab.locator(".detail").is_hidden() and chip.get_attribute("aria-expanded") == "false"


def test_why_nothing_was_compiled_is_told_from_the_start(opened):
    """A function that no graph was made of: the one reason is on the page, without a click."""
    tab = opened(Trace(artifacts=(source("def f(): pass"),), failures=(Failure("dynamo", "compile", "no tensor operation"),)))
    assert "no tensor operation" in tab.locator(".detail").inner_text()


def test_what_came_from_a_cache_is_told_at_the_top(opened):
    """A graph that was loaded has no node for a kernel's line: the page says so, and how to see all. Others say nothing."""
    hit = blank(CacheLookup, cache="FX graph", state="hit", key="f00")
    lookups = replace(text_of("cache", "FX graph: hit"), data=CacheLookups(rows=(hit,)))
    tab = opened(Trace(artifacts=(source("def f(): pass"), text_of("output_code", "code"), lookups)))
    assert not untold(tab.locator("header .notice").inner_text(), "cache", "0/0", "post_grad", "record(fresh=True)")
    assert (
        not opened(Trace(artifacts=(source("def f(): pass"), text_of("output_code", "code")))).locator("header .notice").count()
    )


def test_colours_follow_the_system(opened, small):
    """The page is light or dark as the system is, and readable in both."""
    back = "getComputedStyle(document.querySelector('#explorer').shadowRoot.querySelector('.explorer')).backgroundColor"
    assert opened(small, color_scheme="light").evaluate(back) == "rgb(255, 255, 255)"
    assert opened(small, color_scheme="dark").evaluate(back) == "rgb(20, 23, 28)"


@pytest.mark.compile
def test_an_empty_trace_opens(opened):
    """A trace of nothing opens as a page that says so."""
    tab = opened(Trace())
    assert "nothing compiled" in tab.locator("header").inner_text()
    assert "explorer.record()" in tab.locator("main").inner_text(), "and what there is to do about it"
    assert tab.locator("button:visible, select:visible, input:visible").count() == 1, "the tab: nothing that does nothing"
    to_texts(tab)
    assert tab.locator("button:visible, select:visible, input:visible").count() == 1, "nor when the tab is pressed"


def test_at_200_percent_the_texts_can_be_read(opened, small):
    """On a window of 1280 × 800 at 200 % zoom, which is 640 × 400, each text has room for several lines."""
    tab = opened(small)
    tab.set_viewport_size({"width": 640, "height": 400})
    heights = tab.locator(".pane .cm-scroller").evaluate_all("all => all.map(one => one.clientHeight)")
    assert len(heights) == 2 and min(heights) > 5 * 18
    tab.locator(".pane").nth(1).scroll_into_view_if_needed()  # the page scrolls there


def test_texts_of_nested_graphs_are_told_apart(opened):
    """Several texts of one stage stand under its name by what tells them apart: the graph that each is of."""
    titles = ("Pre-grad graph", "Pre-grad graph of true_graph_0", "Pre-grad graph of false_graph_0")
    graphs = [Artifact(f"0/0:pre_grad:{n}", "pre_grad", "0/0", "", title, "fx", "x") for n, title in enumerate(titles)]
    tab = opened(Trace(artifacts=(source("def f(): pass"), *graphs)))
    shown = tab.locator('.item[aria-level="3"] .label').all_inner_texts()
    assert shown == ["Pre-grad graph", "true_graph_0", "false_graph_0"]


# Big texts ---------------------------------------------------------------------------------------------------------------


def test_a_text_of_50000_lines_opens(opened):
    """Of a text of 50,000 lines only those in view are in the document, and its last line is a key away."""
    tab = opened(Trace(artifacts=(source("def f(): pass"), text_of("kernel", numbered(50_000), language="cpp"))))
    assert tab.locator(".line").count() < 200
    pane(tab, "right").get_by_role("textbox").focus()
    tab.keyboard.press("Control+End")
    assert "line 50000 of the text" in line(tab, "right", 50_000).inner_text()
    assert tab.locator(".line").count() < 200


def test_a_very_long_line_opens(opened):
    """Of a line of 200,000 characters the part in view is in the document, and its end is a key away."""
    tab = opened(Trace(artifacts=(source("x"), text_of("kernel", "ab(1) " * 33_334 + "the end\nnext"))))
    assert len(line(tab, "right", 1).inner_text()) < 50_000
    pane(tab, "right").get_by_role("textbox").focus()
    tab.keyboard.press("End")
    line(tab, "right", 1).filter(has_text=re.compile("the end$")).wait_for()


# Safety ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile() -> Trace:
    """A trace whose every text field tries to run something."""
    of_source = blank(Source, function=HOSTILE, qualname=HOSTILE, file=HOSTILE, first_line=1, compiled=True)
    of_kernel = blank(Kernel, name=HOSTILE, language=HOSTILE, comment=HOSTILE)
    stages = (("source", "", "", of_source), ("kernel", HOSTILE, HOSTILE, of_kernel), (HOSTILE, HOSTILE, "", dict(of_source)))
    artifacts = tuple(
        Artifact(
            f"{n}{HOSTILE}",
            stage,
            HOSTILE,
            graph,
            HOSTILE,
            HOSTILE,
            f"{HOSTILE}\n{HOSTILE}",
            kernel,
            1.0,
            data=data,
            path=((HOSTILE, 1, HOSTILE),),
        )
        for n, (stage, graph, kernel, data) in enumerate(stages)
    )
    links = (Link(artifacts[1].id, (1, 2), artifacts[0].id, (1, 2), HOSTILE),)
    names = ("name", "target", "mode", "backend", "torch", "triton", HOSTILE)
    failures = (Failure(HOSTILE, HOSTILE, HOSTILE, fatal=True), Failure("kernel", HOSTILE, HOSTILE))
    return Trace(plain(dict.fromkeys(names, HOSTILE)), artifacts, links, failures)


def test_hostile_texts_are_shown_and_do_nothing(opened, hostile):
    """Markup in any field of a trace is shown as the text it is: nothing runs, and no element is made of it."""
    tab = opened(hostile)
    line(tab, "left", 1).click()
    for chip in tab.locator(".chip").all():
        chip.click()
    tab.get_by_role("searchbox").fill("</script><img")
    tab.wait_for_selector("mark")
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("img:not(.cm-widgetBuffer), img[src], img[onerror]").count() == 0  # CodeMirror has an empty one of its own
    assert tab.locator("script").count() == 2
    assert '</script><img src=x onerror="window.hacked=1">' in line(tab, "left", 1).inner_text()
    tab.keyboard.press("Escape")  # the list of lines found stands over the text
    line(tab, "right", 1).hover(position={"x": 30, "y": 9})
    assert "<img" in tab.locator(".hover").inner_text()
    assert tab.evaluate("window.hacked") is None


def test_the_policy_runs_no_other_script(tabs, saved, small):
    """The page's Content-Security-Policy refuses a script, a handler and a request that are not the page's own."""
    tab = tabs()
    tab.goto(saved(small).as_uri())
    tab.wait_for_selector("#explorer[data-state=ready]")
    # a script runs when it is appended; a handler runs before a listener that was added after it
    attack = """async () => {
        const script = document.createElement('script'); script.textContent = 'window.hacked = 1'; document.body.append(script);
        const image = document.createElement('img'); image.setAttribute('onerror', 'window.hacked = 2');
        const failed = new Promise((done) => image.addEventListener('error', done));
        image.src = 'x.png';
        document.body.append(image);
        await failed;
        return fetch('https://example.invalid/').then(() => 'fetched', () => 'refused');
    }"""
    assert tab.evaluate(attack) == "refused"
    assert tab.evaluate("window.hacked") is None


class Tags(HTMLParser):
    """The elements and attribute names of an HTML text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)


def test_the_file_names_no_address_and_keeps_hostile_text_out_of_its_markup(hostile):
    """The file loads nothing from outside itself, and holds no markup that the trace brought.

    The only addresses in it are the links of the words that are explained, which are followed by a click.
    """
    text = page.document(hostile)
    ours = page.bundle()
    for link in sorted({link for table in TABLES for link in re.findall(r"https?://[^\s\t]+", table)}, key=len, reverse=True):
        ours = ours.replace(link, "")
    assert "window.hacked=1" not in text.replace(page.static_summary(hostile), "").replace(page.escaped(HOSTILE), "")
    assert not re.search(r"\b(?:src|href)\s*=\s*[\"'`]|@import|\bfetch\(|XMLHttpRequest|https?://(?!www\.w3\.org/)", ours)
    assert "default-src 'none'" in text and "unsafe" not in text.partition("</head>")[0]


def test_equal_traces_give_equal_pages(small):
    """The page of a trace is the same each time."""
    assert page.document(small) == page.document(small)


def test_the_bundle_is_small():
    """The front end is at most 677.4 KB beside the tables of words, and the bundler kept `</script` out of it."""
    assert len(page.bundle().encode()) <= 677_400 + sum(len(table.encode()) for table in TABLES) <= 778_200
    assert "</script" not in page.bundle()


# What the page computes by itself ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attention-torch2.13-cpu", "mlp_train-torch2.11-cuda"])
def test_the_page_follows_links_as_python_does(tabs, replayed, small, name):
    """From any line the page's own walk reaches exactly the lines that `Trace.follow` reaches."""
    tab = functions(tabs(), "links.js")
    walk = """([made, places]) => {
        const links = new js.Links(made.links, made.hows);
        return places.map(([a, l]) => [...links.follow(a, l)].flatMap(([b, m]) => [...m.keys()].map((k) => [b, k])));
    }"""
    for trace in (replayed(name), small):
        made = payload(trace)
        ids = [a.id for a in trace.artifacts]
        places = [(n, k) for n, a in enumerate(trace.artifacts) for k in range(1, len(a.lines) + 1, 1 + len(a.lines) // 20)]
        reached = tab.evaluate(walk, [{"links": made["links"], "hows": made["hows"]}, places])
        for (artifact, number), found in zip(places, reached, strict=True):
            rows = provenance.follow(trace, ids[artifact], number)
            assert {(ids[a], k) for a, k in found} == {(row["artifact"], k) for row in rows for k in row["lines"]}


@pytest.mark.parametrize(
    "text", ["", "\n", "a", "a\n", "a\n\nb", "a\r\nb\rc\n", "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i", "\n\n"]
)
def test_the_page_counts_lines_as_python_does(tabs, text):
    """The page breaks a text into the lines that `Artifact.lines` has, so that line numbers agree."""
    tab = functions(tabs(), "text.js")
    assert tab.evaluate("text => js.splitLines(text)", text) == text_lines(text)


@pytest.mark.parametrize("language", ["python", "fx", "cpp", "asm", "hlo", "onnx", "diff", "xml", "wgsl", "text", "unheard-of"])
def test_colouring_keeps_every_character(tabs, replayed, language):
    """Cut into tokens for colouring, a line is still the same characters in the same order."""
    tab = functions(tabs(), "text.js")
    lines = [
        *replayed("attention-torch2.13-cpu").text("output_code").splitlines(),
        HOSTILE.replace("\ud800", ""),
        '"open',
        "'",
        "x" * 5000,
    ]
    cut = tab.evaluate("([lines, language]) => lines.map(l => js.tokens(l, language))", [lines, language])
    assert ["".join(part for _, part in parts) for parts in cut] == lines


def coloured(tab: Any, line: str, language: str) -> dict[str, list[str]]:
    """The parts of a line that are coloured, by their kind."""
    parts: dict[str, list[str]] = {}
    for kind, part in tab.evaluate("([line, language]) => js.tokens(line, language)", [line, language]):
        if kind:
            parts.setdefault(kind, []).append(part)
    return parts


def test_every_language_of_a_text_is_coloured(tabs, replayed):
    """In each recording every text that is more than plain text has parts in colour, and each kind of them has its style.

    So have the languages of the targets that are not recorded.
    """
    tab = functions(tabs(), "text.js")
    style = module("style.css")
    languages = {target.language for target in (*IREE_TARGETS.values(), *TVM_TARGETS.values())}
    programs = ("iree_linear", "onnxrt_linear", "openvino_parts", "tvm_linear", "xla_linear")
    others = (f"{name}-torch2.13-cpu" for name in programs)
    for name in ("toy_example-torch2.13-cpu", "mlp_train-torch2.11-cuda", *others):
        texts = {artifact.language: artifact for artifact in replayed(name).artifacts if artifact.language != "text"}
        languages |= set(texts)
        for language, artifact in texts.items():
            cut = "([lines, language]) => lines.flatMap(line => js.tokens(line, language).map(([kind]) => kind))"
            kinds = set(tab.evaluate(cut, [list(artifact.lines[:200]), language])) - {""}
            assert kinds and all(f".t-{kind} {{" in style for kind in kinds), (name, artifact.id, language)
    assert {"hlo", "onnx", "diff", "xml", "mlir", "llvm", "asm", "python", "fx", "cpp", "metal", "wgsl"} <= languages
    known = set(tab.evaluate("() => js.COLOURED_LANGUAGES"))
    assert languages <= known, languages - known


@pytest.mark.parametrize(
    ("language", "line", "kinds"),
    [
        (
            "onnx",
            '   [node_addmm] addmm = Gemm <beta: float = 1, act: string = "Relu"> (arg_2, t)',
            {
                "comment": ["   [node_addmm]"],
                "name": ["Gemm"],
                "keyword": ["beta", "act"],
                "type": ["float", "string"],
                "number": ["1"],
                "string": ['"Relu"'],
            },
        ),
        ("onnx", "main_graph (float[4,8] arg_0) => (int64[2] add) ", {"type": ["float", "int64"], "number": ["4", "8", "2"]}),
        (
            "hlo",
            '  ROOT %relu.1 = f32[2,4]{1,0} maximum(%add.1, %b), metadata={op_name="relu"}',
            {
                "keyword": ["ROOT", "maximum"],
                "value": ["%relu.1", "%add.1", "%b"],
                "type": ["f32[2,4]{1,0}"],
                "comment": ['metadata={op_name="relu"}'],
            },
        ),
        ("diff", "--- main, before", {"comment": ["--- main, before"]}),
        ("diff", "@@ -1,2 +3,4 @@", {"keyword": ["@@ -1,2 +3,4 @@"]}),
        ("diff", "-  x = y", {"gone": ["-  x = y"]}),
        ("diff", "+  x = y", {"made": ["+  x = y"]}),
        ("diff", "   x = y - 1", {}),
        ("xml", '\t<dim size="4">8</dim>', {"keyword": ["dim", "dim"], "value": ["size"], "string": ['"4"'], "number": ["8"]}),
        ("wgsl", "fn f(x : f32) { // y", {"keyword": ["fn"], "name": ["f"], "type": ["f32"], "comment": ["// y"]}),
    ],
)
def test_the_parts_of_a_line_are_told_apart(tabs, language, line, kinds):
    """Operators, attributes and types of ONNX and HLO, the lines of a difference, tags and attributes of XML."""
    tab = functions(tabs(), "text.js")
    assert coloured(tab, line, language) == kinds


def test_location_noise_is_told_from_the_rest(tabs):
    """What a text says for debuggers only is found in each language: whole lines, and parts of lines."""
    tab = functions(tabs(), "noise.js")
    mlir = ["#loc1 = loc(unknown)", "module {", "  %0 = tt.load %p loc(#loc7)", "} loc(#loc)", '#loc2 = loc("a.py":1:2)']
    assert tab.evaluate("l => js.noiseLines(l, 'mlir')", mlir) == [[1, 1], [5, 5]]
    assert tab.evaluate("l => js.quietLines(l, 'ttgir')", mlir) == ["module {", "  %0 = tt.load %p", "}"]
    ptx = ["\t.loc 1 2 3", "\tld.global.b32 %r1;", "\t.section\t.debug_info", "\t{", "\t}"]
    assert tab.evaluate("l => js.noiseLines(l, 'ptx')", ptx) == [[1, 1], [3, 5]]
    assert tab.evaluate("l => js.quietLines(l, 'llvm')", ["  ret void, !dbg !3", "!3 = !DILocation(line: 1)"]) == ["  ret void"]
    assert tab.evaluate("l => js.quietLines(l, 'python')", ["#loc = 1"]) == ["#loc = 1"]


def test_locations_are_hidden_until_asked_for(opened):
    """Locations of MLIR are hidden at first, and shown by a button; line numbers stay those of the text."""
    text = "module {\n  %0 = tt.load %p loc(#loc7)\n" + "\n".join(f"#loc{n} = loc(unknown)" for n in range(9)) + "\nend"
    tab = opened(Trace(artifacts=(source("x"), text_of("ttir", text, language="mlir"))))
    pane(tab, "right").locator("select").select_option("1")
    assert line(tab, "right", 2).inner_text().strip() == "%0 = tt.load %p"
    assert "9 lines of locations" in pane(tab, "right").locator(".hidden-lines").inner_text()
    assert line(tab, "right", 12).inner_text() == "end"
    pane(tab, "right").get_by_role("button", name="show locations").click()
    assert "loc(#loc7)" in line(tab, "right", 2).inner_text() and line(tab, "right", 5).count() == 1


def test_texts_fold_by_their_indentation(tabs, opened):
    """A line folds over the deeper lines below it, blank ones among them; every fold at once by a button."""
    tab = functions(tabs(), "folds.js")
    lines = ["def f():", "    a", "", "    if b:", "        c", "d", "e"]
    assert tab.evaluate("l => [...js.foldEnds(l)]", lines) == [4, 0, 0, 4, 0, 0, 0]
    page_ = opened(Trace(artifacts=(source("\n".join(lines)),)))
    pane(page_, "left").get_by_role("button", name="fold all, left text", exact=True).click()
    assert line(page_, "left", 2).count() == 0 and line(page_, "left", 6).count() == 1


def test_panes_are_added_and_closed(opened, small):
    """Up to four texts stand side by side; one closed makes room, and the last one stays."""
    tab = opened(small)
    tab.get_by_role("button", name="add a text pane").click()
    assert tab.locator(".pane").count() == 3
    line(tab, "left", 2).click()
    assert tab.locator(".pane").nth(2).locator(".line.lit").count() <= 1
    for _ in range(2):
        tab.get_by_role("button", name="close the left pane").click()
    assert tab.locator(".pane").count() == 1
    assert tab.get_by_role("button", name="close the left pane").count() == 0


def test_a_page_opens_in_a_sandboxed_frame(shown, small):
    """The page works as the srcdoc of a sandboxed iframe, as documentation sites embed it."""
    inside = page.escaped(page.document(small))
    tab = shown(f'<iframe sandbox="allow-scripts" width="1200" height="700" srcdoc="{inside}"></iframe>')
    inner = tab.frame_locator("iframe")
    inner.locator("#explorer[data-state=ready]").wait_for()
    to_texts(inner)
    inner.locator('.pane .line[data-line="2"]').first.click()
    assert "4 linked lines in 3 texts" in inner.locator(".status").inner_text()


def test_a_closed_view_leaves_nothing_and_another_one_stays(opened, small):
    """Two views of one payload are apart in selection and ids; one taken down leaves no element and hears nothing more."""
    tab = opened(small)
    tab.evaluate("""() => {
        const { app } = document.querySelector('#explorer');
        const other = document.createElement('div');
        other.id = 'other';
        document.body.append(other);
        const root = other.attachShadow({ mode: 'open' });
        root.adoptedStyleSheets = document.querySelector('#explorer').shadowRoot.adoptedStyleSheets;
        other.app = new app.constructor(root, app.store.payload);
    }""")
    to_texts(tab.locator("#other"))
    tab.locator('#other .pane .line[data-line="2"]').first.click()
    assert tab.locator("#other .line.lit").count() > 0 and tab.locator("#explorer .line.lit").count() == 0
    tab.evaluate("document.querySelector('#other').app.close()")
    assert tab.evaluate("document.querySelector('#other').shadowRoot.childElementCount") == 0
    tab.emulate_media(color_scheme="dark")
    tab.set_viewport_size({"width": 900, "height": 500})
    line(tab, "left", 2).click()
    assert lit(tab, "right") == [3]


# The static summary ------------------------------------------------------------------------------------------------------


def test_summary_has_stages_sources_kernels_and_failures(replayed):
    """The summary that notebooks keep names the failures, lists the stages, and holds the user's source and the kernels."""
    trace = replayed("sin_cos-torch2.13-cpu")
    failed = Trace(trace.meta, trace.artifacts, trace.links, (Failure("guards", "render", "lost"),))
    text = page.static_summary(failed)
    assert re.search(r"guards\b[^<]*\blost", text)
    for stage in ("dynamo", "post_grad", "output_code"):
        assert f">{stage}</td>" in text
    for kernel in trace.kernels:
        assert page.escaped(kernel.artifact.title) in text and page.escaped(kernel.source.splitlines()[0]) in text
    assert page.escaped(trace.text("source").splitlines()[0]) in text


def test_summary_is_plain_and_harmless(hostile):
    """The summary has no script, no handler and nothing to load, whatever the trace says."""
    found = Tags(page.static_summary(hostile))
    assert set(found.tags) <= {
        "div",
        "p",
        "b",
        "br",
        "small",
        "ul",
        "li",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
        "pre",
        "code",
    }
    assert found.attributes <= {"class", "style", "open"}
    page.static_summary(hostile).encode()


def test_summary_is_small_for_a_big_trace():
    """However long the texts and however many the stages, the summary has at most 300 lines of code and says what it left out."""
    kernels = [text_of("kernel", numbered(1000), "inference", f"k{n}", kernel=f"k{n}") for n in range(50)]
    others = [text_of("dynamo", "x", f"g{n}", f"d{n}") for n in range(500)]
    failures = (Failure("a", "b", "m" * 100_000),)
    text = page.static_summary(Trace(artifacts=(source("def f(): pass"), *kernels, *others), failures=failures))
    assert text.count("of the text") < 300 and len(text) < 60_000
    assert "more lines" in text and "more texts" in text and "more rows" in text


def test_summary_of_an_empty_trace():
    """A trace of nothing has a summary that says so."""
    assert "nothing compiled" in Trace()._repr_html_()
