"""Tell which FX nodes a scheduler node computes.

Inductor's own origins are more. While an operator is lowered, what is made for it has the origins of each argument that is not
in memory yet. Where the lowering then writes that argument to memory, as a convolution's does, another node computes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from explorer.capture.observe.kernel_lines import body_nodes
from explorer.capture.observe.scheduler_nodes import called_node, is_result


class Computed:
    """What the scheduler nodes of one graph compute."""

    def __init__(self, parts: Iterable[Any]) -> None:
        listed = list(parts)
        #: For each scheduler node with loops the FX node of each of their operations: see `body_nodes`.
        self.bodies = {part.get_name(): blocks for part in listed if (blocks := body_nodes(part))}
        self._operations = {part.get_name(): list(self._operations_of(part)) for part in listed}
        self._computed = {names[0] for operations in self._operations.values() for names in operations}

    def nodes(self, part: Any) -> list[Any]:
        """The FX nodes that a scheduler node computes, and the views through which it reads.

        An origin that is in no operation, such as a conversion to the same type, belongs to the first node that has it.
        """
        inner = getattr(part, "node", None)
        if inner is None:
            return []
        own = {name for names in self._operations.get(part.get_name(), ()) for name in names}
        if not own:
            return list(inner.get_origins())
        before = {node.name for maker in _makers(part) for node in maker.get_origins()}
        origins = [(node.name, node) for node in inner.get_origins()]
        return [node for name, node in origins if name in own or not (name in self._computed or name in before)]

    def _operations_of(self, part: Any) -> Iterator[list[str]]:
        """The FX node of each operation of a scheduler node, each with the views of its arguments, as far as they are known."""
        inner = getattr(part, "node", None)
        if getattr(part, "_body", None) is not None:
            blocks = self.bodies.get(part.get_name(), {})
            yield from (names.split() for block in blocks.values() for names in block.values() if names)
        elif inner is not None and (part.is_extern() or part.is_template() or is_result(part)):
            called = called_node(inner)
            if called is not None:
                yield [called.name]


def _makers(part: Any) -> Iterator[Any]:
    """The IR of each node that writes what a scheduler node reads."""
    for read in part.read_writes.reads:
        buffer = part.scheduler.name_to_buf.get(read.name)
        node = part.scheduler.name_to_node.get(buffer.defining_op_name()) if buffer is not None else None
        if node is not None and node is not part and node.node is not None:
            yield node.node
