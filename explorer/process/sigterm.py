"""What SIGTERM leaves of a rank. A launcher sends it to all ranks when one fails, and SIGKILL some 30 s later.

Python hears of a signal when its main thread runs Python again. A rank that waits for a collective in torch's C++ may not do so
before it is killed. So a thread listens too: Python's own handler, in C, writes each signal's number to a pipe at once.
"""

from __future__ import annotations

import linecache
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from explorer.model.values import Plain
from explorer.process.ranks import rank

#: Seconds after which the main thread, which has not heard of the signal, is taken to wait in C++.
GRACE = 3.0
#: Where no line of a program is: the packages whose code calls it, or waits for it.
_NO_PROGRAM = frozenset({"torch", "triton", "explorer", *sys.stdlib_module_names})

#: Python's own os._exit: the program's is replaced while it runs, by what writes its trace first.
_end_process = os._exit


class Ending:
    """How a program ends on SIGTERM: `place` says where it was then, None for one that ended otherwise."""

    def __init__(self, active: bool) -> None:
        self.place: Mapping[str, Plain] | None = None
        self._active = active
        self._heard = threading.Event()

    def run(self, program: Callable[[], None], leave: Callable[[], object]) -> None:
        """Run the program, which SIGTERM ends as sys.exit does; where it waits in C++, `leave` is called in a thread instead.

        Then the process ends at once, as it does on SIGTERM without this.
        """
        if not self._active:
            program()
            return
        signal.signal(signal.SIGTERM, self._exit)
        try:
            with self._listening(leave):
                program()
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _exit(self, number: int, frame: FrameType | None) -> None:
        """End the program with the signal's exit status, 128 + its number as in shells; a later signal changes nothing."""
        self._heard.set()
        signal.signal(number, signal.SIG_IGN)
        self.place = place_of(frame)
        raise SystemExit(128 + number)

    @contextmanager
    def _listening(self, leave: Callable[[], object]) -> Iterator[None]:
        """Inside the block a thread hears of SIGTERM too. Not where the program's caller listens by the same means."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
        process, main = os.getpid(), threading.get_ident()
        os.register_at_fork(after_in_child=lambda: _let_go(writing, process))
        listener = threading.Thread(target=self._listen, args=(reading, main, leave), name="explorer-sigterm", daemon=True)
        listener.start()
        try:
            yield
        finally:
            if (last := signal.set_wakeup_fd(-1)) != writing:
                signal.set_wakeup_fd(last)  # the program's own, such as asyncio's
            os.close(writing)
            listener.join()
            os.close(reading)

    def _listen(self, reading: int, main: int, leave: Callable[[], object]) -> None:
        """Wait for SIGTERM until the pipe is closed, and for the main thread to hear of it."""
        while numbers := os.read(reading, 64):
            ours = signal.getsignal(signal.SIGTERM) == self._exit
            if signal.SIGTERM in numbers and ours and not self._heard.wait(GRACE):
                try:
                    self.place = place_of(sys._current_frames().get(main))
                    leave()
                finally:
                    end(128 + signal.SIGTERM)


def end(status: int) -> NoReturn:
    """End the process at once, after an error under way is printed: Python would print it only when the thread ends."""
    try:
        if (error := sys.exception()) is not None:
            traceback.print_exception(error)
        sys.stderr.flush()
    finally:
        _end_process(status)


def _let_go(writing: int, process: int) -> None:
    """In a child that was forked, do not tell the parent of the child's own signals."""
    if os.getpid() == process:
        return
    with suppress(ValueError, OSError):
        if (last := signal.set_wakeup_fd(-1)) != writing:
            signal.set_wakeup_fd(last)


@contextmanager
def ends_on_sigterm() -> Iterator[Ending]:
    """Give what runs a program, and ignore SIGTERM after it in the block: without this, traces of ranks would be lost with them.

    A single process, and a thread that can set no handler, are let be.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if rank(os.environ) is None or not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield Ending(active=False)
        return
    try:
        yield Ending(active=True)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def place_of(frame: FrameType | None) -> Mapping[str, Plain] | None:
    """The innermost line of the program on a stack, and the call in which the stack ends, as of a collective; None if none."""
    while frame is not None and frame.f_code.co_name == "__call__":  # as of every operator, whose line says nothing
        frame = frame.f_back
    innermost = frame
    while frame is not None and _is_no_program(frame):
        frame = frame.f_back
    if frame is None or innermost is None:
        return None
    code = frame.f_code
    return {
        "file": code.co_filename,
        "line": frame.f_lineno,
        "code": _line(frame),
        "function": code.co_qualname,
        "call": _line(innermost),
    }


def line_of_error(error: BaseException) -> str:
    """The innermost line of the program in an error's traceback, as "file:line  code"; "" if none."""
    lines = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_no_program(frame)]
    if not lines:
        return ""
    file, line = lines[-1][0].f_code.co_filename, lines[-1][1]
    return f"{file}:{line}  {linecache.getline(file, line).strip()}"


def _is_no_program(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in _NO_PROGRAM or not Path(frame.f_code.co_filename).is_file()  # what torch makes has none


def _line(frame: FrameType) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


__all__ = ["GRACE", "Ending", "end", "ends_on_sigterm", "line_of_error", "place_of"]
