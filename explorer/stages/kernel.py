"""Each kernel cut out of the wrapper: Triton, or C++."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from explorer.model import Artifact, Event, Link
from explorer.stage import Stage, text_artifact

if TYPE_CHECKING:
    from explorer.traced import Trace


def render(event: Event, id: str) -> Artifact:
    """The kernel's source in its own language."""
    name = str(event.data["name"])
    return text_artifact(event, id, f"Kernel {name}", str(event.data["language"]), kernel=name)


def link(artifact: Artifact, trace: Trace) -> Iterable[Link]:
    """Each line of the kernel to the line of the wrapper it was cut out of."""
    wrapper = trace.find("output_code", artifact.frame, artifact.graph)
    if wrapper:
        first = artifact.data["wrapper_line"]
        for number in range(1, len(artifact.lines) + 1):
            yield Link(artifact.id, (number,), wrapper[-1].id, (first + number - 1,), "cut out of the output code")


STAGE = Stage(
    name="kernel", title="Kernel", language="triton", render=render, link=link,
    about="One fused loop nest as source: Triton for GPUs, C++ for CPUs.",
)  # fmt: skip
