"""The chart of memory draws and names what is live, and what is saved for backward is summed, in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

from explorer.analysis.questions.memory import memory_figures, memory_of
from explorer.model.values import Artifact
from explorer.tracing.traced import Trace
from tests.facts import untold
from tests.in_tab import load_axe, serious
from tests.tabs import to_view

SAVED = "saved for backward"


@pytest.fixture(scope="module")
def trained(replayed) -> Trace:
    """A training step compiled for a GPU."""
    return replayed("mlp_train-torch2.11-cuda")


def memory(tab: Any) -> Any:
    to_view(tab, "Memory")
    return tab.get_by_role("tabpanel", name="Memory")


def own_names(trace: Trace, graph: str, step: int) -> set[str]:
    """What is live after a step beside the inputs, as Memory counts it: by the order in which the statements run."""
    from explorer.analysis.questions.memory import Memory

    ((_, storages),) = [(a, s) for a, s in Memory(trace)._graphs if a.graph == graph]
    return {" → ".join(storage.names) for storage in storages if storage.lives(step) and storage.kind != "input"}


@pytest.mark.parametrize("graph", ["forward", "backward"])
def test_the_pointer_on_the_chart_is_told_what_is_live(opened, trained: Trace, graph: str) -> None:
    """At each point: the line, the bytes, and the buffers that Python counts there, largest first."""
    panel = memory(opened(trained))
    chart = panel.get_by_role("slider").nth(["forward", "backward"].index(graph))
    now = panel.locator(".memory-now").nth(["forward", "backward"].index(graph))
    points = trained.memory.timeline.where(graph=graph)
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    first, last = points[0]["line"], points[-1]["line"]
    told = []
    for point in points:
        x = box["x"] + (point["line"] - first + 0.5) / (last - first + 1) * box["width"]
        panel.page.mouse.move(x, box["y"] + 3)
        assert now.locator("p").first.inner_text().startswith(f"After line {point['line']}")
        names = [name.rpartition(" = ")[2] for name in now.locator("li button").all_inner_texts()]
        assert set(names) == own_names(trained, graph, point["step"])
        sizes = {row["names"]: row["bytes"] for row in trained.memory.table.where(graph=graph)}
        listed = [sizes[tuple(name.split(" → "))] for name in names]
        assert listed == sorted(listed, reverse=True)
        told.append(names)
    assert len({tuple(names) for names in told}) > 2, "the names change over the lines"
    lines = {line.rpartition("/")[2] for row in trained.memory.table.where(graph=graph) for line in row["lines"]}
    assert any(line in now.inner_text() for line in lines), "the user's lines"


def test_the_chart_is_read_by_keys(opened, trained: Trace) -> None:
    """It stands at the peak; arrows go from point to point and say what is live, Enter goes to the line."""
    tab = opened(trained)
    panel = memory(tab)
    points = trained.memory.timeline.where(graph="forward")
    peak = max(range(len(points)), key=lambda n: points[n]["live"])
    chart = panel.get_by_role("slider").first
    assert chart.get_attribute("aria-valuenow") == str(peak)
    assert f"After line {points[peak]['line']}, the peak" in (chart.get_attribute("aria-valuetext") or "")
    chart.focus()
    tab.keyboard.press("Home")
    for _ in range(2):
        tab.keyboard.press("ArrowRight")
    said = chart.get_attribute("aria-valuetext") or ""
    assert said.startswith(f"After line {points[2]['line']}:") and all(
        n in said for n in own_names(trained, "forward", points[2]["step"])
    )
    tab.keyboard.press("Enter")
    assert tab.get_by_role("tab", name="Code").get_attribute("aria-selected") == "true"


def test_what_lies_below_the_chart_stays_while_the_pointer_moves(opened, trained: Trace) -> None:
    """The room for all that is said of a point is kept; a bar begins where the one before it ends, at a whole pixel."""
    panel = memory(opened(trained))
    chart, below = panel.get_by_role("slider").first, panel.locator(".memory-now + *, .memory-now").first
    tops = set()
    box = chart.bounding_box()
    for step in range(0, 100, 4):
        panel.page.mouse.move(box["x"] + box["width"] * step / 100, box["y"] + 3)
        size = below.bounding_box()
        tops.add(round(size["y"] + size["height"]))
    assert len(tops) == 1
    edges = chart.locator("i").evaluate_all("""bars => bars.map((bar) => {
        const [{ left, right }, chart] = [bar.getBoundingClientRect(), bar.parentElement.getBoundingClientRect()];
        return [left - chart.left, right - chart.left];
    })""")
    ends = [end for _, end in edges[:-1]]
    assert ends == [pytest.approx(begin, abs=0.02) for begin, _ in edges[1:]]
    assert ends == [pytest.approx(round(end), abs=0.02) for end in ends]


def test_the_chart_has_the_keys_of_a_slider(opened, trained: Trace) -> None:
    """Up and right go on, down and left go back, Page Up and Page Down by several points, none beyond the ends."""
    tab = opened(trained)
    chart = memory(tab).get_by_role("slider").first
    last = len(trained.memory.timeline.where(graph="forward")) - 1
    chart.focus()
    keys = {
        "Home": 0,
        "ArrowUp": 1,
        "ArrowRight": 2,
        "ArrowDown": 1,
        "PageUp": min(11, last),
        "End": last,
        "PageDown": max(0, last - 10),
    }
    for key, point in keys.items():
        tab.keyboard.press(key)
        assert chart.get_attribute("aria-valuenow") == str(point), key


def test_calls_of_unknown_scratch_memory_are_named(opened, replayed) -> None:
    """The peak is then the least, and the sentence says which call is left out, with its line."""
    trace = replayed("attention-torch2.11-cuda")
    (call,) = trace.memory.uncounted
    text = memory(opened(trace)).inner_text()
    assert not untold(text, "at least", "scratch memory", call["call"], f"line {call['line']}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_chart(opened, trained: Trace, scheme: str) -> None:
    """The chart as a slider, and the list below it."""
    tab = opened(trained, color_scheme=scheme)
    memory(tab)
    load_axe(tab)
    assert serious(tab) == []


def size_of(text: str) -> float:
    """The bytes that a text such as "1.5 KiB" states."""
    number, unit = text.split(" ")
    return float(number) * 1024 ** ("B", "KiB", "MiB").index(unit)


def bars_of(chart: Any) -> list[dict[str, Any]]:
    """The bars of a chart: their share of its height, the share of a bar that its inputs fill, and the colours from below."""
    bars = chart.locator("i:not(.at)").evaluate_all("""bars => bars.map((bar) => {
        const { backgroundImage } = getComputedStyle(bar);
        const [inputs, allocated] = backgroundImage.match(/(color|rgb)\\([^)]*\\)/g);
        const drawn = bar.getBoundingClientRect().height / bar.parentElement.clientHeight;
        return { drawn, filled: parseFloat(backgroundImage.match(/([\\d.]+)%/)[1]) / 100, colours: [inputs, allocated] };
    })""")
    return list(bars)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("graph", ["forward", "backward"])
def test_the_marked_bar_is_the_highest(opened, trained: Trace, graph: str, scheme: str) -> None:
    """A bar is as high as what is live, inputs below in another colour; the peak fills the chart, whose height is its bytes."""
    panel = memory(opened(trained, color_scheme=scheme))
    at = ["forward", "backward"].index(graph)
    chart, axis = panel.get_by_role("slider").nth(at), panel.locator(".memory-axis:has(.key)").nth(at)
    points = trained.memory.timeline.where(graph=graph)
    peak = max(range(len(points)), key=lambda n: points[n]["live"])
    assert "peak" in (chart.locator("i").nth(peak).get_attribute("class") or "")
    chart.focus()
    chart.press("Home" if peak else "End")
    assert axis.inner_text().split("\n")[0] == f"{points[peak]['live'] / 1024:.1f} KiB"
    chosen = 0 if peak else len(points) - 1
    shown = [point for n, point in enumerate(points) if n != chosen]
    keys = axis.locator(".key").evaluate_all("keys => keys.map((key) => getComputedStyle(key).backgroundColor)")
    assert axis.locator(".legend > span").all_inner_texts() == ["allocated here", "inputs"] and len(set(keys)) == 2
    for point, bar in zip(shown, bars_of(chart), strict=True):
        assert bar["drawn"] == pytest.approx(point["live"] / points[peak]["live"], abs=0.02)
        assert bar["filled"] == pytest.approx(1 - point["allocated"] / point["live"], abs=0.001)
        assert bar["colours"] == keys[::-1]


def test_what_is_saved_for_the_backward_is_summed(opened, trained: Trace) -> None:
    """The forward says how many bytes it saves and in how many tensors, computed and of inputs; the backward saves none."""
    saved = [row for row in trained.memory.table if row["saved"]]
    total, inputs = (sum(row["bytes"] for row in saved if row["kind"] in kinds) for kinds in (("input", SAVED), ("input",)))
    assert 0 < inputs < total == memory_figures(memory_of(trained)).saved
    said = memory(opened(trained)).get_by_text(f"{SAVED}: ")
    assert said.count() == 1
    assert size_of(said.locator("b").inner_text()) == pytest.approx(total, rel=0.01)
    parts = re.fullmatch(
        rf".* in {len(saved)} tensors: (\S+ \w+) that the forward computes, (\S+ \w+) of inputs and parameters",
        said.inner_text(),
    )
    assert parts
    assert [size_of(part) for part in parts.groups()] == [pytest.approx(size, rel=0.02) for size in (total - inputs, inputs)]


def test_the_rows_that_are_saved_for_the_backward_make_up_its_total(opened) -> None:
    """The kind of an input and of an output says that it is saved too; the filter finds them, and their sum is the total."""
    inputs = [f"primals_{n}" for n in range(1, 16)]
    kept = ["buf0", "buf1", *inputs[:6]]
    made = [f"buf{n} = empty_strided_cuda(({256 * (n + 1)}, ), (1, ), torch.float32)" for n in range(3)]
    code = {
        "forward": (inputs, made, ["buf1", "buf2", *kept]),
        "backward": ([*kept, "tangents_1"], [], ["tangents_1"]),
    }
    trace = Trace(artifacts=tuple(written(graph, *parts) for graph, parts in code.items()))
    panel = memory(opened(trace))
    total = panel.get_by_text(f"{SAVED}: ").locator("b").inner_text()
    table = panel.get_by_role("table", name="memory of 0/0 forward")
    rows = table.locator("tbody tr")
    assert rows.count() == 18 and table.locator("tfoot tr").count() == 0
    panel.get_by_role("searchbox", name="filter memory of 0/0 forward").fill(SAVED)
    kinds = [row.locator("td").nth(1).inner_text() for row in rows.all()]
    assert sorted(kinds) == [*[f"input, {SAVED}"] * 6, f"output, {SAVED}", SAVED]
    sizes = [size_of(row.locator("td").nth(2).inner_text()) for row in rows.all()]
    assert sum(sizes) == size_of(total) == (1 + 2 + 6 * 0.5) * 1024
    assert not untold(table.locator("tfoot").inner_text(), "total of 8 rows", total)


def written(graph: str, inputs: list[str], made: list[str], results: list[str]) -> Artifact:
    """The output code of a graph: its inputs, of 512 bytes each, the buffers that it makes, and its results."""
    given = [f"{name} = rand_strided((128, ), (1, ), device='cuda:0', dtype=torch.float32)" for name in inputs]
    body = [f"{', '.join(inputs)} = args", *made, f"return ({', '.join(results)}, )"]
    text = "\n    ".join(["def call(args):", *body]) + "\n" + "\n".join(given)
    return Artifact(graph, "output_code", "0/0", graph, graph, "python", text)


def test_the_peak_is_that_of_the_overview(opened, trained: Trace) -> None:
    """Both name the graph that takes most, and the same bytes, also where most is allocated at another line than the peak."""
    tab = opened(trained)
    to_view(tab, "Overview")
    said = tab.locator(".overview .at-peak h3").inner_text()
    highest = max(trained.memory.timeline, key=lambda point: point["live"])
    points = trained.memory.timeline.where(graph="backward")
    assert max(points, key=lambda p: p["allocated"])["line"] != max(points, key=lambda p: p["live"])["line"]
    assert not untold(
        said, f"peak of {highest['graph']} (compile id {highest['frame']})", "with the inputs", "at most", "8.0 KiB"
    )
    panel = memory(tab)
    at = ["forward", "backward"].index(highest["graph"])
    assert (
        panel.get_by_role("slider").nth(at).get_attribute("aria-valuetext").startswith(f"After line {highest['line']}, the peak")
    )
    assert panel.get_by_text("Peak with the inputs: at most 8.0 KiB").count() == 1


def test_each_writer_of_a_reused_buffer_is_named(opened, replayed) -> None:
    """A storage that buffers share says what fills each; of more than three the first and the last."""
    trace = replayed("views/layers-torch2.13-h100")
    panel = memory(opened(trace))
    rows = panel.get_by_role("table", name="memory of 0/0 inference").locator("tbody tr")
    (made,) = [row for row in trace.memory.table if row["names"] == ("buf10", "buf13", "buf25")]
    told = rows.filter(has_text=" → ".join(made["names"])).locator("td").nth(3)
    assert told.inner_text().count(" → ") >= 1 and "…" not in told.inner_text()
    long = rows.filter(has_text="buf3 → buf6 → buf14").locator("td").nth(3)
    assert " → … → " in long.inner_text() and (long.get_attribute("title") or "").count(" → ") > 2


def test_the_sizes_of_what_is_not_listed_are_told_apart(opened, replayed) -> None:
    """Other buffers and inputs each have their bytes in brackets."""
    said = memory(opened(replayed("views/layers-torch2.13-h100"))).locator(".memory-now > p.soft").inner_text()
    assert re.fullmatch(r"and (\d+ other buffers? \(\S+ \w+\) and )?\d+ inputs? \(\S+ \w+\)", said)
