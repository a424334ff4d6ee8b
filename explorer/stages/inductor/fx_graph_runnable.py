"""The graph handed to Inductor as a file that runs on its own."""

from __future__ import annotations

import re
from itertools import groupby

from explorer.model.records import typed
from explorer.model.shared import Nothing, Text
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event

#: A line that sets one of torch's settings.
_SETTING = re.compile(r"torch(?:\.\w+)*\.(?:config|_config)\.[\w.]+ = ")


def render(event: Event, id: str) -> Artifact:
    """Render the program that Inductor writes for its reproducers, with sorted settings: torch writes them in a set's order."""
    groups = groupby(typed(Text, event.data).text.split("\n"), key=lambda line: _SETTING.match(line) is not None)
    lines = [line for settings, group in groups for line in (sorted(group) if settings else group)]
    return text_artifact(event, id, "Runnable FX graph", "python", text="\n".join(lines))


STAGE = Stage(
    name="fx_graph_runnable",
    title="Runnable FX graph",
    language="python",
    event=Text,
    artifact=Nothing,
    render=render,
    backend="inductor",
    secondary=True,
    about="The same graph as a program: it makes inputs of the right shapes and compiles the graph.",
)
