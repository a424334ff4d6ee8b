"""A stage made of another stage's text: each load of the generated Triton kernels, and what masks it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from explorer.types import Artifact, Event, Link, Stage

LOAD = re.compile(r"(?P<value>\w+) = tl\.load\((?P<pointer>\w+)(?P<rest>.*)")


def gather(events: Sequence[Event], frames: Any) -> Iterator[Event]:
    """One event for each output code with loads: its text, a line for each of them, and the table's rows."""
    for event in events:
        rows = list(loads(str(event.data["text"])))
        if rows:
            text = "\n".join(f"{row['value']} of {row['pointer']}, mask {row['mask']}" for row in rows)
            yield replace(event, kind="loads", data={"text": text, "rows": rows})


def loads(text: str) -> Iterator[dict[str, Any]]:
    """The loads in a text: the line, the value, the pointer, and the mask, "none" where all elements are loaded."""
    for number, line in enumerate(text.split("\n"), 1):
        if found := LOAD.search(line):
            masks = re.findall(r"\w*mask\b", found["rest"])
            yield {"line": number, "value": found["value"], "pointer": found["pointer"], "mask": masks[0] if masks else "none"}


def render(event: Event, id: str) -> Artifact:
    """The event as a text; its data has the rows of `t.table("loads")`."""
    text, rows = str(event.data["text"]), event.data["rows"]
    return Artifact(id, "loads", event.frame, event.graph, "Loads", "text", text, time=event.time, data={"rows": rows})


def link(artifact: Artifact, trace: Any) -> Iterable[Link]:
    """Link each line to the load in the output code."""
    for code in trace.find("output_code", artifact.frame, artifact.graph):
        for number, row in enumerate(artifact.data["rows"], 1):
            yield Link(artifact.id, (number,), code.id, (row["line"],), "line number")


def kinds(artifact: Artifact) -> Sequence[str]:
    """Every line comes from a line of the user: `t.coverage` counts those that are linked."""
    return [""] * len(artifact.lines)


def summary(artifacts: Sequence[Artifact]) -> str:
    """What the table of stages says of the stage."""
    return f"{sum(len(a.lines) for a in artifacts)} loads"


#: The output code's events are read as they are: a stage of explorer's has a record for their data, a plug-in needs none.
CONSUMES: Mapping[str, None] = {"output_code": None}
STAGE = Stage(
    name="loads",
    title="Loads",
    language="text",
    about="Each load of the generated kernels, and what masks it.",
    render=render,
    gather=gather,
    link=link,
    kinds=kinds,
    summary=summary,
    consumes=CONSUMES,
    columns=("line", "value", "pointer", "mask"),
)
