"""The `explore` magics of a notebook, after `%load_ext explorer`.

At the top of a cell, `%%explore` records every compile that the cell causes. `t = %explore f(x)` traces that call, as
`t = explorer.trace(f, x)` does.
"""

from __future__ import annotations

import ast
import re
from contextlib import ExitStack
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from explorer.model.syntax import parsed_expression
from explorer.tracing.recording.record import record
from explorer.tracing.recording.trace import trace
from explorer.tracing.traced import Trace

#: The options at the start of a line. The call follows them, and its text must not change.
_OPTIONS = re.compile(r"(?:\s*--[\w-]+(?:=|\s+)\S+)*\s*")
#: The name of the function that collects a call's arguments. It is no valid Python name, so it hides none of the user's.
_COLLECT = "<collect>"


def register(shell: Any) -> None:
    """Give an IPython shell the magics `%explore` and `%%explore`."""

    def explore(line: str, cell: str | None = None) -> Trace | None:
        __tracebackhide__ = True
        if cell is None:
            return traced_call(shell, line)
        recorded_cell(shell, line, cell)
        return None

    explore.__doc__ = arguments.__doc__
    shell.register_magic_function(no_var_expand(explore), "line_cell", "explore")


@magic_arguments("explore")  # type: ignore[untyped-decorator]
@argument("--target", default="auto", help="the target: a name that explorer.targets() lists")  # type: ignore[untyped-decorator]
@argument("--into", default="_trace", metavar="NAME", help="the variable that holds the trace (default: _trace)")  # type: ignore[untyped-decorator]
def arguments(line: str) -> tuple[str, str]:
    """Record what torch.compile does and show the trace.

    %%explore runs the cell under explorer.record; if the cell raises, the variable holds the trace up to that point.
    %explore f(x) returns explorer.trace(f, x).
    """
    parsed = parse_argstring(arguments, line)
    if not parsed.into.isidentifier():
        raise UsageError(f"--into takes the name of a variable, not {parsed.into!r}")
    return parsed.target, parsed.into


def recorded_cell(shell: Any, line: str, cell: str) -> None:
    """Run the cell in the user's namespace under `explorer.record`, keep the trace there, and display it."""
    from IPython.display import display

    __tracebackhide__ = True  # IPython leaves this frame out when it shows an error of the cell
    target, into = arguments(line)
    with ExitStack() as afterwards:
        with record(target, name=f"cell {shell.execution_count}", fresh=True) as recording:
            afterwards.callback(lambda: shell.user_ns.update({into: recording.trace}))
            run_cell(shell, cell)
    display(recording.trace)


def run_cell(shell: Any, cell: str) -> None:
    """Run a cell as IPython does: expand magics, keep its source for Dynamo, display its last expression."""
    __tracebackhide__ = True
    source = shell.transform_cell(cell)
    file = shell.compile.cache(source, shell.execution_count, raw_code=cell)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=file))
    shown = tree.body[-1:] if _ends_in_shown_expression(tree, cell) else []
    rest = ast.Module(tree.body[: len(tree.body) - len(shown)], tree.type_ignores)
    exec(shell.compile(rest, file, "exec"), shell.user_global_ns, shell.user_ns)
    exec(shell.compile(ast.Interactive(shown), file, "single"), shell.user_global_ns, shell.user_ns)


def _ends_in_shown_expression(tree: ast.Module, cell: str) -> bool:
    from IPython.core.displayhook import DisplayHook

    is_expression = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
    return is_expression and not DisplayHook.semicolon_at_end_of_expression(cell)


def traced_call(shell: Any, line: str) -> Trace:
    """Trace the call on the line, with names from the user's namespace."""
    __tracebackhide__ = True
    options = _OPTIONS.match(line)
    at = options.end() if options is not None else 0
    target, into = arguments(line[:at])
    function, args, kwargs = evaluated(line[at:].strip(), shell.user_ns)
    traced = trace(function, *args, kwargs=kwargs, target=target)
    shell.user_ns[into] = traced
    return traced


def evaluated(text: str, names: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Evaluate the function, arguments and keyword arguments of the call `text`, without the call.

    A function that only collects takes the place of the user's, so that Python itself reads every form of argument:
    `f(x, *more, scale=2, **options)`.
    """
    tree = parsed_expression(text, "<%explore>") if text else None
    if tree is None or not isinstance(tree.body, ast.Call):
        raise UsageError("%explore takes a call, such as: %explore f(x)")
    call = tree.body
    collect = ast.copy_location(ast.Name(_COLLECT, ast.Load()), call.func)
    call.func, call.args = collect, [call.func, *call.args]
    code = compile(tree, "<%explore>", "eval")
    collected: tuple[Any, tuple[Any, ...], dict[str, Any]] = eval(code, names, {_COLLECT: _collect})
    return collected


def _collect(function: Any, /, *args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    return function, args, kwargs
