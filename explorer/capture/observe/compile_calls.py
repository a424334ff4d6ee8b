"""Observe which call of torch.compile each frame came from."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any, NamedTuple

from explorer.capture.observe.patch import replaced
from explorer.capture.observe.places import OWN_FOLDER, in_package
from explorer.capture.observe.structured import interned, listening
from explorer.model.stage import Emit
from explorer.stages.torch_compile.compile_call import CompileCall


class Line(NamedTuple):
    """A line of a file, and its text."""

    file: str
    line: int
    code: str


NOWHERE = Line("", 0, "")


@contextmanager
def compile_calls(emit: Emit) -> Iterator[None]:
    """Record for each frame which call of torch.compile it came from, and which call of the program began it."""
    import torch
    from torch._dynamo.convert_frame import ConvertFrameAssert

    calls: dict[int, tuple[Any, Line]] = {}  # the object is held, so that no other gets its id
    under_way: list[Any] = []

    def make_made(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            frame = sys._getframe(1)
            emit.attempt("compile_call", "call", lambda: calls.update({id(self): (self, _user_place(frame))}))

        return __init__

    def make_convert(original: Any) -> Any:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            under_way.append(self)
            try:
                return original(self, *args, **kwargs)
            finally:
                under_way.pop()

        return __call__

    def started(metadata: Mapping[str, Any], payload: str) -> None:
        backend = innermost_backend(under_way[-1]) if under_way else None
        _, place = calls.get(id(backend), (None, NOWHERE))
        emit("compile_call", lambda: _call_of(backend, place, _called_from(metadata["dynamo_start"]["stack"])))

    with ExitStack() as stack:
        for name in ("_TorchCompileInductorWrapper", "_TorchCompileWrapper"):
            stack.enter_context(replaced(getattr(torch, name), "__init__", make_made))
        stack.enter_context(replaced(ConvertFrameAssert, "__call__", make_convert))
        stack.enter_context(listening(emit, {"dynamo_start": started}))
        yield


def call_ahead(backend: Any = None) -> CompileCall:
    """Describe the program's line that compiles now, before it calls what is compiled, by Inductor where no backend is given."""
    place = _user_place(sys._getframe(1))
    call = replace(_call_of(innermost_backend(backend), place, NOWHERE), ahead=True)
    return call if backend is not None else replace(call, backend="inductor")


def innermost_backend(converter: Any) -> Any:
    """Unwrap the backend that torch.compile made from Dynamo's wrappers."""
    while hasattr(converter, "_torchdynamo_orig_backend"):
        converter = converter._torchdynamo_orig_backend
    return converter


def _call_of(backend: Any, place: Line, called_from: Line) -> CompileCall:
    """Describe a call of torch.compile: its line, its arguments, and the line that called the compiled function."""
    options = {name: repr(value) for name, value in (getattr(backend, "config", None) or {}).items()}
    named = getattr(backend, "compiler_name", None) or getattr(backend, "__name__", None) or type(backend).__name__
    return CompileCall(
        file=place.file,
        line=place.line,
        code=place.code,
        backend="" if backend is None else str(named),
        options=options,
        dynamic=getattr(backend, "dynamic", None),
        called_file=called_from.file,
        called_line=called_from.line,
        called_code=called_from.code,
    )


def _user_place(frame: FrameType | None) -> Line:
    """Find the innermost place of a stack outside torch and explorer."""
    while frame is not None and (in_package(frame.f_code.co_filename) or frame.f_code.co_filename.startswith(OWN_FOLDER)):
        frame = frame.f_back
    if frame is None:
        return NOWHERE
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Line(file, line, linecache.getline(file, line).strip())


def _called_from(stack: list[Mapping[str, Any]]) -> Line:
    """The program's line that called the frame, from the stack that torch logs when it begins; the last entry is the frame."""
    for call in reversed(stack[:-1]):
        file = interned(call["filename"])
        if file and not in_package(file) and not file.startswith(OWN_FOLDER):
            return Line(file, call["line"], linecache.getline(file, call["line"]).strip())
    return NOWHERE
