"""The configs of a kernel that autotuning would try, each compiled when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from explorer.capture.ladder.ladder import Ladder
from explorer.errors import InputError
from explorer.lab.live.protocol import needs_live
from explorer.model.values import Artifact, Plain, Table
from explorer.tracing.traced.ladder_texts import ladder_text, mix_of

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace

#: The columns of a candidate's row that are not of its config.
_FACTS = ("ms", "taken")


class Candidate:
    """One config of a Triton kernel, such as `k.candidates[3]`: its texts and resources, compiled when first asked for."""

    def __init__(self, trace: Trace, kernel: Artifact, config: Mapping[str, Plain], row: Mapping[str, Plain]) -> None:
        self._trace, self._kernel, self._row = trace, kernel, row
        self.config = config

    @property
    def taken(self) -> bool:
        """Whether the kernel was compiled with this config."""
        return bool(self._row.get("taken"))

    @property
    def ms(self) -> float | None:
        """The time of a launch that was measured, in milliseconds; None where none was."""
        ms: float | None = self._row.get("ms")
        return ms

    @property
    def source(self) -> str:
        """The kernel's source, which all of its candidates share."""
        return self._kernel.text

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that `text` takes, from the source down."""
        ladder = self._ladder
        return ("kernel", *ladder.texts, *(["sass"] if "ptx" in ladder.texts else []))

    def text(self, stage: str = "kernel") -> str:
        """The candidate's text in `stage`: "kernel" its source, and "ttir" … "ptx", "sass" or "amdgcn".

        LiveError for a loaded trace, CompileError where the config does not compile.
        """
        if stage == "kernel":
            return self.source
        return ladder_text(self._ladder, stage, "candidate", self.stages)

    @property
    def resources(self) -> Mapping[str, Plain]:
        """What the compiled candidate takes of its GPU, as `Kernel.resources` has it: registers, shared, occupancy …"""
        return self._ladder.metadata

    def instruction_mix(self) -> Mapping[str, int]:
        """Count the instructions of each class in its machine code, the most frequent first."""
        return mix_of(self.stages, self.text)

    def binary(self) -> bytes:
        """Return its cubin, hsaco or SPIR-V."""
        return self._ladder.binary

    @cached_property
    def _ladder(self) -> Ladder:
        """The kernel compiled with this config."""
        live = needs_live(self._trace, "compiling another candidate")
        with live.watchers.verb(f"compiling {self._kernel.kernel} with {dict(self.config)}"):
            return live.candidate(self._kernel, self.config)

    def __repr__(self) -> str:
        settings = " ".join(f"{name}={value}" for name, value in self.config.items())
        time = f": {self.ms:.4f} ms" if self.ms is not None else ""
        return f"<Candidate {settings}{time}{', taken' if self.taken else ''}>"


class Candidates(tuple[Candidate, ...]):
    """The configs that Inductor or triton would try, by number or by values; `table` compares them."""

    _rows: Table
    _trace: Trace
    _kernel: Artifact

    def __new__(cls, trace: Trace, kernel: Artifact, rows: Table) -> Candidates:
        """Make a candidate of each row, whose columns besides `ms` and `taken` are the config."""
        each = (Candidate(trace, kernel, {k: v for k, v in row.items() if k not in _FACTS}, row) for row in rows)
        candidates = super().__new__(cls, each)
        candidates._rows, candidates._trace, candidates._kernel = rows, trace, kernel
        return candidates

    def __reduce__(self) -> tuple[type, tuple[Trace, Artifact, Table]]:
        return Candidates, (self._trace, self._kernel, self._rows)

    def __getitem__(self, which: Any) -> Any:
        """One candidate by its number or its values, {"XBLOCK": 128}, or several by a slice; InputError for an unknown one."""
        if isinstance(which, slice):
            return super().__getitem__(which)
        if isinstance(which, Mapping):
            row = next((one for one in self if dict(one.config) == dict(which)), None)
            return row or Candidate(self._trace, self._kernel, which, {})
        if not isinstance(which, int) or not -len(self) <= which < len(self):
            numbered = f"candidates are numbered from 0 to {len(self) - 1}" if self else "this kernel has none"
            raise InputError(f"there is no candidate {which!r}: {numbered}")
        return super().__getitem__(which)

    @property
    def table(self) -> Table:
        """One row per config; `taken` marks the compiled one.

        On an attached device each has its measured time `ms`, None where it was not timed or could not run, and configs that came
        up only while measuring are there too. A kernel's `text("ttgir")`, `resources` and so on belong to the one taken.
        """
        return self._rows

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "<no candidates>"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()
