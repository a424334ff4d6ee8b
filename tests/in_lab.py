"""JupyterLab, Notebook 7 and Voila in a browser: the servers, a notebook of a test's own, and its kernel."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tabs import PATIENCE, VIEWPORT

SETTINGS = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
READY = """() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === 'connected' && panel.sessionContext.kernelDisplayStatus === 'idle';
}"""
TOKEN = "explorer-test"
#: Where each front end shows a notebook; a workspace of JupyterLab's keeps which tabs were open.
PLACES = {
    "lab": "lab/workspaces/{name}/tree/{name}/first.ipynb",
    "notebook": "notebooks/{name}/first.ipynb",
    "voila": "voila/render/first.ipynb",
}
#: Let the tests reach the application of a page.
EXPOSED = ("--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True")
#: In the error of a box of ipywidgets that is taken off while its children are made: Lumino has let go of its layout.
BOX = "at get widgets ("
#: Said or asked for by a server's own pages, not by explorer's view: front end → parts of the text.
ITS_OWN = {
    "lab": (BOX,),
    "notebook": ("reading 'schema'", "filebrowser:open-path", BOX),
    "voila": ("cdn.jsdelivr.net/npm/@fortawesome",),
}
#: How long a kernel may take to start, to import torch and to compile, in milliseconds, on a machine with other work.
KERNEL = 300_000


def write_notebook(path: Path, texts: Sequence[str]) -> None:
    """Write a notebook of these cells."""
    cells = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "source": text, "outputs": [], "execution_count": None}
        for n, text in enumerate(texts)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")


# Servers -----------------------------------------------------------------------------------------------------------------


class Server:
    """A server of JupyterLab on this machine only, which serves Notebook 7 too where it is installed."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder
        self.count = 0

    def new_folder(self) -> Path:
        """A folder for a notebook of its own."""
        self.count += 1
        made = self.folder / f"n{self.count}"
        made.mkdir()
        return made

    def place(self, folder: Path, front_end: str = "lab") -> str:
        """The address at which a front end shows `first.ipynb` of a folder."""
        return f"{self.address}/{PLACES[front_end].format(name=folder.name)}?token={TOKEN}"

    def ask(self, method: str, path: str) -> Any:
        """Ask the server's REST interface."""
        headers = {"Authorization": f"token {TOKEN}"}
        request = urllib.request.Request(f"{self.address}/api/{path}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE / 1000) as answer:
            return json.loads(answer.read() or "null")

    def end_kernels(self, folder: Path) -> None:
        """End the kernels of a folder's notebooks."""
        for session in self.ask("GET", "sessions"):
            if session["path"].startswith(f"{folder.name}/"):
                self.ask("DELETE", f"sessions/{session['id']}")


@contextmanager
def serving(home: Path, kernels: Path | None = None) -> Iterator[Server]:
    """JupyterLab's server, with its settings and its notebooks in an empty folder. Kernels of the folder `kernels` come first."""
    settings, notebooks = home / "settings" / "@jupyterlab" / "apputils-extension", home / "notebooks"
    settings.mkdir(parents=True)
    notebooks.mkdir()
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(SETTINGS), encoding="utf-8")
    options = [f"--ServerApp.root_dir={notebooks}", "--ip=127.0.0.1", f"--IdentityProvider.token={TOKEN}", "--allow-root"]
    with running("jupyterlab", home, *options, *EXPOSED, kernels=kernels) as address:
        yield Server(address, notebooks)


@contextmanager
def running(module: str, home: Path, *options: str, kernels: Path | None = None) -> Iterator[str]:
    """Run a server for the block and yield its address. Kernels of the folder `kernels` come first."""
    port = free_port()
    folders = {f"JUPYTER_{folder}_DIR": str(home / folder.lower()) for folder in ("CONFIG", "DATA", "RUNTIME")}
    more = {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces")}
    if kernels is not None:
        more["JUPYTER_PATH"] = str(kernels)
    command = [sys.executable, "-m", module, "--no-browser", f"--port={port}", *options]
    log = home / "server.log"
    with log.open("wb") as written:
        server = subprocess.Popen(command, cwd=home, env={**os.environ, **folders, **more}, stdout=written, stderr=written)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(f"{address}/api" if module == "jupyterlab" else address, server, log)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(120)  # it ends its kernels first
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
                raise


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if server.poll() is not None:
            pytest.fail(f"the server ended: {log.read_text(encoding='utf-8')[-2000:]}")
        try:
            with urllib.request.urlopen(address, timeout=60):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"the server does not answer: {log.read_text(encoding='utf-8')[-2000:]}")


# Notebooks ---------------------------------------------------------------------------------------------------------------


class Lab:
    """What a test does with the server of its worker: notebooks of its own in windows of its own."""

    def __init__(self, server: Server, browser: Any, folder: Path) -> None:
        self.server, self.browser, self.folder = server, browser, folder

    @contextmanager
    def window(self, front_end: str = "lab", fragment: str = "") -> Iterator[Any]:
        """The page of the test's notebook, none of its cells run; at the end it has raised no error and left no machine."""
        with window(self.browser, front_end, f"{self.server.place(self.folder, front_end)}{fragment}") as tab:
            yield tab

    @contextmanager
    def notebook(self, *cells: str, front_end: str = "lab") -> Iterator[Any]:
        """The page of a notebook of these cells, ready to run them."""
        write_notebook(self.folder / "first.ipynb", cells)
        with self.window(front_end) as tab:
            tab.wait_for_function(READY, timeout=KERNEL)
            yield tab


@contextmanager
def window(browser: Any, front_end: str, address: str) -> Iterator[Any]:
    """A page of a front end, in a context of its own; at the end no request has left this machine, and no error was raised."""
    requested: list[str] = []
    raised: list[str] = []
    with browser.new_context(viewport={**VIEWPORT, "width": 1500, "height": 1000}) as context:
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("request", lambda request: requested.append(request.url))
        tab.on("pageerror", lambda error: raised.append(error.stack or str(error)))
        tab.goto(address, wait_until="commit", timeout=KERNEL)
        yield tab
    outside = [url for url in requested if not url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:"))]
    seen = [text for text in (*outside, *raised) if not any(part in text for part in ITS_OWN[front_end])]
    assert not seen, seen  # said here, because pytest does not explain an assertion of a module that a test imports


def run_all(tab: Any) -> None:
    """Begin to run all cells."""
    tab.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")


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


def in_kernel(tab: Any, code: str, wanted: Any, seconds: float = 120) -> Any:
    """Ask the kernel until an expression has the wanted value; return its last value."""
    end = time.monotonic() + seconds
    while (found := run(tab, code)) != wanted and time.monotonic() < end:
        pass  # each question is a round trip to the kernel
    return found
