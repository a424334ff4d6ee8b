"""Predict how long a launch takes of its machine code, to compare two texts of one kernel on a GPU you don't have.

The time of a launch is the longest of three, plus a launch itself: what the multiprocessors take to issue every instruction, what
one block takes from its first instruction to its last, for each wave of blocks, and the bytes at the memory's bandwidth. It
serves to compare texts of one kernel: benchmarks/predicted_edits.py says how often it is right about which is faster.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.capture.interpret.estimate import add_assigned_integers, loop_count
from explorer.capture.ladder.ladder import Ladder
from explorer.capture.ladder.triton_tools import no_sass
from explorer.capture.splice.kernels import KernelText, interpreted_kernel
from explorer.model.syntax import parsed
from explorer.model.values import text_lines
from explorer.reference.gpus.figures import Target
from explorer.stages.triton.instruction_mix import sass_mix

#: Cycles of one of a multiprocessor's four schedulers that an instruction of a warp takes, by class: 32 threads over the lanes of
#: a quarter of a multiprocessor. https://docs.nvidia.com/cuda/cuda-c-programming-guide (throughput of arithmetic instructions,
#: compute capability 9.0).
CYCLES: Mapping[str, float] = {
    "fp32": 1.0,
    "fp16": 1.0,
    "fp64": 2.0,
    "integer": 2.0,
    "move": 2.0,
    "conversion": 8.0,
    "special function": 8.0,
    "shuffle": 4.0,
    "shared": 4.0,
    "global": 4.0,
    "local": 4.0,
    "sync": 8.0,
    "tensor core": 16.0,
}
#: Cycles that a warp waits for what an instruction gives, by class, where nothing else of its own is in flight.
LATENCY: Mapping[str, float] = {
    "global": 500.0,
    "shared": 23.0,
    "shuffle": 22.0,
    "sync": 25.0,
    "local": 30.0,
    "tensor core": 32.0,
}
#: The schedulers of a multiprocessor, and the cycles between two instructions of one warp that follow from each other.
SCHEDULERS, DEPENDENT = 4, 4.5
#: The seconds of a launch that does nothing, and the share of the memory's bandwidth that kernels reach: as `questions/costs.py`.
LAUNCH, SHARE = 1.0e-6, 0.85
#: Hertz where the target's figures have none.
CLOCK = 1.7e9

_LABEL = re.compile(r"^\s*(\.L\w+):")
_BRANCH = re.compile(r"\bBRA\b.*?\(?(\.L\w+)\)?")
_WIDE = re.compile(r"\b(LDG|STG)\.[\w.]*?(64|128)\b")
_NUMBER = re.compile(r"^\s*(r0_numel|rnumel|r1_numel|K)(?:\s*:[^=]*)? = (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Prediction:
    """The seconds of a launch, and what limits them: "issue", "latency" or "memory"."""

    seconds: float
    limit: str


@dataclass(frozen=True)
class Region:
    """A part of a text that runs `times` times: how many instructions of each class it has."""

    times: float
    counts: Mapping[str, float]

    @property
    def issue(self) -> float:
        """The cycles of one scheduler that it takes to issue the part once."""
        return sum(CYCLES.get(name, 1.0) * count for name, count in self.counts.items())

    @property
    def life(self) -> float:
        """The cycles that one warp alone takes for the part: its instructions one after the other, and its waits.

        The loads of one part are in flight together; loads of the next loop iteration are not.
        """
        waits = sum(LATENCY.get(name, 0.0) * count / 2 for name, count in self.counts.items() if name != "global")
        return DEPENDENT * sum(self.counts.values()) + waits + (LATENCY["global"] if self.counts.get("global") else 0.0)


def prediction_of(
    text: KernelText, ladder: Ladder, args: Sequence[Any], changed: Sequence[int], original: str
) -> Prediction | None:
    """Predict the time of a launch with these arguments, the `changed` ones written; None if no SASS can be read.

    The `original` source, as Inductor wrote it, says which arguments are read: a correct edit reads the same arguments, and may
    address them in any way.
    """
    import torch

    assert text.target is not None
    if text.target.vendor != "nvidia" or no_sass(text.target):
        return None
    kernel = interpreted_kernel(text, None)
    grid = kernel.grid(dict(zip(kernel.names, args, strict=False)))
    tensors = {n: a for n, a in enumerate(args) if isinstance(a, torch.Tensor)}
    read = {n for n in tensors if is_loaded(original, kernel.names[n])}
    moved = sum(tensors[n].numel() * tensors[n].element_size() for n in (*read, *changed))
    numbers = {**kernel.constants, **dict(zip(kernel.names, args, strict=False))}
    times = trips(text.source, ladder.config) or own_trips(text.source, numbers)
    return predicted(text.target, ladder, ladder.sass(), grid, times or 1.0, moved)


def predicted(target: Target, ladder: Ladder, sass: str, grid: tuple[int, int, int], times: float, moved: float) -> Prediction:
    """Predict a launch of `grid` blocks that moves `moved` bytes, and whose loops run `times` times."""
    blocks = math.prod(grid)
    regions = regions_of(sass, times)
    warps = int(ladder.metadata["num_warps"])
    occupancy: Any = ladder.metadata.get("occupancy") or {}
    at_once = max(1, int(occupancy.get("blocks") or 1)) * target.multiprocessors
    issue = sum(region.times * region.issue for region in regions) * warps / SCHEDULERS
    waves = math.ceil(blocks / at_once)
    clock = target.clock or CLOCK
    parts = {
        "issue": issue * math.ceil(blocks / target.multiprocessors) / clock,
        "latency": waves * sum(region.times * region.life for region in regions) / clock,
        "memory": moved / (target.bandwidth * SHARE),
    }
    limit = max(parts, key=lambda name: parts[name])
    # what does not limit still costs a part: a wave's end and beginning overlap with nothing
    return Prediction(LAUNCH + parts[limit] + 0.25 * sum(value for name, value in parts.items() if name != limit), limit)


def is_loaded(source: str, name: str) -> bool:
    """Whether a kernel may load from an argument, by its source as Inductor writes it: not where only stores address it."""
    uses = len(re.findall(rf"\b{re.escape(name)} \+", source))
    stores = len(re.findall(rf"\btl\.store\(\s*{re.escape(name)} \+", source))
    return stores == 0 or uses > stores


def trips(source: str, config: Mapping[str, Any]) -> float | None:
    """How often the loop of a reduction or of a matrix product of Inductor's runs; None where the source does not say."""
    sizes = {name: int(number) for name, number in _NUMBER.findall(source)}
    size = sizes.get("r0_numel") or sizes.get("rnumel") or sizes.get("K")
    block = config.get("R0_BLOCK") or config.get("RBLOCK") or config.get("BLOCK_K")
    return math.ceil(size / int(block)) if size and block else None


def own_trips(source: str, arguments: Mapping[str, Any]) -> float | None:
    """How often the longest loop of a kernel of the user's own runs; None where its bounds do not follow from the arguments."""
    tree, numbers = parsed(source), {name: value for name, value in arguments.items() if isinstance(value, int)}
    add_assigned_integers(tree, numbers)
    counts = [count for node in ast.walk(tree) if isinstance(node, ast.For) and (count := loop_count(node, numbers)) is not None]
    return max(counts, default=None)


def regions_of(sass: str, times: float) -> list[Region]:
    """Split the text into the code outside of loops, which runs once, and its loops, which run `times` times."""
    lines = text_lines(sass)
    labels = {match[1]: number for number, line in enumerate(lines) if (match := _LABEL.match(line))}
    branches = ((number, match[1]) for number, line in enumerate(lines) if (match := _BRANCH.search(line)))
    loops = [range(labels[label], number + 1) for number, label in branches if labels.get(label, number) < number - 1]
    inside = [next((loop for loop in loops if number in loop), None) for number in range(len(lines))]
    parts = [(loop, times) for loop in dict.fromkeys(loops)]
    made = [Region(repeats, _counted([lines[n] for n in loop if inside[n] == loop])) for loop, repeats in parts]
    return [Region(1.0, _counted([line for line, loop in zip(lines, inside, strict=True) if loop is None])), *made]


def _counted(lines: Sequence[str]) -> dict[str, float]:
    """The instructions by class; a wide load or store counts as several."""
    counts: dict[str, float] = {}
    for line in lines:
        wide = _WIDE.search(line)
        for name in sass_mix(line):
            counts[name] = counts.get(name, 0.0) + (int(wide[2]) / 32 if wide else 1.0)
    return counts
