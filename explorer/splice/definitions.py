"""Define a kernel of a wrapper anew, with another source: by the very statement that defines it in the wrapper."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any

from explorer.errors import InputError
from explorer.model.syntax import parsed


def definition_with(text: str, name: str, source: str | None = None) -> ast.expr:
    """The expression by which a wrapper's text defines a kernel, with another source in it where one is given.

    InputError where the wrapper defines no such kernel in Python.
    """
    for statement in parsed(text).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name and _is_definition(statement.value):
            expression = copy.deepcopy(statement.value)  # trees are shared
            assert isinstance(expression, ast.Call)
            number = max(n for n, argument in enumerate(expression.args) if _is_text(argument))
            if source is not None:
                expression.args[number] = ast.Constant(f"\n{source.strip(chr(10))}\n")
            return expression
    raise InputError(f"the output code does not define {name!r} in Python, so that nothing else can be put in its place")


def name_in_source(definition: ast.expr, name: str) -> str:
    """The name of a Triton kernel's function in its source; `name` for other kernels."""
    assert isinstance(definition, ast.Call)
    texts = [argument.value for argument in definition.args if isinstance(argument, ast.Constant)]
    return str(texts[0]) if len(texts) > 1 else name


def _is_definition(value: ast.expr) -> bool:
    """Tell whether an expression is a call of async_compile with a source."""
    return isinstance(value, ast.Call) and ast.unparse(value.func).startswith("async_compile.") and any(map(_is_text, value.args))


def _is_text(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant) and isinstance(argument.value, str)


def evaluated(definition: ast.expr, space: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Compile the kernel that a definition defines, among the names of a wrapper and with options of Inductor."""
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile

    compiling = AsyncCompile()
    code = compile(ast.fix_missing_locations(ast.Expression(definition)), "<definition>", "eval")
    with config.patch(dict(options)):
        names = {"kernel": eval(code, {**space, "async_compile": compiling})}
        compiling.wait(names)
    return names["kernel"]
