"""What a profile measured of each kernel and library call, read in by `Trace.attach`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.fx_graph import node_lines


@record
class ProfiledPart(Record):
    """A kernel, a library call or something else of a profile, with the seconds of all of its launches.

    `kind` is "kernel", "library call" or "not joined", and `why` says why something was not joined. `name` is the kernel, or the
    scheduler's node of a call, `nodes` the FX nodes that it computes, `events` the profile's names for it. `runs` counts the
    runs of the graph, `each` has the seconds of every launch of one run, added up over the runs, where all runs have as many.
    `idle` are the seconds that the device did nothing before these launches since the one before in the same run; None where
    the profile has no times.
    """

    frame: str
    graph: str
    name: str
    kind: str
    nodes: Names
    events: Names
    launches: int
    seconds: float
    runs: int
    each: tuple[float, ...]
    idle: float | None
    why: str


@record
class Profile(Record):
    """What runs of the compiled code took, by a profile that was read in: `seconds` are the sum of all rows.

    `source` is what recorded it, `device` where it ran. `of` is "device" for the times of a GPU's kernels, "CPU" for those of
    the CPU; each row leaves out the time that is in another row.
    """

    source: str
    device: str
    of: str
    seconds: float
    rows: tuple[ProfiledPart, ...]


#: The kinds of rows, and how a line of the profile is known to be of a line elsewhere.
KERNEL, CALL, UNJOINED = "kernel", "library call", "not joined"
BY_NAME = "profile"
#: The lines of the text before its rows.
HEAD = 2


def render(event: Event, id: str) -> Artifact:
    """One line per row, the longest first."""
    data = typed(Profile, event.data)
    what = f"{data.source}, times of {'the ' + data.of if data.of == 'CPU' else data.device or 'a device'}"
    head = [f"{what}: {data.seconds * 1e6:.1f} us in all", f"{'us in all':>12} {'launches':>8} {'us a run':>10}  what"]
    text = "\n".join([*head, *map(readable, data.rows)])
    return text_artifact(event, id, "Profile", "text", text=text, data=data)


def readable(row: ProfiledPart) -> str:
    """One row as a line; for what was not joined the reason."""
    place = ":".join(part for part in (row.frame, row.graph) if part)
    events = ", ".join(event for event in row.events if event != row.name)
    what = f"{row.name} ({events})" if row.name and events else row.name or events
    said = f"{place}  {what}" if row.kind != UNJOINED else f"{row.kind}: {what}: {row.why}"
    each = f"{row.seconds / row.runs * 1e6:10.2f}" if row.runs else " " * 10
    return f"{row.seconds * 1e6:12.1f} {row.launches:8} {each}  {said}"


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each row to the lines of its kernel, and the row of a library call to its FX nodes."""
    for number, row in enumerate(typed(Profile, artifact.data).rows, HEAD + 1):
        if row.kind == KERNEL:
            for kernel in trace.find("kernel", row.frame, row.graph):
                if kernel.kernel == row.name:
                    yield Link(artifact.id, (number,), kernel.id, tuple(range(1, len(kernel.lines) + 1)), BY_NAME)
        elif row.kind == CALL:
            for graph in trace.find("post_grad", row.frame, row.graph)[-1:]:
                lines = node_lines(graph)
                named = tuple(sorted(lines[name] for name in row.nodes if name in lines))
                if named:
                    yield Link(artifact.id, (number,), graph.id, named, BY_NAME)


def kinds(artifact: Artifact) -> Sequence[str]:
    """No line computes."""
    return ["times"] * len(artifact.lines)


def summary(artifacts: Sequence[Artifact]) -> str:
    """Say how much of the time kernels and library calls took."""
    data = typed(Profile, artifacts[0].data)
    joined = sum(row.seconds for row in data.rows if row.kind != UNJOINED)
    return f"{joined / data.seconds:.0%} of {data.seconds * 1e6:.4g} us joined" if data.seconds else "no time"


STAGE = Stage(
    name="profile",
    title="Profile",
    language="text",
    event=Profile,
    artifact=Profile,
    render=render,
    link=link,
    kinds=kinds,
    summary=summary,
    why_absent=(
        "no profile was read in: t.attach(prof) takes a torch.profiler.profile, an exported Chrome trace or a Proton file"
    ),
    about="What a profile measured of each kernel and library call when the compiled code ran.",
)
