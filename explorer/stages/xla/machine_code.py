"""LLVM IR and assembly of each kernel that XLA compiled itself; what it calls of a library has neither.

XLA writes no locations into its code. A kernel has the name of its instruction in the optimised HLO, and by that all of it is
linked to what was fused there: as a whole, not line by line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from explorer.model.records import Record, record, typed
from explorer.model.shared import Text
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import FUSED, Artifact, Event, Link, text_lines
from explorer.stages.cpp.assembly import is_instruction
from explorer.stages.iree import llvm
from explorer.stages.kinds import SETUP, Kinds, by_rules
from explorer.stages.triton.llir import LINES
from explorer.stages.xla import hlo


@record
class XlaKernel(Record):
    """A kernel that XLA compiled, by the name of its instruction in the optimised HLO."""

    name: str


@record
class XlaKernelText(XlaKernel):
    """A kernel of XLA's: its LLVM IR, or its assembly when it was cut out of a listing."""

    text: str


#: The head of a function in objdump's listing, and a relocation, which it writes under an instruction.
_FUNCTION = re.compile(r"^(?:[0-9a-f]+ )?<(?P<name>[^>+]+)>:$")
_RELOCATION = re.compile(r"^\s+(?:[0-9a-f]+: )?R_\w+\s")
#: What frames a function on x86 and Arm.
_FRAME = re.compile(r"^\t(?:push|pop|ret[q]?|leave|vzeroupper|nop\w*|int3|xchg\s+%ax,%ax)\b|^\tmov\s+%rsp,%rbp")


def llvm_kernels(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Each kernel's functions, without the tables of attributes and metadata around them."""
    for event in events:
        kernel = typed(XlaKernelText, event.data)
        lines = text_lines(kernel.text)
        functions = ("\n".join(lines[first - 1 : last]) for _, first, last in llvm.bounds(lines))
        yield replace(event, data=replace(kernel, text="\n\n".join(functions)))


def assembly_kernels(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Each function of objdump's listing."""
    for event in events:
        name, body = "", list[str]()
        for line in (*text_lines(typed(Text, event.data).text), "<end>:"):
            if head := _FUNCTION.match(line):
                if name:
                    yield replace(event, data=XlaKernelText(name=name, text="\n".join([f"{name}:", *body])))
                name, body = head["name"], []
            elif line.startswith("\t"):
                body.append(line)


def render(event: Event, id: str, *, what: str, language: str) -> Artifact:
    """The kernel's text."""
    name = typed(XlaKernelText, event.data).name
    return text_artifact(event, id, f"{what} of {name}", language, kernel=name)


def linked_by_name(kinds: Callable[[Artifact], Kinds]) -> Callable[[Artifact, TraceData], Iterator[Link]]:
    """The link function of a stage whose text is one kernel: what computes in it, to what was fused into the kernel."""

    def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
        module = next(iter(reversed(trace.find("xla_optimized", artifact.frame, artifact.graph))), None)
        computing = tuple(number for number, kind in enumerate(kinds(artifact), 1) if not kind)
        if module is None or not computing:
            return
        if fused := hlo.module_of(module.lines).lines_of(artifact.kernel):
            yield Link(artifact.id, computing, module.id, tuple(fused), FUSED)

    return link


def llvm_kinds(artifact: Artifact) -> Kinds:
    """Instructions compute, but jumps."""
    return by_rules(artifact.lines, LINES)


def assembly_kinds(artifact: Artifact) -> Kinds:
    """Instructions compute, but those that frame the function; a relocation belongs to the instruction above it."""
    return [_kind(line) for line in artifact.lines]


def _kind(line: str) -> str:
    if not is_instruction(line) or _RELOCATION.match(line):
        return "directives"
    return SETUP if _FRAME.match(line) else ""


LLVM = Stage(
    name="xla_llvm",
    title="LLVM IR · XLA",
    language="llvm",
    event=XlaKernelText,
    artifact=XlaKernel,
    backend="xla",
    render=partial(render, what="LLVM IR", language="llvm"),
    gather=llvm_kernels,
    per_kernel=True,
    over_wholes=True,
    kinds=llvm_kinds,
    link=linked_by_name(llvm_kinds),
    why_absent="XLA compiled no kernel itself: it runs the whole graph by a library's",
    about="A kernel in LLVM IR, after LLVM's optimizer. It states no lines: it is linked to its fusion as a whole.",
)
ASSEMBLY = Stage(
    name="xla_assembly",
    title="Assembly · XLA",
    language="asm",
    event=Text,
    artifact=XlaKernel,
    backend="xla",
    render=partial(render, what="Assembly", language="asm"),
    gather=assembly_kernels,
    per_kernel=True,
    over_wholes=True,
    kinds=assembly_kinds,
    link=linked_by_name(assembly_kinds),
    why_absent="XLA compiled no kernel itself, or there is no objdump here to list its instructions; binutils has one",
    about="A kernel's instructions, as objdump lists the object file that XLA links. They state no lines.",
)
STAGES = (LLVM, ASSEMBLY)
