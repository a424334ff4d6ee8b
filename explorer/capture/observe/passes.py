"""Observe Inductor's FX passes: which of them changed a graph, and how."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType
from typing import Any

from explorer.capture.observe.context import PART_OF_REGION, REGION, ROUNDS
from explorer.capture.observe.fx import line_of, stacks_of, target_name
from explorer.capture.observe.patch import guard_here, guarding, observed, replaced
from explorer.model.shared import Names
from explorer.model.stage import Emit
from explorer.stages.inductor.fx_pass import FxPassIdle, FxPassText


class PassWatch:
    """Watches each FX pass and records those that changed the graph: nodes made and erased, text before and after.

    Two states of a graph are compared by the identity of each node's target and arguments, which takes 0.3 µs a node. The text
    before a pass is the text after the last one that changed something. Of passes that changed nothing only the names and the
    seconds are kept, in `idle`.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._section = ""
        self._depth = 0
        self._graph: Any = None
        self._state: list[tuple[Any, ...]] = []
        self._lines: list[str] = []
        self._replaced: dict[Any, list[Any]] = {}
        self._idle: list[tuple[str, float]] = []
        self._parts: set[Any] = set()

    def replaces(self, old: Any, new: Any) -> None:
        """Note that a new node takes the place of an old one in all its uses, and so comes from it."""
        if self._section:
            self._replaced.setdefault(new, []).append(old)

    def decomposes(self, old: Any, before: Any) -> None:
        """Note that the nodes between `before` and an old node, which is about to be erased, were made in its place."""
        new = old.prev
        while new is not before:
            self.replaces(old, new)
            self._parts.add(new)
            new = new.prev

    def _origins(self, node: Any, before: set[Any]) -> set[str]:
        """Name the nodes of the earlier graph that a node took the place of, also by way of nodes made in between."""
        names: set[str] = set()
        seen, queue = {node}, [node]
        while queue:
            for old in self._replaced.get(queue.pop(), ()):
                if old in before:
                    names.add(old.name)
                elif old not in seen:
                    seen.add(old)
                    queue.append(old)
        return names

    @contextmanager
    def section(self, name: str, gm: Any) -> Iterator[None]:
        """Watch one of Inductor's rounds of passes ("pre_grad", "joint", "post_grad") over `gm`."""
        outer = self._section, self._graph, self._state, self._lines, self._idle
        self._section, self._idle = name, []
        self._emit.attempt("fx_pass", name, lambda: self._remember(gm.graph))
        try:
            yield
            self._emit.attempt("fx_pass", name, lambda: self._compare(gm.graph, "(outside a named pass)", 0.0))
            if last := self._idle:
                self._emit("fx_pass_idle", lambda: FxPassIdle(section=name, of=self._emit.here().path, idle=tuple(last)))
        finally:
            self._section, self._graph, self._state, self._lines, self._idle = outer

    def entered(self, gm: Any) -> float:
        """Note that a pass begins; what changed since the last one is recorded as made outside a named pass."""
        self._depth += 1
        if self._depth == 1 and self._section:
            self._emit.attempt("fx_pass", "begin", lambda: self._compare(gm.graph, "(outside a named pass)", 0.0))
        return time.perf_counter()

    def left(self, gm: Any, name: str, started: float) -> None:
        """Note that a pass ended, and record its changes to the graph."""
        self._depth -= 1
        seconds = time.perf_counter() - started
        if self._depth == 0 and self._section:
            self._emit.attempt("fx_pass", name, lambda: self._ended(gm.graph, name, seconds))

    def inner(self, gm: Any, outer: str, name: str) -> Iterator[None]:
        """Record a pass that another one runs, and first what that one did itself since the last."""
        if self._depth != 1 or not self._section:
            yield
            return
        self._emit.attempt("fx_pass", "begin", lambda: self._compare(gm.graph, outer, 0.0))
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self._emit.attempt("fx_pass", name, lambda: self._ended(gm.graph, f"{outer}: {name}", seconds))

    def _ended(self, graph: Any, name: str, seconds: float) -> None:
        if not self._compare(graph, name, seconds):
            self._idle.append((name, seconds))

    def _remember(self, graph: Any) -> None:
        self._graph = graph
        self._replaced, self._parts = {}, set()
        self._state = _state(graph)
        self._lines = [line_of(node) for node in graph.nodes]

    def _compare(self, graph: Any, name: str, seconds: float) -> bool:
        """Record what changed since the last comparison; False where nothing did."""
        if graph is not self._graph and _owner(graph) is not _owner(self._graph):
            return False  # a graph inside this one, which has a round of passes of its own, or a pattern's own little graph
        state = _state(graph)
        if _same(state, self._state):
            return False
        before, old, names = self._lines, {row[0] for row in self._state}, {row[0].name for row in self._state}
        made = [row[0] for row in state if row[0] not in old]
        replaced = {node.name: tuple(sorted(origins)) for node in made if (origins := self._origins(node, old))}
        parts = tuple(sorted(node.name for node in made if node in self._parts))
        self._remember(graph)
        after = {row[0].name for row in self._state}
        if before == self._lines:
            return False
        stacks = stacks_of(row[0] for row in self._state if row[0].name not in names)
        path = self._emit.here().path
        # its first graph is shown nowhere else
        alone = path.startswith(REGION) or (self._section == "joint" and path.startswith(PART_OF_REGION))
        changed = FxPassText(
            name=name,
            section=self._section,
            of=path,
            seconds=seconds,
            made=tuple(sorted(after - names)),
            erased=tuple(sorted(names - after)),
            before="\n".join(before),
            text="\n".join(self._lines),
            stacks=stacks_of(row[0] for row in self._state) if alone else stacks,
            replaced=replaced,
            names=tuple(row[0].name for row in self._state if row[0].op != "output"),
            targets=tuple(target_name(row[1]) for row in self._state if row[0].op != "output"),
            users=self._made_for_users(after - names - set(replaced), stacks) if replaced else {},
            idle=tuple(self._idle),
            parts=parts or None,
        )
        self._idle = []
        self._emit("fx_pass", lambda: changed)
        return True

    def _made_for_users(self, names: set[str], stacks: Mapping[str, str]) -> dict[str, Names]:
        """Return the users of each new node whose own stack does not say for which operators it was made.

        One stack does not say that for several users: torch 2.15 gives the seeds the stack of the first random operator.
        """
        users = _users_of(names, self._state)
        return {name: using for name, using in users.items() if name not in stacks or len(using) > 1}


def _users_of(names: set[str], state: Iterable[tuple[Any, ...]]) -> dict[str, Names]:
    """The nodes that use each of the named ones, in the order of the graph."""
    users: dict[str, list[str]] = {}
    for node in (row[0] for row in state if names):
        for used in node.all_input_nodes:
            if used.name in names:
                users.setdefault(used.name, []).append(node.name)
    return {name: tuple(using) for name, using in users.items()}


def _owner(graph: Any) -> Any:
    """What a graph belongs to; itself where it belongs to no module."""
    return getattr(graph, "owning_module", None) or graph


def _state(graph: Any) -> list[tuple[Any, ...]]:
    return [(node, node.target, node.args, node.kwargs) for node in graph.nodes]


def _same(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    return len(one) == len(other) and all(
        a[0] is b[0] and a[1] is b[1] and a[2] is b[2] and a[3] is b[3] for a, b in zip(one, other, strict=True)
    )


def user_name(run: Any) -> str:
    """The name of a pass that the user gave to Inductor, a function or an object with `__call__`; "" for one of torch's own."""
    while isinstance(run, partial):
        run = run.func
    named = run if hasattr(run, "__qualname__") else type(run)
    if str(named.__module__).partition(".")[0] == "torch":
        return ""
    return str(named.__qualname__).rpartition("<locals>.")[2]


@contextmanager
def passes(emit: Emit) -> Iterator[None]:
    """Record every FX pass that changed a graph, in order."""
    from torch._inductor import compile_fx, config
    from torch._inductor.fx_passes import reinplace
    from torch.fx import Node
    from torch.fx.passes.graph_transform_observer import GraphTransformObserver

    watch = PassWatch(emit)
    started: list[float] = []
    users: dict[Any, str] = {}  # the name of the user's own pass, by the object that runs it
    observing: list[ExitStack] = []
    guard = guard_here()

    def round_of(section: str, gm: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        with watch.section(section, gm):
            yield

    def label(observer: Any) -> str:
        own = users.get(observer)
        return f"{own} ({observer.passname})" if own else str(observer.passname)

    def observe_inner(stack: ExitStack, observer: Any) -> None:
        """Watch the passes of a pass manager, such as vLLM's or SGLang's: a custom pass with a list of `passes`."""
        custom = getattr(config, observer.passname, None) if "custom" in observer.passname else None
        kinds = dict.fromkeys(type(each) for each in getattr(custom, "passes", None) or ())
        with guarding(guard):
            for kind in kinds:
                if isinstance(inspect.getattr_static(kind, "__call__", None), FunctionType):  # not a function in the list itself

                    def inner(each: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
                        return watch.inner(observer.gm, label(observer), type(each).__name__)

                    stack.enter_context(observed(kind, "__call__", inner))

    def make_enter(original: Any) -> Any:
        def __enter__(self: Any, *args: Any, **kwargs: Any) -> Any:
            started.append(watch.entered(self.gm))
            observing.append(ExitStack())
            emit.attempt("fx_pass", self.passname, partial(observe_inner, observing[-1], self))
            return original(self, *args, **kwargs)

        return __enter__

    def make_exit(original: Any) -> Any:
        def __exit__(self: Any, *details: Any) -> Any:
            emit.attempt("fx_pass", self.passname, observing.pop().close)
            watch.left(self.gm, label(self), started.pop())
            return original(self, *details)

        return __exit__

    def applied(observer: Any, run: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        if "custom" in observer.passname and (own := user_name(run)):
            users[observer] = own
        try:
            yield
        finally:
            users.pop(observer, None)

    def make_replace(original: Any) -> Any:
        def replace_all_uses_with(self: Any, replace_with: Any, *args: Any, **kwargs: Any) -> Any:
            watch.replaces(self, replace_with)
            return original(self, replace_with, *args, **kwargs)

        return replace_all_uses_with

    def make_decompose(original: Any) -> Any:
        def _decompose_scatter_mutating(graph: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
            before = node.prev
            made = original(graph, node, *args, **kwargs)
            watch.decomposes(node, before)
            return made

        return _decompose_scatter_mutating

    with ExitStack() as stack:
        stack.enter_context(replaced(reinplace, "_decompose_scatter_mutating", make_decompose))
        stack.enter_context(replaced(Node, "replace_all_uses_with", make_replace))
        stack.enter_context(replaced(GraphTransformObserver, "__enter__", make_enter))
        stack.enter_context(replaced(GraphTransformObserver, "__exit__", make_exit))
        for apply in ("apply_graph_pass", "apply_gm_pass"):
            stack.enter_context(observed(GraphTransformObserver, apply, applied))
        for function, section in ROUNDS.items():
            stack.enter_context(observed(compile_fx, function, partial(round_of, section)))
        yield
