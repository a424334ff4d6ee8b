"""Watch Inductor decide what becomes one kernel: each pair its scheduler asks about, each buffer lowering makes, each kernel.

One event per graph; `scheduler_log` has what it holds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from explorer.capture.observe.patch import followed, guard_here, guarding, observed, preceded, replaced
from explorer.capture.observe.scheduler_log import Log
from explorer.capture.observe.subclasses import defining_kernels
from explorer.capture.observe.versions import graph_generators
from explorer.model.stage import Emit
from explorer.stages.inductor.reasons import Rule
from explorer.stages.inductor.verdicts import Round


@contextmanager
def verdicts(emit: Emit) -> Iterator[None]:
    """Record the fusions that the scheduler considered and chose in each graph, and which kernel each group became."""
    logs = Logs(emit)
    with ExitStack() as stack:
        for owner, name, make in (*_SchedulerHooks(logs).all(), *_graph_hooks(logs), *_kernel_hooks(logs)):
            stack.enter_context(replaced(owner, name, make))
        for observing in (*_graph_ends(logs), *_kernel_definitions(logs)):
            stack.enter_context(observing)
        yield


class Logs:
    """The log of each graph under way, by the graph's identity; a nested graph has its own."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.guard = guard_here()
        self._logs: dict[int, Log] = {}

    def of(self, graph: Any) -> Log:
        """The log of a GraphLowering."""
        if id(graph) not in self._logs:
            self._logs[id(graph)] = Log(graph)
        return self._logs[id(graph)]

    def now(self) -> Log:
        """The log of the graph under way."""
        from torch._inductor.virtualized import V

        return self.of(V.graph)

    def weigh(self, nodes: Sequence[Any]) -> None:
        """Add the bytes and operations of each final node. A node that fails is recorded and does not stop the others."""
        log = self.now()
        for place, (_, node) in enumerate(zip(log.final, nodes, strict=False)):  # no final node where `Log.end` failed
            self.attempt("work", partial(log.weigh, place, node))

    def close(self, graph: Any) -> None:
        """Emit the log of a graph that is done, or that failed."""
        log = self._logs.pop(id(graph), None)
        if log is not None and log.names:
            self.emit("fusion", log.record)

    def attempt(self, step: str, action: Callable[[], object]) -> None:
        """Run explorer's own work; an error in it is recorded, and the compile goes on."""
        self.emit.attempt("fusion", step, action)


#: What is replaced: its owner, its name, and what makes the replacement of the original.
Hook = tuple[Any, str, Callable[[Any], Any]]


class _SchedulerHooks:
    """Replacements of the scheduler's functions: each calls the original and notes what came of it."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    def all(self) -> list[Hook]:
        """List the functions to replace."""
        from torch._inductor import scheduler

        kind = scheduler.Scheduler
        return [
            (kind, "__init__", self.scheduled),
            (kind, "fuse_nodes", self.rounds),
            (kind, "fuse_nodes_once", self.round),
            (kind, "get_possible_fusions", self.possible),
            (kind, "can_fuse", self.asked),
            (kind, "will_fusion_create_cycle", self.cycle),
            (kind, "fuse_two_nodes", self.fused),
            (scheduler.WhyNoFuse, "__call__", self.reason),
        ]

    def scheduled(self, original: Any) -> Any:
        """Note the final nodes when the scheduler is done."""
        logs = self._logs

        def __init__(scheduler: Any, *args: Any, **kwargs: Any) -> None:
            original(scheduler, *args, **kwargs)
            logs.attempt("end", lambda: logs.now().end(scheduler))
            logs.attempt("work", lambda: logs.weigh(scheduler.nodes))

        return __init__

    def rounds(self, original: Any) -> Any:
        """Note the nodes before any fusion, and the scores of pairs in all rounds."""
        logs = self._logs

        def fuse_nodes(scheduler: Any, nodes: Any, *args: Any, **kwargs: Any) -> Any:
            log = logs.now()
            logs.attempt("begin", lambda: log.begin(nodes))
            with _recorded_choices(log, logs):
                return original(scheduler, nodes, *args, **kwargs)

        return fuse_nodes

    def round(self, original: Any) -> Any:
        """Note how many nodes there are before a round and after it."""
        logs = self._logs

        def fuse_nodes_once(scheduler: Any, nodes: Any, *args: Any, **kwargs: Any) -> Any:
            log, reorder = logs.now(), bool(kwargs.get("is_reorder_round", args[0] if args else False))
            log.rounds.append(Round(before=len(nodes), after=len(nodes), reorder=reorder))
            result = original(scheduler, nodes, *args, **kwargs)
            logs.attempt("round", log.refuse_unfused_pair)
            log.rounds[-1] = replace(log.rounds[-1], after=len(result))
            return result

        return fuse_nodes_once

    def possible(self, original: Any) -> Any:
        """Note that the scheduler only lists the pairs that it asks about now."""
        logs = self._logs

        def get_possible_fusions(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            log = logs.now()
            log.asking = True
            try:
                return original(scheduler, *args, **kwargs)
            finally:
                log.asking = False

        return get_possible_fusions

    def asked(self, original: Any) -> Any:
        """Note the answer on a pair; questions that the scheduler asks itself on the way there are left out."""
        logs = self._logs

        def can_fuse(scheduler: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
            log = logs.now()
            if log.depth or not log.rounds or node1 is node2:
                return original(scheduler, node1, node2, *args, **kwargs)

            def ask() -> Any:
                return original(scheduler, node1, node2, *args, **kwargs)

            log.depth, log.reason, log.shared = 1, None, None
            try:
                answer = ask()
                logs.attempt("verdict", lambda: log.record_answer(node1, node2, bool(answer), ask))
            finally:
                log.depth = 0
            return answer

        return can_fuse

    def cycle(self, original: Any) -> Any:
        """Note a pair whose fusion would make a cycle."""
        logs = self._logs

        def will_fusion_create_cycle(scheduler: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
            answer = original(scheduler, node1, node2, *args, **kwargs)
            if answer:
                logs.attempt("cycle", lambda: logs.now().cycle(node1, node2, _in_between(scheduler, node1, node2)))
            return answer

        return will_fusion_create_cycle

    def fused(self, original: Any) -> Any:
        """Note a pair that became one node."""
        logs = self._logs

        def fuse_two_nodes(scheduler: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
            fused = original(scheduler, node1, node2, *args, **kwargs)
            logs.attempt("fused", lambda: logs.now().fused(node1, node2, fused))
            return fused

        return fuse_two_nodes

    def reason(self, original: Any) -> Any:
        """Note what the scheduler gives as the reason of a refusal."""
        logs = self._logs

        def __call__(why: Any, reason: str, *args: Any) -> Any:
            log = logs.now()
            if log.depth:
                log.reason, log.arguments = Rule(reason, "", 0, ""), args
            return original(why, reason, *args)

        return __call__


def _in_between(scheduler: Any, node1: Any, node2: Any) -> list[Any]:
    """The fused nodes on a path from one of two nodes to the other."""
    ours = {*node1.get_operation_names(), *node2.get_operation_names()}
    waiting = [scheduler.name_to_fused_node[name] for name in {*node1.ancestors, *node2.ancestors} - ours]
    seen: dict[Any, None] = {}
    while waiting:
        node = waiting.pop()
        if node in seen or len(node.get_nodes()) == 1:
            continue
        seen[node] = None
        waiting += [scheduler.name_to_fused_node[name] for name in {*node.ancestors} - ours]
    return [node for node in seen if ours & {*node.ancestors}]


@contextmanager
def _recorded_choices(log: Log, logs: Logs) -> Iterator[None]:
    """Note what the active handler in `V.choices` is asked about each pair."""
    from torch._inductor.virtualized import V

    def can_fuse(scheduler: Any, node1: Any, node2: Any, shared_data_score: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(shared_data_score, int) and log.shared is None:
            log.shared = shared_data_score

    def score_fusion(score: Any, scheduler: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> None:
        log.scored(node1, node2, score)

    with ExitStack() as stack:
        with guarding(logs.guard):
            stack.enter_context(preceded(V.choices, "can_fuse", can_fuse))
            stack.enter_context(followed(V.choices, "score_fusion", score_fusion))
        yield


def _graph_hooks(logs: Logs) -> list[Hook]:
    """The function of a graph's lowering that makes buffers."""
    from torch._inductor import ir

    def make_realize(original: Any) -> Any:
        def realize(self: Any, *args: Any, **kwargs: Any) -> Any:
            loops = self.data
            name = original(self, *args, **kwargs)
            if self.data is not loops:
                frame = sys._getframe(1)
                logs.attempt("realize", lambda: logs.now().realized(name, loops, frame))
            return name

        return realize

    return [(ir.StorageBox, "realize", make_realize)]


def _graph_ends(logs: Logs) -> Iterator[AbstractContextManager[None]]:
    """Observe the end of each graph, where its event is emitted."""
    from torch._inductor import graph

    def generated(self: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        try:
            yield
        finally:
            logs.attempt("graph", lambda: logs.close(self))

    for name in graph_generators():
        yield observed(graph.GraphLowering, name, generated)


def _kernel_hooks(logs: Logs) -> list[Hook]:
    """Return the hook on the function with which Inductor names a kernel that the user wrote."""
    from torch._inductor import ir

    def make_comment(original: Any) -> Any:
        def codegen_comment(self: Any, wrapper: Any, *args: Any, **kwargs: Any) -> Any:
            kernel_name = kwargs.get("kernel_name", args[0] if args else None)
            if kernel_name:
                log = logs.now()
                nodes = [n for n in getattr(log.graph.scheduler, "nodes", ()) if getattr(n, "node", None) is self]
                logs.attempt("kernel", lambda: log.kernel(str(kernel_name), nodes))
            return original(self, wrapper, *args, **kwargs)

        return codegen_comment

    return [(ir.ExternKernel, "codegen_comment", make_comment)]


def _kernel_definitions(logs: Logs) -> Iterator[AbstractContextManager[None]]:
    """Observe each backend's writing of a kernel."""

    def defined(_: Any, source: Any, nodes: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        name = yield
        logs.attempt("kernel", lambda: logs.now().kernel(str(name), nodes))

    for kind in defining_kernels():
        yield observed(kind, "define_kernel", defined)
