"""Define a kernel of a wrapper anew, with another source: by the very statement that defines it in the wrapper."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any

from explorer.absent.generated import Code, Kernel
from explorer.errors import InputError
from explorer.model.syntax import parsed
from explorer.splice.wrappers import LoadedWrapper, Wrapper


def kernel_from_source(wrapper: Wrapper, name: str, source: str) -> Any:
    """Compile a source to what can stand in the place of the kernel `name` in `wrapper`, with the original's options.

    The errors of the compiler that Inductor calls. InputError where the wrapper defines no such kernel.
    """
    if isinstance(wrapper, Code):
        return Kernel.of(name, source, wrapper.target, None)
    assert isinstance(wrapper, LoadedWrapper)
    return evaluated(definition_with(wrapper.text, name, source), vars(wrapper.module), wrapper.options)


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
