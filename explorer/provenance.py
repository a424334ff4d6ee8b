"""Closure of links: from one line to every line that is related to it, and by what route. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from explorer.model import CALLED_FROM, Link, Rows

if TYPE_CHECKING:
    from explorer.traced import Trace

Place = tuple[str, int]


def index(links: tuple[Link, ...]) -> dict[str, dict[Place, list[tuple[Place, str]]]]:
    """The links by place, in both directions: "down" from a text to what it came from, "up" the other way."""
    table: dict[str, dict[Place, list[tuple[Place, str]]]] = {"down": {}, "up": {}}
    for link in links:
        for line in link.source_lines:
            for other in link.target_lines:
                here, there = (link.source, line), (link.target, other)
                table["down"].setdefault(here, []).append((there, link.how))
                table["up"].setdefault(there, []).append((here, link.how))
    return table


def follow(trace: Trace, artifact_id: str, line: int) -> Rows:
    """Every place linked to a line: what it came from, and then all that came from the same origin.

    A route goes down to origins first and then only up, so that two lines are related when they share an origin,
    not when some third line mixes two. The calls that led to an origin are shown, but what else was called from
    there is not related: it is only when the call itself is the chosen line.
    """
    table = index(trace.links)
    start: Reached = {(artifact_id, line): ()}
    reached = _reach(_reach(start, table["down"], calls=False), table["up"], calls=False)
    for way in ("down", "up"):
        reached = {**_reach(start, table[way], calls=True), **reached}
    reached.pop((artifact_id, line), None)
    return Rows(_grouped(trace, reached))


Reached = dict[Place, tuple[str, ...]]


def _reach(start: Reached, table: dict[Place, list[tuple[Place, str]]], *, calls: bool) -> Reached:
    """The places that links lead to from `start`, each with its route; links to callers only with `calls`."""
    reached = dict(start)
    queue = deque(start)
    while queue:
        here = queue.popleft()
        for there, how in table.get(here, ()):
            if there not in reached and (calls or how != CALLED_FROM):
                reached[there] = (*reached[here], how)
                queue.append(there)
    return reached


def _grouped(trace: Trace, reached: Reached) -> list[dict[str, object]]:
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    order = {a.id: (n, a.stage) for n, a in enumerate(trace.artifacts)}
    for (artifact, line), route in reached.items():
        if artifact in order:  # a stage of the caller's own may link to what is not there
            groups.setdefault((artifact, route), []).append(line)
    rows: list[dict[str, object]] = [
        {"artifact": id, "stage": order[id][1], "lines": tuple(sorted(lines)), "route": route}
        for (id, route), lines in groups.items()
    ]
    return sorted(rows, key=lambda row: order[str(row["artifact"])][0])
