"""Measure how fast the view is: the saved page of a GPT-2, opened, clicked and searched in headless chromium.

    python benchmarks/widget.py                         GPT-2 of 12 layers, training, for an H100 (a GPU you don't have)
    python benchmarks/widget.py --trace FILE            a saved trace instead
    python benchmarks/widget.py --layers 2 --repeats 3

Nothing is asserted: the table is to be read. Times are from the browser's own clock, to the frame that shows the change;
benchmarks/README.md says how to read it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

CHROMIUM = next((p for p in map(Path, ("/usr/bin/chromium", "/usr/bin/google-chrome")) if p.exists()), Path("chromium"))
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync")
LINES, NODES = 50_000, 10_000

#: Mark when the page says that it is ready and that frame is drawn.
WATCH = """
addEventListener('DOMContentLoaded', () => new MutationObserver(() =>
    requestAnimationFrame(() => requestAnimationFrame(() => (window.shownAt ??= performance.now())))
).observe(document.querySelector('#explorer'), { attributes: true, attributeFilter: ['data-state'] }));
"""
#: A page of one word that says when it is ready, as a trace's page does.
EMPTY = (
    "data:text/html,<!doctype html><div id=explorer>a</div>"
    "<script>addEventListener('load', () => { explorer.dataset.state = 'ready'; })</script>"
)
#: Milliseconds from an action to the end of the frame after it, the median of several.
TIMED = """async ([code, count]) => {
    const app = document.querySelector('#explorer').app;
    const act = new Function('app', 'n', code);
    const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const times = [];
    for (let n = 0; n < count; n++) {
        await drawn();
        const began = performance.now();
        act(app, n);
        await drawn();
        times.push(performance.now() - began);
    }
    return times.sort((a, b) => a - b)[times.length >> 1];
}"""
#: Milliseconds that a frame works when an action comes with it, the median of several: its code, styles, layout and painting.
WORK = """async ([code, count]) => {
    const app = document.querySelector('#explorer').app;
    const act = new Function('app', 'n', code);
    const times = [];
    for (let n = 0; n < count; n++)
        times.push(await new Promise((done) => requestAnimationFrame(() => {
            const began = performance.now();
            const { port1, port2 } = new MessageChannel();
            port1.onmessage = () => done(performance.now() - began);
            act(app, n);
            port2.postMessage(0);
        })));
    return times.sort((a, b) => a - b)[times.length >> 1];
}"""
#: Frames a second while a graph is dragged.
PAN = """async () => {
    const { canvas } = document.querySelector('#explorer').app.tabs.views.get('graph');
    const began = performance.now();
    let frames = 0;
    while (performance.now() - began < 1500) {
        canvas.y -= 7; canvas.x += frames % 40 < 20 ? 3 : -3; canvas.redraw();
        await new Promise(requestAnimationFrame);
        frames++;
    }
    return (frames * 1000) / (performance.now() - began);
}"""


def gpt2(layers: int) -> Any:
    """The trace of a training step of GPT-2 with random weights, on 64 tokens, for an H100."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    import explorer

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=layers, use_cache=False))
    tokens = torch.randint(model.config.vocab_size, (1, 64))
    return explorer.trace(model, tokens, kwargs={"labels": tokens}, target="h100", train=True)


def long_text() -> Any:
    """A trace with two texts of 50,000 lines, of which one in ten lines differs, and a graph of 10,000 nodes."""
    from explorer.model.values import Artifact, plain
    from explorer.tracing.traced import Trace

    lines = [f"    %{n} = arith.addf %{n % 97}, %c_{n % 13} : tensor<1024xf32> loc(#loc{n % 9})" for n in range(LINES)]
    changed = [f"{line} // {n}" if n % 20 == 0 else line for n, line in enumerate(lines) if n % 20 != 10]
    nodes = [
        {
            "name": f"n{n}",
            "op": "call_function",
            "target": "aten.add",
            "shape": ("4", "8"),
            "dtype": "float32",
            "module": f"model.layers.{n // 100}.{'attn' if n % 100 < 60 else 'mlp'}",
            "inputs": tuple(f"n{m}" for m in {n - 1, n - 7 if n % 6 == 0 else n - 1} if m >= 0),
        }
        for n in range(NODES)
    ]
    graph = "\n".join(f"    n{n}: f32 = aten.add(n{n - 1})" for n in range(NODES))
    return Trace(
        artifacts=(
            Artifact("a", "ttir", "0/0", "inference", "a", "mlir", "\n".join(lines)),
            Artifact("b", "ttgir", "0/0", "inference", "b", "mlir", "\n".join(changed)),
            Artifact("g", "post_grad", "0/0", "inference", "g", "fx", f"class G:\n{graph}", data=plain({"nodes": nodes})),
        )
    )


# Measuring ---------------------------------------------------------------------------------------------------------------


class Page:
    """A saved page, opened afresh in a browser of its own for each measurement."""

    def __init__(self, browser: Any, trace: Any, folder: Path) -> None:
        self.file = folder / "page.html"
        trace.to_html(self.file)
        self.browser = browser

    def open(self, place: str = "#view=code") -> Any:
        """A tab with the page, drawn, at a place of it."""
        tab = self.browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
        tab.add_init_script(WATCH)
        tab.goto(f"{self.file.as_uri()}{place}")
        tab.wait_for_selector("#explorer[data-state=ready]")
        tab.evaluate("async () => { while (!window.shownAt) await new Promise(requestAnimationFrame); }")
        return tab


def timed(tab: Any, code: str, count: int = 9, how: str = TIMED) -> float:
    """Milliseconds of an action in a tab. The action is the body of a JavaScript function of the app and of a running number."""
    return float(tab.evaluate(how, [code, count]))


def first_paint(page: Page, repeats: int) -> str:
    """The median time from opening a page until it shows its first screen, and how many times that of an empty page it is.

    The two are opened in turn, so that what else the machine does slows both.
    """
    shown, empty = [], []
    for _ in range(repeats):
        empty.append(empty_page(page.browser))
        tab = page.open("")
        shown.append(float(tab.evaluate("window.shownAt")))
        tab.context.close()
    return f"{statistics.median(shown):.0f} ms, {statistics.median(shown) / statistics.median(empty):.1f} × an empty page"


def empty_page(browser: Any) -> float:
    """Milliseconds until a page of one word is drawn."""
    tab = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    tab.add_init_script(WATCH)
    tab.goto(EMPTY)
    tab.evaluate("async () => { while (!window.shownAt) await new Promise(requestAnimationFrame); }")
    shown = float(tab.evaluate("window.shownAt"))
    tab.context.close()
    return shown


def model_rows(page: Page, repeats: int) -> Iterator[tuple[str, str, str]]:
    """Measure the page of a real model."""
    yield "exported file", f"{page.file.stat().st_size / 1e6:.2f} MB", "≤ 2.84 MB"
    yield "first paint", first_paint(page, repeats), "< 0.5 s"
    tab = page.open()
    source = "const s = app.panes.list[0].artifact; app.selection.choose(s, 1 + (n % app.store.lines(s).length))"
    yield "select → highlight, all source", f"{timed(tab, source):.0f} ms", "< 30 ms"
    select = "app.selection.choose(s, 40 + 11 * n)"
    graph = f"const s = app.store.first('post_grad'); if (!n) app.panes.show(app.panes.list[1], s); {select}"
    yield "select → highlight, post-grad", f"{timed(tab, graph):.0f} ms", "< 30 ms"
    hover = "const p = app.panes.list[{}]; const [first] = p.editor.inView(); app.parts.hovering.at(p.artifact, first + n)"
    yield "hover → linked lines lit, all source", f"{timed(tab, hover.format(0), 15, WORK):.0f} ms", "< 16 ms"
    yield "hover → linked lines lit, post-grad", f"{timed(tab, hover.format(1), 15, WORK):.0f} ms", "< 16 ms"
    switch = "app.panes.show(app.panes.list[1], (app.panes.list[1].artifact + 17) % app.store.count)"
    yield "stage switch", f"{timed(tab, switch, 31):.0f} ms", "< 100 ms"
    yield "search all texts", f"{timed(tab, 'app.search.look(`view_1${n}`)', 5):.0f} ms", ""
    for name in ("graph", "kernels", "passes", "diff", "dynamo", "compiler"):
        yield f"open the view {name}", f"{timed(tab, f'app.tabs.show(`{name}`)', 1):.0f} ms", ""
    yield "memory of the page's JavaScript", f"{tab.evaluate('performance.memory.usedJSHeapSize') / 1e6:.0f} MB", ""
    tab.context.close()


def beside_rows(page: Page, repeats: int) -> Iterator[tuple[str, str, str]]:
    """Measure the page of two traces side by side."""
    yield "first paint, two traces side by side", first_paint(page, repeats), "< 1.2 s"
    tab = page.open()
    source = "const s = app.panes.list[0].artifact; app.selection.choose(s, 1 + (n % app.store.lines(s).length))"
    yield "select → highlight in both", f"{timed(tab, source):.0f} ms", "< 30 ms"
    for name in ("compare", "diff"):
        yield f"open the view {name}, two traces", f"{timed(tab, f'app.tabs.show(`{name}`)', 1):.0f} ms", ""
    tab.context.close()


def big_rows(page: Page) -> Iterator[tuple[str, str, str]]:
    """Measure long texts and large graphs."""
    tab = page.open()
    yield (
        f"open a text of {LINES:,} lines",
        f"{timed(tab, 'app.panes.show(app.panes.list[1], app.panes.list[1].artifact ? 0 : 1)'):.0f} ms",
        "< 0.3 s",
    )
    yield f"compare two of {LINES:,} lines", f"{timed(tab, 'app.navigation.compare(`a`, `b`)', 1):.0f} ms", "< 1 s"
    yield f"open a graph of {NODES:,} nodes, collapsed", f"{timed(tab, 'app.tabs.show(`graph`).show(2)', 1):.0f} ms", "< 0.3 s"
    yield "open all its groups", f"{timed(tab, 'app.tabs.show(`graph`).openAll(true)', 1):.0f} ms", ""
    yield "pan it, all open", f"{tab.evaluate(PAN):.0f} frames/s", "60"
    tab.evaluate("document.querySelector('#explorer').app.tabs.views.get('graph').canvas.fitAll()")
    yield "pan it, all in view", f"{tab.evaluate(PAN):.0f} frames/s", "60"
    tab.context.close()


def bundle_row() -> tuple[str, str, str]:
    from explorer.view.page import bundle

    return "bundle", f"{len(bundle().encode()) / 1000:.0f} KB", ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", type=Path, help="a saved trace to open instead of GPT-2's")
    parser.add_argument("--layers", type=int, default=12, help="layers of GPT-2 (default: 12)")
    parser.add_argument("--repeats", type=int, default=5, help="how often the page is opened (default: 5)")
    parser.add_argument("--json", type=Path, help="write the rows here too")
    chosen = parser.parse_args(arguments)
    from playwright.sync_api import sync_playwright

    import explorer

    trace = explorer.load(chosen.trace) if chosen.trace else gpt2(chosen.layers)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        print(f"{os.cpu_count()} cores, {platform.machine()}, chromium {browser.version}; medians of {chosen.repeats} openings\n")
        rows = [bundle_row(), *model_rows(Page(browser, trace, Path(folder)), chosen.repeats)]
        beside = explorer.compare(trace, trace, names=("one", "other"))
        rows += beside_rows(Page(browser, beside, Path(folder)), chosen.repeats)
        rows += big_rows(Page(browser, long_text(), Path(folder)))
        browser.close()
    print(f"load {', '.join(f'{load:.1f}' for load in os.getloadavg())}\n")
    print("| what | measured | wanted |\n| --- | --- | --- |")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    if chosen.json:
        chosen.json.write_text(json.dumps(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
