"""What a cell does with a trace, in an open view of that trace: told by the widget, shown by the front end."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import explorer
from explorer.lab.live.protocol import live_of
from explorer.process import under_way
from explorer.tracing.traced import Trace
from explorer.tracing.traced.comparison import view_of
from explorer.view.page import bundle, packed
from explorer.view.widget import Explorer
from tests.facts import untold
from tests.in_tab import hold_timers, run_timers, until
from tests.tabs import to_view
from tests.test_widget import HOST


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2 + 1


@pytest.fixture(scope="module")
def trace() -> Trace:
    """A live trace of the CPU."""
    return explorer.trace(program, torch.randn(64), backend="aot_eager")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[Explorer], list[dict[str, Any]]]:
    """Have each verb be long, and collect what a widget says of those that are called."""
    monkeypatch.setattr(under_way, "INTERVAL", 0.005)

    def collect(widget: Explorer) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = []
        widget.observe(lambda change: said.append(change["new"]), "called")
        return said

    return collect


@pytest.fixture
def widget(trace: Trace) -> Iterator[Explorer]:
    made = Explorer(trace)
    yield made
    made.close()


@pytest.mark.compile
def test_a_verb_called_in_python_is_told_to_the_view(trace: Trace, widget: Explorer, told: Any) -> None:
    """`t.benchmark()` beside an open view: what it does and how far it is, and {} when it has returned."""
    said = told(widget)
    trace.benchmark(2000)
    assert {one.get("what") for one in said[:-1]} == {"benchmark()"} and said[-1] == {} == widget.called
    assert any(one["phase"] == "timing" and 0 < one["done"] < one["of"] == 2000 for one in said[:-1])
    assert widget.progress == {}, "nothing of it is an answer to a question of the view"


@pytest.mark.compile
def test_a_second_compile_names_its_phases(told: Any) -> None:
    """`t.what_if()` is one verb, from the compile to the interpreter that checks the result."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    trace = explorer.trace(program, torch.randn(5000), target="h100")
    view = Explorer(trace)
    said = told(view)
    trace.what_if(options={"max_fusion_size": 2})
    view.close()
    assert {one.get("what") for one in said} == {"what_if()", None}
    phases = "\n".join(one.get("phase", "") for one in said)
    assert "compiling program: " in phases and "1 kernel, interpreting program: " in phases


@pytest.mark.compile
def test_what_the_view_asked_for_says_its_phases_too(trace: Trace, widget: Explorer, told: Any) -> None:
    """The worker's own task goes by `progress`, with its phase; `called` stays empty."""
    said, progress = told(widget), []
    widget.observe(lambda change: progress.append(change["new"]), "progress")
    original = type(live_of(trace)).check

    def slow(live: Any, *args: Any) -> Any:
        under_way.step("calling it eagerly")
        until(lambda: "calling it eagerly" in {one.get("phase") for one in progress})
        return original(live, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(live_of(trace)), "check", slow)
        widget._worker.answer({"ask": "check"})
        widget._worker.wait()
    assert "calling it eagerly" in {one.get("phase") for one in progress}
    assert progress[-1]["rows"] and said == []


@pytest.mark.compile
def test_a_view_that_is_closed_hears_nothing(trace: Trace, told: Any) -> None:
    """A closed widget is let go by its trace."""
    made = Explorer(trace)
    said = told(made)
    made.close()
    trace.benchmark(500)
    assert said == []


@pytest.mark.compile
def test_the_view_of_a_comparison_hears_of_its_traces(trace: Trace, told: Any) -> None:
    """`c.benchmark()` beside the view of the comparison."""
    other = explorer.trace(program, torch.randn(64), backend="eager")
    comparison = explorer.compare(trace, other, names=("one", "other"))
    view = view_of(comparison)
    said = told(view)
    comparison.benchmark(1000)
    view.close()
    assert {one.get("what") for one in said} == {"benchmark()", None}


@pytest.mark.compile
def test_the_button_of_a_view_ends_the_cell(trace: Trace, widget: Explorer, told: Any) -> None:
    """The view's message arrives in another thread; the verb ends as if the kernel had been interrupted."""
    said = told(widget)

    def press() -> None:
        until(lambda: said)
        widget._worker.answer({"ask": "interrupt"})

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt, match="stopped in a view"):
        trace.benchmark(1_000_000)
    pressing.join()
    assert widget.called == {} and len(trace.benchmark(3)) == 2


# In a browser --------------------------------------------------------------------------------------------------------

LIVE = HOST.replace("is_live: false", "is_live: true, called: {}, progress: {}, passes: {}").replace(
    "get: (name)", "send: (question) => (window.asked ??= []).push(question), get: (name)"
)
#: The milliseconds after which the view says that nobody has heard its question, as in `called.js`.
UNHEARD = 1500
CALLED = "(said) => { window.model.set('called', said); window.model.listeners.get('change:called')(); }"


@pytest.fixture
def tab(tabs: Callable[..., Any], replayed: Callable[[str], Trace]) -> Iterator[Any]:
    """The widget in a page that is not Jupyter's, whose model the test leads."""
    page = tabs()
    data = base64.b64encode(packed(replayed("mlp_train-torch2.11-cuda"))).decode()
    page.evaluate(LIVE, [bundle(), data, "vscode-light", False])
    yield page
    page.evaluate("window.take_down()")
    assert page.evaluate("window.model.listeners.size") == 0


def test_the_view_shows_what_a_cell_does(tab: Any) -> None:
    """Verb, seconds, phase and share, in each view; an answered stop says so, and the bar goes with the verb."""
    hold_timers(tab)
    bar = tab.get_by_role("group", name="called in a cell")
    assert bar.is_hidden()
    tab.evaluate(CALLED, {"what": "benchmark()", "phase": "timing", "done": 3, "of": 30, "seconds": 61.5})
    bar.wait_for()
    assert bar.locator("span").inner_text() == "in a cell: benchmark() … 61 s, timing"
    assert bar.locator("progress").evaluate("bar => bar.value") == pytest.approx(0.1)
    to_view(tab, "Memory")
    assert bar.is_visible()
    bar.get_by_role("button", name="stop").click()
    assert tab.evaluate("window.asked") == [{"ask": "interrupt"}]
    assert "asked to stop" in bar.inner_text() and bar.get_by_role("button").is_disabled()
    tab.evaluate(CALLED, {"what": "benchmark()", "phase": "timing", "stopping": True, "seconds": 62})
    assert bar.locator("span").inner_text().endswith("timing, stopping")
    assert UNHEARD not in run_timers(tab), "the kernel has heard: nothing waits any more to say that it cannot"
    assert "interrupt" not in bar.inner_text()
    tab.evaluate(CALLED, {})
    assert bar.is_hidden()
    tab.evaluate(CALLED, {"what": "check()", "seconds": 1})
    assert bar.locator("span").inner_text() == "in a cell: check() … 1 s" and bar.get_by_role("button").is_enabled()


def test_a_kernel_that_cannot_hear_is_said_to_be(tab: Any) -> None:
    """Where no message arrives while a cell runs, as in VS Code, the view says what stops the cell."""
    hold_timers(tab)
    bar = tab.get_by_role("group", name="called in a cell")
    tab.evaluate(CALLED, {"what": "check()", "phase": "calling it eagerly", "seconds": 1})
    bar.get_by_role("button", name="stop").click()
    assert UNHEARD in run_timers(tab)
    assert not untold(bar.inner_text(), "interrupt", "kernel")
    tab.evaluate("window.model.listeners.get('comm_live_update')()")
    assert bar.is_hidden(), "the kernel was restarted"
