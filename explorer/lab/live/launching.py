"""Edit and tune a hand-written kernel in a function that launches it, which is traced for that."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from explorer.analysis.questions.kernels import wrapper_file
from explorer.capture.ladder.triton_jit import CONFIG_OPTIONS
from explorer.capture.splice.edit import Edit
from explorer.capture.splice.launches import RecordedLaunch
from explorer.capture.splice.tuning import Tune, Tuning, given_configs, neighbours
from explorer.errors import InputError
from explorer.lab.live.editing import EditRequest
from explorer.lab.live.protocol import Live, needs_live, no_verb
from explorer.model.values import Artifact, Plain, Table, text_lines

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace

#: A tensor in the rows of a check of the function, by its place among the arguments.
_ARGUMENT = re.compile(r"(?:args\[(?P<number>\d+)\]|kwargs\['(?P<name>\w+)'\])(?P<part>\S*) after the call")


@dataclass
class Launching:
    """The edits of a hand-written kernel, and the functions that launch it, by the configs that they may take.

    `trace_with` traces such a function, with the first config. `names` are the kernel's arguments, `own` its config.
    """

    trace_with: Callable[[Sequence[Mapping[str, Plain]]], Trace]
    names: Sequence[str]
    own: Mapping[str, Plain]
    edits: list[Edit] = field(default_factory=list)
    _traces: dict[str, Trace] = field(default_factory=dict)
    _standing: tuple[Trace, Edit] | None = None

    def edit(self, edit: EditRequest) -> Edit:
        """Compile another text, try it, and put it in place of the kernel where it is right."""
        config = {**self.own, **edit.config} if edit.config is not None else None
        trace = self._trace([dict(self.own), *([config] if config is not None else [])], edit.artifact.kernel)
        live, kernel, file = _place(trace)
        before, inside = edit.original, edit
        if edit.form == "source":
            inside = replace(edit, text=spliced(kernel.text, before, edit.text), original=kernel.text)
        made = live.edit(replace(inside, artifact=kernel, file=file, config=config))
        further_down = _shift(kernel.text, before) if edit.form == "source" else 0
        message = re.sub(r"\bline (\d+)", lambda m: f"line {max(1, int(m[1]) - further_down)}", made.message)
        made = replace(
            made,
            number=1 + len(self.edits),
            kernel=edit.artifact.kernel,
            text=edit.text,
            original=before,
            message=_ARGUMENT.sub(self._name, message),
            line=max(0, made.line - further_down),
            check=self._with_kernel_names(made.check),
        )
        self.edits.append(made)
        if made.in_place:
            if self._standing is not None and self._standing[0] is not trace:
                self.reset()
            self._standing = trace, made
        return made

    def tune(self, tune: Tune) -> Tuning:
        """Compare configs of the kernel. By default these are its candidates, and its own config with more and fewer warps.

        The block sizes are not varied by default: only the author knows for which ones the kernel is right.
        """
        options = {name: value for name, value in self.own.items() if name in CONFIG_OPTIONS}
        wanted = (
            given_configs(tune.configs) if tune.configs is not None else neighbours(options, [*filter(None, tune.candidates)])
        )
        configs: list[dict[str, Plain]] = []
        for config in ({}, *wanted):
            if (whole := {**self.own, **config}) not in configs:
                configs.append(whole)
        trace = self._trace(configs, tune.kernel.kernel)
        live, kernel, file = _place(trace)
        measured = live.absent is None
        if tune.configs is not None and not measured:
            configs = [{**self.own, **config} for config in wanted]
        tuning = live.tune(replace(tune, kernel=kernel, file=file, configs=configs))
        rows = held_to(tuning._rows, self.own) if measured else tuning._rows
        return replace(tuning, kernel=tune.kernel.kernel, _rows=rows)

    @property
    def standing(self) -> Edit | None:
        """The edit in place of the kernel; None if the original is in place."""
        return self._standing[1] if self._standing is not None else None

    def reset(self) -> bool:
        """Put the original back; False if it is in place."""
        if self._standing is None:
            return False
        live, kernel, file = _place(self._standing[0])
        self._standing = None
        return live.reset(kernel, file)

    def check(self, limit: float | None) -> Table:
        """Compare what the edit that stands writes with what the kernel writes."""
        assert self._standing is not None
        return self._with_kernel_names(_place(self._standing[0])[0].check(limit))

    def launch(self, limit: float | None) -> RecordedLaunch:
        """Launch the edit that stands, on copies of the arguments of the call."""
        assert self._standing is not None
        live, kernel, file = _place(self._standing[0])
        return live.launches([(file, kernel.kernel)], most=1, limit=limit)[0]

    def _trace(self, configs: Sequence[Mapping[str, Plain]], name: str) -> Trace:
        """Trace a function that launches the kernel, once for these configs; NoVerbError where it is not compiled."""
        key = repr(configs)
        if key not in self._traces:
            trace = self.trace_with(configs)
            kernels = trace.find("kernel")
            if len(kernels) != 1 or not wrapper_file(trace, kernels[0]):
                why = next((failure.message for failure in trace.failures), "its output code does not launch it")
                raise no_verb(
                    f"{name} cannot be edited or tuned",
                    f"both need torch.compile to compile a function that launches it, and {text_lines(why)[0]}",
                    "change the source and call explorer.trace again",
                )
            self._traces[key] = trace
        return self._traces[key]

    def _with_kernel_names(self, rows: Table) -> Table:
        """Call the tensors in the rows of a check as the kernel does."""
        return Table({**row, "output": _ARGUMENT.sub(self._name, str(row["output"]))} for row in rows)

    def _name(self, place: re.Match[str]) -> str:
        return f"{place['name'] or self.names[int(place['number'])]}{place['part']}"


def held_to(rows: Table, own: Mapping[str, Plain]) -> Table:
    """Make the ratios relative to the kernel's own config: on an attached GPU they are relative to the config torch chose."""
    ratio = next((row["ratio"] for row in rows if row["config"] == own), None)
    return Table(
        {
            **row,
            "taken": row["config"] == own,
            "ratio": row["ratio"] / ratio if ratio and row["ratio"] is not None else None,
        }
        for row in rows
    )


def _place(trace: Trace) -> tuple[Live, Artifact, str]:
    """Return the live part of a function that launches one kernel, that kernel, and the file of the wrapper."""
    (kernel,) = trace.find("kernel")
    return needs_live(trace, "an edit"), kernel, wrapper_file(trace, kernel)


def spliced(whole: str, original: str, edited: str) -> str:
    """Put an edited function in the place of the original in Inductor's text; InputError where more than it is edited."""
    (head, before), (new_head, after) = _divided(original), _divided(edited)
    if not after:
        raise InputError("the source has no function: change k.source and give the whole text")
    if head != new_head:
        raise InputError(
            "you can edit only the function itself, from its `def` on, not the lines above it; config= changes its constants, "
            "and explorer.trace traces the kernel with other decorators"
        )
    if whole.count(before) != 1:
        raise no_verb(
            "the kernel cannot be edited",
            "torch.compile does not copy its source as it is",
            "change the source and call explorer.trace again",
        )
    return whole.replace(before, after)


def _divided(source: str) -> tuple[str, str]:
    """The lines above the function of a source, and the function, without the indentation of the source."""
    lines = text_lines(textwrap.dedent(source).rstrip())
    start = next((n for n, line in enumerate(lines) if line.startswith("def ")), len(lines))
    return "\n".join(lines[:start]), "\n".join(lines[start:])


def _shift(whole: str, original: str) -> int:
    """How many lines further down the function is in Inductor's text than in the source."""
    head, function = _divided(original)
    return whole[: whole.index(function)].count("\n") - len(text_lines(head))
