"""What one rank computed, in parts that can be compared with another rank's: graphs, guards, kernels, collectives. Pure.

A part is a list of items in the compiler's order, an item a node, a guard, a line of a kernel or a collective. Its `key` is
without what differs between ranks that compute the same: addresses, device indices, folders, names of process groups.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from explorer.analysis.questions.collectives import CollectiveRow, collective_rows, eager_rows, is_collective
from explorer.analysis.questions.provenance import origins
from explorer.model.records import typed
from explorer.model.shared import FxNode, Source
from explorer.model.trace_data import TraceData, artifact_of, source_line
from explorer.model.values import Artifact, Plain, text_lines
from explorer.sources.files import trace_file
from explorer.stages.dynamo.guards import Guards
from explorer.stages.fx_graph import StackPlace, all_fx_nodes, places_of, stack_of
from explorer.stages.torch_compile.eager_collective import DDP, FSDP2

#: The graphs that are compared, in the compiler's order, and what a divergence in each is called.
GRAPHS: Mapping[str, str] = {"dynamo": "graph", "forward": "graph", "backward": "graph", "post_grad": "graph"}
#: What a log says in the trace's meta: calls of collectives as Inductor schedules them, and compile ids as their graphs run.
LOGGED = ("collective_schedule", "graph_execution")
_ADDRESS = re.compile(
    r"\b0x[0-9a-fA-F]+\b|(?<=__builtins_dict___)\d+|(?<=___unnamed_scope_)\d+"
    r"|(?:(?<=__dtensor_spec_)|(?<=___check_metadata_)|(?<=___check_opaque_guard_fn_))(?:\d+|<id>)"
)
#: The last argument of a guard on an object's identity: the number differs from process to process, and traces of later releases
#: have <id> for it.
_IDENTITY = re.compile(r"(check_(?:\w+_id|fake_script_type)\(.*, )(?:\d+|<id>)")
_DEVICE = re.compile(r"\b(cuda|xpu|hip|mtia):\d+\b|(\bindex=|\bget_raw_stream\(|_DeviceGuard\(|\bdevice=)\d+")
_FOLDER = re.compile(r"(?:/[\w.@+-]+)+/(?=[\w.@+-]+)")
#: How long something took, in the JSON of an artifact; in a string of it a backslash would stand before the second ".
_SECONDS = re.compile(rb'"(?:seconds|time)":[\d.eE+-]+,?')
_NAME = re.compile(r"[A-Za-z_]\w*")
_STRING = re.compile(r"'[^']*'|\"[^\"]*\"")
_OF_TORCH = re.compile(r"[/\\]torch[/\\](?:distributed|_\w+|nn|utils|autograd|fx)\b")


@dataclass(frozen=True)
class Place:
    """A line of the program; without file and line where it is not known."""

    file: str = ""
    line: int = 0
    code: str = ""


@dataclass(frozen=True)
class Item:
    """A part that is compared: by `key` and `size`; `label` is for people.

    `text` is the id of its graph or kernel, and `node` its name there. `place_in` reads its place only when it is needed: nobody
    asks for the places of items that all ranks have, and reading them would be most of the work.
    """

    key: str
    label: str
    place: Place = Place()
    size: str = ""
    text: str = ""
    node: str = ""


@dataclass(frozen=True)
class Part:
    """One part of a compile: `kind` is what a divergence in it is called, `stage` where it is read.

    `lengths` are those of the dimensions of a graph's tensors; `exchanges` says that it has a collective.
    """

    kind: str
    stage: str
    graph: str
    items: tuple[Item, ...]
    lengths: frozenset[int] = frozenset()
    exchanges: bool = False

    @property
    def unread(self) -> bool:
        """Whether it is a graph without recorded nodes, as one from Inductor's cache: any graph has at least an output."""
        return self.stage in GRAPHS and not self.items


@dataclass(frozen=True)
class Compile:
    """One compile of a rank: its function, its parts, and how and where it failed, "" where it did not."""

    frame: str
    function: str
    place: Place
    parts: tuple[Part, ...]
    failed: str = ""
    failed_at: Place = Place()


@dataclass(frozen=True)
class RankParts:
    """All that is compared of a rank: its compiles, its collectives by group, and what only logs have.

    `sent` are the collectives that hooks of DDP and FSDP2 sent, in order of their first runs. What only logs have is the schedule
    of collectives that Inductor states, and the order in which graphs ran; None for another trace. `failed` says what stopped a
    compile, "" where nothing did; `stopped` only what is not that of one of `compiles`. `ended_at` is where the program was when
    SIGTERM ended it.
    """

    compiles: tuple[Compile, ...]
    collectives: Mapping[tuple[int, ...] | str, tuple[Item, ...]]
    sent: Mapping[tuple[int, ...] | str, tuple[Item, ...]]
    schedule: tuple[Item, ...] | None
    executed: tuple[Item, ...] | None
    failed: str = ""
    stopped: str = ""
    ended_at: Mapping[str, Plain] | None = None


@dataclass(frozen=True)
class _Made:
    """The parts of a graph or a kernel: its items, the lengths of its tensors' dimensions, and whether it has a collective."""

    items: tuple[Item, ...]
    lengths: frozenset[int]
    exchanges: bool


class Seen:
    """The parts of texts that were read already, by content: most ranks compute the same, so each text is read once."""

    def __init__(self) -> None:
        self._made: dict[object, _Made] = {}

    def of(self, trace: TraceData, artifact: Artifact) -> _Made:
        """What is compared of a graph or a kernel."""
        content = trace_file.content(artifact)
        if content is None:
            return _made_of(trace, artifact)
        key = hashlib.sha256(_SECONDS.sub(b"", content)).digest(), tuple(groups_of(trace).items())
        if key not in self._made:
            self._made[key] = _made_of(trace, artifact)
        return self._made[key]


def _made_of(trace: TraceData, artifact: Artifact) -> _Made:
    if artifact.stage == "kernel":
        return _Made(tuple(_kernel(artifact)), frozenset(), False)
    exchanges = any(is_collective(node.target) for node in all_fx_nodes(artifact))
    return _Made(tuple(_nodes(trace, artifact)), _lengths(artifact), exchanges)


def parts_of(trace: TraceData, seen: Seen | None = None) -> RankParts:
    """What is compared of a rank; `seen` has the parts of the ranks before it."""
    schedule, executed = map(partial(_logged, trace), LOGGED)
    compiles, failed = compiles_of(trace, seen or Seen()), _failures(trace)
    stopped = "" if any(compile.failed for compile in compiles) else failed
    exchanges = any(part.exchanges for compile in compiles for part in compile.parts)
    collectives = by_group(collective_rows(trace)) if exchanges else {}  # which reads every graph
    sent = by_group(row for row in eager_rows(trace) if row["sent_by"].startswith((DDP, FSDP2)))
    return RankParts(compiles, collectives, sent, schedule, executed, failed, stopped, trace.meta.get("ended_at"))


def compiles_of(trace: TraceData, seen: Seen) -> tuple[Compile, ...]:
    """The compiles of a rank, in the order in which they began."""
    return tuple(_compile(trace, frame, seen) for frame in trace.compile_ids if not frame.endswith("/-"))


def _compile(trace: TraceData, frame: str, seen: Seen) -> Compile:
    sources = [(a, typed(Source, a.data)) for a in trace.find("source", frame)]
    own = [(a, source) for a, source in sources if source.compiled and not source.inlined]
    source = own[0][1] if own else None
    place = Place(source.file, source.line, "") if source else Place()
    parts = tuple(_parts(trace, frame, seen))
    for failed in trace.meta.get("failed_compiles", ()):
        if failed["frame"] == frame:
            at = Place(failed["file"], failed["line"], failed["code"])
            return Compile(frame, failed["function"], place if source else at, parts, neutral(failed["error"]), at)
    return Compile(frame, source.qualname if source else "", place, parts, _failure(trace, frame), place)


def _failure(trace: TraceData, frame: str) -> str:
    """The first line of how a compile failed, as a log's trace says it."""
    said = [failure.message for failure in trace.failures if failure.step == "compile" and f" {frame} " in failure.message]
    return neutral(said[0].partition("\n")[0]) if said else ""


def _failures(trace: TraceData) -> str:
    """What stopped compiles: the first line of each error."""
    said = [f"{f.step}: {f.message.partition(chr(10))[0]}" for f in trace.failures if f.fatal and f.step != "compile"]
    return neutral("; ".join(dict.fromkeys(said)))


def _parts(trace: TraceData, frame: str, seen: Seen) -> Iterator[Part]:
    """The parts of a compile; the second graph of a name, as DDPOptimizer makes one for each bucket, is "forward 2"."""
    for stage, kind in GRAPHS.items():
        counts: Counter[str] = Counter()
        for artifact in trace.find(stage, frame):
            counts[artifact.graph] += 1
            number = counts[artifact.graph]
            name = f"{artifact.graph} {number}".strip() if number > 1 else artifact.graph
            made = seen.of(trace, artifact)
            yield Part(kind, stage, name, made.items, made.lengths, made.exchanges)
    guards = trace.find("guards", frame)
    if guards:
        yield Part("guards", "guards", "", tuple(sorted(_guards(trace, guards), key=lambda item: item.key)))
    wrappers = {a.graph: a for a in trace.find("output_code", frame)}
    for graph in wrappers:
        kernels = trace.find("kernel", frame, graph)
        yield Part("kernels", "kernel", graph, tuple(item for a in kernels for item in seen.of(trace, a).items))


def place_in(trace: TraceData, item: Item) -> Place:
    """The user's line of an item, read from its rank's trace where it is not known yet."""
    if not item.text:
        return item.place
    artifact = artifact_of(trace, item.text)
    if not item.node:
        return _place_of_kernel(trace, artifact)
    return next(_place_of_node(trace, artifact, node) for node in all_fx_nodes(artifact) if node.name == item.node)


def neutral(text: str) -> str:
    """A text without addresses, device indices and folders."""
    without = _IDENTITY.sub(r"\1…", _ADDRESS.sub("…", text))
    return _FOLDER.sub("", _DEVICE.sub(lambda match: match[1] or match[2] or "", without))


# Graphs ------------------------------------------------------------------------------------------------------------------


def _nodes(trace: TraceData, artifact: Artifact) -> Iterator[Item]:
    """The nodes of a graph and of those inside it: operator, arguments with the nodes by number, shape, stride, dtype.

    A node is written %n7, so its number is not taken for one of the program's.
    """
    nodes = all_fx_nodes(artifact)
    number = {node.name: f"%n{n}" for n, node in enumerate(nodes)}
    for node in nodes:
        arguments = f"{node.args} {node.kwargs}"
        if is_collective(node.target):
            arguments = _group_neutral(trace, arguments)
        inside = node.name.rpartition(".")[0]  # the path of the graph inside, whose arguments are without it
        arguments = _NAME.sub(partial(_numbered, number, f"{inside}." if inside else ""), arguments)
        tensors = [(node.shape, node.stride, node.dtype), *((o.shape, o.stride, o.dtype) for o in node.outputs or ())]
        size = "; ".join(_tensor(*tensor) for tensor in tensors if tensor[0] is not None)
        written = f"{node.args}{_keywords(node)}" if node.op.startswith("call") else ""
        label = f"{node.name} = {node.target}{written}" + (f" {size}" if size else "")
        yield Item(neutral(f"{node.op} {node.target} {arguments}"), label, Place(), size, artifact.id, node.name)


def _numbered(number: Mapping[str, str], inside: str, match: re.Match[str]) -> str:
    return number.get(inside + match[0], match[0])


def _keywords(node: FxNode) -> str:
    return f" {node.kwargs}" if node.kwargs not in ("", "{}") else ""


def _lengths(artifact: Artifact) -> frozenset[int]:
    """The lengths of the dimensions of a graph's tensors."""
    return frozenset(int(length) for node in all_fx_nodes(artifact) for length in node.shape or () if length.isdigit())


def _tensor(shape: Sequence[str] | None, stride: Sequence[str] | None, dtype: str | None) -> str:
    return f"{dtype or '?'}[{', '.join(shape or ())}]" + (f" stride ({', '.join(stride)})" if stride else "")


def _group_neutral(trace: TraceData, arguments: str) -> str:
    """The arguments of a collective with the size of its group in place of the group's name."""
    strings = list(_STRING.finditer(arguments))
    if not strings:
        return arguments
    last = strings[-1]
    ranks = groups_of(trace).get(last[0][1:-1])
    return f"{arguments[: last.start()]}<group{f' of {len(ranks)}' if ranks else ''}>{arguments[last.end() :]}"


def groups_of(trace: TraceData) -> Mapping[str, tuple[int, ...]]:
    """The ranks of each process group by its name, as far as recorded."""
    groups = trace.meta.get("process_groups") or {}
    return {str(name): tuple(ranks) for name, ranks in groups.items()}


def _place_of_node(trace: TraceData, artifact: Artifact, node: FxNode) -> Place:
    """The user's innermost line on the stack of a node."""
    places: Sequence[StackPlace] = places_of(stack_of(artifact, node.stack)) if node.stack is not None else ()
    outside = [place for place in places if not _OF_TORCH.search(place.file)]
    in_program = [place for place in outside if source_line(trace, place.file, place.line, frame=artifact.frame)]
    for place in reversed(in_program or outside):
        return Place(place.file, place.line, place.code)
    return Place(node.file or "", node.line or 0, node.code or "") if node.file and not _OF_TORCH.search(node.file) else Place()


# Guards and kernels ------------------------------------------------------------------------------------------------------


def _guards(trace: TraceData, artifacts: Sequence[Artifact]) -> Iterator[Item]:
    """The guards, each with its line where that is one of the program and not of torch."""
    for artifact in artifacts:
        held = typed(Guards, artifact.data)
        for row in held.rows:
            key = neutral(f"{row.kind} {row.source} {row.expression}")
            own = source_line(trace, row.file, row.line, frame=artifact.frame) if row.file else None
            place = _source_place(artifact_of(trace, own[0]), own[1]) if own else Place()
            yield Item(key, row.expression or f"{row.kind} {row.source}", place)
        if not held.rows:
            yield from (Item(neutral(line), line.strip()) for line in text_lines(held.tree or artifact.text))


def _kernel(artifact: Artifact) -> Iterator[Item]:
    """The name and the lines of a kernel."""
    yield Item(artifact.kernel, artifact.kernel, text=artifact.id)
    for line, key in zip(artifact.lines, text_lines(neutral(artifact.text)), strict=True):
        yield Item(key, f"{artifact.kernel}: {line.strip()}", text=artifact.id)


def _place_of_kernel(trace: TraceData, artifact: Artifact) -> Place:
    """The first line of the program that a kernel computes."""
    lines = origins(trace, artifact.id, range(1, len(artifact.lines) + 1))
    sources = ((a, sorted(lines[a.id])) for a in trace.find("source", artifact.frame) if lines.get(a.id))
    return next((_source_place(a, numbers[0]) for a, numbers in sources), Place())


def _source_place(source: Artifact, line: int) -> Place:
    data = typed(Source, source.data)
    return Place(data.file, data.first_line + line - 1, source.lines[line - 1].strip())


# Collectives -------------------------------------------------------------------------------------------------------------


def by_group(rows: Iterable[CollectiveRow]) -> Mapping[tuple[int, ...] | str, tuple[Item, ...]]:
    """The collectives of each process group in order, by its ranks, or by its name where these were not recorded."""
    found: dict[tuple[int, ...] | str, list[Item]] = {}
    for row in rows:
        found.setdefault(row["ranks"] or row["group"], []).append(_collective(row))
    return {group: tuple(items) for group, items in found.items()}


def _collective(row: CollectiveRow) -> Item:
    size = f"{row['dtype']}[{', '.join(row['shape'])}]"
    label = f"{row['operator']} of {size}" + (f", {row['bytes']:,} bytes" if row["bytes"] is not None else "")
    label += f", sent by {row['sent_by']}" if row["sent_by"] else ""
    return Item(row["operator"], label, Place(row["file"], row["line"], row["code"]), size)


def _logged(trace: TraceData, fact: str) -> tuple[Item, ...] | None:
    """What a log says in order of all compiles together; None where the trace does not have it."""
    held = trace.meta.get(fact)
    return None if held is None else tuple(Item(str(name), str(name)) for name in held)
