"""Observe the patterns of Inductor's pattern matcher that change a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AnySet
from contextlib import ExitStack, contextmanager
from typing import Any

from explorer.capture.observe.fx import line_of, stacks_of, target_name
from explorer.capture.observe.patch import observed
from explorer.capture.observe.places import in_package
from explorer.capture.observe.subclasses import subclasses
from explorer.model.context import Context
from explorer.model.stage import Emit
from explorer.stages.inductor.pattern_match import PatternMatchText


@contextmanager
def pattern_matches(emit: Emit) -> Iterator[None]:
    """Record every pattern that changed a graph: its name, where it is defined, the nodes it matched and made."""
    from torch._inductor.pattern_matcher import PatternEntry

    def applied(entry: Any, match: Any, graph: Any, node: Any) -> Iterator[None]:
        matched: dict[str, tuple[str, str]] = {}
        before: set[Any] = set()
        states: dict[Any, _State] = {}
        emit.attempt("pattern_match", "matched", lambda: matched.update(_described(match.nodes)))
        emit.attempt("pattern_match", "before", lambda: before.update(graph.nodes))
        emit.attempt("pattern_match", "before", lambda: states.update((node, _State(node)) for node in match.nodes))
        yield
        made = _made_since(before, graph)
        # a handler may look at its match and leave it, as pointless_view does with a view to another shape
        if made or len(graph.nodes) != len(before) or any(state != _State(node) for node, state in states.items()):
            emit("pattern_match", lambda: _match(entry, matched, made, emit.here()))

    with ExitStack() as stack:
        for kind in (kind for kind in subclasses(PatternEntry) if "apply" in vars(kind)):
            stack.enter_context(observed(kind, "apply", applied))
        yield


class _State:
    """What a pattern may change of a node, by identity: comparing symbolic sizes would add guards."""

    def __init__(self, node: Any) -> None:
        self._parts = (node.args, node.kwargs, node.target, *node.users, *node.meta, *node.meta.values())

    def __eq__(self, other: object) -> bool:
        """Whether every part is the same object."""
        return isinstance(other, _State) and list(map(id, self._parts)) == list(map(id, other._parts))

    __hash__ = None  # type: ignore[assignment]


def _made_since(before: AnySet[Any], graph: Any) -> list[Any]:
    """The nodes of a graph that were not in it before, in order; a large graph has thousands of others at each match."""
    new = set(graph.nodes) - before
    return [node for node in graph.nodes if node in new] if new else []


def pattern_name(entry: Any) -> str:
    """What a pattern is called: as it was registered, or as the function that defines it."""
    fallback = getattr(pattern_function(entry), "__qualname__", type(entry).__name__)
    return str(getattr(entry, "pattern_name", None) or fallback)


def _described(nodes: Iterable[Any]) -> dict[str, tuple[str, str]]:
    """Target and line of each node, by its name."""
    return {node.name: (target_name(node.target), line_of(node)) for node in nodes}


def _indented(nodes: Mapping[str, tuple[str, str]]) -> list[str]:
    return [f"  {line}" for _, line in nodes.values()]


def _match(entry: Any, matched: Mapping[str, tuple[str, str]], made: list[Any], here: Context) -> PatternMatchText:
    """The record of a pattern that fired."""
    code = getattr(pattern_function(entry), "__code__", None)
    new = _described(made)
    return PatternMatchText(
        pattern=pattern_name(entry),
        of=here.path,
        section=here.section,
        kind=type(entry).__name__,
        file=(in_package(code.co_filename) or code.co_filename) if code else "",
        line=code.co_firstlineno if code else 0,
        matched=tuple(matched),
        made=tuple(new),
        matched_targets=tuple(target for target, _ in matched.values()),
        made_targets=tuple(target for target, _ in new.values()),
        stacks=stacks_of(made),
        text="\n".join(["matched", *_indented(matched), "made", *_indented(new)]),
        expression=str(entry.pattern),
    )


def pattern_function(entry: Any) -> Any:
    """The Python function that defines a pattern: its search function, or the handler that rewrites the match."""
    check: Any = getattr(entry, "extra_check", None)
    cells = getattr(check, "__closure__", None) or ()
    closure = dict(zip(check.__code__.co_freevars, cells, strict=True)) if cells else {}
    if "search_fn" in closure:
        return closure["search_fn"].cell_contents
    return getattr(entry, "handler", check)
