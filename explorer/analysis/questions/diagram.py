"""Draw graphs with graphviz: an FX graph, by module if it is large, and the fused scheduler nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from explorer.analysis.questions.missing import explain_place
from explorer.analysis.questions.modules import boxes_in_order, module_paths
from explorer.errors import InputError, require_installed
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain
from explorer.model.wording import quantity
from explorer.stages.program_names import Path, joined_name

Row = Mapping[str, Plain]
#: The most boxes of a diagram by default: as many as fit on a screen.
READABLE = 60


def diagram(
    trace: TraceData,
    stage: str,
    frame: str | None,
    graph: str | None,
    boxes: int | None,
    colours: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """Draw one stage's nodes with graphviz; `Trace.diagram` explains the arguments. `colours` fills nodes, by name."""
    graphs = [a for a in trace.find(stage, frame, graph) if a.nodes]
    if not graphs:
        explain_place(trace, stage, frame, graph)
        stages = sorted({a.stage for a in trace.artifacts if a.nodes})
        raise InputError(f"this trace has no graph at stage {stage!r}; those with nodes are {', '.join(stages) or 'none'}")
    if len(graphs) > 1:
        raise InputError(
            f"there are {len(graphs)} graphs at {stage!r}, name one: " + " or ".join(_frame_and_graph(a) for a in graphs)
        )
    return _drawn(trace, graphs[0], READABLE if boxes is None else boxes, colours)


def _frame_and_graph(a: Artifact) -> str:
    return f"frame={a.frame!r}, graph={a.graph!r}"


def _drawn(trace: TraceData, artifact: Artifact, boxes: int, colours: Mapping[str, str]) -> Any:
    if artifact.stage == "ir_post_fusion":
        before = [n for a in trace.find("ir_pre_fusion", artifact.frame, artifact.graph) for n in a.nodes]
        if max(len(before), len(artifact.nodes)) > boxes:
            return collapsed_diagram(artifact.nodes, {str(n["name"]): str(n["name"]) for n in artifact.nodes}, _contents_of_group)
        return scheduler_diagram(before, artifact.nodes, colours)
    if artifact.stage == "ir_pre_fusion":
        return scheduler_diagram(artifact.nodes, [{**n, "fused": ()} for n in artifact.nodes])
    if len(artifact.nodes) > boxes:
        return collapsed_diagram(artifact.nodes, modules(artifact.nodes, boxes), _contents_of_module)
    return fx_diagram(artifact.nodes)


# Collapsed -------------------------------------------------------------------------------------------------------------


def modules(nodes: Sequence[Row], boxes: int) -> dict[str, str]:
    """Map each computing node to the box of its module, as deep as `boxes` boxes allow; the arrows of boxes form no cycle."""
    paths = module_paths(nodes)
    box_of = _boxes(nodes, paths, 1)
    for depth in range(2, max(map(len, paths.values()), default=1) + 1):
        deeper = _boxes(nodes, paths, depth)
        if len(set(deeper.values())) > boxes:
            break
        box_of = deeper
    return box_of


def _boxes(nodes: Sequence[Row], paths: Mapping[str, Path], depth: int) -> dict[str, str]:
    return boxes_in_order(nodes, {name: joined_name(path[:depth]) or "(no module)" for name, path in paths.items()})


def collapsed_diagram(nodes: Sequence[Row], boxes: Mapping[str, str], contents: Any) -> Any:
    """Draw one box per set of nodes, and an arrow from each set to the sets that use its results."""
    graph = _digraph()
    members: dict[str, list[Row]] = {}
    for node in nodes:
        if str(node["name"]) in boxes:
            members.setdefault(boxes[str(node["name"])], []).append(node)
    ids = {box: f"n{number}" for number, box in enumerate(members)}
    for box, inside in members.items():
        graph.node(ids[box], label=_label(box, *contents(inside)), shape="box", style="rounded,filled", fillcolor="#eef3fb")
    edges = ((boxes.get(str(i)), boxes.get(str(n["name"]))) for n in nodes for i in n.get("inputs", ()))
    for source, target in dict.fromkeys(edges):
        if source is not None and target is not None and source != target:
            graph.edge(ids[source], ids[target])
    return graph


def _contents_of_module(nodes: Sequence[Row]) -> tuple[str, ...]:
    """Describe a module: its number of nodes and its most frequent operators."""
    counted = Counter(str(n.get("target", "")).removesuffix(".default") for n in nodes if n.get("op") == "call_function")
    return quantity(len(nodes), "node"), ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counted.most_common(4))


def _contents_of_group(nodes: Sequence[Row]) -> tuple[str, ...]:
    """Describe a fused group: its kind, its size, and the FX nodes that it computes."""
    (node,) = nodes
    fused = len(node.get("fused") or ()) or 1
    return f"{node.get('kind', '')} of {fused}", ", ".join(map(str, node.get("origins", ())))


# In full ---------------------------------------------------------------------------------------------------------------


def fx_diagram(nodes: Sequence[Row]) -> Any:
    """Draw an FX graph's nodes with target, shape and dtype; arrows lead from producer to consumer."""
    graph = _digraph()
    names = {str(node["name"]): f"n{number}" for number, node in enumerate(nodes)}
    for node in nodes:
        label = _label(node["name"], node.get("target", ""), _tensor(node))
        shape = "ellipse" if node.get("op") in ("placeholder", "output", "get_attr") else "box"
        graph.node(names[str(node["name"])], label=label, shape=shape)
    _connect(graph, nodes, names)
    return graph


def scheduler_diagram(before: Sequence[Row], after: Sequence[Row], colours: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Draw the scheduler nodes before fusion, with a frame around each fused group."""
    graph = _digraph()
    nodes_by_name = {str(node["name"]): node for node in before}
    parts = [nodes_by_name.get(str(name), {"name": name}) for node in after for name in node.get("fused") or (node["name"],)]
    names = {str(node["name"]): f"n{number}" for number, node in enumerate(parts)}
    for number, node in enumerate(after):
        if fused := node.get("fused"):
            with graph.subgraph(name=f"cluster_{number}") as cluster:
                cluster.attr(label=_label(node["name"], node.get("kind", "")), style="rounded,filled", fillcolor="#eef3fb")
                for name in fused:
                    _scheduler_node(cluster, nodes_by_name.get(str(name), {"name": name}), names)
        else:
            _scheduler_node(graph, nodes_by_name.get(str(node["name"]), node), names)
    for name, colour in colours.items():
        if name in names:  # dot takes the later of two colours
            graph.node(names[name], fillcolor=colour)
    _connect(graph, parts, names)
    return graph


def _scheduler_node(graph: Any, node: Row, names: Mapping[str, str]) -> None:
    origins, writes = (", ".join(map(str, node.get(key, ()))) for key in ("origins", "writes"))
    shape = "box3d" if "Extern" in str(node.get("kind", "")) else "box"
    graph.node(names[str(node["name"])], label=_label(node["name"], writes and f"writes {writes}", origins), shape=shape)


def _connect(graph: Any, nodes: Sequence[Row], names: Mapping[str, str]) -> None:
    """Draw arrows between drawn nodes; other inputs are graph inputs, and are left out."""
    for node in nodes:
        for source in node.get("inputs", ()):
            if str(source) in names and str(source) != str(node["name"]):
                graph.edge(names[str(source)], names[str(node["name"])])


def _tensor(node: Row) -> str:
    shape = node.get("shape")
    return f"{node.get('dtype', '')}[{', '.join(map(str, shape))}]" if shape is not None else ""


def _label(*lines: Plain) -> str:
    """Build a label from lines: shorten them, and escape what is special to dot."""
    import graphviz

    texts = (str(line) for line in lines if line)
    shown = (text if len(text) <= 60 else f"{text[:59]}…" for text in texts)
    # `escape` keeps "<…>" from being read as HTML; a line ends with dot's own "\n"
    return graphviz.nohtml("\\n".join(str(graphviz.escape(_printable(text))) for text in shown))  # type: ignore[no-any-return]


def _printable(text: str) -> str:
    """Remove line ends and the characters that XML, and so SVG, cannot hold."""
    return "".join(c if c.isprintable() else " " for c in text)


def _digraph() -> Any:
    require_installed("graphviz", "a diagram", "view")
    import graphviz

    fonts = {"fontname": "Helvetica", "fontsize": "10"}
    return graphviz.Digraph(graph_attr={"rankdir": "TB", **fonts}, node_attr={**fonts, "style": "filled", "fillcolor": "white"})
