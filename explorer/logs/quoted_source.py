"""The program's source, as far as a log quotes it: lines in stacks and in the comments of graphs.

A file that is still there and has all lines that the log quotes of it gives the functions whole; otherwise the quoted lines stand
alone, each in its place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

from explorer.model.events import SourceText
from explorer.model.rows import Place
from explorer.model.syntax import parsed
from explorer.model.values import Event, text_lines

_PLACE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>\S+)\n    (?P<code>.*)')
_RESUME = re.compile(r"^torch_dynamo_resume_in_(?P<name>.+)_at_\d+$")
#: Why a text is not the whole function: the log quotes only these lines of it.
QUOTED = "quoted"


class _Function(NamedTuple):
    """A function of a frame: the frame, its file, its name, and whether it was inlined."""

    frame: str
    file: str
    name: str
    inlined: bool


class QuotedSources:
    """Collects what a log quotes of the program."""

    def __init__(self) -> None:
        self._code: dict[str, dict[int, str]] = {}
        self._lines: dict[_Function, set[int]] = {}
        self._files: dict[str, list[str] | None] = {}

    def quote(self, file: str, line: int, code: str) -> None:
        """Note a line of a file."""
        if file and code.strip():
            self._code.setdefault(file, {}).setdefault(line, code.strip())

    def quote_stacks(self, frame: str, stacks: Iterable[str]) -> None:
        """Note the places that the nodes of a graph state."""
        for place in (place for stack in stacks if (place := _PLACE.search(stack))):
            file, line, name = place["file"], int(place["line"]), place["function"]
            self.quote(file, line, place["code"])
            own = next((f for f in self._lines if not f.inlined and (f.frame, f.file, f.name) == (frame, file, name)), None)
            self._lines.setdefault(own or _Function(frame, file, name, inlined=True), set()).add(line)

    def compiled(self, frame: str, place: Place) -> None:
        """Note the function of a frame, and the line on which it begins."""
        self._lines.setdefault(_Function(frame, place.file, place.function, inlined=False), set()).add(place.line)

    def events(self) -> Iterator[Event]:
        """A source for each function that the log names."""
        for function, lines in self._lines.items():
            text, first, whole = self._text(function, lines)
            resume = _RESUME.match(function.name) is not None
            source = SourceText(
                function=function.name,
                qualname=function.name,
                file=function.file,
                line=first,
                resume=resume,
                text=text,
                first_line=first,
                compiled=True,
                inlined=function.inlined or None,
                unseen=None if whole else QUOTED,
            )
            yield Event("source", 0.0, function.frame, "", source)

    def _text(self, function: _Function, lines: set[int]) -> tuple[str, int, bool]:
        """The text of a function, its first line, and whether it is the function's own text."""
        content = self._content(function.file)
        first, last = min(lines), max(lines)
        if content is not None and last <= len(content):
            resume = _RESUME.match(function.name)
            first, last = _extent(content, resume["name"] if resume else function.name, first, last, whole=resume is None)
            return dedent("".join(content[first - 1 : last])), first, True
        quoted = self._code.get(function.file, {})
        numbers = range(first, last + 1)
        text = "".join(f"{quoted[n]}\n" if n in quoted else f"# line {n}: the log does not quote it\n" for n in numbers)
        return text, first, False

    def _content(self, file: str) -> list[str] | None:
        """The lines of a file that is still as the log quotes it; None for another."""
        if file not in self._files:
            self._files[file] = self._read(file)
        return self._files[file]

    def _read(self, file: str) -> list[str] | None:
        quoted = self._code.get(file, {})
        with suppress(OSError, ValueError):
            lines = text_lines(Path(file).read_text(encoding="utf-8"), ends=True)
            if quoted and all(n <= len(lines) and lines[n - 1].strip() == code for n, code in quoted.items()):
                return lines
        return None


def _extent(content: list[str], name: str, first: int, last: int, *, whole: bool) -> tuple[int, int]:
    """The first and last line of the innermost function of a name around some lines; these lines where there is none."""
    try:
        tree = parsed("".join(content))
    except (SyntaxError, ValueError):
        return first, last
    functions = (n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))
    holding = [
        (begin, int(f.end_lineno or f.lineno))
        for f in functions
        if getattr(f, "name", "<lambda>") == name
        and (begin := min([f.lineno, *(d.lineno for d in getattr(f, "decorator_list", ()))])) <= first
        and last <= int(f.end_lineno or f.lineno)
    ]
    if not holding:
        return first, last
    begin, end = max(holding)
    return (begin if whole else first), end
