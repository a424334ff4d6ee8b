"""Choice: one of several implementations of an operator that Inductor chose among, and its ladder on request.

t.inductor.choices.table                 one row per choice
c = t.inductor.choices["triton_mm_7"]    by its name, or by its row: choices[3]
c.config, c.ms                           its settings; its time, None where nothing was timed
c.text("ttgir")                          made when asked for: Inductor compiles only choices that it times or takes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from explorer.analysis.questions import choices, tables
from explorer.capture.ladder.ladder import Ladder
from explorer.errors import InputError, unknown_name
from explorer.lab.live.protocol import needs_live
from explorer.model.values import Plain, Table
from explorer.tracing.traced.ladder_texts import ladder_text, mix_of

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace

#: Why there is no ladder below a source, by its language.
NO_LADDER = {
    "cpp": "is a C++ template; its source is text('kernel')",
    "cuda": "is a template of CUTLASS; its source is text('kernel'), and the kernel of the one that is taken has 'cuda_sass'",
    "fx": "is a graph of its own, which Inductor compiles when it times it; text('kernel') is that graph",
}


@dataclass(frozen=True)
class Choice:
    """One implementation of an operator that Inductor chose among: a template with its settings, or a call into a library.

    Its texts show the template as Inductor times it, with nothing fused into it yet. The kernel of the choice that was taken,
    with what was fused into it, is in `Trace.kernels`. The texts are made when asked for and need the process that made the
    trace: LiveError for a trace that was loaded. `row` is its row of `t.inductor.choices`.
    """

    _trace: Trace = field(repr=False)
    _row: Mapping[str, Plain] = field(repr=False)

    @property
    def name(self) -> str:
        """Inductor's name of the choice, counted over the whole process for templates."""
        return str(self._row["choice"])

    @property
    def operation(self) -> str:
        """The operator that it computes, such as "mm" or "convolution"."""
        return str(self._row["operation"])

    @property
    def config(self) -> Mapping[str, Plain]:
        """Its settings by name, such as BLOCK_M, num_warps, num_stages and ALLOW_TF32; {} for a call into a library."""
        return choices.settings(str(self._row["config"]))

    @property
    def ms(self) -> float | None:
        """The time that Inductor measured, in milliseconds; None where it measured none."""
        ms: float | None = self._row["ms"]
        return ms

    @property
    def fastest(self) -> bool:
        """True for the one that is the fastest by itself, as measured, or as assumed for a GPU you don't have."""
        return bool(self._row["fastest"])

    @property
    def taken(self) -> bool:
        """True for the one that the output code uses: the fastest, or the template that a fusion settled on."""
        return bool(self._row.get("taken", self._row["fastest"]))

    @property
    def why(self) -> str:
        """Why it counts as the fastest, or why it was taken; "" for the others."""
        return str(self._row.get("why", ""))

    @property
    def grid(self) -> tuple[int, ...]:
        """The launch grid of a Triton template for the sizes of this call; () for other choices."""
        return tuple(self._row.get("grid", ()))

    @property
    def language(self) -> str:
        """ "triton", "cpp", "cuda", "cutedsl", "hip", "fx" for a graph of its own, and "" for a call into a library."""
        return str(self._source()["language"]) if self._row.get("source") else ""

    @property
    def source(self) -> str:
        """The source that Inductor would time; InputError for a call into a library."""
        return self.text("kernel")

    def text(self, stage: str = "kernel") -> str:
        """The choice's text in `stage`: "kernel" its source, and of a Triton template "ttir" … "ptx", "sass" or "amdgcn".

        The first below the source compiles it (0.2 s and more), the others are then at hand; SASS takes 0.3 s more.
        CompileError, with the reason, where that fails; InputError for a stage or a choice that has no such text. A trace that
        was saved with texts of the choice has those by itself.
        """
        if held := choices.recorded_forms(self._trace, self._row).get(stage):
            return held.text
        if stage == "kernel":
            return str(self._source()["text"])
        return ladder_text(self._ladder(), stage, "choice", self.stages)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that `text` takes, from the source down; () for a call into a library."""
        if self.language != "triton":
            return ("kernel",) if self.language else ()
        return ("kernel", *needs_live(self._trace, "compiling a choice").choice_stages)

    @property
    def resources(self) -> Mapping[str, Plain]:
        """What a Triton template takes of its GPU, as `Kernel.resources` has it: registers, shared, occupancy …"""
        return self._ladder().metadata

    def instruction_mix(self) -> Mapping[str, int]:
        """Count the instructions of each class in its machine code, the most frequent first."""
        return mix_of(tuple(self._ladder().texts), self.text)

    def binary(self) -> bytes:
        """Return the cubin, hsaco or SPIR-V of a Triton template."""
        return self._ladder().binary

    def passes(self) -> Table:
        """One row per pass of MLIR that a Triton template goes through; see `Kernel.passes`."""
        self._needs_triton()
        live = needs_live(self._trace, "passes of a choice")
        with live.watchers.verb(f"{self.name}.passes()"):
            return live.choice_passes(str(self._row["source"]))

    def check_stages(self, stages: Sequence[str]) -> None:
        """Raise InputError for a choice without a source, and for a stage that it has no text in."""
        self._source()
        for stage in stages:
            if stage != "kernel":
                self._needs_triton()
            if stage not in self.stages:
                raise unknown_name("stage of this choice", stage, self.stages)

    def _source(self) -> Mapping[str, Plain]:
        """The name, language and text of the source; InputError for a call into a library."""
        if not self._row.get("source"):
            raise InputError(f"{self.name} {choices.no_source(self._row)}")
        return needs_live(self._trace, "the source of a choice").choice_source(str(self._row["source"]))

    def _needs_triton(self) -> None:
        """Raise InputError for a choice that has no ladder."""
        if (language := str(self._source()["language"])) != "triton":
            raise InputError(
                f"{self.name} {NO_LADDER.get(language, 'is not a Triton template')}; only Triton templates go down the ladder"
            )

    def _ladder(self) -> Ladder:
        """The choice compiled down the ladder."""
        self._needs_triton()
        live = needs_live(self._trace, "compiling a choice")
        with live.watchers.verb(f"compiling {self.name}"):
            return live.choice(str(self._row["source"]))

    def __repr__(self) -> str:
        time = f"{self.ms:.4f} ms" if self.ms is not None else "not timed"
        marks = [word for word, holds in (("fastest", self.fastest), ("taken", self.taken)) if holds]
        settings = [f"{name}={value}" for name, value in self.config.items()]
        return f"<Choice {self.name} for {self.operation}: {', '.join((time, *marks, *settings))}>"


class Choices(Sequence[Choice]):
    """The implementations of operators that Inductor chose among, by number or name; `table` compares them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    @property
    def table(self) -> Table:
        """One row per implementation of an operator: its config, its `ms`, whether it was the fastest.

        `ms` is None if nothing was timed, as for a GPU you don't have, or if the choice failed. `taken` marks the one that the
        output code uses; it need not be the `fastest` if something is fused into it. `why` gives the reason. `grid` is the
        launch grid of a template. A product that may be padded has the choices "as it is" and "padded". For the configs of a
        fused kernel see `Kernel.candidates`.
        """
        return tables.table(self._trace, "autotune")

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, which: int | str) -> Choice: ...

    @overload
    def __getitem__(self, which: slice) -> Sequence[Choice]: ...

    def __getitem__(self, which: int | str | slice) -> Choice | Sequence[Choice]:
        """One choice by its row's number or its name, or several by a slice.

        InputError for an unknown number or name, and for a name that choices of several operations have.
        """
        if isinstance(which, slice):
            return [Choice(self._trace, row) for row in self.table[which]]
        return find_choice(self._trace, self.table, which)

    def __iter__(self) -> Iterator[Choice]:
        return (Choice(self._trace, row) for row in self.table)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "<no choices>"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def find_choice(trace: Trace, rows: Table, which: int | str) -> Choice:
    """Find a choice by its row's number or its name; InputError if there is none, or if several have the name."""
    if not rows:
        raise InputError(
            "Inductor had nothing to choose in this trace: matrix products, convolutions and flex attention have choices "
            "with mode='max-autotune' or options={'max_autotune': True}"
        )
    if isinstance(which, str):
        numbers = [number for number, row in enumerate(rows) if row["choice"] == which]
        if not numbers:
            raise unknown_name("choice", which, {str(row["choice"]) for row in rows})
        if len(numbers) > 1:
            raise InputError(f"{which!r} is a choice of several operations: take one by its row, {', '.join(map(str, numbers))}")
        which = numbers[0]
    if not isinstance(which, int):
        raise InputError(f"a choice is taken by its row's number or its name, not by {which!r}")
    if not -len(rows) <= which < len(rows):
        raise InputError(f"there is no choice {which}: choices are numbered from 0 to {len(rows) - 1}")
    return Choice(trace, rows[which])
