"""Trace → the one plain dict that the widget, the saved page and the tests read. Pure.

    {"format": 1, "meta": {…}, "counts": "1 frame, 2 kernels",
     "stages":    [{"name", "title", "about", "language"} …]   those that the trace has, in the compiler's order
     "artifacts": [{"id", "stage", "frame", "graph", "kernel", "title", "language", "text", "lines", "seconds",
                    "note", "made_by", "data"} …]              "lines" as `Artifact.lines` counts them
     "hows":      [how …]                                      the kinds of links
     "links":     [[source, target, how, runs] …]              by index into "artifacts" and "hows"
     "failures":  [{"stage", "step", "message", "fatal"} …]}

`runs` is a flat list of numbers, four a run: source line, count, target line, count. A run links each of its source
lines with each of its target lines; a target count of 0 means line by line: source + k with target + k. Lines count from 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from explorer.model import Artifact, Link, Plain, jsonable, record_to_json
from explorer.stages import STAGES
from explorer.traced import changes, counts

if TYPE_CHECKING:
    from explorer.traced import Trace

FORMAT = 1
#: The most characters of JSON that one entry of an artifact's `data` may take; what is longer stays in the trace.
SMALL = 400

Run = tuple[int, int, int, int]


def payload(trace: Trace) -> dict[str, Any]:
    """The trace as one JSON-able dict, described at the top of this file; equal traces give equal payloads."""
    hows = list(dict.fromkeys(link.how for link in trace.links))
    return {
        "format": FORMAT,
        "meta": jsonable(trace.meta),
        "counts": counts(trace),
        "stages": list(stages(trace)),
        "artifacts": [_artifact(a) for a in trace.artifacts],
        "hows": hows,
        "links": list(_links(trace, hows)),
        "failures": [{"fatal": False, **record_to_json(f)} for f in trace.failures],
    }


def stages(trace: Trace) -> Iterator[dict[str, str]]:
    """The stages that the trace has texts of; one that is not the explorer's own is named by its first artifact."""
    first: dict[str, Artifact] = {}
    for artifact in trace.artifacts:
        first.setdefault(artifact.stage, artifact)
    known = {s.name: s for s in STAGES}
    for name in [*(n for n in known if n in first), *(n for n in first if n not in known)]:
        stage = known.get(name)
        title, about = (stage.title, stage.about) if stage else (name, "")
        yield {"name": name, "title": title, "about": about, "language": first[name].language}


def _artifact(a: Artifact) -> dict[str, Any]:
    file, line, function = a.path[-1] if a.path else ("", 0, "")
    return {
        "id": a.id, "stage": a.stage, "frame": a.frame, "graph": a.graph, "kernel": a.kernel, "title": a.title,
        "language": a.language, "text": a.text, "lines": len(a.lines), "seconds": a.seconds, "note": changes([a]),
        "made_by": f"{function} ({file}:{line})" if a.path else "", "data": small(a.data),
    }  # fmt: skip


def small(data: Mapping[str, Plain]) -> dict[str, Any]:
    """The entries of an artifact's data that are short: facts for a tooltip, not the nodes of a graph."""
    return {k: value for k, v in data.items() if k != "nodes" and _is_small(value := jsonable(v))}


def _is_small(value: Any) -> bool:
    if isinstance(value, (str, list, dict)) and len(value) > SMALL:
        return False  # not worth writing out to measure
    return len(json.dumps(value)) <= SMALL


# Links -----------------------------------------------------------------------------------------------------------------


def _links(trace: Trace, hows: Sequence[str]) -> Iterator[list[Any]]:
    """The links by pair of artifacts and kind; a link to a text that the trace does not have is left out."""
    index = {a.id: n for n, a in enumerate(trace.artifacts)}
    groups: dict[tuple[int, int, str], list[Link]] = {}
    for link in trace.links:
        if link.source in index and link.target in index:
            groups.setdefault((index[link.source], index[link.target], link.how), []).append(link)
    for (source, target, how), links in groups.items():
        yield [source, target, hows.index(how), [n for run in merged(runs(links)) for n in run]]


def runs(links: Iterable[Link]) -> Iterator[Run]:
    """Each link as runs of neighbouring source lines with runs of neighbouring target lines."""
    for link in links:
        for (source, m), (target, n) in product(neighbours(link.source_lines), neighbours(link.target_lines)):
            yield source, m, target, n


def neighbours(lines: Iterable[int]) -> list[tuple[int, int]]:
    """Line numbers as (first, count) runs: 3, 4, 5, 9 → (3, 3), (9, 1)."""
    found: list[tuple[int, int]] = []
    for line in sorted(set(lines)):
        if found and line == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((line, 1))
    return found


def merged(found: Iterable[Run]) -> list[Run]:
    """Runs that continue the one before, grown together: the same target for the next lines, or line by line."""
    result: list[Run] = []
    for run in found:
        grown = _joined(result[-1], run) if result else None
        if grown:
            result[-1] = grown
        else:
            result.append(run)
    return result


def _joined(last: Run, run: Run) -> Run | None:
    """Both runs as one, where that says exactly the same."""
    source, m, target, n = last
    if run[0] != source + m:
        return None
    if run[2:] == (target, n) and n:
        return source, m + run[1], target, n
    single = run[1] == run[3] == 1 and (n == 0 or m == n == 1)
    return (source, m + 1, target, 0) if single and run[2] == target + m else None
