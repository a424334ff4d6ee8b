"""doctor: is this machine ready to trace, and what to do where it is not; `explorer doctor`.

`warm` compiles what the first trace would otherwise wait for: Inductor's C++ header, which takes half a minute, and the
first kernel by triton.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from explorer.capture.compilers.readiness import Check, checks
from explorer.errors import ExplorerError
from explorer.model.values import Plain
from explorer.process.progress import progress


@dataclass(frozen=True)
class Warmed:
    """One compile that `warm` made: for what, in how many seconds, and why it failed, "" if it did not."""

    what: str
    seconds: float
    why: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """What was looked for, and compiled; `str` is the text that `explorer doctor` prints."""

    checks: tuple[Check, ...]
    warmed: tuple[Warmed, ...] = ()
    #: Why nothing was compiled though it was asked for, "" otherwise.
    cold: str = ""

    @property
    def ready(self) -> bool:
        """Whether nothing is missing that is needed, and nothing failed."""
        return not any([*(check.why for check in self._needed()), *(one.why for one in self.warmed)])

    def _needed(self) -> list[Check]:
        return [check for check in self.checks if not check.optional]

    @property
    def line(self) -> str:
        """The first line: "ready", or what is missing, each with its remedy."""
        if self.ready:
            return "ready"
        missing = [f"{check.why}; {check.remedy}" for check in self._needed() if check.why]
        failed = [f"{one.what} failed: {one.why}" for one in self.warmed if one.why]
        return f"not ready: {'. '.join([*missing, *failed])}"

    def plain(self) -> dict[str, Plain]:
        """The same for JSON."""
        rows = {"checks": [asdict(check) for check in self.checks], "warmed": [asdict(one) for one in self.warmed]}
        return {"ready": self.ready, "line": self.line, "cold": self.cold, **rows}

    def __str__(self) -> str:
        width = max(len(check.what) for check in self.checks)
        rows = [f"  {check.what:<{width}}  {check.found or _missing(check)}" for check in self.checks]
        warmed = [f"  {one.what}: {'failed' if one.why else f'{one.seconds:.1f} s'}" for one in self.warmed]
        return "\n".join([self.line, *rows, *warmed, *([f"  nothing was compiled: {self.cold}"] if self.cold else [])])


def _missing(check: Check) -> str:
    """What a row says of what is missing; of what is optional also the remedy, which the first line does not have."""
    return f"missing, for {check.use}{f': {check.remedy}' if check.optional else ''}"


def diagnosis(warm: bool = False) -> Diagnosis:
    """Look for all that tracing needs; with `warm` compile once for the CPU and for an H100, if nothing is missing for it."""
    looked_for = tuple(checks())
    if not warm:
        return Diagnosis(looked_for)
    missing = [check for check in looked_for if check.why and check.compiled_with]
    if needed := [check.why for check in missing if not check.optional]:
        return Diagnosis(looked_for, cold=needed[0])
    return Diagnosis(looked_for, tuple(_warmed(["cpu"] if missing else ["cpu", "h100"])))


def _warmed(targets: Sequence[str]) -> Iterator[Warmed]:
    """Trace a module for each target, and time it; a function of this file would be none of the program's to explorer."""
    import torch

    from explorer.tracing.recording.trace import trace

    words = {"cpu": "the C++ header and a kernel for the CPU", "h100": "triton's worker and a kernel for an H100"}
    with progress("explorer doctor", "compiling for") as show:
        for target in targets:
            what = words[target]
            if show is not None:
                show(what)
            began = time.perf_counter()
            try:
                traced = trace(torch.nn.Softmax(-1), torch.ones(8, 64), target=target)
                why = next((failure.message for failure in traced.failures if failure.fatal), "")
                why = why or ("" if traced.kernels else "no kernel was made")
            except ExplorerError as error:
                why = str(error)
            yield Warmed(what, time.perf_counter() - began, why.partition("\n")[0])
