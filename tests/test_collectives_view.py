"""The view of collectives: their rows, the two streams over time, and the lines that they lead to, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from playwright.sync_api import expect
from torch.distributed import _functional_collectives as functional

import explorer
from explorer.tracing.traced import Trace
from tests.tabs import to_view

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*:FutureWarning")


@pytest.fixture
def traced(zoo: Callable[[str], Trace]) -> Trace:
    """A sum over all of eight GPUs that a product does not need, and one of that product."""
    return zoo("exchanged h100")


def view(tab: Any) -> Any:
    to_view(tab, "Collectives")
    return tab.get_by_role("tabpanel", name="Collectives")


def test_each_collective_has_a_row_with_its_line(opened: Any, traced: Trace) -> None:
    """The rows are those of `t.collectives.table`, with the user's line, and a click leads to where the output code starts it."""
    tab = opened(traced)
    panel = view(tab)
    rows = panel.locator("tbody tr")
    expect(rows).to_have_count(2)
    for shown, row in zip(rows.all(), traced.collectives.table, strict=True):
        assert row["operator"] in shown.inner_text() and "0 to 7" in shown.inner_text()
        assert f"{row['file'].rpartition('/')[2]}:{row['line']}" in shown.inner_text()
    rows.nth(1).get_by_role("button").click()
    expect(tab.get_by_role("tab", name="Code")).to_have_attribute("aria-selected", "true")
    code = traced.text("output_code").splitlines()[traced.collectives.table[1]["started"] - 1]
    expect(tab.locator(".line.chosen").first).to_contain_text(code.strip()[:40])


def test_the_streams_are_as_long_as_the_rows_say(opened: Any, traced: Trace) -> None:
    """A block stands where `t.collectives.timeline` has it begin, as wide as its seconds; what nothing hides stands as a wait."""
    panel = view(opened(traced))
    timed = [row for row in traced.collectives.timeline if row["seconds"]]
    end = max(row["begins"] + row["seconds"] for row in timed)
    for stream in ("compute", "communication", "wait"):
        blocks = panel.locator(f".stream-lane i.{stream}")
        mine = [row for row in timed if row["stream"] == stream]
        expect(blocks).to_have_count(len(mine))
        for block, row in zip(blocks.all(), mine, strict=True):
            style = dict(re.findall(r"(left|width): ([\d.e-]+)%", block.get_attribute("style") or ""))
            assert float(style["left"]) == pytest.approx(100 * row["begins"] / end, abs=1e-3)
            assert float(style["width"]) == pytest.approx(100 * row["seconds"] / end, abs=1e-3)
    assert panel.locator(".stream-lane i.wait").count() > 0


def test_without_a_price_nothing_is_drawn_and_the_reason_stands_there(opened: Any, zoo: Callable[[str], Trace]) -> None:
    """A group larger than what connects the GPUs has no time: the rows are there, the streams are not, and the view says why."""
    panel = view(opened(zoo("exchanged h100 of 64")))
    expect(panel.locator("tbody tr")).to_have_count(2)
    expect(panel).to_contain_text("larger than the 8 GPUs")
    expect(panel).to_contain_text("Not drawn over time: how long all_reduce takes is not known.")
    assert panel.locator(".stream-lane").count() == 0


def test_a_trace_without_collectives_has_no_such_tab(opened: Any, replayed: Any) -> None:
    """The tab is there only where there is something to show."""
    tab = opened(replayed("mlp_train-torch2.11-cuda"))
    expect(tab.get_by_role("tab", name="Code")).to_be_visible()
    assert tab.get_by_role("tab", name="Collectives").count() == 0


def test_two_traces_are_told_apart(opened: Any, traced: Trace, zoo: Callable[[str], Trace]) -> None:
    """Side by side each trace's graphs have their own rows and streams."""
    panel = view(opened(explorer.compare(traced, zoo("exchanged b200"), names=["h100", "b200"])))
    expect(panel.locator("h3")).to_have_count(2)
    assert {text.split()[0] for text in panel.locator("h3").all_inner_texts()} == {"h100", "b200"}
    expect(panel.locator("tbody tr")).to_have_count(4)


def test_each_process_group_has_a_stream_of_its_own(opened: Any) -> None:
    """Collectives of two groups that need nothing of each other are drawn beside each other, in a lane for each."""
    with explorer.Cluster("h100", 8) as cluster:
        mesh = torch.distributed.init_device_mesh("cuda", (2, 4))
        names = [mesh.get_group(dimension).group_name for dimension in (0, 1)]

        def both(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            first = functional.all_reduce(x + 1, "sum", names[0])
            second = functional.all_reduce(w + 1, "sum", names[1])
            return first * second

        x = torch.empty(1024, 1024, device="meta", dtype=torch.bfloat16)
        trace = explorer.trace(both, x, x.clone(), target=cluster)  # compiled here: its groups are those of the cluster
    assert [row["group"] for row in trace.collectives.timeline if row["stream"] == "communication"] == names
    panel = view(opened(trace))
    expect(panel.locator(".stream")).to_have_count(3)
    expect(panel).to_contain_text("2 collectives in 2 groups")
    begun = [row["begins"] for row in trace.collectives.timeline if row["stream"] == "communication"]
    assert begun[1] < begun[0] + trace.collectives.table[0]["seconds"]


def test_what_is_hidden_is_said_in_words(opened: Any, zoo: Callable[[str], Trace]) -> None:
    """Where a product runs as long as the collective before its wait, nothing waits: the view says so instead of 0 seconds."""
    trace = zoo("hidden h100")
    assert [row["exposed"] for row in trace.collectives.table] == [0.0]
    panel = view(opened(trace))
    expect(panel).to_contain_text("all of it hidden by what runs meanwhile.")
    expect(panel).to_contain_text("in all, none of it waiting for a collective.")
