"""Find the distinct operations of loop bodies: generated code computes an operation on the same arguments once."""

from __future__ import annotations

from collections import Counter
from typing import Any

#: How a body calls a part of itself that runs under a mask, for which generated code has a select, and a scan.
PARTS = {"masked_subblock": "masked", "scan": "scan"}
#: How it names a place that it looks up, and sets that place to a value.
INDIRECT, SET = "indirect", "set_indirect"


class Distinct:
    """The distinct operations of loop bodies that end in one kernel.

    Values have numbers: operations on equal arguments have the same number, also in different bodies. A load from a buffer
    that an earlier body stored is the stored value (`CSE.store_cache` in torch/_inductor/codegen/common.py).
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._stored: dict[str, int] = {}

    def counts(self, body: Any) -> Counter[str]:
        """Count by name the operations of a body that no earlier body has, those under masks included."""
        blocks = (body.root_block, *body.subblocks.values())
        return Counter(name for block in blocks for node, _ in self.nodes(body, block) if (name := _name(node)))

    def nodes(self, body: Any, block: Any) -> list[tuple[Any, list[Any]]]:
        """List the distinct nodes of a block's graph in order, each with the distinct nodes that it takes."""
        numbers: dict[Any, int] = {}
        distinct: dict[int, Any] = {}
        found = []
        for node in block.graph.nodes:
            known = len(self._numbers)
            number = numbers[node] = self._number(node, body, numbers)
            if number >= known:
                distinct[number] = node
                taken = dict.fromkeys(numbers[argument] for argument in node.all_input_nodes)
                found.append((node, [distinct[each] for each in taken if each in distinct]))
        return found

    def _number(self, node: Any, body: Any, numbers: dict[Any, int]) -> int:
        from torch.fx.node import map_arg

        if node.target == "get_index":
            return self._index(body.indexing_exprs[node.args[0]], body, numbers)
        given = node.args if node.op == "call_module" else node.args[1:]  # without `ops`
        arguments = map_arg((given, node.kwargs), lambda argument: f"%{numbers[argument]}")
        if _sets_place(node):
            return numbers[node.args[0]]
        buffer = str(node.args[1]) if node.target in ("load", "store") else ""
        if node.target == "load" and buffer in self._stored:
            return self._stored[buffer]
        if node.target == "store" and not any(node.args[4:]) and not node.kwargs:  # an atomic addition has a mode
            self._stored[buffer] = numbers[node.args[3]]
        return self._numbers.setdefault(f"{node.op} {node.target} {arguments}", len(self._numbers))

    def _index(self, expression: Any, body: Any, numbers: dict[Any, int]) -> int:
        """Number an index by its expression, with the values of the places that it looks up."""
        from sympy import Symbol

        values = {f"{INDIRECT}{str(node.target)[len(SET) :]}": each for node, each in numbers.items() if _sets_place(node)}
        places = {symbol: Symbol(f"%{values[str(symbol)]}") for symbol in expression.free_symbols if str(symbol) in values}
        return self._numbers.setdefault(f"index {expression.xreplace(places)} of {body.var_ranges}", len(self._numbers))


def _sets_place(node: Any) -> bool:
    return str(node.target).startswith(SET)


def _name(node: Any) -> str:
    target = str(node.target)
    if node.op == "call_method":
        return target
    return next((name for part, name in PARTS.items() if target.startswith(part)), "")


__all__ = ["Distinct"]
