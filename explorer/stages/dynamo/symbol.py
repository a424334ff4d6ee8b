"""Symbols: the sizes that were left dynamic, where each comes from, and the range it may take."""

from __future__ import annotations

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event, Plain


def render(event: Event, id: str) -> Artifact:
    """One line a symbol, then what was learnt of them; the event holds all of one frame's, see `replay`."""
    rows = event.data["rows"]
    return text_artifact(event, id, "Dynamic shapes", "text", text="\n".join(map(readable, rows)))


def readable(row: dict[str, Plain]) -> str:
    """A symbol, or a condition on symbols, as one line."""
    why = row.get("code") or (f"torch: {row['framework']}" if row.get("framework") else "")
    why = f"  # {why}" if why else ""
    if row["what"] == "guarded":
        return f"{row['expr']}{why}"
    value = f", {row['val']} at this call" if row["val"] else ""
    return f"{row['symbol']} = {row['source']}  in {row['vr']}{value}{why}"


STAGE = Stage(
    name="symbol",
    title="Dynamic shapes",
    language="text",
    render=render,
    about="The symbol for each dynamic size, its range, and the conditions that your code put on it.",
)
