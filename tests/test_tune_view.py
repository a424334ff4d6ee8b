"""Verbs in the view: configs of a kernel compared in its detail, kernels timed in the run panel, in a real browser."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import explorer
from explorer.tracing.traced import Trace
from explorer.view.page import bundle, packed
from explorer.view.widget import Explorer
from tests.facts import untold
from tests.in_tab import load_axe, serious, show
from tests.test_editing_view import HOST
from tests.test_what_if_view import carried

pytestmark = pytest.mark.compile


@pytest.fixture(scope="module")
def trace() -> Trace:
    """A softmax for a GPU you don't have."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    import torch

    return explorer.trace(lambda x: torch.softmax(x, -1), torch.randn(16, 512), target="h100")


@pytest.fixture
def hosted(tabs: Callable[..., Any], trace: Trace) -> Iterator[tuple[Any, Explorer]]:
    """The widget of the live trace in a page, as a notebook holds it, and the Python side of it."""
    widget, tab = Explorer(trace), tabs(viewport={"width": 1300, "height": 800})
    tab.evaluate(HOST, [bundle(), base64.b64encode(packed(trace)).decode()])
    yield tab, widget
    widget.close()


def test_configs_are_compared_in_the_detail_of_a_kernel(hosted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has the configs of `k.tune()`; it is there again when the detail is made anew, and can be read by everyone."""
    tab, widget = hosted
    tune_those, tuned = explorer.Kernel.tune, []

    def tune_few(kernel: explorer.Kernel) -> Any:
        """Tune two configs in the place of the 24 that there are, each of which is compiled."""
        tuned.append(tune_those(kernel, [{"num_warps": 2}, {"num_warps": 8}]))
        return tuned[-1]

    monkeypatch.setattr(explorer.Kernel, "tune", tune_few)
    panel = show(tab, "Kernels")
    tune = panel.locator(".tune")
    assert tune.get_by_role("button", name="stop").is_hidden()
    tune.get_by_role("button", name="tune its config").click()
    assert tune.get_by_role("button", name="tune its config").is_disabled()
    assert tune.get_by_role("button", name="stop").is_visible()
    kernel = widget.trace.kernels[0]
    assert carried(tab, widget) == {"ask": "tune", "artifact": kernel.artifact.id}
    (tuning,) = tuned
    rows = tuning.table
    assert len(rows) == 2
    tune.get_by_text(f"{len(rows)} configs").wait_for()
    assert tune.locator("tbody tr").count() == len(rows)
    assert "num warps" in tune.locator("thead").inner_text().lower()
    tab.evaluate("document.querySelector('.explorer-host').app.parts.hub.tell('process', null)")
    assert panel.locator(".tune tbody tr").count() == len(rows)
    load_axe(tab)
    assert [said for said in serious(tab) if "html" not in said] == [], "what is not of the bare page around the view"


def test_a_detail_that_is_made_anew_leaves_the_user_in_their_place(hosted: Any) -> None:
    """The focus, the order of a table's rows and the scroll stay when the process says something, or a text is added."""
    tab, _ = hosted
    panel = show(tab, "Kernels")
    step = panel.get_by_role("button", name="step through its MLIR passes")
    step.focus()
    panel.evaluate("one => { one.scrollTop = 40; }")
    before, label = panel.evaluate("one => one.scrollTop"), step.text_content()
    hub = "document.querySelector('.explorer-host').app.parts.hub"
    focused = "() => document.querySelector('.explorer-host').shadowRoot.activeElement?.textContent"
    for message in ("process", "grown"):
        tab.evaluate(f"() => {hub}.tell('{message}', 0)")
        assert tab.evaluate(focused) == label
    assert panel.evaluate("one => one.scrollTop") == before
    rung = panel.locator(".ladder button").first
    rung.focus()
    title = tab.evaluate(focused)
    tab.evaluate(
        "() => { const { kernel, store } = document.querySelector('.explorer-host').app.tabs.views.get('kernels');"
        " store.artifact(kernel.artifact).lines += 1; }"
    )
    tab.evaluate(f"() => {hub}.tell('grown', 0)")
    assert tab.evaluate(focused) not in (title, None), "its number of lines is another"
    assert tab.evaluate(focused).split("source")[0] == title.split("source")[0]


def test_the_run_panel_says_why_kernels_cannot_be_timed_and_has_the_roofline(hosted: Any) -> None:
    """Times need the GPU; the roofline does without, and is a table."""
    tab, widget = hosted
    panel = show(tab, "Run")
    panel.get_by_role("button", name="time kernels").click()
    assert carried(tab, widget) == {"ask": "time_kernels"}
    assert not untold(panel.get_by_role("status").inner_text(), "'h100'", "attached")
    panel.get_by_role("button", name="roofline").click()
    assert carried(tab, widget) == {"ask": "roofline"}
    assert widget.trace.kernels[0].name in panel.locator("table").inner_text()
