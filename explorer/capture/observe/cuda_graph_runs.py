"""Observe what calls do with CUDA graphs: warm up, record, record again and why, replay, or run without one.

torch keeps its CUDA graphs in trees. A graph is replayed where the tree has a recording that fits the inputs and the graphs that
ran before; otherwise torch records it again. torch says why only in a debug log, and not in which function.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any, NamedTuple

from explorer.capture.observe.context import graph_of
from explorer.capture.observe.cuda_graph_reasons import decision_of
from explorer.capture.observe.patch import Guard, followed, guard_here, guarding, observed
from explorer.model.stage import Emit
from explorer.stages.inductor.cuda_graph import (
    MOVED_INPUT,
    MOVED_OUTPUT,
    NEW_SIZE,
    OTHER_PLACE,
    OTHER_THREAD,
    RECORDED,
    RECORDED_AGAIN,
    REPLAYED,
    SKIPPED_CALL,
    STEP_NOT_OVER,
    STILL_ALIVE,
    WARMED_UP,
    CudaGraphDecision,
)

#: Most sizes, or inputs, that a reason names.
MAX_NAMED = 8
#: Most reasons of one graph: a job may run for days.
MAX_REASONS = 100
FIRST_CALL, FIRST_RECORDING = "its first call", "its first recording"
BESIDE_ANOTHER = "while another graph of the step warms up"
OTHER_REASONS = "other reasons, not listed"
#: Why a graph is called without a CUDA graph, where torch said so before it was recorded, or not at all.
CHANGES_INPUT = "it changes an input that no CUDA graph made"
TOO_OFTEN = "it was recorded more often than torch._inductor.config.triton.cudagraph_unexpected_rerecord_limit"
#: Why torch rejects a recording for a call, by the name of its CheckInvariantStatus.
REASONS = {
    "StaticInputIdxMismatch": MOVED_INPUT,
    "CudagraphManagedIdxMismatch": MOVED_OUTPUT,
    "ExpectedDeadIndicesBeforeGraphMismatch": STILL_ALIVE,
}


class Reason(NamedTuple):
    """Why calls did something with a graph: what the reason names, the Python stack, and the compile id of the graph before."""

    cause: str
    names: tuple[str, ...] = ()
    stack: str = ""
    after: str = ""


FITS = Reason("a recording fits the call")


class _Tally:
    """How often calls did something for one reason, how long it took, and the sizes of the inputs where these are why."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds: float | None = None
        self.sizes: dict[str, None] = {}


class _Graph:
    """One compiled graph, or one part of it, and what calls did with its CUDA graphs."""

    def __init__(self, frame: str, graph: str, part: int) -> None:
        self.frame, self.graph, self.part = frame, graph, part
        self.tallies: dict[tuple[str, Reason], _Tally] = {}
        #: The sizes for which it was warmed up and recorded, by the function that torch made for them.
        self.warm: dict[tuple[int, int], str] = {}
        self.recorded: dict[tuple[int, int], str] = {}
        self.skipped: Reason | None = None
        self._lock = threading.Lock()

    def add(self, did: str, why: Reason, seconds: float | None = None, size: str = "") -> None:
        """Count something that a call did."""
        with self._lock:
            if (did, why) not in self.tallies and len(self.tallies) >= MAX_REASONS:
                why = Reason(OTHER_REASONS)
            tally = self.tallies.setdefault((did, why), _Tally())
            tally.count += 1
            if seconds is not None:
                tally.seconds = (tally.seconds or 0.0) + seconds
            if size:
                tally.sizes[size] = None

    def decisions(self, parts: int) -> Iterator[CudaGraphDecision]:
        """Yield a row for each thing that calls did, and for each reason."""
        what = f"part {self.part + 1}" if parts > 1 else "the graph"
        for (did, why), tally in self.tallies.items():
            details = ", ".join((*why.names, *_some([*tally.sizes])))
            yield CudaGraphDecision(
                decision=did,
                what=what,
                reason=f"{why.cause}: {details}" if details else why.cause,
                stack=why.stack,
                count=tally.count,
                seconds=tally.seconds,
                after=why.after or None,
            )


def _some(names: Sequence[str]) -> tuple[str, ...]:
    """The first names, and how many more there are."""
    more = len(names) - MAX_NAMED
    return (*names[:MAX_NAMED], *([f"and {more} more"] if more > 0 else []))


class _Call:
    """One call of a graph: whether it is known what it did, and the recording that torch last rejected, with its status."""

    def __init__(self, graph: _Graph) -> None:
        self.graph = graph
        self.counted = False
        self.rejected: tuple[str, Any] | None = None


class CudaGraphRuns:
    """What calls did with the CUDA graphs that were compiled in a recording."""

    def __init__(self) -> None:
        self._graphs: list[_Graph] = []
        self._graph_by_id: dict[int, _Graph] = {}  # of the function that torch records
        self._parts: dict[tuple[str, str], int] = {}
        self._here = threading.local()

    def compiled(self, model: Any, frame: str, graph: str) -> None:
        """Note which graph a function is that torch will record."""
        part = self._parts[frame, graph] = self._parts.get((frame, graph), -1) + 1
        self._graphs.append(_Graph(frame, graph, part))
        self._graph_by_id[id(model)] = self._graphs[-1]

    def graph(self, manager: Any, function: Any) -> _Graph | None:
        """Return the graph of a function of the tree; None if it was not compiled in this recording."""
        return self._graph_by_id.get(id(manager.ids_to_funcs[function].model))

    @property
    def call(self) -> _Call | None:
        """The call under way in this thread."""
        return getattr(self._here, "call", None)

    def skipped(self, message: str) -> bool:
        """Count a call that torch says it runs without a CUDA graph; False if that is no call of a known graph."""
        call = self.call
        if call is None:
            return False
        decision = decision_of(SKIPPED_CALL, message)
        call.graph.skipped = Reason(decision.reason, stack=decision.stack)
        call.graph.add(SKIPPED_CALL, call.graph.skipped)
        call.counted = True
        return True

    def emit(self, emit: Emit) -> None:
        """Record all of it."""
        for graph in self._graphs:
            with emit.within(graph.frame), emit.during(graph.graph):
                for row in graph.decisions(self._parts[graph.frame, graph.graph] + 1):
                    emit("cuda_graph", lambda r=row: r)  # type: ignore[misc]

    # What torch's tree does ---------------------------------------------------------------------------------------------

    def ran(self, manager: Any, new_inputs: Any, function_id: Any) -> Iterator[None]:
        """Observe a call. Where it ends the graphs before it, torch asks the tree again from inside: that is the same call."""
        graph = self.graph(manager, function_id)
        if graph is None:
            return
        outer = self.call
        call = outer if outer is not None and outer.graph is graph else _Call(graph)
        self._here.call = call
        try:
            yield
        finally:
            self._here.call = outer
        if not call.counted:
            call.counted = True
            graph.add(SKIPPED_CALL, graph.skipped or _why_skipped(manager, function_id))

    def checked(self, result: Any, node: Any, inputs: Any) -> None:
        """Note whether a recording fits the call; torch then replays it."""
        call = self.call
        if call is None:
            return
        status = result[0].name
        if status == "SUCCESS":
            call.counted = True
            call.graph.add(REPLAYED, FITS)
        else:
            call.rejected = status, node

    def warmed_up(self, manager: Any, new_inputs: Any, function_id: Any) -> Iterator[None]:
        """Observe a run that warms up the graph, or another one after it."""
        call = self.call
        if call is None:
            return
        warm = call.graph.warm
        number, sizes = _number(manager, function_id), _sizes(new_inputs)  # before torch clears the list
        if number in warm:
            why = Reason(STEP_NOT_OVER if _in_open_step(manager, function_id) else BESIDE_ANOTHER)
        else:
            why = _why_new(sizes, warm, FIRST_CALL)
        call.counted, began = True, perf_counter()
        yield
        warm[number] = sizes
        call.graph.add(WARMED_UP, why, perf_counter() - began, sizes if why.cause == NEW_SIZE else "")

    def recorded(self, manager: Any, new_inputs: Any, function_id: Any) -> Iterator[None]:
        """Observe a recording."""
        call = self.call
        if call is None:
            return
        recorded = call.graph.recorded
        number, sizes = _number(manager, function_id), _sizes(new_inputs)  # before torch clears the list
        did = RECORDED_AGAIN if recorded else RECORDED
        if number in recorded:
            why = self._why_again(manager, new_inputs, function_id, call)
        else:
            why = _why_new(sizes, recorded, FIRST_RECORDING)
        call.counted, began = True, perf_counter()
        yield
        recorded[number] = sizes
        call.graph.add(did, why, perf_counter() - began, sizes if why.cause == NEW_SIZE else "")

    def _why_again(self, manager: Any, inputs: Any, function: Any, call: _Call) -> Reason:
        """Say why no recording of a function fits the call."""
        before = manager.current_node
        beside = (manager.roots if before is None else before.children).get(function) or ()
        status, node = call.rejected or ("", None)
        if any(node is each for each in beside):
            return _why_rejected(status, node, inputs)
        if before is None:
            return Reason(f"{OTHER_PLACE}: now it is the first of a step")
        if _in_open_step(manager, function):
            return Reason(STEP_NOT_OVER)
        graph = self._graph_by_id.get(id(before.wrapped_function.model))
        return Reason(f"{OTHER_PLACE}: the {graph.graph} graph of", after=graph.frame) if graph else Reason(OTHER_PLACE)


# Why ---------------------------------------------------------------------------------------------------------------------


def _why_new(sizes: str, known: Mapping[tuple[int, int], str], first: str) -> Reason:
    """Say why torch makes another function for a graph: it makes one for each size, in each thread."""
    if not known:
        return Reason(first)
    return Reason(OTHER_THREAD if sizes in known.values() else NEW_SIZE)


def _in_open_step(manager: Any, function: Any) -> bool:
    """Whether a function runs again in a step that torch does not end, as for a forward that waits for its backward."""
    step = manager.current_node._path_from_root if manager.current_node is not None else ()
    runs_again = any(node.wrapped_function.id == function for node in step)
    return runs_again and manager.in_new_torch_compile_invocation() and not manager.can_start_new_generation()


def _why_rejected(status: str, node: Any, inputs: Any) -> Reason:
    """Say why torch rejects a recording: by the names of inputs at other addresses, or at the line of a live output."""
    cause = REASONS.get(status, status)
    if cause == STILL_ALIVE:
        dead = node.expected_dead_indices_before_graph
        alive = [place for place in dead if not node._check_liveness([place], node.path_weakrefs)]
        return Reason(cause, stack=_stack_of_output(node, alive[0]) if alive else "")
    moved = _moved_inputs(node, inputs, node.cudagraph_managed_idxs if cause == MOVED_OUTPUT else range(len(inputs)))
    placeholders = node.wrapped_function.placeholders
    named = [placeholders[index] for index in moved if index < len(placeholders)]
    return Reason(cause, _some([each.name for each in named]), _stack_of_inputs(named))


def _moved_inputs(node: Any, inputs: Any, indices: Iterable[int]) -> list[int]:
    """The inputs whose addresses are not those of the recording."""
    addresses = node.static_input_data_ptrs
    return [index for index in indices if addresses[index] is not None and addresses[index] != inputs[index].data_ptr()]


def _stack_of_inputs(placeholders: Iterable[Any]) -> str:
    """The first Python stack that torch has of some inputs, or of what uses them."""
    from torch._inductor.cudagraph_utils import get_placeholder_stack_trace

    return next(filter(None, map(get_placeholder_stack_trace, placeholders)), "")


def _stack_of_output(node: Any, place: tuple[int, int]) -> str:
    """The Python stack of an output of a graph that ran before."""
    depth, index = place
    return next(iter((node.path_stacktraces[depth] or ())[index : index + 1]), None) or ""


def _why_skipped(manager: Any, function: Any) -> Reason:
    """Say why torch runs a graph without a CUDA graph, where it does not say so itself: it does once for each function."""
    too_often = manager.exceed_rerecord_limit(manager._get_node_id(), function)
    return Reason(TOO_OFTEN if too_often else CHANGES_INPUT)


def _number(manager: Any, function: Any) -> tuple[int, int]:
    return id(manager), function.id


def _sizes(inputs: Any) -> str:
    """The sizes among the inputs; torch passes those that are dynamic as numbers."""
    return " × ".join(str(each) for each in inputs if isinstance(each, int))


@contextmanager
def cuda_graph_runs(emit: Emit) -> Iterator[CudaGraphRuns]:
    """Record what calls do with the CUDA graphs of what is compiled inside the block."""
    from torch._inductor import compile_fx, cudagraph_trees

    runs = CudaGraphRuns()

    def compiled(model: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        if frame := emit.here().frame:  # Inductor calls the second of the two again when the graph is called
            runs.compiled(model, frame, graph_of(kwargs))
        yield

    here = guard_here()
    with ExitStack() as stack:
        stack.enter_context(observed(compile_fx, "cudagraphify", compiled))
        stack.enter_context(observed(cudagraph_trees, "cudagraphify_impl", compiled))
        # a graph is called in any thread, as a backward in one of autograd's; only graphs that were compiled here are counted
        with guarding(Guard(lambda: True, here.errors, stage=here.stage, here=True)):
            stack.enter_context(observed(cudagraph_trees.CUDAGraphTreeManager, "_run", runs.ran))
            stack.enter_context(observed(cudagraph_trees.CUDAGraphTreeManager, "run_eager", runs.warmed_up))
            stack.enter_context(observed(cudagraph_trees.CUDAGraphTreeManager, "record_function", runs.recorded))
            stack.enter_context(followed(cudagraph_trees.CUDAGraphNode, "check_invariants", runs.checked))
        try:
            yield runs
        finally:
            runs.emit(emit)
