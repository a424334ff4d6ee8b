"""What Nsight Compute counted of each kernel and each SASS instruction, read in by `Trace.attach`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link

#: Before the reason in the name of a stall's count, as ncu names its columns: "stall_long_sb".
STALL = "stall_"
#: How an instruction's counts are known to be those of a SASS line.
BY_CODE = "Nsight Compute, same offset and text"
#: The columns of the text.
HEADING = f"{'samples':>8} {'executed':>9} {'sectors':>8} {'excess':>8}  {'stall':<12} instruction"


@record
class CountedInstruction(Record):
    """One SASS instruction of a report, with its counts over all launches.

    `line` is its line in the trace's SASS, 0 where the two do not agree. `counts` has the counts other than 0: "samples",
    "executed" and "thread_executed" (instructions of warps, of threads), "sectors", "excess_sectors" and "local_sectors" (32
    bytes each, of L2), "wavefronts" and "excess_wavefronts" (of shared memory), and the samples of each stall, "stall_long_sb".
    """

    offset: int
    text: str
    line: int
    counts: Mapping[str, float]


@record
class Counters(Record):
    """What a report has of one kernel: `metrics` are means over its `launches`, `rows` its instructions.

    `why` says why the kernel is none of the trace; "" for one that is.
    """

    name: str
    launches: int
    metrics: Mapping[str, float]
    rows: tuple[CountedInstruction, ...]
    why: str


def render(event: Event, id: str) -> Artifact:
    """The metrics of a kernel, and one line per instruction."""
    data = typed(Counters, event.data)
    text = "\n".join([*_head(data), *map(_readable, data.rows)])
    return text_artifact(event, id, f"Counters of {data.name}", "text", text=text, data=data, kernel=data.name)


def _head(data: Counters) -> list[str]:
    metrics = [f"{name:<12} {value:.6g}" for name, value in data.metrics.items()]
    return [data.why or f"{data.name}: {data.launches} launches", *metrics, HEADING]


def _readable(row: CountedInstruction) -> str:
    stall = main_stall(row.counts)
    numbers = (row.counts.get(name, 0) for name in ("samples", "executed", "sectors", "excess_sectors"))
    samples, executed, sectors, excess = (f"{number:g}" if number else "" for number in numbers)
    return f"{samples:>8} {executed:>9} {sectors:>8} {excess:>8}  {stall:<12} {row.text}"


def main_stall(counts: Mapping[str, float]) -> str:
    """Name the reason of most samples, without its prefix; "" where there are none."""
    reasons = [name for name in counts if name.startswith(STALL)]
    return max(reasons, key=lambda name: counts[name]).removeprefix(STALL) if reasons else ""


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each instruction to its line of the trace's SASS."""
    sass = sass_of(artifact, trace)
    data = typed(Counters, artifact.data)
    if sass is None:
        return
    for number, row in enumerate(data.rows, len(_head(data)) + 1):
        if row.line:
            yield Link(artifact.id, (number,), sass.id, (row.line,), BY_CODE)


def sass_of(artifact: Artifact, trace: TraceData) -> Artifact | None:
    """The SASS of the same kernel."""
    return next((a for a in trace.find("sass", artifact.frame, artifact.graph) if a.kernel == artifact.kernel), None)


def kinds(artifact: Artifact) -> Sequence[str]:
    """No line computes."""
    return ["times"] * len(artifact.lines)


STAGE = Stage(
    name="counters",
    title="Counters",
    language="text",
    event=Counters,
    artifact=Counters,
    render=render,
    link=link,
    kinds=kinds,
    per_kernel=True,
    secondary=True,
    why_absent=("no report of Nsight Compute was read in: explorer trace --ncu takes one, t.attach('report.ncu-rep') reads one"),
    about="What Nsight Compute counted of each kernel and instruction: stalls, sectors, bank conflicts.",
)
