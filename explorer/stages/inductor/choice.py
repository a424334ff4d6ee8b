"""Texts of choices: the source of one way of doing an operation as Inductor times it, and its forms down to machine code.

They are made on demand, by `Trace.attach` or in the view: Inductor compiles only the choices that it times or takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.triton import amdgcn, llir, origins, ptx, sass, ttgir, ttir


@record
class ChoiceForm(Record):
    """One text of a choice: `choice` as its row names it, `form` "kernel" for its source, else a form of a Triton kernel.

    `name` is what the text is called, such as "triton_mm_7.ttgir". `language` is the source's. `file` and `first_line` say where
    its source's lines are in the locations of its other forms; "" and 1 in the source itself.
    """

    name: str
    choice: str
    form: str
    operation: str
    language: str
    file: str
    first_line: int


@record
class ChoiceFormText(ChoiceForm):
    """One text of a choice, made on demand."""

    text: str


#: The stages of the forms of a kernel, which those of a choice have too.
_FORMS = {stage.name: stage for stage in (ttir.STAGE, ttgir.STAGE, llir.STAGE, ptx.STAGE, amdgcn.STAGE, sass.STAGE)}
#: How each form states the line of the source that one of its lines is made of, and what that is called.
_ORIGINS: dict[str, tuple[Callable[[str], origins.Chains], str]] = {
    "ttir": (origins.mlir_chains, "mlir loc"),
    "ttgir": (origins.mlir_chains, "mlir loc"),
    "llir": (origins.llvm_chains, "llvm !dbg"),
    "ptx": (origins.loc_chains, "ptx .loc"),
    "amdgcn": (origins.loc_chains, "amdgcn .loc"),
    "sass": (sass.chains, "nvdisasm line"),
}


def render(event: Event, id: str) -> Artifact:
    """One text of a choice, in the language of its form."""
    data = typed(ChoiceFormText, event.data)
    what = _FORMS[data.form].title if data.form in _FORMS else "source"
    language = _FORMS[data.form].language if data.form in _FORMS else data.language
    return text_artifact(event, id, f"{data.choice}: {what}", language)


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each line to the line of the choice's own source that it states."""
    data = typed(ChoiceForm, artifact.data)
    source = next((a for a in trace.find("choice", artifact.frame, artifact.graph) if _is_source(a, data.choice)), None)
    if source is None or data.form not in _ORIGINS:
        return
    chains, how = _ORIGINS[data.form]
    for number, line in origins.own_lines(chains, artifact, source, data):
        yield Link(artifact.id, (number,), source.id, (line,), how)


def _is_source(artifact: Artifact, choice: str) -> bool:
    form = typed(ChoiceForm, artifact.data)
    return form.choice == choice and form.form == "kernel"


def summary(artifacts: Sequence[Artifact]) -> str:
    """The choices that have texts, each once."""
    return ", ".join(dict.fromkeys(typed(ChoiceForm, a.data).choice for a in artifacts))


STAGE = Stage(
    name="choice",
    title="Texts of choices",
    language="text",
    event=ChoiceFormText,
    artifact=ChoiceForm,
    render=render,
    per_kernel=True,
    link=link,
    summary=summary,
    backend="inductor",
    why_absent="these are made when asked for: t.attach(t.inductor.choices[n]) adds those of choice n",
    about="One way of doing an operation as Inductor would time it, with nothing fused into it, whether or not it was taken.",
)
