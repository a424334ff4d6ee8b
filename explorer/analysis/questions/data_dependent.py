"""Conditions on a number that only the data knows, where a compile stopped: in the program's words, with checks to try. Pure.

torch names such a number u0. Its message has the condition and the user's line, and Dynamo's symbols say which line made it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from explorer.model.syntax import parsed, parsed_expression
from explorer.stages.dynamo.symbol import Symbol
from explorer.stages.fx_graph import places_of, short

#: The function that tells torch.compile that a condition holds, and raises where it does not.
CHECK = "torch._check"
#: How torch words it, in all versions: symbolic_shapes.py, `_make_data_dependent_error`.
_SAID = re.compile(
    r"Could not (?:guard on|extract specialized integer from) data-dependent expression (?P<expression>.+?) \(unhinted: "
)
_USER_STACK = "User Stack (most recent call last):"
_USER_CODE = re.compile(r"^from user code:$", re.MULTILINE)
_SIZE = re.compile(r"L\['(?P<name>\w+)'\]\.size\(\)\[(?P<dim>\d+)\]$")
_SYMBOL = re.compile(r"\b[a-z]+\d+\b")
#: The functions of sympy that the conditions are written with, by the operator of Python.
_COMPARED: Mapping[str, type[ast.cmpop]] = {
    "Eq": ast.Eq,
    "Ne": ast.NotEq,
    "Lt": ast.Lt,
    "Le": ast.LtE,
    "Gt": ast.Gt,
    "Ge": ast.GtE,
}
_COMPUTED: Mapping[str, type[ast.operator]] = {
    "FloorDiv": ast.FloorDiv, "CleanDiv": ast.FloorDiv, "Mod": ast.Mod, "PythonMod": ast.Mod,
}  # fmt: skip
_OPPOSITE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
#: The operators whose result has as many rows as the data says.
_SIZED = ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive")
#: What to do where torch needs a number itself, and where the program has no name for one.
NUMBER = "torch needs the number itself, as the rounds of a loop: pass it as an int, or compute with a mask over a fixed size"
NAMELESS = "assign it to a variable on a line of its own, as in n = x.item(), and trace again"


@dataclass(frozen=True)
class DataDependent:
    """A condition that only the data decides, and the user's line that asks for it.

    `expression` is torch's, `written` the same in the program's names.
    `numbers` has a sentence for each number in it. `checks` are the statements that state the condition or its opposite, to stand
    before the line; () where a number has no name, or torch needs the number itself.
    """

    expression: str
    written: str
    file: str
    line: int
    code: str
    numbers: tuple[str, ...]
    checks: tuple[str, ...]

    @property
    def remedy(self) -> str:
        """Say what to do, before any check was tried."""
        if self.checks:
            return f"t.advise(prove=True) tries {' and '.join(self.checks)} before line {self.line}; not tried yet"
        if _SYMBOL.fullmatch(self.expression):
            return NUMBER
        return f"no {CHECK} can be written before the line, because a number in it has no name there: {NAMELESS}"

    @property
    def sentence(self) -> str:
        """Say what torch cannot decide, where, and where its numbers are from."""
        where = "; ".join(self.numbers)
        asked = f"{short(self.file)}:{self.line}, `{self.code}`, asks for {self.written}"
        return f"{asked}, which depends on the data: torch.compile does not know it" + (f" ({where})" if where else "")


def data_dependent(text: str, symbols: Sequence[Symbol]) -> DataDependent | None:
    """Read the condition in torch's message; None where it has none. `symbols` are those of the frame."""
    said = _SAID.search(text)
    if said is None:
        return None
    places = places_of(text[said.end() :].partition(_USER_STACK)[2].partition("\n\n")[0])
    if not places and (own := _USER_CODE.search(text)):
        places = places_of(text[own.end() :])
    if not places:
        return None
    place, expression = places[-1], said["expression"]
    known = {row.symbol: row for row in symbols if row.what == "created" and row.symbol}
    used = [known[name] for name in condition_symbols(text) if name in known]
    names = {str(row.symbol): name for row in used if (name := _name(row, symbols))}
    numbers = tuple(f"{row.symbol} is {names.get(str(row.symbol), 'made')} at {short(row.file)}:{row.line}, `{row.code}`"
                    for row in used if row.file and row.code)  # fmt: skip
    written = _written(expression, names)
    checks: tuple[str, ...] = ()
    if isinstance(written, ast.Compare):
        checks = tuple(f"{CHECK}({ast.unparse(one)})" for one in (written, _opposite(written)))
    shown = ast.unparse(written) if written is not None else expression
    return DataDependent(expression, shown, place.file, place.line, place.code, numbers, checks)


def condition_symbols(text: str) -> tuple[str, ...]:
    """Return the symbols in the condition that torch's message has; () where it has none."""
    said = _SAID.search(text)
    return tuple(dict.fromkeys(_SYMBOL.findall(said["expression"]))) if said else ()


def symbols_of_condition(text: str, frames: Sequence[Sequence[Symbol]]) -> Sequence[Symbol]:
    """Return the symbols of the last frame that made all that the condition names: the compile that failed is the last."""
    named = set(condition_symbols(text))
    return next((rows for rows in reversed(frames) if named <= {row.symbol for row in rows}), ())


def _name(row: Symbol, symbols: Iterable[Symbol]) -> str:
    """Return what the program calls a symbol: a variable, or a size of one; "" where its line does not give it a name."""
    if size := _SIZE.match(row.source or ""):
        return f"{size['name']}.shape[{size['dim']}]"
    try:
        statements = parsed(row.code).body
    except (SyntaxError, ValueError):
        return ""
    if len(statements) != 1 or not isinstance(statements[0], ast.Assign) or len(statements[0].targets) != 1:
        return ""
    here = dict.fromkeys(s.symbol for s in symbols if s.what == "created" and (s.file, s.line) == (row.file, row.line))
    made: list[str | None] = sorted(filter(None, here), key=_number)
    target, value = statements[0].targets[0], statements[0].value
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    values = value.elts if isinstance(value, ast.Tuple) else [value]
    if len(made) != len(targets) or not all(isinstance(one, ast.Name) for one in targets):
        return ""
    at = made.index(row.symbol)
    value = values[at] if len(values) == len(targets) else values[0]
    suffix = _suffix(value) if len(values) == len(targets) or _called(value) == "tolist" else None
    return f"{ast.unparse(targets[at])}{suffix}" if suffix is not None else ""


def _number(symbol: str | None) -> int:
    return int(re.sub(r"\D", "", symbol or "") or 0)


def _suffix(value: ast.expr) -> str | None:
    """Return what a number stands behind in the value of an assignment: "" or ".shape[0]"; None where it is something else."""
    if _called(value) in ("item", "tolist"):
        return ""
    if _called(value) == "int" and isinstance(value, ast.Call) and len(value.args) == 1:
        return ""
    if _called(value) in _SIZED:
        return ".shape[0]"
    is_part = isinstance(value, ast.Subscript) and isinstance(value.slice, (ast.Slice, ast.Compare))
    return ".shape[0]" if is_part else None


def _called(value: ast.expr) -> str:
    function = value.func if isinstance(value, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def _written(expression: str, names: Mapping[str, str]) -> ast.expr | None:
    """Write a condition of sympy's in Python and the program's names; None where it has something without a name."""
    try:
        tree: ast.expr = _InPython(names).visit(parsed_expression(expression)).body
    except (SyntaxError, ValueError, LookupError):
        return None
    return ast.fix_missing_locations(tree)


class _InPython(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return parsed_expression(self._names[node.id]).body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = _called(node)
        arguments: list[ast.expr] = [self.visit(argument) for argument in node.args]
        if name in ("Min", "Max"):
            return ast.Call(ast.Name(name.lower()), arguments, [])
        left, right = arguments
        if name in _COMPARED:
            return ast.Compare(left, [_COMPARED[name]()], [right])
        return ast.BinOp(left, _COMPUTED[name](), right)


def _opposite(condition: ast.Compare) -> ast.Compare:
    return ast.Compare(condition.left, [_OPPOSITE[type(condition.ops[0])]()], condition.comparators)


__all__ = ["CHECK", "DataDependent", "data_dependent", "symbols_of_condition"]
