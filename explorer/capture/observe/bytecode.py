"""Observe the bytecode of each frame before and after Dynamo, and Dynamo's decompiled to Python."""

from __future__ import annotations

import dis
import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import CodeType

from explorer.capture.observe.functions import CodeFields, code_fields, disassembly, emit_function
from explorer.capture.observe.patch import guarded, replaced_in_plain_sight
from explorer.model.stage import Emit
from explorer.model.values import text_lines
from explorer.process.ignored_warnings import warnings_ignored_here
from explorer.stages.dynamo.decompiled import DecompiledText
from explorer.stages.dynamo.dynamo_bytecode import DynamoBytecodeText

#: The instruction in depyf's error: Instruction(opname='SWAP', …) or its print.
_INSTRUCTION = re.compile(r"(?:opname=')?\b(?P<name>[A-Z][A-Z_]{2,})\b")


@contextmanager
def bytecode(emit: Emit) -> Iterator[None]:
    """Record the source, the bytecode before and after Dynamo, and the decompilation of each frame.

    Resume functions that were made but have not run are recorded at the end, as frames not compiled yet.
    """
    from torch._dynamo.convert_frame import register_bytecode_hook

    seen: list[CodeType] = []

    def hook(code: CodeType, transformed: CodeType) -> None:
        seen.append(code)
        emit_function(emit, code)
        emit_transformed(emit, transformed, code)

    handle = register_bytecode_hook(guarded(lambda code, transformed: None, lambda _: hook, "bytecode hook"))
    try:
        yield
        for number, code in enumerate(_resumes_not_run(seen)):
            emit_function(emit, code, not_compiled=number)
    finally:
        handle.remove()


def emit_transformed(emit: Emit, transformed: CodeType, code: CodeType) -> None:
    """Record the bytecode that Dynamo made of a function, and its decompilation where depyf is installed."""
    emit("dynamo_bytecode", lambda: _transformed(transformed, code))
    if depyf_installed():
        emit("decompiled", lambda: decompiling(transformed, code))


def _transformed(transformed: CodeType, code: CodeType) -> DynamoBytecodeText:
    """Dynamo's bytecode, and which of its instructions are the user's own."""
    text = disassembly(transformed)
    copied = copied_lines(text, transformed, code)
    return DynamoBytecodeText(**code_fields(code), text=text, names=transformed.co_names, copied=copied)


def copied_lines(text: str, transformed: CodeType, code: CodeType) -> tuple[tuple[int, int], ...] | None:
    """The lines of a disassembly that Dynamo copied from the user's function, each with its line in the user's file.

    A copied instruction keeps its positions, columns included. One that Dynamo makes has no columns, and the line table gives it
    the line of the instruction before. None where `dis` does not print one line for each instruction.
    """
    lines = [n for n, line in enumerate(text_lines(text.partition("\nExceptionTable:")[0]), 1) if line.strip()]
    instructions = list(dis.get_instructions(transformed))
    if len(lines) != len(instructions):
        return None
    users = {_position(instruction) for instruction in dis.get_instructions(code)}
    copied: list[tuple[int, int]] = []
    prefixes: list[int] = []
    for number, instruction in zip(lines, instructions, strict=True):
        if instruction.opname == "EXTENDED_ARG":  # the upper bits of the next instruction's argument
            prefixes.append(number)
            continue
        place = instruction.positions
        if place is not None and place.lineno and place.col_offset is not None and _position(instruction) in users:
            copied += [(n, place.lineno) for n in (*prefixes, number)]
        prefixes.clear()
    return tuple(copied)


def _position(instruction: dis.Instruction) -> tuple[str, dis.Positions | None]:
    """Return what an instruction and Dynamo's copy share: its place, and its name without the direction of a jump."""
    return re.sub("_(FORWARD|BACKWARD)", "", instruction.opname), instruction.positions


def decompiling(code: CodeType, original: CodeType) -> Callable[[], DecompiledText]:
    """Decompile a frame when the trace is first read, outside the compile: depyf takes 1 % of its time.

    Dynamo frees a frame's compiled code once the original code object is gone, so this holds a copy of the bytecode.
    """
    return partial(decompiled_text, code.replace(), code_fields(original), linecache.getlines(code.co_filename))


def decompiled_text(code: CodeType, fields: CodeFields, lines: Sequence[str]) -> DecompiledText:
    """Dynamo's bytecode of a frame as Python, or the bytecode under its source lines where depyf cannot turn it into Python.

    `fields` describe the code that Dynamo compiled, and `lines` are the lines of its file. depyf would keep each decompiled
    code object for as long as the process lives; its cache is bypassed here.
    """
    # depyf leaves a file open while it is imported, and uses ast.Num, which Python 3.12 calls deprecated
    with warnings_ignored_here():
        from depyf import decompile
        from depyf.decompiler import DecompilationError, Decompiler

    with warnings_ignored_here(), replaced_in_plain_sight(Decompiler, "decompile", inspect.unwrap):
        try:
            return DecompiledText(**fields, text=decompile(code))
        except DecompilationError as error:
            return DecompiledText(**fields, text=with_source_lines(code, lines), undone=undone_by(error))


def undone_by(error: BaseException) -> str:
    """Name the instruction that depyf cannot decompile, such as "SWAP"; "" where depyf does not say."""
    named = _INSTRUCTION.search(str(error))
    return named["name"] if named else ""


def with_source_lines(code: CodeType, lines: Sequence[str]) -> str:
    """The bytecode, with each line of its file before the instructions that were copied from it."""
    parts = list[str]()
    started = {offset: line for offset, _, line in code.co_lines() if line}
    shown = None
    for instruction in dis.get_instructions(code):
        line = started.get(instruction.offset)
        place = instruction.positions
        copied = place is not None and place.col_offset is not None
        if line and copied and line != shown and line <= len(lines):
            shown = line
            parts.append(f"# {line}: {lines[line - 1].strip()}")
        parts.append(f"    {instruction.opname:<24} {instruction.argrepr}".rstrip())
    return "\n".join(parts)


def depyf_installed() -> bool:
    """True where the optional decompiler is installed; does not import it."""
    import importlib.util

    return importlib.util.find_spec("depyf") is not None


def _resumes_not_run(compiled: list[CodeType]) -> list[CodeType]:
    """The resume functions made for the compiled functions that have not been compiled themselves."""
    from torch._dynamo.resume_execution import ContinueExecutionCache

    cache = ContinueExecutionCache.cache
    made = [resume for code in compiled if code in cache for resume in cache[code].values()]
    return [code for code in dict.fromkeys(made) if not any(code is c for c in compiled)]
