"""Two traces in one view, in a real browser: panes for each, one click lights all, and what they differ in."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import explorer
from explorer.analysis.advice.verdicts import duration
from explorer.analysis.questions.user_lines import compiled_kernels
from explorer.tracing.traced import Trace
from explorer.tracing.traced.comparison import Comparison
from explorer.tracing.traced.trace import trace_of
from tests.facts import untold
from tests.in_tab import APP, CELLS, SOURCES, calls_together, functions, show, texts_shown


@pytest.fixture(scope="module")
def targets(replayed: Callable[[str], Trace]) -> Comparison:
    """A training step twice, as a comparison of a trace with itself."""
    trace = replayed("mlp_train-torch2.13-cpu")
    return explorer.compare(trace, trace, names=("before", "after"))


@pytest.fixture(scope="module")
def edited(replayed: Callable[[str], Trace]) -> Comparison:
    """A training step before and after its kernel of the forward graph calls another function."""
    trace = replayed("mlp_train-torch2.13-cpu")
    assert any("erf" in a.text for a in trace.find("kernel", graph="forward"))

    def other(text: str) -> str:
        return text.replace("erf", "tanh", 1)

    texts = [replace(a, text=other(a.text)) if (a.stage, a.graph) == ("kernel", "forward") else a for a in trace.artifacts]
    return explorer.compare(trace_of(replace(trace, artifacts=tuple(texts))), trace, names=("before", "after"))


def lit(tab: Any) -> list[list[int]]:
    """The lines that are lit in each pane."""
    lines: list[list[int]] = tab.evaluate(f"() => {APP}.panes.list.map((pane) => pane.sorted)")
    return lines


def test_a_click_on_a_user_line_lights_both_sides(opened, engines):
    """The program, IREE's dispatches and ONNX Runtime's graph are beside each other; a line lights what each made of it."""
    tab = opened(engines)
    assert texts_shown(tab) == ["IREE 0/0:source", "IREE 0/0:iree_flow:inference", "ONNX 0/0:onnxrt_all:inference"]
    tab.locator(".pane").first.get_by_text("z = torch.relu(y)").click()
    _, dispatch, graph = lit(tab)
    texts = engines.traces[0].find("iree_flow")[0].lines, engines.traces[1].find("onnxrt_all")[0].lines
    assert any("arith.cmpf ugt" in texts[0][line - 1] for line in dispatch)
    assert len(graph) == 1 and "FusedGemm" in texts[1][graph[0] - 1]
    tab.locator(".pane").nth(2).get_by_text("Add (relu, val_0)").click()
    program, dispatch, _ = lit(tab)
    assert program == [4] and any("arith.addf" in texts[0][line - 1] for line in dispatch)


def test_a_line_has_one_colour_in_all_traces(opened, engines):
    """A line of the second trace comes from the line of the first one's source, so it has its colour; other lines do not."""
    tab = opened(engines)
    graph = f"{APP}.store.byId.get('ONNX 0/0:onnxrt_all:inference')"
    tab.wait_for_function(f"() => Number.isInteger({APP}.parts.colours.look({graph}, 13))")
    looks = tab.evaluate(f"""() => [["IREE 0/0:source", 3], ["ONNX 0/0:onnxrt_all:inference", 13], ["IREE 0/0:source", 4]]
        .map(([id, line]) => JSON.stringify({APP}.parts.colours.look({APP}.store.byId.get(id), line)))""")
    assert looks[0] == looks[1] != looks[2] and "null" not in looks


def test_the_panes_follow_a_line_to_another_kernel(opened, targets):
    """A user line that the shown kernels do not compute brings the kernels or calls that do, one of each trace."""
    tab = opened(targets)
    tab.locator(".pane").first.get_by_text("return self.down(hidden)").click()
    assert [id.partition(" ")[0] for id in texts_shown(tab)] == ["before", "before", "after"]
    assert texts_shown(tab)[1:] == ["before 0/0:output_code:forward", "after 0/0:output_code:forward"]
    _, before, after = lit(tab)
    assert before and before == after


def test_figures_kernels_and_lines_are_told(opened, engines):
    """One view has the counts with their change, the kernels by what they compute, and the lines; a kernel opens in its pane."""
    tab = opened(engines)
    panel = show(tab, "Compare")
    figures = panel.get_by_role("table", name="figures")
    row = figures.get_by_role("row").filter(has_text="between kernels").inner_text().split("\t")
    assert [cell.strip() for cell in row] == ["between kernels", "240 B", "304 B", "×1.27"]
    (match,) = panel.get_by_role("table", name="matched kernels").locator("tbody tr").all()
    assert not untold(match.inner_text(), "split", "forward", "×1.27")
    assert panel.get_by_role("table", name="lines").locator("tbody tr").count() == 3
    match.get_by_role("button", name="node_add", exact=True).click()
    assert tab.get_by_role("tab", name="Code").get_attribute("aria-selected") == "true"
    assert texts_shown(tab)[2] == "ONNX 0/0:onnxrt_all:inference"


def test_calls_that_are_alike_are_one_match(opened, replayed):
    """The library calls of all layers that do the same for a line stand in one row, with their time together."""
    trace = replayed("views/layers-torch2.13-h100")
    tab = opened(explorer.compare(trace, trace, names=("one", "other")))
    table = show(tab, "Compare").get_by_role("table", name="matched kernels")
    rows = [row for row in table.locator("tbody tr").all_inner_texts() if "same call" in row]
    groups = calls_together(trace)
    assert len(rows) == len(groups) < len(trace.inductor.extern_calls)
    counts = sorted(int(found[1]) if (found := re.match(r"(\d+) × same call", row)) else 1 for row in rows)
    assert counts == sorted(map(len, groups))
    heads = table.locator("th[scope=col]").all_inner_texts()
    times = table.locator("tbody tr").filter(has_text="same call").evaluate_all(CELLS, heads.index("per run, one"))
    shown = sorted(map(seconds_of, times))
    assert shown == pytest.approx(sorted(sum(row["seconds"] for row in group) for group in groups), rel=0.02)


def test_matches_of_one_kind_are_shown_alone(opened, replayed):
    """A button for each kind has its word and count, and shows its rows alone; pressed again it shows all."""
    trace = replayed("views/layers-torch2.13-h100")
    first = trace.find("kernel")[0]
    changed = (replace(a, text=a.text.replace("tl.store", "tl.atomic_add")) if a is first else a for a in trace.artifacts)
    panel = show(opened(explorer.compare(trace, trace_of(replace(trace, artifacts=tuple(changed))), names=("a", "b"))), "Compare")
    rows = panel.get_by_role("table", name="matched kernels").locator("tbody tr")
    every = rows.count()
    values, source = (panel.get_by_role("button", name=name, exact=True) for name in ("same values 1", "same source 6"))
    values.click()
    assert rows.count() == 1 and "same values" in rows.inner_text()
    source.click()
    assert rows.count() == 6 and values.get_attribute("aria-pressed") == "false"
    source.click()
    assert rows.count() == every > 7


def test_a_match_leads_to_the_difference_of_its_kernels(opened, replayed):
    """It tells the lines of the program that its kernels compute, by number; a press on it shows both sources, compared."""
    trace = replayed("views/layers-torch2.13-h100")
    first = trace.find("kernel")[0]
    changed = (replace(a, text=a.text.replace("tl.store", "tl.atomic_add")) if a is first else a for a in trace.artifacts)
    tab = opened(explorer.compare(trace, trace_of(replace(trace, artifacts=tuple(changed))), names=("one", "other")))
    table = show(tab, "Compare").get_by_role("table", name="matched kernels")
    row = table.locator("tbody tr").first
    assert not untold(row.inner_text(), "same values")
    lines = {line.number for kernel in compiled_kernels(trace) if kernel.artifact is first for line in kernel.user_lines}
    at = table.locator("th[scope=col]").all_inner_texts().index("lines of the program")
    cell = row.locator("td").nth(at).inner_text()
    assert {int(number) for number in re.findall(r" (\d+)", cell)} == lines != set()
    row.get_by_role("button", name="same values").click()
    panel = tab.get_by_role("tabpanel", name="Diff")
    sides = panel.get_by_role("combobox", name="text to compare").locator("option:checked").all_inner_texts()
    assert len(sides) == 2 and "+1 lines" in panel.get_by_role("status").inner_text().replace("−1  ", "")


def test_the_first_screen_says_what_differs(opened, zoo):
    """The overview of two traces begins with what differs and why; a press shows both kernels, and equal traces have no such."""
    traces = zoo("two norms h100"), zoo("two norms mi300x")
    tab = opened(explorer.compare(*traces, names=("h100", "mi300x")), "")
    card = tab.locator(".differences").get_by_role("button").filter(has_text="takes 3 nodes in h100")
    assert not untold(card.inner_text(), "h100: 2 kernels, ", "; mi300x: 1 kernel, ", "multiprocessors")
    times = [info["seconds"] for info in tab.evaluate(f"() => {APP}.store.payload.overview")]
    heading = tab.locator(".differences h3").inner_text()
    assert heading.startswith(f"A call takes {duration(times[0])} in h100, {duration(times[1])} in mi300x (estimated): ")
    card.click()
    panel = tab.get_by_role("tabpanel", name="Diff")
    sides = panel.get_by_role("combobox", name="text to compare").locator("option:checked").all_inner_texts()
    assert [side.partition(" ")[0] for side in sides] == ["h100", "mi300x"]
    assert opened(explorer.compare(traces[0], traces[0], names=("a", "b")), "").locator(".differences").count() == 0


def test_a_library_call_that_differs_leads_to_the_rows_of_all_traces(opened, zoo):
    """A library has no text: its card shows what the call costs, and the row of the other trace beside it."""
    tab = opened(explorer.compare(zoo("products h100"), zoo("products mi300x"), names=("h100", "mi300x")), "")
    tab.locator(".differences").get_by_role("button").filter(has_text="the launch in mi300x").click()
    panel = tab.get_by_role("tabpanel", name="Kernels")
    rows = panel.get_by_role("table", name="kernels").locator("tbody tr").filter(has_text="bmm")
    assert [re.search("h100|mi300x", text)[0] for text in rows.all_inner_texts()] == ["h100", "mi300x"]
    assert panel.locator(".kernel-detail").get_by_text("bmm").first.is_visible()


def test_a_card_opens_a_call_with_what_it_takes_in_each_trace(opened, replayed):
    """The costs of each trace stand beside each other, under its name, and no filter is left in the table."""
    trace = replayed("views/layers-torch2.13-h100")
    slower = trace_of(replace(trace, meta={**trace.meta, "target": "v100"}))
    tab = opened(explorer.compare(trace, slower, names=("one", "other")), "")
    assert re.match(r"A call takes .+ in one, .+ in other", tab.locator(".differences h3 b").inner_text()), "read first"
    card = tab.locator(".differences").get_by_role("button").filter(has_text="library calls such as").first
    card.click()
    panel = tab.get_by_role("tabpanel", name="Kernels")
    sides = panel.locator(".kernel-detail .tables-beside > div")
    assert sides.locator("> b").all_inner_texts() == ["one", "other"]
    for gpu, text in zip(("NVIDIA H100", "NVIDIA Tesla V100"), sides.all_inner_texts(), strict=True):
        assert f"estimated for {gpu}" in text
    assert panel.get_by_label("filter kernels").input_value() == ""


def test_a_search_leaves_each_trace_its_pane(opened, replayed):
    """A line of the program is found once, and lit in its pane. Another search leaves the texts of both traces in theirs."""
    trace = replayed("views/rotary-torch2.13-h100")
    tab = opened(explorer.compare(trace, trace_of(replace(trace, meta={**trace.meta, "target": "v100"})), names=("one", "other")))
    found = tab.get_by_role("group", name="lines found")
    for code in ("torch.cos(angles)", "torch.softmax"):
        tab.get_by_label("search all texts").fill(code)
        assert "× 2" not in found.locator(".hit").first.inner_text()
        found.locator(".hit").first.click()
        traces = tab.evaluate(f"() => {APP}.panes.list.map(({{ artifact }}) => {APP}.store.traceOf(artifact))")
        assert traces[1:] == [0, 1] and all(lit(tab)[1:]), "each shows what came of it"


def seconds_of(time: str) -> float:
    number, unit = time.split()
    return float(number) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3}[unit]


def test_what_makes_the_difference_comes_first(opened, replayed):
    """Of kernels whose times differ, that with the largest difference stands first, whatever it is called."""
    trace = replayed("views/layers-torch2.13-h100")
    slower = trace_of(replace(trace, meta={**trace.meta, "target": "v100"}))
    tab = opened(explorer.compare(trace, slower, names=("one", "other")))
    table = show(tab, "Compare").get_by_role("table", name="matched kernels")
    heads = table.locator("th[scope=col]").all_inner_texts()
    one, other = (table.locator("tbody tr").evaluate_all(CELLS, heads.index(f"per run, {name}")) for name in ("one", "other"))
    apart = [abs((seconds_of(a) if a else 0) - (seconds_of(b) if b else 0)) for a, b in zip(one, other, strict=True)]
    half = len(apart) // 2
    assert half and apart[0] >= 0.95 * max(apart), "times are shown with two or three digits"
    assert sum(apart[:half]) > sum(apart[-half:])


def test_what_differs_comes_first(opened, replayed):
    """Matches of equal times stand in the order of how much differs, the longest first: other sources, then equal ones."""
    trace = replayed("views/layers-torch2.13-h100")
    changed = {kernel.id for kernel in trace.find("kernel")[1:3]}
    texts = tuple(replace(a, text=a.text.replace("tl.store", "tl.atomic_add")) if a.id in changed else a for a in trace.artifacts)
    tab = opened(explorer.compare(trace, trace_of(replace(trace, artifacts=texts)), names=("one", "other")))
    table = show(tab, "Compare").get_by_role("table", name="matched kernels")
    heads = table.locator("th[scope=col]").all_inner_texts()
    kinds, times = (table.locator("tbody tr").evaluate_all(CELLS, at) for at in (0, heads.index("per run, one")))
    kinds = [kind.rpartition("× ")[2] for kind in kinds]
    assert list(dict.fromkeys(kinds)) == ["same values", "same source", "same call"]
    for kind in set(kinds):
        of_kind = [seconds_of(time) for time, each in zip(times, kinds, strict=True) if each == kind]
        assert of_kind == sorted(of_kind, reverse=True)


def test_a_kernel_of_one_trace_opens_beside_what_the_other_made_of_its_line(opened, zoo):
    """The kernel that one GPU needs more of is shown with lines lit in the other's text too, not beside an unrelated one."""
    traces = zoo("two norms h100"), zoo("two norms mi300x")
    tab = opened(explorer.compare(*traces, names=("h100", "mi300x")))
    table = show(tab, "Compare").get_by_role("table", name="matched kernels")
    row = table.get_by_role("row").filter(has_text="takes 3 nodes in h100")
    name = next(kernel.name for kernel in traces[0].kernels if kernel.name.endswith("native_layer_norm_2"))
    row.get_by_title(name, exact=True).click()
    assert texts_shown(tab)[1].endswith(name)
    assert all(lit(tab)[1:])


@pytest.mark.parametrize("first", [False, True])
def test_the_pane_of_a_trace_without_texts_stays_empty(opened, replayed, first):
    """A compile that gave up before its first text beside one that did not: a line lights what the other trace has of it."""
    trace = replayed("mlp_train-torch2.13-cpu")
    traces = [trace, nothing_of(trace)]
    tab = opened(explorer.compare(*reversed(traces) if first else traces, names=("before", "after")))
    tab.locator(".pane").first.get_by_text("return self.down(hidden)").click()
    texts = tab.evaluate(f"() => {APP}.panes.list.map((pane) => pane.artifact >= 0)")
    assert texts == [True, not first, first]
    assert all(lit(tab)[n] for n in (1, 2) if texts[n])
    sides = show(tab, "Diff").get_by_role("combobox", name="text to compare")
    assert sides.locator("option:checked").count() == 2


def test_traces_without_texts_say_so(opened, replayed):
    """Of two compiles that recorded no text the view says what that means, as it does of one."""
    nothing = nothing_of(replayed("mlp_train-torch2.13-cpu"))
    notice = opened(nothing).get_by_role("tabpanel", name="Code").inner_text()
    tab = opened(explorer.compare(nothing, nothing, names=("before", "after")))
    assert tab.get_by_role("tabpanel", name="Code").inner_text() == notice != ""
    assert show(tab, "Compare").get_by_text("0 matches", exact=True).is_visible()


def nothing_of(trace: Trace) -> Trace:
    """A trace of the same call without any text."""
    return trace_of(replace(trace, artifacts=(), links=()))


@pytest.mark.compile
def test_a_figures_change_has_its_unit_and_no_sign_of_its_own() -> None:
    """A figure that was 0 grew by bytes or seconds; one that differs by less than is shown neither grew nor shrank."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, which runs the front end's source here")
    given = [(0, 3072, "bytes"), (0, 2e-6, "seconds"), (0, 3, ""), (1000, 999, ""), (1000, 1001, ""), (10, 9, ""), (2, 2, "")]
    calls = "JSON.stringify(JSON.parse(process.argv[2]).map((one) => change(...one)))"
    script = f"import(process.argv[1]).then(({{ change }}) => console.log({calls}))"
    command = [node, "-e", script, (SOURCES / "traces.js").as_uri(), json.dumps(given)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(told) == ["+3.0 KiB", "+2 µs", "+3", "≈", "≈", "×0.9", "="]


def test_one_trace_has_no_such_view(opened, engines):
    """The page of one trace has no tab for it; its Compare says what to type to have another trace beside it."""
    tab = opened(engines.traces[0])
    assert tab.get_by_role("tab", name="Compare").count() == 0
    assert tab.locator(".pane").count() == 2
    offer = show(tab, "Diff").get_by_text("explorer.compare(t, explorer.trace(f, x, target=")
    assert offer.is_visible()
    assert show(opened(engines), "Diff").get_by_text("explorer.compare(").count() == 0


def test_a_compile_is_timed_apart_from_the_figures(opened, targets):
    """How long the compile took is said of this machine, and no row of the figures has it."""
    panel = show(opened(targets), "Compare")
    assert panel.get_by_text(re.compile(r"^Compiled where it was traced: before in .*, after in ")).is_visible()
    assert panel.get_by_role("table", name="figures").get_by_text("compile seconds").count() == 0


# Differences -------------------------------------------------------------------------------------------------------------


def parts(tab: Any, a: str, b: str, normalise: bool = False) -> Any:
    return tab.evaluate("([a, b, normalise]) => js.changedParts(a, b, normalise)", [a, b, normalise])


def changed(side: list[list[Any]]) -> list[str]:
    return [text for text, differs in side if differs]


def test_a_changed_line_says_which_tokens_changed(tabs):
    """Two changes in one line are two stretches with what is between them left alone; the stretches are the line."""
    tab = functions(tabs(), "diff.js")
    one, other = "x = tl.load(a + 4, mask, other=0.0)", "x = tl.load(a + 8, mask, other=1.0)"
    left, right = parts(tab, one, other)
    assert (changed(left), changed(right)) == (["4", "0.0"], ["8", "1.0"])
    assert ("".join(text for text, _ in left), "".join(text for text, _ in right)) == (one, other)
    assert changed(parts(tab, "f(x)", "f(x, y)")[1]) == [", y"]
    assert parts(tab, "import triton", "extern void kernel(const float* in_ptr0)") is None


def test_a_renumbered_name_is_no_change_beside_a_real_one(tabs):
    """With names made the same only the operator differs; where nothing else differs, the names do."""
    tab = functions(tabs(), "diff.js")
    left, right = parts(tab, "%12 = arith.addf %3, %4 : f32", "%7 = arith.mulf %1, %2 : f32", True)
    assert (changed(left), changed(right)) == (["addf"], ["mulf"])
    left, _ = parts(tab, "tmp5 = tmp3 + tmp3", "tmp9 = tmp1 + tmp2", True)
    assert changed(left) == ["tmp5", "tmp3", "tmp3"]


def test_any_stage_is_compared_with_its_place_in_the_other_trace(opened, edited):
    """The view opens on a difference; another text on the left brings the same stage of the other trace to the right."""
    tab = opened(edited)
    panel = show(tab, "Diff")
    first, second = (panel.get_by_role("combobox", name=f"{which} text to compare") for which in ("first", "second"))
    assert panel.locator(".cell b").all_inner_texts() == ["tanh", "erf"]
    first.select_option(label="before · Post-grad graph · backward")
    assert second.locator("option:checked").inner_text() == "after · Post-grad graph · backward"
    assert not untold(panel.locator(".diff-bar .count").inner_text(), "same")


def test_a_text_is_never_compared_with_itself_at_first(opened, edited):
    """With one pane of a trace left there is no pair in the panes, so the view opens on what differs."""
    tab = opened(edited)
    tab.get_by_role("button", name="close the third pane").click()
    assert show(tab, "Diff").locator(".cell b").all_inner_texts() == ["tanh", "erf"]


def test_each_kernel_says_of_which_trace_it_is(opened, targets):
    """In the table of kernels the trace stands beside the name, and the sums of all traces stay in sight."""
    panel = show(opened(targets), "Kernels")
    table = panel.get_by_role("table", name="kernels")
    heads = table.locator("th[scope=col]").all_inner_texts()
    assert heads[1] == "trace"
    names = set(table.locator("tbody td:nth-child(2)").all_inner_texts())
    sums = table.locator("tfoot tr")
    assert names == set(targets.names) and sums.count() == len(names)
    tops = [row.evaluate("row => Math.round(row.getBoundingClientRect().top)") for row in sums.all()]
    assert len(set(tops)) == len(tops), "none stands over another"
