"""The forms of a Pallas kernel, made on demand: JAX's jaxpr, StableHLO for the CPU, and Mosaic's MLIR for a TPU.

JAX gives each operation the lines of Python that were under way. The kernel's source is one file, so a line of a form leads to a
line of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link, once
from explorer.stages.kinds import BLANK, COMMENT, HOST, SIGNATURE, Kinds, by_rules, rules
from explorer.stages.triton.origins import kernel_of, mlir_chains


@record
class PallasForm(Record):
    """A form of a Pallas kernel: the name of the file by which its locations know the kernel's source.

    `first` and `last` are the lines of the source on which the function that pallas_call is given begins and ends.
    """

    name: str
    file: str
    first: int
    last: int


@record
class PallasFormText(PallasForm):
    """A form of a Pallas kernel, or the reason why JAX does not make it, as a comment."""

    text: str


#: How a line's place in the kernel is known: MLIR's loc names it; or the comment behind an equation of a jaxpr does.
LOC, SOURCE_INFO = "loc", "jaxpr source info"
#: How a text begins that has only the reason why there is no other.
NOT_MADE = "// JAX does not make it: "

_EQUATION = re.compile(r"  # (?P<file>\S+?):(?P<line>\d+):\d+ \(")
_JAXPR = rules(blank=r"^\s*$", comments=r"^//", signature=r"\{ lambda\b|\bRef<|^\s*in \(|^let ")
_MLIR = rules(
    blank=r"^\s*$",
    comments=r"^//",
    locations=r"^#loc",
    signature=r"^\s*(module|func\.func)\b",
    braces=r"^\s*[}\])]+( loc\(.*\))?,?$|^\s*\} do \{",
    constants=r"= (stablehlo|arith)\.constant\b",
    output=r"^\s*(func\.|stablehlo\.)?return\b",
)


def render(event: Event, id: str, *, title: str, language: str) -> Artifact:
    """The text, in the artifact of the kernel."""
    data = typed(PallasFormText, event.data)
    return text_artifact(event, id, f"{title} of {data.name}", language, kernel=data.name)


def event_data(kernel: Artifact, file: str, text: str) -> PallasFormText:
    """The data of an event for a form of a kernel's artifact."""
    lines = kernel.lines
    first = next((n for n, line in enumerate(lines, 1) if line.startswith(f"def {kernel.kernel}_kernel(")), 0)
    last = next((n for n in range(first + 1, len(lines) + 1) if not lines[n - 1].startswith(" ")), len(lines) + 1) - 1
    return PallasFormText(name=kernel.kernel, file=file, first=first, last=last, text=text)


@once
def places(artifact: Artifact) -> dict[int, int]:
    """The line of the kernel's source that each line of a form states.

    Of several lines the outermost in the kernel's function counts: JAX traces a function such as `jnp.sum` once, and gives what
    it made there to later calls, with their own line around it.
    """
    data = typed(PallasForm, artifact.data)
    found: dict[int, int] = {}
    for number, lines in _stated(artifact, data.file):
        inside = [line for line in lines if data.first <= line <= data.last]
        if lines:
            found[number] = inside[-1] if inside else lines[-1]
    return found


def _stated(artifact: Artifact, file: str) -> Iterator[tuple[int, list[int]]]:
    """For each line of a form the lines of the kernel's source that it states, innermost first."""
    if artifact.language == "jaxpr":
        equations = ((number, _EQUATION.search(line)) for number, line in enumerate(artifact.lines, 1))
        yield from ((number, [int(m["line"])]) for number, m in equations if m and m["file"] == file)
    else:
        for number, chain in mlir_chains(artifact.text):
            yield number, [line for name, line in chain if name == file]


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each line to the line of the kernel that its location states."""
    kernel = kernel_of(artifact, trace)
    if kernel is not None:
        for number, line in places(artifact).items():
            if line <= len(kernel.lines):
                yield Link(artifact.id, (number,), kernel.id, (line,), SOURCE_INFO if artifact.language == "jaxpr" else LOC)


def kinds(artifact: Artifact) -> Kinds:
    """What the kernel's function computes; the loop over the grid around it is the interpreter's."""
    data = typed(PallasForm, artifact.data)
    stated = places(artifact)
    found = by_rules(artifact.lines, _JAXPR if artifact.language == "jaxpr" else _MLIR)
    inside = [data.first <= stated.get(number, 0) <= data.last for number in range(1, len(found) + 1)]
    kept = (BLANK, COMMENT, SIGNATURE)
    if artifact.language == "jaxpr":  # an equation's parameters may take further lines
        return [kind if kind in kept and not own else "" if own else HOST for kind, own in zip(found, inside, strict=True)]
    return [kind or ("" if own else HOST) for kind, own in zip(found, inside, strict=True)]


def _stage(name: str, title: str, language: str, made_from: str, about: str) -> Stage:
    return Stage(
        name=name,
        title=title,
        language=language,
        event=PallasFormText,
        artifact=PallasForm,
        render=partial(render, title=title, language=language),
        link=link,
        kinds=kinds,
        per_kernel=True,
        backend="inductor",
        on_demand_of="pallas",
        made_from=(made_from,) if made_from else (),
        about=about,
    )


JAXPR = _stage(
    "pallas_jaxpr", "Jaxpr", "jaxpr", "", "What JAX traced of a Pallas kernel: its operations on references, inside pallas_call."
)
STABLEHLO = _stage(
    "pallas_stablehlo",
    "StableHLO · Pallas",
    "mlir",
    "",
    "A Pallas kernel for the CPU as XLA gets it: Pallas interprets the kernel there, in a loop over its grid.",
)
MOSAIC = _stage(
    "pallas_mosaic",
    "Mosaic · TPU",
    "mlir",
    "pallas_stablehlo",
    "The same Pallas kernel as JAX lowers it for a TPU v6e that you don't have; the TPU's own compiler goes on from there.",
)
