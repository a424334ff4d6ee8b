"""What the tests of the view do in a tab of the browser: show, wait, select, read, and ask axe-core."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explorer.tracing.traced import Trace
from explorer.view import page
from explorer.view.payload import payload
from tests.tabs import TWO_FRAMES, to_view

#: The front end of a page, from its outside.
APP = "document.querySelector('#explorer').app"
#: The ES modules of the front end.
SOURCES = Path(page.__file__).parent / "widget" / "src"
#: What each row of a table has in one column, by the column's number.
CELLS = "(rows, column) => rows.map((row) => row.cells[column].textContent)"

_AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"


def show(tab: Any, name: str) -> Any:
    """Show a view, by its tab; its panel."""
    to_view(tab, name)
    return tab.get_by_role("tabpanel", name=name)


def row_of(panel: Any, name: str) -> Any:
    """The button of a kernel or call in the table of kernels: it says what is computed, where that is known, then the name."""
    return panel.get_by_role("table", name="kernels").get_by_role("button", name=re.compile(rf"(^|, ){re.escape(name)}$"))


def drawn(tab: Any) -> None:
    """Wait until the browser has drawn two frames, after which the editors have what they show in the page."""
    tab.evaluate(TWO_FRAMES)


def in_a_long_page(tab: Any) -> int:
    """Put the view into the middle of a page that is scrolled, as a notebook is; the pixels by which it is."""
    tab.evaluate("""() => {
        document.documentElement.style.height = document.body.style.height = 'auto';
        document.querySelector('#explorer').style.height = '640px';
        document.body.style.padding = '900px 0';
        scrollTo(0, 600);
    }""")
    return 600


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until a condition holds of what other threads of this process do; it is asked again every few milliseconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not hold within {seconds:g} s"
        time.sleep(0.005)


def hold_timers(tab: Any) -> None:
    """Have a page's timers of a second and more, and its intervals, rest until `run_timers`: the machine may be slow."""
    tab.evaluate("""() => {
        window.resting = new Map();
        const [set, clear] = [setTimeout, clearTimeout];
        window.setTimeout = (action, wait, ...given) => {
            if (!(wait >= 1000)) return set(action, wait, ...given);
            window.last = (window.last ?? 0) - 1; // no timer of the browser's has such a number
            resting.set(last, [wait, () => action(...given)]);
            return last;
        };
        window.clearTimeout = (timer) => resting.delete(timer) || clear(timer);
        window.setInterval = () => 0;
    }""")


def run_timers(tab: Any) -> list[int]:
    """Run what rests of a page's timers, as if their time had come; how many milliseconds each was to wait."""
    waits: list[int] = tab.evaluate("""() => {
        const held = [...resting.values()];
        resting.clear();
        for (const [, action] of held) action();
        return held.map(([wait]) => wait);
    }""")
    return waits


def fitted(tab: Any, view: str) -> None:
    """Wait until the graph of a view has been fitted into its canvas, which the browser tells it the size of later."""
    tab.wait_for_function(
        "view => { const { canvas } = document.querySelector('#explorer').app.tabs.views.get(view);"
        " return canvas.fitted && canvas.canvas.width === canvas.element.clientWidth * devicePixelRatio; }",
        arg=view,
    )


def wait_for_colours(tab: Any) -> None:
    """Wait until user lines have their colours."""
    tab.wait_for_function(f"() => {APP}.parts.colours.swatches.size")


def selected(tab: Any) -> tuple[str, int]:
    """The id of the text with the selected line, and the line, as Python hears of it."""
    place = tab.evaluate(f"() => {APP}.selection.placed()")
    return place["artifact"], place["line"]


def texts_shown(tab: Any) -> list[str]:
    """The ids of the texts in the panes."""
    ids: list[str] = tab.evaluate(f"() => {APP}.panes.list.map((pane) => pane.store.artifact(pane.artifact).id)")
    return ids


def go_to_line(text: Any, line: int) -> None:
    """Bring the caret of an editor's text to a line by keys, as a user without a pointer does."""
    keyboard = text.page.keyboard
    text.focus()
    keyboard.press("Alt+g")
    text.page.locator(".cm-panel input").first.fill(str(line))
    keyboard.press("Enter")
    text.focus()


def reveal(tab: Any, pane: int, line: int) -> None:
    """Scroll a pane, by its number from 0, to a line."""
    tab.evaluate(f"([pane, line]) => {APP}.panes.list[pane].editor.reveal(line)", [pane, line])


def called(info: Any) -> str:
    """What the view calls a kernel or a library call: what it computes, and the kernel's number."""
    number = re.search(r"_\d+(?!\w)", info["name"])
    return f"{info['title']} {number[0]}" if number else str(info["title"])


def calls_together(trace: Trace) -> list[list[Any]]:
    """The rows of the library calls, those of one operator, sizes and line of the program together."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for info, row in zip(payload(trace)["calls"], trace.inductor.extern_calls, strict=True):
        groups.setdefault((info["title"], info["user"][2], row["graph"]), []).append(row)
    return list(groups.values())


def name_nodes(panel: Any, first: str, second: str) -> None:
    """Type the names of two nodes into the fusion view."""
    for which, name in (("first", first), ("second", second)):
        panel.get_by_label(f"{which} node").fill(name)
        panel.get_by_label(f"{which} node").press("Enter")


def functions(tab: Any, *modules: str) -> Any:
    """Give an empty tab a `js` with what those modules of the front end export; they import nothing but each other."""
    texts = [(SOURCES / name).read_text(encoding="utf-8") for name in modules]
    whole = "".join(re.sub(r"^export ", "", re.sub(r"^import .*;\n", "", text, flags=re.M), flags=re.M) for text in texts)
    names = [name for text in texts for name in re.findall(r"^export (?:const|function|class) (\w+)", text, re.M)]
    tab.evaluate("code => { window.js = new Function(code)() }", f"{whole}; return {{ {', '.join(names)} }}")
    return tab


def load_axe(tab: Any) -> None:
    """Load axe-core into a tab; a test without it is skipped."""
    if not _AXE.exists():
        pytest.skip("axe-core is not installed: make node_modules/.installed")
    tab.evaluate(_AXE.read_text(encoding="utf-8"))


def serious(tab: Any) -> list[str]:
    """What axe-core calls serious or critical of what a tab shows, with the elements; `load_axe` comes first."""
    told = tab.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    found = [v for v in told["violations"] if v["impact"] in ("serious", "critical")]
    return [f"{v['id']} {n['target']} {n['failureSummary']}" for v in found for n in v["nodes"][:3]]
