"""What missed the cache that an earlier run had filled: the keys of one trace, compared with those of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain, Table
from explorer.stages.torch_compile.cache import CacheLookup, CacheLookups
from explorer.stages.torch_compile.cache_keys import KeyParts, differences, nearest, whole_parts

COLUMNS = ("frame", "cache", "graph", "key", "nearest", "nearest_frame", "differs")


class _Key(NamedTuple):
    frame: str
    lookup: CacheLookup
    parts: KeyParts


def cache_misses(trace: TraceData, earlier: TraceData) -> Table:
    """One row per graph that no cache had in `trace`, with the nearest key that `earlier` asked the same cache for."""
    return Table(_misses(trace, earlier), COLUMNS)


def _misses(trace: TraceData, earlier: TraceData) -> Iterator[Mapping[str, Plain]]:
    known = {cache: [key for key in _keys(earlier) if key.lookup.cache == cache] for cache in ("AOTAutograd", "FX graph")}
    for frame, lookup, parts in _keys(trace):
        if lookup.state != "miss":
            continue
        others = known[lookup.cache]
        same = next((other for other in others if other.lookup.key == lookup.key), None)
        found = None if same else nearest(parts, [(other.lookup.key, other.parts) for other in others])
        key = lookup.key if same else found[0] if found else ""
        yield {
            "frame": frame,
            "cache": lookup.cache,
            "graph": lookup.graph,
            "key": lookup.key,
            "nearest": key,
            "nearest_frame": next((other.frame for other in others if other.lookup.key == key), ""),
            "differs": differences(parts, found[1]) if found else (),
        }


def _keys(trace: TraceData) -> list[_Key]:
    """Every lookup of a graph whose key has its parts, which may be given by their differences from another key's."""
    lookups = [(a.frame, row) for a in trace.find("cache") for row in typed(CacheLookups, a.data).rows if row.parts is not None]
    bases = {(row.cache, row.key): row.parts or {} for _, row in lookups if row.relative_to is None}
    return [_Key(frame, row, _parts(row, bases)) for frame, row in lookups]


def _parts(row: CacheLookup, bases: Mapping[tuple[str, str], KeyParts]) -> KeyParts:
    parts = row.parts or {}
    return parts if row.relative_to is None else whole_parts(parts, bases.get((row.cache, row.relative_to), {}))
