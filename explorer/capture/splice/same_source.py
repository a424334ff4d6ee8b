"""Tell whether two texts of a kernel or wrapper are one program, which differs only in comments and blanks. Pure."""

from __future__ import annotations

import ast
import re

from explorer.capture.splice.kernels import KernelText
from explorer.capture.splice.wrapper_text import WrapperText
from explorer.model.syntax import UNREADABLE, parsed
from explorer.model.values import text_lines

#: A comment of C++, or a literal in which one may seem to begin.
_COMMENT = re.compile(
    r"""(?P<literal>R"(?P<end>[^()\\\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//(?:\\\n|[^\n])*|/\*.*?\*/""",
    re.DOTALL,
)


def same_program(one: KernelText | WrapperText, other: KernelText | WrapperText) -> bool:
    """Whether two sources say the same; False for forms below the source, and where only a compiler can tell."""
    if one.form or other.form:
        return False
    if one.source == other.source:
        return True
    language = one.language if isinstance(one, KernelText) else "python"
    if language == "cpp":
        return _without_comments(one.source) == _without_comments(other.source)
    if language not in ("python", "triton"):
        return False
    try:
        return ast.dump(parsed(one.source)) == ast.dump(parsed(other.source))
    except UNREADABLE:
        return False


def _without_comments(source: str) -> list[str]:
    """The lines of C++ that are not blank, without comments."""
    text = _COMMENT.sub(lambda found: found["literal"] or " ", source)
    return [line.strip() for line in text_lines(text) if line.strip()]


__all__ = ["same_program"]
