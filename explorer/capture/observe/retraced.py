"""Which line of the user's each node of a graph inside flex attention comes from.

Dynamo's graph has the score function as a graph of its own, whose nodes have the user's stacks. AOTAutograd runs that graph's
generated code, without an interpreter. So torch gives all new nodes the stack of the call of flex attention. The frame of the
generated code is then on the Python stack, and its line tells the node under way:

    Dynamo's score_mod_0 → its generated code runs → sdpa_score0, fw_graph0
                         → and is differentiated   → joint graph → its generated code runs → joint_graph0

A gradient has the number of the forward operator that autograd differentiates. What is known is kept in the new node's meta,
which later passes copy.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from types import FrameType
from typing import Any

from explorer.capture.observe.patch import followed, observed
from explorer.model.stage import Emit

#: A node's meta keeps here the stack of the node that it was traced for, and that node's name in Dynamo's graph.
STACK, NAME = "explorer_stack", "explorer_traced_for"
#: torch's functions that run the graphs inside flex attention; the first differentiates one.
DIFFERENTIATES = "create_fw_bw_graph"
RUNNING = (DIFFERENTIATES, "trace_flex_attention", "trace_flex_attention_backward")
#: How the file of a graph's generated code is called.
GENERATED = "<eval_with_key>"


class _State(threading.local):
    """Which of these functions run on this thread, and autograd's number of each forward node with the node's stack."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.forward: dict[int, str] = {}


@contextmanager
def retraced(emit: Emit) -> Iterator[None]:
    """Keep the user's stack in the meta of each node that is traced while a graph inside flex attention runs."""
    from torch.fx.experimental.proxy_tensor import PythonKeyTracer

    flex_attention = import_module("torch._higher_order_ops.flex_attention")  # the package has the operator under that name
    state = _State()

    def running(*_: Any, function: str, **__: Any) -> Iterator[None]:
        state.running.append(function)
        try:
            yield
        finally:
            state.running.pop()
            state.forward.clear()

    def created(node: Any, tracer: Any, kind: str, *_: Any, **__: Any) -> None:
        if state.running and kind == "call_function":
            gradient = _gradient_under_way() if state.running[-1] == DIFFERENTIATES else None
            if gradient is None:
                _note(node, state.forward)
            elif stack := state.forward.get(gradient):
                node.meta[STACK] = stack

    with ExitStack() as stack:
        for name in RUNNING:
            stack.enter_context(observed(flex_attention, name, partial(running, function=name)))
        stack.enter_context(followed(PythonKeyTracer, "create_node", created))
        yield


def _gradient_under_way() -> int | None:
    """Return autograd's number of the operator that is differentiated; None during a forward."""
    import torch

    node = torch._C._current_autograd_node()
    return None if node is None else int(node._sequence_nr())


def _note(node: Any, forward: dict[int, str]) -> None:
    """Keep in a new node's meta which node it is traced for, if that is known."""
    import torch

    original = _under_way()
    if original is None:
        return
    meta = original.meta
    if stack := meta.get(STACK) or meta.get("stack_trace"):
        node.meta[STACK] = stack
        forward.setdefault(torch.autograd._get_sequence_nr() - 1, stack)
    name = meta.get(NAME) or (original.name if "example_value" in meta else None)  # only Dynamo's nodes have an example value
    if name:
        node.meta[NAME] = name


def _under_way() -> Any:
    """Find the node that the innermost generated code on the Python stack computes; None for none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(GENERATED):
        frame = frame.f_back
    if frame is None:
        return None
    module = frame.f_locals.get("self")
    first, places = getattr(module, "_prologue_start", None), getattr(module, "_lineno_map", None)
    if module is None or first is None or places is None:  # a torch that does not say where the code begins
        return None
    number = places.get(frame.f_lineno - first)
    nodes = list(module.graph.nodes)
    return nodes[number] if number is not None and number < len(nodes) else None


def traced_stack(meta: Any) -> str:
    """Return the user's stack of an FX node, by its meta: the stack it was traced for, or else the stack that torch states."""
    return str(meta.get(STACK) or meta.get("stack_trace") or "")
