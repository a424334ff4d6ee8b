"""Join a report of Nsight Compute with the kernels and the SASS of a trace. Pure.

A kernel is joined by its name and its code: every instruction has the same offset and opcode. Then each instruction is joined
whose operands agree too. Nothing is guessed: the rest says why it is not joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from explorer.analysis.counters.report import Instruction, ReportedLaunch
from explorer.analysis.questions.profile import profile_of
from explorer.analysis.timing.launch_names import aliases
from explorer.analysis.timing.profile import with_timeline
from explorer.analysis.timing.timeline import Span, Timeline
from explorer.errors import InputError
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event
from explorer.stages.replay import extended, rendered, without
from explorer.stages.triton.counters import CountedInstruction, Counters, sass_of

T = TypeVar("T", bound=TraceData)

NO_KERNEL = "the trace has no kernel of this name"
NO_SASS = (
    "the trace has no SASS of this kernel, and no ptxas here makes the report's code of its PTX: t.attach('sass') where it was "
    "compiled keeps it"
)
OTHER_CODE = "the trace has a kernel of this name with other code: other options, shapes, config or compiler"
SEVERAL = "several kernels of the trace have this name and code: {places}"
#: What recorded the times of a report.
SOURCE = "Nsight Compute"
#: The most kernels that a message lists.
MAX_NAMES = 5
_INSTRUCTION = re.compile(r"^\s*(?:\.L_\w+:\s*)?/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
#: Where a jump leads: a label of nvdisasm's, an address of ncu's.
_TARGET = re.compile(r"`\(\.L_\w+\)|\b0x[0-9a-f]+\b")
_JUMPS = ("BRA", "BRX", "BSSY", "CALL", "JMP", "LEPC", "RET", "WARPSYNC")
#: The copies from global to shared memory, whose two places the tools write in different orders.
_COPIES = ("LDGSTS",)


class SassLine(NamedTuple):
    """An instruction of the trace's SASS: its line, and its text as a report has it."""

    line: int
    text: str


def with_counters(trace: T, launches: Sequence[ReportedLaunch]) -> T:
    """Return the trace with the counters of a report, in place of those it may have; InputError if no kernel is joined."""
    kernels = list(_joined(trace, launches))
    if all(counters.why for _, counters in kernels):
        raise InputError(_nothing_joined(trace, [counters for _, counters in kernels]))
    bare = without(trace, ("counters",))
    events = [
        Event("counters", 0.0, kernel.frame if kernel else "", kernel.graph if kernel else "", counters)
        for kernel, counters in kernels
    ]
    return _timed(extended(bare, list(rendered(bare, events))), [counters for _, counters in kernels])


def _timed(trace: T, kernels: Sequence[Counters]) -> T:
    """Return the trace with the times of a report, where nothing else measured a call: these are of cold caches."""
    profile = profile_of(trace)
    spans = tuple(
        Span(counters.name, 0.0, counters.metrics["seconds"] * counters.launches, "", launches=counters.launches)
        for counters in kernels
        if not counters.why and "seconds" in counters.metrics
    )
    if not spans or trace.find("run_times") or (profile is not None and profile.source != SOURCE):
        return trace
    return with_timeline(trace, Timeline(SOURCE, "", (), spans, timed=False))


def reported_kernels(trace: TraceData, launches: Sequence[ReportedLaunch]) -> list[Artifact]:
    """List the kernels of a trace whose instructions a report may have, by their names."""
    names = {launch.name for launch in launches if launch.instructions}
    return [kernel for kernel in trace.find("kernel") if _names(kernel) & names]


def is_code_of(sass: Artifact, launches: Sequence[ReportedLaunch]) -> bool:
    """Whether a report has a launch of exactly this code."""
    lines = sass_lines(sass)
    return any(_is_same(launch.instructions, lines) for launch in launches)


def _joined(trace: TraceData, launches: Sequence[ReportedLaunch]) -> Iterator[tuple[Artifact | None, Counters]]:
    """Yield the sums of the launches of each kernel with the same code, and the kernel of the trace that it is."""
    groups: dict[tuple[str, tuple[tuple[int, str], ...]], list[ReportedLaunch]] = {}
    for launch in launches:
        code = tuple((one.offset, _operands(one.text)) for one in launch.instructions)
        groups.setdefault((launch.name, code), []).append(launch)
    for (name, _), of_kernel in groups.items():
        kernel, why = _kernel(trace, name, of_kernel[0].instructions)
        sass = sass_of(kernel, trace) if kernel is not None else None
        lines = sass_lines(sass) if sass is not None else {}
        own_name = kernel.kernel if kernel is not None else name
        rows = tuple(_rows(of_kernel, lines))
        yield kernel, Counters(name=own_name, launches=len(of_kernel), metrics=_means(of_kernel), rows=rows, why=why)


def _names(kernel: Artifact) -> set[str]:
    """The names that a kernel may have in a report: the wrapper calls one of the program's own by another."""
    return {kernel.kernel, *aliases(kernel.text)}


def _kernel(trace: TraceData, name: str, code: Sequence[Instruction]) -> tuple[Artifact | None, str]:
    """The kernel of the trace with this name and code, or why there is none."""
    named = [kernel for kernel in trace.find("kernel") if name in _names(kernel)]
    if not named:
        return None, NO_KERNEL
    if code:
        texts = [(kernel, sass) for kernel in named if (sass := sass_of(kernel, trace)) is not None]
        if not texts:
            return None, NO_SASS
        named = [kernel for kernel, sass in texts if _is_same(code, sass_lines(sass))]
        if not named:
            return None, OTHER_CODE
    if len(named) > 1:
        return None, SEVERAL.format(places=", ".join(f"{kernel.frame}:{kernel.graph}" for kernel in named))
    return named[0], ""


def sass_lines(sass: Artifact) -> Mapping[int, SassLine]:
    """The instructions of a SASS text by their offsets."""
    found = ((number, _INSTRUCTION.match(line)) for number, line in enumerate(sass.lines, 1))
    return {int(match[1], 16): SassLine(number, " ".join(match[2].split())) for number, match in found if match}


def _is_same(code: Sequence[Instruction], lines: Mapping[int, SassLine]) -> bool:
    """Whether a report and a trace have the same opcode at every offset of either."""
    here = {offset: _opcode(line.text) for offset, line in lines.items()}
    return here == {one.offset: _opcode(one.text) for one in code}


def _opcode(text: str) -> str:
    """The opcode of an instruction, without the predicate before it."""
    words = text.split()
    return words[1] if len(words) > 1 and words[0].startswith("@") else words[0] if words else ""


def _operands(text: str) -> str:
    """An instruction as both tools would write it: without blanks, hints of reuse, and the place that a jump leads to."""
    text = text.rstrip("; ").replace(".reuse", "")
    opcode = _opcode(text).partition(".")[0]
    if opcode in _JUMPS:
        text = _TARGET.sub("target", text)
    if opcode in _COPIES:
        begin, _, operands = text.partition(" " if not text.startswith("@") else f"{_opcode(text)} ")
        text = begin + ",".join(sorted(part.strip() for part in operands.split(",")))
    return "".join(text.split())


def _rows(launches: Sequence[ReportedLaunch], lines: Mapping[int, SassLine]) -> Iterator[CountedInstruction]:
    """Yield each instruction with its counts over all launches."""
    for of_launches in zip(*(launch.instructions for launch in launches), strict=True):
        first = of_launches[0]
        counts: dict[str, float] = {}
        for one in of_launches:
            for name, value in one.counts.items():
                counts[name] = counts.get(name, 0) + value
        line = lines.get(first.offset)
        is_same = line is not None and _operands(line.text) == _operands(first.text)
        number = line.line if line is not None and is_same else 0
        yield CountedInstruction(offset=first.offset, text=first.text, line=number, counts=counts)


def _means(launches: Sequence[ReportedLaunch]) -> Mapping[str, float]:
    names = dict.fromkeys(name for launch in launches for name in launch.metrics)
    values = {name: [launch.metrics[name] for launch in launches if name in launch.metrics] for name in names}
    return {name: sum(of_launches) / len(of_launches) for name, of_launches in values.items()}


def _nothing_joined(trace: TraceData, kernels: Sequence[Counters]) -> str:
    """Say that nothing of a report is of this trace, what it has, and what to do."""
    names = [a.kernel for a in trace.find("kernel")]
    has = "; ".join(f"{counters.name}: {counters.why}" for counters in kernels[:MAX_NAMES])
    return (
        f"nothing of the report is a kernel of this trace. The report has {has}. The trace has "
        f"{', '.join(names[:MAX_NAMES]) or 'no generated kernel'}. Profile the same program, with the same options and "
        "shapes, on the GPU that it was traced for; explorer trace --ncu does both in one run"
    )


__all__ = ["is_code_of", "reported_kernels", "with_counters"]
