"""What a verb of a trace is doing, told to the open views of the trace, and how a view stops it.

    watchers = Watchers()            # each live trace has one
    watchers.add(view.hear)          # a view is opened
    with watchers.verb("check"):     # in the verb
        step("calling it eagerly")   # deep inside
        step("timing", 3, 30)
    watchers.stop()                  # in another thread: the verb ends with KeyboardInterrupt

A thread tells the views, because the one that works may be in a call of C code for long. Where no view is open, as in a
terminal, nothing happens at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from threading import Event, Thread

from explorer.process.stopping import Stopped, Stopping, raise_if_stopped

#: The seconds after which a verb is long, and between two reports of it.
INTERVAL = 0.3


@dataclass(frozen=True)
class Report:
    """A verb that is under way: its name, what it is doing, `done` of `of` steps, whether it was asked to stop, its seconds."""

    what: str
    phase: str = ""
    done: int = 0
    of: int = 0
    stopping: bool = False
    seconds: float = 0.0


#: What hears of a verb; None says that it has ended.
Hear = Callable[[Report | None], object]


@dataclass(eq=False)
class Watchers:
    """The open views of one trace, and the verbs of it that are under way."""

    _views: list[Hear] = field(default_factory=list)
    _verbs: list[UnderWay] = field(default_factory=list)
    _told: Report | None = None

    def add(self, hear: Hear) -> None:
        """Tell a view of each verb from now on."""
        self._views = [*self._views, hear]

    def remove(self, hear: Hear) -> None:
        """Tell a view nothing more; one that was never added is no error."""
        self._views = [view for view in self._views if view != hear]

    def stop(self) -> None:
        """Stop the verbs under way, each at its next call or step; one that has ended is not disturbed."""
        for verb in self._verbs:
            verb.stopping.ask()

    @contextmanager
    def verb(self, what: str) -> Iterator[None]:
        """Tell the views of the work in the block. A verb inside another is a part of that one.

        KeyboardInterrupt, as from the notebook's own button, where a view stops it.
        """
        if not self._views or _VERB.get() is not None:
            yield
            return
        verb = UnderWay(what, self._tell)
        self._verbs = [*self._verbs, verb]
        try:
            with verb.stopping.during(), verb.reported():
                yield
        except Stopped:
            raise KeyboardInterrupt(f"{what} was stopped in a view of its trace") from None
        finally:
            self._verbs = [other for other in self._verbs if other is not verb]
            self._tell_the_end()

    def _tell_the_end(self) -> None:
        """Say that a verb has ended; while another is under way, what that one does."""
        self._tell(self._verbs[-1].told if self._verbs else None)

    def changed(self) -> None:
        """Tell the views anew, because something of the trace that they show is other than it was."""
        self._say(self._told)

    def _tell(self, report: Report | None) -> None:
        if report == self._told:
            return
        self._told = report
        self._say(report)

    def _say(self, report: Report | None) -> None:
        for hear in self._views:
            try:
                hear(report)
            except Exception:  # noqa: BLE001 rule 5: a view that cannot hear must not silence the others, nor end the verb
                self.remove(hear)


class UnderWay:
    """One verb while it works. If it takes longer than `INTERVAL`, a thread tells `hear` what it is doing."""

    def __init__(self, what: str, hear: Callable[[Report], object]) -> None:
        self.stopping = Stopping()
        self._report = Report(what)
        self._hear = hear
        self._known = ""
        self._began = time.monotonic()
        self._ended = Event()
        self.told: Report | None = None  # the last that the views were told of it

    def show(self, phase: str, done: int = 0, of: int = 0) -> None:
        """Say what the verb does now."""
        self._report = replace(self._report, phase=f"{self._known}{phase}", done=done, of=of)

    @contextmanager
    def knowing(self, result: str) -> Iterator[None]:
        """Begin what each step of the block says with what is known already."""
        before, self._known = self._known, f"{result}; "
        try:
            yield
        finally:
            self._known = before

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Report what the block does."""
        # Jupyter answers to the cell of the context in which a message is sent
        reporter = Thread(target=copy_context().run, args=(self._tell,), name="explorer-progress", daemon=True)
        token = _VERB.set(self)
        try:
            with suppress(RuntimeError):  # there is no thread to be had: the views hear nothing of it
                reporter.start()  # where an interrupt may arrive too
            yield
        finally:
            _VERB.reset(token)
            self._ended.set()
            if reporter.is_alive():
                reporter.join()

    def _tell(self) -> None:
        """Tell what has changed, until the verb has ended."""
        before: Report | None = None
        while not self._ended.wait(INTERVAL):
            now = replace(self._report, stopping=self.stopping.asked)
            if now != before:
                self.told = replace(now, seconds=time.monotonic() - self._began)
                self._hear(self.told)
                before = now


_VERB: ContextVar[UnderWay | None] = ContextVar("verb", default=None)


def under_way() -> UnderWay | None:
    """The verb that this thread works for, where a view hears of it."""
    return _VERB.get()


def knowing(result: str) -> AbstractContextManager[None]:
    """Let views read a first result while the block, the rest of the verb, takes its time."""
    verb = _VERB.get()
    return verb.knowing(result) if verb is not None else nullcontext()


def step(phase: str, done: int = 0, of: int = 0) -> None:
    """Begin another part of the verb under way: `done` of `of` parts are finished. A verb that was asked to stop ends here."""
    raise_if_stopped()
    verb = _VERB.get()
    if verb is not None:
        verb.show(phase, done, of)
