"""Question, Task and Check: what is asked, how the truth is found, and where to look, as frozen values.

A `Question` asks for a prediction. Its truth is a function of a subject, which is a trace in most cases, and is computed when
the question is answered. A `Task` asks for a function, a kernel or an input of the learner's own. Its checks look at the trace
of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.errors import InputError
from explorer.model.trace_data import artifact_of
from explorer.model.values import Artifact, Table
from explorer.tracing.traced import Trace
from explorer.workshop.quiz.fields import AnyOf, Field, Text, article
from explorer.workshop.quiz.par import Par
from explorer.workshop.quiz.programs import Program, undisturbed

#: What a truth or a check is asked of: mostly a Trace, or several by name.
Subject = Any


@dataclass(frozen=True)
class Place:
    """A line of one text of a trace, which shows an answer; `view` names the view's tab where no text shows it."""

    trace: Trace
    artifact: str
    line: int
    view: str = ""

    @property
    def text(self) -> str:
        """The line itself."""
        return artifact_of(self.trace, self.artifact).lines[self.line - 1].strip()

    def __str__(self) -> str:
        stage = artifact_of(self.trace, self.artifact).stage
        tab = f" (in the view the tab “{self.view}”)" if self.view else ""
        return f"stage {stage}, line {self.line}{tab}: {self.text}"


def at(trace: Trace, stage: str, words: str | Iterable[str] = "", *, frame: str | None = None, view: str = "") -> Place:
    """The first line of a stage's texts that has the first of the words that is there; else its first line.

    InputError if the trace has no such text.
    """
    texts: Iterable[Artifact] = trace.find(stage, frame)
    if not texts:
        raise InputError(f"the trace has no stage {stage!r}")
    for word in (words,) if isinstance(words, str) else words:
        for artifact in texts:
            for number, line in enumerate(artifact.lines, 1):
                if word and word in line:
                    return Place(trace, artifact.id, number, view)
    return Place(trace, next(iter(texts)).id, 1, view)


@dataclass(frozen=True)
class Verdict:
    """What a question or a task says of one answer: whether it is right, and a row for each part or check."""

    is_right: bool
    rows: Table
    #: The figure of a puzzle, such as a number of launches.
    figure: int | None = None


@dataclass(frozen=True, kw_only=True)
class Question:
    """A prediction: one value for each of `fields`, compared with what `truth` finds in the subject.

    `make` makes the subject, and `truth` gives the value of the only field, or a tuple with one for each. `where` finds the
    line that shows it. `hint` is for the first miss, `note` is told when the answer is right. `program` is what is traced.
    """

    id: str
    text: str
    fields: tuple[Field, ...]
    make: Callable[[], Subject]
    truth: Callable[[Subject], Any]
    hint: str
    where: Callable[[Subject], Place]
    note: str = ""
    program: Program | None = None

    @property
    def how(self) -> str:
        """How it is answered, in a sentence."""
        labels = ", ".join(field.label or "…" for field in self.fields)
        takes = "; ".join(dict.fromkeys(field.takes for field in self.fields))
        return f'q("{self.id}").answer({labels}): {takes}'

    def read(self, given: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values that were meant; InputError, with what is taken, for what cannot be."""
        if options:
            raise InputError(f"it takes its values by position, not by name ({', '.join(options)})")
        if len(given) == 1 != len(self.fields) and isinstance(given[0], (tuple, list)):
            given = tuple(given[0])
        if len(given) != len(self.fields):
            labels = ", ".join(field.label for field in self.fields if field.label)
            count = f"{len(self.fields)} values" if len(self.fields) > 1 else "one value"
            raise InputError(f"it takes {count}{f' ({labels})' * bool(labels)}, not {len(given)}")
        return tuple(field.read(value) for field, value in zip(self.fields, given, strict=True))

    def words(self, answer: tuple[Any, ...]) -> str:
        """An answer that was read, in words; the same for equal answers."""
        return "; ".join(field.shown(value) for field, value in zip(self.fields, answer, strict=True))

    def judge(self, subject: Subject, answer: tuple[Any, ...]) -> Verdict:
        """Compare an answer with the truth. The rows say which field is right, and not what is."""
        truths = self.truths(subject)
        right = [field.matches(a, t) for field, a, t in zip(self.fields, answer, truths, strict=True)]
        rows = [
            {"part": field.label or "answer", "passed": passed, "found": field.shown(value)}
            for field, value, passed in zip(self.fields, answer, right, strict=True)
        ]
        return Verdict(all(right), Table(rows if len(rows) > 1 else ()))

    def truths(self, subject: Subject) -> tuple[Any, ...]:
        """The truth of each field."""
        truth = self.truth(subject)
        return truth if isinstance(truth, tuple) and not isinstance(truth, AnyOf) and len(self.fields) > 1 else (truth,)


@dataclass(frozen=True)
class Check:
    """One named check of a task: `test` gives whether a subject passes, and what was found, in words."""

    name: str
    test: Callable[[Subject], tuple[bool, str]]

    def row(self, subject: Subject) -> dict[str, Any]:
        """The check's row. What is raised on the way goes through."""
        passed, found = self.test(subject)
        return {"part": self.name, "passed": bool(passed), "found": found}


@dataclass(frozen=True, kw_only=True)
class Task:
    """Something to write: a function, a kernel, an input. `make` makes the subject of it, and each check looks at that.

    `takes` says in words what is to be given and, after a colon, a name for it; `is_it` whether something is that; `count` is
    of how many such things. Options, such as `num_warps=1`, reach `make` by name if `options` has them. `start` is code to
    begin with. `par` makes it a puzzle with a `title`: its figure must reach par, and the leader board has the best one.
    """

    id: str
    text: str
    takes: str
    make: Callable[..., Subject]
    checks: tuple[Check, ...]
    hint: str
    where: Callable[[Subject], Place]
    is_it: Callable[[Any], bool] = callable
    count: int = 1
    options: tuple[str, ...] = ()
    par: Par | None = None
    title: str = ""
    note: str = ""
    start: str = ""
    program: Program | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """None: a task is answered by code, not in a row of widgets."""
        return ()

    @property
    def how(self) -> str:
        """How it is answered, in a sentence."""
        more = "".join(f", {name}=…" for name in self.options)
        takes, _, names = self.takes.rpartition(": ")
        return f'q("{self.id}").answer({names}{more}): {takes}'

    def read(self, given: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[Any, ...]:
        """What was given, with the options; InputError for what is no such thing."""
        if len(given) != self.count:
            raise InputError(f"it takes {self.takes.rpartition(': ')[0]}, not {len(given)} values")
        if wrong := [each for each in given if not self.is_it(each)]:
            raise InputError(f"it takes {self.takes.rpartition(': ')[0]}, not {article(wrong[0])}")
        if unknown := set(options) - set(self.options):
            takes = f"it takes the options {', '.join(self.options)}" if self.options else "it takes no options"
            raise InputError(f"{takes}, not {', '.join(sorted(unknown))}")
        return (given, dict(options))

    def words(self, answer: tuple[Any, ...]) -> str:
        """The source of what was given, else its value; the same for an answer that is given again."""
        given, options = answer
        return "\n".join([*map(source_of, given), *(f"{name}={value!r}" for name, value in options.items())])

    def subject(self, answer: tuple[Any, ...]) -> Subject:
        """The subject of an answer, made anew. What the learner's function raises goes through."""
        given, options = answer
        return self.make(*given, **options)

    def judge(self, subject: Subject, answer: tuple[Any, ...]) -> Verdict:
        """Run each check, and count the figure. InputError of one that cannot be run on such a subject is its row."""
        figure: int | None = None
        rows = []
        for check in self.checks:
            try:
                rows.append(check.row(subject))
            except InputError as error:
                rows.append({"part": check.name, "passed": False, "found": str(error)})
        if self.par is not None:
            try:
                figure = self.par.of(subject)
                rows.append(self.par.row(figure))
            except InputError as error:
                rows.append({"part": self.par.goal, "passed": False, "found": str(error)})
        return Verdict(all(row["passed"] for row in rows), Table(rows), figure)


#: What a quiz is made of.
Item = Question | Task


def source_of(given: Any) -> str:
    """The source of a function, a kernel or a class; the `repr` of anything else."""
    import inspect

    function = getattr(given, "fn", given)
    try:
        return inspect.getsource(function)
    except (TypeError, OSError):
        code = getattr(function, "__code__", None)
        return repr((code.co_code, code.co_consts, code.co_names)) if code is not None else repr(given)


def text(label: str = "", **more: Any) -> Text:
    """Free text that is a name in PyTorch: "torch." and "aten." before it do not count."""
    return Text(label, prefixes=("torch.ops.", "torch.", "aten."), **more)


def traced(program: Program, *shapes: tuple[int, ...], **options: Any) -> Callable[[], Trace]:
    """What makes the trace of a program on random float32 tensors of these shapes: a `make`."""

    return lambda: whole(traced_on(program.load(), random_tensors(*shapes), **options))


def traced_on(function: Any, make_inputs: Callable[[], Iterable[Any]], **options: Any) -> Trace:
    """Trace a function on the inputs that `make_inputs` makes, undisturbed by modes and seeds of the learner's."""
    from explorer.tracing.recording.trace import trace

    with undisturbed():
        return trace(function, *make_inputs(), **options)


def random_tensors(*shapes: tuple[int, ...], dtype: str | None = None, **options: Any) -> Callable[[], Iterable[Any]]:
    """What makes random tensors of these shapes, of the dtype with that name; torch is imported when it is called."""

    def make_inputs() -> Iterable[Any]:
        import torch

        named = None if dtype is None else getattr(torch, dtype)
        return [torch.randn(shape, dtype=named, **options) for shape in shapes]

    return make_inputs


def whole(t: Trace) -> Trace:
    """The trace itself; CompileError, with the reason, if its compile failed."""
    if any(failure.fatal for failure in t.failures):
        t.raise_for_failures()
    return t
