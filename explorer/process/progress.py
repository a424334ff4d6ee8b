"""Show progress while compiling or checking, in a terminal, a notebook, and the open views of the trace."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from threading import Event, Thread
from typing import Any

from explorer.process.under_way import INTERVAL, UnderWay, under_way

#: Seconds that a phase takes before a log has a line of it.
QUIET = 30.0


def interactive() -> bool:
    """Whether this process runs in a terminal or a notebook."""
    return in_notebook() or bool(getattr(sys.stderr, "isatty", lambda: False)())


@contextmanager
def progress(label: str, verb: str = "compiling") -> Iterator[Callable[[str], None] | None]:
    """Give a function to call with each phase's name, and with "" between compiles; None if nobody watches."""
    work, view = f"{verb} {label}", under_way()
    tell = None if view is None else _told(view, work)
    with ExitStack() as stack:
        if interactive():
            draw = stack.enter_context(_bar(work))
        elif _LOGS.get():
            draw = _line_of_log(work)
        else:
            yield tell
            return
        drawn = stack.enter_context(closing(_Drawn(draw)))

        def show(phase: str) -> None:
            drawn.show(phase)
            if tell is not None:
                tell(phase)

        yield show


def _told(view: UnderWay, work: str) -> Callable[[str], None]:
    def tell(phase: str) -> None:
        view.show(f"{work}: {phase}" if phase else work)

    tell("")
    return tell


class _Drawn:
    """Draws the phase under way again and again, in a thread: the one that works may be in C code for long.

    There is no thread while nothing is under way, so that the program has the terminal to itself, and may fork.
    """

    def __init__(self, draw: Callable[[str], None]) -> None:
        self._draw = draw
        self._phase = ""
        self._over: Event | None = None
        self._thread: Thread | None = None

    def show(self, phase: str) -> None:
        """Draw this phase from now on; with "" draw once that there is none."""
        self._phase = phase
        if phase and self._thread is None:
            self._over = Event()
            # Jupyter answers to the cell of the context in which a message is sent
            run = partial(copy_context().run, self._draw_until, self._over)
            self._thread = Thread(target=run, name="explorer-progress", daemon=True)
            with suppress(RuntimeError):  # there is no thread to be had: nothing is drawn
                self._thread.start()
        elif not phase and self._thread is not None:
            self.close()
            self._draw("")

    def close(self) -> None:
        """Draw no more."""
        if self._over is not None and self._thread is not None:
            self._over.set()
            if self._thread.is_alive():
                self._thread.join()
        self._over = self._thread = None

    def _draw_until(self, over: Event) -> None:
        while not over.wait(INTERVAL):
            self._draw(self._phase)


@contextmanager
def logged() -> Iterator[None]:
    """Let progress write to stderr inside where it is no terminal: a line when a phase takes longer than `QUIET`."""
    token = _LOGS.set(True)
    try:
        yield
    finally:
        _LOGS.reset(token)


_LOGS: ContextVar[bool] = ContextVar("logs", default=False)


def _line_of_log(work: str) -> Callable[[str], None]:
    """Give what writes a phase once it is `QUIET` seconds old, and again each time its age has doubled."""
    last, began, due = "", 0.0, 0.0

    def draw(phase: str) -> None:
        nonlocal last, began, due
        now = time.monotonic()
        if phase != last:
            last, began, due = phase, now, now + QUIET
        if phase and now >= due:
            due = now + max(now - began, QUIET)
            sys.stderr.write(f"explorer: {work}: {phase}\n")
            sys.stderr.flush()

    return draw


@contextmanager
def _bar(work: str) -> Iterator[Callable[[str], None]]:
    """Give what draws a phase on a tqdm bar that disappears at the end, and in a terminal between compiles.

    In a notebook tqdm itself leaves an output that refers to a closed widget. A saved notebook, and a page of Voila, would
    show "Loading widget..." there. So the bar is displayed as an output that is emptied at the end.
    """
    from tqdm.auto import tqdm

    settings: dict[str, Any] = {"desc": work, "bar_format": "[{elapsed}] {desc}", "leave": False}
    if not any(kind.__module__ == "tqdm.notebook" for kind in tqdm.__mro__):
        with tqdm(**settings) as bar:
            yield partial(_draw_on, bar, work)
        return
    from IPython.display import display

    with tqdm(**settings, display=False) as bar:
        output = display(bar.container, display_id=True)
        try:
            yield partial(_draw_on, bar, work)
        finally:
            if output is not None:
                output.update({"text/html": "", "text/plain": ""}, raw=True)


def _draw_on(bar: Any, work: str, phase: str) -> None:
    bar.set_description_str(f"{work}: {phase}" if phase else work)
    if not phase:
        bar.clear()


def in_notebook() -> bool:
    """Whether this process runs the cells of a notebook, whose outputs can show HTML.

    IPython's shell has a `kernel` there and none in a terminal. That ipykernel is imported says less: a program that starts
    kernels for others imports it too.
    """
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
