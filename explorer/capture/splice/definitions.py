"""Define a kernel of a wrapper anew, with another source: by the very statement that defines it in the wrapper."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.errors import InputError
from explorer.model.syntax import parsed
from explorer.stages.inductor.helion import REMEDY, is_of_host

#: The functions of async_compile that are given a kernel's source, with the language of each.
LANGUAGES = {"triton": "triton", "cpp_pybinding": "cpp", "cpp": "cpp", "pallas": "pallas", "halide": "halide"}


@dataclass(frozen=True)
class Definition:
    """The statement with which a wrapper defines a kernel from its source; `name` is the kernel's name in the wrapper."""

    name: str
    statement: ast.Assign = field(repr=False)

    @property
    def call(self) -> ast.Call:
        """The call of async_compile."""
        assert isinstance(self.statement.value, ast.Call)
        return self.statement.value

    @property
    def language(self) -> str:
        """The kernel's language, "" if the kernel is not compiled from its source alone."""
        return LANGUAGES.get(ast.unparse(self.call.func).removeprefix("async_compile."), "")

    @property
    def source(self) -> str:
        """The kernel's source."""
        return str(self._source.value)

    @property
    def first_line(self) -> int:
        """The line of the wrapper's text on which the source's first line is."""
        return self._source.lineno

    @property
    def inner_name(self) -> str:
        """The name of a Triton kernel's function in its source; the kernel's own for others."""
        return name_in_source(self.call, self.name)

    def same_as(self, other: Definition) -> bool:
        """Whether both define the same kernel."""
        return ast.dump(self.call) == ast.dump(other.call)

    @property
    def _source(self) -> ast.Constant:
        source = self.call.args[_number_of_source(self.call)]
        assert isinstance(source, ast.Constant)
        return source


def definitions(text: str) -> dict[str, Definition]:
    """The definitions of a wrapper's kernels by the kernel's name; SyntaxError where the text is not Python."""
    statements = [s for s in parsed(text).body if isinstance(s, ast.Assign) and _is_definition(s.value)]
    return {ast.unparse(s.targets[0]): Definition(ast.unparse(s.targets[0]), s) for s in statements}


def definition_with(text: str, name: str, source: str | None = None) -> ast.expr:
    """Return the expression with which a wrapper's text defines a kernel, with `source` in it if one is given.

    Raises InputError if the wrapper defines no such kernel in Python.
    """
    definition = definitions(text).get(name)
    if definition is None:
        functions = (statement for statement in parsed(text).body if isinstance(statement, ast.FunctionDef))
        if any(function.name == name and is_of_host(function) for function in functions):
            raise InputError(f"{name} is a kernel of Helion's, which explorer cannot replace: {REMEDY}")
        raise InputError(f"the output code does not define {name!r} in Python, so explorer cannot replace it")
    expression = copy.deepcopy(definition.call)  # trees are shared
    if source is not None:
        expression.args[_number_of_source(expression)] = ast.Constant(f"\n{source.strip(chr(10))}\n")
    return expression


def name_in_source(definition: ast.expr, name: str) -> str:
    """The name of a Triton kernel's function in its source; `name` for other kernels."""
    assert isinstance(definition, ast.Call)
    texts = [argument.value for argument in definition.args if isinstance(argument, ast.Constant)]
    return str(texts[0]) if len(texts) > 1 else name


def _number_of_source(call: ast.Call) -> int:
    """Which argument is the source: the last text."""
    return max(n for n, argument in enumerate(call.args) if _is_text(argument))


def _is_definition(value: ast.expr) -> bool:
    """Tell whether an expression is a call of async_compile with a source."""
    return isinstance(value, ast.Call) and ast.unparse(value.func).startswith("async_compile.") and any(map(_is_text, value.args))


def _is_text(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant) and isinstance(argument.value, str)


def evaluated(definition: ast.expr, space: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Compile the kernel that a definition defines, among the names of a wrapper and with options of Inductor."""
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.runtime import hints

    compiling = AsyncCompile()
    code = compile(ast.fix_missing_locations(ast.Expression(definition)), "<definition>", "eval")
    with config.patch(dict(options)):
        # hints has the HalideMeta that the definition of a Halide kernel names
        names = {"kernel": eval(code, {**vars(hints), **space, "async_compile": compiling})}
        compiling.wait(names)
    return names["kernel"]
