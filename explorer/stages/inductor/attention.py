"""Attention: which fused kernel torch takes for it, or why neither torch nor a pattern of Inductor's found one."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.fx_graph import NOWHERE, innermost, link_rows
from explorer.stages.gathering import counted, one_table


@record
class Attention(Record):
    """An attention, the kernel that torch takes for it, and why it takes no other; the user's line, "" and 0 for none.

    `node` is the call of scaled_dot_product_attention, or the second product of an attention that the program writes out.
    `kernel` is "cudnn", "flash", "efficient" or "math" for a call, and "" for what no pattern matched. `pattern` is then the
    nearest of Inductor's patterns. `setting` is the torch setting that the reason names, "" for none.
    """

    graph: str
    node: str
    kernel: str
    pattern: str
    reason: str
    setting: str
    file: str
    line: int
    function: str
    code: str


@record
class Attentions(Record):
    """The attentions of one frame."""

    rows: tuple[Attention, ...]


@record
class SeenAttention(Record):
    """An attention while it is compiled, with the Python stack of its node."""

    node: str
    kernel: str = ""
    pattern: str = ""
    reason: str = ""
    setting: str = ""
    stack: str = ""


def render(event: Event, id: str) -> Artifact:
    """One line per attention of the frame."""
    data = typed(Attentions, event.data)
    return text_artifact(event, id, "Attention", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: Attention) -> str:
    """An attention as one line: the graph, the node, its kernel, the reason, and the user's line."""
    graph = f"{row.graph}: " if row.graph else ""
    kernel = f"torch takes {row.kernel}" if row.kernel else "not fused"
    reason = f"; {row.reason}" if row.reason else ""
    code = f"  # {row.code}" if row.code else ""
    return f"{graph}{row.node}: {kernel}{reason}{code}"


def row_of(event: Event) -> Attention:
    """Return the attention as a row, with the graph and the user's line of its node."""
    data = typed(SeenAttention, event.data)
    place = innermost(data.stack) or NOWHERE
    return Attention(
        graph=event.graph,
        node=data.node,
        kernel=data.kernel,
        pattern=data.pattern,
        reason=data.reason,
        setting=data.setting,
        **place._asdict(),
    )


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link each attention to the user's line of its node."""
    return link_rows(artifact, ((row.file, row.line) for row in typed(Attentions, artifact.data).rows), trace)


STAGE = Stage(
    name="attention",
    title="Attention",
    language="text",
    event=SeenAttention,
    artifact=Attentions,
    render=render,
    summary=counted("attention"),
    gather=one_table(row_of, Attentions, distinct=True),
    link=link,
    backend="inductor",
    why_absent="the program calls no attention on CUDA, and writes out none that Inductor left unfused",
    about="Which kernel torch takes for each attention, and why an attention that the program writes out matched no pattern.",
)
