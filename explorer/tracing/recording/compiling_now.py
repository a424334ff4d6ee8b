"""Say what a recording compiles at this moment: the phase, the kernel or choice in it, the compile, and the user's function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident

from explorer.model.events import Frame
from explorer.model.records import typed
from explorer.model.values import Event
from explorer.process.notebook import cell_of
from explorer.stages.fx_graph import short
from explorer.stages.replay import names_in_order
from explorer.stages.torch_compile.phase import OTHER, PhaseMark, part_of

#: How the note on a Ctrl+C begins.
STOPPED = "explorer: stopped while compiling"


@dataclass(frozen=True, eq=False)
class _Step:
    """A phase that the compiler times, or with `of` what that phase works on, while it is under way."""

    name: str
    compile_id: str
    graph: str
    thread: int
    began: float
    of: _Step | None = None
    part: str = ""

    def __str__(self) -> str:
        what = f"{self.name}, {self.of.name}" if self.of is not None else self.name
        return f"{self.part} ({what})" if self.part else what


class CompilingNow:
    """What is under way in the compiles of one recording; `show` is told of each change, with "" when a compile is over."""

    def __init__(self, show: Callable[[str], None] | None) -> None:
        self._show = show
        self._steps: list[_Step] = []
        self._places: dict[str, str] = {}

    def compile_began(self, event: Event, compile_ids: Iterable[str]) -> None:
        """Remember the function of a compile; `compile_ids` are all so far, in order, by which the trace numbers them."""
        code = typed(Frame, event.data).stack[-1]
        place = f"{cell_of(code.file) or short(code.file)}:{code.line}"
        self._places[event.frame] = f"{names_in_order(compile_ids)[event.frame]} {code.function} ({place})"

    def phase(self, event: Event) -> None:
        """Follow a phase that begins or ends in this thread."""
        mark = typed(PhaseMark, event.data)
        own = self._of_this_thread()
        if mark.at == "B":
            part = part_of(mark.name) or (own[-1].part if own else "")
            self._begin(_Step(mark.name, event.frame, event.graph, get_ident(), time.time(), part=part.replace(OTHER, "")))
        elif begun := [step for step in own if step.of is None and step.name == mark.name]:
            self._end(begun[-1])

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Name what this thread's innermost phase works on inside."""
        own = self._of_this_thread()
        phase = next((step for step in reversed(own) if step.of is None), None)
        around = phase or _Step("", "", "", 0, 0.0)
        step = _Step(what, around.compile_id, around.graph, get_ident(), time.time(), phase, around.part)
        self._begin(step)
        try:
            yield
        finally:
            self._end(step)

    def _begin(self, step: _Step) -> None:
        self._steps.append(step)
        self._tell()

    def _end(self, step: _Step) -> None:
        """End a step, and those inside it that did not say so, as after an error."""
        self._note_interrupt(step)
        own = self._of_this_thread()
        for ended in own[own.index(step) :] if step in own else ():
            self._steps.remove(ended)
        self._tell()

    def _of_this_thread(self) -> list[_Step]:
        return [step for step in self._steps if step.thread == get_ident()]

    def _tell(self) -> None:
        if self._show is not None:
            self._show(self._in_words(self._steps[-1]) if self._steps else "")

    def _in_words(self, step: _Step) -> str:
        """Give the time of day too: it stays true where C code keeps Python from counting seconds."""
        return f"{step} since {time.strftime('%H:%M:%S', time.localtime(step.began))}{self._place(step, ', in ')}"

    def _place(self, step: _Step, before: str) -> str:
        """The compile, its function and its graph, with `before` in front; "" for what is in no compile."""
        named = self._places.get(step.compile_id, step.compile_id)
        return f"{before}{' '.join(filter(None, (named, step.graph)))}" if named else ""

    def _note_interrupt(self, step: _Step) -> None:
        """Say on a KeyboardInterrupt that passes what was compiling; the steps around the innermost one add nothing."""
        error = sys.exc_info()[1]  # torch ends a phase in a finally block, while the error passes
        if isinstance(error, KeyboardInterrupt) and not any(STOPPED in note for note in getattr(error, "__notes__", ())):
            place = self._place(step, " ") or " a graph"
            error.add_note(f"{STOPPED}{place}: it was in {step} for {time.time() - step.began:.1f} s")


__all__ = ["STOPPED", "CompilingNow"]
