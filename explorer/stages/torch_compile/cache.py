"""Caches: what was loaded instead of compiled, what was not and why, and which stages a hit leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.model.records import Record, keys_of, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain
from explorer.stages.gathering import data_as, one_table


@record
class CacheLookup(Record):
    """A lookup in a cache of graphs, kernels, configs or artifacts: "hit", "miss" or "bypass", and why.

    `graph` or `kernel` says what was looked up, both "" for a whole frame. `seconds_saved` is what a hit saved. `nearest` is
    the key before it that is most like one that missed, and `differs` what they have otherwise. `parts` are the parts of the
    key as `cache_keys.KeyParts`: all of them, or those that are others than in the key `relative_to`.
    """

    cache: str
    state: str
    graph: str
    key: str
    kernel: str
    reason: str
    seconds_saved: float | None
    nearest: str | None = None
    differs: tuple[str, ...] | None = None
    parts: Mapping[str, str] | None = None
    relative_to: str | None = None


@record
class CacheLookups(Record):
    """The lookups in caches of one frame."""

    rows: tuple[CacheLookup, ...]


#: The cache of what `standalone_compile` gives and the program itself saves and loads.
ARTIFACT = "standalone artifact"
#: What does not run where AOTAutograd's cache or an artifact has the whole frame, and where Inductor's cache has a graph.
NOT_RUN = {
    **dict.fromkeys(("AOTAutograd", ARTIFACT), ("attention", "pre_grad", "aot_metadata", "joint", "forward", "backward")),
    "FX graph": (
        *("inductor_input", "pattern_match", "fx_pass", "post_grad", "choice", "lowering"),
        *("ir_pre_fusion", "fusion", "ir_post_fusion", "perf_hint", "symbol"),
    ),
}
#: What does not run either where Dynamo loaded the function together with its graphs.
NOT_RUN_IN_PACKAGE = ("source", "bytecode", "dynamo", "dynamo_bytecode", "decompiled", *NOT_RUN["AOTAutograd"])

#: What a lookup's row shows; the parts of its key are for a comparison with another run's.
COLUMNS = tuple(key for key in keys_of(CacheLookup) if key not in ("parts", "relative_to"))


def not_seen(trace: TraceData, frame: str, row: CacheLookup) -> tuple[str, ...]:
    """The stages that a hit left out and that the cache does not keep; () for what was compiled."""
    if row.state != "hit":
        return ()
    trains = any(a.graph in ("forward", "backward") for a in trace.find("output_code", frame))
    of_other_calls = ("inductor_input",) if trains else ("joint", "backward")
    stages = NOT_RUN.get(row.cache, ())
    if row.cache == "FX graph" and _in_package(trace, frame):
        stages = (*NOT_RUN_IN_PACKAGE, *stages)
    return tuple(stage for stage in stages if stage not in of_other_calls and not _is_seen(trace, stage, frame, row.graph))


def _is_seen(trace: TraceData, stage: str, frame: str, graph: str) -> bool:
    """Whether a frame has a text of a stage, of the frame itself or of a graph; "" is any graph."""
    return any(not (artifact.graph and graph) or artifact.graph == graph for artifact in trace.find(stage, frame))


def _in_package(trace: TraceData, frame: str) -> bool:
    """Whether a frame's graphs belong to a function that Dynamo loaded: it traced no bytecode of the frame.

    The package itself is looked up before there is a frame.
    """
    if not frame or trace.find("bytecode", frame):
        return False
    rows = (row for a in trace.find("cache", "") for row in typed(CacheLookups, a.data).rows)
    return any((row.cache, row.state) == ("Dynamo package", "hit") for row in rows)


def render(event: Event, id: str) -> Artifact:
    """One line per lookup of the frame, and below one that missed what the nearest earlier key has otherwise."""
    data = typed(CacheLookups, event.data)
    return text_artifact(event, id, "Caches", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: CacheLookup) -> str:
    """Write a lookup as text: cache, graph or kernel, outcome, key, why, and how the nearest earlier key differs."""
    what = row.kernel or row.graph or ("whole frame" if row.cache == "AOTAutograd" else row.cache)
    saved = f", saved {row.seconds_saved:.2f} s" if row.seconds_saved else ""
    why = f"  # {row.reason}" if row.reason else ""
    nearest = f"\n  the nearest earlier key, {row.nearest}, differs in" if row.nearest else ""
    differs = "".join(f"\n    {each}" for each in row.differs or ())
    return f"{row.cache}: {row.state} for {what}{saved}  {row.key}{why}{nearest}{differs}"


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many lookups of each cache came to what."""
    states = [f"{row.cache} {row.state}" for row in typed(CacheLookups, artifacts[0].data).rows]
    return ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(states))


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The lookups, each with the stages that did not run because of it."""
    for row in typed(CacheLookups, artifact.data).rows:
        shown = {key: getattr(row, key) for key in COLUMNS}
        yield {
            **shown,
            "nearest": row.nearest or "",
            "differs": row.differs or (),
            "not_seen": not_seen(trace, artifact.frame, row),
        }


STAGE = Stage(
    name="cache",
    title="Caches",
    language="text",
    event=CacheLookup,
    artifact=CacheLookups,
    render=render,
    rows=rows,
    columns=(*COLUMNS, "not_seen"),
    summary=summary,
    gather=one_table(data_as(CacheLookup), CacheLookups),
    why_absent="a trace reads no cache; explorer.record() records each lookup in a cache",
    secondary=True,
    about="What was loaded from a cache instead of compiled, and what was not and why.",
)
