"""Add to a scheduler node's row the bytes that it moves and the operations that it computes.

`bytes_moved` counts the first, `operators` and `loop_operations` the second. Sizes that only the run knows are named in
`unsized`.
"""

from __future__ import annotations

from typing import Any

from explorer.capture.observe.bytes_moved import is_strided, lookups, moved, reread, shortest_run
from explorer.capture.observe.loop_operations import by_dtype, distinct_loops, rows
from explorer.capture.observe.operators import operator_call
from explorer.model.records import changed
from explorer.stages.inductor.verdicts import FinalNode

#: Written in place of sizes where what a node moves could not be read.
UNREAD = "its accesses could not be read"


def with_bytes(row: FinalNode, node: Any) -> FinalNode:
    """The row of a node after fusion, with the bytes that it reads and writes."""
    read, written, unsized = moved(node)
    return changed(row, read=read, written=written, unsized=unsized)


def with_operations(row: FinalNode, node: Any) -> FinalNode:
    """The row of a node after fusion, with its library calls and templates and the operations of its loops."""
    elementwise, one_block = by_dtype(list(distinct_loops(node)))
    return changed(
        row,
        calls=tuple(call for part in node.get_nodes() if (call := operator_call(part)) is not None),
        elementwise=elementwise,
        one_block=one_block,
        rows=rows(node),
        run=shortest_run(node),
        lookups=lookups(node),
        reread=reread(node),
        strided=is_strided(node),
    )
