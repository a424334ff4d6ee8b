"""Observe PyTorch's own backend of CUDA graphs, `backend="cudagraphs"`: what it captures, and why not.

It captures AOTAutograd's graphs without a compiler. A graph that it cannot capture is run by PyTorch, operator by operator,
and the result is the same: only its log says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from explorer.capture.observe.aot import emit_aot_graph
from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.cuda_graph_reasons import SECOND_CALL, changed_inputs, decision_of, named_in
from explorer.capture.observe.patch import followed, replaced
from explorer.model.stage import Emit
from explorer.stages.inductor.cuda_graph import CAPTURED, SKIPPED, CudaGraphDecision

#: The graph that each of the backend's three compilers is given.
GRAPHS: Mapping[str, str] = MappingProxyType(
    {"fw_compiler": "forward", "bw_compiler": "backward", "inference_compiler": "inference"}
)
NO_FORWARD = "the forward graph is not captured, and without it the backward is not"
#: Torch's words for inputs that a graph changes; it does not name them.
MUTATED = "mutated inputs"
IN_PLACE = "PyTorch runs the graph in its place, operator by operator"


@contextmanager
def captured_by_backend(emit: Emit, decided: set[str]) -> Iterator[None]:
    """Record for each graph of the backend whether it is captured, and why not; its frames are added to `decided`."""
    from torch._dynamo.backends import cudagraphs

    checks: dict[int, tuple[str | None, int]] = {}

    def checked(skip: str | None, gm: Any, fixed: int) -> None:
        checks[id(gm)] = (skip, fixed)

    def deciding(compiler: Callable[..., Any], graph: str) -> Callable[..., Any]:
        def compile_graph(gm: Any, inputs: Any) -> Any:
            decided.add(current_compile_id())
            with emit.during(graph):
                emit_aot_graph(emit, gm, graph)
                compiled = compiler(gm, inputs)
                rows: list[CudaGraphDecision] = []
                emit.attempt("cuda_graph", "decision", lambda: rows.extend(_decisions(gm, *checks.pop(id(gm), (NO_FORWARD, 0)))))
                for row in rows:
                    emit("cuda_graph", lambda r=row: r)  # type: ignore[misc]
            return compiled

        return compile_graph

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def aot_autograd(**arguments: Any) -> Any:
            named = {name: deciding(arguments[name], GRAPHS[name]) for name in GRAPHS if name in arguments}
            return original(**{**arguments, **named})

        return aot_autograd

    with ExitStack() as stack:
        stack.enter_context(replaced(cudagraphs, "aot_autograd", make))
        stack.enter_context(followed(cudagraphs, "check_for_skip", checked))
        yield


def _decisions(gm: Any, skip: str | None, fixed: int) -> Iterator[CudaGraphDecision]:
    """Yield the decisions on one graph: that it is captured, or torch's reason against it, and the inputs that it changes.

    The first `fixed` inputs are parameters and values that the forward saved. Their memory stays at one address.
    """
    from torch._dynamo.backends.cudagraphs import find_input_mutations

    changed = find_input_mutations(gm.graph) - set(range(fixed))
    if not skip:
        rows = list(changed_inputs(gm, changed))
        yield from rows or [decision_of(CAPTURED, SECOND_CALL)]
        return
    row = decision_of(SKIPPED, skip)
    inputs = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    which = f", {', '.join(inputs[index] for index in sorted(changed))}" if MUTATED in row.reason else ""
    yield replace(row, reason=f"{row.reason}{which}; {IN_PLACE}", stack=row.stack or named_in(row.reason, gm))
