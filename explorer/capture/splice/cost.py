"""What a compiled kernel takes of its GPU, to compare an edit with the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.capture.ladder.ladder import Ladder
from explorer.capture.ladder.triton_tools import no_sass
from explorer.model.values import Plain
from explorer.stages.triton.instruction_mix import amdgcn_mix, sass_mix


def launched_cost(kernel: Any) -> Mapping[str, Plain]:
    """What a kernel on the attached GPU takes: registers and spills a thread, shared memory a block; {} for other kernels."""
    launchers: Sequence[Any] = getattr(kernel, "launchers", ())
    if len(launchers) != 1 or getattr(launchers[0], "n_regs", None) is None:
        return {}
    (own,) = launchers
    return {"registers": int(own.n_regs), "spills": 4 * int(own.n_spills or 0), "shared": int(own.shared or 0)}


def ladder_cost(ladder: Ladder) -> Mapping[str, Plain]:
    """Return the resources that a kernel compiled for an absent GPU takes.

    `registers` and `spills` (bytes) count per thread, `shared` (bytes) per block. `warps` is the number of warps that an SM
    runs at once. `instructions` and their `mix` come from the machine code, if it can be disassembled here.
    """
    facts = ladder.metadata
    cost: dict[str, Plain] = {key: facts[key] for key in ("registers", "shared") if facts.get(key) is not None}
    if facts.get("spill_stores") is not None:
        cost["spills"] = int(facts["spill_stores"]) + int(facts.get("spill_loads") or 0)
    occupancy = facts.get("occupancy")
    if isinstance(occupancy, Mapping):
        cost["warps"] = occupancy["warps"]
    if mix := _mix(ladder):
        cost |= {"instructions": sum(mix.values()), "mix": dict(mix)}
    return cost


def _mix(ladder: Ladder) -> Mapping[str, int]:
    """How many instructions of each class the machine code has; {} where it cannot be disassembled here."""
    if ladder.target.vendor == "nvidia":
        return {} if no_sass(ladder.target) else sass_mix(ladder.sass())
    return amdgcn_mix(ladder.texts.get("amdgcn", ""))
