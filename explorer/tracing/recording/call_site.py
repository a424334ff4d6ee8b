"""Read how `trace` was called in the program's own source, for an error that shows the call that was meant."""

from __future__ import annotations

import ast
import linecache
from itertools import islice
from types import FrameType

from explorer.model.syntax import UNREADABLE, parsed_expression


def call_under_way(frame: FrameType) -> ast.Call | None:
    """The call that a frame is making, as its source has it; None where Python cannot tell or the source is not there."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    first, last, begin, end = positions
    if first is None or last is None or begin is None or end is None:
        return None
    lines = [linecache.getline(frame.f_code.co_filename, number, frame.f_globals).encode() for number in range(first, last + 1)]
    if not all(lines):
        return None
    lines[-1] = lines[-1][:end]  # first, since both may cut the same line
    lines[0] = lines[0][begin:]
    try:
        call = parsed_expression(b"".join(lines).decode().strip()).body
    except UNREADABLE:
        return None
    return call if isinstance(call, ast.Call) else None


def with_inner_call_opened(call: ast.Call | None) -> tuple[str, str]:
    """Write the inner call of `trace(f(x))`, and `trace(f, x)`; "" for both where the first argument is no call.

    A call with constants alone makes an input, so the function is missing: `trace(torch.randn(4))` is `trace(f, torch.randn(4))`.
    """
    if call is None or not call.args or not isinstance(inner := call.args[0], ast.Call):
        return "", ""
    given = [*inner.args, *(word.value for word in inner.keywords)]
    if given and all(isinstance(value, ast.Constant) for value in given):
        return ast.unparse(inner), ast.unparse(ast.Call(call.func, [ast.Name("f"), *call.args], call.keywords))
    keywords = [*call.keywords]
    if inner.keywords:
        keys: list[ast.expr | None] = [None if word.arg is None else ast.Constant(word.arg) for word in inner.keywords]
        keywords.append(ast.keyword("kwargs", ast.Dict(keys, [word.value for word in inner.keywords])))
    return ast.unparse(inner), ast.unparse(ast.Call(call.func, [inner.func, *inner.args, *call.args[1:]], keywords))


def with_arguments_apart(call: ast.Call | None) -> str:
    """Write `trace(f, x, y)` for `trace(f, (x, y))`, and `trace(f, *inputs)` for `trace(f, inputs)`; "" for other calls."""
    if call is None or len(call.args) != 2:
        return ""
    function, given = call.args
    if isinstance(given, ast.Starred):
        return ""
    apart: list[ast.expr] = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [ast.Starred(given)]
    return ast.unparse(ast.Call(call.func, [function, *apart], call.keywords))
