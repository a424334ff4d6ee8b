"""The pictures of the main views, light and dark: `python docs/screenshots.py [FOLDER]` takes them anew.

It traces two small programs for an H100 that need not be there, and opens their saved pages in headless chromium. One picture
is of JupyterLab: the first notebook, run from top to bottom, and a click on the line with `torch.sin`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

CHROMIUM = next((p for p in map(Path, ("/usr/bin/chromium", "/usr/bin/google-chrome")) if p.exists()), Path("chromium"))
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync")
SHOW = """([pane, stage]) => {
    const { app } = document.querySelector('#explorer');
    app.panes.show(app.panes.list[pane], app.store.first(stage));
}"""
SIZE = {"width": 1280, "height": 760}
NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "01_first_look.ipynb"
QUIET = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
IDLE = """() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === 'connected' && panel.sessionContext.kernelDisplayStatus === 'idle';
}"""
RUN = "() => void window.jupyterapp.commands.execute('notebook:run-all-cells')"
ALONE = """() => {
    const { commands, shell } = window.jupyterapp;
    if (!shell.leftCollapsed) commands.execute('application:toggle-left-area');
    const host = [...document.querySelectorAll('.explorer-host')].at(-1);
    host.scrollIntoView({ block: 'end' });
}"""
PANES = """(host) => {
    const { app } = host;
    ['source', 'kernel', 'ttgir', 'sass'].forEach((stage, pane) =>
        app.panes.show(app.panes.list[pane], app.store.first(stage)));
}"""


def f(x: Any) -> Any:
    y = x.sin() ** 2
    return y + x.cos() ** 2


def sin_cos() -> Any:
    """Two lines that become one kernel, with its SASS."""
    import torch

    import explorer
    from explorer.view.widget import Explorer

    view = Explorer(explorer.trace(f, torch.randn(1000), target="h100"))
    view._worker.answer({"ask": "make", "artifact": view.trace.kernels[0].artifact.id, "stage": "sass"})
    view._worker.wait()
    view.close()
    return view.trace


def gpt2() -> Any:
    """A training step of a small GPT-2."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    import explorer

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=128, n_head=4, use_cache=False))
    tokens = torch.randint(model.config.vocab_size, (1, 64))
    return explorer.trace(model, tokens, kwargs={"labels": tokens}, target="h100", train=True)


def without_folders(trace: Any) -> Any:
    """The trace without the folders of the machine that it was made on."""
    from explorer.model.values import jsonable, plain

    folders = [f"{folder}/" for folder in (sysconfig.get_paths()["purelib"], Path(__file__).parents[1])]

    def short(text: str) -> str:
        for folder in folders:
            text = text.replace(folder, "")
        return text

    artifacts = tuple(
        replace(a, text=short(a.text), data=plain(json.loads(short(json.dumps(jsonable(a.data)))))) for a in trace.artifacts
    )
    return replace(trace, artifacts=artifacts)


def linked(tab: Any) -> None:
    """The user's line and what became of it."""
    view("Code")(tab)
    pick(tab, 0, "source")
    tab.get_by_role("button", name="add a text pane").click()
    pick(tab, 1, "kernel")
    pick(tab, 2, "sass")
    tab.locator(".pane").first.locator(".line", has_text="x.sin").click()


def pick(tab: Any, pane: int, stage: str) -> None:
    """Show a stage in a pane."""
    tab.evaluate(SHOW, [pane, stage])


def view(name: str) -> Callable[[Any], None]:
    """Open a view by its tab."""
    return lambda tab: tab.get_by_role("tab", name=name).click()


def compared(tab: Any) -> None:
    """The first change, slid to what differs."""
    view("Compare")(tab)
    tab.get_by_role("button", name="next change").click()


def why(tab: Any) -> None:
    """Ask why two nodes are not one kernel."""
    view("Fusion")(tab)
    for which, name in (("first", "op1"), ("second", "op2")):
        tab.get_by_label(f"{which} node").fill(name)
        tab.keyboard.press("Enter")


@contextmanager
def jupyterlab() -> Iterator[str]:
    """A JupyterLab on this machine only, with a copy of the first notebook; its address."""
    with tempfile.TemporaryDirectory() as home, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.close()
        shutil.copy(NOTEBOOK, home)
        settings = Path(home) / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            json.dumps({"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}), encoding="utf-8"
        )
        folders = {f"JUPYTER_{name}_DIR": str(Path(home) / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
        more = {"JUPYTERLAB_SETTINGS_DIR": str(Path(home) / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(Path(home) / "spaces")}
        command = [
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--ip=127.0.0.1",
            f"--port={port}",
            "--allow-root",
            "--IdentityProvider.token=picture",
            f"--ServerApp.root_dir={home}",
            "--LabApp.expose_app_in_browser=True",
        ]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=home, env={**os.environ, **folders, **more}, **quiet) as server:
            time.sleep(8)
            yield f"http://127.0.0.1:{port}/lab/tree/{NOTEBOOK.name}?token=picture"
            server.terminate()


def notebook(browser: Any, folder: str) -> None:
    """The first notebook in JupyterLab: the user's line, and what it became."""
    with jupyterlab() as address:
        tab = browser.new_page(viewport={"width": 1600, "height": 1000})
        tab.goto(address)
        tab.wait_for_function(IDLE, timeout=90_000)
        tab.evaluate(RUN)
        view = tab.locator(".explorer-host").last
        tab.locator(".explorer-host .line", has_text="torch.sin(x) ** 2").last.wait_for(state="attached", timeout=600_000)
        tab.wait_for_function(IDLE, timeout=600_000)
        tab.evaluate(ALONE)
        view.get_by_role("tab", name="Code").click()
        for _ in range(2):
            view.get_by_role("button", name="add a text pane").click()
        view.evaluate(PANES)
        view.locator(".pane").first.locator(".line", has_text="torch.sin").click()
        tab.mouse.move(0, 0)
        tab.wait_for_timeout(500)
        lit = view.evaluate("(host) => [...host.app.selection.lit.keys()].map((n) => host.app.store.artifact(n).stage)")
        print("a click on torch.sin lights:", ", ".join(dict.fromkeys(lit)))
        tab.screenshot(path=Path(folder) / "jupyterlab.png")
        tab.close()


#: File → (program, what to do in its page).
PICTURES = {
    "code": (sin_cos, linked),
    "kernels": (sin_cos, view("Kernels")),
    "graph": (gpt2, view("Graph")),
    "passes": (gpt2, view("Passes")),
    "compare": (gpt2, compared),
    "fusion": (gpt2, why),
    "memory": (gpt2, view("Memory")),
    "time": (gpt2, view("Time")),
    "guards": (gpt2, view("Guards")),
}


def main(folder: str = str(Path(__file__).parent / "images")) -> None:
    """Take every picture, light and dark."""
    from playwright.sync_api import sync_playwright

    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as pages, sync_playwright() as playwright:
        files = {program: Path(pages) / f"{program.__name__}.html" for program, _ in PICTURES.values()}
        for program, file in files.items():
            without_folders(program()).to_html(file)
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        for name, (program, action) in PICTURES.items():
            for scheme in ("light", "dark"):
                tab = browser.new_page(viewport=SIZE, color_scheme=scheme)
                tab.goto(files[program].as_uri())
                tab.wait_for_selector("#explorer[data-state=ready]")
                action(tab)
                tab.mouse.move(0, 0)
                tab.wait_for_timeout(300)
                tab.screenshot(path=Path(folder) / f"{name}-{scheme}.png")
                tab.close()
        notebook(browser, folder)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
