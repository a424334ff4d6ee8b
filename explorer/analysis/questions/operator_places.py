"""Where a graph computes each operator of the program: the names that people and kernels' own names use. Pure.

Inductor names a kernel by the operators before decomposition, such as `silu` in `triton_poi_fused_addmm_silu_3`, and Dynamo
names a node by the user's variable. Neither is a name of a node after decomposition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from explorer.errors import InputError
from explorer.model.values import Plain

#: The namespaces of operators that a kernel's name leaves out.
NAMESPACES = ("aten.", "prims.", "inductor_prims.")
#: A message lists at most this many places, and counts the others.
MAX_LISTED = 4


@dataclass(frozen=True)
class OperatorPlace:
    """One place where a program uses an operator: the FX node of its result, its user line, and its scheduler nodes' numbers.

    `code` is the line, followed by the place's module where several places have that line; `line` is the line alone.
    """

    node: str
    code: str
    numbers: tuple[int, ...]
    line: str = ""


def operator_places(
    nodes: Iterable[Mapping[str, Plain]], numbers_by_name: Mapping[str, tuple[int, ...]], *, with_nodes: bool = False
) -> dict[str, tuple[OperatorPlace, ...]]:
    """Map each operator, and each name that Dynamo gave, to its places among the FX `nodes` of a graph, in their order.

    An operator has its full name, "aten.silu.default", that without the overload, and "silu"; "_softmax" is "softmax" too. Names
    that `numbers_by_name` has already are left out, since they name one node. `with_nodes` they are there, and an operator that
    another one was decomposed into is not: a program that has a GELU has no `erf` of its own.
    """
    members: dict[str, dict[object, list[Mapping[str, Plain]]]] = {}
    for node in nodes:
        for name, place in _names(node, whole=with_nodes):
            if with_nodes or name not in numbers_by_name:
                members.setdefault(name, {}).setdefault(place, []).append(node)
    found = {name: tuple(_places(of.values(), numbers_by_name)) for name, of in members.items()}
    return {name: places for name, places in found.items() if places}


def _names(node: Mapping[str, Plain], *, whole: bool) -> Iterator[tuple[str, object]]:
    """Yield each name of what a node computes, with what tells one use of that name from another."""
    source = tuple(node.get("from") or ())
    use = source or node.get("seq_nr") or (node.get("file"), node.get("line"), node.get("code"))
    operators = dict.fromkeys(str(node.get(key) or "") for key in ("original", "target") if node.get(key))
    operators = dict.fromkeys(list(operators)[:1]) if whole else operators
    for operator in operators:
        if node.get("op") == "call_function" and operator.startswith(NAMESPACES):
            short = operator_name(operator)
            names = (operator, f"{operator.partition('.')[0]}.{short}", short, short.lstrip("_"))
            yield from ((name, use) for name in dict.fromkeys(names))
    for name in source:
        yield str(name), source


def operator_name(target: str) -> str:
    """Return an operator's name without namespace and overload: "mm" of "aten.mm.default"; "" for what has no namespace."""
    return target.partition(".")[2].partition(".")[0]


def _places(uses: Iterable[list[Mapping[str, Plain]]], numbers_by_name: Mapping[str, tuple[int, ...]]) -> Iterator[OperatorPlace]:
    """Yield the uses that a scheduler node computes."""
    uses = [[node for node in nodes if node["name"] in numbers_by_name] for nodes in uses]
    codes = Counter(str(nodes[-1].get("code") or "").strip() for nodes in uses if nodes)
    for computed in uses:
        numbers = dict.fromkeys(n for node in computed for n in numbers_by_name[node["name"]])
        if numbers:
            last, code = computed[-1], str(computed[-1].get("code") or "").strip()
            within = f" in {last['module']}" if codes[code] > 1 and last.get("module") else ""
            yield OperatorPlace(str(last["name"]), f"{code}{within}", tuple(sorted(numbers)), code)


def ambiguous(name: str, places: Iterable[OperatorPlace]) -> str:
    """Say that a name stands for several places, and what to ask about instead."""
    listed = [f"{place.node} ({place.code})" if place.code else place.node for place in places]
    more = f" and {len(listed) - MAX_LISTED} more" if len(listed) > MAX_LISTED else ""
    return f"{name} is computed in {len(listed)} places, so ask about one of its nodes: {', '.join(listed[:MAX_LISTED])}{more}"


def several_places(name: str, places: Iterable[OperatorPlace]) -> InputError:
    """Build the error for the name of an operator that is computed in several places."""
    return InputError(ambiguous(name, places))


__all__ = ["OperatorPlace", "ambiguous", "operator_name", "operator_places", "several_places"]
