"""The conditions of torch's own code under which a call was reached, with the values that they had."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from explorer.capture.observe.places import in_package
from explorer.model.syntax import parsed, parsed_expression
from explorer.model.wording import cut
from explorer.stages.inductor.lowered import Decision

#: A value of a condition is written up to this many characters.
LONGEST = 80
#: The types of values that are written out, beside dtypes, devices, operators and sizes. Others, such as Inductor's IR, are not.
WRITTEN = (bool, int, float, str, type(None))


def decision(frame: FrameType) -> Decision:
    """Return a frame's current line, and the conditions that its code tested before that line.

    `conditions` are the tests of the `if` statements around the line, as the source writes them, "not (…)" for an else branch.
    `passed` are the tests of earlier `if` statements in the same blocks that would have returned or raised, and so were false.
    `tested` has the values of the names in `conditions`.
    """
    code = frame.f_code
    around, before = _tests(code, frame.f_lineno)
    names = dict.fromkeys(name for text in around for name in _names(text))
    return Decision(
        file=in_package(code.co_filename) or code.co_filename,
        line=frame.f_lineno,
        function=code.co_qualname,
        conditions=around,
        passed=before,
        tested=dict(_values(names, frame)),
    )


@lru_cache(maxsize=512)
def _tests(code: CodeType, line: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tests around a line of a function, and those before it that would have returned; nothing where there is no source."""
    tree = _tree(code)
    if tree is None:
        return (), ()
    around: list[str] = []
    before: list[str] = []
    for test, holds, inside in _on_the_way(tree.body, line):
        text = ast.unparse(test)
        if inside:
            around.append(text if holds else f"not ({text})")
        else:
            before.append(text)
    return tuple(around), tuple(before)


@lru_cache(maxsize=512)
def _tree(code: CodeType) -> ast.FunctionDef | None:
    """The syntax of a function, its lines as they are in the file."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = parsed(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):  # no file, or a lambda in the middle of an expression
        return None
    ast.increment_lineno(tree, first - 1)
    return tree.body[0] if tree.body and isinstance(tree.body[0], ast.FunctionDef) else None


def _on_the_way(body: Sequence[ast.stmt], line: int) -> Iterator[tuple[ast.expr, bool, bool]]:
    """Yield (test, its outcome, whether the line is inside its block) for each test on the way to a line."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            continue
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            for blocks, holds in _branches(statement):
                if any(one.lineno <= line <= (one.end_lineno or one.lineno) for one in blocks):
                    if isinstance(statement, ast.If):
                        yield statement.test, holds, True
                    yield from _on_the_way(blocks, line)
            return
        if isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], (ast.Return, ast.Raise)):
            yield statement.test, False, False


def _branches(statement: ast.stmt) -> Iterator[tuple[Sequence[ast.stmt], bool]]:
    """The blocks of a statement, and whether its test holds in them."""
    for part in ("body", "orelse", "finalbody"):
        yield getattr(statement, part, ()), part == "body"
    for handler in getattr(statement, "handlers", ()):
        yield handler.body, True


def _names(test: str) -> Iterator[str]:
    """The names in a condition, and the attributes of names such as `config.fallback_random`."""
    for node in ast.walk(parsed_expression(test)):
        if isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_path(node)):
            yield ast.unparse(node)


def _is_path(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _values(names: Iterable[str], frame: FrameType) -> Iterator[tuple[str, str]]:
    """The names of a condition that have a plain value in a frame: its variables, and the settings of modules."""
    for name in names:
        first, *rest = name.split(".")
        value: Any = frame.f_locals.get(first, frame.f_globals.get(first))
        for part in rest:
            value = getattr(value, part, None) if isinstance(value, types.ModuleType) else None
        if (first in frame.f_locals or rest) and (text := written(value, none=first in frame.f_locals and not rest)):
            yield name, text


def written(value: Any, *, none: bool = True) -> str:
    """A plain value as text: numbers, texts, dtypes, devices, sizes and lists of them; "" for anything else."""
    if value is None and not none:
        return ""
    kind = type(value)
    if isinstance(value, (list, tuple)):
        parts = [written(one) for one in value]
        text = f"[{', '.join(parts)}]" if all(parts) else ""
    elif isinstance(value, WRITTEN):
        text = repr(value)
    else:
        text = str(value) if kind.__module__.startswith("sympy") or kind.__name__ in ("dtype", "device", "OpOverload") else ""
    return cut(text, LONGEST)


def callers(frame: FrameType | None, until: Mapping[str, object] | Sequence[str]) -> Iterator[FrameType]:
    """Yield torch's frames from one outwards, up to and including the first of these functions."""
    while frame is not None:
        code = frame.f_code
        if in_package(code.co_filename).startswith("torch/"):
            yield frame
            if code.co_qualname in until:
                return
        frame = frame.f_back
