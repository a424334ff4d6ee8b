"""The guards of a frame as facts about the next call, such as "ids: int64 [4, 64] on cpu". Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NotRequired, TypedDict

from explorer.analysis.questions.next_call import TENSOR, TYPE, Asked, asked, device, is_contiguous
from explorer.stages.dynamo.guards import AMBIENT, Guard, values_in
from explorer.stages.dynamo.symbol import Symbol
from explorer.stages.fx_graph import short
from explorer.stages.program_names import COMPILED_MODULE, program_name

#: What a fact is about, in the order in which a reader asks: what the caller passes, how its sizes relate, what else the function
#: reads (values, tensors of modules, types and objects), and the state of the whole program.
GROUPS = ("argument", "size", "value", "tensor", "object", "program")
#: Guards on how a tensor's dimensions are marked for torch.compile, by their kinds in torch 2.12 and later and in torch 2.11.
MARKINGS = ("DIMENSION_DYNAMIC_MARKING_GUARD", "DYNAMIC_INDICES", "NO_HASATTR")
_MARKED = re.compile(r"\b_dynamo_\w*indices\b")
#: Guards on what a value is worth, not on which object or type it is.
_OF_VALUES = ("EQUALS_MATCH", "TRUE_MATCH", "FALSE_MATCH", "NONE_MATCH", "LENGTH_CHECK", "FLOAT_IS_NAN", "COMPLEX_IS_NAN")
_STATE = re.compile(r"___check_global_state\(\) against (?P<state>\{.*\})$")
_FLAGS: Mapping[str, str] = MappingProxyType(
    {"grad_mode": "grad mode", "allow_tf32": "TF32", "deterministic_algorithms": "deterministic algorithms"}
)


class GuardFact(TypedDict):
    """A fact that must hold at the next call, and its guard's line in the text of the guards.

    "group" is one of `GROUPS`, "place" and "code" are the line that made the guard necessary, "" if that is not known, and
    "folded" counts the guards on the tensor's markings that stand behind it. "asks" is what can be compared with another call,
    and "inside" is torch's own line where that line is the user's call of one of torch's modules.
    """

    group: str
    fact: str
    place: str
    code: str
    line: int
    folded: int
    inside: NotRequired[str]
    asks: NotRequired[Asked]


def guard_facts(rows: Sequence[Guard], symbols: Sequence[Symbol] = ()) -> list[GuardFact]:
    """Return one fact per guard, by group, those of one value together; markings are folded into their tensor's fact.

    `symbols` are those of the frame: they know the sizes of the call that was compiled.
    """
    tensors = {row.source for row in rows if row.kind == "TENSOR_MATCH"}
    folded = Counter(row.source for row in rows if _is_marking(row) and row.source in tensors)
    facts = list(_facts(rows, tensors, folded, asked(rows, symbols)))
    first = {source: at for at, (source, _) in reversed(list(enumerate(facts)))}
    facts.sort(key=lambda pair: (GROUPS.index(pair[1]["group"]), first[pair[0]]))
    return [fact for _, fact in facts]


def _facts(
    rows: Sequence[Guard], tensors: set[str], folded: Mapping[str, int], asks: Sequence[Asked]
) -> Iterator[tuple[str, GuardFact]]:
    """Yield the value that each fact is about, and the fact."""
    for line, row in enumerate(rows, 1):
        if _is_marking(row) and row.source in tensors:
            continue
        file, number, code = row.user or (row.file, row.line, row.code)
        fact: GuardFact = {
            "group": _group(row),
            "fact": _fact(row),
            "place": f"{short(file)}:{number}" if file and code else "",
            "code": code,
            "line": line,
            "folded": folded.get(row.source, 0) if row.kind == "TENSOR_MATCH" else 0,
        }
        if row.user:
            fact["inside"] = f"{short(row.file)}:{row.line} {row.code}"
        if asks[line - 1]:
            fact["asks"] = asks[line - 1]
        yield row.source, fact


def _is_marking(row: Guard) -> bool:
    return row.kind in MARKINGS and bool(_MARKED.search(row.expression))


def _group(row: Guard) -> str:
    values = [row.source] if row.source else values_in(row.expression)
    if row.kind in AMBIENT or not values:
        return "program"
    if row.kind in ("SHAPE_ENV", "SYMBOLIC_SHAPE_GUARD") or (not row.source and ".size()[" in row.expression):
        return "size"
    if all(value.startswith("L[") and not value.startswith(COMPILED_MODULE) for value in values):
        return "argument"
    if row.kind == "TENSOR_MATCH":
        return "tensor"
    is_value = row.kind in _OF_VALUES and "dict.keys(" not in row.expression and not _is_itself(row)
    return "value" if is_value else "object"


def _is_itself(row: Guard) -> bool:
    """Whether a guard says no more than that a name means what it did, such as torch.bool == torch.bool."""
    return bool(row.source) and row.expression == f"{row.source} == {program_name(row.source)}"


def _fact(row: Guard) -> str:
    """Say what must hold in the program's names; the condition as Dynamo has it where nothing better is known."""
    name = program_name(row.source)
    if tensor := TENSOR.search(row.expression):
        return f"{name}: {_tensor(tensor)}"
    if _is_itself(row):
        return f"{name}: the same object"
    if row.kind == "NO_TENSOR_ALIASING":
        return f"{', '.join(map(program_name, values_in(row.expression)))}: no two are the same tensor"
    if row.kind == "GLOBAL_STATE" and (state := _STATE.search(row.expression)):
        return _state(state["state"])
    if row.kind in ("TYPE_MATCH", "ID_MATCH") and (kind := TYPE.search(row.expression)):
        said = (kind["type"] or kind["words"]).rpartition(".")[2]
        return f"{name}: of type {said}" if row.kind == "TYPE_MATCH" else f"{name}: the same object ({said})"
    if row.kind == "TORCH_FUNCTION_MODE_STACK":
        return "the same torch function modes"
    if row.kind == "DEFAULT_DEVICE":
        return row.expression.replace("utils_device.CURRENT_DEVICE", "default device")
    named = row.expression
    for value in sorted(values_in(row.expression), key=len, reverse=True):
        named = named.replace(value, program_name(value))
    return named or f"{name}: {row.kind}"


def _tensor(tensor: re.Match[str]) -> str:
    """Say what a tensor must be: dtype, sizes, device, and what is not as in most tensors."""
    sizes, strides = ([part.strip() for part in tensor[name].split(",") if part.strip()] for name in ("size", "stride"))
    shape = ", ".join("any" if size == "None" else size for size in sizes)
    said = f"{tensor['dtype']} [{shape}] on {device(tensor)}"
    if "None" not in (*sizes, *strides) and not is_contiguous([*map(int, sizes)], [*map(int, strides)]):
        said += f", strides [{', '.join(strides)}]"
    return said + (", requires grad" if tensor["grad"] == "True" else "")


def _state(text: str) -> str:
    """Say the state of the program that people set: modes, autocast, threads, and the default dtype as torch numbers it."""
    try:
        state = json.loads(text)
    except ValueError:
        return f"state of the program: {text}"
    said = [f"{words} {'on' if state[key] else 'off'}" for key, words in _FLAGS.items() if key in state]
    enabled = state.get("autocast_state", {}).get("enabled")
    if enabled is not None:
        said.append(f"autocast {'on' if any(enabled) else 'off'}")
    if "num_threads" in state:
        said.append(f"{state['num_threads']} threads")
    return f"{', '.join(said)}, and the rest of torch's global state" if said else f"state of the program: {text}"


__all__ = ["GROUPS", "MARKINGS", "GuardFact", "guard_facts"]
