"""Stop a verb that runs in another thread, only inside its calls of the user's function or between two steps of its work.

    stopping = Stopping()
    with stopping.during():          # in the thread that works
        with interruptible():        # deep inside, around a call
            function(x)
    stopping.ask()                   # in any other thread: Stopped is raised in the call, or before the next one

explorer replaces most attributes of torch, and restores them, outside of these calls, so an interruption leaves none of them
replaced. Few are replaced inside, while a function that the program disables runs or another stance than the default holds.
A call of C code ends first, as with Ctrl-C.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, get_ident


class Stopped(BaseException):
    """Raised in a thread that was asked to stop. Not an Exception, so the program does not handle it as its own error."""


class Stopping:
    """A request to stop the work of one thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked = False
        self._thread: int | None = None  # set only inside a call that may be interrupted
        self._raised = False  # whether Stopped was raised in that call; it may not have arrived yet

    @property
    def asked(self) -> bool:
        """Whether the work under way was asked to stop."""
        return self._asked

    def ask(self) -> None:
        """Stop the work under way."""
        with self._lock:
            self._asked = True
            if self._thread is not None:
                self._raised = True
                _raise_in(self._thread, Stopped)

    @contextmanager
    def during(self) -> Iterator[None]:
        """Let this thread's calls be stopped inside the block. Requests made before or after it are dropped."""
        self._drop_request()
        token = _UNDER_WAY.set(self)
        try:
            yield
        finally:
            self._drop_request()
            _UNDER_WAY.reset(token)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the thread be interrupted inside the block."""
        with self._lock:
            if self._asked:
                raise Stopped
            self._thread = get_ident()
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._thread = None
            if self._raised:
                _catch_pending()
                self._raised = False

    def _drop_request(self) -> None:
        """Drop the request, and again if `Stopped` is raised only here."""
        while True:
            try:
                self._leave()
                self._asked = False
                return
            except Stopped:
                continue


_UNDER_WAY: ContextVar[Stopping | None] = ContextVar("stopping", default=None)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let this thread be interrupted inside the block, if it runs under a `Stopping`."""
    stopping = _UNDER_WAY.get()
    if stopping is None:
        yield
        return
    with stopping.interruptible():
        yield


def raise_if_stopped() -> None:
    """Raise Stopped if this thread runs under a `Stopping` that was asked; for a place between two parts of its work."""
    stopping = _UNDER_WAY.get()
    if stopping is not None and stopping.asked:
        raise Stopped


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise an error in a thread at its next bytecode, in place of one that is still pending there."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _catch_pending() -> None:
    """Let a pending Stopped arrive in this thread, and catch it; raise one first, since it may have arrived already.

    CPython could withdraw it, but 3.11 then keeps its flag for the whole interpreter that an error is pending. With that
    flag a thread that has a trace function, as under a debugger, runs the first bytecode of a function for ever.
    """
    try:
        _raise_in(get_ident(), Stopped)
        while True:
            pass
    except Stopped:
        pass
