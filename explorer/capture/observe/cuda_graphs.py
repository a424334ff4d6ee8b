"""Observe whether a graph is captured in a CUDA graph, and why not, or why again.

With `mode="reduce-overhead"` or "max-autotune" Inductor captures what it can. Some reasons against it are known when a graph
is compiled, others when it is called: both are recorded, each with the user's line where torch has kept one.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.cuda_graph_reasons import SECOND_CALL, changed_inputs, decision_of, named_in
from explorer.capture.observe.cuda_graph_runs import cuda_graph_runs
from explorer.capture.observe.cuda_graphs_backend import captured_by_backend
from explorer.capture.observe.patch import replaced
from explorer.capture.observe.places import OWN_FOLDER
from explorer.capture.observe.versions import partitions_graphs
from explorer.model.stage import Emit
from explorer.stages.inductor.cuda_graph import (
    CAPTURED,
    IN_PARTS,
    NOT_THIS_PART,
    SKIPPED,
    SKIPPED_CALL,
    CudaGraphDecision,
)

#: What torch warns of in the same log where it skips nothing; the recordings have a row for it.
MANY_SIZES = "CUDAGraph supports dynamic shapes"
#: The folder of Python's own logging.
LOGGING_FOLDER = str(Path(logging.__file__).parent)


@contextmanager
def cuda_graphs(emit: Emit) -> Iterator[None]:
    """Record for each graph that was to be captured in a CUDA graph whether it is, and each reason against it."""
    from torch._inductor import cudagraph_utils
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.scheduler import Scheduler

    parts: dict[int, list[CudaGraphDecision]] = {}
    decided: set[str] = set()

    def make_partition(original: Any) -> Any:
        def graph_partition(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            emit.attempt("cuda_graph", "parts", lambda: parts.update({id(_lowering()): list(left_out(self))}))
            return result

        return graph_partition

    def make_compiled(original: Any) -> Any:
        signature = inspect.signature(original)

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            given = signature.bind(self, *args, **kwargs).arguments
            asked = bool(given.get("cudagraphs"))
            decided.add(current_compile_id())
            original(self, *args, **kwargs)
            found: list[CudaGraphDecision] = []
            left = parts.pop(id(given.get("graph")), [])
            if asked:
                emit.attempt("cuda_graph", "decision", lambda: found.extend(decisions(self, given, left)))
            for row in found:
                emit("cuda_graph", lambda r=row: r)  # type: ignore[misc]

        return __init__

    def make_said(original: Any) -> Any:
        def warning(message: str, *args: Any, **kwargs: Any) -> None:
            frame, said = current_compile_id(), message % args if args else message
            skips = frame not in decided  # a graph that is compiled has an event of its own; one from a cache has none
            if skips and not said.startswith(MANY_SIZES) and not runs.skipped(said):
                emit("cuda_graph", lambda: decision_of(SKIPPED if frame else SKIPPED_CALL, said))
            original(message, *args, **kwargs)

        return warning

    with ExitStack() as stack:
        if partitions_graphs():
            stack.enter_context(replaced(Scheduler, "graph_partition", make_partition))
        stack.enter_context(replaced(CompiledFxGraph, "__init__", make_compiled))
        stack.enter_context(captured_by_backend(emit, decided))
        runs = stack.enter_context(cuda_graph_runs(emit))
        stack.enter_context(logged_in_torch(cudagraph_utils.cudagraphs_log))
        stack.enter_context(replaced(cudagraph_utils.cudagraphs_log, "warning", make_said))
        yield


class _TorchsPlace(logging.Filter):
    """Restore torch's own file and line on a log record that went through explorer."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        frame: FrameType | None = sys._getframe(1) if record.pathname.startswith(OWN_FOLDER) else None
        while frame is not None and frame.f_code.co_filename.startswith((OWN_FOLDER, LOGGING_FOLDER)):
            frame = frame.f_back
        if frame is not None:
            record.pathname, record.lineno, record.funcName = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
            record.filename = Path(record.pathname).name
            record.module = Path(record.pathname).stem
        return True


@contextmanager
def logged_in_torch(log: logging.Logger) -> Iterator[None]:
    """Make the records of a log name torch's own file and line inside the block, not explorer's wrapper."""
    place = _TorchsPlace()
    log.addFilter(place)
    try:
        yield
    finally:
        log.removeFilter(place)


def _lowering() -> Any:
    """The GraphLowering under way."""
    from torch._inductor.virtualized import V

    return V.graph


def left_out(scheduler: Any) -> Iterator[CudaGraphDecision]:
    """Yield each scheduler node that cannot be captured, with Inductor's reason. Inductor splits the graph there."""
    from torch._inductor import config

    for node in scheduler.nodes if config.triton.cudagraphs else ():
        if reason := scheduler.should_partition(node):
            origins = [origin for part in node.get_nodes() for origin in origins_of(part)]
            stack = next((s for origin in origins if (s := origin.meta.get("stack_trace"))), "")
            names = ", ".join(dict.fromkeys(str(origin.target) for origin in origins if origin.op == "call_function"))
            what = f"{node.get_name()} ({names})" if names else str(node.get_name())
            yield CudaGraphDecision(decision=NOT_THIS_PART, what=what, reason=str(reason), stack=stack)


def origins_of(part: Any) -> list[Any]:
    """The FX nodes that a scheduler node comes from."""
    inner = getattr(part, "node", None)
    return list(inner.get_origins()) if inner is not None else []


def decisions(compiled: Any, given: Mapping[str, Any], left: list[CudaGraphDecision]) -> Iterator[CudaGraphDecision]:
    """Yield the decisions on one compiled graph: for the graph, for each part that is left out, and for each changed input."""
    from torch._inductor import config

    if "cuda" not in compiled.device_types:
        devices = ", ".join(sorted(map(str, compiled.device_types))) or "no device"
        yield decision_of(SKIPPED, f"the graph computes on {devices}, and CUDA graphs are captured on a CUDA device")
        return
    reason = compiled.disabled_cudagraphs_reason
    tests = getattr(compiled.cudagraph_info, "cudagraph_fail_reasons", None) or ()
    if reason or tests:
        skipped = decision_of(SKIPPED, str(reason or ", ".join(map(str, tests))))
        yield replace(skipped, stack=skipped.stack or named_in(skipped.reason, given["gm"]))
        return
    partitions = compiled.partition_maps if getattr(config, "graph_partition", False) else None
    static = set(given.get("static_input_idxs") or ())
    changed = list(changed_inputs(given["gm"], set(compiled.mutated_input_idxs) - static))
    if partitions is not None and not partitions:
        yield decision_of(SKIPPED, "no part of the graph can be captured")
    elif left:
        yield decision_of(IN_PARTS, f"{len(partitions or ())} of its parts, and not what stands between them")
    elif not changed:
        yield decision_of(CAPTURED, SECOND_CALL)
    yield from left
    yield from changed
