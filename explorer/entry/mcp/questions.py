"""What is asked of the data of a trace, whether it was loaded or made just now: each answer in a sentence, with its rows."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from explorer.analysis.questions.provenance import linked_lines, place_of
from explorer.analysis.questions.summary import counts, failure_rows, summary_rows
from explorer.analysis.questions.target import compiled_for
from explorer.entry.mcp.answer import Answer
from explorer.errors import InputError, unknown_name
from explorer.lab.live.protocol import no_text
from explorer.model.values import Artifact, Table, text_lines
from explorer.model.wording import quantity
from explorer.tracing.traced.comparison import compare
from explorer.tracing.traced.guesses import ACCESSORS
from explorer.tracing.traced.kernel import Kernel
from explorer.tracing.traced.live import LiveAccessor
from explorer.tracing.traced.trace import Trace

#: The tables of a trace that `table` names, besides those of its stages: each as it is written after `t.`.
TABLES: tuple[str, ...] = (
    "stages",
    "kernels",
    *(
        f"{accessor.path.removeprefix('t.')}.{name}"
        for accessor in ACCESSORS
        if accessor is not LiveAccessor
        for name, member in accessor.members()
        if isinstance(member, property) and f"{accessor.path}.{name}" not in {each.path for each in ACCESSORS}
    ),
)
#: The most lines of a text in one answer.
MAX_LINES = 80
#: The most lines of a place whose text `follow` gives where it is not asked for one stage.
QUOTED = 3


def stages(trace: Trace, offset: int = 0) -> Answer:
    """Which stages the trace has, where, and what failed."""
    rows = [*summary_rows(trace), *failure_rows(trace)]
    head = f"{trace.meta.get('name', '?')} for {str(compiled_for(trace)) or '?'}: {counts(trace)}"
    failures = "".join(f"\nfailed: {failure}" for failure in trace.failures)
    asking = ('text(trace, "post_grad") for a stage', 'table(trace, "kernels")', "advise(trace)", "why(trace, first, second)")
    return Answer(f"{head}{failures}", rows, asking, offset)


def text(trace: Trace, stage: str, kernel: str = "", frame: str = "", graph: str = "", start: int = 1, find: str = "") -> Answer:
    """Lines of one text, numbered; with `find` only those that have it, from line `start` on."""
    title, lines = _lines(trace, stage, kernel, frame or None, graph or None)
    if not 1 <= start <= max(1, len(lines)):
        raise InputError(f"{title} has lines 1 to {len(lines)}, not {start}")
    numbered = [(number, line) for number, line in enumerate(lines, 1) if number >= start and find in line]
    said, last = [], 0
    for number, line in numbered[:MAX_LINES]:
        said.append(f"{number:5} {line}")
        last = number
        if sum(map(len, said)) > 3600:
            break
    more = len(numbered) - len(said)
    matching = f" that have {find!r}" if find else ""
    head = f"{title}: {len(said)} of {len(numbered)} lines{matching} from {start} of {len(lines)}"
    going_on = (f"text(…, start={last + 1}) for the other {more}",) if more else ()
    return Answer("\n".join([head, *said]), next=(*going_on, "follow(trace, where, line) for what a line became"))


def _lines(trace: Trace, stage: str, kernel: str, frame: str | None, graph: str | None) -> tuple[str, Sequence[str]]:
    """The title and lines of the one text that is meant."""
    if kernel:
        made = kernel_named(trace, kernel).text(stage)
        return f"{stage} of {kernel}", text_lines(made)
    found = trace.find(stage, frame, graph)
    if len(found) > 1:
        raise InputError(f"the trace has {len(found)} texts of {stage}; name one by its id: {_ids(found)}")
    if not found:
        raise no_text(trace, stage)
    return found[0].id, found[0].lines


def kernel_named(trace: Trace, name: str) -> Kernel:
    """The kernel of a name, or of the id of its text where several graphs have one of that name."""
    found = [kernel for kernel in trace.kernels if name in (kernel.name, kernel.artifact.id)]
    if len(found) > 1:
        raise InputError(f"{len(found)} kernels are named {name}; name one by its id: {_ids([k.artifact for k in found])}")
    if not found:
        raise unknown_name("kernel", name, [kernel.name for kernel in trace.kernels])
    return found[0]


def _ids(found: Sequence[Artifact]) -> str:
    listed = ", ".join(artifact.id for artifact in found[:12])
    return listed + (f", and {len(found) - 12} more" if len(found) > 12 else "")


def follow(trace: Trace, where: str, line: int, into: str = "", offset: int = 0) -> Answer:
    """What a line of one text became, or came from, in every other; with `into` in that stage alone."""
    artifact, number = place_of(trace, where, line)
    rows = trace.follow(artifact, number, into or None)
    most = MAX_LINES if into else QUOTED
    quoted = [{**row, "text": [f"{n} {line}" for n, line in linked_lines(trace, row, most).items()]} for row in rows]
    at = artifact.lines[number - 1].strip()
    inside = f" in {into}" if into else ""
    places = len({row["artifact"] for row in rows})
    linked = f"{quantity(sum(len(row['lines']) for row in rows), 'line')} of {quantity(places, 'text')}"
    said = f"{artifact.id}:{number} is {at!r}. It is linked to {linked}{inside}"
    coarse = any(row["coarse"] for row in rows)
    note = "; those that are coarse lead to a call, not to a line inside it" if coarse else ""
    why_none = f" ({rows.why_empty})" if rows.why_empty else ""
    return Answer(f"{said}{why_none}{note}.", quoted, ("text(trace, artifact, start=line) to read around a line",), offset)


def why(trace: Trace, first: str, second: str = "", graph: str = "", frame: str = "") -> Answer:
    """Why two nodes are one kernel or not; of one node, how Inductor lowered it and why so."""
    if not second:
        lowered = trace.why(first, graph=graph or None, frame=frame or None)
        return Answer(str(lowered), lowered.table, (f"why(trace, {first!r}, second) for its fusion",))
    answer = trace.why(first, second, graph=graph or None, frame=frame or None)
    if answer.fused:
        asking = f"what_if(trace, keep_apart=[[{first!r}, {second!r}]]) to see what the fusion saves"
    else:
        asking = f"what_if(trace, fuse=[[{first!r}, {second!r}]]) to see what fusing them would bring"
    return Answer(repr(answer), answer.verdicts, (asking, 'table(trace, "fusion.table") for all verdicts'))


def advise(trace: Trace, offset: int = 0) -> Answer:
    """Why the program is slow: the verdicts, the costliest first."""
    advice = trace.advise()
    calls = tuple(f"{verdict.call} proves {verdict.title!r}" for verdict in advice if verdict.call)[:3]
    return Answer(repr(advice), advice.table, calls, offset, ("kind", "title", "seconds", "bytes", "lines", "places"))


def table(trace: Trace, name: str, offset: int = 0) -> Answer:
    """The rows of a table: of `TABLES`, or of a stage; the tables of an accessor, where it is named alone."""
    if name in TABLES:
        held = attrgetter(name)(trace)
        rows = held if isinstance(held, Table) else held.table
    elif several := [each for each in TABLES if each.startswith(f"{name}.")]:
        found = attrgetter(name)(trace)
        listed = [{"name": f"{name}.{part}", "rows": rows, "about": about} for part, rows, about in found.contents()]
        return Answer(repr(found), listed, tuple(f"table(trace, {each!r})" for each in several[:3]))
    elif trace.find(name):
        rows = trace.table(name)
    elif several := [each for each in TABLES if each.endswith(f".{name}")]:
        raise InputError(f"there is no table {name!r}: ask for {' or '.join(map(repr, several))}")
    else:
        raise unknown_name("table", name, [*TABLES, *dict.fromkeys(a.stage for a in trace.artifacts)])
    return Answer(f"{name}: {len(rows)} rows of {', '.join(rows.columns)}", rows, offset=offset)


def compared(traces: Sequence[Trace], names: Sequence[str], offset: int = 0) -> Answer:
    """What two or more traces differ in: figures, and what became of each line."""
    found = compare(*traces, names=names)
    lines = [row for row in found.lines if len({str(row[name]) for name in names}) > 1]
    figures = [row for row in found.figures if len({row[name] for name in names}) > 1]
    same = len(found.figures) - len(figures)
    of = f"of {len(found.lines)} lines of the program {len(lines)} became other kernels"
    said = f"{len(figures)} figures differ and {same} do not; {of}"
    return Answer(f"{said}.", [*figures, *lines], ("why(trace, first, second) in each",), offset)


__all__ = ["TABLES", "advise", "compared", "follow", "kernel_named", "stages", "table", "text", "why"]
