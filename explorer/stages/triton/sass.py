"""The NVIDIA machine code of each Triton kernel, as nvdisasm reads it from the cubin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from posixpath import basename

from explorer.model.records import typed
from explorer.model.stage import Stage
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Call, Event, Link, once, text_lines
from explorer.stages.triton import origins
from explorer.stages.triton.instruction_mix import sass_mix
from explorer.stages.triton.instructions import SASS_INSTRUCTION
from explorer.stages.triton.numbers import sass_numbers
from explorer.stages.triton.origins import KernelForm, KernelFormText

#: How an instruction's line of the PTX is known, and the kernel's line that the PTX states there.
ASSEMBLED, ASSEMBLED_LOC = "ptxas line table", "ptx .loc, by ptxas line table"
_LABEL = re.compile(r"^\s*(\.L_\w+):")
_EXIT = re.compile(r"^\s*(?:\.L_\w+:\s*)?/\*[0-9a-f]{4,}\*/\s+EXIT\b")
_LINE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')


def render(event: Event, id: str) -> Artifact:
    """The kernel's SASS, with the number of its instructions of each class as `mix`."""
    return origins.kernel_artifact(event, id, "SASS", "sass", sass_mix)


def event_of(ptx: Event | Artifact, text: str, ptx_lines: Sequence[int] = (), path: tuple[Call, ...] | None = None) -> Event:
    """The event of a kernel's SASS, with the facts of its PTX.

    `ptx_lines` has for each instruction the line of the PTX that it was assembled from; () where that is not known.
    """
    facts = {**ptx.data, "text": text, "stage_seconds": None, "ptx_lines": ptx_lines}
    return Event("sass", ptx.time, ptx.frame, ptx.graph, typed(KernelFormText, facts), ptx.path if path is None else path)


def chains(text: str) -> Iterator[tuple[int, origins.Chain]]:
    """The origin of each instruction: the //## File lines above it."""
    chain: list[tuple[str, int]] = []
    fresh = True
    for number, line in enumerate(text_lines(text), 1):
        if location := _LINE.match(line):
            places = [(location[1], int(location[2])), *([(location[3], int(location[4]))] if location[3] else [])]
            chain = places if fresh else [*chain, *places]
            fresh = False
        elif SASS_INSTRUCTION.match(line):
            fresh = True
            yield number, tuple(chain)


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link each instruction to its line of the PTX, and to the kernel's lines that this line states.

    Where the lines of the PTX are not known, to the kernel's line that nvdisasm names. If that is a line of triton's own library,
    the PTX says where it was inlined. The link is made if that is one line of the kernel, or lines that all compute the same FX
    node. What ends the kernel and fills the rest is nobody's line, though nvdisasm gives it the last one.
    """
    kernel = origins.kernel_of(artifact, trace)
    ptx = next((a for a in trace.find("ptx", artifact.frame, artifact.graph) if a.kernel == artifact.kernel), None)
    if kernel is None:
        return
    form = typed(KernelForm, artifact.data)
    if ptx is not None and form.ptx_lines:
        yield from _link_assembled(artifact, ptx, kernel, trace)
        return
    inlined = _inlined(artifact, trace, len(kernel.lines))
    literals = origins.Literals(kernel)
    ends = closing(artifact)
    for number, chain in chains(artifact.text):
        if number in ends:
            continue
        line = origins.own_line(chain, form, len(kernel.lines))
        if line:
            yield Link(artifact.id, (number,), kernel.id, (line,), "nvdisasm line")
        elif chain:
            places = inlined.get((basename(chain[0][0]), chain[0][1]), set())
            if literals.one(places):
                yield Link(artifact.id, (number,), kernel.id, tuple(sorted(places)), "nvdisasm line, inlined as ptx .loc says")


def _link_assembled(artifact: Artifact, ptx: Artifact, kernel: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each instruction by its numbers and by ptxas's line table of the PTX, where each instruction is on its own line."""
    kernel_lines: dict[int, list[int]] = {}
    for link in origins.assembly_links("")(ptx, trace):
        for number in link.source_lines:
            kernel_lines.setdefault(number, []).extend(link.target_lines)
    llir = origins.form_of(artifact, trace, "llir")
    named = origins.number_lines(llir, kernel, trace) if llir else {}
    instructions = (n for n, line in enumerate(artifact.lines, 1) if SASS_INSTRUCTION.match(line))
    ends = closing(artifact)
    for number, origin in zip(instructions, typed(KernelForm, artifact.data).ptx_lines or (), strict=True):
        if number in ends:
            continue
        if origin:
            yield Link(artifact.id, (number,), ptx.id, (origin,), ASSEMBLED)
        if origins.CONSTANT.match(artifact.lines[number - 1]):
            continue
        lines = kernel_lines.get(origin, [])
        if lines:
            yield Link(artifact.id, (number,), kernel.id, tuple(sorted(lines)), ASSEMBLED_LOC)
        if places := origins.lines_of_numbers(sass_numbers(artifact.lines[number - 1]), named, lines):
            yield Link(artifact.id, (number,), kernel.id, tuple(sorted(places)), origins.IN_LLIR)


def _inlined(artifact: Artifact, trace: TraceData, lines: int) -> dict[tuple[str, int], set[int]]:
    """Each place of the PTX → the lines of the kernel that it was inlined into."""
    form = typed(KernelForm, artifact.data)
    inlined_into: dict[tuple[str, int], set[int]] = {}
    for ptx in trace.find("ptx", artifact.frame, artifact.graph):
        if ptx.kernel == artifact.kernel:
            possible = {chain for _, chains_of_line in origins.loc_candidates(ptx.text) for chain in chains_of_line if chain}
            for chain in possible:
                if line := origins.own_line(chain, form, lines):
                    inlined_into.setdefault((basename(chain[0][0]), chain[0][1]), set()).add(line)
    return inlined_into


@once
def closing(artifact: Artifact) -> frozenset[int]:
    """Return the lines that end the kernel and fill the rest: NOPs, the jump to itself, and an exit that all threads take."""
    numbered = enumerate(zip(artifact.lines, kinds(artifact), strict=True), 1)
    return frozenset(number for number, (line, kind) in numbered if kind or _EXIT.match(line))


def kinds(artifact: Artifact) -> list[str]:
    """Instructions compute, up to the jump to itself after the end and the NOPs that fill the rest."""
    kinds_of_lines: list[str] = []
    label = ""
    for line in artifact.lines:
        instruction = SASS_INSTRUCTION.match(line)
        here = _LABEL.match(line)
        label = here[1] if here else label
        if instruction is None:
            kinds_of_lines.append("directives")
            continue
        padding = instruction[1] == "NOP" or (instruction[1] == "BRA" and f"({label})" in line.replace("`", ""))
        kinds_of_lines.append("padding" if padding else "")
        label = ""
    return kinds_of_lines


STAGE = Stage(
    name="sass",
    title="SASS",
    language="sass",
    event=KernelFormText,
    artifact=KernelForm,
    render=render,
    per_kernel=True,
    kinds=kinds,
    link=link,
    backend="inductor",
    on_demand_of="ptx",
    about="The instructions an NVIDIA GPU runs, with real registers, in the order they are issued.",
)
