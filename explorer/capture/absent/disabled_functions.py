"""Functions of the program's under `torch.compiler.disable` that a compiled function calls: they run in eager mode.

Dynamo's wrapper of such a function exists before the recording. It asks for the stance before the function, and calls
`_maybe_set_eval_frame` twice: before the function to keep Dynamo off, and after it, in its last line, to turn it on again.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dis import get_instructions
from types import CodeType, FrameType, FunctionType
from typing import Any

from explorer.capture.observe.patch import guard_here, guarding, preceded
from explorer.capture.observe.places import OWN_FOLDER, in_package

#: What is done when such a function begins; it gives what is done when the function ends, None for nothing.
Begin = Callable[[], Callable[[], None] | None]

#: The function by which a wrapper turns Dynamo off and on.
_TURNS = "_maybe_set_eval_frame"
#: So many wrappers of a function are looked into by the quick way.
MAX_WRAPPERS = 8


@contextmanager
def disabled_functions(begin: Begin) -> Iterator[None]:
    """Inside the block call `begin` before each such function of the program's, and what that gives after it."""
    from torch._dynamo import eval_frame

    wrapper = eval_frame.DisableContext()(lambda: None).__code__
    torchs: dict[int, Any] = {}  # functions of torch's by their identity: of some torch disables ten thousand calls a compile
    guard = guard_here()

    with ExitStack() as stack:
        under_way = _UnderWay(wrapper, stack)

        def asked(callback: Any) -> None:  # for the stance, once Dynamo is off: else it would compile this
            if callback is not None:  # what asks is no wrapper of a disabled function
                return
            frame: FrameType | None = sys._getframe(3)  # behind what stands in the function's place and what guards this
            if frame is None or frame.f_code is not wrapper:
                frame = _calling(wrapper)
            if frame is None:
                return
            function = frame.f_locals["fn"]
            if id(function) in torchs:
                return
            if _is_plainly_torchs(function):
                torchs[id(function)] = function
            elif is_of_program(function) and (end := begin()) is not None:
                with guarding(guard):
                    under_way.add(frame, end)

        with preceded(eval_frame, "_callback_from_stance", asked):
            yield


class _UnderWay:
    """The program's running functions, by the frames of their wrappers, each with the callback for its end.

    The caller closes `stack` if the recording ends before these functions.
    """

    def __init__(self, wrapper: CodeType, stack: ExitStack) -> None:
        self._wrapper, self._stack = wrapper, stack
        self._ends: dict[FrameType, Callable[[], None]] = {}
        lines = [at.positions.lineno for at in get_instructions(wrapper) if at.argval == _TURNS and at.positions]
        self._last = max(line or 0 for line in lines)

    def add(self, frame: FrameType, end: Callable[[], None]) -> None:
        """One more is under way; while one is, what turns Dynamo on again is preceded."""
        from torch._dynamo import eval_frame

        if not self._ends:
            self._stack.enter_context(preceded(eval_frame, _TURNS, self._turned))
        self._ends[frame] = end

    def _turned(self, _: Any) -> None:  # before the call, since what is after it Dynamo would compile
        frame = _calling(self._wrapper)
        if frame is None or frame.f_lineno < self._last or frame not in self._ends:
            return
        end = self._ends.pop(frame)
        if not self._ends:
            self._stack.close()
        end()


def _calling(code: CodeType) -> FrameType | None:
    """The frame of `code` from which a replacement was called; None where another called it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    return frame if frame is not None and frame.f_code is code else None


def _is_plainly_torchs(function: Any) -> bool:
    """Whether a function is plainly torch's own. The test is quick and may miss some of torch's functions."""
    for _ in range(MAX_WRAPPERS):
        if type(function) is not FunctionType:
            return False
        if "__wrapped__" not in function.__dict__:
            return in_package(function.__code__.co_filename) != ""
        function = function.__dict__["__wrapped__"]
    return False


def is_of_program(function: Any) -> bool:
    """Whether a disabled function is the program's own: torch disables its own, Helion's modes, and the graphs that it calls."""
    owner = getattr(function, "__self__", None)
    called = getattr(type(owner), "forward", function) if hasattr(owner, "named_parameters") else function
    code = getattr(inspect.unwrap(called), "__code__", None)
    if not isinstance(code, CodeType) or code.co_filename.startswith((OWN_FOLDER, "<eval_with_key>")):
        return False
    of_helion = str(getattr(called, "__module__", "")).startswith("helion.")
    return not of_helion and not in_package(code.co_filename)
