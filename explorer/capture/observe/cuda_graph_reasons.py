"""Word a decision on a CUDA graph: what was decided, about what, why, and at which user line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from explorer.stages.inductor.cuda_graph import SKIPPED_CALL, CudaGraphDecision

#: Why a graph that is captured is not yet so after its first call.
SECOND_CALL = "at its second call; the first one warms up"


def changed_inputs(gm: Any, changed: Collection[int]) -> Iterator[CudaGraphDecision]:
    """Yield a row for each input that the graph changes: a call is captured only if a CUDA graph made that input.

    `changed` has the inputs' numbers, without those whose memory stays where it is.
    """
    from torch._inductor.cudagraph_utils import get_placeholder_info

    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    for index in sorted(changed):
        node = inputs[index]
        known = get_placeholder_info(gm.graph)[index].mutating_use_stack_trace
        reason = (
            f"it changes its input {node.name}: a call is captured only where a CUDA graph made that tensor, or where it is a "
            "parameter or buffer of a module"
        )
        yield CudaGraphDecision(decision=SKIPPED_CALL, what=node.name, reason=reason, stack=known or _change(node))


def named_in(reason: str, gm: Any) -> str:
    """Return the stack of the node that a reason names in parentheses, or of its output; "" if there is none.

    An input has no stack of its own, so its first user's stack is returned.
    """
    named = re.search(r"\((\w+)\)", reason)
    nodes = {node.name: node for node in gm.graph.nodes}
    node = nodes.get(named[1]) if named else None
    if node is None:
        return ""
    output = next(reversed(nodes.values()))
    returned = zip(output.args[0], output.meta.get("output_stack_traces") or (), strict=False)
    users = (user.meta.get("stack_trace") for user in node.users)
    stacks = (node.meta.get("stack_trace"), *(stack for value, stack in returned if value is node), *users)
    return next((str(stack) for stack in stacks if stack), "")


def _change(placeholder: Any) -> str:
    """Return the stack of a write to an input: the stack of the copy, of the copied value, or of the input's first user."""
    users = list(placeholder.users)
    copies = [user for user in users if "copy_" in str(user.target) and user.args[0] is placeholder]
    writers = [*copies, *(copy.args[1] for copy in copies if hasattr(copy.args[1], "meta")), *users]
    return next((str(stack) for node in writers if (stack := node.meta.get("stack_trace"))), "")


def decision_of(decision: str, message: str) -> CudaGraphDecision:
    """A decision on a whole graph; torch puts the stack behind its reason."""
    reason, _, stack = message.partition("Found from")
    for prefix in ("skipping cudagraphs due to", "disabling cudagraphs due to", "skipping cudagraph due to"):
        while reason.strip().startswith(prefix):
            reason = reason.strip().removeprefix(prefix)
    reason = reason.strip().partition("\n")[0].rstrip(".")  # addresses follow where a graph was recorded too often
    return CudaGraphDecision(decision=decision, what="the graph", reason=reason, stack=stack.lstrip(" :\n"))
