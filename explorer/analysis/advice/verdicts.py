"""Verdict and Advice: what is slow, where, what it costs, how that is known, and what would prove it. Pure."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from explorer.analysis.questions.user_lines import UserLine
from explorer.model.trace_data import TraceData
from explorer.model.values import EMPTY, Plain, Table
from explorer.model.wording import quantity

#: The width of the page in a terminal.
WIDTH = 112
#: A call that takes this part of what it took is no faster.
NO_GAIN = 0.98
#: A verdict names at most this many user lines, and counts the others.
MAX_LINES = 3


@dataclass(frozen=True)
class Cost:
    """What something costs in a call: seconds, bytes where it is bytes that cost, and how both are known.

    `known` is "estimated" or "measured". `once` are seconds that are paid once and not in each call, such as a compile.
    `launches` counts the launches that would go away too.
    `beyond` tells that the estimate of the kernels leaves these seconds out: a call takes that much longer. `stops` tells that
    it ends the compile, so that there is no call to be slow.
    """

    seconds: float
    known: str
    how: str
    bytes: int | None = None
    once: float | None = None
    beyond: bool = False
    stops: bool = False
    launches: int = 0

    def __str__(self) -> str:
        return self._of("a call")

    def _of(self, whole: str) -> str:
        if self.stops:
            return "the compile"
        if self.once is not None:
            return f"{duration(self.once)} once, {self.known}"
        moved = f"{size(self.bytes)}, " if self.bytes else ""
        return f"{moved}{duration(self.seconds)} {whole}, {self.known}"


@dataclass(frozen=True)
class Check:
    """A question of a plug-in to each trace: `ask(trace)` yields a Verdict for each thing that makes the program slow.

    The trace is read, not changed: `trace.artifacts`, `trace.links`, `trace.find("kernel")`. A verdict whose `places` are lines
    of artifacts gets the user lines that these lines come from.
    """

    name: str
    ask: Callable[[TraceData], Iterable[Verdict]]


@dataclass(frozen=True)
class Proof:
    """The outcome of a verdict's `what_if`: the figure, before and after, and whether the verdict is gone.

    `figure` is "measured_seconds" or "estimated_seconds" of a call, or "compile_seconds"; both values are None where none is
    known. `note` says whether the result is the same, or why there is no proof.
    """

    figure: str = ""
    before: float | None = None
    after: float | None = None
    gone: bool | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.before is None or self.after is None:
            return self.note
        gone = {True: "; the verdict is gone", False: "; the verdict is still there", None: ""}[self.gone]
        if self.after >= NO_GAIN * self.before:
            gone = f"; no gain{gone.replace(';', ', though', 1)}"
        how = self.figure.removesuffix("_seconds")
        return f"{duration(self.before)} before, {duration(self.after)} after ({how}){gone}; {self.note}"


@dataclass(frozen=True)
class Verdict:
    """One thing that makes the program slow.

    `kind` is one of `KINDS`, `title` says it in words, `evidence` quotes what was recorded, `remedy` says what to do. `lines` are
    the user lines, `places` lines of artifacts, as (id, line). `what_if` has the arguments of the `Trace.what_if` that proves it;
    `why_unproved` says why there is no proof. `checks` are statements that may let the first of `lines` through;
    `advise(prove=True)` tries them. `regions` are modules with the same code; `advise(prove=True)` compiles it once for all.
    `share` is that of a whole call, from 0 to 1; 0 for what is paid once, and
    where another compiler made the kernels, so that the time of a call is not known. Without the cost a call may take as long
    as Python's launches. `saves` then has the seconds that a call gets shorter at most, and `share` is their share; `saves` is
    None where all of the cost is saved. Work that saves nothing `is_hidden` behind the launches: its share is that of the work.
    """

    kind: str
    title: str
    cost: Cost
    evidence: str
    remedy: str
    lines: tuple[UserLine, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    what_if: Mapping[str, Plain] = field(default_factory=lambda: EMPTY)
    why_unproved: str = ""
    checks: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    share: float = 0.0
    saves: float | None = None
    proof: Proof | None = None

    @property
    def is_hidden(self) -> bool:
        """Whether less of this work saves no time, because the launches take longer than all of the work."""
        return self.saves == 0

    @property
    def saved(self) -> float:
        """The seconds that a call gets shorter at most."""
        return self.cost.seconds if self.saves is None else self.saves

    @property
    def paid(self) -> str:
        """Write the cost: of the work where a call does not get shorter by all of it, else of a call."""
        return str(self.cost) if self.saves is None else self.cost._of("of the work")

    @property
    def shared(self) -> str:
        """Write the share, such as "costs 12 % of a call" or "paid once"; the cost alone if the time of a call is not known."""
        if self.cost.stops:
            return "stops the compile"
        if self.cost.once is not None:
            return "paid once"
        if not self.share:
            return f"costs {duration(self.cost.seconds)} of a call whose time is not known"
        if self.is_hidden:
            return f"{100 * self.share:.0f} % of the work, but the launches take longer than the work"
        if self.saves is not None:
            return f"saves at most {duration(self.saves)} a call ({100 * self.share:.0f} %), limited by the launches"
        return f"costs {percent(self.share)}"

    @property
    def call(self) -> str:
        """The call that proves the verdict, to paste; "" if there is none."""
        arguments = ", ".join(f"{name}={_written(value)}" for name, value in self.what_if.items())
        return f"t.what_if({arguments})" if arguments else ""

    def row(self) -> dict[str, Plain]:
        """Return the verdict as a row of `Advice.table`."""
        return {
            "kind": self.kind,
            "title": self.title,
            "seconds": self.cost.seconds,
            "bytes": self.cost.bytes,
            "once": self.cost.once,
            "known": self.cost.known,
            "share": self.share,
            "lines": tuple(f"{line.file}:{line.number}" for line in self.lines),
            "code": tuple(line.code for line in self.lines),
            "places": self.places,
            "evidence": self.evidence,
            "remedy": self.remedy,
            "what_if": self.call,
            "why_unproved": self.why_unproved,
            "proof": str(self.proof) if self.proof else "",
        }


def _written(value: Plain) -> str:
    """Write an argument as Python; a mapping that cannot be changed as a dict, a function by its name."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_written(one)}" for key, one in value.items()) + "}"
    return repr(value)


@dataclass(frozen=True)
class Advice(Sequence[Verdict]):
    """The verdicts on a trace, the costliest first; `table` has a row for each. Empty where nothing is wrong.

    `seconds` is what a call takes, as `about` says, and the scale of every share. `unread` says why some or all of the program
    could not be judged; "" where all of it was. `whole` says that a call was measured with all that is around its kernels.
    """

    verdicts: tuple[Verdict, ...]
    seconds: float
    about: str
    name: str = ""
    unread: str = ""
    whole: bool = False

    @overload
    def __getitem__(self, index: int) -> Verdict: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Verdict, ...]: ...
    def __getitem__(self, index: int | slice) -> Verdict | tuple[Verdict, ...]:
        return self.verdicts[index]

    def __len__(self) -> int:
        return len(self.verdicts)

    @property
    def table(self) -> Table:
        """One row per verdict: kind, title, seconds, bytes, once, known, share, lines, evidence, remedy, what_if, proof."""
        return Table((verdict.row() for verdict in self), _COLUMNS)

    def __repr__(self) -> str:
        head = f"Advice on {self.name or 'the trace'}: {self.headline}. {self.about}"
        parts = [textwrap.fill(head, WIDTH), *(_page(number, verdict) for number, verdict in enumerate(self, 1))]
        return "\n\n".join(parts)

    @property
    def headline(self) -> str:
        """Count the verdicts in words; without any, say whether nothing stands out or nothing could be judged."""
        if self:
            return quantity(len(self), "verdict")
        if not self.unread:
            return "nothing stands out" if self.whole else "nothing stands out in the kernels"
        return "nothing stands out in what could be judged" if self.seconds else "cannot judge"

    def _repr_html_(self) -> str:
        head = f"<p><b>{html.escape(self.headline)}</b> {html.escape(self.about)}</p>"
        return f"{head}<ol>{''.join(map(_html, self))}</ol>" if self else head


_COLUMNS = tuple(Verdict("", "", Cost(0.0, "", ""), "", "").row())


def _facts(verdict: Verdict) -> list[tuple[str, str]]:
    """List what the page says of a verdict, each with its heading."""
    facts = [("cost", f"{verdict.paid}: {verdict.cost.how}"), ("evidence", verdict.evidence), ("do", verdict.remedy)]
    facts.append(("prove", verdict.call or verdict.why_unproved))
    facts.append(("proof", str(verdict.proof) if verdict.proof else ""))
    return [(name, text) for name, text in facts if text]


def _page(number: int, verdict: Verdict) -> str:
    head = f"{number}. {verdict.title}  [{verdict.kind}, {verdict.shared}]"
    lines = [f"     {line.file}:{line.number}  {line.code}" for line in verdict.lines[:MAX_LINES]]
    if (rest := len(verdict.lines) - MAX_LINES) > 0:
        lines.append(f"     and {quantity(rest, 'more line')}")
    indent = " " * 15
    facts = [
        textwrap.fill(text, WIDTH, initial_indent=f"     {name:8}  ", subsequent_indent=indent, break_on_hyphens=False)
        for name, text in _facts(verdict)
    ]
    return "\n".join((textwrap.fill(head, WIDTH, subsequent_indent="   "), *lines, *facts))


def _html(verdict: Verdict) -> str:
    head = f"<b>{html.escape(verdict.title)}</b> <small>{html.escape(f'{verdict.kind}, {verdict.shared}')}</small>"
    lines = "".join(
        f"<br><small>{html.escape(f'{line.file}:{line.number}')}</small> <code>{html.escape(line.code)}</code>"
        for line in verdict.lines[:MAX_LINES]
    )
    facts = "".join(_fact(name, text, code=name == "prove" and bool(verdict.call)) for name, text in _facts(verdict))
    return f"<li>{head}{lines}<ul>{facts}</ul></li>"


def _fact(name: str, text: str, *, code: bool) -> str:
    written = f"<code>{html.escape(text)}</code>" if code else html.escape(text)
    return f"<li><i>{name}</i>: {written}</li>"


def duration(seconds: float) -> str:
    """Write seconds with three digits: "1.23 ms"."""
    for unit, each in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= each:
            return f"{seconds / each:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def size(count: int) -> str:
    """Write bytes with three digits: "134 MB"."""
    for unit, each in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= each:
            return f"{count / each:.3g} {unit}"
    return f"{count} bytes"


def percent(share: float) -> str:
    """Write a share of a call: "12 % of a call"."""
    return f"{100 * share:.0f} % of a call"


__all__ = ["Advice", "Cost", "Proof", "Verdict", "duration", "percent", "size"]
