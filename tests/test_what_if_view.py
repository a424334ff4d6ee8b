"""What if, from the view: nodes kept apart, a pass left out, the changed trace beside the old one, in a real browser."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import explorer
from explorer.tracing.traced import Trace
from explorer.view import saved_output
from explorer.view.page import bundle, packed
from explorer.view.widget import Explorer, worker
from tests.in_tab import name_nodes, show
from tests.tabs import to_texts

pytestmark = pytest.mark.compile

HOST = """async ([bundle, payload]) => {
    const read = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
    const state = { is_live: true, selected: {}, command: {}, additions: [], progress: {}, payload: read(payload) };
    const listeners = new Map();
    window.asked = [];
    window.tell = (name, value) => {
        state[name] = name === 'beside' ? read(value) : value;
        listeners.get(`change:${name}`)?.();
    };
    const model = {
        get: (name) => state[name], set: (name, value) => (state[name] = value), save_changes: () => {},
        on: (event, action) => listeners.set(event, action), off: (event) => listeners.delete(event),
        send: (question) => window.asked.push(question),
    };
    window.listeners = listeners;
    const el = document.body.appendChild(document.createElement('div'));
    const url = URL.createObjectURL(new Blob([bundle], { type: 'text/javascript' }));
    const { default: widget } = await import(url);
    window.take_down = await widget.render({ model, el });
}"""


#: The same model, joined to a view that the page has already.
JOINED = HOST.replace("is_live: true,", "is_live: true, key: 'abc',").replace(
    "window.take_down = await widget.render({ model, el });", "window.take_down = widget.initialize({ model });"
)


@pytest.fixture(scope="module")
def trace() -> Trace:
    """A pointwise chain and a reduction, in one kernel for an absent H100."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    import torch

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.sin(x) * 2, -1)

    return explorer.trace(f, torch.randn(64, 64), target="h100")


@pytest.fixture
def hosted(tabs: Callable[..., Any], trace: Trace, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Explorer]]:
    """The widget of the live trace in a page, as a notebook holds it, and the Python side of it."""
    monkeypatch.setattr(worker, "CHECK_LIMIT", 0.01)
    widget, tab = Explorer(trace), tabs(viewport={"width": 1300, "height": 800})
    tab.evaluate(HOST, [bundle(), base64.b64encode(packed(trace)).decode()])
    yield tab, widget
    tab.evaluate("window.take_down()")
    assert tab.evaluate("[document.querySelectorAll('.explorer-host').length, window.listeners.size]") == [0, 0]
    widget.close()


def carried(tab: Any, widget: Explorer) -> dict[str, Any]:
    """Carry what the view asks to Python, and the answers back; return the question."""
    question = tab.evaluate("window.asked.pop()")
    widget._worker.answer(question)
    widget._worker.wait()
    if widget.beside:
        tab.evaluate("([name, value]) => tell(name, value)", ["beside", base64.b64encode(widget.beside).decode()])
    tab.evaluate("([name, value]) => tell(name, value)", ["progress", widget.progress])
    return dict(question)


def test_two_nodes_are_kept_apart_from_the_view(hosted: tuple[Any, Explorer], trace: Trace) -> None:
    """Two fused nodes: "keep apart" in the view compiles again, and the trace with a kernel more stands beside the old one."""
    tab, widget = hosted
    panel = show(tab, "Fusion")
    first, second = next(row["nodes"] for row in trace.fusion.groups if len(row["nodes"]) > 1)[:2]
    apart, together = (panel.get_by_role("button", name=name) for name in ("keep apart", "fuse anyway"))
    assert apart.is_disabled() and together.is_disabled()
    name_nodes(panel, first, second)
    assert together.is_disabled(), "they are fused"
    apart.click()
    question = carried(tab, widget)
    assert (question["ask"], question["fusion"], question["first"], question["second"]) == (
        "what_if",
        "keep_apart",
        first,
        second,
    )
    assert "error" not in widget.progress, widget.progress
    changed = tab.locator(".explorer-changed")
    figures = changed.get_by_role("table", name="figures").locator("tbody tr").filter(has_text="kernels").first.inner_text()
    expected = trace.what_if(keep_apart=(first, second), limit=0.01).figure("kernels")
    assert expected["change"] > 0
    assert figures.split("\t")[1:3] == [str(expected["before"]), str(expected["after"])]
    beside = changed.get_by_role("tabpanel", name="Compare")
    assert f"{first} and {second} apart" in beside.locator("h2").first.inner_text()
    changed.get_by_role("button", name="back to the trace").click()
    assert tab.locator(".explorer-changed").count() == 0
    assert panel.get_by_label("first node").input_value() == first, "the old view is as it was"


def test_the_changed_trace_stands_beside_one_that_an_output_holds(shown: Any, trace: Trace) -> None:
    """As in JupyterLab: the output's HTML shows the view, and the widget's model shows none of its own."""
    tab = shown(f"<!doctype html><body>{saved_output.output(trace, packed(trace), 'abc')}</body>")
    to_texts(tab.locator(".explorer-host"))
    tab.evaluate(JOINED, [bundle(), base64.b64encode(packed(trace)).decode()])
    tab.evaluate("([name, value]) => tell(name, value)", ["beside", base64.b64encode(packed(trace)).decode()])
    changed = tab.locator(".explorer-changed")
    changed.get_by_role("button", name="back to the trace").click()
    assert changed.count() == 0 and tab.locator(".explorer-host .pane").first.is_visible()


def test_what_cannot_be_done_is_said_where_it_was_asked(hosted: tuple[Any, Explorer]) -> None:
    """A name that no node has: Python's error stands in the view, and the trace stays in sight."""
    tab, widget = hosted
    panel = show(tab, "Fusion")
    widget._worker.answer({"ask": "what_if", "fusion": "keep_apart", "first": "op77", "second": "op0"})
    widget._worker.wait()
    assert widget.beside == b""
    tab.evaluate("([name, value]) => tell(name, value)", ["progress", widget.progress])
    assert "op77" in panel.locator(".answer .note").inner_text()
    assert tab.locator(".explorer-changed").count() == 0


def test_a_pattern_or_pass_is_left_out_from_the_view(hosted: tuple[Any, Explorer], trace: Trace) -> None:
    """Every pattern that matched and pass that changed a graph is offered; leaving one out asks Python for just that."""
    tab, widget = hosted
    panel = show(tab, "Fusion")
    offered = panel.get_by_label("pattern or pass to leave out").locator("option").all_inner_texts()
    patterns = {row["pattern"] for row in trace.inductor.matches}
    assert set(offered) == {f"pattern {name}" for name in patterns} | {
        f"pass {row['name']}" for row in trace.inductor.passes.where(changed=True)
    }
    panel.get_by_role("button", name="leave it out").click()
    question = carried(tab, widget)
    kind, _, name = offered[0].partition(" ")
    assert question == {"ask": "what_if", f"without_{kind}": name}
    assert f"without {name}" in tab.locator(".answer .note").text_content()


def test_a_saved_trace_says_what_to_type(opened, rotary: Trace) -> None:
    """Without the process that compiled, the same press gives the call that does it in a notebook."""
    panel = show(opened(rotary), "Fusion")
    name_nodes(panel, "op0", "op1")
    panel.get_by_role("button", name="keep apart").click()
    assert panel.locator(".answer .note code").inner_text() == 't.what_if(keep_apart=("op0", "op1"))'


def test_the_changed_trace_stands_over_a_view_that_fills_the_screen(hosted: tuple[Any, Explorer], trace: Trace) -> None:
    """The answer leaves full screen as it is: the changed trace stands over the old one, what came of the change first."""
    tab, _ = hosted
    full = "document.querySelector('.explorer-host').app.fullScreen"
    tab.evaluate(f"{full}.fill()")
    tab.evaluate("([name, value]) => tell(name, value)", ["beside", base64.b64encode(packed(trace)).decode()])
    answer = {"what": "what_if", "rows": [{"change": "x", "result": "its result is the same"}]}
    tab.evaluate("([name, value]) => tell(name, value)", ["progress", answer])
    changed = tab.locator(".explorer-changed:popover-open")
    changed.get_by_role("button", name="back to the trace").wait_for()
    assert tab.evaluate(f"{full}.isOn") and changed.bounding_box() == {"x": 0, "y": 0, "width": 1300, "height": 800}
    assert changed.locator("[role=status]").first.inner_text() == "its result is the same"
    changed.get_by_role("button", name="back to the trace").click()
    assert changed.count() == 0 and tab.evaluate(f"{full}.isOn")
    tab.evaluate(f"{full}.shrink()")
    tab.get_by_role("button", name="full screen").first.click()
    tab.wait_for_function("document.fullscreenElement !== null")
    tab.evaluate("([name, value]) => tell(name, value)", ["beside", base64.b64encode(packed(trace)).decode()])
    changed.wait_for()
    assert changed.evaluate("one => document.fullscreenElement.shadowRoot.contains(one)"), "else nothing of it can be clicked"
    changed.get_by_role("button", name="back to the trace").click()
    assert changed.count() == 0


def test_a_fusion_that_fails_is_answered_where_it_was_asked() -> None:
    """Where Inductor keeps the nodes apart all the same, the answer is its reason alone, and no equal trace comes up beside."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    import torch

    widget = Explorer(explorer.trace(lambda x: (torch.sin(x) * 2).sum(dim=0), torch.randn(512, 512), target="h100"))
    widget._worker.answer({"ask": "what_if", "fusion": "fuse", "first": "op0", "second": "op1"})
    widget._worker.wait()
    (answer,) = widget.progress["rows"]
    assert answer["result"].startswith("op0 and op1 are still separate kernels. ") and "result is" not in answer["result"]
    assert widget.beside == b""
    widget.close()
