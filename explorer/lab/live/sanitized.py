"""Sanitized: what the Triton kernels of a trace read and write where they must not, and what was looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from explorer.analysis.questions import provenance
from explorer.analysis.questions.launch_sites import sites
from explorer.analysis.questions.subgraph import all_wrappers
from explorer.capture.interpret.sanitizer import Finding, SanitizedLaunch
from explorer.lab.live.protocol import Live
from explorer.model.records import typed
from explorer.model.shared import Kernel, Source
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Table
from explorer.model.wording import quantity

#: The columns of `Sanitized.table`.
COLUMNS = (
    "launch", "kernel", "kind", "line", "code", "other_line", "other_code", "user_lines", "argument", "element", "program",
    "other_program", "count", "harmless", "note", "artifact",
)  # fmt: skip
#: The columns of `Sanitized.launches`.
LAUNCH_COLUMNS = ("launch", "kernel", "programs", "accesses", "findings", "complete", "note")
#: Why nothing was looked at.
NO_LAUNCH = "the call launched no Triton kernel; library calls and C++ kernels are not looked at"
#: What cannot be told of a kernel that gets all its memory from the caller.
UNKNOWN_MEMORY = "reads of unwritten arguments: a tensor does not say that it comes from torch.empty"


@dataclass(frozen=True)
class Sanitized:
    """What `Trace.sanitize` found in one interpreted call.

    `table` has a row per finding. `kind` is "outside" (of the tensor's storage), "uninitialized" (read before anything was
    written), "write-write" or "read-write" (two programs access one element, one of them writes, and no atomic orders them).
    `line` and `other_line` are lines of the kernel's text, `argument` and `element` the first place, `count` how many such
    accesses there are. `harmless` says that two programs write the same value.

    `launches` has a row per launch; `complete` is False where not all of it was looked at, and `note` says what is missing.
    `clean` is True only if every launch of a Triton kernel was looked at and no finding is harmful. Library calls are named in
    words, and not looked at.
    """

    table: Table
    launches: Table
    end: str = ""
    _notes: tuple[str, ...] = field(default=(), repr=False)

    @property
    def clean(self) -> bool:
        """Whether every launch was looked at and nothing harmful was found; False where nothing was launched."""
        looked_at = bool(self.launches) and not self.end and all(row["complete"] for row in self.launches)
        return looked_at and all(row["harmless"] for row in self.table)

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        harmful = [row for row in self.table if not row["harmless"]]
        looked_at = [row for row in self.launches if row["programs"]]
        programs, accesses = (sum(int(str(row[name])) for row in looked_at) for name in ("programs", "accesses"))
        seen = f"{quantity(len(looked_at), 'launch')}, {quantity(programs, 'program')}, {quantity(accesses, 'accessed element')}"
        verdict = (
            quantity(len(harmful), "finding") if harmful else "clean" if self.clean else "nothing found in what was looked at"
        )
        yield f"{verdict}: {seen}"
        for row in self.table:
            more = f" ({row['count']} such accesses)" if row["count"] != 1 else ""
            yield f"  {row['kernel']}:{row['line']}: {row['kind']}: {row['note']}{more}"
            yield f"    {str(row['code']).strip()}"
            yield from (f"    from {place}" for place in _values(row["user_lines"]))
        yield from (f"  not looked at: {note}" for note in self._notes)


def sanitized(trace: TraceData, live: Live, limit: float | None) -> Sanitized:
    """Watch the kernels of a trace in one interpreted call: see `Trace.sanitize`."""
    sanitizer = live.sanitize(limit)
    rows: list[dict[str, Plain]] = []
    launches: list[dict[str, Plain]] = []
    notes: list[str] = []
    for number, launch in enumerate(sanitizer.launches, 1):
        kernel, further_down = _kernel_of(trace, launch)
        name = kernel.kernel if kernel is not None else launch.kernel
        rows += [_row(trace, (number, launch), kernel, further_down, finding) for finding in launch.findings]
        note = "; ".join(_missing(launch))
        notes += [f"launch {number}, {name}: {note}"] if note else []
        launches.append(
            {
                "launch": number,
                "kernel": name,
                "programs": launch.programs,
                "accesses": launch.accesses,
                "findings": len(launch.findings),
                "complete": not note,
                "note": note,
            }
        )
    if sanitizer.end:
        known = any(launch.why_not for launch in sanitizer.launches[-1:])
        notes.append(
            f"what comes after launch {len(launches)}: the call ended there{'' if known else f', since {sanitizer.end}'}"
        )
    elif not launches:
        notes.append(NO_LAUNCH)
    if libraries := sum(site.is_library for code in all_wrappers(trace) for site in sites(code)):
        notes.append(f"{quantity(libraries, 'library call')}: only Triton kernels are watched")
    if launches and not trace.find("output_code"):
        notes.append(UNKNOWN_MEMORY)
    why_empty = "nothing was found" if launches else NO_LAUNCH
    return Sanitized(Table(rows, COLUMNS, why_empty), Table(launches, LAUNCH_COLUMNS, NO_LAUNCH), sanitizer.end, _counted(notes))


def _missing(launch: SanitizedLaunch) -> Iterator[str]:
    """Say what of a launch was not looked at."""
    if launch.why_not:
        yield launch.why_not
    if launch.ordered:
        pairs = quantity(launch.ordered, "pair")
        yield f"{pairs} of accesses of two programs that both used atomics in between: whether these order them is not judged"


def _counted(notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{note} ({count} times)" if count > 1 else note for note, count in Counter(notes).items())


def _kernel_of(trace: TraceData, launch: SanitizedLaunch) -> tuple[Artifact | None, int]:
    """Find the text of a launched kernel, and how far down its file that text begins; None without one."""
    length = len(launch.source)
    for artifact in trace.find("kernel"):
        lines = artifact.lines
        for start in range(len(lines) - length + 1):
            if lines[start] == launch.source[0] and lines[start : start + length] == launch.source:
                return artifact, launch.first_line - start - 1
    return None, 0


def _row(
    trace: TraceData, launched: tuple[int, SanitizedLaunch], kernel: Artifact | None, further_down: int, finding: Finding
) -> dict[str, Plain]:
    """The row of a finding; the kernel's text begins further down in its file."""
    number, launch = launched

    def code(line: int) -> str:
        place = line - launch.first_line
        return launch.source[place].strip() if 0 <= place < len(launch.source) else ""

    line, other = finding.line - further_down, finding.other_line - further_down if finding.other_line else 0
    return {
        "launch": number,
        "kernel": kernel.kernel if kernel is not None else launch.kernel,
        "kind": finding.kind,
        "line": line,
        "code": code(finding.line),
        "other_line": other or None,
        "other_code": code(finding.other_line),
        "user_lines": _user_lines(trace, launch, kernel, (line, finding.line)),
        "argument": finding.argument,
        "element": finding.element,
        "program": finding.program,
        "other_program": finding.other_program,
        "count": finding.count,
        "harmless": bool(finding.same_value),
        "note": _note(finding, other),
        "artifact": kernel.id if kernel is not None else "",
    }


def _user_lines(trace: TraceData, launch: SanitizedLaunch, kernel: Artifact | None, line: tuple[int, int]) -> tuple[str, ...]:
    """Name the program's lines that a kernel's line comes from, as "model.py:12"; `line` is that of the text and of the file."""
    if kernel is None or typed(Kernel, kernel.data).file:
        return (f"{Path(launch.file).name}:{line[1]}",)
    sources = {artifact.id: artifact for artifact in trace.find("source")}
    places = [row for row in provenance.linked_to(trace, kernel.id, line[0]) if row["artifact"] in sources]
    found = ((sources[str(row["artifact"])], int(str(number))) for row in places for number in _values(row["lines"]))
    return tuple(dict.fromkeys(_place(source, number) for source, number in found))


def _place(source: Artifact, line: int) -> str:
    """A line of a text of the program as its file has it."""
    data = typed(Source, source.data)
    return f"{Path(data.file).name}:{data.first_line + line - 1}"


def _note(finding: Finding, other_line: int) -> str:
    """Say what happens, where, and in which programs."""
    place = f"element {finding.element} of {finding.argument}"
    verb = {"load": "reads", "store": "writes", "atomic": "updates"}
    here = f"program {_id(finding.program)} {verb[finding.access]} {place}"
    if finding.kind == "outside":
        return f"{here}: that is outside of its memory"
    if finding.kind == "uninitialized":
        return f"{here}: nothing was written there before"
    there = f"program {_id(finding.other_program or (0, 0, 0))} {verb[finding.other_access]} it on line {other_line}"
    if finding.kind == "read-write":
        return f"{here}, and {there}: what is read depends on their order"
    if finding.same_value:
        return f"{here}, and {there}: both write the same value, so the order does not matter"
    return f"{here}, and {there}: what is left depends on their order"


def _id(program: tuple[int, int, int]) -> str:
    """A program's id, without the axes after the last that is used."""
    x, y, z = program
    return str(program) if z else f"({x}, {y})" if y else str(x)


def _values(value: Plain) -> tuple[Plain, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else ()


__all__: Sequence[str] = ("COLUMNS", "Sanitized", "sanitized")
