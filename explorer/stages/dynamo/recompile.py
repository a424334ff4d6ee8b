"""Recompiles: which guard failed, so that a frame had to be compiled again."""

from __future__ import annotations

import json
import re

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event, Plain

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


STAGE = Stage(
    name="recompile",
    title="Recompile",
    language="text",
    render=render,
    about="The frame was compiled before, but a guard of each earlier version failed for this call.",
)
