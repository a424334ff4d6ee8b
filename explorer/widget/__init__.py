"""The widget: one trace as a view in a notebook, that answers to Python and tells it what is selected.

    w = explorer.show(t)
    w.selected                      # what was clicked: {"artifact", "stage", "line", "node", "kernel", …}
    w.observe(print, "selected")
    w.select("0/0:source", 2)       # as if line 2 had been clicked
    w.open("ttgir", kernel=0)       # show a text
    w.compare("forward", "post_grad")

The view works in the browser alone, over one compressed payload. What it cannot do there, such as making a text on
demand, running and timing, it asks of `worker.Worker`, where the trace is live.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from explorer import wire
from explorer.errors import InputError, unknown_name
from explorer.page import packed, static_summary
from explorer.payload import lines_of_nodes
from explorer.widget.worker import Worker

if TYPE_CHECKING:
    from explorer.model.values import Artifact
    from explorer.traced import Trace

#: The front end: `make widget` bundles it of the modules in `src`.
BUNDLE = Path(str(files("explorer").joinpath("widget", "static", "explorer.js")))


#: The names of the front end's views, as `views.js` has them.
VIEWS = ("code", "graph", "kernels", "fusion", "passes", "compare", "dynamo", "memory", "timings", "run")


class Explorer(anywidget.AnyWidget):  # type: ignore[misc]
    """A trace's view, an ipywidget: it can stand in boxes, and several views of it show the same selection."""

    _esm = BUNDLE
    #: The trace as `page.packed` makes it; it travels once.
    payload = traitlets.Bytes().tag(sync=True)
    #: What is selected, as `wire.Selected` has it; {} for nothing.
    selected = traitlets.Dict().tag(sync=True)
    #: What Python last asked the view to show, a `wire.Command`.
    command = traitlets.Dict().tag(sync=True)
    #: Texts made on demand, each a `wire.Addition`.
    additions = traitlets.List().tag(sync=True)
    #: What the live process is doing, a `wire.Progress`.
    progress = traitlets.Dict().tag(sync=True)
    #: The MLIR passes of the kernel that was last asked for, as `wire.MlirPasses`.
    passes = traitlets.Dict().tag(sync=True)
    is_live = traitlets.Bool().tag(sync=True)

    def __init__(self, trace: Trace, **more: Any) -> None:
        self.trace = trace
        self._shown_in: object = None
        super().__init__(payload=packed(trace), is_live=trace.live is not None, **more)
        self._worker = Worker(self)
        self.on_msg(lambda _, message, __: self._worker.answer(message))

    def close(self) -> None:
        """Take every view down and do nothing more; also where the payload could not be made, and there is no worker."""
        if worker := getattr(self, "_worker", None):
            worker.close()
        super().close()

    def select(self, artifact: str, line: int) -> None:
        """Select a line, counted from 1, of the text of that id or stage, as a click would.

        InputError, with what there is, where the trace has no such text or line.
        """
        chosen = self._text(artifact)
        if not 1 <= line <= max(1, len(chosen.lines)):
            raise InputError(f"{chosen.id!r} has lines 1 to {len(chosen.lines)}, not {line}")
        self.selected = wire.Selected(
            artifact=chosen.id,
            stage=chosen.stage,
            frame=chosen.frame,
            graph=chosen.graph,
            kernel=chosen.kernel,
            line=line,
            node=_node(chosen, line),
            text=chosen.lines[line - 1] if chosen.lines else "",
        )

    def open(self, stage: str | None = None, *, kernel: int | str | None = None, line: int = 0, pane: str = "") -> None:
        """Show a text: an artifact's id, or a stage, of a kernel by number or name where given.

        `pane` is "left", "right", "third" or "fourth", "" for where it fits. InputError where there is no such text.
        Without a stage this is ipywidgets' own `open`, which it calls when a widget is made.
        """
        if stage is None:
            super().open()
            return
        chosen = self._text(stage, kernel)
        if type(line) is not int or not 0 <= line <= max(1, len(chosen.lines)):
            raise InputError(f"{chosen.id!r} has lines 1 to {len(chosen.lines)}, not {line!r}")
        if pane not in ("", "left", "right", "third", "fourth"):
            raise unknown_name("pane", pane, ["left", "right", "third", "fourth"])
        self.command = wire.OpenCommand(kind="open", artifact=chosen.id, line=line, pane=pane, number=self._next())

    def compare(self, a: str, b: str) -> None:
        """Show the difference of two texts, each an artifact's id or a stage."""
        first, second = self._text(a).id, self._text(b).id
        self.command = wire.CompareCommand(kind="compare", a=first, b=second, number=self._next())

    def view(self, name: str) -> None:
        """Show one of the views by name: "code", "compare", "passes", "graph", "kernels", "dynamo", "timings", …

        InputError for a name that is none.
        """
        if name not in VIEWS:
            raise unknown_name("view", name, VIEWS)
        self.command = wire.ViewCommand(kind="view", name=name, number=self._next())

    def _next(self) -> int:
        """The number of the next command: every view is asked, and the same may be asked twice."""
        return int(self.command.get("number", 0)) + 1

    def _text(self, name: str, kernel: int | str | None = None) -> Artifact:
        """The artifact of that id, or the first of that stage, of one kernel where given."""
        if kernel is None:
            for artifact in self.trace.artifacts:
                if artifact.id == name:
                    return artifact
        owner = self._kernel(kernel) if kernel is not None else None
        for artifact in self.trace.artifacts:
            same = owner is None or (artifact.kernel, artifact.frame, artifact.graph) == owner
            if artifact.stage == name and same:
                return artifact
        raise self._missing(name, owner)

    def _missing(self, name: str, owner: tuple[str, str, str] | None) -> InputError:
        """The error for a text that is not there: why, and for one that is made on demand how to have it made."""
        makers = {"sass": "with_sass", "assembly": "with_assembly"}
        kernels = [k for k in self.trace.kernels if name in makers and name in k.stages]
        if kernels:
            how = f"explorer.show(t.{makers[name]}()) shows it, or in the view the button beside the kernel's texts"
            return InputError(f"{name} is made for one kernel at a time, when it is asked for: {how}")
        held = {a.stage for a in self.trace.artifacts if owner in (None, (a.kernel, a.frame, a.graph))}
        if owner is not None and any(a.stage == name for a in self.trace.artifacts):
            return unknown_name(f"stage of kernel {owner[0]!r}", name, held)
        return self.trace.no_text(name)

    def _kernel(self, kernel: int | str) -> tuple[str, str, str]:
        """Kernel, frame and graph of a kernel by number or name."""
        found = self.trace.kernels
        for number, k in enumerate(found):
            if kernel in (number, k.name):
                return k.artifact.kernel, k.artifact.frame, k.artifact.graph
        raise unknown_name("kernel of this trace", str(kernel), [k.name for k in found])

    # Display --------------------------------------------------------------------------------------------------------------

    def shown(self, execution: object) -> Explorer:
        """Remember that a cell has displayed this already, so that its last line does not display it again."""
        self._shown_in = execution
        return self

    def _ipython_display_(self) -> None:
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        if shell is None or self._shown_in is None or self._shown_in != shell.execution_count:
            raise NotImplementedError  # IPython goes on to the mime bundle
        self._shown_in = None

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The live view, and what a notebook without widget state shows instead."""
        made = super()._repr_mimebundle_(**kwargs)
        if made is None:
            return None
        data, metadata = made if isinstance(made, tuple) else (made, {})
        return {**data, "text/html": static_summary(self.trace), "text/plain": repr(self)}, metadata

    def __repr__(self) -> str:
        return f"<Explorer of {self.trace.meta.get('name', '?')} for {self.trace.meta.get('target', '?')}>"


def _node(artifact: Artifact, line: int) -> str:
    """The node of a graph that stands on a line, "" for none."""
    return next((name for name, at in lines_of_nodes(artifact).items() if at == line), "")
