"""The collectives that a program sent outside of its compiled graphs: in the hooks of DDP and FSDP2, or in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from explorer.model.records import Record, changed, record, typed
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import Artifact, Event, Link
from explorer.model.wording import cut, quantity, readable_bytes

#: Who sends a collective: DDP's reducer and constructor, FSDP2's hooks, or other Python code.
DDP, FSDP2, PYTHON = SENDERS = ("DDP", "FSDP2", "Python")
#: The arguments that decide what their hooks exchange at once, and again, by their full names.
BUCKET_SIZE = "torch.nn.parallel.DistributedDataParallel.bucket_cap_mb"
RESHARDING = "torch.distributed.fsdp.fully_shard.reshard_after_forward"
#: Widest list of parameters in a line.
MAX_WIDTH = 60


@record
class RunGraph(Record):
    """A compiled graph that ran: `number` counts the graphs of this name in its frame, as DDPOptimizer makes one per bucket."""

    frame: str
    graph: str
    number: int


@record
class EagerCollective(Record):
    """A collective that was sent outside of the compiled graphs, `runs` times.

    `operator` is named as in graphs, such as "all_reduce"; `call` is the operator of torch that the process group was asked for.
    `bytes` is the size of the whole tensor: the output of an all_gather, the input of all others. `sender` is one of `SENDERS`.
    `bucket` is DDP's number of it, `parameters` are those in the bucket or in FSDP2's group; () if unknown. `module` is the path
    of FSDP2's module, "" for the outermost. `hook` is FSDP2's function that sent it; `prefetched` is True for a module that is
    not yet needed. `file`, `line` and `code` are the program's innermost line.
    """

    operator: str
    call: str
    group: str
    ranks: tuple[int, ...]
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    sender: str
    bucket: int | None
    parameters: tuple[str, ...]
    module: str
    hook: str
    prefetched: bool
    file: str
    line: int
    code: str
    runs: int


@record
class EagerCollectives(Record):
    """The collectives sent outside of the graphs, in order of their first run.

    `order` is what ran last, in order: n stands for row n, -1 - n for graph n of `graphs`. `left_out` counts the runs of
    collectives for which there was no room.
    """

    rows: tuple[EagerCollective, ...]
    graphs: tuple[RunGraph, ...]
    order: tuple[int, ...]
    left_out: int


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Name the graphs by the trace's compile ids."""
    for event in events:
        data = typed(EagerCollectives, event.data)
        graphs = tuple(changed(graph, frame=frames.names.get(graph.frame, graph.frame)) for graph in data.graphs)
        yield replace(event, data=changed(data, graphs=graphs))


def render(event: Event, id: str) -> Artifact:
    """One line per collective, after a line that counts them."""
    data = typed(EagerCollectives, event.data)
    lines = [summary_of(data), *(_line(data, number) for number in range(len(data.rows)))]
    if data.left_out:
        lines.append(f"{quantity(data.left_out, 'more run')} of other collectives, not listed")
    return text_artifact(event, id, STAGE.title, "text", text="\n".join(lines), data=data)


def _line(data: EagerCollectives, number: int) -> str:
    row = data.rows[number]
    before, after = neighbours(data, number)
    beside = [f"{word} {name_of(graph)}" for word, graph in (("after", before), ("before", after)) if graph]
    said = ", ".join([sent_by(row), *beside, quantity(row.runs, "run")])
    return f"{row.operator:24} {readable_bytes(row.bytes):>10} {row.dtype:9} group {row.group}  {said}"


def sent_by(row: EagerCollective) -> str:
    """Say who sends a collective: "DDP bucket 0: 2 parameters, layers.1.bias, layers.1.weight"."""
    if row.sender == DDP:
        name = f"DDP bucket {row.bucket}" if row.bucket is not None else "DDP"
        names = ", ".join(row.parameters)
        return f"{name}: {quantity(len(row.parameters), 'parameter')}, {cut(names, MAX_WIDTH)}" if names else name
    if row.sender == FSDP2:
        of = f" of {row.module}" if row.module else " of the outermost module" if row.parameters else ""
        return f"FSDP2 {row.hook}{of}{', prefetched' if row.prefetched else ''}"
    return row.sender


def name_of(graph: RunGraph) -> str:
    """A graph's name: "0/0 backward", or "0/0 backward 2" for the second of that name."""
    return f"{graph.frame} {graph.graph}{f' {graph.number + 1}' if graph.number else ''}"


def neighbours(data: EagerCollectives, number: int) -> tuple[RunGraph | None, RunGraph | None]:
    """The compiled graphs that ran before and after the last run of a collective."""
    place = last_run(data, number)
    if place is None:
        return None, None
    before = next((-1 - step for step in reversed(data.order[:place]) if step < 0), None)
    after = next((-1 - step for step in data.order[place + 1 :] if step < 0), None)
    return (None if before is None else data.graphs[before], None if after is None else data.graphs[after])


def last_run(data: EagerCollectives, number: int) -> int | None:
    """Where the last run of a collective is in `order`; None if it is no longer there."""
    return next((place for place in reversed(range(len(data.order))) if data.order[place] == number), None)


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link each collective to the program's line that it was sent from, where the trace shows it."""
    for number, row in enumerate(typed(EagerCollectives, artifact.data).rows):
        if row.line and (place := source_line(trace, row.file, row.line)):
            yield Link(artifact.id, (line_of(number),), place[0], (place[1],), "call stack")


def line_of(number: int) -> int:
    """The line of the text that has a row."""
    return number + 2


def summary_of(data: EagerCollectives) -> str:
    """How many collectives each sender has: "3 collectives outside the graphs: 1 by DDP, 2 by Python"; one alone by its name."""
    counts = Counter(row.sender for row in data.rows)
    alone = len(counts) == 1
    parts = ", ".join(sender if alone else f"{counts[sender]} by {sender}" for sender in SENDERS if counts[sender])
    return f"{quantity(len(data.rows), 'collective')} outside the graphs: {parts}"


def summary(artifacts: Sequence[Artifact]) -> str:
    """The same for the stage table."""
    return summary_of(typed(EagerCollectives, artifacts[0].data))


STAGE = Stage(
    name="eager_collective",
    title="Collectives outside the graphs",
    language="text",
    event=EagerCollectives,
    artifact=EagerCollectives,
    gather=gather,
    render=render,
    link=link,
    summary=summary,
    secondary=True,
    why_absent="the program sent no collective outside of its compiled graphs while it was recorded",
    about="The collectives that the process groups were asked for outside of the compiled graphs, as DDP's and FSDP2's hooks do.",
)
