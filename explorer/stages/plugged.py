"""The stages that plug-ins bring, behind explorer's own."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.model.stage import Stage
from explorer.process import plugins
from explorer.process.plugins import Brought
from explorer.stages import STAGES


def plugged_stages() -> Brought[Stage]:
    """Load the stages of the entry points `explorer.stages`."""
    return plugins.brought(plugins.STAGES, Stage, frozenset(stage.name for stage in STAGES))


def with_plugged(stages: Sequence[Stage] | None) -> Sequence[Stage]:
    """What a trace observes: the given stages, or without them explorer's and those of plug-ins."""
    return (*STAGES, *plugged_stages().values) if stages is None else stages
