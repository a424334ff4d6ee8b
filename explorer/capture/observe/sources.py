"""Read the source of code objects. Where the file is not what was compiled, each line says why it is not shown.

A file may have changed since it was imported, which is common beside a live kernel. Code of `exec`, `python -` or `-c` has no
file. The lines keep their numbers, by the code's own line table, so that links by line stay right.
"""

from __future__ import annotations

import inspect
import linecache
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType

from explorer.process.ignored_warnings import warnings_ignored_here

#: Why a text is not shown.
CHANGED, NONE_KEPT = "changed", "none"


def source_of(code: CodeType, original: CodeType | None = None) -> tuple[str, int, str]:
    """The source text of a code object, its first line, and why the text is not shown: "" where it is.

    A resume function has no `def` of its own: it is the lines of the `original` function that its bytecode covers.
    """
    if is_resume(code):
        why = source_of(original)[2] if original is not None and not is_resume(original) else ""
        return unseen(code, why) if why else _lines_of_file(code)
    try:
        block, first = inspect.getsourcelines(code)
    except (OSError, TypeError, IndexError, SyntaxError):  # no file, or one in which the function is no longer where it was
        known = bool(linecache.getlines(code.co_filename))
        return unseen(code, CHANGED if known else NONE_KEPT)
    if not agrees(code, block, first):
        return unseen(code, CHANGED)
    return textwrap.dedent("".join(block)), first, ""


def _lines_of_file(code: CodeType) -> tuple[str, int, str]:
    numbers = [n for _, _, n in code.co_lines() if n]
    first, last = min(numbers, default=code.co_firstlineno), max(numbers, default=code.co_firstlineno)
    every = linecache.getlines(code.co_filename)
    if len(every) < last:
        return unseen(code, CHANGED if every else NONE_KEPT)
    return textwrap.dedent("".join(every[first - 1 : last])), first, ""


def is_resume(code: CodeType) -> bool:
    """True for the functions Dynamo makes to go on after a graph break."""
    return code.co_name.startswith("torch_dynamo_resume_in_")


def line_numbers(code: CodeType) -> set[int]:
    """The lines of a code object, and of those inside it, by their line tables."""
    inside = (line_numbers(const) for const in code.co_consts if isinstance(const, CodeType))
    return {n for _, _, n in code.co_lines() if n}.union(*inside)


def unseen(code: CodeType, why: str) -> tuple[str, int, str]:
    """Return a text that says for each line number of the code why its source is not shown, the first line, and `why`."""
    file = Path(code.co_filename).name
    reason = {
        CHANGED: f"{file} has changed since this was compiled",
        NONE_KEPT: f"{file} is not a file, and Python kept no source of it",
    }[why]
    first = code.co_firstlineno if not is_resume(code) else min(line_numbers(code), default=code.co_firstlineno)
    last = max(line_numbers(code), default=first)
    return "".join(f"# line {n}: {reason}\n" for n in range(first, last + 1)), first, why


# Comparing ---------------------------------------------------------------------------------------------------------------


def agrees(code: CodeType, block: Sequence[str], first: int) -> bool:
    """Whether a file's lines from the `first` on are what a code object was compiled from, by positions, names and constants.

    The lines are compiled alone first, which is fast. If the result differs, the whole file is compiled: a method with
    `super()`, for example, compiles differently alone. A file that does not compile counts as agreeing.
    """
    text = "".join(block)
    indented = text[:1] in (" ", "\t")
    alone = f"if 1:\n{text}" if indented else text  # so that the columns stay
    if any(_alike(code, made, first - 1 - indented) for made in _compiled(alone, code.co_name) or ()):
        return True
    whole = _compiled("".join(linecache.getlines(code.co_filename)), code.co_name)
    return whole is None or any(_alike(code, made, 0) for made in whole)


def _compiled(text: str, name: str) -> list[CodeType] | None:
    """The code objects of a name in a text; None where it does not compile."""
    with warnings_ignored_here():  # such as SyntaxWarning, which the program's own compile has given
        try:
            module = compile(text, "<source>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return None
    return [made for made in _inside(module) if made.co_name == name]


def _inside(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _inside(const)


def _alike(code: CodeType, made: CodeType, shift: int) -> bool:
    """Tell whether two code objects are of one text. `code` may have more than `made`: a tool such as pytest adds to it."""
    if _positions(made, shift, columns=False) != _positions(code, 0, columns=False):
        return False
    rewritten = any(name.startswith("@py") for name in code.co_names)  # pytest's asserts
    return rewritten or (_words(made) <= _words(code) and _positions(made, shift) <= _positions(code, 0))


def _words(code: CodeType) -> set[str]:
    """The names and constants of a code object; a name counts the same as a local, a free variable or a cell."""
    names = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    private = {name[name.index("__") :] for name in names if name.startswith("_") and "__" in name}  # `__x` of a class
    return names | private | {repr(const) for const in code.co_consts if const is not None and not isinstance(const, CodeType)}


def _positions(code: CodeType, shift: int, *, columns: bool = True) -> set[tuple[int | None, ...]]:
    """Return the positions of a code object's instructions, nested code included, with their lines shifted."""
    found: set[tuple[int | None, ...]] = set()
    for line, end_line, column, end_column in code.co_positions():
        if line and (column is not None or not columns):
            found.add((line + shift, (end_line or line) + shift, column, end_column) if columns else (line + shift,))
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found |= _positions(const, shift, columns=columns)
    return found


def code_at(codes: Iterable[CodeType], file: str, line: int, function: str) -> CodeType | None:
    """The code object of a place in a traceback: the shortest one of that file and name that has the line."""
    fitting = [
        (len(numbers), code)
        for code in codes
        if code.co_filename == file and code.co_name == function and line in (numbers := line_numbers(code))
    ]
    return min(fitting, key=lambda pair: pair[0])[1] if fitting else None


def installed(file: str) -> bool:
    """Whether a file belongs to an installed package, which nobody edits under a running program."""
    return "site-packages" in file or "dist-packages" in file
