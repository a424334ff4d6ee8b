"""The widget in JupyterLab, Notebook 7 and Voila, from end to end: compile for a GPU you don't have, click a line, lead
the view from Python. JupyterLab comes with the package; the others are tried where they are installed.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

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
SETTINGS = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
READY = """() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === 'connected' && panel.sessionContext.kernelDisplayStatus === 'idle';
}"""
TOKEN = "explorer-test"
#: Server → its module, its own options, and where it shows a notebook.
SERVERS = {
    "lab": ("jupyterlab", ("--LabApp.expose_app_in_browser=True", "--allow-root"), "lab/tree/first.ipynb"),
    "notebook": ("notebook", ("--JupyterNotebookApp.expose_app_in_browser=True", "--allow-root"), "notebooks/first.ipynb"),
    "voila": ("voila", ("--Voila.log_level=INFO",), "voila/render/first.ipynb"),
}
#: In the error of a box of ipywidgets that is taken off while its children are made: Lumino has let go of its layout.
BOX = "at get widgets ("
#: Said or asked for by a server's own pages, not by explorer's view: server → parts of the text.
ITS_OWN = {"lab": (BOX,), "notebook": ("reading 'schema'", BOX), "voila": ("cdn.jsdelivr.net/npm/@fortawesome",)}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def write_notebook(path: Path, texts: Sequence[str] = CELLS) -> None:
    cells = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "source": text, "outputs": [], "execution_count": None}
        for n, text in enumerate(texts)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the notebook, and with settings that are its own."""
    return notebook_in(tmp_path_factory.mktemp("home"))


def notebook_in(made: Path) -> Path:
    """Write the notebook and the settings into a folder; the folder."""
    settings = made / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(SETTINGS), encoding="utf-8")
    write_notebook(made / "first.ipynb")
    return made


@contextmanager
def served(name: str, home: Path) -> Iterator[str]:
    """A server on this machine only; the address of the notebook in it."""
    module, options, place = SERVERS[name]
    pytest.importorskip(module, reason=f"{module} is not installed: pip install {module}")
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernel")
    port = free_port()
    folders = {f"JUPYTER_{folder}_DIR": str(home / folder.lower()) for folder in ("CONFIG", "DATA", "RUNTIME")}
    more = {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces")}
    at = [f"--ServerApp.root_dir={home}", "--ip=127.0.0.1"] if name != "voila" else [str(home), "--Voila.ip=127.0.0.1"]
    token = [f"--IdentityProvider.token={TOKEN}"] if name != "voila" else []
    command = [sys.executable, "-m", module, "--no-browser", f"--port={port}", *at, *token, *options]
    with (home / f"{name}.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=home, env={**os.environ, **folders, **more}, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(f"{address}/api" if name != "voila" else address, server, home / f"{name}.log")
            yield f"{address}/{place}?token={TOKEN}"
        finally:
            server.terminate()
            try:
                server.wait(60)  # it ends its kernels first
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
                raise


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        if server.poll() is not None:
            pytest.fail(f"the server ended: {log.read_text(encoding='utf-8')[-2000:]}")
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.25)
    pytest.fail(f"the server does not answer: {log.read_text(encoding='utf-8')[-2000:]}")


@contextmanager
def shown(browser: Any, name: str, home: Path) -> Iterator[Any]:
    """The notebook's page; at the end no request has left this machine, and the view has raised no error."""
    asked: list[str] = []
    raised: list[str] = []
    with served(name, home) as address, browser.new_context(viewport={"width": 1500, "height": 1000}) as context:
        tab = context.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: raised.append(error.stack or str(error)))
        tab.goto(address, wait_until="commit", timeout=180_000)
        yield tab
    own = ITS_OWN.get(name, ())
    outside = [url for url in asked if not url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:"))]
    seen = [text for text in (*outside, *raised) if not any(part in text for part in own)]
    assert not seen, seen  # said here, because pytest does not explain an assertion of a module that another test imports


@contextmanager
def lab_with(browser: Any, home: Path, *cells: str) -> Iterator[Any]:
    """JupyterLab with a notebook of these cells, ready to run them; home is an empty folder."""
    notebook_in(home)
    write_notebook(home / "first.ipynb", cells)
    with shown(browser, "lab", home) as tab:
        tab.wait_for_function(READY, timeout=90_000)
        yield tab


@pytest.fixture(params=["lab", "notebook"])
def notebook(request: pytest.FixtureRequest, browser: Any, home: Path) -> Iterator[Any]:
    """The notebook open and run, in JupyterLab and in Notebook 7."""
    with shown(browser, request.param, home) as tab:
        tab.wait_for_function(READY, timeout=90_000)
        tab.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        tab.locator(".explorer-host .pane").first.wait_for(timeout=180_000)
        yield tab


def run(tab: Any, code: str) -> Any:
    """Evaluate an expression in the notebook's kernel."""
    return tab.evaluate(
        """async (code) => {
        const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
        const expressions = { it: `__import__('json').dumps(${code})` };
        const done = kernel.requestExecute({ code: '', user_expressions: expressions, store_history: false });
        const { content } = await done.done;
        const { it } = content.user_expressions;
        if (it.status !== 'ok') throw new Error(JSON.stringify(it));
        return JSON.parse(it.data['text/plain'].slice(1, -1)); // the repr of a string without quotes in it
    }""",
        code,
    )


def in_kernel(tab: Any, code: str, wanted: Any, seconds: float = 20) -> Any:
    """Wait until an expression in the kernel has the wanted value; return its last value."""
    found = None
    for _ in range(int(seconds * 5)):
        if (found := run(tab, code)) == wanted:
            break
        tab.wait_for_timeout(200)
    return found


def test_a_click_lights_the_texts_and_python_hears_of_it(notebook):
    """A click on the user's line lights every text, also SASS made on demand; Python hears, and leads the view."""
    view = notebook.locator(".explorer-host").first
    others = notebook.locator(".explorer-host")
    others.nth(1).wait_for()
    assert others.count() == 2, "one view of each of the two cells"

    view.get_by_role("treeitem", name="SASS").click()  # made now, in a thread of the kernel
    view.locator(".pane select").nth(1).locator("option:checked", has_text="SASS").wait_for(state="attached", timeout=60_000)
    assert view.get_by_role("treeitem", name="SASS").get_attribute("class") == "item shown", "it is a text like any other now"
    view.locator(".pane").first.locator(".line", has_text="torch.sin").click()
    wanted = run(notebook, "sorted({row['stage'] for row in w.trace.follow('0/0:source', 2)})")
    lit = view.evaluate("host => [...host.app.selection.lit.keys()].map((n) => host.app.store.artifact(n).stage)")
    assert sorted(set(lit)) == wanted and {"dynamo", "post_grad"} <= set(wanted)
    assert view.locator(".item.linked").count() >= len(wanted)
    selected = in_kernel(notebook, "[w.selected.get('stage'), w.selected.get('line'), len(heard)]", ["source", 2, 1])
    assert selected == ["source", 2, 1]

    assert run(notebook, "w.open('ttgir', kernel=0, pane='right')") is None
    view.locator(".pane select").nth(1).locator("option:checked", has_text="TTGIR").wait_for(state="attached", timeout=20_000)
    run(notebook, "w.select('source', 3)")
    view.locator(".line.chosen", has_text="return y").wait_for(timeout=20_000)

    before = cells(notebook)
    view.get_by_role("treeitem", name="Post-grad graph").click()
    for key in ("b", "d", "d", "a"):
        notebook.keyboard.press(key)  # in command mode these would insert and delete cells
    assert cells(notebook) == before == len(CELLS)

    view.get_by_role("tab", name="Kernels").click()
    view.get_by_role("button", name="step through its MLIR passes").click()
    view.locator(".step.dim").first.wait_for(timeout=60_000)
    assert view.get_by_role("listbox", name="passes").get_by_role("option").count() > 10

    view.get_by_role("tab", name="Run").click()
    view.get_by_role("button", name="check").click()
    view.get_by_role("table", name="check").wait_for(timeout=60_000)


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

    for _ in range(6):
        tab.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")
        with suppress(StillThere):
            bar.wait_for(state="hidden", timeout=10_000)
            return
    raise AssertionError("six interrupts ended nothing")


@pytest.mark.parametrize("server", ["lab", "notebook"])
def test_a_view_shows_what_a_cell_does_with_its_trace(browser: Any, tmp_path: Path, server: str) -> None:
    """While a cell runs a verb, the view shows how far it is; an interrupt of the kernel ends both, and the trace can go on."""
    notebook_in(tmp_path)
    write_notebook(tmp_path / "first.ipynb", LONG)
    with shown(browser, server, tmp_path) as tab:
        tab.wait_for_function(READY, timeout=90_000)
        tab.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        bar = tab.locator(".explorer-host").first.get_by_role("group", name="called in a cell")
        bar.get_by_text("in a cell: benchmark()").wait_for(timeout=180_000)
        bar.get_by_text("timing").wait_for()
        tab.wait_for_function("bar => bar.value > 0", arg=bar.locator("progress").element_handle(), timeout=60_000)
        interrupted_until_hidden(tab, bar)
        tab.locator(".jp-OutputArea", has_text="KeyboardInterrupt").first.wait_for(timeout=60_000)
        tab.wait_for_function(READY, timeout=60_000)
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
    tab.wait_for_function(again, arg=before[0], timeout=120_000)
    in_kernel(tab, "w.selected.get('line')", 2)
    after = tab.evaluate(place).partition("&")
    assert after[2] == before[2] and "view=kernels" in after[2] and after[2].endswith(":2")
    assert run(tab, "w.link().partition('&')[0]") == "#view=kernels", "and Python knows"
    return f"#{''.join(after)}"


@contextmanager
def reopened(browser: Any, address: str, fragment: str = "") -> Iterator[Any]:
    """The saved notebook in a new window, none of its cells run."""
    with browser.new_context(viewport={"width": 1500, "height": 1000}) as context:
        tab = context.new_page()
        tab.goto(f"{address}{fragment}", wait_until="commit", timeout=180_000)
        tab.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.content?.widgets?.length", timeout=90_000)
        yield tab


def test_a_saved_notebook_shows_the_trace_without_its_kernel(browser: Any, tmp_path: Path) -> None:
    """Saved, its kernel ended and opened again, a notebook shows each view and no missing model; a link opens it at a place.

    Where it is not trusted, no script runs: there it shows the summary.
    """
    notebook_in(tmp_path)
    with served("lab", tmp_path) as address:
        with reopened(browser, address) as tab:
            tab.wait_for_function(READY, timeout=90_000)
            tab.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
            tab.locator(".explorer-host .pane").nth(3).wait_for(timeout=180_000)
            tab.locator(".explorer-host").first.locator(".line", has_text="torch.sin").first.click()
            tab.locator(".explorer-host").first.get_by_role("tab", name="Kernels").click()
            assert in_kernel(tab, "w.link().partition('&')[0]", "#view=kernels") == "#view=kernels"
            fragment = run_again(tab)
            saved_and_shut(tab)
            tab.locator(".explorer .status", has_text="The process that compiled this has ended").first.wait_for(state="attached")
        with reopened(browser, address, fragment) as tab:
            view = tab.locator(".explorer-host").first
            view.locator(".pane").first.wait_for(state="attached", timeout=60_000)
            assert view.get_by_role("tab", name="Kernels").get_attribute("aria-selected") == "true", "as the link says"
            view.get_by_role("tab", name="Code").click()
            assert "torch.sin" in view.locator(".line.chosen").inner_text()
            assert "tl_math.sin" in " ".join(view.locator(".line.lit").all_inner_texts())
            tab.locator(".explorer-host").nth(1).wait_for(state="attached", timeout=60_000)  # each view comes up by itself
            assert tab.locator(".explorer-host").count() == 2
            assert "not found" not in tab.locator(".jp-Notebook").inner_text()
        notebook = json.loads((tmp_path / "first.ipynb").read_text(encoding="utf-8"))
        assert "application/vnd.jupyter.widget-view+json" not in json.dumps(notebook)
        # an altered notebook is not one that this user has run
        notebook["cells"][0]["source"] += "\n"
        notebook["cells"][0]["outputs"][0]["data"]["text/html"] += "<p>altered</p>"
        (tmp_path / "first.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
        with reopened(browser, address) as tab:
            tab.locator(".jp-OutputArea pre", has_text="tl_math.sin").first.wait_for(state="attached", timeout=60_000)
            assert tab.locator(".explorer-host").count() == 0
            assert "not found" not in (shown := tab.locator(".jp-Notebook").inner_text()) and "torch.sin(x)" in shown


def cells(tab: Any) -> int:
    return int(tab.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length"))


def test_voila_shows_the_view(browser: Any, home: Path) -> None:
    """In Voila, a page without a notebook, the view is there twice, a click lights the kernel's lines, and Python answers."""
    with shown(browser, "voila", home) as tab:
        tab.locator(".explorer-host .pane").nth(2).wait_for(timeout=180_000)
        view = tab.locator(".explorer-host").first
        view.locator(".pane").first.locator(".line", has_text="torch.sin").click()
        assert "tl_math.sin" in " ".join(view.locator(".pane").nth(1).locator(".line.lit").all_inner_texts())
        view.get_by_role("tab", name="Run").click()
        view.get_by_role("button", name="check").click()
        view.get_by_role("table", name="check").wait_for(timeout=60_000)
        assert "Loading widget" not in tab.locator("body").inner_text(), "the bar that showed progress is gone"
