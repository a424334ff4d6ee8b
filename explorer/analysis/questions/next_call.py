"""What a guard asks of the next call's arguments, as values that the page can compare. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from types import MappingProxyType
from typing import NotRequired, TypedDict

from explorer.model.syntax import UNREADABLE, parsed_expression
from explorer.stages.dynamo.guards import Guard
from explorer.stages.dynamo.symbol import Symbol
from explorer.stages.program_names import COMPILED_MODULE, program_name

#: Dynamo's check of a tensor; the first dispatch key is the device, `None` in its sizes stands for any.
TENSOR = re.compile(
    r"check_tensor\((?P<value>.*), (?P<type>\w+), DispatchKeySet\((?P<key>\w+)[^)]*\), torch\.(?P<dtype>\w+), "
    r"device=(?P<index>None|\d+), requires_grad=(?P<grad>True|False), size=\[(?P<size>[^\]]*)\], stride=\[(?P<stride>[^\]]*)\]"
)
#: What an object is: "<class 'torch.Tensor'>", in torch 2.11 also "<built-in function linear>".
TYPE = re.compile(r", type=<(?:class '(?P<type>[^']+)'|(?P<words>[a-z-]+(?: (?:function|method))?))")
#: A guard on one value of the caller's: what it equals, or how long it is.
_EQUAL = re.compile(r"(?P<value>[^=]+) (?:==|is) (?P<literal>.+)", re.DOTALL)
#: A part of a module that the caller passes, such as a parameter: nobody passes that by itself.
_OF_MODULE = re.compile(r"\._(?:modules|parameters|buffers)\b")
Postfix = list[int | str]
_OPERATORS: Mapping[type[ast.AST], str] = MappingProxyType(
    {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Eq: "==", ast.LtE: "<="}
)
#: The other conditions on whole numbers, by these; a condition is 1 or 0.
_WRITTEN: Mapping[type[ast.AST], Callable[[Postfix, Postfix], Postfix]] = MappingProxyType(
    {
        ast.NotEq: lambda a, b: [1, *a, *b, "==", "-"],
        ast.Lt: lambda a, b: [*a, 1, "+", *b, "<="],
        ast.Gt: lambda a, b: [*b, 1, "+", *a, "<="],
        ast.GtE: lambda a, b: [*b, *a, "<="],
        ast.And: lambda a, b: [*a, *b, "*"],
        ast.Or: lambda a, b: [*a, *b, "+"],
    }
)


class Argument(TypedDict):
    """What the compiled call passed: a tensor, or a "value" as Python writes it. None stands for a size that is not known."""

    name: str
    value: NotRequired[str]
    type: NotRequired[str]
    dtype: NotRequired[str]
    device: NotRequired[str]
    grad: NotRequired[bool]
    sizes: NotRequired[list[int | None]]
    strides: NotRequired[list[int | None]]
    contiguous: NotRequired[bool]


class Asked(TypedDict, total=False):
    """What a guard asks of the arguments: what some of their properties, such as "x:dtype" and "x:size:0", "equal", or a "test".

    A test is a condition in postfix form, of numbers, operators and properties. "passed" is the argument that the guard is on.
    """

    equal: dict[str, str | float | bool]
    test: list[int | str]
    passed: Argument


def asked(rows: Sequence[Guard], symbols: Sequence[Symbol] = ()) -> list[Asked]:
    """Say of each guard what it asks of the arguments; {} where that cannot be compared. `symbols` know the sizes of the call."""
    tests = [_test(row) for row in rows]
    called = _called(tests, symbols)
    asks: list[Asked] = [{"test": test} if test else _asked(row, called) for row, test in zip(rows, tests, strict=True)]
    fields = {each["passed"]["name"] for each in asks if "passed" in each}
    # the type of an object, such as a dict, is nothing that a field of the form could change
    return [each if {key.split(":")[0] for key in each.get("equal", ())} <= fields else {} for each in asks]


def _test(row: Guard) -> Postfix:
    """Return the condition of a guard on sizes and numbers, [] for any other guard."""
    if row.kind not in ("LAMBDA_GUARD", "SHAPE_ENV", "SYMBOLIC_SHAPE_GUARD"):
        return []
    with suppress(*UNREADABLE):
        return _postfix(parsed_expression(row.expression).body)
    return []


def _postfix(node: ast.AST) -> Postfix:
    """Return an expression in postfix form; LookupError or ValueError for one with anything else than whole numbers."""
    if isinstance(node, ast.Compare):
        pairs = zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)
        return reduce(_WRITTEN[ast.And], [_applied(op, _postfix(a), _postfix(b)) for a, op, b in pairs])
    if isinstance(node, ast.BoolOp):
        return reduce(_WRITTEN[type(node.op)], map(_postfix, node.values))
    if isinstance(node, ast.BinOp):
        return _applied(node.op, _postfix(node.left), _postfix(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [0, *_postfix(node.operand), "-"]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [node.value]
    return [_property(node)]


def _applied(operator: ast.AST, a: Postfix, b: Postfix) -> Postfix:
    kind = type(operator)
    return _WRITTEN[kind](a, b) if kind in _WRITTEN else [*a, *b, _OPERATORS[kind]]


def _property(node: ast.AST) -> str:
    """Return what an expression reads of the arguments: "x:size:0" for `L['x'].size()[0]`; ValueError for anything else."""
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr in ("size", "stride")
    ):
        return f"{_property(node.value.func.value)}:{node.value.func.attr}:{ast.unparse(node.slice)}"
    source = ast.unparse(node)
    if not _is_passed(source):
        raise ValueError(source)
    return program_name(source)


def _is_passed(source: str) -> bool:
    """Whether a value is one that the caller passes, or is a part of one such as an entry of a list."""
    return (
        source.startswith("L[") and not source.startswith(COMPILED_MODULE) and "(" not in source and not _OF_MODULE.search(source)
    )


def _called(tests: Sequence[Postfix], symbols: Sequence[Symbol]) -> dict[str, str]:
    """Return properties of the call that was compiled: those of symbols, and those that equal one of them."""
    called = {}
    for row in symbols:
        if row.source and row.val:
            with suppress(*UNREADABLE):
                called[_property(parsed_expression(row.source).body)] = row.val
    pairs = [(str(test[0]), str(test[1])) for test in tests if len(test) == 3 and test[2] == "=="]
    for one, other in (*pairs, *reversed(pairs)):
        for value, same in ((one, other), (other, one)):
            if same in called:
                called.setdefault(value, called[same])
    return called


def _asked(row: Guard, called: Mapping[str, str]) -> Asked:
    if not _is_passed(row.source):
        return {}
    name = program_name(row.source)
    if tensor := TENSOR.search(row.expression):
        return _tensor(name, tensor, called)
    if row.kind == "TYPE_MATCH" and (kind := TYPE.search(row.expression)) and kind["type"]:
        asks: Asked = {"equal": {f"{name}:type": kind["type"].rpartition(".")[2]}}
        return {**asks, "passed": {"name": name, "value": called[name]}} if name in called else asks
    equal = _EQUAL.fullmatch(row.expression)
    if equal and equal["value"] in (row.source, f"len({row.source})"):
        name = equal["value"].replace(row.source, name)
        with suppress(*UNREADABLE):
            return {"equal": _literal(name, equal["literal"]), "passed": {"name": name, "value": equal["literal"]}}
    return {}


def _literal(name: str, text: str) -> dict[str, str | float | bool]:
    """Return what a value has that equals a literal; ValueError for a literal that the page cannot compare."""
    value = ast.literal_eval(parsed_expression(text))
    if value is None:
        return {f"{name}:none": True}
    if re.search(r"[\\'\"]", value) if isinstance(value, str) else not isinstance(value, int | float) or abs(value) >= 2**53:
        raise ValueError(text)
    return {f"{name}:type": type(value).__name__, name: repr(value) if isinstance(value, bool | str) else value}


def _tensor(name: str, tensor: re.Match[str], called: Mapping[str, str]) -> Asked:
    sizes, strides = ([_whole(part) for part in tensor[key].split(",") if part.strip()] for key in ("size", "stride"))
    passed: Argument = {
        "name": name,
        "type": tensor["type"],
        "dtype": tensor["dtype"],
        "device": device(tensor),
        "grad": tensor["grad"] == "True",
        "sizes": [_whole(called.get(f"{name}:size:{n}", "")) if size is None else size for n, size in enumerate(sizes)],
        "strides": [_whole(called.get(f"{name}:stride:{n}", "")) if of is None else of for n, of in enumerate(strides)],
    }
    passed["contiguous"] = is_contiguous(passed["sizes"], passed["strides"])
    equal: dict[str, str | float | bool] = {f"{name}:{what}": tensor[what] for what in ("type", "dtype")}
    equal |= {f"{name}:device": passed["device"], f"{name}:grad": passed["grad"]}
    equal[f"{name}:rank"] = len(sizes)
    equal |= {f"{name}:size:{n}": size for n, size in enumerate(sizes) if size is not None}
    equal |= {f"{name}:stride:{n}": stride for n, stride in enumerate(strides) if stride is not None}
    return {"equal": equal, "passed": passed}


def is_contiguous(sizes: Sequence[int | None], strides: Sequence[int | None]) -> bool:
    """Whether strides may be those of a contiguous tensor; the stride of a dimension of size 1 says nothing."""
    packed: int | None = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if 0 not in sizes and size != 1 and None not in (stride, packed) and stride != packed:
            return False
        packed = None if packed is None or size is None else packed * size
    return True


def device(tensor: re.Match[str]) -> str:
    """The device that Dynamo's check of a tensor asks for."""
    return tensor["key"].lower() + ("" if tensor["index"] == "None" else f":{tensor['index']}")


def _whole(text: str) -> int | None:
    with suppress(ValueError):
        return int(text)
    return None


__all__ = ["TENSOR", "TYPE", "Argument", "Asked", "asked", "device", "is_contiguous"]
