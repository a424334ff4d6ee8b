"""What is read of a compiled Triton kernel: a text of its ladder, and the instructions of its machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from explorer.capture.ladder.ladder import Ladder
from explorer.errors import unknown_name
from explorer.stages.triton.instruction_mix import amdgcn_mix, sass_mix


def ladder_text(ladder: Ladder, stage: str, what: str, stages: Sequence[str]) -> str:
    """Return one text of a ladder, SASS made for it; InputError, with the `stages` of `what`, for a stage that it lacks."""
    if stage == "sass" and "ptx" in ladder.texts:
        return ladder.sass()
    if stage not in ladder.texts:
        raise unknown_name(f"stage of this {what}", stage, stages)
    return ladder.texts[stage]


def mix_of(stages: Sequence[str], text: Callable[[str], str]) -> Mapping[str, int]:
    """Count the instructions of each class in machine code that `text` gives, the most frequent first; {} without any."""
    if "amdgcn" in stages:
        return amdgcn_mix(text("amdgcn"))
    return sass_mix(text("sass")) if {"ptx", "sass"} & set(stages) else {}
