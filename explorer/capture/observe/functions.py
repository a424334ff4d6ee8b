"""Record the source of the functions that Dynamo compiles, and of those that it inlines into them."""

from __future__ import annotations

import dis
import inspect
import io
import linecache
import re
import textwrap
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, TypedDict

from explorer.capture.observe.places import without_modules
from explorer.capture.observe.sources import CHANGED, code_at, installed, is_resume, source_of
from explorer.model.stage import Emit
from explorer.stages.dynamo.bytecode import BytecodeText
from explorer.stages.dynamo.source import SourceText

#: A line of a Python traceback, as FX nodes keep them.
STACK_LINE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>.+)')
_DEF = re.compile(r"(?P<indent>\s*)(?:async\s+)?def\s+(?P<name>\w+)")
_CLASS = re.compile(r"(?P<indent>\s*)class\s+(?P<name>\w+)")


def emit_inlined(emit: Emit, code: CodeType) -> None:
    """Record the source of a function that runs inside a compiled frame of another."""
    emit("source", lambda: replace(_source(code), inlined=True, compiled=False))
    emit.attempt("source", "changed", lambda: _refuse_changed(code))


class CodeFields(TypedDict):
    """The fields that the record of each text of a code object has; see `Code`."""

    function: str
    qualname: str
    file: str
    line: int
    resume: bool


def code_fields(code: CodeType) -> CodeFields:
    """Return what every text of one frame says of its code object."""
    return {
        "function": code.co_name,
        "qualname": code.co_qualname,
        "file": code.co_filename,
        "line": code.co_firstlineno,
        "resume": is_resume(code),
    }


def _source(code: CodeType) -> SourceText:
    text, first, unseen = source_of(code, _original(code))
    return SourceText(**code_fields(code), text=text, first_line=first, unseen=unseen or None, compiled=True)


def _original(code: CodeType) -> CodeType | None:
    """The function that a resume function goes on with."""
    from torch._dynamo.resume_execution import ContinueExecutionCache

    known = ContinueExecutionCache.generated_code_metadata.get(code) if is_resume(code) else None
    return getattr(known, "code", None)


def _refuse_changed(code: CodeType) -> None:
    """Raise an error, which becomes a Failure, where the file of a code object has changed since it was compiled."""
    if source_of(code, _original(code))[2] == CHANGED:
        raise OSError(
            f"{Path(code.co_filename).name} has changed since {code.co_qualname} was compiled from it: its lines are shown by "
            "number only, and the code that torch quotes in graphs is the changed file's. Import it anew, and trace again"
        )


def emit_function(emit: Emit, code: CodeType, *, not_compiled: int | None = None) -> None:
    """Record the source and the original bytecode of one function; `not_compiled` numbers those that were not compiled."""
    compiled = not_compiled is None
    emit("source", lambda: replace(_source(code), compiled=compiled, not_compiled=not_compiled))
    emit.attempt("source", "changed", lambda: _refuse_changed(code))
    emit(
        "bytecode",
        lambda: BytecodeText(
            **code_fields(code),
            text=disassembly(code),
            names=code.co_names,
            compiled=compiled,
            not_compiled=not_compiled,
        ),
    )


def disassembly(code: CodeType) -> str:
    """The bytecode as `dis` prints it, line numbers included."""
    out = io.StringIO()
    dis.dis(code, file=out, depth=0)
    return out.getvalue().rstrip()


def emit_sources(emit: Emit, frame: str, graph: Any) -> None:
    """Record the source of each function on the stacks of a graph that Dynamo did not make in this recording."""
    nodes = (node for module in graph.modules() for node in getattr(getattr(module, "graph", None), "nodes", ()))
    stacks = dict.fromkeys(stack for node in nodes if (stack := node.meta.get("stack_trace")))
    emit_inlined_functions(emit, [(frame, without_modules(stack)) for stack in stacks], ())


def emit_inlined_functions(emit: Emit, stacks: list[tuple[str, str]], codes: Collection[CodeType]) -> None:
    """Record the source of each function on the stacks, once, with the first frame it was inlined into.

    `codes` are the code objects that were running when nodes were made. If the file of a code object has changed or does not
    exist, its function is shown by line numbers.
    """
    places: dict[tuple[str, int, str], str] = {}
    for frame, stack in stacks:
        for m in STACK_LINE.finditer(stack):
            places.setdefault((m["file"], int(m["line"]), m["function"]), frame)
    done: set[tuple[str, int]] = set()
    for (file, line, function), frame in places.items():
        first = definition_line(linecache.getlines(file), line, function)
        code = None if installed(file) else code_at(codes, file, line, function)
        if code is not None and not is_resume(code) and source_of(code)[2]:
            if (file, code.co_firstlineno) not in done:
                done.add((file, code.co_firstlineno))
                with emit.within(frame):
                    emit_inlined(emit, code)
        elif first and (file, first) not in done:
            done.add((file, first))
            with emit.within(frame):
                emit("source", partial(_source_at, file, first))


def definition_line(lines: list[str], line: int, function: str) -> int:
    """Find the `def` line of the function around a traceback line, counted from 1; 0 if there is none.

    The search goes by indentation, without parsing files of thousands of lines: it takes the last `def` of that name above
    the line that is indented less than all code after it. Comprehensions and lambdas belong to the function around them.
    """
    indent = None
    for number in range(min(line, len(lines)), 0, -1):
        text = lines[number - 1]
        if not text.strip() or text.lstrip().startswith(("#", ")", "]", "}")):
            continue
        width = len(text) - len(text.lstrip())
        found = _DEF.match(text)
        outer = number == line or indent is None or width < indent
        if found and outer and (function.startswith("<") or found["name"] == function):
            return number
        indent = width if indent is None else min(indent, width)
        if indent == 0 and not found and number != line and text[0] not in "@":
            return 0
    return 0


def qualified_name(lines: list[str], line: int) -> str:
    """The name of the function defined at a line, with the classes and functions it is defined in."""
    names, indent = [], 1 << 30
    for number in range(line, 0, -1):
        found = _DEF.match(lines[number - 1]) or _CLASS.match(lines[number - 1])
        if found and len(found["indent"]) < indent:
            indent = len(found["indent"])
            names.append(found["name"])
        if indent == 0:
            break
    return ".".join(reversed(names))


def _source_at(file: str, line: int) -> SourceText:
    """The source of the function that is defined at a line of a file."""
    lines, first = linecache.getlines(file), line
    while first > 1 and lines[first - 2].lstrip().startswith("@"):
        first -= 1
    text = textwrap.dedent("".join(inspect.getblock(lines[first - 1 :])))
    name = qualified_name(lines, line)
    return SourceText(
        function=name.rpartition(".")[2],
        qualname=name,
        file=file,
        line=line,
        resume=False,
        first_line=first,
        text=text,
        inlined=True,
        compiled=False,
    )
