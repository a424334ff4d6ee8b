"""What a notebook keeps: the output of a cell where scripts run, where they do not, and in nbconvert's HTML."""

from __future__ import annotations

import base64
import html
import json
import re
from html.parser import HTMLParser

import pytest

from explorer.analysis.questions.user_lines import compiled_kernels
from explorer.tracing.traced import Trace
from explorer.view import page, saved_output
from explorer.view.packing import unpack
from explorer.view.payload import payload
from tests.tabs import to_texts, to_view

#: Elements and attributes that GitHub keeps of HTML, of its documentation; the text in a script or a style goes with it.
TAGS = [
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "br",
    "b",
    "i",
    "strong",
    "em",
    "a",
    "pre",
    "code",
    "img",
    "tt",
    "div",
    "ins",
    "del",
    "sup",
    "sub",
    "p",
    "picture",
    "ol",
    "ul",
    "table",
    "thead",
    "tbody",
    "tfoot",
    "blockquote",
    "dl",
    "dt",
    "dd",
    "kbd",
    "q",
    "samp",
    "var",
    "hr",
    "ruby",
    "rt",
    "rp",
    "li",
    "tr",
    "td",
    "th",
    "s",
    "strike",
    "summary",
    "details",
    "caption",
    "figure",
    "figcaption",
    "abbr",
    "bdo",
    "cite",
    "dfn",
    "mark",
    "small",
    "source",
    "span",
    "time",
    "wbr",
]
ATTRIBUTES = [
    "align",
    "alt",
    "border",
    "checked",
    "clear",
    "cols",
    "colspan",
    "height",
    "href",
    "open",
    "rows",
    "rowspan",
    "span",
    "src",
    "title",
    "width",
]


class Sanitized(HTMLParser):
    """HTML as GitHub shows it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.dropped = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.dropped += tag in ("script", "style")
        if tag in TAGS:
            held = "".join(f' {name}="{html.escape(value or "")}"' for name, value in attrs if name in ATTRIBUTES)
            self.parts.append(f"<{tag}{held}>")

    def handle_endtag(self, tag: str) -> None:
        self.dropped -= tag in ("script", "style")
        if tag in TAGS:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self.dropped:
            self.parts.append(html.escape(data))


@pytest.fixture(scope="module")
def trained(replayed) -> Trace:
    return replayed("mlp_train-torch2.11-cuda")


def output_of(trace: Trace, key: str = "abc") -> str:
    return saved_output.output(trace, page.packed(trace), key)


def test_an_output_shows_the_view_where_scripts_run(shown, trained):
    """Two outputs in one page are two views, each of its own trace, and the summaries give way to them."""
    tab = shown(f"<!doctype html><body>{output_of(trained)}{output_of(trained, 'other')}</body>")
    tab.locator(".explorer-host").nth(1).get_by_role("tabpanel", name="Overview").wait_for()
    assert tab.locator(".explorer-summaries:visible").count() == 0
    to_texts(tab)
    first, second = tab.locator(".explorer-host").first, tab.locator(".explorer-host").nth(1)
    first.locator(".pane .line").nth(1).click()
    assert first.locator(".line.chosen").count() and not second.locator(".line.chosen").count()
    link = tab.evaluate("document.querySelector('.explorer-host').app.permalink.address")
    tab.evaluate("link => { location.hash = link.split('#')[1].replace('trace=abc', 'trace=other') }", link)
    second.locator(".line.chosen").first.wait_for()


def test_a_browser_that_cannot_run_it_shows_the_summary(shown, trained):
    """An output whose front end does not come up shows the summary again."""
    broken = output_of(trained).replace('class="explorer-code">', 'class="explorer-code">AAAA')
    tab = shown(f"<!doctype html><body>{broken}</body>")
    tab.locator(".explorer-summaries", has_text="output_code").wait_for()
    assert tab.locator(".explorer-host").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_github_shows_a_faithful_summary(shown, trained, scheme):
    """With scripts, styles and data taken out, as GitHub does, there is the program, its kernels and what computes each line."""
    text = "".join(Sanitized(output_of(trained)).parts)
    assert len(text) < 100_000 and "H4sI" not in text, "no packed data is left as text"
    tab = shown(f"<!doctype html><meta name=color-scheme content='{scheme}'><body>{text}</body>", java_script_enabled=False)
    seen = tab.locator("body").inner_text()
    assert "not found" not in seen
    assert trained.find("source")[0].lines[0] in seen
    assert all(kernel.name in seen for kernel in trained.kernels)
    computed = tab.locator("table").first.locator("tbody tr")
    assert computed.count() > 3
    for kernel in compiled_kernels(trained):
        for line in kernel.user_lines:
            rows = computed.filter(has_text=f":{line.number}").filter(has_text=kernel.graph)
            assert any(kernel.name in row or "more" in row for row in rows.all_inner_texts()), (line, kernel.name)


def test_nbconvert_keeps_the_view(shown, trained):
    """A notebook as nbconvert writes it in HTML shows the view, and no widget whose model is missing."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat comes with jupyterlab")
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert comes with jupyterlab")
    from nbformat.v4 import new_code_cell, new_notebook, new_output

    data = {"text/html": output_of(trained), "text/plain": "<Explorer of f>"}
    notebook = new_notebook(cells=[new_code_cell("explorer.show(t)", outputs=[new_output("display_data", data)])])
    nbformat.validate(notebook)
    # the templates ask a network for require.js and MathJax, which this is not about
    text, _ = nbconvert.HTMLExporter(template_name="basic").from_notebook_node(notebook)
    tab = shown(f"<!doctype html><html><body>{text}</body></html>")
    to_texts(tab.locator(".explorer-host"))
    code = compiled_kernels(trained)[0].user_lines[0].code
    tab.locator(".pane").first.locator(".line", has_text=code).first.click()
    assert tab.locator(".item.linked").count() > 3
    assert "not found" not in tab.locator("body").inner_text()


RECORDINGS = ("toy_example-torch2.13-cpu", "mlp_train-torch2.11-cuda", "iree_linear-torch2.13-cpu", "tvm_linear-torch2.13-cpu")


@pytest.mark.parametrize("name", RECORDINGS)
def test_python_knows_the_tabs(shown, replayed, name):
    """The views that `Explorer.view` takes are the tabs of the trace's page."""
    trace = replayed(name)
    tab = shown(f"<!doctype html><body>{output_of(trace)}</body>")
    tab.locator(".explorer-host .pane").first.wait_for(state="attached")
    tabs = tab.locator("[role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.view)")
    assert tabs == [view["name"] for view in payload(trace)["views"]]


def test_the_trace_is_held_once(trained):
    """An output has one copy of the payload, packed, and it is the payload of the trace."""
    text = output_of(trained)
    (held,) = re.findall(r'class="explorer-trace">([^<]*)<', text)
    assert unpack(base64.b64decode(held)) == json.loads(json.dumps(payload(trained)))
    assert len(text) < len(held) + len(page.static_summary(trained)) + len(page.bundle()) / 2, "and the packed front end"


def test_an_output_has_a_most(trained, monkeypatch):
    """An output of a trace beyond the limit has the summary, and says how to keep the rest."""
    monkeypatch.setattr(saved_output, "MAX_BYTES", 1000)
    text = output_of(trained)
    assert 'class="explorer-trace"' not in text and "to_html" in text and "explorer-summary" in text


def test_an_output_without_its_trace_shows_the_summary(shown, trained, monkeypatch):
    """It waits for its process behind the summary, which no process may take away."""
    monkeypatch.setattr(saved_output, "MAX_BYTES", 1000)
    tab = shown(f"<!doctype html><body>{output_of(trained)}</body>")
    tab.wait_for_function("globalThis[Symbol.for('explorer.view.kept')]?.views.has('abc')")  # the front end runs
    assert tab.locator(".explorer-summaries", has_text="to_html").is_visible()
    assert tab.locator(".explorer-host").count() == 0


#: An output as Colab shows it: a frame of another origin, which may run scripts and nothing else.
SANDBOXED = '<!doctype html><body><iframe sandbox="allow-scripts" style="width:1200px;height:760px" srcdoc="{}"></iframe>'
#: What such a frame may do: reach the page around it, keep something in the browser.
ALLOWED = """() => [() => parent.document, () => localStorage.length, () => sessionStorage.length].map((ask) => {
    try { ask(); return true } catch { return false }
})"""


def test_an_output_shows_itself_in_a_frame_that_may_only_run_scripts(shown, trained):
    """As in Colab: no access to the page around, no storage; the view is there, a click marks the linked texts, views open."""
    framed = f"<!doctype html><body>{output_of(trained)}</body>"
    tab = shown(SANDBOXED.format(html.escape(framed)))
    frame = tab.frames[1]
    view = frame.locator(".explorer-host")
    to_texts(view)
    assert frame.evaluate(ALLOWED) == [False, False, False], "the frame is as narrow as Colab's"
    code = compiled_kernels(trained)[0].user_lines[0].code
    view.locator(".pane").first.locator(".line", has_text=code).first.click()
    view.locator(".item.linked").nth(3).wait_for()  # the links are unpacked after the first screen
    assert view.locator(".line.chosen").count() == 1
    to_view(view, "Kernels")
    assert view.get_by_role("tabpanel", name="Kernels").is_visible()
    view.get_by_role("button", name="full screen").click()
    assert view.evaluate("host => getComputedStyle(host).position") == "fixed", "it fills the frame, where no screen is given"
    assert not frame.locator(".explorer-summaries").is_visible()
