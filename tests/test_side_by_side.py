"""Two traces in one view, in a real browser: panes for each, one click lights all, and what they differ in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import explorer
from explorer.traced import Trace
from explorer.traced.comparison import Comparison

APP = "document.querySelector('#explorer').app"


@pytest.fixture(scope="module")
def engines(replayed: Callable[[str], Trace]) -> Comparison:
    """One linear layer by IREE and by ONNX Runtime."""
    traces = map(replayed, ("iree_linear-torch2.13-cpu", "onnxrt_linear-torch2.13-cpu"))
    return explorer.compare(*traces, names=("IREE", "ONNX"))


@pytest.fixture(scope="module")
def targets(replayed: Callable[[str], Trace]) -> Comparison:
    """A training step twice: a trace beside itself."""
    trace = replayed("mlp_train-torch2.13-cpu")
    return explorer.compare(trace, trace, names=("before", "after"))


def shown(tab: Any) -> list[str]:
    """The ids of the texts in the panes."""
    ids: list[str] = tab.evaluate(f"() => {APP}.panes.list.map((pane) => {APP}.store.artifact(pane.artifact).id)")
    return ids


def lit(tab: Any) -> list[list[int]]:
    """The lines that are lit in each pane."""
    lines: list[list[int]] = tab.evaluate(f"() => {APP}.panes.list.map((pane) => pane.sorted)")
    return lines


def test_a_click_on_a_user_line_lights_both_sides(opened, engines):
    """The program, IREE's dispatches and ONNX Runtime's graph are beside each other; a line lights what each made of it."""
    tab = opened(engines)
    assert shown(tab) == ["IREE 0/0:source", "IREE 0/0:iree_flow:inference", "ONNX 0/0:onnxrt_all:inference"]
    tab.locator(".pane").first.get_by_text("z = torch.relu(y)").click()
    _, dispatch, graph = lit(tab)
    texts = engines.traces[0].find("iree_flow")[0].lines, engines.traces[1].find("onnxrt_all")[0].lines
    assert any("arith.cmpf ugt" in texts[0][line - 1] for line in dispatch)
    assert len(graph) == 1 and "FusedGemm" in texts[1][graph[0] - 1]
    tab.locator(".pane").nth(2).get_by_text("Add (relu, val_0)").click()
    program, dispatch, _ = lit(tab)
    assert program == [4] and any("arith.addf" in texts[0][line - 1] for line in dispatch)


def test_a_line_has_one_colour_in_all_traces(opened, engines):
    """A line of the second trace comes from the line of the first one's source, so it has its hue."""
    tab = opened(engines)
    hues = tab.evaluate(f"""() => [["IREE 0/0:source", 3], ["ONNX 0/0:source", 3], ["ONNX 0/0:onnxrt_all:inference", 13]]
        .map(([id, line]) => {APP}.store.hue({APP}.store.byId.get(id), line))""")
    assert hues[0] is not None and len(set(hues)) == 1


def test_the_panes_follow_a_line_to_another_kernel(opened, targets):
    """A user line that the shown kernels do not compute brings the kernels or calls that do, one of each trace."""
    tab = opened(targets)
    tab.locator(".pane").first.get_by_text("return self.down(hidden)").click()
    assert [id.partition(" ")[0] for id in shown(tab)] == ["before", "before", "after"]
    _, before, after = lit(tab)
    assert before and before == after


def test_figures_kernels_and_lines_are_told(opened, engines):
    """One view has the counts with their change, the kernels by what they compute, and the lines; a kernel opens in its pane."""
    tab = opened(engines)
    tab.get_by_role("tab", name="Side by side").click()
    panel = tab.get_by_role("tabpanel", name="Side by side")
    figures = panel.get_by_role("table", name="figures")
    row = figures.get_by_role("row").filter(has_text="between kernels").inner_text().split("\t")
    assert [cell.strip() for cell in row] == ["between kernels", "240 B", "304 B", "+27 %"]
    (match,) = panel.get_by_role("table", name="matched kernels").locator("tbody tr").all()
    assert re.match(r"split\s+forward", match.inner_text()) and "+27 %" in match.inner_text()
    assert panel.get_by_role("table", name="lines").locator("tbody tr").count() == 3
    match.get_by_role("button", name="node_add", exact=True).click()
    assert tab.get_by_role("tab", name="Code").get_attribute("aria-selected") == "true"
    assert shown(tab)[2] == "ONNX 0/0:onnxrt_all:inference"


def test_one_trace_has_no_such_view(opened, engines):
    """The page of one trace has the tabs that it had."""
    tab = opened(engines.traces[0])
    assert tab.get_by_role("tab", name="Side by side").count() == 0
    assert tab.locator(".pane").count() == 2
