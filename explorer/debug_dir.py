"""What TORCH_COMPILE_DEBUG=1 writes, from a trace: the same file names, one folder a compiled graph. Pure, but for `dot`.

    model__0_inference_0/                 graph 0 of the trace, inference, folder 0
        fx_graph_readable.py              the graph that Inductor was handed
        fx_graph_runnable.py              the same as a program that runs on its own
        fx_graph_transformed.py           after all pattern matching
        ir_pre_fusion.txt, ir_post_fusion.txt
        output_code.py                    the wrapper; it runs on its own too
        orig_fx_graph_diagram.svg         the FX graph that is lowered
        graph_diagram.svg                 the scheduler's nodes, each fused group a frame

Torch counts graphs over the whole process and adds a running number; here both count within the trace. A forward and
its backward have the same graph number. Where graphviz's `dot` is absent, or a graph is too big for it, a diagram is
written as its source, with .dot in place of .svg.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.model import Artifact, Plain

if TYPE_CHECKING:
    from explorer.traced import Trace

#: Each text file and the stages it is taken from, the first that the graph has.
FILES: Mapping[str, tuple[str, ...]] = {
    "fx_graph_readable.py": ("inductor_input", "forward", "backward"),
    "fx_graph_runnable.py": ("fx_graph_runnable",),
    "fx_graph_transformed.py": ("post_grad",),
    "ir_pre_fusion.txt": ("ir_pre_fusion",),
    "ir_post_fusion.txt": ("ir_post_fusion",),
    "output_code.py": ("output_code",),
}
#: The stages that only a graph which Inductor compiled has.
COMPILED = ("fx_graph_runnable", "post_grad", "ir_pre_fusion", "ir_post_fusion", "output_code")
#: From here on a layout by `dot` takes minutes: its time grows faster than the square of the nodes.
TOO_BIG = 2000

Row = Mapping[str, Plain]


def save(trace: Trace, path: str | PathLike[str]) -> list[str]:
    """Write a folder for each compiled graph under `path`; the paths of the files written, in order.

    Files that are there already are replaced. A stage that the trace lacks has no file; a trace in which nothing was compiled
    writes nothing. Raises OSError where the folder cannot be written.
    """
    written: list[str] = []
    for folder, stages in graphs(trace).items():
        home = Path(path) / folder
        home.mkdir(parents=True, exist_ok=True)
        for name, text in texts(stages):
            (home / name).write_text(text, encoding="utf-8", errors="replace")
            written.append(str(home / name))
        written.extend(str(_draw(graph, size, home / name)) for name, graph, size in diagrams(stages))
    return written


def graphs(trace: Trace) -> dict[str, dict[str, Artifact]]:
    """The compiled graphs by folder name, each as its artifacts by stage; of several of one stage the last."""
    found: dict[tuple[str, str], dict[str, Artifact]] = {}
    for artifact in trace.artifacts:
        if artifact.graph:
            found.setdefault((artifact.frame, artifact.graph), {})[artifact.stage] = artifact
    compiled = {key: stages for key, stages in found.items() if any(name in stages for name in COMPILED)}
    frames = list(dict.fromkeys(frame for frame, _ in compiled))
    return {
        f"model__{frames.index(frame)}_{safe(graph)}_{number}": stages
        for number, ((frame, graph), stages) in enumerate(compiled.items())
    }


def safe(name: str) -> str:
    """A name as part of a file name: letters, digits, "_" and "-", at most 60 of them."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60]


def texts(stages: Mapping[str, Artifact]) -> Iterator[tuple[str, str]]:
    """The name and content of each text file that the graph's stages give."""
    for name, choices in FILES.items():
        artifact = next((stages[stage] for stage in choices if stage in stages), None)
        if artifact is not None:
            yield name, artifact.text.rstrip("\n") + "\n"


# Diagrams ----------------------------------------------------------------------------------------------------------------


def diagrams(stages: Mapping[str, Artifact]) -> Iterator[tuple[str, Any, int]]:
    """The name, graphviz graph and number of nodes of each diagram that the graph's stages give."""
    lowered = next((stages[s] for s in ("post_grad", *FILES["fx_graph_readable.py"]) if s in stages), None)
    if lowered is not None and lowered.nodes:
        yield "orig_fx_graph_diagram.svg", fx_diagram(lowered.nodes), len(lowered.nodes)
    if "ir_post_fusion" in stages and stages["ir_post_fusion"].nodes:
        before = stages["ir_pre_fusion"].nodes if "ir_pre_fusion" in stages else ()
        after = stages["ir_post_fusion"].nodes
        yield "graph_diagram.svg", scheduler_diagram(before, after), max(len(before), len(after))


def fx_diagram(nodes: Sequence[Row]) -> Any:
    """The nodes of an FX graph, each with its target, shape and dtype; arrows lead from producer to consumer."""
    graph = _digraph()
    names = {str(node["name"]): f"n{number}" for number, node in enumerate(nodes)}
    for node in nodes:
        label = _label(node["name"], node.get("target", ""), _tensor(node))
        shape = "ellipse" if node.get("op") in ("placeholder", "output", "get_attr") else "box"
        graph.node(names[str(node["name"])], label=label, shape=shape)
    _connect(graph, nodes, names)
    return graph


def scheduler_diagram(before: Sequence[Row], after: Sequence[Row]) -> Any:
    """The scheduler's nodes as they were before fusion, in a frame for each group that was fused."""
    graph = _digraph()
    known = {str(node["name"]): node for node in before}
    parts = [known.get(str(name), {"name": name}) for node in after for name in node.get("fused") or (node["name"],)]
    names = {str(node["name"]): f"n{number}" for number, node in enumerate(parts)}
    for number, node in enumerate(after):
        if fused := node.get("fused"):
            with graph.subgraph(name=f"cluster_{number}") as cluster:
                cluster.attr(label=_label(node["name"], node.get("kind", "")), style="rounded,filled", fillcolor="#eef3fb")
                for name in fused:
                    _scheduler_node(cluster, known.get(str(name), {"name": name}), names)
        else:
            _scheduler_node(graph, known.get(str(node["name"]), node), names)
    _connect(graph, parts, names)
    return graph


def _scheduler_node(graph: Any, node: Row, names: Mapping[str, str]) -> None:
    origins, writes = (", ".join(map(str, node.get(key, ()))) for key in ("origins", "writes"))
    shape = "box3d" if "Extern" in str(node.get("kind", "")) else "box"
    graph.node(names[str(node["name"])], label=_label(node["name"], writes and f"writes {writes}", origins), shape=shape)


def _connect(graph: Any, nodes: Sequence[Row], names: Mapping[str, str]) -> None:
    """Arrows between the nodes that are drawn; an input that is none of them is a graph input, and left out."""
    for node in nodes:
        for source in node.get("inputs", ()):
            if str(source) in names and str(source) != str(node["name"]):
                graph.edge(names[str(source)], names[str(node["name"])])


def _tensor(node: Row) -> str:
    shape = node.get("shape")
    return f"{node.get('dtype', '')}[{', '.join(map(str, shape))}]" if shape is not None else ""


def _label(*lines: Plain) -> str:
    """Lines under each other, shortened, with everything that is special to dot disabled."""
    import graphviz

    texts = (str(line) for line in lines if line)
    shown = (text if len(text) <= 60 else f"{text[:59]}…" for text in texts)
    # `escape` keeps "<…>" from being read as HTML; a line ends with dot's own "\n"
    return graphviz.nohtml("\\n".join(str(graphviz.escape(_printable(text))) for text in shown))  # type: ignore[no-any-return]


def _printable(text: str) -> str:
    """The text without line ends and characters that XML, and so SVG, cannot hold."""
    return "".join(c if c.isprintable() else " " for c in text)


def _digraph() -> Any:
    import graphviz

    fonts = {"fontname": "Helvetica", "fontsize": "10"}
    return graphviz.Digraph(graph_attr={"rankdir": "TB", **fonts}, node_attr={**fonts, "style": "filled", "fillcolor": "white"})


def _draw(graph: Any, size: int, path: Path) -> Path:
    """Write the graph as SVG, or as .dot beside it where `dot` is absent, fails, or would take minutes."""
    import graphviz

    if size <= TOO_BIG:
        try:
            path.write_bytes(graph.pipe(format="svg", quiet=True))
            return path
        except (graphviz.ExecutableNotFound, graphviz.CalledProcessError):
            pass  # the source says as much, and any other viewer can draw it
    source = path.with_suffix(".dot")
    source.write_text(graph.source, encoding="utf-8")
    return source
