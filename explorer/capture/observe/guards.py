"""Observe Dynamo's guards, and where torch made them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import starmap
from types import FrameType
from typing import Any

from explorer.capture.observe.patch import preceded, replaced
from explorer.capture.observe.places import OWN_FOLDER, in_package
from explorer.capture.observe.sources import installed
from explorer.capture.observe.structured import listening
from explorer.capture.observe.versions import has_function
from explorer.model.stage import Emit
from explorer.stages.dynamo.guards import GuardPlace, GuardTree

#: What hands a guard on, whoever makes it: functions of torch's by their names, and the file of the set of guards.
HANDED_ON = ("install_guard", "install_guards")
SET_OF_GUARDS = "torch/_guards.py"
#: What Dynamo calls a local of the function as a whole, such as an argument.
_LOCAL = re.compile(r"L\['\w+'\]")
#: A line of the user's: file, line and code.
_Line = tuple[str, int, str]
#: A guard's kind, its source, where torch made it, and the user's line if torch names one of its own.
_Place = tuple[str, str, str, _Line | None]


@contextmanager
def guards(emit: Emit) -> Iterator[None]:
    """Record Dynamo's guard tree, and where torch made each guard."""
    from torch._dynamo.guards import CheckFunctionManager
    from torch._guards import GuardsSet

    made_at: list[_Place] = []
    # torch keeps the stack of a guard with a user line only while it logs guards
    added_at: dict[Any, str] = {}

    def added(guard_set: Any, guard: Any) -> None:
        if guard not in added_at:
            added_at[guard] = _maker(sys._getframe(1))

    def make(original: Any) -> Any:
        def __init__(self: Any, code: Any, output_graph: Any, *args: Any, **kwargs: Any) -> None:
            made_at.clear()
            emit.attempt("guards", "origins", lambda: made_at.extend(_places(output_graph.guards, added_at)))
            added_at.clear()
            original(self, code, output_graph, *args, **kwargs)

        return __init__

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        places = tuple(made_at)
        emit("guards", lambda: lambda: GuardTree(text=payload, made_at=tuple(starmap(_guard_place, places))))

    with ExitStack() as stack:
        # not `add`, which calls it: torch takes the stack there, and would find a frame of explorer's on it
        if has_function(GuardsSet, "track_guard_by_source"):
            stack.enter_context(preceded(GuardsSet, "track_guard_by_source", added))
        stack.enter_context(replaced(CheckFunctionManager, "__init__", make))
        stack.enter_context(listening(emit, {"dynamo_cpp_guards_str": heard}))
        yield


def _maker(frame: FrameType | None) -> str:
    """Where torch makes a guard that it adds now: "_dynamo/variables/builder.py:12 in wrap_tensor"; "" outside of torch."""
    while frame is not None:
        code = frame.f_code
        file = in_package(code.co_filename)
        if not code.co_filename.startswith(OWN_FOLDER) and file != SET_OF_GUARDS and code.co_name not in HANDED_ON:
            return f"{file.removeprefix('torch/')}:{frame.f_lineno} in {code.co_name}" if file else ""
        frame = frame.f_back
    return ""


def _places(made: Any, added_at: Mapping[Any, str]) -> Iterator[_Place]:
    """List kind, source and place in torch for each guard with a known place."""
    for guard in made:
        place, user = _of_stack(guard) or added_at.get(guard, ""), _user_line(guard)
        if place or user:
            yield guard.create_fn_name(), str(guard.name), place, user


def _guard_place(kind: str, source: str, place: str, user: _Line | None) -> GuardPlace:
    """The record of a guard's place; of hundreds none is made before the recording is read."""
    return GuardPlace(kind=kind, source=source, place=place, user=user)


def _user_line(guard: Any) -> _Line | None:
    """Return the innermost line of the program that led to a guard in torch's own modules, such as the call of a layer.

    An argument of the function is first read where a library checks it: its guard names the program's line too.
    """
    stack = getattr(guard, "user_stack", None)
    if not stack:
        return None
    lines = [frame for frame in reversed(stack) if not in_package(frame.filename)]
    program = [frame for frame in lines if not installed(frame.filename)] if _LOCAL.fullmatch(str(guard.name)) else []
    frame = (program or lines or [stack[-1]])[0]
    return None if frame is stack[-1] else (frame.filename, frame.lineno, frame.line or "")


def _of_stack(guard: Any) -> str:
    """Return the place in torch that made a guard without a user line, as torch reports it."""
    summary = guard.stack.summary() if guard.stack is not None and not guard.user_stack else ()
    if not summary:
        return ""
    last = summary[-1]
    return f"{in_package(last.filename).removeprefix('torch/') or last.filename}:{last.lineno} in {last.name}"
