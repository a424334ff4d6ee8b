"""Say how alike matched kernels are, and what differs: in the sizes of their loops, in their source, and below it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from explorer.analysis.questions.comparison import Comparison, Key
from explorer.analysis.questions.kernels import KernelData, kernel_body, texts_of_kernel
from explorer.analysis.questions.matched_kernels import Bound, KernelMatch
from explorer.analysis.questions.target import gpu_of
from explorer.model.trace_data import TraceData
from explorer.model.values import once
from explorer.model.wording import quantity, readable_bytes

SAME_SOURCE, SAME_VALUES, SAME_CALL, SAME_LINES = "same source", "same values", "same call", "same lines"
#: How many matches of each kind there are, as a sentence says it; the other kinds are counted by their own name.
COUNTED = {
    SAME_SOURCE: ("kernel has the same source", "kernels have the same source"),
    SAME_VALUES: ("kernel has the same values from another source", "kernels have the same values from another source"),
    SAME_CALL: ("library call is the same", "library calls are the same"),
    SAME_LINES: ("match is of the same lines", "matches are of the same lines"),
}
#: The number of elements along a dimension that a kernel's loops run over: a reduction that is split otherwise has other ones.
EXTENT = re.compile(r"^ +(\w*numel) = (\d+)$", re.MULTILINE)
#: How a kernel's source names its values; they are numbered in the order of the lines.
VALUE = re.compile(r"\btmp\d+\b")
#: How a difference in the sources is called. Its values are the lines that each source has and another lacks.
SOURCE_LINES = "source lines"
#: What limits a kernel or library call, which its time follows from.
LIMITED_BY = "limited by"
#: How TTIR names a function of the GPU's math library.
LIBRARY_FUNCTION = re.compile(r'symbol = "(\w+)"')
#: A kernel's resources that are plain numbers, and what they are called.
NUMBERS = {"num_warps": "warps", "num_stages": "stages", "registers": "registers"}


@dataclass(frozen=True)
class Likeness:
    """How alike the kernels of a match are, and what differs: a name → its value in each trace.

    `bounds` has what limits the kernels in each trace, if that differs; `differs` has it in words, under LIMITED_BY.
    """

    what: str
    differs: Mapping[str, tuple[str, ...]]
    bounds: tuple[Bound, ...] = ()

    def __str__(self) -> str:
        words = [_worded(name, values) for name, values in self.differs.items()]
        if self._splits_otherwise():
            words.append("the same elements: the reduction is split otherwise")
        return "; ".join(words)

    def _splits_otherwise(self) -> bool:
        """Tell whether the loops of a reduction have other sizes, but run over as many elements in all."""
        sizes = [values for name, values in self.differs.items() if name.endswith("numel")]
        reduces = any(name.startswith("r") and name.endswith("numel") for name in self.differs)
        return reduces and len({prod(map(int, of)) for of in zip(*sizes, strict=True)}) == 1


def _worded(name: str, values: Sequence[str]) -> str:
    """Word what differs: the lines of two sources are counted, other facts stand beside each other."""
    if name != SOURCE_LINES:
        return f"{name} {' | '.join(values)}"
    if len(set(values)) > 1:
        return f"source lines that the others lack {' | '.join(values)}"
    return f"{quantity(int(values[0]), 'source line')} {'differs' if values[0] == '1' else 'differ'}"


def likenesses(comparison: Comparison, matches: Sequence[KernelMatch]) -> list[Likeness]:
    """Say of each match how alike its kernels are; a match of another kind than "same" keeps its own word."""
    return [_likeness(comparison.traces, match) for match in matches]


def _likeness(traces: Sequence[TraceData], match: KernelMatch) -> Likeness:
    if match.what != "same":
        return Likeness(match.what, {})
    members = [kernel for (kernel,) in match.kernels]
    generated = [_generated(trace).get(member.artifact) for trace, member in zip(traces, members, strict=True)]
    kernels = [kernel for kernel in generated if kernel is not None]
    if not all(isinstance(value, Key) for member in members for value in member.computes):
        return Likeness(SAME_LINES, {})
    bounds = tuple(member.bound for member in members if member.bound is not None)
    if len(bounds) < len(members) or len(set(bounds)) == 1:
        bounds = ()
    limits = {LIMITED_BY: tuple(map(str, bounds))} if bounds else {}
    if len(kernels) < len(members):
        return Likeness(SAME_CALL, limits, bounds) if not kernels else Likeness(SAME_VALUES, {})
    what = SAME_SOURCE if len(set(map(kernel_body, kernels))) == 1 else SAME_VALUES
    facts = [
        dict(EXTENT.findall(kernel_body(kernel))) | _below(trace, kernel) for trace, kernel in zip(traces, kernels, strict=True)
    ]
    known = [name for name in facts[0] if all(name in other for other in facts)]
    values = {name: tuple(fact[name] for fact in facts) for name in known}
    differs = limits | {name: of for name, of in values.items() if len(set(of)) > 1}
    if what == SAME_VALUES:
        differs[SOURCE_LINES] = tuple(map(str, _own_lines(kernels)))
    return Likeness(what, differs, bounds)


def _own_lines(kernels: Sequence[KernelData]) -> list[int]:
    """Count for each kernel the lines of its source that the source of another one lacks; names of values do not count."""
    lines = [Counter(VALUE.sub("tmp", line) for line in kernel_body(kernel).split("\n")) for kernel in kernels]
    return [max((mine - other).total() for other in lines) for mine in lines]


@once
def _generated(trace: TraceData) -> dict[str, KernelData]:
    return {a.id: KernelData(trace, a) for a in trace.find("kernel")}


def _below(trace: TraceData, kernel: KernelData) -> dict[str, str]:
    """Return what is known of a Triton kernel below its source, in words."""
    resources: Mapping[str, Any] = kernel.resources
    gpu = gpu_of(trace)
    facts = {}
    if gpu is not None and (warps := resources.get("num_warps")):
        facts["threads a block"] = str(warps * gpu.warp)
    facts |= {word: str(resources[name]) for name, word in NUMBERS.items() if resources.get(name) is not None}
    if resources.get("shared") is not None:
        facts["shared memory"] = readable_bytes(resources["shared"])
    if (spilled := _spilled(resources)) is not None:
        facts["spills"] = spilled
    texts = [text.text for text in texts_of_kernel(trace, kernel.artifact) if text.stage == "ttir"]
    if texts:
        facts["library functions"] = ", ".join(sorted(set(LIBRARY_FUNCTION.findall(texts[0])))) or "none"
    return facts


def _spilled(resources: Mapping[str, Any]) -> str | None:
    """Return what a thread spills: bytes by NVIDIA's assembler, registers by AMD's compiler; None where nothing says it."""
    for unit, names in (("byte", ("spill_stores", "spill_loads")), ("register", ("spilled_registers",))):
        if known := [resources[name] for name in names if resources.get(name) is not None]:
            return quantity(sum(known), unit) if sum(known) else "0"
    return None


def summary(alike: Sequence[Likeness], reasons: Sequence[str]) -> Iterator[str]:
    """Yield the sentences that count the matches: what they are, why some are not known, and what differs below the sources."""
    counted = Counter(one.what for one in alike)
    parts = [_counted(what, count) for what, count in counted.most_common()]
    yield f"{quantity(len(alike), 'match')}{': ' if parts else ''}{', '.join(parts)}"
    unknown = (why for one, why in zip(alike, reasons, strict=True) if one.what == "not known")
    yield from dict.fromkeys(f"Not known: {why}." for why in unknown)
    kernels = [one for one in alike if one.what in (SAME_SOURCE, SAME_VALUES)]
    differ = Counter(name for one in kernels for name in one.differs)
    if differ:
        listed = ", ".join(f"{name} in {count}" for name, count in differ.most_common())
        yield f"What differs in these {quantity(len(kernels), 'kernel')}: {listed}."


def _counted(what: str, count: int) -> str:
    one, several = COUNTED.get(what, (what, what))
    return f"{count} {one if count == 1 else several}"


__all__ = ["LIMITED_BY", "SAME_CALL", "SAME_SOURCE", "SAME_VALUES", "SOURCE_LINES", "Likeness", "likenesses", "summary"]
