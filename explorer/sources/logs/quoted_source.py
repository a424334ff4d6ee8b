"""The program's source, as far as a log quotes it: lines in stacks and in the comments of graphs.

A file that is still there, and in which all lines that the log quotes stand where they stood, gives the functions whole, as the
file is today; otherwise the quoted lines stand alone, each in its place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from textwrap import dedent
from typing import NamedTuple

from explorer.model.shared import Place
from explorer.model.syntax import parsed
from explorer.model.values import Event, text_lines
from explorer.process import regular_files
from explorer.stages.dynamo.source import SourceText

_PLACE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>\S+)\n    (?P<code>.*)')
_RESUME = re.compile(r"^torch_dynamo_resume_in_(?P<name>.+)_at_\d+$")
#: Why a text is not the whole function: the log quotes only these lines of it.
QUOTED = "quoted"
#: What is said of a whole function: its file may have changed in lines that the log does not quote.
TODAY = "today"
#: The longest file that is looked at, in bytes, and the most lines between two that are shown in one text.
LONGEST, GAP = 10_000_000, 100


class _Function(NamedTuple):
    """A function of a frame: the frame, its file, its name, and whether it was inlined."""

    frame: str
    file: str
    name: str
    inlined: bool


class _Text(NamedTuple):
    """A text, its first line in the file, and whether it is the function's whole text or quoted lines."""

    text: str
    first: int
    whole: bool


class QuotedSources:
    """Collects what a log quotes of the program."""

    def __init__(self) -> None:
        self._code: dict[str, dict[int, str]] = {}
        self._lines: dict[_Function, set[int]] = {}
        self._files: dict[str, list[str] | None] = {}
        self._begins: dict[_Function, int] = {}  # of the frames' own functions

    def quote(self, file: str, line: int, code: str) -> None:
        """Note a line of a file."""
        if file and code.strip():
            self._code.setdefault(file, {}).setdefault(line, code.strip())

    def quote_stacks(self, frame: str, stacks: Iterable[str]) -> None:
        """Note the places that the nodes of a graph state."""
        for place in (place for stack in stacks if (place := _PLACE.search(stack))):
            file, line, name = place["file"], int(place["line"]), place["function"]
            self.quote(file, line, place["code"])
            own = _Function(frame, file, name, inlined=False)
            function = own if own in self._lines else _Function(frame, file, name, inlined=True)
            self._lines.setdefault(function, set()).add(line)

    def compiled(self, frame: str, place: Place) -> None:
        """Note the function of a frame, and the line on which it begins."""
        function = _Function(frame, place.file, place.function, inlined=False)
        self._begins.setdefault(function, place.line)
        self._lines.setdefault(function, set()).add(place.line)

    def events(self) -> Iterator[Event]:
        """A source for each function that the log names."""
        for function, lines in self._lines.items():
            for number, part in enumerate(self._parts(function, lines)):
                source = SourceText(
                    function=function.name,
                    qualname=function.name,
                    file=function.file,
                    line=part.first,
                    resume=_RESUME.match(function.name) is not None,
                    text=part.text,
                    first_line=part.first,
                    compiled=True,
                    inlined=True if function.inlined or number else None,
                    unseen=TODAY if part.whole else QUOTED,
                )
                yield Event("source", 0.0, function.frame, "", source)

    def _parts(self, function: _Function, lines: set[int]) -> Iterator[_Text]:
        """The texts of the functions of a name in a file, such as the forwards of several classes; the one of the frame first."""
        content = self._content(function.file)
        if content is None or max(lines) > len(content):
            quoted = self._code.get(function.file, {})
            for near in _near(sorted(lines)):
                numbers = range(near[0], near[-1] + 1)
                text = "".join(f"{quoted[n]}\n" if n in quoted else f"# line {n}: the log does not quote it\n" for n in numbers)
                yield _Text(text, near[0], whole=False)
            return
        resume = _RESUME.match(function.name)
        extents = _extents(content, resume["name"] if resume else function.name)
        around: dict[tuple[int, int], list[int]] = {}
        for line in (self._begins.get(function, min(lines)), *sorted(lines)):
            holding = [extent for extent in extents if extent[0] <= line <= extent[1]]
            around.setdefault(max(holding) if holding else (min(lines), max(lines)), []).append(line)
        for (begin, end), inside in around.items():
            first = min(inside) if resume else begin
            yield _Text(dedent("".join(content[first - 1 : end])), first, whole=True)

    def _content(self, file: str) -> list[str] | None:
        """The lines of a file that is still as the log quotes it; None for another."""
        if file not in self._files:
            self._files[file] = self._read(file)
        return self._files[file]

    def _read(self, file: str) -> list[str] | None:
        quoted = self._code.get(file, {})
        with suppress(OSError, ValueError):
            lines = text_lines(regular_files.read_text(file, LONGEST), ends=True)
            if quoted and all(1 <= n <= len(lines) and lines[n - 1].strip() == code for n, code in quoted.items()):
                return lines
        return None


def _near(lines: Sequence[int]) -> Iterator[list[int]]:
    """The runs of lines that stand near each other."""
    run: list[int] = []
    for line in lines:
        if run and line - run[-1] > GAP:
            yield run
            run = []
        run.append(line)
    yield run


def _extents(content: list[str], name: str) -> list[tuple[int, int]]:
    """The first and last line, decorators included, of each function of a name; none in a file that is no Python."""
    try:
        tree = parsed("".join(content))
    except (SyntaxError, ValueError):
        return []
    functions = (n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))
    return [
        (min([f.lineno, *(d.lineno for d in getattr(f, "decorator_list", ()))]), int(f.end_lineno or f.lineno))
        for f in functions
        if getattr(f, "name", "<lambda>") == name
    ]
