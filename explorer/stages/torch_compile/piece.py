"""The pieces into which a backend splits Dynamo's graph and has Inductor compile one by one, as vLLM and SGLang do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.model.records import keys_of, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Frames, Stage, node_count
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link, Plain
from explorer.stages.chain import SAME
from explorer.stages.fx_graph import FxGraph, FxGraphText, link_files, node_lines, outer_nodes, render_graph
from explorer.stages.kinds import fx_kinds
from explorer.stages.torch_compile.cache import CacheLookup


@record
class Piece(FxGraph):
    """A part of Dynamo's graph that Inductor compiles by itself.

    `name` is the attribute of the split graph that holds it, such as "submod_0", `of_frame` the compile id of the whole graph.
    `inputs` are the types that it is compiled for, such as "float32[s72, 16]". `ranges` has the bounds of each symbol in them, ""
    for no bound. `key` is AOTAutograd's cache key, "" where none was computed. `stopped` names the exception that ended the
    compile. `origins` maps a node to the one of the whole graph that it stands for. `fixed` has the size in the place of each
    symbol of another compile of the piece. `same_as` is the compile id of the first piece with the same key, AOTAutograd's
    or that of the cache of FX graphs. Where no key was computed, it has the same graph but for the names.
    """

    name: str
    of_frame: str
    inputs: Names
    ranges: Mapping[str, tuple[str, str]]
    key: str
    stopped: str
    origins: Mapping[str, str] | None = None
    fixed: Mapping[str, str] | None = None
    same_as: str | None = None


@record
class PieceText(Piece):
    """A piece with the text of its graph."""

    text: str


#: What of a graph computes nothing.
NOT_COMPUTED = ("placeholder", "get_attr", "output")
#: A layer of a stack of modules: the path of the list, and the number in it.
_LAYER = re.compile(r"^(?:\w+\.)*?\d+(?=\.|$)")
_WORD = re.compile(r"\w+")


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Each compile of a piece, with the first one that is alike, and the sizes that another compile leaves open."""
    recorded = [(event, typed(PieceText, event.data)) for event in events if event.kind == "piece"]
    keys: dict[str, set[str]] = {event.frame: {data.key} for event, data in recorded if data.key}
    for event in events:
        if event.kind == "cache" and (lookup := typed(CacheLookup, event.data)).cache == "FX graph" and lookup.key:
            keys.setdefault(event.frame, set()).add(lookup.key)
    first: dict[str, str] = {}
    for event, data in recorded:
        known = keys.get(event.frame) or {unnamed(data)}
        same_as = next((first[key] for key in known if key in first), None)
        first |= dict.fromkeys(known - first.keys(), same_as or event.frame)
        general = (other for _, other in recorded if (other.of_frame, other.name) == (data.of_frame, data.name) and other.ranges)
        fixed = {} if data.ranges else fixed_sizes(data.inputs, next(general, data))
        of_frame = frames.names.get(data.of_frame, data.of_frame)
        yield replace(event, data=replace(data, of_frame=of_frame, fixed=fixed or None, same_as=same_as))


def unnamed(data: Piece) -> str:
    """Write a graph with numbers in the place of its names, so that the graphs of two layers are equal."""
    numbers: dict[str, str] = {}
    lines = [", ".join(data.inputs), str(data.inner or "")]
    for node in data.nodes or ():
        numbers[node.name] = f"%{len(numbers)}"
        target = "" if node.op == "placeholder" else node.target
        arguments = _WORD.sub(lambda match: numbers.get(match[0], match[0]), f"{node.args} {node.kwargs}")
        lines.append(
            f"{node.op} {target} {'' if node.op == 'placeholder' else arguments} {node.dtype} {node.shape} {node.stride}"
        )
    return "\n".join(lines)


def fixed_sizes(inputs: Names, general: Piece) -> dict[str, str]:
    """The number in each place where the inputs of another compile have a symbol; {} where the inputs are of other types."""
    numbers: dict[str, str] = {}
    sizes, open_sizes = (_WORD.findall(", ".join(each)) for each in (inputs, general.inputs))
    if len(sizes) == len(open_sizes):
        for size, open_size in zip(sizes, open_sizes, strict=True):
            if open_size in general.ranges:
                numbers.setdefault(open_size, size)
            elif open_size != size:
                return {}
    return numbers


def render(event: Event, id: str) -> Artifact:
    """The graph of the piece, titled by its name, its layers, its sizes, and the piece that it is like."""
    data = typed(PieceText, event.data)
    graph = FxGraphText(**{name: getattr(data, name) for name in keys_of(FxGraphText)})
    shown = render_graph("")(replace(event, data=graph), id)
    piece = Piece(**{name: shown.data.get(name, getattr(data, name)) for name in keys_of(Piece)})
    layers = ", ".join(layers_of(shown))
    same = f", same {'key' if data.key else 'graph'} as {data.same_as}" if data.same_as else ""
    return replace(shown, data=piece, title=f"{data.name} ({layers or 'no module'}) for {sizes(data)}{same}")


def sizes(data: Piece) -> str:
    """Say which sizes a piece is compiled for: "s72 ≥ 2", "2 ≤ s72 ≤ 64", "s72 = 8", or "fixed sizes"."""
    if data.ranges:
        return ", ".join(_span(symbol, lower, upper) for symbol, (lower, upper) in data.ranges.items())
    return ", ".join(f"{symbol} = {size}" for symbol, size in (data.fixed or {}).items()) or "fixed sizes"


def _span(symbol: str, lower: str, upper: str) -> str:
    if upper:
        return f"{lower} ≤ {symbol} ≤ {upper}" if lower else f"{symbol} ≤ {upper}"
    return f"{symbol} ≥ {lower}" if lower else f"any {symbol}"


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each node to the user's lines on its stack, and to the node of the whole graph that it stands for."""
    yield from link_files(artifact, trace)
    data, lines = typed(Piece, artifact.data), node_lines(artifact)
    for whole in trace.find("dynamo", data.of_frame)[-1:]:
        whole_lines = node_lines(whole)
        for name, origin in (data.origins or {}).items():
            if name in lines and origin in whole_lines:
                yield Link(artifact.id, (lines[name],), whole.id, (whole_lines[origin],), SAME)


def layers_of(graph: Artifact) -> tuple[str, ...]:
    """The layers whose operators a piece has, such as "layers.0"; of a module outside of a list its first name."""
    modules = dict.fromkeys(node.module for node in outer_nodes(graph) if node.module and node.op not in NOT_COMPUTED)
    layers = (match[0] if (match := _LAYER.match(path)) else path.partition(".")[0] for path in modules)
    return tuple(dict.fromkeys(layers))


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The piece is one row; `alike` counts the pieces that are alike, itself included."""
    data = typed(Piece, artifact.data)
    firsts = [typed(Piece, other.data).same_as or other.frame for other in trace.find("piece")]
    yield {
        "name": data.name,
        "of_frame": data.of_frame,
        "layers": layers_of(artifact),
        "sizes": sizes(data),
        "inputs": data.inputs,
        "same_as": data.same_as or "",
        "alike": firsts.count(data.same_as or artifact.frame),
        "stopped": data.stopped,
        "key": data.key,
    }


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many nodes a piece has, and with which exception the backend stopped its compile."""
    stopped = [data.stopped for artifact in artifacts if (data := typed(Piece, artifact.data)).stopped]
    return ", ".join([node_count(artifacts), *(f"the backend stopped its compile: {name}" for name in stopped)])


STAGE = Stage(
    name="piece",
    title="Piece of a graph",
    language="fx",
    event=PieceText,
    artifact=Piece,
    render=render,
    gather=gather,
    summary=summary,
    rows=rows,
    columns=("name", "of_frame", "layers", "sizes", "inputs", "same_as", "alike", "stopped", "key"),
    kinds=fx_kinds,
    link=link,
    consumes={"cache": CacheLookup},
    backend="inductor",
    why_absent="a backend that splits Dynamo's graph, as vLLM's, has pieces; Inductor alone compiles the whole graph",
    made_from=("dynamo",),
    about="A part of Dynamo's graph that the backend has Inductor compile by itself, as vLLM and SGLang do between attentions.",
)
