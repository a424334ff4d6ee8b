"""Follow links from one line to every related line, with the route. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path

from explorer.analysis.questions.link_index import Bits, Chosen, Index, Ways, index, index_around
from explorer.analysis.questions.missing import STAGE_HABITS
from explorer.errors import InputError, unknown_name
from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.trace_data import TraceData, artifact_of, source_line
from explorer.model.values import COARSE, Artifact, Plain, Table, once
from explorer.stages.fx_graph import node_lines
from explorer.stages.inductor.output_code import EXTERN
from explorer.stages.program_names import is_inside

Route = tuple[str, ...]
#: The columns of `Trace.follow`.
COLUMNS = ("artifact", "stage", "lines", "text", "route", "coarse")


class Reached:
    """The places that a walk from `start` came to: lines by artifact, and by artifact and route.

    A line of `start` that no link names is in no set; it leads nowhere.
    """

    def __init__(self, index: Index, start: Mapping[str, Iterable[int]]) -> None:
        self._index = index
        self._start = {artifact: tuple(sorted(set(lines))) for artifact, lines in start.items()}
        self.known: dict[str, Bits] = {}
        self.groups: dict[tuple[str, Route], Bits] = {}
        for artifact, lines in self._start.items():
            if artifact in index.lines:
                self.add(artifact, index.lines[artifact].bits(lines), ())

    def lacking(self, artifact: str, lines: Bits) -> Bits:
        """Return the lines that are not reached yet."""
        return lines & ~self.known.get(artifact, 0)

    def add(self, artifact: str, lines: Bits, route: Route) -> None:
        """Add lines that are not reached yet."""
        self.known[artifact] = self.known.get(artifact, 0) | lines
        self.groups[artifact, route] = self.groups.get((artifact, route), 0) | lines

    def merge(self, other: Reached) -> None:
        """Add the lines that only another walk reached."""
        for (artifact, route), lines in other.groups.items():
            if new := self.lacking(artifact, lines):
                self.add(artifact, new, route)

    def rows(self) -> Iterator[tuple[str, Route, tuple[int, ...]]]:
        """Yield artifact, route and lines of each group that was reached, the nearest first; the start has the route ()."""
        yield from ((artifact, (), lines) for artifact, lines in self._start.items() if lines)
        for (artifact, route), lines in self.groups.items():
            if route:
                yield artifact, route, self._index.lines[artifact].of(lines)

    def by_artifact(self) -> dict[str, set[int]]:
        """Return the lines of each artifact, including the start."""
        lines_by_artifact = {artifact: set(self._index.lines[artifact].of(bits)) for artifact, bits in self.known.items()}
        for artifact, lines in self._start.items():
            lines_by_artifact.setdefault(artifact, set()).update(lines)
        return lines_by_artifact


def linked_to(trace: TraceData, where: str | Artifact, line: int | None) -> Table:
    """Every place linked to a line of a text; without a line to an nn.Module's path. InputError for what the trace lacks."""
    if line is None:
        check_module(trace, where)
        return follow_module(trace, str(where))
    artifact, number = place_of(trace, where, line)
    return follow(trace, artifact.id, number)


def texts_of(trace: TraceData, where: str | Artifact, line: int | None, rows: Table) -> set[str]:
    """Return the ids of the texts that rows of `linked_to` are in, that of the line itself included."""
    ids = {str(row["artifact"]) for row in rows}
    return ids if line is None else ids | {place_of(trace, where, line)[0].id}


def follow(trace: TraceData, artifact_id: str, line: int) -> Table:
    """Every place linked to a line: what it came from, and then all that came from the same origin.

    A route goes down to origins first and then only up: two lines are related if they share an origin, not if a third line mixes
    both. The calls that led to an origin and the wholes that a line is part of (`WHOLES`: its scheduler node, its kernel) are
    shown, but what else was called from there, and the whole's other parts, are not related: they are only when the call or the
    whole is the chosen line.
    """
    reached = walk(index_around(trace, artifact_id), {artifact_id: (line,)})
    return _rows(trace, (place for place in reached.rows() if place[1]))  # without the line itself


def walk(index: Index, start: Mapping[str, Iterable[int]]) -> Reached:
    """Find all places related to any of the given lines, these lines included."""
    reached = _reach(_reach(Reached(index, start), index.origins), index.results)
    reached.merge(_reach(Reached(index, start), index.from_wholes))
    reached.merge(_reach(Reached(index, start), index.to_wholes))
    return reached


def _reach(reached: Reached, ways: Ways) -> Reached:
    """Follow the links that the walk may take from every reached place, nearest first."""
    known, groups = reached.known, reached.groups
    queue = deque((artifact, lines, route, ways.start) for (artifact, route), lines in groups.items())
    while queue:
        here, lines, route, steps = queue.popleft()
        chosen = Chosen(lines)
        for ends in steps.get(here, ()):
            if not lines & ends.begin:  # most have none of the lines
                continue
            there = ends.there
            before = known.get(there, 0)
            lacking = ends.all & ~before
            if lacking and (new := ends.of(chosen, lacking)):
                known[there] = before | new
                key = there, (*route, ends.how)
                groups[key] = groups[key] | new if key in groups else new
                onward = ways.after_whole if ends.whole else ways.after_other
                if there in onward:
                    queue.append((there, new, key[1], onward))
    return reached


def _rows(trace: TraceData, reached: Iterable[tuple[str, Route, tuple[int, ...]]]) -> Table:
    """What was reached as rows, in the trace's order."""
    order = _order(trace)
    coarse: dict[Route, bool] = {}
    places: list[tuple[int, Mapping[str, Plain]]] = []
    for artifact, route, lines in reached:
        if artifact not in order:  # a stage of the caller's own may link to what is not there
            continue
        if route not in coarse:
            coarse[route] = not COARSE.isdisjoint(route)
        number, stage = order[artifact]
        row = {"artifact": artifact, "stage": stage, "lines": lines, "route": route, "coarse": coarse[route]}
        places.append((number, row))
    places.sort(key=itemgetter(0))
    return Table([row for _, row in places])


def only_in(trace: TraceData, rows: Table, into: str) -> Table:
    """Keep the places in one stage or text; without any, the table says where the line leads instead."""
    kept = [row for row in rows if into in (row["stage"], row["artifact"])]
    return Table(kept, rows.columns, "" if kept else _why_not_in(trace, rows, into))


def _why_not_in(trace: TraceData, rows: Table, into: str) -> str:
    """Say why nothing of a stage is linked: a call of a library has no kernel's text, and other lines lead elsewhere."""
    ends = [row for row in rows if row["route"][-1] == EXTERN]
    calls = [artifact_of(trace, row["artifact"]).lines[number - 1].strip() for row in ends for number in row["lines"]]
    if calls and not any(row["stage"] == "kernel" for row in rows):
        return f"this ends in a call of a library, whose code has no text here: {calls[0]}"
    stages = ", ".join(dict.fromkeys(str(row["stage"]) for row in rows))
    return f"nothing in {into} is linked to this, only lines of {stages}" if stages else "nothing is linked to this"


def with_text(trace: TraceData, rows: Table, most: int | None = None) -> Table:
    """Add the linked lines of each place to its row, at most so many."""
    texts = ({**row, "text": "\n".join(linked_lines(trace, row, most).values())} for row in rows)
    return Table(({name: row[name] for name in COLUMNS} for row in texts), COLUMNS, rows.why_empty)


def linked_lines(trace: TraceData, row: Mapping[str, Plain], most: int | None) -> dict[int, str]:
    """Return the first lines of a place by their numbers, at most so many; None for all."""
    lines = artifact_of(trace, row["artifact"]).lines
    return {number: lines[number - 1].strip() for number in row["lines"][:most] if number <= len(lines)}


@once
def _order(trace: TraceData) -> dict[str, tuple[int, str]]:
    """The place of each artifact in the trace, and its stage."""
    return {a.id: (n, a.stage) for n, a in enumerate(trace.artifacts)}


def place_of(trace: TraceData, where: str | Artifact, line: object) -> tuple[Artifact, int]:
    """Find the text that `where` names, a stage, an id or a file of the program, and the line in it.

    The line of a file is the file's own. InputError, with the nearest names, for what the trace does not have.
    """
    if isinstance(where, Artifact) or where in trace._by_id:
        artifact = artifact_of(trace, where)
    elif len(found := _texts_meant(trace, where)) == 1:
        (artifact,) = found
    elif isinstance(line, int) and (place := source_line(trace, where, line)):
        return artifact_of(trace, place[0]), place[1]
    elif found:
        ids = ", ".join(repr(a.id) for a in found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
        raise InputError(f"the trace has {len(found)} texts of {where!r}: name one by its id, {ids}")
    elif where.endswith(".py") and isinstance(line, int):
        raise InputError(f"no function of the trace has line {line} of {where}; t.text('source') prints them")
    else:
        # an id has a colon, a stage has none: who asks for one is not told of the others
        valid = {a.id if ":" in where else a.stage for a in trace.artifacts}
        raise unknown_name("stage, text or file", where, valid, STAGE_HABITS.get(where, ""))
    if type(line) is not int or not 1 <= line <= max(1, len(artifact.lines)):
        file = Path(typed(Source, artifact.data).file).name if artifact.stage == "source" else ""
        message = f"{artifact.id!r} has lines 1 to {len(artifact.lines)}, not {line!r}"
        if file and type(line) is int:
            message += f"; a line of the file is {file}:{line}, in Python t.follow({file!r}, {line!r})"
        raise InputError(message)
    return artifact, line


def _texts_meant(trace: TraceData, stage: str) -> Sequence[Artifact]:
    """Find the texts of a stage; for "source" without resume functions and inlined ones, so that the user's own is left."""
    found = trace.find(stage)
    if stage != "source" or len(found) == 1:
        return found
    called = [a for a in found if (source := typed(Source, a.data)).compiled and not source.resume]
    return called if len(called) == 1 else found


def check_module(trace: TraceData, where: str | Artifact) -> None:
    """Raise InputError, with the call that is meant, for a text without its line: it is no name of an nn.Module."""
    if not isinstance(where, (str, Artifact)):
        raise InputError(
            f"follow takes a text before its line: t.follow('source', {where!r}), or t.follow('model.py', {where!r})"
        )
    if isinstance(where, Artifact) or trace.find(where) or where.endswith(".py"):
        raise InputError(f"follow takes a line of {where!r}, such as t.follow({where!r}, 3)")
    name, colon, line = where.rpartition(":")
    if colon and line.isdigit():
        raise InputError(f"a line is an argument of its own: t.follow({name!r}, {line})")


def follow_module(trace: TraceData, path: str) -> Table:
    """Find every place linked to a node of an nn.Module or of its submodules, by the nodes' module paths.

    InputError, with the nearest paths, if no node is in that module.
    """
    paths = {str(node["module"]) for a in trace.artifacts for node in (*a.nodes, *a.inner) if node.get("module")}
    if not paths:
        raise InputError(f"no node of this trace is in an nn.Module, so there is nothing to follow for {path!r}")
    inside = {name for name in paths if is_inside(name, path)} if path.strip(".") else set()
    if not inside:
        raise unknown_name("module of this trace", path, paths)
    start: dict[str, list[int]] = {}
    for artifact in trace.artifacts:
        nodes = (*artifact.nodes, *artifact.inner)
        named = [n["name"] for n in nodes if n.get("module") in inside]
        if named:
            lines = node_lines(artifact)
            start[artifact.id] = [lines[name] for name in named if name in lines]
    links = index(trace)
    return _rows(trace, _reach(Reached(links, start), links.to_wholes).rows())


def origins(trace: TraceData, artifact_id: str, lines: Iterable[int]) -> dict[str, set[int]]:
    """Return the lines of each artifact that some lines come from, these included; calls and wholes are left aside."""
    links = index_around(trace, artifact_id)
    return _reach(Reached(links, {artifact_id: lines}), links.origins).by_artifact()


def made_of(trace: TraceData, artifact_id: str, line: int) -> dict[str, set[int]]:
    """Return the lines of each artifact that come from one line, this one included; calls and wholes are left aside."""
    links = index_around(trace, artifact_id)
    return _reach(Reached(links, {artifact_id: (line,)}), links.results).by_artifact()


def from_sources(trace: TraceData, *, wholes: bool = False) -> dict[str, set[int]]:
    """Return the lines of each artifact that come from a user line."""
    sources = {a.id: range(1, len(a.lines) + 1) for a in trace.find("source")}
    links = index(trace)
    return _reach(Reached(links, sources), links.to_wholes if wholes else links.results).by_artifact()
