"""Buffer assignment: the memory that XLA allocates, and which values share an allocation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from explorer.model.shared import Nothing, Text
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link, Plain
from explorer.model.wording import quantity
from explorer.stages.xla.hlo import module_of

_ALLOCATION = re.compile(r"^allocation (?P<number>\d+): size (?P<bytes>\d+)(?:, (?P<what>.*?))?:?$")
_VALUE = re.compile(r"^\s+value: <\d+ (?P<name>[\w.-]+?)(?:\{[\d,]*\})? @\d+> \(size=(?P<bytes>\d+),offset=(?P<offset>\d+)\)")


def render(event: Event, id: str) -> Artifact:
    """XLA's own text."""
    return text_artifact(event, id, "Buffer assignment · XLA", "text")


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """One row per value: its allocation, what that is for, its bytes and its offset in it."""
    allocation: Mapping[str, str | None] = {}
    for line in artifact.lines:
        if found := _ALLOCATION.match(line):
            allocation = found.groupdict()
        elif (value := _VALUE.match(line)) and allocation:
            yield {
                "graph": artifact.graph,
                "allocation": int(allocation["number"] or 0),
                "allocated": int(allocation["bytes"] or 0),
                "for": allocation["what"] or "",
                "value": value["name"],
                "bytes": int(value["bytes"]),
                "offset": int(value["offset"]),
            }


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each value to the instruction of that name that makes it."""
    module = next(iter(reversed(trace.find("xla_optimized", artifact.frame, artifact.graph))), None)
    if module is None:
        return
    instructions = module_of(module.lines).instructions
    for number, line in enumerate(artifact.lines, 1):
        if (value := _VALUE.match(line)) and value["name"] in instructions:
            yield Link(artifact.id, (number,), module.id, (instructions[value["name"]].line,), "instruction name")


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many allocations there are, and their bytes."""
    found = [match for artifact in artifacts for line in artifact.lines if (match := _ALLOCATION.match(line))]
    return f"{quantity(len(found), 'allocation')}, {sum(int(each['bytes']) for each in found):,} bytes"


STAGE = Stage(
    name="xla_buffers",
    title="Buffer assignment · XLA",
    language="text",
    event=Text,
    artifact=Nothing,
    backend="xla",
    render=render,
    rows=rows,
    link=link,
    summary=summary,
    about="The memory that XLA allocates for the module's values; values that are not alive at once share an allocation.",
)
