"""The widget in JupyterLab, Notebook 7 and Voila, from end to end: compile for a GPU you don't have, click a line, lead
the view from Python. JupyterLab comes with the package; the others are tried where they are installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.in_lab import KERNEL, PLACES, READY, Lab, in_kernel, run, run_all, running, window, write_notebook
from tests.tabs import to_texts, to_view

pytestmark = pytest.mark.compile

CELLS = (
    """import explorer, torch

def f(x):
    y = torch.sin(x)
    return y * 2 + 1

t = explorer.trace(f, torch.randn(1000), target="h100")
w = explorer.show(t)
heard = []
w.observe(lambda change: heard.append(change["new"]), "selected")
""",
    "t",
)


@pytest.fixture(params=["lab", "notebook"])
def notebook(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Any]:
    """The notebook open and run, in JupyterLab and in Notebook 7."""
    needs(request.param)
    with lab.notebook(*CELLS, front_end=request.param) as tab:
        run_all(tab)
        tab.locator(".explorer-host .pane").first.wait_for(state="attached", timeout=KERNEL)
        yield tab


def needs(front_end: str) -> None:
    """Skip a front end that is not installed."""
    module = {"lab": "jupyterlab"}.get(front_end, front_end)
    pytest.importorskip(module, reason=f"{module} is not installed: pip install {module}")
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernel")


def test_a_click_lights_the_texts_and_python_hears_of_it(notebook):
    """A click on the user's line lights every text, also SASS made on demand; Python hears, and leads the view."""
    view = notebook.locator(".explorer-host").first
    others = notebook.locator(".explorer-host")
    others.nth(1).wait_for()
    assert others.count() == 2, "one view of each of the two cells"

    to_texts(view)
    view.get_by_role("treeitem", name="SASS").click()  # made now, in a thread of the kernel
    view.locator(".pane select").nth(1).locator("option:checked", has_text="SASS").wait_for(state="attached")
    assert view.get_by_role("treeitem", name="SASS").get_attribute("class") == "item shown", "it is a text like any other now"
    view.locator(".pane").first.locator(".line", has_text="torch.sin").click()
    view.locator(".item.linked").first.wait_for()
    wanted = run(notebook, "sorted({row['stage'] for row in w.trace.follow('0/0:source', 2)})")
    lit = view.evaluate("host => [...host.app.selection.lit.keys()].map((n) => host.app.store.artifact(n).stage)")
    assert sorted(set(lit)) == wanted and {"dynamo", "post_grad"} <= set(wanted)
    assert view.locator(".item.linked").count() >= len(wanted)
    selected = in_kernel(notebook, "[w.selected.get('stage'), w.selected.get('line'), len(heard)]", ["source", 2, 1])
    assert selected == ["source", 2, 1]

    assert run(notebook, "w.show('ttgir', kernel=0, pane='right')") is None
    view.locator(".pane select").nth(1).locator("option:checked", has_text="TTGIR").wait_for(state="attached")
    run(notebook, "w.select('source', 3)")
    view.locator(".line.chosen", has_text="return y").wait_for()

    before = cells(notebook)
    view.get_by_role("treeitem", name="Post-grad graph").click()
    for key in ("b", "d", "d", "a"):
        notebook.keyboard.press(key)  # in command mode these would insert and delete cells
    assert cells(notebook) == before == len(CELLS)
    is_unsaved = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"
    assert notebook.evaluate(is_unsaved), "the outputs are new"
    notebook.keyboard.press("Control+s")
    notebook.wait_for_function(f"() => !({is_unsaved})()")

    to_view(view, "Kernels")
    view.get_by_role("button", name="step through its MLIR passes").click()
    view.locator(".step.dim").first.wait_for()
    assert view.get_by_role("listbox", name="passes").get_by_role("option").count() > 10

    to_view(view, "Run")
    view.get_by_role("button", name="check").click()
    view.get_by_role("table", name="check").wait_for()


#: A verb that takes half an hour, called in a cell below the view.
LONG = (
    """import explorer, torch

def f(x):
    return torch.sin(x) * 2 + 1

t = explorer.trace(f, torch.randn(1000), backend="aot_eager")
w = explorer.show(t)
""",
    "t.benchmark(10_000_000)",
)


def interrupted_until_hidden(tab: Any, bar: Any) -> None:
    """Interrupt the kernel as its button does, again where nothing ends: torch drops one that arrives in a Python guard."""
    from playwright.sync_api import TimeoutError as StillThere

    for _ in range(12):
        tab.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")
        with suppress(StillThere):
            bar.wait_for(state="hidden", timeout=10_000)
            return
    raise AssertionError("twelve interrupts ended nothing")


@pytest.mark.parametrize("server", ["lab", "notebook"])
def test_a_view_shows_what_a_cell_does_with_its_trace(lab: Lab, server: str) -> None:
    """While a cell runs a verb, the view shows how far it is; an interrupt of the kernel ends both, and the trace can go on."""
    needs(server)
    with lab.notebook(*LONG, front_end=server) as tab:
        run_all(tab)
        bar = tab.locator(".explorer-host").first.get_by_role("group", name="called in a cell")
        bar.get_by_text("in a cell: benchmark()").wait_for(timeout=KERNEL)
        bar.get_by_text("timing").wait_for()
        tab.wait_for_function("bar => bar.value > 0", arg=bar.locator("progress").element_handle())
        interrupted_until_hidden(tab, bar)
        tab.locator(".jp-OutputArea", has_text="KeyboardInterrupt").first.wait_for()
        tab.wait_for_function(READY)
        assert run(tab, "[len(t.benchmark(3)), w.called]") == [2, {}]


def saved_and_shut(tab: Any) -> None:
    """Save the open notebook and end its kernel."""
    tab.evaluate("""async () => {
        const panel = window.jupyterapp.shell.currentWidget;
        await panel.context.save();
        await panel.sessionContext.shutdown();
    }""")


def run_again(tab: Any) -> str:
    """Run the first cell again: the new view of a new widget shows what the old one showed. The end of its address."""
    place = "document.querySelector('.explorer-host').app.permalink.text"
    before = tab.evaluate(place).partition("&")
    tab.evaluate("""async () => {
        const { content } = window.jupyterapp.shell.currentWidget;
        content.activeCellIndex = 0;
        void window.jupyterapp.commands.execute('notebook:run-cell');
    }""")
    again = "(before) => document.querySelector('.explorer-host')?.app?.permalink.text.split('&')[0] !== before"
    tab.wait_for_function(again, arg=before[0])
    in_kernel(tab, "w.selected.get('line')", 2)
    after = tab.evaluate(place).partition("&")
    assert after[2] == before[2] and "view=kernels" in after[2] and after[2].endswith(":2")
    assert run(tab, "w.link().partition('&')[0]") == "#view=kernels", "and Python knows"
    return f"#{''.join(after)}"


@contextmanager
def reopened(lab: Lab, fragment: str = "") -> Iterator[Any]:
    """The saved notebook in a new window, none of its cells run."""
    with lab.window(fragment=fragment) as tab:
        tab.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.content?.widgets?.length", timeout=KERNEL)
        yield tab


def test_a_saved_notebook_shows_the_trace_without_its_kernel(lab: Lab) -> None:
    """Saved, its kernel ended and opened again, a notebook shows each view and no missing model; a link opens it at a place.

    Where it is not trusted, no script runs: there it shows the summary.
    """
    needs("lab")
    with lab.notebook(*CELLS) as tab:
        run_all(tab)
        tab.locator(".explorer-host .pane").nth(3).wait_for(state="attached", timeout=KERNEL)
        to_texts(tab.locator(".explorer-host").first)
        tab.locator(".explorer-host").first.locator(".line", has_text="torch.sin").first.click()
        to_view(tab.locator(".explorer-host").first, "Kernels")
        assert in_kernel(tab, "w.link().partition('&')[0]", "#view=kernels") == "#view=kernels"
        fragment = run_again(tab)
        saved_and_shut(tab)
        tab.locator(".explorer .status", has_text="The process that compiled this has ended").first.wait_for(state="attached")
    with reopened(lab, fragment) as tab:
        view = tab.locator(".explorer-host").first
        view.locator(".pane").first.wait_for(state="attached")
        assert view.get_by_role("tab", name="Kernels").get_attribute("aria-selected") == "true", "as the link says"
        to_view(view, "Code")
        assert "torch.sin" in view.locator(".line.chosen").inner_text()
        view.locator(".line.lit", has_text="tl_math.sin").first.wait_for()  # the links are unpacked after the first screen
        tab.locator(".explorer-host").nth(1).wait_for(state="attached")  # each view comes up by itself
        assert tab.locator(".explorer-host").count() == 2
        assert "not found" not in tab.locator(".jp-Notebook").inner_text()
    file = lab.folder / "first.ipynb"
    notebook = json.loads(file.read_text(encoding="utf-8"))
    assert "application/vnd.jupyter.widget-view+json" not in json.dumps(notebook)
    # an altered notebook is not one that this user has run
    notebook["cells"][0]["source"] += "\n"
    notebook["cells"][0]["outputs"][0]["data"]["text/html"] += "<p>altered</p>"
    file.write_text(json.dumps(notebook), encoding="utf-8")
    with reopened(lab) as tab:
        tab.locator(".jp-OutputArea pre", has_text="tl_math.sin").first.wait_for(state="attached")
        assert tab.locator(".explorer-host").count() == 0
        assert "not found" not in (shown := tab.locator(".jp-Notebook").inner_text()) and "torch.sin(x)" in shown


def cells(tab: Any) -> int:
    return int(tab.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length"))


def test_voila_shows_the_view(browser: Any, tmp_path: Path) -> None:
    """In Voila, a page without a notebook, the view is there twice, a click lights the kernel's lines, and Python answers."""
    needs("voila")
    write_notebook(tmp_path / "first.ipynb", CELLS)
    options = (str(tmp_path), "--Voila.ip=127.0.0.1", "--Voila.log_level=INFO")
    with running("voila", tmp_path, *options) as address, window(browser, "voila", f"{address}/{PLACES['voila']}") as tab:
        tab.locator(".explorer-host .pane").nth(2).wait_for(state="attached", timeout=KERNEL)
        view = tab.locator(".explorer-host").first
        to_texts(view)
        view.locator(".pane").first.locator(".line", has_text="torch.sin").click()
        view.locator(".pane").nth(1).locator(".line.lit", has_text="tl_math.sin").first.wait_for()
        to_view(view, "Run")
        view.get_by_role("button", name="check").click()
        view.get_by_role("table", name="check").wait_for()
        assert "Loading widget" not in tab.locator("body").inner_text(), "the bar that showed progress is gone"
