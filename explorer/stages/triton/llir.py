"""The LLVM IR of each Triton kernel."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.model.values import Artifact, Event
from explorer.stages.triton import forms as _ladder


def render(event: Event, id: str) -> Artifact:
    """The kernel's LLIR."""
    return _ladder.kernel_artifact(event, id, "LLIR", "llvm")


STAGE = Stage(
    name="llir",
    title="LLVM IR",
    language="llvm",
    render=render,
    link=_ladder.link_llvm,
    about="The program of one thread, in LLVM's language, after its optimizer.",
)
