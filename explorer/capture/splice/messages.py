"""Which line of an edited text a compiler's message is of. Pure."""

from __future__ import annotations

import re

from explorer.model.syntax import parsed
from explorer.model.values import text_lines

#: What explorer says of a Triton kernel's source with a syntax error.
NOT_PYTHON = "is not valid Python"
#: An error of g++, of clang or of MLIR, one of ptxas, and a sentence of explorer's, each with its line.
_COMPILER = re.compile(r":(\d+):\d+\)?: (?:fatal )?error: (.*)")
_PTXAS = re.compile(r"line (\d+); (?:fatal|error)\s*: (.*)")
_SENTENCE = re.compile(r"\bline (\d+): ")
#: The line that g++ quotes below its message.
_QUOTED = re.compile(r"^\s*\d+ \| (.*)$", re.MULTILINE)
#: The lines of a message without a known form that are kept.
MAX_LINES = 20


def syntax_error(text: str) -> tuple[int, str] | None:
    """The line and the message of what keeps a text from being Python, 0 for no line; None where it is Python."""
    try:
        parsed(text)
    except SyntaxError as error:
        return error.lineno or 0, f"SyntaxError: {error.msg}"
    except ValueError as error:
        return 0, f"ValueError: {error}"
    return None


def located(message: str, text: str) -> tuple[int, str]:
    """The line of `text` that a message is of, 0 where it names none, and the first error in it, else its first lines."""
    lines = text_lines(text)
    for form in (_PTXAS, _COMPILER):
        if error := form.search(message):
            quoted = _QUOTED.search(message, error.end()) if form is _COMPILER else None
            return _in_text(_as_quoted(int(error[1]), quoted[1] if quoted else "", lines), lines), error[2].strip()
    sentence = _SENTENCE.search(message)
    line = _in_text(int(sentence[1]) if sentence else 0, lines)
    # the kernel's long name would stand before what is wrong
    return line, _first_lines(message[sentence.end() :] if sentence and line else message)


def _as_quoted(number: int, quoted: str, lines: list[str]) -> int:
    """The line that a compiler quotes: its file has lines of Inductor's above the text's."""
    if not quoted.strip():
        return number
    same = [n for n, line in enumerate(lines, 1) if line.strip() == quoted.strip()]
    return min(same, key=lambda n: abs(n - number)) if same else 0


def _in_text(number: int, lines: list[str]) -> int:
    """A line's number; 0 for one of another file, which is longer."""
    return number if number <= len(lines) else 0


def _first_lines(message: str) -> str:
    return "\n".join([line for line in text_lines(message.strip()) if line.strip()][:MAX_LINES])
