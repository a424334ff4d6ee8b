"""The pictures of the main views: `python docs/screenshots.py [FOLDER]` takes them anew.

It traces a small program for an H100 that need not be there, and opens its saved page in headless chromium.
"""

from __future__ import annotations

import json
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

CHROMIUM = next((p for p in map(Path, ("/usr/bin/chromium", "/usr/bin/google-chrome")) if p.exists()), Path("chromium"))
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync")
SIZE = {"width": 1280, "height": 760}


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
    from explorer.model.records import Record, typed
    from explorer.model.values import jsonable, plain

    folders = [f"{folder}/" for folder in (sysconfig.get_paths()["purelib"], Path(__file__).parents[1])]

    def short(text: str) -> str:
        for folder in folders:
            text = text.replace(folder, "")
        return text

    def kept(before: Any, after: Any) -> Any:
        return typed(type(before), after) if isinstance(before, Record) else after

    artifacts = tuple(
        replace(a, text=short(a.text), data=kept(a.data, plain(json.loads(short(json.dumps(jsonable(a.data)))))))
        for a in trace.artifacts
    )
    return replace(trace, artifacts=artifacts)


def view(name: str) -> Callable[[Any], None]:
    """Open a view by its tab."""
    return lambda tab: tab.get_by_role("tab", name=name).click()


def why(tab: Any) -> None:
    """Ask why two nodes are not one kernel."""
    view("Fusion")(tab)
    for which, name in (("first", "op1"), ("second", "op2")):
        tab.get_by_label(f"{which} node").fill(name)
        tab.keyboard.press("Enter")


#: File and its colours → what to do in the page.
PICTURES = {
    "overview-light": view("Overview"),
    "fusion-light": why,
    "passes-dark": view("Passes"),
    "kernels-dark": view("Kernels"),
}


def main(folder: str = str(Path(__file__).parent / "images")) -> None:
    """Take every picture."""
    from playwright.sync_api import sync_playwright

    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as pages, sync_playwright() as playwright:
        file = Path(pages) / "page.html"
        without_folders(gpt2()).to_html(file)
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        for name, action in PICTURES.items():
            tab = browser.new_page(viewport=SIZE, color_scheme=name.rpartition("-")[2])
            tab.goto(file.as_uri())
            tab.wait_for_selector("#explorer[data-state=ready]")
            action(tab)
            tab.mouse.move(0, 0)
            tab.wait_for_timeout(300)
            tab.screenshot(path=Path(folder) / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
