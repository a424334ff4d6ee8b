"""Inductor's IR after fusion: the scheduler's nodes."""

from __future__ import annotations

from explorer.model import Artifact, Event
from explorer.stage import Stage, text_artifact


def render(event: Event, id: str) -> Artifact:
    """The scheduler's nodes as TORCH_COMPILE_DEBUG=1 writes them."""
    return text_artifact(event, id, "Inductor IR after fusion", "inductor-ir", text=event.data["text"].rstrip())


STAGE = Stage(
    name="ir_post_fusion", title="IR after fusion", language="inductor-ir", render=render,
    phases=("Scheduler.__init__",),
    about="The same nodes after the scheduler has fused them: each is one kernel or one library call.",
)  # fmt: skip
