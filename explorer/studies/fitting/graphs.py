"""What a compiled region holds while it runs: the pieces of memory of its forward and backward, read from its trace. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.analysis.questions.launch_sites import returned, variable_of
from explorer.analysis.questions.memory import lifetimes, memory_of
from explorer.analysis.questions.modules import module_paths
from explorer.analysis.questions.rows import StorageRow
from explorer.errors import CompileError
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.stages.fx_graph import outer_nodes

#: How AOTAutograd names the generators of a checkpoint's random operators, which are arguments without memory.
GENERATORS = ("fwd_rng_state_", "bwd_rng_state_")
#: How the names of tangents begin, and how Dynamo's name for a rank's part of a DTensor ends.
TANGENT, LOCAL = "tangents", "._local_tensor"


@dataclass(frozen=True)
class Piece:
    """A piece of memory of a graph: from which statement on it is live, and from which on no longer, None to the end.

    `name` is the program's name of an input, such as "block.mlp.up_proj.weight"; `module` the path of what computed it.
    """

    bytes: int
    first: int
    last: int | None
    name: str = ""
    module: str = ""


@dataclass(frozen=True)
class Graph:
    """The pieces of a graph. `inputs` are the numbers of those that it is given, `results` of those that it returns.

    None stands for what is no memory, such as a number or None. An input that is a tangent has a name that begins so.
    """

    pieces: tuple[Piece, ...]
    inputs: tuple[int | None, ...]
    results: tuple[int | None, ...]
    tangents: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Region:
    """A compiled region: its forward, its backward where it has one, and how many results of the forward are its own."""

    forward: Graph
    backward: Graph | None
    outputs: int

    @property
    def saved(self) -> tuple[int | None, ...]:
        """Return the pieces of the forward that are saved for the backward, in the order of the backward's inputs."""
        return self.forward.results[self.outputs :]


def region_of(trace: TraceData, name: str) -> Region:
    """Read a region's graphs; CompileError where it is not one forward, or not one with its backward."""
    wrappers = {wrapper.graph: wrapper for wrapper in trace.find("output_code")}
    first = wrappers.get("forward") or wrappers.get("inference")
    if first is None or len(wrappers) != len(trace.find("output_code")) or any(w.language == "cpp" for w in wrappers.values()):
        raise CompileError(f"{name} does not compile as one graph, so its memory is not known")
    backward = _graph(trace, wrappers["backward"]) if "backward" in wrappers else None
    forward = _graph(trace, first)
    saved = len(backward.inputs) if backward is not None else 0
    return Region(forward, backward, len(forward.results) - saved)


def _graph(trace: TraceData, wrapper: Artifact) -> Graph:
    spans = lifetimes(memory_of(trace), wrapper.frame, wrapper.graph)
    modules = _modules(trace, wrapper)
    if unsized := [row["names"][0] for row, *_ in spans if row["bytes"] is None]:
        raise CompileError(f"the sizes of {', '.join(unsized)} are known only in the run: explorer.fits needs them all")
    pieces = tuple(Piece(row["bytes"] or 0, first, last, *_name_and_module(row, modules)) for row, first, last in spans)
    place = {name: number for number, (row, *_) in enumerate(spans) for name in row["names"]}
    graphs = trace.find("post_grad", wrapper.frame, wrapper.graph)
    nodes = [node for node in outer_nodes(graphs[-1]) if node.op == "placeholder"] if graphs else []
    names = [node.name for node in nodes if not node.name.startswith(GENERATORS)]
    results = tuple(place.get(variable_of(text)) for text in returned(wrapper))
    given = tuple(place.get(name) for name in names if not name.startswith(TANGENT))
    return Graph(pieces, given, results, tuple(place.get(name) for name in names if name.startswith(TANGENT)))


def _name_and_module(row: StorageRow, modules: Mapping[str, str]) -> tuple[str, str]:
    """The program's name of an input, and the module of the last node that has a piece for its value."""
    known = [modules[name] for name in reversed(row["nodes"]) if name in modules]
    name = row["inputs"][0] if row["kind"] == "input" and row["inputs"] else ""
    return name.removesuffix(LOCAL), known[0] if known else ""


def _modules(trace: TraceData, wrapper: Artifact) -> dict[str, str]:
    """Return the path of each node's module; the forward's path for values that the backward is given or recomputes."""
    modules: dict[str, str] = {}
    for graph in ("forward", wrapper.graph):
        for artifact in trace.find("post_grad", wrapper.frame, graph):
            modules.update({name: ".".join(path) for name, path in module_paths(artifact.nodes).items()})
    return modules


__all__ = ["Graph", "Piece", "Region", "region_of"]
