"""A graph in ONNX: as torch.onnx exports it, after onnxscript's optimizer, and after each level of ONNX Runtime's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from explorer.model.records import record, typed
from explorer.model.stage import KernelPlace, Stage, no_kernels, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link, once
from explorer.model.wording import quantity
from explorer.stages import fx_graph
from explorer.stages.kinds import BLANK, BRACES, CONSTANT, SIGNATURE, Kinds
from explorer.stages.onnxrt.origins import OnnxGraph, OnnxNode, origins

#: The levels of ONNX Runtime's optimiser, as a trace's options name them: each does what the one before it does too.
ONNXRT_LEVELS = ("disable", "basic", "extended", "layout", "all")
#: The stages that are a graph in ONNX, in the order in which they are made.
ONNX_GRAPHS = ("onnx", "onnx_optimize", *(f"onnxrt_{level}" for level in ONNXRT_LEVELS))


@record
class OnnxGraphText(OnnxGraph):
    """A graph in ONNX, in ONNX's own syntax."""

    text: str


LinkFunction = Callable[[Artifact, TraceData], Iterator[Link]]
DECLARATIONS = "declarations"
#: How soon a view opens on the lowest level. Each level above opens sooner; the last is the graph that runs.
OPENS_AT = 3
#: How it is known: the exporter writes the FX node into the node; the values that a node reads and writes are those before.
FX_NODE, VALUES = "fx_node", "value names"
#: The line that opens the graph: its signature, or where its values have types the line behind these.
_OPENING = re.compile(r"^\{$|^\S.* => .*\{$")
_CLOSING = re.compile(r"^\s*[}\])>, ]+$")

#: What each level does, in ONNX Runtime's order.
ABOUT: Mapping[str, str] = {
    "disable": "without a level of the optimiser: what ONNX Runtime must change to run the graph at all",
    "basic": "constants folded, what computes nothing removed, operators fused whose fusion every provider has",
    "extended": "operators fused into kernels of the provider's own, such as FusedGemm, Gelu or Attention",
    "layout": "the layout of tensors chosen for this machine's CPU, with nodes that reorder them",
    "all": "every level: this is the graph that runs by default",
}


def nodes_of(artifact: Artifact) -> tuple[OnnxNode, ...]:
    """The nodes of a graph in ONNX, without its inputs, in the order of their lines."""
    return tuple(node for node in typed(OnnxGraph, artifact.data).nodes if node.op != "placeholder")


@once
def lines_of(artifact: Artifact) -> dict[str, tuple[int, ...]]:
    """Return the lines of each node by its name, including the graphs that it holds; {} if the text is not as expected."""
    opened = next((n for n, line in enumerate(artifact.lines, 1) if _OPENING.search(line)), 0)
    first = [n for n, line in enumerate(artifact.lines, 1) if opened and n > opened and re.match(r" {3}[^\s}]", line)]
    nodes = nodes_of(artifact)
    if (
        not nodes
        or len(first) != len(nodes)
        or not all(_is_of(artifact.lines[n - 1], node) for n, node in zip(first, nodes, strict=True))
    ):
        return {}
    ends = [*first[1:], len(artifact.lines)]
    return {node.name: tuple(range(n, end)) for node, n, end in zip(nodes, first, ends, strict=True)}


def _is_of(line: str, node: OnnxNode) -> bool:
    """Whether a line states this node's operator and its first result."""
    return f"= {node.target} " in line and all(value in line for value in node.writes[:1])


def render(event: Event, id: str, *, title: str) -> Artifact:
    """The graph's text."""
    return text_artifact(event, id, title, "onnx")


def kinds(artifact: Artifact) -> Kinds:
    """Nodes compute, but those that are constants; what stands around them does not."""
    lines = lines_of(artifact)
    constants = {n for node in nodes_of(artifact) if node.target == "Constant" for n in lines.get(node.name, ())}
    inside = {n for numbers in lines.values() for n in numbers}
    return [
        CONSTANT if number in constants else _around(line) if number not in inside or _CLOSING.match(line) else ""
        for number, line in enumerate(artifact.lines, 1)
    ]


def kernels(artifact: Artifact) -> Iterator[KernelPlace]:
    """Each node but the constants, by its name: an execution provider calls one kernel for it."""
    lines = lines_of(artifact)
    for node in nodes_of(artifact):
        if node.target != "Constant" and node.name in lines:
            yield KernelPlace(node.name, lines[node.name])


def _around(line: str) -> str:
    """The kind of a line that is no node."""
    if not line.strip():
        return BLANK
    return BRACES if _CLOSING.match(line) or line in ("{", "<") else SIGNATURE if " => " in line else DECLARATIONS


def link_exported(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each node to the node of the exported program that it names."""
    program = next(iter(reversed(trace.find("onnx_exported_program", artifact.frame, artifact.graph))), None)
    if program is None:
        return
    targets, lines = fx_graph.node_lines(program), lines_of(artifact)
    for node in nodes_of(artifact):
        line = targets.get(node.fx_node or "")
        if line is not None and node.name in lines:
            yield Link(artifact.id, lines[node.name], program.id, (line,), FX_NODE)


def link_before(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each node to the nodes of the previous graph that it was made of."""
    earlier = graph_before(artifact, trace)
    if earlier is None:
        return
    lines, targets = lines_of(artifact), lines_of(earlier)
    made_of = origins(typed(OnnxGraph, earlier.data), typed(OnnxGraph, artifact.data))
    for name, sources in made_of.items():
        found = tuple(sorted(n for source in sources for n in targets.get(source, ())))
        if found and name in lines:
            yield Link(artifact.id, lines[name], earlier.id, found, VALUES)


def graph_before(artifact: Artifact, trace: TraceData) -> Artifact | None:
    """Return the graph that this one was made of: the one of the level below, or the exported one."""
    below = ONNX_GRAPHS[: ONNX_GRAPHS.index(artifact.stage)]
    graphs = (trace.find(stage, artifact.frame, artifact.graph) for stage in reversed(below))
    return next((found[-1] for found in graphs if found), None)


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many nodes the graphs have."""
    count = sum(len(nodes_of(artifact)) for artifact in artifacts)
    return quantity(count, "node")


def _stage(name: str, title: str, about: str, link: LinkFunction, why_absent: str = "", opens_at: int = 0) -> Stage:
    return Stage(
        name=name,
        title=title,
        language="onnx",
        event=OnnxGraphText,
        artifact=OnnxGraph,
        backend="onnxrt",
        about=about,
        render=partial(render, title=title),
        link=link,
        kinds=kinds,
        kernels=kernels if name.startswith("onnxrt_") else no_kernels,
        summary=summary,
        why_absent=why_absent,
        opens_at=opens_at,
        made_from=tuple(
            stage
            for stage in ("onnx_optimize", "onnx")
            if name.startswith("onnxrt_") or (name, stage) == ("onnx_optimize", "onnx")
        ),
    )


def _level(level: str) -> Stage:
    reason = "it is shown where it is the level that runs" if level == "disable" else "a lower level was asked for"
    return _stage(
        f"onnxrt_{level}",
        f"{level} · ONNX Runtime",
        f"The graph in ONNX Runtime, {ABOUT[level]}.",
        link_before,
        f"{reason}: options={{'level': {level!r}}}",
        opens_at=OPENS_AT + ONNXRT_LEVELS.index(level),
    )


STAGES: tuple[Stage, ...] = (
    _stage("onnx", "ONNX", "The graph as torch.onnx exports it, its parameters as inputs, not optimised.", link_exported),
    _stage(
        "onnx_optimize",
        "ONNX · onnxscript",
        "The graph after onnxscript's optimizer, which folds constants and removes what is not used.",
        link_exported,
        "it was not asked for: options={'optimize': True}",
    ),
    *(_level(level) for level in ONNXRT_LEVELS),
)
