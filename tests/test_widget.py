"""The widget: its traits, what a live trace does for it, and the view in notebooks that are not Jupyter's."""

from __future__ import annotations

import base64
import gc
import json
import re
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import comm
import pytest

import explorer
from explorer.errors import InputError
from explorer.lab.live.protocol import live_of
from explorer.model.records import blank
from explorer.model.values import Artifact, Event, Table
from explorer.process import hosts
from explorer.process.stopping import interruptible
from explorer.process.under_way import Watchers
from explorer.stages.cpp import assembly
from explorer.stages.cpp.assembly import AssemblyText
from explorer.tracing.recording import display
from explorer.tracing.traced import Trace
from explorer.view.packing import unpack
from explorer.view.page import bundle, packed
from explorer.view.payload import payload
from explorer.view.widget import Explorer
from explorer.view.widget.worker import MAX_WAITING
from tests.facts import says, untold
from tests.in_tab import until
from tests.tabs import to_texts, to_view


@pytest.fixture(scope="module")
def trace(replayed) -> Trace:
    return replayed("mlp_train-torch2.11-cuda")


@pytest.fixture
def view(trace: Trace) -> Iterator[Explorer]:
    made = Explorer(trace)
    yield made
    made.close()


def by_front_end(view: Explorer) -> None:
    """Close a view's model as a front end does: by a message to the kernel."""
    comm.get_comm_manager().comm_close(None, None, {"content": {"comm_id": view.comm.comm_id}})


def test_the_payload_travels_once_and_compressed(view, trace):
    """A widget holds the trace's payload, packed, and the committed bundle as its front end."""
    assert unpack(view.payload) == json.loads(json.dumps(payload(trace)))
    committed = Path(explorer.__file__).parent / "view" / "widget" / "static" / "explorer.js"
    assert view._esm == committed.read_text(encoding="utf-8")
    assert not view.is_live


def test_the_licences_of_what_is_in_the_bundle_go_with_it():
    """Each package that the front end imports has its licence beside the bundle, those that it needs in turn too."""
    folder = Path(explorer.__file__).parent / "view" / "widget"
    sources = "".join(file.read_text(encoding="utf-8") for file in (folder / "src").glob("*.js"))
    imported = set(re.findall(r'from "([@\w][^"]*)"', sources))
    sections = (folder / "static" / "LICENSES.txt").read_text(encoding="utf-8").split("-" * 80)[1:]
    licensed = {section.split()[0]: section for section in sections}
    assert len(imported) > 4 and imported | {"@lezer/highlight", "style-mod"} <= set(licensed)
    assert all("Copyright" in section and "WITHOUT WARRANTY" in section for section in sections)


@pytest.mark.parametrize("closed", [Explorer.close, by_front_end], ids=["by Python", "by the front end"])
def test_a_closed_view_is_let_go(trace, closed):
    """A view that was closed, on either side, and that nobody refers to is collected, also after it has answered a question."""
    made = Explorer(trace)
    made._worker.answer({"ask": "run"})
    made._worker.wait()
    assert made.progress["what"] == "run"
    left = weakref.ref(made)
    closed(made)
    assert made.comm is None
    del made
    gc.collect()
    assert left() is None


def test_select_says_what_the_line_is(view, trace):
    """`select` by stage or id makes `selected` the same that a click makes: artifact, line, node, and the line's text."""
    graph = trace.find("post_grad")[0]
    node, line = next(iter((n, k) for n, k in lines(graph).items() if k))
    heard = []
    view.observe(lambda change: heard.append(change["new"]), "selected")
    view.select(graph.id, line)
    assert heard == [view.selected]
    assert (view.selected["artifact"], view.selected["line"], view.selected["node"]) == (graph.id, line, node)
    assert view.selected["text"] == graph.lines[line - 1]


def lines(artifact):
    from explorer.view.payload import lines_of_nodes

    return lines_of_nodes(artifact)


def test_open_finds_a_text_of_a_kernel(view, trace):
    """`open` takes a stage, of a kernel by number or by name; asked twice for the same it is asked twice."""
    kernel = trace.kernels[1]
    view.show("kernel", kernel=1)
    assert view.command["artifact"] == kernel.artifact.id
    view.show("kernel", kernel=kernel.name, pane="left", line=3)
    assert (view.command["artifact"], view.command["pane"], view.command["line"]) == (kernel.artifact.id, "left", 3)
    assert view.command["number"] == 2


def test_the_same_line_is_selected_again(view, trace):
    """`select` of the line that is selected already is asked of the view once more: it may show something else by now."""
    text = trace.find("post_grad")[0]
    view.select(text.id, 3)
    assert view.command == {}
    view.select("post_grad", 3)
    view.select("post_grad", 3)
    assert (view.command["kind"], view.command["line"], view.command["number"]) == ("select", 3, 2)


def test_what_is_opened_at_a_line_is_selected(view, trace):
    """`open` with a line makes `selected` that line, without a line it leaves it."""
    text = trace.find("post_grad")[0]
    view.show("post_grad", line=3)
    assert (view.selected["artifact"], view.selected["line"], view.selected["text"]) == (text.id, 3, text.lines[2])
    view.show("joint")
    assert view.selected["line"] == 3


def test_selected_is_a_place_of_the_trace(view, trace):
    """What Python or a browser sets as `selected` must be a place of the trace, and is completed; else InputError."""
    text = trace.find("post_grad")[0]
    view.selected = {"artifact": text.id, "line": 2}
    assert view.selected["stage"] == "post_grad" and view.selected["text"] == text.lines[1]
    held = view.selected
    for wrong in ({"artifact": "gone", "line": 1}, {"artifact": text.id}, {"artifact": text.id, "line": 10**6}, {"line": 1}):
        with pytest.raises(InputError):
            view.selected = wrong
        assert view.selected == held
    view.selected = {}
    assert view.selected == {}


def test_a_view_without_anything_to_show_is_refused(replayed):
    """`view` raises InputError for a view that has no tab, and names those that have one."""
    made = Explorer(replayed("iree_linear-torch2.13-cpu"))
    with pytest.raises(InputError, match=says("view", "'fusion'", "code", "graph")):
        made.tab("fusion")
    with pytest.raises(InputError, match=says("view", "'compare'", "code", "graph")):
        made.tab("compare")
    assert made.command == {}
    made.close()


def test_compare_and_view_ask_the_view(view, trace):
    """`compare` names two texts, `view` one of the views."""
    view.diff("joint", "post_grad")
    assert (view.command["a"], view.command["b"]) == (trace.find("joint")[0].id, trace.find("post_grad")[0].id)
    view.tab("kernels")
    assert view.command["name"] == "kernels"


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        (lambda v: v.select("source", 0), ("lines 1", "not 0")),
        (lambda v: v.select("sauce", 1), ("'sauce'", "'source'")),
        (lambda v: v.show("kernel", kernel=99), ("kernel", "99")),
        (lambda v: v.show("ttgirl"), ("'ttgirl'", "'ttgir'")),
        (lambda v: v.show("kernel", pane="middle"), ("pane", "'middle'", "'left'", "'right'")),
        (lambda v: v.diff("joint", "nothing"), ("'nothing'",)),
        (lambda v: v.select("post_grad", True), ("lines 1", "not True")),
        (lambda v: v.select("post_grad", "3"), ("lines 1", "not '3'")),
        (lambda v: v.show("post_grad", line=-1), ("lines 1", "not -1")),
        (lambda v: v.tab("fuson"), ("view", "'fuson'", "'code'")),
    ],
)
def test_what_is_not_there_is_said(view, wrong, facts):
    """A line, text, kernel or pane that does not exist raises InputError with what there is, and changes nothing."""
    with pytest.raises(InputError, match=says(*facts)):
        wrong(view)
    assert view.selected == {} and view.command == {}


WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def test_an_output_shows_the_trace_by_itself(view, monkeypatch):
    """The output of a cell is HTML with the widget's key in it, and no widget's view, which a saved notebook cannot show."""
    for variable in (*hosts.VIEW_FIRST, "SERVER_SOFTWARE"):
        monkeypatch.delenv(variable, raising=False)
    data, _ = view._repr_mimebundle_()
    assert set(data) == {"text/html", "text/plain"}
    assert "explorer-summary" in data["text/html"] and f'data-key="{view.key}"' in data["text/html"]
    assert data["text/plain"].startswith("<Explorer of ")


@pytest.mark.parametrize(
    ("variable", "value"), [("VSCODE_PID", "1"), ("COLAB_RELEASE_TAG", "x"), ("SERVER_SOFTWARE", "voila/0.5")]
)
def test_a_host_that_needs_a_widgets_view_is_given_one(view, monkeypatch, variable, value):
    """VS Code, Colab and Voila make a widget live by its view only; the HTML is there too."""
    monkeypatch.setenv(variable, value)
    data, _ = view._repr_mimebundle_()
    assert data[WIDGET_VIEW]["model_id"] == view.model_id and 'class="explorer-trace"' in data["text/html"]


def test_a_link_is_made_and_followed(view, trace):
    """`link` is what the view says of itself behind a page's address, and `go` takes it, or stages; InputError for others."""
    text = trace.find("post_grad")[0]
    view.place = f"trace={view.key}&view=graph&left={text.id}&at={text.id}:3"
    assert view.link("a.html") == f"a.html#view=graph&left={text.id}&at={text.id}:3"
    view.go(view.link("a.html"))
    assert view.command["kind"] == "go" and "trace" not in view.command["place"]
    view.go("#left=program&at=" + f"{text.id}:3")  # all of the source in one text, which is none of the trace's own
    assert "left=program" in view.command["place"]
    view.go("#left=post_grad&at=post_grad:3")  # the front end knows texts by their ids
    assert unquote(view.command["place"]) == f"left={text.id}&at={text.id}:3"
    asked = dict(view.command)
    for wrong in ("", "#", "#nothing", "#view=sauce", "#left=gone", f"#at={text.id}:0", f"#at={text.id}:99999", f"#at={text.id}"):
        with pytest.raises(InputError):
            view.go(wrong)
    assert view.command == asked


def test_widgets_nest_in_boxes(view):
    """It is an ipywidget like any other."""
    import ipywidgets

    assert ipywidgets.VBox([view]).children == (view,)


@pytest.mark.compile
def test_a_trace_makes_no_widget_outside_a_notebook(trace):
    """In a terminal a trace shows its table only, and `show` prints it."""
    assert trace._repr_mimebundle_() == {}
    code = (
        "import sys; from explorer.tracing import traced; traced.Trace()._repr_mimebundle_(); print('anywidget' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_show_prints_the_table_in_a_terminal(trace, capsys):
    """Outside a notebook `show` prints the table of stages and returns nothing."""
    assert display.show(trace) is None
    assert "post_grad" in capsys.readouterr().out


# Live --------------------------------------------------------------------------------------------------------------------


class FakeLive:
    """A live process whose answers the test knows."""

    error = None
    absent = None

    def __init__(self) -> None:
        self.watchers = Watchers()

    def edits_of(self, kernel) -> tuple[object, ...]:
        return ()

    def check(self, *_: object, **__: object) -> Table:
        return Table([{"output": "output", "max_abs": 0.0}])

    def benchmark(self, *_: object, **__: object) -> Table:
        return Table(
            [
                {"what": "eager", "seconds": 2.0, "ratio_to_eager": 1.0},
                {"what": "compiled", "seconds": 1.0, "ratio_to_eager": 0.5},
            ]
        )

    def sass(self, kernel) -> str:
        return '\t//## File "k.py", line 3\n        /*0000*/                   LDG.E R2, [R2] ;\n'

    def ptx_lines(self, kernels) -> list[tuple[int, ...]]:
        return [()] * len(kernels)

    def assembly(self, kernel) -> Artifact:
        data = blank(AssemblyText, name=kernel.kernel, text="\tret", file="kernel.cpp", unlinked="addr2line is not installed")
        event = Event("assembly", kernel.time, kernel.frame, kernel.graph, data)
        return assembly.STAGE.artifact_of(event, kernel.id.replace(":kernel:", ":assembly:"))

    def passes(self, kernel) -> Table:
        row = {"stage": "ttir", "name": "Inliner", "argument": "inline", "error": ""}
        return Table(
            [{**row, "changed": True, "before": "a", "after": "b"}, {**row, "changed": False, "before": "b", "after": "b"}]
        )

    def run(self, *_: object, **__: object) -> object:
        raise ValueError("no such tensor")


@pytest.fixture
def live(trace: Trace) -> Iterator[Explorer]:
    made = Explorer(Trace(trace.meta, trace.artifacts, trace.links, trace.failures, FakeLive()))
    yield made
    made.close()


def asked(view: Explorer, **message: object) -> list[dict[str, object]]:
    """What `progress` said while the view's question was answered."""
    told: list[dict[str, object]] = []
    view.observe(lambda change: told.append(change["new"]), "progress")
    view._worker.answer(message)
    view._worker.wait()
    return told


def test_check_and_benchmark_answer_with_rows(live):
    """What the run panel asks is done in the worker's thread; progress says how far it is, and then the rows."""
    assert live.is_live
    assert asked(live, ask="check")[-1]["rows"] == [{"output": "output", "max_abs": 0.0}]
    told = asked(live, ask="benchmark")
    assert [t["done"] for t in told if t.get("done")] == list(range(3, 31, 3))
    assert told[-1]["rows"] == [
        {"what": "eager", "seconds": 2.0, "ratio_to_eager": 1.0},
        {"what": "compiled", "seconds": 1.0, "ratio_to_eager": 0.5},
    ]


def test_kernels_are_timed_and_placed_below_the_roofline(live, monkeypatch):
    """The rows are those of the verbs, without the columns that a view has no room for."""
    row = {
        "frame": "0/0",
        "graph": "inference",
        "kernel": "k",
        "kind": "kernel",
        "launches": 1,
        "seconds": 1.0,
        "low": 0.9,
        "high": 1.1,
    }
    live_of(live.trace).time_kernels = lambda *_: Table([row])
    (told,) = asked(live, ask="time_kernels")[-1]["rows"]
    assert told == {key: row[key] for key in ("kernel", "kind", "launches", "seconds", "low", "high")}
    live_of(live.trace).absent = object()
    placed = asked(live, ask="roofline")[-1]["rows"]
    assert [one["kernel"] for one in placed] == [one["kernel"] for one in live.trace.profile.roofline().table]


def test_configs_are_compared_for_the_kernel_that_is_asked_about(live):
    """The answer says which text it is of, also where the kernel cannot be tuned; then it says why."""
    artifact = live.trace.kernels[0].artifact.id
    told = asked(live, ask="tune", artifact=artifact)[-1]
    assert told["artifact"] == artifact and told["error"]
    assert not untold(str(asked(live, ask="tune", artifact="nothing")[-1]["error"]), "'nothing'", "kernel")


def test_an_error_is_said_and_the_next_question_answered(live):
    """An error of the program is what came of the question; the worker goes on."""
    assert asked(live, ask="run")[-1]["error"] == "ValueError: no such tensor"
    assert asked(live, ask="check")[-1]["rows"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_worker_that_is_ended_says_so(live, monkeypatch, error):
    """A program that ends its thread has an answer too, so that no question waits forever; the next one is answered."""

    def ends(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(FakeLive, "run", ends)
    told = asked(live, ask="run")[-1]["error"]
    assert not untold(told, "worker", type(error).__name__)
    assert asked(live, ask="check")[-1]["rows"]


def test_sass_is_made_when_asked(live, trace):
    """SASS made on demand joins the trace with its links, and travels by itself with indexes that fit the payload."""
    kernel = next(k.artifact for k in trace.kernels if any(a.stage == "ptx" and a.kernel == k.name for a in trace.artifacts))
    asked(live, ask="make", artifact=kernel.id, stage="sass")
    (piece,) = live.additions
    assert [a["stage"] for a in piece["artifacts"]] == ["sass"]
    whole = payload(live.trace)
    assert piece["artifacts"] == whole["artifacts"][len(trace.artifacts) :]
    assert piece["hows"] == whole["hows"] and all(link in whole["links"] for link in piece["links"])
    asked(live, ask="make", artifact=kernel.id, stage="sass")
    assert len(live.additions) == 1


def test_why_assembly_lacks_links_joins_the_failures(live, trace):
    """Assembly made on demand joins the trace; a reason for missing links is a Failure of the view's trace."""
    kernel = trace.kernels[0].artifact
    asked(live, ask="make", artifact=kernel.id, stage="assembly")
    assert [a["stage"] for piece in live.additions for a in piece["artifacts"]] == ["assembly"]
    assert [f.message for f in live.trace.failures if f.stage == "assembly"] == ["addr2line is not installed"]


def test_passes_share_their_texts(live, trace):
    """The MLIR passes of a kernel travel with each text once."""
    asked(live, ask="passes", artifact=trace.kernels[0].artifact.id)
    assert live.passes["texts"] == ["a", "b"]
    assert [(r["before"], r["after"], r["changed"]) for r in live.passes["rows"]] == [(0, 1, True), (1, 1, False)]


def test_questions_beyond_what_may_wait_are_refused(live):
    """A page that asks without end is told to wait; what is kept of its questions is bounded."""
    begun, go_on = threading.Event(), threading.Event()
    live_of(live.trace).check = lambda *_, **__: (begun.set(), go_on.wait(60), Table())[2]
    live._worker.answer({"ask": "check"})
    assert begun.wait(60)
    for _ in range(5000):
        live._worker.answer({"ask": "run"})
    assert not untold(live.progress["error"], f"{MAX_WAITING} questions", "stop")
    assert len(live._worker._waiting) <= MAX_WAITING + 1
    go_on.set()
    live._worker.wait()
    assert asked(live, ask="check")[-1]["rows"] == []


def test_stop_ends_what_is_under_way_and_forgets_what_waits(live):
    """A verb that would run on for minutes ends at once where it is in the user's function, and the next question is answered."""
    ran = []

    def forever(*_: object, **__: object) -> Table:
        ran.append(1)
        with interruptible():
            for _ in range(60_000):
                time.sleep(0.001)
        return Table()

    live_of(live.trace).check = forever
    told: list[dict[str, object]] = []
    live.observe(lambda change: told.append(change["new"]), "progress")
    for _ in range(3):
        live._worker.answer({"ask": "check"})
    until(lambda: ran)
    live._worker.answer({"ask": "stop"})
    live._worker.wait()
    assert told[-1] == {"what": "check", "rows": [], "stopped": True}
    assert len(ran) == 1
    assert asked(live, ask="benchmark")[-1]["rows"]


def test_an_edit_that_waits_is_answered_when_it_is_dropped(live):
    """Stop tells the view of a waiting edit that it ended, and of which text it was: it may ask again."""
    begun, go_on = threading.Event(), threading.Event()
    live_of(live.trace).check = lambda *_, **__: (begun.set(), go_on.wait(60), Table())[2]
    told: list[dict[str, object]] = []
    live.observe(lambda change: told.append(change["new"]), "progress")
    live._worker.answer({"ask": "check"})
    assert begun.wait(60)
    live._worker.answer({"ask": "edit", "artifact": "a", "text": ""})
    live._worker.answer({"ask": "stop"})
    go_on.set()
    live._worker.wait()
    assert {"what": "edit", "artifact": "a", "rows": [], "stopped": True} in told


def test_what_is_not_asked_for_is_not_done(live):
    """A message that is no question changes nothing."""
    assert asked(live, ask="__class__") == [] == asked(live, other=1)


class Shell:
    """A notebook's shell, of which only the number of the running cell is asked."""

    execution_count = 7


def test_what_a_cell_has_shown_is_not_shown_again_by_its_last_line(live, monkeypatch):
    """`show` displays at once: at the end of the same cell what it returns shows nothing more, later it does."""
    monkeypatch.setattr("IPython.core.getipython.get_ipython", Shell)
    shown = live.shown(Shell.execution_count)
    shown._ipython_display_()
    with pytest.raises(NotImplementedError):
        shown._ipython_display_()


# Notebooks that are not Jupyter's -----------------------------------------------------------------------------------------

HOST = """async ([bundle, payload, theme, raw]) => {
    if (theme === 'colab') document.documentElement.setAttribute('theme', 'dark');
    else document.body.className = theme;
    document.body.style.setProperty('--jp-layout-color0', theme === 'vscode-light' ? 'rgb(250, 251, 252)' : 'rgb(1, 2, 3)');
    const bytes = Uint8Array.from(atob(payload), (c) => c.charCodeAt(0));
    const state = { is_live: false, selected: {}, command: {}, additions: [] };
    state.payload = raw ? bytes.buffer : new DataView(bytes.buffer);
    const listeners = new Map();
    window.saved = 0;
    window.keys = 0;
    document.addEventListener('keydown', () => window.keys++);
    window.model = {
        get: (name) => state[name], set: (name, value) => (state[name] = value), save_changes: () => window.saved++,
        on: (event, action) => listeners.set(event, action), off: (event) => listeners.delete(event), listeners,
    };
    const el = document.body.appendChild(document.createElement('div'));
    const url = URL.createObjectURL(new Blob([bundle], { type: 'text/javascript' }));
    const { default: widget } = await import(url);
    window.take_down = await widget.render({ model: window.model, el });
}"""


@pytest.fixture
def hosted(tabs: Callable[..., Any], trace: Trace) -> Callable[..., Any]:
    """The widget in a page that is not Jupyter's; at the end the view has raised no error."""
    tab = tabs()

    def show(host: str, theme: str = "vscode-light", raw: bool = False) -> Any:
        tab.evaluate(host, [bundle(), base64.b64encode(packed(trace)).decode(), theme, raw])
        return tab

    return show


@pytest.mark.parametrize(
    ("theme", "dark", "raw"),
    [("vscode-dark", True, False), ("vscode-light", False, False), ("vscode-high-contrast", True, True), ("colab", True, True)],
)
def test_the_view_stands_where_there_is_no_jupyter(hosted, theme, dark, raw):
    """With anywidget's `render` alone, as VS Code and Colab call it: theme, selection, keys and taking down need no Jupyter."""
    tab = hosted(HOST, theme, raw)
    view = tab.locator(".explorer")
    assert view.get_attribute("data-theme") == ("dark" if dark else "light")
    background = view.evaluate("e => getComputedStyle(e).backgroundColor")
    assert background == ("rgb(250, 251, 252)" if theme == "vscode-light" else "rgb(1, 2, 3)"), "the notebook's own colour"
    assert "view=overview&left=" in tab.evaluate("window.model.get('place')")
    to_texts(tab)
    assert "view=code&left=" in tab.evaluate("window.model.get('place')")
    tab.evaluate("window.saved = 0")
    tab.locator(".pane").first.locator(".line").nth(1).click()
    assert tab.evaluate("[window.saved, window.model.get('selected').line]") == [1, 2]
    tab.keyboard.press("d")
    assert tab.evaluate("window.keys") == 0, "a key stays in the view"
    tab.evaluate("window.take_down()")
    assert tab.evaluate("[document.querySelectorAll('.explorer-host').length, window.model.listeners.size]") == [0, 0]


def test_a_click_reaches_python_whatever_the_permalink_says(hosted):
    """The selected line is a message of its own: it needs no link that says something new."""
    tab = hosted(HOST)
    tab.evaluate("""() => {
        const { permalink } = document.querySelector('.explorer-host').app;
        Object.defineProperty(permalink, 'text', { get: () => 'view=code' });
    }""")
    to_texts(tab)
    tab.locator(".pane").first.locator(".line").nth(1).click()
    assert tab.evaluate("[window.model.get('selected').line, window.model.get('place')]") == [2, "view=code"]


def test_the_line_that_is_selected_is_shown_again_when_asked(hosted):
    """`select` of the selected line leads back to it from another view, and what is shown and `selected` stay the same."""
    tab = hosted(HOST)
    to_texts(tab)
    tab.locator(".pane").first.locator(".line").nth(1).click()
    held = tab.evaluate("window.model.get('selected')")
    to_view(tab, "Memory")
    assert "view=memory" in tab.evaluate("window.model.get('place')")
    tab.evaluate(
        """({ artifact, line }) => {
        window.model.set('command', { kind: 'select', artifact, line, number: 1 });
        window.model.listeners.get('change:command')();
    }""",
        held,
    )
    assert tab.locator(".line.chosen").first.is_visible()
    assert tab.evaluate("window.model.get('selected')") == held and "view=code" in tab.evaluate("window.model.get('place')")
    tab.keyboard.press("Escape")
    tab.evaluate("document.querySelector('.explorer-host').app.selection.clear()")
    assert tab.evaluate("window.model.get('selected')") == {}


@pytest.mark.parametrize("when", ["before the view is there", "while its overview is shown"])
def test_a_line_that_python_selects_is_shown_in_the_texts(hosted, trace, when):
    """`w.select` in the cell that shows the view, or in a later one, leads from the overview to the line; Memory stays."""
    (source, *_) = trace.find("source")
    selected = {"artifact": source.id, "line": 2}
    tab = hosted(HOST.replace("selected: {}", f"selected: {json.dumps(selected)}") if when.startswith("before") else HOST)
    tell = """selected => {
        window.model.set('selected', selected);
        window.model.listeners.get('change:selected')();
    }"""
    if not when.startswith("before"):
        assert tab.get_by_role("tabpanel", name="Overview").is_visible()
        tab.evaluate(tell, selected)
    assert tab.locator(".line.chosen").first.is_visible()
    to_view(tab, "Memory")
    tab.evaluate(tell, {**selected, "line": 3})
    assert tab.get_by_role("tabpanel", name="Memory").is_visible(), "which has the line's buffers"


LIVE_HOST = HOST.replace("is_live: false", "is_live: true, progress: {}, passes: {}").replace(
    "get: (name)", "send: (question) => (window.asked ??= []).push(question), get: (name)"
)
TOLD = "(said) => { window.model.set('progress', said); window.model.listeners.get('change:progress')(); }"


def test_what_is_under_way_is_shown_in_every_view_and_can_be_stopped(hosted):
    """While the process works the view says at what, for how long and how far, whatever is shown; a button stops it."""
    tab = hosted(LIVE_HOST)
    bar = tab.get_by_role("group", name="under way")
    tab.evaluate(TOLD, {"what": "benchmark", "done": 3, "of": 30})
    bar.wait_for()
    assert "benchmark … " in bar.inner_text() and bar.locator("progress").evaluate("bar => bar.value") == pytest.approx(0.1)
    to_view(tab, "Memory")
    bar.get_by_role("button", name="stop").click()
    assert tab.evaluate("window.asked") == [{"ask": "stop"}] and "stopping" in bar.inner_text()
    tab.evaluate(TOLD, {"what": "benchmark", "rows": [], "stopped": True})
    assert bar.is_hidden() and "benchmark: stopped" in tab.locator(".status").inner_text()
    tab.evaluate(TOLD, {"what": "check", "done": 0, "of": 0})
    tab.evaluate(TOLD, {"what": "check", "error": "the worker was ended by SystemExit: 3"})
    assert bar.is_hidden() and "check: the worker was ended" in tab.locator(".status").inner_text()
    tab.evaluate(TOLD, {"what": "check", "rows": []})
    assert "the worker was ended" not in tab.locator(".status").inner_text(), "the next one went well"


def test_a_process_that_has_ended_is_said_to_have(hosted):
    """When the kernel goes away while it works, the view says so, and offers nothing that only the process could do."""
    tab = hosted(LIVE_HOST)
    to_view(tab, "Run")
    tab.get_by_role("button", name="check").click()
    tab.evaluate(TOLD, {"what": "check", "done": 0, "of": 0})
    tab.evaluate("window.model.listeners.get('comm_live_update')()")
    assert not untold(tab.locator(".status").inner_text(), "check", "process", "kernel")
    assert tab.get_by_role("group", name="under way").is_hidden()
    panel = tab.get_by_role("tabpanel", name="Run")
    assert not untold(panel.inner_text(), "process", "kernel") and panel.get_by_role("button", name="check").count() == 0
