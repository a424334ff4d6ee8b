"""The overview in a real browser: what a view opens on, what it counts, and where each part of it leads."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import explorer
from explorer.analysis.advice.verdicts import duration
from explorer.analysis.overview.launches import titled
from explorer.analysis.overview.overview import Overview
from explorer.analysis.questions.comparison import figures
from explorer.model.values import Event
from explorer.stages.inductor.assumption import Assumption
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events
from explorer.view.page import bundle, packed
from explorer.view.payload import payload
from tests.facts import untold
from tests.in_tab import APP, drawn, load_axe, selected, serious, show
from tests.tabs import to_texts
from tests.test_widget import HOST, LIVE_HOST

#: What of the overview reaches out of it to the right; words in a title or a line of code end in an ellipsis there.
BEYOND = """panel => {
    const end = panel.getBoundingClientRect().right;
    const parts = [...panel.querySelectorAll('*:not(.what *, .user *)')];
    return parts.filter((one) => one.getBoundingClientRect().right > end).map((one) => one.outerHTML);
}"""
FOCUSED = "document.querySelector('#explorer').shadowRoot.activeElement"


@pytest.fixture(scope="module")
def layers(replayed: Callable[[str], Trace]) -> Trace:
    """Layers of a small model for an absent H100, with products, norms and activations."""
    return replayed("views/layers-torch2.13-h100")


@pytest.fixture
def overview(opened: Any) -> Callable[..., Any]:
    """Open the page of a trace as a reader does, and return its overview."""

    def panel(trace: Any, **settings: Any) -> Any:
        return shown_of(opened(trace, "", **settings))

    return panel


def shown_of(tab: Any) -> Any:
    """The overview that a tab shows."""
    return tab.get_by_role("tabpanel", name="Overview")


def seconds(text: str) -> float:
    """The seconds in a text such as "2.1 µs"."""
    number, unit = text.split()
    return float(number) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3}[unit]


def view(tab: Any) -> str:
    """The title of the view that is shown."""
    return str(tab.get_by_role("tab", selected=True).inner_text())


def chosen(tab: Any) -> str:
    """The text of the chosen line, which is in sight."""
    (text,) = tab.locator(".pane .line.chosen:visible").all_inner_texts()
    return str(text)


def test_a_view_opens_on_the_overview(opened: Any, layers: Trace) -> None:
    """It is the first tab and what is shown without a link; its own link leads back to it, and that of another view elsewhere."""
    tab = opened(layers, "")
    assert view(tab) == "Overview" == tab.get_by_role("tab").first.inner_text() and shown_of(tab).is_visible()
    assert tab.locator(".pane:visible").count() == 0
    to_texts(tab)
    assert view(tab) == "Code" and shown_of(tab).is_hidden()
    show(tab, "Overview")
    assert "view=overview&" in tab.evaluate("location.hash")
    again = opened(layers, tab.evaluate("location.hash"))
    assert view(again) == "Overview" and shown_of(again).is_visible()
    assert view(opened(layers, "#view=kernels")) == "Kernels"
    source = layers.find("source")[0].id
    assert view(opened(layers, f"#{source}:1")) == "Code"


def test_the_flow_counts_what_was_compiled(overview: Any, layers: Trace) -> None:
    """From the program to the launches stand the counts that a comparison has, and those that a terminal prints."""
    boxes = overview(layers).locator(".flow .step")
    counts = [int(number) for number in boxes.locator("b").all_inner_texts()[1:]]
    counted = figures(layers)
    names = ("FX nodes", "scheduler nodes", "fused groups", "kernel launches", "library calls")
    assert counts == [1, *(counted[name] for name in names)]
    printed = re.split(" → | and ", repr(layers).partition("\n")[2].partition("\ncompiled in ")[0].replace("\n  ", " "))
    assert [" ".join(text.split()) for text in boxes.all_inner_texts()[1:]] == printed
    assert boxes.first.inner_text().split() == ["layers", "your", "code"]


@pytest.mark.parametrize(
    ("box", "title"),
    [
        ("layers", "Code"),
        ("1 graph", "Graph"),
        ("FX nodes", "Graph"),
        ("scheduler nodes", "Fusion"),
        ("fused groups", "Fusion"),
        ("kernel launches", "Kernels"),
        ("library calls", "Kernels"),
    ],
)
def test_each_step_leads_to_its_view(overview: Any, layers: Trace, box: str, title: str) -> None:
    """A step of the flow is a button; the view that it leads to is shown, and the keys stay in the view."""
    panel = overview(layers)
    panel.locator(".flow").get_by_role("button", name=box).press("Enter")
    assert view(panel.page) == title and panel.page.get_by_role("tabpanel", name=title).is_visible()
    assert panel.is_hidden()
    assert panel.page.evaluate(f"{FOCUSED}?.textContent") == title


def test_a_launch_leads_to_its_line_and_to_its_text(overview: Any, layers: Trace) -> None:
    """What takes longest leads to the user's line, which is chosen in the texts, and to its costs; a kernel to its text."""
    longest = Overview(layers).groups[0].first
    panel = overview(layers)
    tab, rows = panel.page, panel.get_by_role("list", name="the longest launches").get_by_role("listitem")
    assert longest["line"] in rows.first.inner_text() and str(longest["code"]) in rows.first.inner_text()
    rows.first.locator("button.user").click()
    assert view(tab) == "Code" and chosen(tab).strip() == longest["code"]
    artifact, line = selected(tab)
    source = next(a for a in layers.artifacts if a.id == artifact)
    assert source.stage == "source" and f":{source.data['first_line'] + line - 1}" in str(longest["line"])
    show(tab, "Overview")
    assert longest["kernel"] == "extern_kernels.mm" == rows.first.locator("button.what").get_attribute("title")
    rows.first.locator("button.what").click()
    detail = tab.get_by_role("tabpanel", name="Kernels").locator(".kernel-detail")
    assert str(longest["what"]) in detail.locator("h2").inner_text(), "a library has no text: what its call takes is shown"
    assert not untold(detail.inner_text(), "extern_kernels.mm", "of the output code", "What it costs")
    show(tab, "Overview")
    kernel = next(row["kernel"] for row in layers.profile.launches if str(row["kernel"]).startswith("triton_"))
    panel.locator(f'button.what[title="{kernel}"]').first.click()
    assert view(tab) == "Code" and f"def {kernel}(" in chosen(tab)
    assert selected(tab)[0] == next(k.artifact.id for k in layers.kernels if k.name == kernel)


@pytest.mark.parametrize("traces", [1, 2])
def test_no_launch_is_lost(overview: Any, layers: Trace, traces: int) -> None:
    """What is not listed of the launches of a trace is counted, and leads to the kernels; of several fewer are listed."""
    panel = overview(layers if traces == 1 else explorer.compare(layers, layers, names=("before", "after")))
    for part in panel.locator(".of-trace").all():
        titles = part.get_by_role("list", name="the longest launches").locator(".what").all_inner_texts()
        assert len(titles) == (10 if traces == 1 else 5)
        counts = [re.match(r"(\d+) × ", title) for title in titles]
        more = part.get_by_role("button", name=re.compile(r"more launch(es)?: Kernels"))
        left = int(more.inner_text().split()[0]) if more.count() else 0
        assert sum(int(count[1]) if count else 1 for count in counts) + left == len(layers.profile.launches)
        assert bool(left) == (traces > 1)
    if traces > 1:
        more.click()
        assert view(panel.page) == "Kernels"


def test_each_line_of_the_program_has_its_time(overview: Any, replayed: Callable[[str], Trace]) -> None:
    """Below the launches stand the program's lines, each once, with the time of all that computes it; a press leads to one.

    A program of many lines leaves room for them on the screen: fewer launches are listed.
    """
    rotary = replayed("views/rotary-torch2.13-h100")
    panel = overview(rotary, viewport={"width": 970, "height": 680})
    assert panel.locator(".hottest li").count() == 5
    assert panel.evaluate("one => one.scrollHeight <= one.clientHeight"), "the lines scroll by themselves"
    rows = [re.sub(r"\s+", " ", row) for row in panel.get_by_role("list", name="your lines").locator("li").all_inner_texts()]
    known = payload(rotary)
    by_text = {info["artifact"]: info["cost"]["seconds"] for info in known["kernels"]}
    by_line = {(info["artifact"], info["line"]): info["cost"]["seconds"] for info in known["calls"]}
    expected: dict[str, dict[Any, float]] = {}
    for info in known["lines"]:
        for place in info["kernels"][0]:
            at = place["artifact"], place["line"]
            key = at[0] if at[0] in by_text else at
            expected.setdefault(info["place"], {})[key] = by_text[at[0]] if at[0] in by_text else by_line[at]
    assert len(rows) == len(expected) > 1
    times = []
    for row in rows:
        time, place = re.match(r"([\d.]+ \S+) (\S+:\d+)", row).groups()  # type: ignore[union-attr]
        times.append(seconds(time))
        assert times[-1] == pytest.approx(sum(expected[place].values()), rel=0.01), place
    assert times == sorted(times, reverse=True), "the longest first"
    button = panel.get_by_role("list", name="your lines").get_by_role("button").first
    code = button.locator("code").inner_text()
    button.click()
    assert view(panel.page) == "Code" and chosen(panel.page).strip() == code


@pytest.mark.parametrize("height", [420, 480, 540, 600])
def test_a_line_that_opens_the_texts_is_in_sight(overview: Any, replayed: Callable[[str], Trace], height: int) -> None:
    """The first line that is pressed opens texts that were never drawn: it stands in sight there, also as the last one."""
    panel = overview(replayed("views/rotary-torch2.13-h100"), viewport={"width": 970, "height": height})
    panel.get_by_role("list", name="your lines").get_by_role("button").last.click()
    tab = panel.page
    line = tab.get_by_role("region", name="left text").locator(".line.chosen")
    line.wait_for()
    drawn(tab)
    inside = """line => {
        const { top, bottom } = line.getBoundingClientRect(), room = line.closest('.cm-scroller').getBoundingClientRect();
        return [top >= room.top, bottom <= room.bottom];
    }"""
    assert line.evaluate(inside) == [True, True]


def test_advice_leads_to_its_card(overview: Any, replayed: Callable[[str], Trace]) -> None:
    """What failed comes first; each verdict is a line with its cost, which leads to the advice, at the card of that verdict."""
    trace = replayed("views/limit-torch2.13-cpu")
    advice = trace.advise()
    assert len(advice) == 2 and len(trace.failures) == 1
    panel = overview(trace, viewport={"width": 900, "height": 300})
    tab, cards = panel.page, panel.locator(".looks button")
    assert "recompile_limit" in cards.first.inner_text()
    assert cards.locator(".text").all_inner_texts()[1:] == [verdict.title for verdict in advice]
    assert all(verdict.shared in cards.nth(1 + n).inner_text() for n, verdict in enumerate(advice))
    cards.last.click()
    assert view(tab) == "Advice"
    card = tab.get_by_role("tabpanel", name="Advice").locator("article.advice").last
    assert card.locator("h3").inner_text() == advice[-1].title
    assert card.evaluate("""one => {
        const [card, panel] = [one, one.closest('.panel')].map((part) => part.getBoundingClientRect());
        return card.top >= panel.top - 1 && card.top < panel.bottom - 20;
    }"""), "it is in sight"


def test_memory_leads_to_its_chart(overview: Any, layers: Trace) -> None:
    """The bytes at the peak are those of the trace's memory, by kind, and lead to the view of the memory."""
    panel = overview(layers)
    part = panel.locator(".at-peak")
    peak = figures(layers)["peak memory (bytes)"]
    assert not untold(part.locator("h3").inner_text(), f"{round(peak / 1024)} KiB", "(compile id 0/0)")
    kinds = {row["kind"].replace("saved", "computed, saved") for row in layers.memory.peak}
    assert {text.rsplit(" ", 2)[0] for text in part.locator(".legend > span").all_inner_texts()} == kinds
    part.get_by_role("button", name="memory").click()
    assert view(panel.page) == "Memory" and panel.page.get_by_role("tabpanel", name="Memory").is_visible()


def test_what_is_saved_for_backward_leads_to_the_memory(overview: Any, replayed: Callable[[str], Trace]) -> None:
    """The section of the memory has the figure of a comparison with its two parts, and leads to the view of both.

    The inputs at the peak of a backward are said to be what was saved and is not freed: they may be less than what was saved.
    """
    trace = replayed("mlp_train-torch2.11-cuda")
    panel = overview(trace)
    line = panel.locator(".at-peak p", has_text="saved for backward")
    held = sum(row["bytes"] for row in trace.memory.saved if row["kind"] == "input")
    whole = figures(trace)["saved for backward (bytes)"]
    computed, inputs = f"{(whole - held) / 1024:.1f} KiB computed", f"{held / 1024:.1f} KiB inputs and parameters"
    assert 0 < held < whole and line.inner_text() == f"saved for backward {whole / 1024:.1f} KiB: {computed}, {inputs}"
    assert "input (what was saved and is not freed yet, and gradients)" in panel.locator(".at-peak .legend").inner_text()
    line.get_by_role("button", name="saved for backward").click()
    assert view(panel.page) == "Memory" and panel.page.get_by_role("tabpanel", name="Memory").is_visible()


def test_the_longest_single_launch_is_named_where_another_takes_more_in_total(overview: Any, layers: Trace) -> None:
    """Several short launches rank above the longest one, which is named below them with its time."""
    panel = overview(layers)
    groups = Overview(layers).groups
    longest = max(groups, key=lambda group: group.ranked[0].launch.seconds)
    assert longest is not groups[0]
    row = longest.first
    told = f"· longest single launch: {titled(row, 1)}, {duration(row['seconds'])}, {row['line']}"
    assert panel.locator(".hottest > .soft").inner_text() == told


def test_nothing_is_said_of_a_backward_that_is_not_there(overview: Any, layers: Trace) -> None:
    """A trace that saves nothing for a backward has no line of it."""
    panel = overview(layers)
    assert figures(layers)["saved for backward (bytes)"] == 0 and panel.locator(".at-peak").count() == 1
    assert "saved for backward" not in panel.inner_text()


def test_it_stands_on_one_screen(overview: Any, layers: Trace) -> None:
    """On a screen of 1440 × 900 nothing of it scrolls, neither in the view nor in the page."""
    panel = overview(layers, viewport={"width": 1440, "height": 900})
    assert panel.locator(".hottest li").count() == 10
    assert panel.evaluate("one => [one.scrollHeight <= one.clientHeight, one.scrollWidth <= one.clientWidth]") == [True, True]
    assert panel.page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    assert panel.evaluate(BEYOND) == []


def test_a_narrow_view_has_all_of_it(overview: Any, layers: Trace) -> None:
    """At 700 pixels nothing reaches out to the side, and each launch keeps its title and its line."""
    panel = overview(layers, viewport={"width": 700, "height": 900})
    assert panel.evaluate("one => one.scrollWidth <= one.clientWidth") and panel.evaluate(BEYOND) == []
    assert panel.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for part in ("what", "user"):
        widths = panel.locator(f".hottest .{part}").evaluate_all("all => all.map((one) => one.getBoundingClientRect().width)")
        assert len(widths) == 10 and min(widths) > 60, part


def test_several_traces_stand_beside_each_other(overview: Any, replayed: Callable[[str], Trace]) -> None:
    """Each has its name, its own counts and its own memory, and its launches lead to its own texts."""
    traces = [replayed(name) for name in ("mlp_train-torch2.11-cuda", "mlp_train-torch2.13-cpu")]
    panel = overview(explorer.compare(*traces, names=("gpu", "cpu")))
    tab, parts = panel.page, panel.locator(".of-trace")
    assert parts.locator("h2").all_inner_texts() == ["gpu", "cpu"]
    first, second = (part.bounding_box() for part in parts.all())
    assert first["x"] + first["width"] <= second["x"] and first["y"] == pytest.approx(second["y"], abs=1)
    for part, trace in zip(parts.all(), traces, strict=True):
        steps = part.locator(".flow .step", has_text="fused group")
        assert steps.locator("b").inner_text() == str(figures(trace)["fused groups"])
    peaks = panel.locator(".at-peak h3").all_inner_texts()
    assert [text.partition(":")[0] for text in peaks] == ["gpu", "cpu"]
    assert panel.evaluate(BEYOND) == []
    launch = parts.nth(1).locator(".hottest button.user").first
    code = launch.locator("code").inner_text()
    launch.click()
    assert view(tab) == "Code" and tab.evaluate(f"{APP}.selection.placed().artifact").startswith("cpu ")
    assert chosen(tab).strip() == code


def test_a_trace_without_kernels_says_why(overview: Any, layers: Trace, replayed: Callable[[str], Trace]) -> None:
    """In place of the time of a call stands why nothing is known of it."""
    graphs = replace(layers, artifacts=tuple(a for a in layers.artifacts if a.stage in ("source", "dynamo", "post_grad")))
    panel = overview(graphs)
    assert "No kernel was recorded" in panel.locator(".nothing").inner_text()
    assert panel.locator(".times, .hottest, .at-peak").count() == 0
    panel = overview(replayed("iree_linear-torch2.13-cpu"))
    assert "iree" in panel.locator(".nothing").inner_text()
    old = replayed("sin_cos-torch2.11-cuda")  # launches a kernel of which the scheduler's text says nothing
    panel = overview(old)
    assert panel.get_by_role("button", name="1 kernel launch").is_visible()
    assert not untold(panel.locator(".nothing").inner_text(), "launches", "not recorded", "not known")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened: Any, layers: Trace, engines: Any, scheme: str) -> None:
    """The overview of one trace and of several breaks no rule of axe-core that it calls serious or critical."""
    for shown in (layers, engines, explorer.compare(layers, layers, names=("before", "after"))):
        tab = opened(shown, "", color_scheme=scheme)
        assert shown_of(tab).is_visible()
        load_axe(tab)
        assert serious(tab) == []


@pytest.mark.parametrize("is_live", [False, True])
def test_what_nobody_compared_is_a_card_of_its_own(tabs: Any, layers: Trace, is_live: bool) -> None:
    """Results that were not compared with eager are told from what was assumed for a GPU. In a saved trace their card says why,
    beside the process it says what compares them.
    """
    why = "the trace was made with check=False"
    uncompared = Assumption(where="Halide's results", assumed="not compared with eager; t.check() compares them", why=why)
    rows = uncompared, Assumption(where="mm of (8, 8) and (8, 8)", assumed="faster with padding", why="nothing can be timed")
    assumed = trace_of_events([Event("assumption", 0.0, "0/0", data=row) for row in rows]).artifacts
    trace = replace(layers, artifacts=(*layers.artifacts, *assumed))
    page = tabs()
    host = LIVE_HOST if is_live else HOST
    page.evaluate(host, [bundle(), base64.b64encode(packed(trace)).decode(), "vscode-light", False])
    panel = shown_of(page)
    cards = panel.locator(".looks .look")
    said = {" ".join(card.split()) for card in cards.evaluate_all("all => all.map((one) => one.textContent)")}
    assert "Halide's results: not compared with eager" + ("t.check() compares them" if is_live else why) in said
    assert "1 assumptionin place of what the GPU would tell" in said
    card = cards.filter(has_text="Halide's")
    if not card.is_visible():
        panel.locator(".looks summary").click()
    card.click()
    drawn(page)
    assert "not compared with eager" in "".join(page.locator(".pane:visible").all_inner_texts())


@pytest.mark.browser
def test_another_size_is_judged_where_a_view_opens(overview: Any, replayed: Callable[[str], Trace]) -> None:
    """Each tensor of the call has a field with its sizes; another one says at once which guard fails, and leads to its fact.

    Before anything is typed nothing is said, and what was compiled fits.
    """
    panel = overview(replayed("views/rotary-torch2.13-h100"))
    inputs = panel.locator(".inputs")
    assert not untold(inputs.inner_text(), "x", "float32", "another size recompiles")
    assert inputs.get_by_role("status").count() == 0, "nothing is said"
    field = inputs.get_by_label("size of x", exact=True)
    assert field.input_value() == "2, 8, 32"
    field.fill("4, 8, 32")
    verdict = inputs.get_by_role("status")
    assert not untold(verdict.inner_text(), "recompiles", "x must be float32 [2, 8, 32] on cpu")
    field.fill("2, 8, 32")
    assert verdict.inner_text() == "no guard on the arguments fails"
    load_axe(panel.page)
    assert not serious(panel.page)
    inputs.get_by_role("button", name="x", exact=True).press("Enter")
    assert view(panel.page) == "Guards & breaks"
    assert panel.page.evaluate(f"{FOCUSED}.textContent") == "x: float32 [2, 8, 32] on cpu"


@pytest.mark.browser
def test_the_sizes_of_a_guard_are_in_sight(opened: Any, replayed: Callable[[str], Trace]) -> None:
    """The text of the guards is wrapped as it opens, and another text beside it stays as it was."""
    trace = replayed("views/rotary-torch2.13-h100")
    tab = opened(trace)
    left = tab.get_by_role("region", name="left text")
    guards = next(n for n, a in enumerate(trace.artifacts) if a.stage == "guards")
    wrap = left.get_by_role("button", name="wrap long lines, left text")
    assert wrap.get_attribute("aria-pressed") == "false"
    left.locator("select").first.select_option(str(guards))
    content = left.locator(".cm-scroller")
    assert wrap.get_attribute("aria-pressed") == "true"
    assert content.evaluate("e => e.scrollWidth <= e.clientWidth")
    left.locator("select").first.select_option(str(next(n for n, a in enumerate(trace.artifacts) if a.stage == "dynamo")))
    assert wrap.get_attribute("aria-pressed") == "false"


def test_the_inputs_are_in_sight_in_a_narrow_view(overview: Any, replayed: Callable[[str], Trace]) -> None:
    """At 700 pixels the sizes of the call stand beside the longest launches, above the fold."""
    panel = overview(replayed("views/rotary-torch2.13-h100"), viewport={"width": 700, "height": 680})
    field = panel.locator(".inputs input").first.bounding_box()
    assert field["y"] + field["height"] <= 640
