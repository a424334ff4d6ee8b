"""Where a graph computes each operator of the program: the names that people and kernels' own names use. Pure.

Inductor names a kernel by the operators before decomposition, such as `silu` in `triton_poi_fused_addmm_silu_3`, and Dynamo
names a node by the user's variable. Neither is a name of a node after decomposition.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from explorer.errors import InputError
from explorer.model.values import EMPTY, Plain
from explorer.stages.fx_graph import VIEWS

#: The namespaces of operators that a kernel's name leaves out.
NAMESPACES = ("aten.", "prims.", "inductor_prims.")
#: Operators that only copy.
COPIES = frozenset({"clone", "copy", "contiguous", "to_copy", "_to_copy"})
#: Where a library computes one of these products, a kernel adds its bias.
PRODUCTS = frozenset({"addmm", "baddbmm", "convolution", "linear"})
#: The maximum and the sum of a softmax, as a pattern of Inductor's writes them; the kernel that has them may have the rest, too.
SUMS_OF_SOFTMAX = "prepare_softmax_online"
_NUMBERED = re.compile(r"_\d+$")
#: A message lists at most this many places, and counts the others.
MAX_LISTED = 4


@dataclass(frozen=True)
class OperatorPlace:
    """One place where a program uses an operator: the FX node of its result, its user line, and its scheduler nodes' numbers.

    `code` is the line, followed by the place's module where several places have that line; `line` is the line alone. `central` is
    the node that a library or a template computes, where there is one, else that of the result.
    """

    node: str
    code: str
    numbers: tuple[int, ...]
    line: str = ""
    central: str = ""


def operator_places(
    nodes: Iterable[Mapping[str, Plain]],
    numbers_by_name: Mapping[str, tuple[int, ...]],
    calls: Collection[str] = (),
    functions: Mapping[str, str] = EMPTY,
    *,
    with_nodes: bool = False,
) -> dict[str, tuple[OperatorPlace, ...]]:
    """Map each operator, function of the program, and name that Dynamo gave to its places among the FX `nodes`, in their order.

    An operator has its full name, "aten.silu.default", that without the overload, and "silu"; "_softmax" is "softmax" too.
    `functions` has the function that each of Dynamo's nodes calls: "layer_norm". A name of Dynamo's stands for its node alone.
    Names that `numbers_by_name` has already are left out, since they name one node. `calls` are the nodes that a library or a
    template computes.

    The words of a launch's title are names too, where nothing else has them: "softmax" is what computes its sums, and "bias" what
    adds that of a product. So is the last name of a module: "gate_proj" stands for the nodes of each "layers.N.mlp.gate_proj".

    `with_nodes` is for people: names of nodes are there too, and "scores", Dynamo's name of one node, has the places of
    "scores_1" as well. An operator that another one was decomposed into is not there: a program that has a GELU has no `erf`.
    """
    by_name = {str(node["name"]): node for node in nodes}
    members: dict[str, dict[object, list[Mapping[str, Plain]]]] = {}
    exact = set() if with_nodes else {str(name) for node in by_name.values() for name in node.get("from") or ()}
    for node in by_name.values():
        for name, place in _names(node, functions, exact, whole=with_nodes):
            if with_nodes or name not in numbers_by_name:
                members.setdefault(name, {}).setdefault(place, []).append(node)
    for others in (_title_words(by_name.values(), calls), _module_names(by_name.values())):
        members |= {name: of for name, of in others.items() if name not in members and name not in numbers_by_name}
    uses: dict[object, list[Mapping[str, Plain]]] = {}
    for node in by_name.values():
        uses.setdefault(_use(node), []).append(node)
    found = {
        name: tuple(_places([_computing(use, by_name, uses, calls) for use in of.values()], numbers_by_name, calls))
        for name, of in members.items()
    }
    return {name: places for name, places in found.items() if places}


def _use(node: Mapping[str, Plain]) -> object:
    """Return what tells one use of an operator from another: Dynamo's node, else the place in the program."""
    return tuple(node.get("from") or ()) or node.get("seq_nr") or (node.get("file"), node.get("line"), node.get("code"))


def _names(
    node: Mapping[str, Plain], functions: Mapping[str, str], exact: Collection[str], *, whole: bool
) -> Iterator[tuple[str, object]]:
    """Yield each name of what a node computes, with its use; of a function's name none that is `exact`, one node's own."""
    use = _use(node)
    operators = dict.fromkeys(str(node.get(key) or "") for key in ("original", "target") if node.get(key))
    operators = dict.fromkeys(list(operators)[:1]) if whole else operators
    for operator in operators:
        if node.get("op") == "call_function" and operator.startswith(NAMESPACES):
            short = operator_name(operator)
            names = (operator, f"{operator.partition('.')[0]}.{short}", short, short.lstrip("_"))
            yield from ((name, use) for name in dict.fromkeys(names))
    for name in map(str, node.get("from") or ()):
        others = {_NUMBERED.sub("", name), functions.get(name, name)} - {name}
        yield from ((each, use) for each in (name, *sorted(others - set(exact))))


def _title_words(
    nodes: Iterable[Mapping[str, Plain]], calls: Collection[str]
) -> dict[str, dict[object, list[Mapping[str, Plain]]]]:
    """Map the words of a launch's title that are no operator's name to the nodes that they stand for."""
    words: dict[str, dict[object, list[Mapping[str, Plain]]]] = {}
    for node in nodes:
        original, target = (operator_name(str(node.get(key) or "")).strip("_") for key in ("original", "target"))
        if target == SUMS_OF_SOFTMAX:
            words.setdefault("softmax", {})[node["name"]] = [node]
        elif original in PRODUCTS and target == "add" and node["name"] not in calls:
            words.setdefault("bias", {})[node["name"]] = [node]
    return words


def _module_names(nodes: Iterable[Mapping[str, Plain]]) -> dict[str, dict[object, list[Mapping[str, Plain]]]]:
    """Map the last name of each module to the nodes that are computed in it, by the module's whole path."""
    names: dict[str, dict[object, list[Mapping[str, Plain]]]] = {}
    for node in nodes:
        if module := str(node.get("module") or ""):
            names.setdefault(module.rpartition(".")[2], {}).setdefault(module, []).append(node)
    return names


def _computing(
    use: list[Mapping[str, Plain]],
    by_name: Mapping[str, Mapping[str, Plain]],
    uses: Mapping[object, list[Mapping[str, Plain]]],
    calls: Collection[str],
) -> list[Mapping[str, Plain]]:
    """Return the nodes of a use that compute it.

    A view is computed by whatever reads it, and a copy before a call only lays out what the call reads. A use of views alone,
    such as a reshape, is computed where the viewed tensor is.
    """
    if not (working := [node for node in use if not _is_view(node)]):
        source = _viewed(use[-1], by_name)
        working = [node for node in uses[_use(source)] if not _is_view(node)] if source else []
    first_call = next((n for n, node in enumerate(working) if node["name"] in calls), 0)
    return [node for n, node in enumerate(working) if n >= first_call or not _is_copy(node)] or use


def _viewed(node: Mapping[str, Plain], by_name: Mapping[str, Mapping[str, Plain]]) -> Mapping[str, Plain] | None:
    """Return the node that another views, through views of views; None for an argument of the graph."""
    found: Mapping[str, Plain] | None = node
    while found is not None and _is_view(found):
        found = by_name.get(str(next(iter(found.get("inputs") or ()), "")))
    return found if found is not None and found.get("op") == "call_function" else None


def _is_view(node: Mapping[str, Plain]) -> bool:
    return bool(VIEWS.match(str(node.get("target") or "")))


def _is_copy(node: Mapping[str, Plain]) -> bool:
    return operator_name(str(node.get("target") or "")) in COPIES


def operator_name(target: str) -> str:
    """Return an operator's name without namespace and overload: "mm" of "aten.mm.default"; "" for what has no namespace."""
    return target.partition(".")[2].partition(".")[0]


def _places(
    uses: Iterable[list[Mapping[str, Plain]]], numbers_by_name: Mapping[str, tuple[int, ...]], calls: Collection[str]
) -> Iterator[OperatorPlace]:
    """Yield the uses that a scheduler node computes."""
    uses = [[node for node in nodes if node["name"] in numbers_by_name] for nodes in uses]
    uses = list({str(nodes[-1]["name"]): nodes for nodes in uses if nodes}.values())  # a view is computed where its tensor is
    codes = Counter(str(nodes[-1].get("code") or "").strip() for nodes in uses)
    for computed in uses:
        numbers = dict.fromkeys(n for node in computed for n in numbers_by_name[node["name"]])
        last, code = computed[-1], str(computed[-1].get("code") or "").strip()
        within = f" in {last['module']}" if codes[code] > 1 and last.get("module") else ""
        node = str(last["name"])
        central = next((str(each["name"]) for each in reversed(computed) if each["name"] in calls), node)
        yield OperatorPlace(node, f"{code}{within}", tuple(sorted(numbers)), code, central)


def ambiguous(name: str, places: Iterable[OperatorPlace]) -> str:
    """Say that a name stands for several places, and what to ask about instead."""
    listed = [f"{place.node} ({place.code})" if place.code else place.node for place in places]
    more = f" and {len(listed) - MAX_LISTED} more" if len(listed) > MAX_LISTED else ""
    return f"{name} is computed in {len(listed)} places, so ask about one of its nodes: {', '.join(listed[:MAX_LISTED])}{more}"


def several_places(name: str, places: Iterable[OperatorPlace]) -> InputError:
    """Build the error for the name of an operator that is computed in several places."""
    return InputError(ambiguous(name, places))


__all__ = ["PRODUCTS", "SUMS_OF_SOFTMAX", "OperatorPlace", "ambiguous", "operator_name", "operator_places", "several_places"]
