"""Recompiles: which guard failed, so that a frame had to be compiled again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.values import Artifact, Event, Plain, plain

_AGAINST = re.compile(r"^(?P<frame>\d+/\d+): (?P<guard>.*)$", re.DOTALL)


def reasons(text: str) -> tuple[dict[str, Plain], ...]:
    """One row a failed guard: the earlier compile it belongs to, and the guard in Dynamo's words."""
    try:
        listed = json.loads(text)
    except ValueError:
        listed = [text]
    texts = listed if isinstance(listed, list) else [text]
    matches = [(_AGAINST.match(str(t).strip()), str(t).strip()) for t in texts]
    return tuple({"earlier": m["frame"] if m else "", "guard": m["guard"] if m else t} for m, t in matches)


def render(event: Event, id: str) -> Artifact:
    """One line a failed guard."""
    rows = event.data.get("rows") or reasons(event.data["text"])
    text = "\n".join(f"{row['earlier']}: {row['guard']}" if row["earlier"] else str(row["guard"]) for row in rows)
    return text_artifact(event, id, f"Recompile: {rows[0]['guard']}", "text", text=text, data={"rows": rows})


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """The reasons as rows, which name the earlier compiles as the trace does.

    A trace that compiled all anew leaves out what was compiled before it: that was set aside, and nothing was compiled again.
    """
    for event in events:
        rows = [{**row, "earlier": frames.names.get(str(row["earlier"]), row["earlier"])} for row in reasons(event.data["text"])]
        if not frames.fresh or any(row["earlier"] in frames.names for row in reasons(event.data["text"])):
            yield replace(event, data=plain({"rows": rows}))


STAGE = Stage(
    name="recompile",
    title="Recompile",
    language="text",
    render=render,
    gather=gather,
    about="The frame was compiled before, but a guard of each earlier version failed for this call.",
)
