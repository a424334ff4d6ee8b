"""What two traces compiled differently, as text, as Markdown for a pull request, and as JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from textwrap import fill

from explorer.analysis.findings import first_difference
from explorer.analysis.findings.changes import changes
from explorer.analysis.findings.facts import facts_of
from explorer.analysis.findings.finding import ContractError, Finding, not_judged
from explorer.analysis.questions.comparison import Comparison, shown
from explorer.analysis.questions.target import compiled_for
from explorer.model.trace_data import TraceData

#: What the traces are called.
NAMES = ("before", "after")
#: Columns of a finding's text, as wide as a table is printed.
WIDTH = 120
#: The figures that differ between two runs of one program.
OF_THE_RUN = ("compile seconds",)


@dataclass(frozen=True)
class Difference:
    """Two traces: the figures of both, their differences, the worst first, and where they differ first, in a line or two."""

    figures: tuple[tuple[str, str, str], ...]
    findings: tuple[Finding, ...]
    first: tuple[str, ...] = ()

    @property
    def markdown(self) -> str:
        """The same for a pull request: a table of the figures that differ, and a section for what is worse and what is better."""
        differing = [row for row in self.figures if row[1] != row[2] and row[0] not in OF_THE_RUN]
        rows = [f"| {name} | {before} | {after} |" for name, before, after in differing]
        table = ["| | before | after |", "|---|---:|---:|", *rows] if rows else []
        worse = [f for f in self.findings if not f.is_gain]
        better = [f for f in self.findings if f.is_gain]
        alike = [] if self.findings else [*([""] if table else []), "Compiled alike."]
        first = [line for told in self.first for line in (told, "")]
        parts = [*first, *table, *alike, *_section("Worse, or to look at", worse), *_section("Better", better)]
        return "\n".join(["## What torch.compile makes of it", "", *parts])


def difference(compared: Comparison, found: Iterable[Finding]) -> Difference:
    """Put the figures of two traces beside what was found to differ between them."""
    before, after = compared.names
    figures = ((row["figure"], shown(row["figure"], row[before]), shown(row["figure"], row[after])) for row in compared.figures)
    first = tuple(first_difference.in_words(compared)) if len({compiled_for(t).name for t in compared.traces}) == 1 else ()
    return Difference(tuple(figures), tuple(found), first)


def findings(before: TraceData, after: TraceData) -> tuple[Finding, ...]:
    """Say what was compiled otherwise, what is worse first; if that cannot be told, why."""
    return tuple(_not_comparable(before, after) or sorted(changes(facts_of(before), after), key=lambda finding: finding.is_gain))


def in_words(found: Iterable[Finding]) -> str:
    """Write the findings, each with its sign and at most `WIDTH` columns wide, or that there are none."""
    lines = (line for finding in found for line in _with_sign(finding).split("\n"))
    return "\n".join(map(_wrapped, lines)) or "compiled alike"


def _not_comparable(*traces: TraceData) -> list[Finding]:
    """Say why each trace cannot be compared, or that the two are for different targets."""
    found = [finding for name, trace in zip(NAMES, traces, strict=True) for finding in _unjudged(name, trace)]
    targets = [compiled_for(trace).name for trace in traces]
    compiled = [f"{name} is for {target or 'no target'}" for name, target in zip(NAMES, targets, strict=True)]
    if not found and len(set(targets)) > 1:
        return [not_judged("target", "two traces for one target", ", ".join(compiled), "explorer trace --target")]
    return found


def _unjudged(name: str, trace: TraceData) -> Iterator[Finding]:
    try:
        facts_of(trace)
    except ContractError as error:
        yield from (replace(finding, actual=f"{name}: {finding.actual}") for finding in error.findings)


def _with_sign(finding: Finding) -> str:
    return f"{'+' if finding.is_gain else '-'} {finding.text('before')}"


def _wrapped(line: str) -> str:
    """A line of a finding in lines as wide as `WIDTH`, the next ones below its text."""
    begin = " " * (2 if line[:2] in ("+ ", "- ") else 12)
    return fill(line, WIDTH, subsequent_indent=begin, break_long_words=False, break_on_hyphens=False)


def _section(title: str, findings: Iterable[Finding]) -> list[str]:
    lines = [line for finding in findings for line in _item(finding)]
    return ["", f"### {title}", "", *lines] if lines else []


def _item(finding: Finding) -> list[str]:
    """A finding as an item of a list; code of the user's is between backticks, so that it is no Markdown."""
    unjudged = "" if finding.judged else "not judged: "
    parts = [("before", finding.expected), ("why", finding.why)]
    quoted = [f"  - {_quoted(line)}" for line in finding.lines]
    return [
        f"- **{finding.rule}**: {unjudged}{finding.actual}",
        *(f"  - {name}: {text}" for name, text in parts if text),
        *quoted,
    ]


def _quoted(code: str) -> str:
    """Code between more backticks than it has in a row."""
    fence = "`" * max(2, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence} {code} {fence}" if "`" in code else f"{fence}{code}{fence}"


__all__ = ["Difference", "difference"]
