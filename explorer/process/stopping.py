"""Stop a verb that runs in another thread, where that is safe: inside the calls of the user's function, and nowhere else.

    stopping = Stopping()
    with stopping.during():          # in the thread that works
        with interruptible():        # deep inside, around a call
            function(x)
    stopping.ask()                   # in any other thread: Stopped is raised in the call, or before the next one

What is replaced in torch for a while is put back outside of these calls, so that no interruption can leave it replaced. A
call of C code ends first, as with Ctrl-C.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, get_ident


class Stopped(BaseException):
    """Somebody asked to stop; no Exception, so that what is stopped does not take it for an error of its own."""


class Stopping:
    """Whether to stop what one thread does, and the means to."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked = False
        self._thread: int | None = None  # where it is inside a call that may be interrupted

    @property
    def asked(self) -> bool:
        """True from the question to the end of what was to be stopped."""
        return self._asked

    def ask(self) -> None:
        """Stop what is under way."""
        with self._lock:
            self._asked = True
            if self._thread is not None:
                _raise_in(self._thread, Stopped)

    @contextmanager
    def during(self) -> Iterator[None]:
        """Inside the block this thread's calls can be stopped; nothing asked before counts, and nothing is left after it."""
        self._settle()
        token = _UNDER_WAY.set(self)
        try:
            yield
        finally:
            self._settle()
            _UNDER_WAY.reset(token)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside the block the thread may be interrupted."""
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
            if self._thread is not None:
                _raise_in(self._thread, None)
            self._thread = None

    def _settle(self) -> None:
        """Forget the question; once more where it comes true only here."""
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
    """Inside the block this thread may be interrupted, where somebody can ask for it."""
    stopping = _UNDER_WAY.get()
    if stopping is None:
        yield
        return
    with stopping.interruptible():
        yield


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Raise an error in another thread at its next step of Python; with None take back one that was not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error) if error else None)
