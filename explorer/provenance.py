"""Closure of links: from one line to every line that is related to it, and by what route. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from explorer.model import Link, Rows

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
    not when some third line mixes two.
    """
    table = index(trace.links)
    origins = _reach({(artifact_id, line): ()}, table["down"])
    reached = _reach(origins, table["up"])
    reached.pop((artifact_id, line), None)
    return Rows(_grouped(trace, reached))


def _reach(start: dict[Place, tuple[str, ...]], table: dict[Place, list[tuple[Place, str]]]) -> dict[Place, tuple[str, ...]]:
    reached = dict(start)
    queue = deque(start)
    while queue:
        here = queue.popleft()
        for there, how in table.get(here, ()):
            if there not in reached:
                reached[there] = (*reached[here], how)
                queue.append(there)
    return reached


def _grouped(trace: Trace, reached: dict[Place, tuple[str, ...]]) -> list[dict[str, object]]:
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for (artifact, line), route in reached.items():
        groups.setdefault((artifact, route), []).append(line)
    order = {a.id: (n, a.stage) for n, a in enumerate(trace.artifacts)}
    rows: list[dict[str, object]] = [
        {"artifact": id, "stage": order[id][1], "lines": tuple(sorted(lines)), "route": route}
        for (id, route), lines in groups.items()
    ]
    return sorted(rows, key=lambda row: order[str(row["artifact"])][0])
