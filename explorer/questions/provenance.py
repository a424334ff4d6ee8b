"""Closure of links: from one line to every line that is related to it, and by what route. Pure.

The links are put in order once per trace (`Index`); a walk then goes from link to link, and takes over a link's lines
all at once, so that a line with thousands of heirs is answered in a few milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from explorer.errors import InputError, unknown_name
from explorer.model.trace_data import TraceData
from explorer.model.values import CALLED_FROM, COARSE, WHOLES, Link, Rows, once
from explorer.stages.fx_graph import node_lines


class Ends(dict[int, tuple[int, ...]]):
    """Line → lines at the other end of its links; it does not change once it is asked for."""

    def of(self, lines: set[int]) -> set[int]:
        """The other ends of some of the lines; those of all, which the call of a whole model asks for, are put together once."""
        if self.keys() <= lines:
            return self._all
        return set().union(*map(self.__getitem__, self.keys() & lines))

    @cached_property
    def _all(self) -> set[int]:
        return set().union(*self.values())


#: By artifact, the links that begin there: by artifact at their other end and by kind.
Table = dict[str, dict[tuple[str, str], Ends]]
Route = tuple[str, ...]


class Index:
    """The links by place, in both directions: `down` from a text to what it came from, `up` the other way."""

    def __init__(self, links: Iterable[Link]) -> None:
        self.down: Table = {}
        self.up: Table = {}
        for link in links:
            _add(self.down, link.source, link.source_lines, (link.target, link.how), link.target_lines)
            _add(self.up, link.target, link.target_lines, (link.source, link.how), link.source_lines)


def _add(table: Table, artifact: str, lines: tuple[int, ...], end: tuple[str, str], others: tuple[int, ...]) -> None:
    by_line = table.setdefault(artifact, {}).setdefault(end, Ends())
    for line in lines:
        by_line[line] = by_line[line] + others if line in by_line else others


@once
def index(trace: TraceData) -> Index:
    """The links of a trace by place, put in order when first asked for."""
    return Index(trace.links)


class Reached:
    """The places that a walk came to: by artifact the lines, and by artifact and route those that came by that route."""

    def __init__(self) -> None:
        self.lines: dict[str, set[int]] = {}
        self.groups: dict[tuple[str, Route], set[int]] = {}

    def add(self, artifact: str, lines: Iterable[int], route: Route) -> set[int]:
        """Take in the lines that are new; those are returned."""
        known = self.lines.setdefault(artifact, set())
        given = lines if isinstance(lines, set) else set(lines)
        new = given - known if known else given
        if new:
            known |= new
            self.groups.setdefault((artifact, route), set()).update(new)
        return new

    def merge(self, other: Reached) -> None:
        """Take in what another walk came to and this one did not."""
        for (artifact, route), lines in other.groups.items():
            self.add(artifact, lines, route)


def follow(trace: TraceData, artifact_id: str, line: int) -> Rows:
    """Every place linked to a line: what it came from, and then all that came from the same origin.

    A route goes down to origins first and then only up, so that two lines are related when they share an origin,
    not when some third line mixes two. The calls that led to an origin and the wholes that a line is part of (`WHOLES`: its
    scheduler node, its kernel) are shown, but what else was called from there, and the whole's other parts, are not
    related: they are only when the call or the whole is the chosen line.
    """
    return Rows(_rows(trace, walk(index(trace), {artifact_id: (line,)}), artifact_id, line))


def walk(index: Index, start: Mapping[str, Iterable[int]]) -> Reached:
    """The places that are related to any of the given lines, which are themselves among them."""
    reached = _reach(_reach(_begun(start), index.down, _close), index.up, _close)
    reached.merge(_reach(_begun(start), index.down, _from_wholes))
    reached.merge(_reach(_begun(start), index.up, _to_wholes))
    return reached


def _close(how: str, route: Route) -> bool:
    """Links that relate two lines themselves."""
    return how not in WHOLES and how != CALLED_FROM


def _from_wholes(how: str, route: Route) -> bool:
    """On the way down the wholes come first: from a launch to the kernel, to its scheduler node, to the nodes in it."""
    return how not in WHOLES or WHOLES.issuperset(route)


def _to_wholes(how: str, route: Route) -> bool:
    """On the way up the wholes come last: from a node to the scheduler node it is in, to the kernel, to its launch."""
    return how in WHOLES or WHOLES.isdisjoint(route)


def _begun(start: Mapping[str, Iterable[int]]) -> Reached:
    reached = Reached()
    for artifact, lines in start.items():
        reached.add(artifact, lines, ())
    return reached


def _reach(reached: Reached, table: Table, goes: Callable[[str, Route], bool]) -> Reached:
    """Go on from all that was reached, nearest first, over the kinds of links that `goes` takes after a route."""
    queue = deque((artifact, set(lines), route) for (artifact, route), lines in reached.groups.items())
    while queue:
        here, lines, route = queue.popleft()
        for (there, how), by_line in table.get(here, {}).items():
            if goes(how, route) and (found := by_line.of(lines)):
                onward = (*route, how)
                new = reached.add(there, found, onward)
                if new and there in table:
                    queue.append((there, new, onward))
    return reached


def _rows(trace: TraceData, reached: Reached, artifact_id: str = "", line: int = 0) -> list[dict[str, object]]:
    """What was reached as rows, in the trace's order, without the line itself."""
    order = {a.id: (n, a.stage) for n, a in enumerate(trace.artifacts)}
    rows: list[dict[str, object]] = []
    for (artifact, route), lines in reached.groups.items():
        shown = lines - {line} if artifact == artifact_id else lines
        if shown and artifact in order:  # a stage of the caller's own may link to what is not there
            facts = {"artifact": artifact, "stage": order[artifact][1], "lines": tuple(sorted(shown)), "route": route}
            rows.append({**facts, "coarse": not COARSE.isdisjoint(route)})
    return sorted(rows, key=lambda row: order[str(row["artifact"])][0])


def follow_module(trace: TraceData, path: str) -> Rows:
    """Every place linked to a node of an nn.Module or of a module in it, by the module paths that the nodes state.

    InputError, with the nearest paths, where no node is of that module.
    """
    paths = {str(node["module"]) for a in trace.artifacts for node in (*a.nodes, *a.inner) if node.get("module")}
    if not paths:
        raise InputError(f"no node of this trace is in an nn.Module, so there is nothing to follow for {path!r}")
    if not any(known == path or known.startswith(f"{path}.") for known in paths):
        raise unknown_name("module of this trace", path, paths)
    start: dict[str, list[int]] = {}
    for artifact in trace.artifacts:
        nodes = (*artifact.nodes, *artifact.inner)
        named = [n["name"] for n in nodes if n.get("module") == path or str(n.get("module", "")).startswith(f"{path}.")]
        if named:
            lines = node_lines(artifact)
            start[artifact.id] = [lines[name] for name in named if name in lines]
    reached = _begun(start)
    return Rows(_rows(trace, _reach(reached, index(trace).up, _to_wholes)))


def from_sources(trace: TraceData, *, wholes: bool = False) -> dict[str, set[int]]:
    """The lines of each artifact that come from a line of the user's source, by artifact."""
    sources = {a.id: range(1, len(a.lines) + 1) for a in trace.find("source")}
    up = index(trace).up
    return _reach(_begun(sources), up, _to_wholes if wholes else _close).lines
