"""M7, run, time and edit: a kernel written otherwise, what an edit is found to be, a wrong result, and what costs time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explorer.capture.splice.edit import Edit
from explorer.errors import InputError
from explorer.model.values import text_lines
from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Check, Item, Question, Task, at, traced, whole
from explorer.workshop.quiz.fields import Choice, Line
from explorer.workshop.quiz.programs import program, undisturbed

PROGRAM = program(
    """
def program(x):
    y = torch.sigmoid(x) * x
    return torch.softmax(y, -1)
"""
)
INTERRUPTED = program(
    """
def interrupted(x):
    y = torch.sin(x) + 1
    if y.sum() > 0:
        y = torch.relu(y)
    return y * 2
"""
)
PRODUCT = program(
    """
def product(x, w):
    return x @ w
"""
)
STATUSES = ("in place", "wrong result", "compile error")
#: What bounds a kernel, in words, by what the roofline calls it.
LIMITS = {"memory": "memory", "operations": "arithmetic"}
#: How many rows x has in the products that are asked about; w has SIZE rows and columns.
ROWS, SIZE = (16, 2048), 2048
#: Kinds of causes that advise names.
CAUSES = ("graph break", "recompiles", "missed fusion", "spills")


@dataclass(frozen=True)
class Edited:
    """A trace whose kernel was edited, the source before, and what became of each edit, by its name."""

    trace: Trace
    before: str
    edits: Mapping[str, Edit]


trace = traced(PROGRAM, (8, 64), target="h100")
trace_interrupted = traced(INTERRUPTED, (1024, 1024), target="h100")


def _edited_by(write: Any) -> Edited:
    """Edit the kernel of `program`, for an H100, as the learner's function writes it."""
    t = trace()
    before = t.kernels[0].source
    after = write(before)
    if not isinstance(after, str):
        raise InputError(f"the function gives back the source of a kernel, as text, and not {type(after).__name__}")
    return Edited(t, before, {"yours": t.kernels[0].edit(after)})


def _code(text: str) -> str:
    """A source without comments and spaces."""
    return "".join("".join(line.partition("#")[0].split()) for line in text_lines(text))


def _is_another(subject: Edited) -> tuple[bool, str]:
    differs = _code(subject.edits["yours"].text) != _code(subject.before)
    return differs, "it is" if differs else "it is the same code"


def _stands(subject: Edited) -> tuple[bool, str]:
    edit = subject.edits["yours"]
    return edit.in_place, f"{edit.status}{f': {edit.message[:160]}' if edit.message else ''}"


def edits() -> Edited:
    """Two edits of the kernel of `program`: one with a function that there is not, one with another sum."""
    t = trace()
    kernel, source = t.kernels[0], t.kernels[0].source
    changes = {"misspelt": source.replace("tl.load(", "tl.laod(", 1), "another sum": source.replace("tl.sum(", "1 + tl.sum(", 1)}
    with undisturbed():
        return Edited(t, source, {name: kernel.edit(text) for name, text in changes.items()})


def _costliest(t: Trace) -> tuple[str, int]:
    """The kind of the costliest cause, and the line of the source that it names."""
    row = t.advise().table[0]
    return row["kind"], int(row["lines"][0].rpartition(":")[2])


def on_the_roofline() -> Mapping[str, Trace]:
    """Traces for an H100 of `program` and of products in bfloat16, by what the notebook calls them."""
    import torch

    from explorer.tracing.recording.trace import trace as record

    traces = {"program": trace()}
    with undisturbed():
        w = torch.randn(SIZE, SIZE).bfloat16()
        for rows in ROWS:
            t = record(PRODUCT.load(apart=True), torch.randn(rows, SIZE).bfloat16(), w, target="h100")
            traces[f"{rows} rows"] = whole(t)
    return traces


def _limits(traces: Mapping[str, Trace]) -> tuple[str, ...]:
    """What bounds the only kernel or library call of each trace."""
    return tuple(LIMITS[t.profile.roofline().table[0]["limit"]] for t in traces.values())


EXERCISES: tuple[Item, ...] = (
    Task(
        id="M7.1",
        text="Edit the Triton kernel of `program`, so that its code changes and its result does not."
        " Write a function that gets the kernel's source and gives back yours.",
        takes="a function of the source: edit",
        make=_edited_by,
        checks=(Check("the code is another", _is_another), Check("the edit is right, and stands in the kernel's place", _stands)),
        hint="t.kernels[0].edit(source) tries one. What is the sigmoid, in other words?",
        where=lambda subject: at(subject.trace, "kernel", "tl.sigmoid("),
        note="The edit was compiled for an H100, interpreted, and compared with eager.",
        start='def edit(source):\n    return source.replace("…", "…")',
        program=PROGRAM,
    ),
    Question(
        id="M7.2",
        text="Two edits of that kernel: `tl.load` is misspelt, and `tl.sum(…)` becomes `1 + tl.sum(…)`."
        " What is the status of each, with no GPU here?",
        fields=(Choice("misspelt", options=STATUSES), Choice("another sum", options=STATUSES)),
        make=edits,
        truth=lambda subject: tuple(edit.status for edit in subject.edits.values()),
        hint="The kernel is compiled, then interpreted on the CPU, and its result is compared with eager.",
        where=lambda subject: at(subject.trace, "kernel", "tl.sum("),
        note="Neither stands in the kernel's place: only what is right does.",
        program=PROGRAM,
    ),
    Question(
        id="M7.3",
        text="`interrupted` on 1024 × 1024 numbers, for an H100: which cause does t.advise() name first, and at which line?",
        fields=(Choice("cause", options=CAUSES), Line("line", stage="source")),
        make=trace_interrupted,
        truth=_costliest,
        hint="How many graphs are there? The tab “Advice” names the costliest cause first.",
        where=lambda t: at(t, "source", "if y.sum()"),
        note="Two graphs, and Python between them, which has to wait for the sum.",
        program=INTERRUPTED,
    ),
    Question(
        id="M7.4",
        text="What bounds each of these on an H100, memory or arithmetic: the kernel of `program`, and `x @ w` in"
        " bfloat16, where w is 2048 × 2048 and x has 16 rows or 2048?",
        fields=tuple(Choice(name, options=tuple(LIMITS.values())) for name in ("program", *(f"{rows} rows" for rows in ROWS))),
        make=on_the_roofline,
        truth=_limits,
        hint="Operations a byte: with how many rows is each element of w multiplied, once it is read?",
        where=lambda traces: at(traces[f"{ROWS[0]} rows"], "output_code", "extern_kernels.mm(", view="kernels"),
        note="An H100 computes about 300 operations in the time of one byte. 16 rows are 16 operations a byte.",
        program=PRODUCT,
    ),
)
