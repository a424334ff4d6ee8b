"""The worker of a live view: makes texts, runs, checks and times, one task after the other in a thread of its own.

The view's messages arrive in a thread of the Jupyter kernel, where no torch code may run; that thread only queues them. The
widget's trait `progress` has the task that is under way, and its outcome.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from explorer.analysis.questions.comparison import compare
from explorer.analysis.questions.editable import editable_code
from explorer.analysis.questions.figures import shown
from explorer.capture.observe.tensors import named_tensors
from explorer.errors import InputError
from explorer.lab.live.choice_texts import choice_texts
from explorer.lab.live.forms import forms_of, without_form
from explorer.lab.live.protocol import needs_forms, needs_live
from explorer.model.trace_data import artifact_of
from explorer.model.values import Artifact, jsonable
from explorer.process.stopping import Stopped, Stopping
from explorer.process.under_way import Report, UnderWay
from explorer.stages.replay import extended
from explorer.view import wire
from explorer.view.page import packed
from explorer.view.payload import addition
from explorer.view.widget.edits import edited_text

if TYPE_CHECKING:
    from explorer.view.widget import Explorer

#: How often eager and compiled are timed, and how many of these repeats make one progress report.
REPEATS, ROUND = 30, 3
#: What a view can ask the worker for.
ASKED = ("make", "choice", "passes", "run", "check", "benchmark", "time_kernels", "roofline", "tune", "what_if", "edit", "reset")
#: What a view shows of the rows of `time_kernels` and of the roofline.
TIMED = ("kernel", "kind", "launches", "seconds", "low", "high")
PLACED = ("kernel", "operations", "bytes", "intensity", "seconds", "timed", "limit", "share")
#: The seconds that the check of a changed trace for a GPU you don't have may take.
CHECK_LIMIT = 30.0
#: How many questions may wait. A person asks fewer, and a page that asks without end must not fill the memory.
MAX_WAITING = 20


class Worker:
    """The thread in which a widget's live trace works; further questions wait their turn."""

    def __init__(self, widget: Explorer) -> None:
        self._widget = widget
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="explorer-widget")
        self._stopping = Stopping()
        self._waiting: list[tuple[wire.Progress, Future[None]]] = []

    def answer(self, message: Mapping[str, Any]) -> None:
        """Queue a message of the view, a `wire.Question`; a browser sends it, so it may hold anything.

        "stop" ends the task under way and drops those that wait, each with an answer; "interrupt" ends what a cell has
        called. If `MAX_WAITING` questions wait, the next is refused.
        """
        ask = message.get("ask")
        if ask == "stop":
            for about in self._stop():
                self._tell(about, rows=[], stopped=True)
        elif ask == "interrupt":
            self._widget.stop_called()
        elif ask in ASKED:
            about = _about(str(ask), message)
            self._waiting = [(one, future) for one, future in self._waiting if not future.done()]
            if len(self._waiting) > MAX_WAITING:
                said = f"not done: {MAX_WAITING} questions wait already; let them finish, or press stop"
                self._tell(about, error=said)
            else:
                self._waiting.append((about, self._thread.submit(self._work, about, message)))

    def _stop(self) -> list[wire.Progress]:
        """Stop the task under way and drop those that wait; what these were about."""
        dropped = [about for about, future in self._waiting if future.cancel()]
        self._waiting = []
        self._stopping.ask()
        return dropped

    def wait(self) -> None:
        """Wait until every question is answered."""
        self._thread.submit(lambda: None).result()

    def close(self) -> None:
        """Stop the task under way, and take no further question."""
        self._stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _work(self, about: wire.Progress, message: Mapping[str, Any]) -> None:
        """Do one task and report its outcome; an error of any kind is an outcome."""
        ask = about["what"]
        self._tell(about, done=0, of=0)
        actions: dict[str, Callable[[Mapping[str, Any]], list[Any]]] = {
            "make": self._make,
            "choice": self._choice,
            "passes": self._passes,
            "run": self._run,
            "check": self._check,
            "benchmark": self._benchmark,
            "time_kernels": self._time_kernels,
            "roofline": self._roofline,
            "tune": self._tune,
            "what_if": self._what_if,
            "edit": self._edit,
            "reset": self._reset,
        }
        try:
            with self._stopping.during(), UnderWay(ask, partial(self._hear, about)).reported():
                rows = actions[ask](message)
                stopped = self._stopping.asked
        except Stopped:
            self._tell(about, rows=[], stopped=True)
        except Exception as error:  # noqa: BLE001 an error is an answer, shown in the view
            self._tell(about, error=f"{type(error).__name__}: {error}")
        except BaseException as error:  # noqa: BLE001 the program asked its thread to end; without an answer a view waits for ever
            self._tell(about, error=f"the worker was ended by {type(error).__name__}: {error}; ask again to start it again")
        else:
            self._tell(about, rows=rows, stopped=stopped)

    def _tell(self, about: wire.Progress, **more: Unpack[wire.Progress]) -> None:
        self._widget.progress = {**about, **more}

    def _hear(self, about: wire.Progress, report: Report) -> None:
        """Say what the task under way is doing; a benchmark itself says how far it is."""
        if report.what != "benchmark":
            self._tell(about, what=report.what, phase=report.phase, done=report.done, of=report.of)

    # The actions ----------------------------------------------------------------------------------------------------------

    def _make(self, message: Mapping[str, Any]) -> list[Any]:
        trace, stage = self._widget.trace, str(message["stage"])
        kernel = artifact_of(trace, str(message["artifact"]))
        artifacts = forms_of(trace, needs_forms(trace, f"making {stage}"), without_form(trace, [kernel], stage), stage)
        self._add(artifacts)
        return []

    def _choice(self, message: Mapping[str, Any]) -> list[Any]:
        """Make the texts of some choices in one stage; all of them, or none."""
        trace, stage = self._widget.trace, str(message["stage"])
        live, rows = needs_live(trace, "the texts of a choice"), trace.inductor.choices.table
        self._add([text for number in message["rows"] for text in choice_texts(trace, live, rows[int(number)], [stage])])
        return []

    def _add(self, artifacts: Sequence[Artifact]) -> None:
        """Add texts to the trace, and hand them to the views."""
        if artifacts:
            trace = self._widget.trace
            grown = extended(trace, artifacts, at_end=True)
            self._widget.trace = grown
            self._widget.additions = [*self._widget.additions, addition(grown, len(trace.artifacts), len(trace.links))]

    def _passes(self, message: Mapping[str, Any]) -> list[Any]:
        kernel = artifact_of(self._widget.trace, str(message["artifact"]))
        rows = needs_live(self._widget.trace, "passes").passes(kernel)
        texts: dict[str, int] = {}
        index = [{k: texts.setdefault(str(row[k]), len(texts)) for k in ("before", "after")} for row in rows]
        passes = [jsonable({**row, **places}) for row, places in zip(rows, index, strict=True)]
        self._widget.passes = wire.MlirPasses(artifact=kernel.id, texts=list(texts), rows=passes)
        return []

    def _run(self, message: Mapping[str, Any]) -> list[Any]:
        result = self._widget.trace.live.run()
        return [
            {"output": name, "dtype": str(t.dtype), "shape": list(map(str, t.shape)), "device": str(t.device)}
            for name, t in named_tensors(result, "output")
        ]

    def _check(self, message: Mapping[str, Any]) -> list[Any]:
        return [jsonable(dict(row)) for row in self._widget.trace.check()]

    def _benchmark(self, message: Mapping[str, Any]) -> list[Any]:
        times: dict[str, list[float]] = {}
        for done in range(0, REPEATS, ROUND):
            if self._stopping.asked:
                break
            try:
                rows = self._widget.trace.benchmark(ROUND)
            except Stopped:
                break  # the repeats so far are reported
            for row in rows:
                times.setdefault(str(row["what"]), []).append(float(row["seconds"]))
            self._tell({"what": "benchmark"}, done=done + ROUND, of=REPEATS)
        medians = {what: statistics.median(values) for what, values in times.items()}
        return [{"what": w, "seconds": s, "ratio_to_eager": s / medians["eager"]} for w, s in medians.items()]

    def _time_kernels(self, message: Mapping[str, Any]) -> list[Any]:
        return [jsonable({key: row[key] for key in TIMED}) for row in self._widget.trace.live.profile()]

    def _roofline(self, message: Mapping[str, Any]) -> list[Any]:
        return [jsonable({key: row[key] for key in PLACED}) for row in self._widget.trace.profile.roofline().table]

    def _tune(self, message: Mapping[str, Any]) -> list[Any]:
        kernel, _ = edited_text(self._widget.trace, str(message["artifact"]))
        if isinstance(kernel, Artifact):
            raise InputError("output code has no config: tune one of its kernels")
        return [jsonable(dict(row)) for row in kernel.tune().table]

    def _edit(self, message: Mapping[str, Any]) -> list[Any]:
        """Try another text of a kernel or of output code; the views hear of the edit by their trait `edits`."""
        edited, form = edited_text(self._widget.trace, str(message["artifact"]))
        text: dict[str, Any] = {form: str(message["text"]), "check": not message.get("unchecked")}
        if isinstance(edited, Artifact):
            edit = self._widget.trace.live.edit(frame=edited.frame, graph=edited.graph, **text)
            return [{"kernel": edited.id, "number": edit.number}]
        return [{"kernel": edited.artifact.id, "number": edited.edit(**text).number}]

    def _reset(self, message: Mapping[str, Any]) -> list[Any]:
        """Put the original back; other edits stand on."""
        edited, _ = edited_text(self._widget.trace, str(message["artifact"]))
        if isinstance(edited, Artifact):
            live = needs_live(self._widget.trace, "the edits")
            return [{"kernel": edited.id, "was_edited": live.reset(edited, editable_code(edited).file)}]
        return [{"kernel": edited.artifact.id, "was_edited": edited.edits.reset()}]

    def _what_if(self, message: Mapping[str, Any]) -> list[Any]:
        """Compile the traced call again with a change, and hand both traces over side by side."""
        change, label = _change(message)
        trace = self._widget.trace
        result = trace.what_if(**change, limit=CHECK_LIMIT)
        changes = [f"{row['figure']} {shown(row['before'])} → {shown(row['after'])}" for row in result.table if row["change"]]
        failures = [f.message for f in result.after.failures if f not in trace.failures]
        if failures and not changes:  # two equal traces would only hide what was asked about
            return [{"change": label, "result": "; ".join(failures)}]
        try:
            self._widget.beside = packed(compare(trace, result.after, names=("as it is", label)))
        except InputError as error:
            failures.append(f"The two traces cannot stand side by side: {error}")
        said = (*failures, f"its result is {result.note}", ", ".join(changes) or "no figure changes")
        return [{"change": label, "result": "; ".join(said)}]


def _about(ask: str, message: Mapping[str, Any]) -> wire.Progress:
    """What the answers to a question say it is: several views of one trace hear each other's."""
    if ask in ("edit", "reset", "tune"):
        return {"what": ask, "artifact": str(message.get("artifact", ""))}
    return {"what": ask}


def _change(message: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return a question of the view as arguments of `Trace.what_if`, and what to call the changed trace."""
    kind = message.get("fusion")
    if kind in ("keep_apart", "fuse"):
        first, second, graph, frame = (str(message.get(key, "")) for key in ("first", "second", "graph", "frame"))
        return {kind: (first, second, graph, frame)}, f"{first} and {second} {'apart' if kind == 'keep_apart' else 'together'}"
    for key in ("without_pattern", "without_pass"):
        if name := message.get(key):
            return {key: str(name)}, f"without {name}"
    raise InputError("what if needs a change: two nodes to keep apart or to fuse, or a pattern or pass to leave out")
