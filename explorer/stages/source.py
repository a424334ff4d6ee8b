"""The Python source of each compiled frame, of the resume functions, and of the functions inlined into them."""

from __future__ import annotations

from explorer.hooks import dynamo
from explorer.model import Artifact, Event
from explorer.stage import Stage, text_artifact
from explorer.stages._fx import short


def render(event: Event, id: str) -> Artifact:
    """The source, titled by its function and what became of it."""
    data = event.data
    if data.get("inlined"):
        state = ", inlined"
    elif not data["compiled"]:
        state = ", not compiled: this branch has not run" if data["resume"] else ", not compiled"
    else:
        state = ""
    title = f"{data['qualname']} ({short(data['file'])}:{data['first_line']}{state})"
    return text_artifact(event, id, title, "python")


STAGE = Stage(
    name="source", title="Python source", language="python", render=render, watch=dynamo.frames,
    about="The function as you wrote it. Dynamo compiles one frame (one call of one function) at a time.",
)  # fmt: skip
