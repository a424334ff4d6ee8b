"""The module of IREE's virtual machine, as iree-dump-module lists it: imports, exports and byte code."""

from __future__ import annotations

from explorer.model.shared import Nothing, Text
from explorer.model.stage import Stage, line_count, text_artifact
from explorer.model.values import Artifact, Event


def render(event: Event, id: str) -> Artifact:
    """The listing."""
    return text_artifact(event, id, "VM module · IREE", "text")


STAGE = Stage(
    name="iree_vm_module",
    title="VM module · IREE",
    language="text",
    event=Text,
    artifact=Nothing,
    backend="iree",
    render=render,
    summary=line_count,
    about="The module that IREE's virtual machine loads: what it imports and exports, its sections, its byte code.",
)
