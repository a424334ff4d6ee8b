"""Run a function under pdb, which stops only at breakpoints in given files."""

from __future__ import annotations

import bdb
import inspect
import io
import linecache
import pdb
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

from explorer.errors import InputError

#: The instruction with which a function begins.
_RESUME = re.compile(r"\bRESUME\b")
#: The functions by which a wrapper and a graph are called.
_ENTRIES = ("call", "forward")


def debugged(run: Callable[[], Any], files: Sequence[str], lines: Sequence[int], commands: Sequence[str] | None) -> Any:
    """Call `run` under pdb with breakpoints at `lines` of the files, or at each function's first; None after "quit".

    `commands` are given to pdb in place of a user's input, then "continue" when none is left.
    """
    places = list(_breakpoints(files, lines))
    with _breakpoints_kept(), _interrupts_kept():
        debugger = pdb.Pdb() if commands is None else _scripted(commands)
        for file, line in places:
            if problem := debugger.set_break(file, line):
                raise InputError(str(problem))
        with _tracing(debugger):
            try:
                return run()
            except bdb.BdbQuit:
                return None


@contextmanager
def _breakpoints_kept() -> Iterator[None]:
    """Clear after the block the breakpoints that were set in it; every pdb of a process has the same list of them."""
    before = list(bdb.Breakpoint.bpbynumber)
    try:
        yield
    finally:
        for each in list(bdb.Breakpoint.bpbynumber):
            if each is not None and each not in before:
                each.deleteMe()


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Put back what Ctrl-C did before the block: pdb's "continue" makes it stop in pdb, also when the run is over."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None:  # None is a handler that is not Python's, which Python cannot put back
            signal.signal(signal.SIGINT, before)


@contextmanager
def _tracing(debugger: pdb.Pdb) -> Iterator[None]:
    """Let the debugger trace this thread inside the block; a debugger that was on before goes on after it."""
    before = sys.gettrace()
    debugger.reset()
    debugger.botframe = sys._getframe()
    debugger.set_continue()  # only breakpoints stop
    sys.settrace(debugger.trace_dispatch)
    try:
        yield
    finally:
        sys.settrace(before)


def _scripted(commands: Sequence[str]) -> pdb.Pdb:
    """A pdb that reads its commands from a list, prints each with its answer, and goes on after the last."""
    debugger = pdb.Pdb(stdin=_Commands(commands), stdout=sys.stdout, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    return debugger


class _Commands(io.StringIO):
    """The lines of a script, and "continue" for ever after; each is printed as it is read."""

    def __init__(self, commands: Sequence[str]) -> None:
        super().__init__()
        self._left = list(commands)

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """The next command."""
        command = self._left.pop(0) if self._left else "continue"
        sys.stdout.write(f"{command}\n")
        return f"{command}\n"


def _breakpoints(files: Sequence[str], lines: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Yield each file with the lines to stop at. InputError, with the nearest lines, for a line at which no code begins."""
    having = {file: _functions(file) for file in files}
    if not lines:
        for file, functions in having.items():
            yield file, min(next((functions[name] for name in _ENTRIES if name in functions), min(functions.values(), key=min)))
        return
    every = {file: set().union(*functions.values()) for file, functions in having.items()}
    for line in lines:
        places = [(file, line) for file, numbers in every.items() if line in numbers]
        if not places:
            near = sorted(set().union(*every.values()), key=lambda n: abs(n - line))[:3]
            raise InputError(f"no code begins at line {line}: the nearest lines are {', '.join(map(str, sorted(near)))}")
        yield from places


def _functions(file: str) -> dict[str, set[int]]:
    """Return the lines at which code begins, by the file's functions. Of two functions with the same name, the first counts."""
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file))
    try:
        code = compile(text, file, "exec")
    except SyntaxError:  # a disassembly: each line with a text is an instruction
        listed = text.partition("\nExceptionTable:")[0].split("\n")
        begins = next((n for n, line in enumerate(listed, 1) if _RESUME.search(line)), 0)  # before it no line is reported
        return {"": {n for n, line in enumerate(listed, 1) if line.strip() and n > begins}}
    functions: dict[str, set[int]] = {}
    for each in _codes(code):
        lines = {line for *_, line in each.co_lines() if line and line != each.co_firstlineno}
        if each.co_flags & inspect.CO_OPTIMIZED and lines:  # a function, not the body of a class
            functions.setdefault(each.co_name, lines)
    return functions


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code objects in a code object, in the order of the file."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
