"""Write the files of TORCH_COMPILE_DEBUG=1 from a trace, one folder per compiled graph. Pure, but for `dot`.

    model__0_inference_0/                 graph 0 of the trace, inference, folder 0
        fx_graph_readable.py              the graph that Inductor gets
        fx_graph_runnable.py              the same graph as a runnable program
        fx_graph_transformed.py           after all pattern matching
        ir_pre_fusion.txt, ir_post_fusion.txt
        output_code.py                    the wrapper, also runnable
        orig_fx_graph_diagram.svg         the FX graph that is lowered
        graph_diagram.svg                 the scheduler's nodes, each fused group a frame

Torch counts graphs over the whole process and adds a running number; here both count within the trace. A forward and
its backward have the same graph number. If graphviz's `dot` is missing, or a graph is too big for it, a diagram is written
as its source, with .dot in place of .svg.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from explorer.analysis.questions.diagram import fx_diagram, scheduler_diagram
from explorer.errors import FileError
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.sources.files.trace_file import checked

#: The stages of each text file; the file has the text of the first that the graph has.
FILES: Mapping[str, tuple[str, ...]] = {
    "fx_graph_readable.py": ("inductor_input", "forward", "backward"),
    "fx_graph_runnable.py": ("fx_graph_runnable",),
    "fx_graph_transformed.py": ("post_grad",),
    "ir_pre_fusion.txt": ("ir_pre_fusion",),
    "ir_post_fusion.txt": ("ir_post_fusion",),
    "output_code.py": ("output_code",),
}
#: The stages that only a graph compiled by Inductor has.
COMPILED = ("fx_graph_runnable", "post_grad", "ir_pre_fusion", "ir_post_fusion", "output_code")
#: From this number of nodes on, `dot` takes minutes: its time grows faster than their square.
TOO_BIG = 2000


def save(trace: TraceData, path: str | PathLike[str]) -> list[str]:
    """Write a folder for each compiled graph under `path`, and return the written paths in order.

    Existing files are replaced. A stage that the trace lacks has no file, and a trace without a compiled graph writes
    nothing. FileError if the folder cannot be written.
    """
    try:
        return _written(trace, Path(checked(path)))
    except OSError as error:
        raise FileError(f"cannot write the folder {path}: {error.strerror or error}") from error


def _written(trace: TraceData, path: Path) -> list[str]:
    """Write the files, and return their paths."""
    written: list[str] = []
    for folder, stages in graphs(trace).items():
        home = path / folder
        home.mkdir(parents=True, exist_ok=True)
        for name, text in texts(stages):
            (home / name).write_text(text, encoding="utf-8", errors="replace")
            written.append(str(home / name))
        written.extend(str(_draw(graph, size, home / name)) for name, graph, size in diagrams(stages))
    return written


def graphs(trace: TraceData) -> dict[str, dict[str, Artifact]]:
    """Return the artifacts of each compiled graph by folder name and stage; the last of several of one stage."""
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
    """Make a name safe for a file name: letters, digits, "_" and "-", at most 60 of them."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60]


def texts(stages: Mapping[str, Artifact]) -> Iterator[tuple[str, str]]:
    """Yield the name and content of each text file that the graph's stages give."""
    for name, choices in FILES.items():
        artifact = next((stages[stage] for stage in choices if stage in stages), None)
        if artifact is not None:
            yield name, artifact.text.rstrip("\n") + "\n"


# Diagrams ----------------------------------------------------------------------------------------------------------------


def diagrams(stages: Mapping[str, Artifact]) -> Iterator[tuple[str, Any, int]]:
    """Yield the name, graphviz graph and node count of each diagram that the graph's stages give."""
    lowered = next((stages[s] for s in ("post_grad", *FILES["fx_graph_readable.py"]) if s in stages), None)
    if lowered is not None and lowered.nodes:
        yield "orig_fx_graph_diagram.svg", fx_diagram(lowered.nodes), len(lowered.nodes)
    if "ir_post_fusion" in stages and stages["ir_post_fusion"].nodes:
        before = stages["ir_pre_fusion"].nodes if "ir_pre_fusion" in stages else ()
        after = stages["ir_post_fusion"].nodes
        yield "graph_diagram.svg", scheduler_diagram(before, after), max(len(before), len(after))


def _draw(graph: Any, size: int, path: Path) -> Path:
    """Write the graph as SVG, or as .dot if `dot` is missing, fails, or would take minutes."""
    import graphviz

    if size <= TOO_BIG:
        try:
            path.write_bytes(graph.pipe(format="svg", quiet=True))
            return path
        except (graphviz.ExecutableNotFound, graphviz.CalledProcessError):
            pass  # the .dot source below holds the same graph, and other viewers can draw it
    source = path.with_suffix(".dot")
    source.write_text(graph.source, encoding="utf-8")
    return source
