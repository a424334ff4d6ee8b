"""A bisection in a trace: each judged value as a line, marks in the view with words, and all of it in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

import explorer
from explorer.errors import InputError
from explorer.lab.bisecting.bisection import Bisection
from explorer.model.records import typed
from explorer.stages.torch_compile.bisection import Bisected
from explorer.tracing.traced import Trace
from tests.facts import says
from tests.in_tab import show

pytestmark = pytest.mark.compile

FILE = Path(__file__).parents[3] / "benchmarks" / "bisecting.py"
#: A trace and its bisection.
Judged = tuple[Trace, Bisection]


@pytest.fixture(scope="module")
def judged(module_at: Callable[[Path], ModuleType]) -> Judged:
    """A trace with a wrong sine, a product of a library, random numbers that cannot be compared, and its bisection."""
    script = module_at(FILE)

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((x.exp() @ y).sin() @ y).cos() + torch.rand(8, 16, device=x.device)

    with script.in_lowering():
        trace = explorer.trace(function, torch.randn(8, 16), torch.randn(16, 16) / 4, target="h100")
    return trace, trace.bisect(cause=False)


def test_each_judged_value_is_a_line_that_leads_to_its_launch_and_its_node(judged: Judged) -> None:
    """The stage says in words what was judged, and its lines are linked to the output code and to the graph."""
    trace, result = judged
    painted = trace.attach(result)
    (artifact,) = painted.find("bisection")
    data = typed(Bisected, artifact.data)
    assert [row.equal for row in data.rows] == [row["equal"] for row in result.table] and result.first is not None
    assert data.first == result.first.launch and {True, False, None} == {row.equal for row in data.rows}
    wrong = next(n for n, row in enumerate(data.rows) if row.equal is False)
    assert artifact.lines[wrong + 2].startswith("✗ off") and "sin" in data.rows[wrong].nodes
    linked = {(row["stage"], line) for row in painted.follow(artifact, wrong + 3) for line in row["lines"]}
    assert ("output_code", data.rows[wrong].line) in linked and "post_grad" in dict(linked)
    assert painted.attach(result) == painted and not trace.find("bisection")


def test_what_a_bisection_found_is_in_the_file(judged: Judged, tmp_path: Path) -> None:
    """A saved trace has it, though nothing can be launched of it any more."""
    trace, result = judged
    painted = trace.attach(result)
    painted.save(tmp_path / "t.json.gz")
    assert explorer.load(tmp_path / "t.json.gz") == painted


def test_a_bisection_of_another_trace_is_refused(judged: Judged) -> None:
    """Its launches are not those of this code."""
    other = explorer.trace(torch.sin, torch.randn(8), target="h100")
    with pytest.raises(InputError, match=says("bisection", "another", "t.bisect()")):
        other.attach(judged[1])
    with pytest.raises(InputError, match=says("int", "attach", "t.bisect()")):
        other.attach(3)  # type: ignore[arg-type]


def test_the_view_says_in_words_what_is_off_right_and_not_compared(opened, judged: Judged) -> None:
    """The graph has a legend with counts, the table of kernels and the rail have the word beside each kernel."""
    trace, result = judged
    tab = opened(trace.attach(result))
    legend = show(tab, "Graph").locator(".judged").inner_text()
    assert result.first is not None
    for word in ("✗ off", "✓ right", "○ not compared"):
        assert word in legend
    panel = show(tab, "Kernels")
    rows = panel.get_by_role("table", name="kernels").locator("tbody tr").all_inner_texts()
    by_kernel = {row["kernel"]: row["equal"] for row in result.table}
    off = [row for row in rows if "✗ off" in row]
    assert len(off) == sum(equal is False for equal in by_kernel.values()) == 1
    assert len([row for row in rows if "✓ right" in row]) >= 1
    assert "✗ off" in tab.locator(".rail").inner_text()


def test_a_view_without_a_bisection_has_no_word_of_it(opened, judged: Judged) -> None:
    """Neither a legend nor a column."""
    tab = opened(judged[0])
    assert show(tab, "Graph").locator(".judged").count() == 0
    assert "bisection" not in show(tab, "Kernels").get_by_role("table", name="kernels").inner_text()
