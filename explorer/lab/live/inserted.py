"""Run the program with a statement more before one of its lines, for as long as a block lasts."""

from __future__ import annotations

import ast
import builtins
import gc
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType

from explorer.errors import LiveError
from explorer.model.syntax import parsed, parsed_expression

#: How Dynamo names the functions that it makes for what is after a graph break; they have the lines of the user's function.
RESUMES = "torch_dynamo_resume_in_"


@contextmanager
def inserted(file: str, line: int, statement: str) -> Iterator[None]:
    """Give the functions that have a line of a file the code with a statement before it; afterwards they have their own again.

    All line numbers stay as they are. LiveError where the function or its source is not found, or does not know the statement's
    names.
    """
    functions = _functions_with(file, line)
    if not functions:
        raise LiveError(f"no function of this process has the line {file}:{line}")
    originals = [(function, function.__code__) for function in functions]
    changed = {code: _with_statement(function, line, statement) for function, code in originals}
    try:
        for function, code in originals:
            function.__code__ = changed[code]
        yield
    finally:
        for function, code in originals:
            function.__code__ = code


def _functions_with(file: str, line: int) -> list[FunctionType]:
    """The functions whose own code has the line: of nested ones the innermost."""
    # by type, not isinstance: a weak proxy whose object is gone raises when it is asked for its class
    functions = [f for f in gc.get_objects() if type(f) is FunctionType and f.__code__.co_filename == file]
    around = [f for f in functions if _spans(f, line) and not f.__code__.co_name.startswith(RESUMES)]
    first = max((function.__code__.co_firstlineno for function in around), default=0)
    return [function for function in around if function.__code__.co_firstlineno == first]


def _spans(function: FunctionType, line: int) -> bool:
    return any(at == line for _, _, at in function.__code__.co_lines())


def _with_statement(function: FunctionType, line: int, statement: str) -> CodeType:
    """Compile a function's source again with the statement before the innermost statement that has the line."""
    code = function.__code__
    names = {node.id for node in ast.walk(parsed_expression(statement)) if isinstance(node, ast.Name)}
    known = {*code.co_varnames, *code.co_cellvars, *code.co_freevars, *function.__globals__, *dir(builtins)}
    if unknown := names - known:
        raise LiveError(f"{function.__name__} does not know the name {min(unknown)}")
    try:
        lines, first = inspect.getsourcelines(code)
        tree = parsed(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise LiveError(f"the source of {function.__name__} cannot be read: {error}") from error
    ast.increment_lineno(tree, first - 1)
    definition = tree.body[0]
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise LiveError(f"{function.__name__} is not a function that is defined with def")
    definition.decorator_list = []
    block = _block_of(definition.body, line)
    if block is None:
        raise LiveError(f"line {line} is no statement of {function.__name__}")
    statements, at = block
    added = ast.copy_location(ast.Expr(parsed_expression(statement).body), statements[at])
    for node in ast.walk(added):
        ast.copy_location(node, statements[at])
    statements.insert(at, added)
    return _code_of(definition, code)


def _block_of(statements: list[ast.stmt], line: int) -> tuple[list[ast.stmt], int] | None:
    """The list with the statement that begins at a line, or else the innermost one that goes over it, and its place there."""
    for at, statement in enumerate(statements):
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            if statement.lineno == line:  # of `if n > 3: return x` the whole
                return statements, at
            blocks = [getattr(statement, part, []) for part in ("body", "orelse", "finalbody")]
            blocks += [handler.body for handler in getattr(statement, "handlers", ())]
            blocks += [case.body for case in getattr(statement, "cases", ())]
            inner = (_block_of(block, line) for block in blocks if isinstance(block, list))
            return next(filter(None, inner), (statements, at))
    return None


def _code_of(definition: ast.FunctionDef | ast.AsyncFunctionDef, code: CodeType) -> CodeType:
    """Compile a definition inside a function that has what it closes over: a function takes no code with other free variables."""
    held: Sequence[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in code.co_freevars]
    around = parsed("def around():\n    pass").body[0]
    assert isinstance(around, ast.FunctionDef)
    around.body = [*held, definition]
    module = compile(ast.fix_missing_locations(ast.Module([around], [])), code.co_filename, "exec")
    (outer,) = (const for const in module.co_consts if isinstance(const, CodeType))
    codes = (const for const in outer.co_consts if isinstance(const, CodeType))
    made = next((one for one in codes if one.co_name == code.co_name), None)
    if made is None or made.co_freevars != code.co_freevars:
        raise LiveError(f"{code.co_name} has other variables of the functions around it with the statement")
    return made.replace(co_qualname=code.co_qualname)


__all__ = ["inserted"]
