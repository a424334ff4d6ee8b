"""Copy an FX graph for another compiler's importer: each node with a location, and only the results that are computed.

An importer takes an operation's location from its node's stack, which the graphs that a backend is given mostly lack. So each
node of a copy is given a stack of its own, in a file that stands for the graph, see `stages/fx_locations.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explorer.stages.fx_locations import FIRST_NODE, FX_GRAPH, WHOLE_GRAPH


@dataclass(frozen=True)
class Results:
    """The results of a graph, in its order.

    `computed` says for each result whether the compiled module returns it. Other results are constants, such as the None for
    an input without a gradient, listed in `constants`; or they are inputs that the graph returns, with their number in
    `inputs`. `values` are the fake tensors or symbolic numbers of the computed results.
    """

    computed: tuple[bool, ...]
    constants: tuple[Any, ...]
    inputs: tuple[int | None, ...]
    values: tuple[Any, ...]

    @classmethod
    def of(cls, outputs: Sequence[Any], handed_through: Sequence[Any] = ()) -> Results:
        """Describe the results of a graph with these outputs. Inputs in `handed_through` are not computed."""
        inputs = tuple(handed_through.index(value) if value in handed_through else None for value in outputs)
        computed = tuple(hasattr(value, "meta") and n is None for value, n in zip(outputs, inputs, strict=True))
        return cls(
            computed=computed,
            constants=tuple(None if hasattr(value, "meta") else value for value in outputs),
            inputs=inputs,
            values=tuple(value.meta.get("val") for value, own in zip(outputs, computed, strict=True) if own),
        )

    def put_together(self, returned: Sequence[Any], given: Sequence[Any] = ()) -> tuple[Any, ...]:
        """All results of the graph, of those that the module returned and of the inputs that it was given."""
        found = iter(self._in_own_memory(returned, given))
        return tuple(
            next(found) if own else constant if number is None else given[number]
            for own, constant, number in zip(self.computed, self.constants, self.inputs, strict=True)
        )

    def _in_own_memory(self, returned: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """Copy each result that the engine left in the memory of an input, or of another node's result.

        For `x + 0` TVM returns x itself: without the copy, whoever writes to the result changes the argument.
        """
        owners: dict[int, Any] = {_address(value): None for value in given}
        results = []
        for result, value in zip(returned, self.values, strict=True):
            if (address := _address(result)) and owners.setdefault(address, value) is not value:
                result = result.clone()
            results.append(result)
        return results


def _address(value: Any) -> int:
    """Return the address of a tensor's first element; 0 for what has no element."""
    import torch

    return value.data_ptr() if isinstance(value, torch.Tensor) else 0


def outputs_of(gm: Any) -> Sequence[Any]:
    """What the graph returns, one by one."""
    given = next(node for node in gm.graph.nodes if node.op == "output").args[0]
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


def located_copy(gm: Any, outputs: Sequence[Any]) -> Any:
    """Copy the module so that it returns only the outputs that are nodes, and each node has its location."""
    import torch

    graph = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    for number, node in enumerate(gm.graph.nodes, FIRST_NODE):
        if node.op != "output":
            copies[node] = graph.node_copy(node, copies.__getitem__)
            computes = node.op not in ("placeholder", "get_attr")
            copies[node].meta["stack_trace"] = stack_of(number if computes else WHOLE_GRAPH, node.name)
    returned = graph.output(tuple(copies[value] for value in outputs if value in copies))
    returned.meta["stack_trace"] = stack_of(WHOLE_GRAPH, "output")
    return torch.fx.GraphModule(gm, graph)


def stack_of(line: int, name: str) -> str:
    """A stack that an importer reads a node's location from."""
    return f'File "{FX_GRAPH}", line {line}, in {name}'
