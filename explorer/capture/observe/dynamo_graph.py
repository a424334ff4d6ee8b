"""Observe the FX graph that Dynamo hands to the backend, and the functions that are inlined into it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.functions import emit_inlined_functions
from explorer.capture.observe.fx import graph_record
from explorer.capture.observe.fx_copy import GraphCopy, copied
from explorer.capture.observe.patch import followed, observed
from explorer.model.stage import Emit, Unmade
from explorer.stages.fx_graph import FxGraphText


@contextmanager
def graph(emit: Emit) -> Iterator[None]:
    """Record the FX graph of each frame at the moment it is handed to the backend, whichever that is.

    The source of each function that was inlined into the graphs is recorded when the recording ends.
    """
    from torch._dynamo.output_graph import OutputGraph

    stacks: list[tuple[str, str]] = []
    made = MadeAt()

    def record(gm: Any) -> FxGraphText | Unmade:
        found = copied(gm, made.stack) or graph_record(gm, made.stack)
        stacks.extend((current_compile_id(), stack) for stack in found.stacks or ())
        made.forget()
        return found.written if isinstance(found, GraphCopy) else found

    def called(output: Any, gm: Any, *rest: Any, **named: Any) -> Iterator[None]:
        emit("dynamo", lambda: record(gm))
        yield

    with observed(OutputGraph, "call_user_compiler", called), made.watching():
        yield
    emit.attempt("source", "inlined functions", lambda: emit_inlined_functions(emit, stacks, made.codes))


class MadeAt:
    """Keep the stack at which Dynamo made each node, for nodes without their own stack trace.

    Dynamo leaves torch's own modules out of its stacks, so that the user's line is the innermost. A frame that traces only
    torch's modules, for example an nn.Sequential, would have no stack left. Dynamo also writes no stack for switches like
    autocast. The stacks are kept until the graph is handed on.
    """

    def __init__(self) -> None:
        self._calls: dict[Any, list[traceback.FrameSummary]] = {}
        self.codes: dict[CodeType, None] = {}  # of all calls seen

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note the stack whenever Dynamo makes a node."""
        from torch._dynamo.output_graph import SubgraphTracer
        from torch.fx import Graph

        def copied(copy: Any, graph: Any, node: Any, *args: Any, **kwargs: Any) -> None:
            if node in self._calls:  # such as the body of an autograd.Function, which Dynamo copies into another graph
                self._calls[copy] = self._calls[node]

        def created(node: Any, tracer: Any, *args: Any, **kwargs: Any) -> None:
            self._note(node, tracer.output_graph.current_tx)

        with followed(SubgraphTracer, "create_node", created), followed(Graph, "node_copy", copied):
            yield
        self.forget()

    def _note(self, node: Any, frame: Any) -> None:
        calls = []
        while frame is not None:
            calls.append(frame.frame_summary())
            if isinstance(code := getattr(frame, "f_code", None), CodeType):
                self.codes[code] = None
            frame = getattr(frame, "parent", None)
        self._calls[node] = calls[::-1]

    def stack(self, node: Any) -> str:
        """The calls as Python's traceback writes them, outermost first; "" for a node that Dynamo did not make."""
        return "".join(traceback.StackSummary.from_list(self._calls.get(node, ())).format())

    def forget(self) -> None:
        """Keep nothing of the graphs seen so far."""
        self._calls.clear()
