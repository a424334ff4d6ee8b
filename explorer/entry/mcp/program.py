"""Trace a call that is given as text: the program that defines the function, and the call of it."""

from __future__ import annotations

import ast
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from explorer.errors import ExplorerError, InputError
from explorer.model.syntax import parsed_expression
from explorer.model.values import text_lines
from explorer.process import regular_files
from explorer.tracing.traced.trace import Trace

#: The lines of a traceback that an error quotes.
LAST_LINES = 12
#: The longest program.
MAX_BYTES = 10_000_000


def traced(path: str, call: str, **settings: Any) -> Trace:
    """Import a program from its file and trace a call of it, such as "model(x)", with arguments of `explorer.trace`."""
    from explorer.tracing.recording.trace import trace

    space = vars(_imported(Path(path)))
    function, args, kwargs = _given(call, space)
    try:
        return trace(function, *args, kwargs=kwargs, **settings)
    except ExplorerError:
        raise
    except Exception as error:
        raise InputError(f"the call raised an error:\n{_tail(error)}") from error


def _imported(path: Path) -> ModuleType:
    """The program as a module; what it does when it is a script of its own is not run."""
    try:
        code = compile(regular_files.read_text(path, MAX_BYTES), str(path), "exec")
    except SyntaxError as error:  # the line is not quoted: the file may be any
        raise InputError(f"{path.name} is not a Python program: {error.msg} at line {error.lineno}") from None
    except ValueError:
        raise InputError(f"{path.name} is not a Python program: it is not text in UTF-8") from None
    module = ModuleType("program")
    module.__file__ = str(path)
    sys.modules["program"], sys.argv = module, [str(path)]
    sys.path.insert(0, str(path.parent))
    try:
        exec(code, vars(module))
    except (Exception, SystemExit) as error:
        raise InputError(f"the program raised an error when it was imported:\n{_tail(error)}") from error
    return module


def _given(call: str, space: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The function and the arguments of a call."""
    try:
        parsed = parsed_expression(call.strip()).body
    except SyntaxError as error:
        raise InputError(f"{call!r} is not a call in Python: {error.msg}; give one such as 'fn(x, y)'") from None
    if not isinstance(parsed, ast.Call):
        raise InputError(f"{call!r} is not a call; give one such as 'fn(x, y)', of names that the program defines")
    asked = ast.Call(ast.Name("explorer_given", ast.Load()), [parsed.func, *parsed.args], parsed.keywords)
    code = compile(ast.fix_missing_locations(ast.Expression(asked)), "<call>", "eval")
    try:
        return eval(code, {**space, "explorer_given": lambda f, *args, **kwargs: (f, args, kwargs)})  # type: ignore[no-any-return]
    except Exception as error:
        raise InputError(f"{call!r} cannot be called:\n{_tail(error)}") from error


def _tail(error: BaseException) -> str:
    lines = text_lines("".join(traceback.format_exception(error)).rstrip())
    return "\n".join(lines[-LAST_LINES:])


__all__ = ["traced"]
