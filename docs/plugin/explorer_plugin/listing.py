"""A compiler for `backend="listing"`, and the stage of its text: it lists a graph's operators, and PyTorch runs them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from explorer.types import Artifact, Compiler, Event, Link, Stage


def backend(emit: Any, options: Mapping[str, Any]) -> Callable[..., Any]:
    """Make the backend for torch.compile; what the compiler needs is imported here, when it is asked for."""
    upper = bool(options.get("upper", False))

    def compile_graph(gm: Any, inputs: Any) -> Callable[..., Any]:
        nodes = [(node.name, str(node.target)) for node in gm.graph.nodes if node.op.startswith("call")]
        text = "\n".join(f"{name}: {target.upper() if upper else target}" for name, target in nodes)
        emit("listing", lambda: {"text": text, "nodes": [name for name, _ in nodes]})
        run: Callable[..., Any] = gm.forward
        return run

    return compile_graph


COMPILER = Compiler(
    name="listing",
    title="Listing",
    about="a list of the operators of Dynamo's graph, which PyTorch runs",
    extra="",
    modules=("torch",),
    backend=backend,
    kinds=("listing",),
    options={"upper": "True to write the operators in capitals"},
)


def render(event: Event, id: str) -> Artifact:
    """The event as a text; its data has the nodes of its lines."""
    text, data = str(event.data["text"]), {"listed": event.data["nodes"]}
    return Artifact(id, "listing", event.frame, event.graph, "Listing", "text", text, time=event.time, data=data)


def link(artifact: Artifact, trace: Any) -> Iterable[Link]:
    """Link each line to that of its node in Dynamo's graph."""
    for graph in trace.find("dynamo", artifact.frame):
        for number, name in enumerate(artifact.data["listed"], 1):
            lines = [n for n, line in enumerate(graph.lines, 1) if re.match(rf"\s*{re.escape(name)}\b.*=", line)]
            yield from (Link(artifact.id, (number,), graph.id, (line,), "node name") for line in lines)


STAGE = Stage(
    name="listing",
    title="Listing",
    language="text",
    about="The operators that the compiler was given, one a line.",
    render=render,
    link=link,
    kinds=lambda artifact: [""] * len(artifact.lines),
    backend="listing",
    opens_at=5,
    made_from=("dynamo",),
)
