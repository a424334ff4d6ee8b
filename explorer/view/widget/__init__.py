"""The widget: one trace, or several beside each other, as a view in a notebook, which Python can direct and observe.

    w = explorer.show(t)
    w.selected                      # the last click: {"artifact", "stage", "line", "node", "kernel", …}
    w.observe(print, "selected")
    w.select("0/0:source", 2)       # same as a click on line 2
    w.show("ttgir", kernel=0)       # show a text
    w.diff("forward", "post_grad")
    w.link("trace.html")            # a link to what is shown, in the page that t.to_html("trace.html") writes
    w.close()                       # let the view and its trace go

The view works in the browser alone, from one compressed payload. It cannot make a text, run or time there. For a live trace,
`worker.Worker` does that.

Until it is closed the process keeps a view, also when its cell is deleted or the notebook closed: a notebook that is opened
again finds its views live.
"""

# The widget (`__init__.py`), what a live trace does for it (`worker.py`), the front end's ES modules (`src/`), and the bundle
# made of them (`static/`).

from __future__ import annotations

import os
import uuid
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from explorer.analysis.questions.compiles import opened
from explorer.analysis.questions.target import compiled_for
from explorer.errors import InputError, require_installed, unknown_name
from explorer.lab.live.protocol import live_of, no_text
from explorer.process.hosts import needs_view
from explorer.stages import stage_of
from explorer.view import saved_output, wire
from explorer.view.packing import unpack
from explorer.view.page import bundle, packed
from explorer.view.payload import lines_of_nodes
from explorer.view.views import VIEWS
from explorer.view.widget.edits import edits_of
from explorer.view.widget.worker import Worker

try:
    import anywidget
    import traitlets
except ModuleNotFoundError:
    require_installed("anywidget", "the view", "view")
    raise

if TYPE_CHECKING:
    from explorer.analysis.questions.comparison import Comparison
    from explorer.model.values import Artifact
    from explorer.process.under_way import Report
    from explorer.tracing.traced import Trace

#: The names of its panes.
PANES = ("left", "right", "third", "fourth")
#: The id of the view's text of all functions, which is no text of the trace, as `src/program.js` has it.
PROGRAM = "program"


class Explorer(anywidget.AnyWidget):  # type: ignore[misc]
    """The view of a trace as an ipywidget; several displays of it share one selection.

    For several traces, `comparison` has their differences, and `trace` all of their texts, as `compared.joined` makes it. A trace
    of very many compiles is opened with the first ones: see `Trace.only`.
    """

    #: The front end. As a path anywidget would watch it, and keep every view for as long as the process lives.
    _esm = traitlets.Unicode().tag(sync=True)
    #: The trace as `page.packed` returns it; it is sent once.
    payload = traitlets.Bytes().tag(sync=True)
    #: The selection, a `wire.Selected`; {} for none.
    selected = traitlets.Dict().tag(sync=True)
    #: Python's last command to the view, a `wire.Command`.
    command = traitlets.Dict().tag(sync=True)
    #: Texts made on demand, each a `wire.Addition`.
    additions = traitlets.List().tag(sync=True)
    #: The progress of the live process, a `wire.Progress`.
    progress = traitlets.Dict().tag(sync=True)
    #: The verb of the trace that a cell has called and that is under way, a `wire.Called`; {} for none.
    called = traitlets.Dict().tag(sync=True)
    #: The MLIR passes of the last requested kernel, a `wire.MlirPasses`.
    passes = traitlets.Dict().tag(sync=True)
    #: The edits of the trace's kernels, each a `wire.EditInfo`.
    edits = traitlets.List().tag(sync=True)
    #: The changed trace of the last "what if" beside this one, as `page.packed` returns a comparison; empty for none.
    beside = traitlets.Bytes().tag(sync=True)
    is_live = traitlets.Bool().tag(sync=True)
    #: What an output that shows the trace by itself finds this widget by.
    key = traitlets.Unicode().tag(sync=True)
    #: What the view shows, as the end of an address: view, panes and line.
    place = traitlets.Unicode().tag(sync=True)

    def __init__(self, trace: Trace, comparison: Comparison | None = None, **more: Any) -> None:
        if comparison is None and (part := opened(trace)) is not trace:
            trace = trace._of_data(part)
        self.trace = trace
        self._comparison = comparison
        self._shown_in: object = None
        key = uuid.uuid4().hex[:12]
        data = packed(comparison or trace)
        super().__init__(_esm=bundle(), payload=data, is_live=live_of(trace) is not None, key=key, **more)
        self._worker = Worker(self)
        traces = comparison.traces if comparison is not None else (trace,)
        lives = [live for one in traces if (live := live_of(one)) is not None]
        self._watchers = [live.watchers for live in lives]
        for watchers in self._watchers:
            watchers.add(self._hear)
        self.edits = edits_of(trace)
        self.on_msg(lambda _, message, __: self._worker.answer(message))

    def close(self) -> None:
        """Close every view and stop the worker."""
        # there is no worker where __init__ failed on the payload
        if worker := getattr(self, "_worker", None):
            worker.close()
        for watchers in getattr(self, "_watchers", ()):
            watchers.remove(self._hear)
        super().close()

    def _hear(self, report: Report | None) -> None:
        """Show what a verb of the trace does that was not asked for in the view."""
        self.called = {} if report is None else asdict(report)
        if report is None:
            self.edits = edits_of(self.trace)

    def stop_called(self) -> None:
        """Stop the verb that a cell has called, as the kernel's own interrupt does."""
        for watchers in self._watchers:
            watchers.stop()

    @traitlets.observe("comm")  # type: ignore[untyped-decorator]
    def _comm_opened(self, change: Any) -> None:
        """Close with the front end's model: ipywidgets would keep a view that nobody can show any more."""
        if change["new"] is not None:
            change["new"].on_close(lambda _: self.close())

    def select(self, artifact: str, line: int) -> None:
        """Select a line of the text of that id or stage, as a click does; lines count from 1.

        With several traces, name one, as in "h100 ptx"; without a name it is the first trace that has the stage.

        InputError if the trace has no such text or line; it names the valid ones.
        """
        chosen = self._text(artifact)
        self._check_line(chosen, line)
        place = _placed(chosen, line)
        if place != self.selected:
            self.selected = place
        else:  # no change of the trait: the view, which may show something else by now, is told otherwise
            self.command = wire.SelectCommand(kind="select", artifact=chosen.id, line=line, number=self._next())

    def show(self, stage: str, *, kernel: int | str | None = None, line: int = 0, pane: str = "") -> None:
        """Show the text of an artifact's id or of a stage, for one kernel if given by number or name.

        `pane` is "left", "right", "third" or "fourth"; with "" the view chooses. With a line that line is selected.
        InputError if there is no such text, line or pane.
        """
        chosen = self._text(stage, kernel)
        if line != 0 or type(line) is not int:
            self._check_line(chosen, line)
        if pane not in ("", *PANES):
            raise unknown_name("pane", pane, PANES)
        self.command = wire.OpenCommand(kind="open", artifact=chosen.id, line=line, pane=pane, number=self._next())
        if line:
            self.selected = _placed(chosen, line)

    @traitlets.validate("selected")  # type: ignore[untyped-decorator]
    def _check_selected(self, proposal: Any) -> Any:
        """Take a place that the trace has, or none; the rest of what `selected` says follows from its text and line."""
        place = proposal["value"]
        if not place:
            return place
        if "artifact" not in place or "line" not in place:
            raise InputError('a selection has an "artifact" and a "line"; w.select("post_grad", 3) makes one')
        chosen = self._text(str(place["artifact"]))
        self._check_line(chosen, place["line"])
        return _placed(chosen, place["line"])

    def diff(self, a: str, b: str) -> None:
        """Show the difference of two texts, each an artifact's id or a stage."""
        first, second = self._text(a).id, self._text(b).id
        self.command = wire.DiffCommand(kind="diff", a=first, b=second, number=self._next())

    def tab(self, name: str) -> None:
        """Show one of the tabs by name: "code", "diff", "passes", "graph", "kernels", "dynamo", "compiler", …

        InputError for an unknown name, and for "compare" in the view of one.
        """
        self._check_view(name)
        self.command = wire.ViewCommand(kind="view", name=name, number=self._next())

    def link(self, page: str = "") -> str:
        """Return a link to what the view shows: its view, the text in each pane, the selected line.

        `page` is the address of a page that holds the trace, such as `t.to_html` writes; without it this is what stands behind
        it, which `go` takes too.
        """
        shown = self.place.partition("&")[2] if self.place.startswith("trace=") else self.place
        return f"{page}#{shown}"

    def go(self, link: str) -> None:
        """Show what a link says, such as `link` returns or the view copies.

        A stage's name stands for its first text, as in "#right=kernel&at=source:2".
        InputError for what is no such link, and for a view, text or line that this trace has not.
        """
        place = link.partition("#")[2]
        facts = dict(parse_qsl(place))
        if not facts.keys() & {"view", "at", *PANES}:
            raise InputError(f'{link!r} is not a link to a place in a view; w.link() makes one, and the view\'s button "link"')
        self._check_view(facts.get("view", "code"))
        for pane in PANES:
            if pane in facts and facts[pane] != PROGRAM:
                facts[pane] = self._text(facts[pane]).id
        if "at" in facts:
            name, _, line = facts["at"].rpartition(":")
            text = self._text(name)
            self._check_line(text, int(line) if line.isdecimal() else line)
            facts["at"] = f"{text.id}:{line}"
        facts.pop("trace", None)
        self.command = wire.GoCommand(kind="go", place=urlencode(facts, quote_via=quote), number=self._next())

    def _check_view(self, name: str) -> None:
        if name not in {view.name for view in VIEWS}:
            raise unknown_name("view", name, self._views)
        if name not in self._views:
            raise InputError(f"this trace has nothing for the view {name!r}; it has {', '.join(self._views)}")

    @cached_property
    def _views(self) -> list[str]:
        return [view["name"] for view in unpack(self.payload)["views"]]

    @staticmethod
    def _check_line(text: Artifact, line: object) -> None:
        if type(line) is not int or not 1 <= line <= max(1, len(text.lines)):
            raise InputError(f"{text.id!r} has lines 1 to {max(1, len(text.lines))}, not {line!r}")

    def _next(self) -> int:
        """Number the next command: the same command twice is then two changes of the trait."""
        return int(self.command.get("number", 0)) + 1

    def _text(self, name: str, kernel: int | str | None = None) -> Artifact:
        """Find the artifact of that id, or the first of that stage, for one kernel if given."""
        if kernel is None:
            for artifact in self.trace.artifacts:
                if artifact.id == name:
                    return artifact
        owner = self._kernel(kernel) if kernel is not None else None
        trace_name = self._trace_name(name)
        stage = name.removeprefix(f"{trace_name} ") if trace_name else name
        for artifact in self.trace.artifacts:
            same = owner is None or (artifact.kernel, artifact.frame, artifact.graph) == owner
            if artifact.stage == stage and same and trace_name in ("", self._trace_name(artifact.id)):
                return artifact
        raise self._missing(name, owner)

    def _trace_name(self, text: str) -> str:
        """Return the name of the trace that an id or a stage begins with, "" for none.

        The longest counts: of traces named "h100" and "h100 max" both names begin "h100 max ptx".
        """
        names = self._comparison.names if self._comparison is not None else ()
        return max((name for name in names if text.startswith(f"{name} ")), key=len, default="")

    def _missing(self, name: str, owner: tuple[str, str, str] | None) -> InputError:
        """Build the error for a missing text: why it is missing, and how to get one that is made on demand."""
        kernels = [k for k in self.trace.kernels if stage_of(self.trace, name).on_demand_of and name in k.stages]
        if kernels:
            how = f"call explorer.show(t.attach({name!r})), or press the button beside the kernel's texts in the view"
            return InputError(f"{name} is made on demand, for one kernel at a time: {how}")
        held = {a.stage for a in self.trace.artifacts if owner in (None, (a.kernel, a.frame, a.graph))}
        if owner is not None and any(a.stage == name for a in self.trace.artifacts):
            return unknown_name(f"stage of kernel {owner[0]!r}", name, held)
        return no_text(self.trace, name)

    def _kernel(self, kernel: int | str) -> tuple[str, str, str]:
        """Find a kernel's name, frame and graph by its number or name."""
        kernels = self.trace.kernels
        for number, k in enumerate(kernels):
            if kernel in (number, k.name):
                return k.artifact.kernel, k.artifact.frame, k.artifact.graph
        raise unknown_name("kernel of this trace", str(kernel), [k.name for k in kernels])

    # Display --------------------------------------------------------------------------------------------------------------

    def shown(self, execution: object) -> Explorer:
        """Remember the cell that displayed this view: its last line then does not display it again."""
        self._shown_in = execution
        return self

    def _ipython_display_(self) -> None:
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        if shell is None or self._shown_in is None or self._shown_in != shell.execution_count:
            raise NotImplementedError  # makes IPython use the mime bundle
        self._shown_in = None

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return HTML that shows the trace, also without this process; where that cannot be live, the widget's view too.

        With a widget's view in it a saved notebook would say "model not found".
        """
        shown = saved_output.output(self._comparison or self.trace, self.payload, self.key)
        alone = {"text/html": shown, "text/plain": repr(self)}
        if not needs_view(os.environ):
            return alone, {}
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, **alone}, metadata

    def __repr__(self) -> str:
        if self._comparison is not None:
            return f"<Explorer of {', '.join(self._comparison.names)}>"
        return f"<Explorer of {self.trace.meta.get('name', '?')} for {str(compiled_for(self.trace)) or '?'}>"


def _placed(text: Artifact, line: int) -> wire.Selected:
    """Return what a click on a line makes `selected`."""
    return wire.Selected(
        artifact=text.id,
        stage=text.stage,
        frame=text.frame,
        graph=text.graph,
        kernel=text.kernel,
        line=line,
        node=_node(text, line),
        text=text.lines[line - 1] if text.lines else "",
    )


def _node(artifact: Artifact, line: int) -> str:
    """Find the node of a graph on a line; "" for none."""
    return next((name for name, at in lines_of_nodes(artifact).items() if at == line), "")
