"""Why two nodes are one kernel or not: the scheduler's verdicts of a trace, by name. Pure.

    t.fusion.groups        one row per kernel or call: its nodes, what it reads and writes
    t.fusion.table         one row per verdict: the pair, the rule that refused it, its score
    t.fusion.buffers       why each buffer is in memory;  t.fusion.inlined  what needs no buffer
    t.why("op3", "op7")    one sentence for any two nodes, also for two that the scheduler never considered
    t.why("a.py:3", "a.py:5")   the same for the nodes of two lines of the program

A node is named as the scheduler names it ("op3", "op3_op7"), by a buffer it writes ("buf3"), by an FX node it computes
("mul_2"), or by its kernel. Where the graph has it once, an operator of the program ("silu", as kernels' own names have it) or
Dynamo's name for a result is a name too. Names count anew in each graph: give `graph="backward"` or `frame="1/0"` where both
have it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import NamedTuple, TypeVar

from explorer.analysis.questions.breaks import check_in_a_graph
from explorer.analysis.questions.operator_places import OperatorPlace, operator_name, operator_places, several_places
from explorer.analysis.questions.rows import BufferRow, GroupRow, InlinedRow, PairRow
from explorer.analysis.questions.target import gpu_of
from explorer.errors import InputError, unknown_name
from explorer.model.accessor import Accessor
from explorer.model.events import FusionRequest
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import EMPTY, Artifact, Event, Failure, Fuse, KeepApart, Plain, Table, once
from explorer.model.wording import quantity
from explorer.stages.fx_graph import captured_graphs
from explorer.stages.inductor.scheduler_ir import SchedulerGraph
from explorer.stages.inductor.verdicts import FinalNode, Verdict, Verdicts
from explorer.stages.inductor.verdicts import Fusion as RecordedFusion
from explorer.stages.torch_compile.setting import ChangedSettings

#: A scheduler node's number, or an FX node's name.
N = TypeVar("N", int, str)

#: Plain names for the scheduler's classes of nodes.
KINDS: tuple[tuple[str, str], ...] = (
    ("NopKernelSchedulerNode", "nop"),
    ("FusedExternTritonKernelSchedulerNode", "user's kernel"),
    ("ForeachKernelSchedulerNode", "foreach"),
    ("FusedMixOrderReductions", "mix-order reduction"),
    ("FusedNestedReductions", "nested reduction"),
    ("OuterLoopFusedSchedulerNode", "outer loop"),
    ("GroupedSchedulerNode", "grouped"),
)
#: The scheduler considers a pair in both orders, and refuses one for the order alone. That is no reason for the pair.
WRONG_WAY = "node1 must go before node2"
#: Where a template computes the nodes that are fused into it.
ROLES = {"prologue": "where the template loads its input", "epilogue": "on the template's result before it is stored"}
#: The products, and the types of their results, that Inductor has Triton templates for. From use_triton_template of torch 2.13.
TEMPLATE_PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")
TEMPLATE_DTYPES = ("float16", "bfloat16", "float32")
#: Inductor autotunes no product on an NVIDIA GPU with fewer. From is_big_gpu of torch 2.13.
MIN_MULTIPROCESSORS = 68
#: Operators that put elements into another order, or take only some of them.
REORDERS = re.compile(r"permute|transpose|cat\b|slice|split|select|flip|roll|gather|index|pad|strided")
#: A line of the program, as in "model.py:12".
LINE = re.compile(r"(.+\.\w+):(\d+)")
#: The operations of a loop that reduce.
REDUCES = re.compile(r"(reduction|scan|sort)(_\d+)?$")
#: A sentence names at most this many nodes of a list, and counts the others.
MAX_LISTED = 4


@dataclass(frozen=True)
class Why:
    """The answer to `Trace.why`: whether two nodes are one kernel, the reason, and the verdicts behind it.

    `rule` is the scheduler's own reason, "" if it refused nothing. `considered` is False if it never considered the pair.
    """

    first: str
    second: str
    fused: bool
    sentence: str
    rule: str = ""
    considered: bool = True
    verdicts: Table = field(default_factory=Table, repr=False)

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        rule = f"\n  the scheduler: {self.rule}" if self.rule else ""
        return f"{self.first} and {self.second}: {'fused' if self.fused else 'not fused'}\n  {self.sentence}{rule}"


class Fusion(Accessor):
    """What Inductor's scheduler fused, and what it refused."""

    path = "t.fusion"

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        """The verdicts of each graph that the scheduler saw."""
        return tuple(
            Graph(
                a,
                Verdicts(typed(RecordedFusion, a.data)),
                _rows_of(self._trace, a),
                _fx_nodes_of(self._trace, a),
                _functions_of(self._trace, a),
                partial(_lacks_templates, self._trace, a),
            )
            for a in self._trace.find("fusion")
        )

    @property
    def groups(self) -> Table:
        """One row per scheduler node after fusion: kind, nodes, kernels, call, buffers, FX nodes, bytes moved.

        `kernels` are the generated kernels that compute it. In C++ several groups may be loops of one kernel, and groups with
        equal code are launches of one. It reads results of the calls in `before`, and the calls in `after` read its results.
        """
        return Table((row for g in self.graphs for row in g.groups()), GroupRow.__annotations__)

    @property
    def table(self) -> Table:
        """One row per verdict: frame, graph, pair, direction, verdict, rule, reason, shared_bytes, score, rounds, after.

        The pair is `first` and `second`. `rule` is the scheduler's own reason and `reason` a plain sentence. `shared_bytes`
        are the bytes that one kernel would move once instead of twice, None if an earlier rule refused. `score` has the parts
        of the scheduler's score, {} for pairs that it did not rank. `after` names the fusions that the verdict depends on.
        """
        return Table((row for g in self.graphs for row in g.table()), PairRow.__annotations__)

    @property
    def buffers(self) -> Table:
        """One row per buffer that lowering realized: buffer, node, FX node, why, and where in Inductor."""
        return Table((row for g in self.graphs for row in g.buffers()), BufferRow.__annotations__)

    @property
    def inlined(self) -> Table:
        """One row per FX node that lowering inlined: it never had a buffer, and the nodes in `into` compute it."""
        return Table((row for g in self.graphs for row in g.inlined()), InlinedRow.__annotations__)

    def summary(self) -> str:
        """Say of each graph what came of its nodes."""
        return "\n".join(f"{g.place}: {g.artifact.lines[0]}" for g in self.graphs) or "no fusion verdicts"


def why(fusion: Fusion, first: str, second: str, graph: str | None = None, frame: str | None = None) -> Why:
    """Say why two nodes are one kernel or not.

    A node may have the name of an operator with several places, such as "tanh". The name then means the operator, unless `graph`
    and `frame` are given and the other name is a node's too: so any two nodes can be asked about.
    InputError for an unknown name, with the nearest ones, for an operator that is computed in several places, with these, and for
    one at which Dynamo broke the graph, with its line.
    """
    graphs = _chosen(fusion, graph, frame)
    if any(map(LINE.fullmatch, (first, second))):
        return _of_lines(graphs, first, second)
    matching = [g for g in graphs if g.find(first) is not None and g.find(second) is not None]
    names_nodes = None not in (graph, frame) and all({first, second} <= set(g.numbers_by_name) for g in matching)
    if len(matching) == 1 and (names_nodes or not any(_is_of_several(graphs, name) for name in (first, second))):
        answer = matching[0].why(first, second)
        return replace(answer, sentence=answer.sentence + "".join(map(matching[0].namesakes, dict.fromkeys((first, second)))))
    if pairs := _side_by_side(graphs, first, second) or _nearest(graphs, first, second):
        return _of_all(graphs, pairs, first, second)
    for name in (first, second):
        if not any(name in g.every_name for g in graphs):
            check_in_a_graph(fusion._trace, name)
        check_known(name, graphs)
    if matching:
        raise InputError(f"several graphs have {first!r} and {second!r}; choose one with frame= and graph=: {_places(matching)}")
    homes = [_places([g for g in graphs if g.find(name) is not None]) for name in (first, second)]
    sentence = f"{first} is in {homes[0]} and {second} in {homes[1]}: each graph is compiled by itself."
    return Why(first, second, False, sentence, considered=False)


def _of_lines(graphs: Sequence[Graph], first: str, second: str) -> Why:
    """Say why the nodes of two lines of the program are one kernel or not, or those of a line and a node.

    InputError for a line that no kernel computes, and where several graphs compute both.
    """
    for name in (first, second):
        line = LINE.fullmatch(name)
        if line is None:
            check_known(name, graphs)
        elif not any(g.on_line(name) for g in graphs):
            follow = f"t.follow({line[1]!r}, {line[2]}, into='post_grad')"
            raise InputError(f"no scheduler node computes {name}: {follow} names the FX nodes of the line")
    sides = [(g, [Side(name, g.on_line(name) or g.find(name) or ()) for name in (first, second)]) for g in graphs]
    matching = [(g, one, other) for g, (one, other) in sides if one.nodes and other.nodes]
    if not matching:
        return Why(
            first, second, False, f"{first} and {second} are in different graphs: each is compiled by itself.", considered=False
        )
    if matching[1:]:
        places = _places([g for g, *_ in matching])
        raise InputError(f"several graphs compute {first} and {second}; choose one with frame= and graph=: {places}")
    ((of_both, one, other),) = matching
    return of_both._why_lines(one, other)


def _is_of_several(graphs: Iterable[Graph], name: str) -> bool:
    """Whether a name without a number, such as "layer_norm", stands for several places."""
    return not name[-1:].isdigit() and sum(len(graph.uses.get(name, ())) for graph in graphs) > 1


#: Two operators that stand side by side: the graph, and the place of each.
Pair = tuple["Graph", OperatorPlace, OperatorPlace]


def _side_by_side(graphs: Iterable[Graph], first: str, second: str) -> list[Pair]:
    """Pair the places of two operators that stand in the same lines, where a line has as many of the one as of the other."""
    pairs: list[Pair] = []
    for graph in graphs:
        by_code: dict[str, tuple[list[OperatorPlace], list[OperatorPlace]]] = {}
        for number, name in enumerate((first, second)):
            for place in graph.uses.get(name, ()):
                by_code.setdefault(place.line, ([], []))[number].append(place)
        for ones, others in by_code.values():
            if len(ones) == len(others):
                pairs += [(graph, one, other) for one, other in zip(ones, others, strict=True) if one.node != other.node]
    return pairs


def _nearest(graphs: Iterable[Graph], first: str, second: str) -> list[Pair]:
    """Pair each place of the rarer of two operators with the places of the other next to it, before and behind.

    Those in the order of the two names come first, the nearest first. None where no graph has both.
    """
    found: dict[tuple[str, ...], tuple[tuple[bool, int], Pair]] = {}
    for graph in graphs:
        sides = [graph.places(name) for name in (first, second)]
        order = {str(node["name"]): at for at, node in enumerate(graph.graph_nodes)}
        rarer = 0 if len(sides[0]) <= len(sides[1]) else 1
        for place in sides[rarer]:
            distances = [(order[other.node] - order[place.node], other) for other in sides[1 - rarer]]
            for behind in (False, True):
                near = min((each for each in distances if each[0] and (each[0] > 0) is behind), key=_distance, default=None)
                if near is not None:
                    one, other = (place, near[1]) if rarer == 0 or first == second else (near[1], place)
                    key = (graph.place, *sorted((one.node, other.node)))
                    found.setdefault(key, ((order[one.node] > order[other.node], abs(near[0])), (graph, one, other)))
    return [pair for _, pair in sorted(found.values(), key=lambda each: each[0])]


def _distance(each: tuple[int, OperatorPlace]) -> int:
    return abs(each[0])


def _of_all(graphs: Sequence[Graph], pairs: Sequence[Pair], first: str, second: str) -> Why:
    """Answer for two operators wherever they stand side by side; InputError, with the calls to make, if the answers differ."""
    titles = (first, second) if first != second else ("the one", "the other")
    answers = [graph._why_sides(_side(titles[0], one), _side(titles[1], other)) for graph, one, other in pairs]
    fused = answers[0].fused
    if any(answer.fused is not fused for answer in answers):
        told = [_told(graphs, pair, each.fused) for pair, each in zip(pairs, answers, strict=True)]
        raise InputError(f"{first} and {second} stand side by side in {len(pairs)} places, not all of them alike: {_some(told)}")
    sentence = f"{answers[0].sentence}{_meant(titles, *pairs[0][1:])}"
    if others := pairs[1:]:
        calls = [call for pair in others if (call := _call(graphs, pair, fused))]
        sentence += f" They are {'fused' if fused else 'not fused'} in {quantity(len(others), 'more place')} too"
        sentence += f": {_some(calls)}." if calls else "."
    return replace(answers[0], first=first, second=second, sentence=sentence)


def _side(title: str, place: OperatorPlace) -> Side:
    return Side(title, place.numbers, place.node)


def _meant(titles: tuple[str, str], one: OperatorPlace, other: OperatorPlace) -> str:
    """Say which nodes two titles stand for, and their lines; of a node that has its title for a name, the line alone."""
    named = [f"{title} is {place.central}" for title, place in zip(titles, (one, other), strict=True) if title != place.central]
    in_one_module = one.code.startswith(other.code) or other.code.startswith(one.code)
    if one.line == other.line and one.line and in_one_module:
        return f" Here {' and '.join(named)}, of `{one.code}`." if named else f" Here both are those of `{one.code}`."
    if len(named) == 2 and one.code and other.code:
        return f" Here {' and '.join(named)}, of `{one.code}` and `{other.code}`."
    told = ", and ".join(filter(None, map(_named, titles, (one, other))))
    return f" Here {told}." if told else ""


def _named(title: str, place: OperatorPlace) -> str:
    """Say which node a title stands for, and its line; "" where there is nothing to say."""
    if title != place.central:
        return f"{title} is {place.central}" + (f", of `{place.code}`" if place.code else "")
    return f"{title} is that of `{place.code}`" if place.code else ""


def _call(graphs: Iterable[Graph], pair: Pair, fused: bool) -> str:
    """Write the call that asks about one pair alone; "" where no call has that answer.

    A node alone may be fused where the whole operator is not, such as a bias without its product. A graph inside another may have
    nodes of the same names.
    """
    graph, one, other = pair
    frame, name = graph.artifact.frame, graph.artifact.graph
    alike = [g for g in graphs if (g.artifact.frame, g.artifact.graph) == (frame, name)]
    for first, second in product(*(dict.fromkeys((place.central, place.node)) for place in (one, other))):
        having = [g for g in alike if g.find(first) is not None and g.find(second) is not None]
        if first != second and len(having) == 1 and graph.why(first, second).fused is fused:
            return f"t.why({first!r}, {second!r}, frame={frame!r}, graph={name!r})"
    return ""


def _told(graphs: Iterable[Graph], pair: Pair, fused: bool) -> str:
    """Say whether one pair is fused, by the call that asks about it where there is one."""
    _, one, other = pair
    call = _call(graphs, pair, fused) or f"{one.central} with {other.central}"
    return f"{call} is {'fused' if fused else 'not fused'}"


def _some(texts: Sequence[str]) -> str:
    """The first of some texts, and how many more there are."""
    more = f" and {len(texts) - MAX_LISTED} more" if len(texts) > MAX_LISTED else ""
    return f"{'; '.join(texts[:MAX_LISTED])}{more}"


def _chosen(fusion: Fusion, graph: str | None, frame: str | None) -> list[Graph]:
    chosen = [g for g in fusion.graphs if graph in (None, g.artifact.graph) and frame in (None, g.artifact.frame)]
    if not chosen and fusion.graphs:
        asked = ", ".join(f"{k}={v!r}" for k, v in (("frame", frame), ("graph", graph)) if v is not None)
        raise InputError(f"this trace has no fusion verdicts for {asked}; it has them for {_places(fusion.graphs)}")
    if not chosen:
        raise InputError("this trace has no fusion verdicts: Inductor's scheduler did not run, or stages= left this stage out")
    return chosen


def check_known(name: str, graphs: Iterable[Graph]) -> None:
    """Check that a name stands for nodes of one of some graphs; InputError, with the nearest names, if it does not."""
    if any(g.find(name) is not None for g in graphs):
        return
    if places := [place for g in graphs for place in g.operators.get(name, ())]:
        raise several_places(name, places)
    if line := LINE.fullmatch(name):
        raise InputError(f"{name} is a line, not a node: t.follow({line[1]!r}, {line[2]}, into='post_grad') names its nodes")
    names = {other for g in graphs for other in g.every_name}
    raise unknown_name("scheduler node, buffer, FX node, operator or kernel", name, names)


def _rows_of(trace: TraceData, artifact: Artifact) -> dict[str, Mapping[str, Plain]]:
    """Return the scheduler nodes before fusion by name, each with its reads, writes and origins."""
    scheduled = next((a for a in trace.find("ir_pre_fusion", artifact.frame, artifact.graph) if _same_nodes(artifact, a)), None)
    return {row["name"]: row for row in scheduled.nodes} if scheduled else {}


def _fx_nodes_of(trace: TraceData, artifact: Artifact) -> tuple[Mapping[str, Plain], ...]:
    """Return the FX nodes of the graph that Inductor lowered; those of a graph inside another by their names in it."""
    lowered = next(iter(trace.find("post_grad", artifact.frame, artifact.graph)), None)
    of = typed(RecordedFusion, artifact.data).of
    if lowered is None or not of:
        return lowered.nodes if lowered else ()
    inside = ((row, str(row["name"]).removeprefix(f"{of}.")) for row in lowered.inner)
    return tuple(
        {**row, "name": name, "inputs": tuple(each.removeprefix(f"{of}.") for each in row["inputs"])}
        for row, name in inside
        if name != row["name"] and "." not in name
    )


def _functions_of(trace: TraceData, artifact: Artifact) -> dict[str, str]:
    """Return the functions and methods that the nodes of Dynamo's graph call, by the nodes' names."""
    graphs = captured_graphs(trace, artifact.frame)
    return {str(node["name"]): str(node.get("target", "")).rpartition(".")[2] for graph in graphs for node in graph.nodes}


def _lacks_templates(trace: TraceData, artifact: Artifact) -> bool:
    """Tell whether max_autotune was off, and would have let Inductor choose Triton templates for products.

    False where the trace does not have the settings.
    """
    gpu = gpu_of(trace)
    if gpu is not None and gpu.vendor == "nvidia" and gpu.multiprocessors < MIN_MULTIPROCESSORS:
        return False
    settings = [typed(ChangedSettings, a.data) for a in trace.find("setting", artifact.frame)]
    changed = {row.name for one in settings for row in one.rows if row.of == "inductor"}
    return bool(settings) and changed.isdisjoint({"max_autotune", "max_autotune_gemm"})


def _same_nodes(artifact: Artifact, nodes: Artifact) -> bool:
    """Tell whether verdicts are about the nodes of an ir_pre_fusion artifact, whose graph may be nested."""
    verdicts, scheduled = typed(RecordedFusion, artifact.data), typed(SchedulerGraph, nodes.data)
    same_place = (nodes.frame, nodes.graph, scheduled.of or "") == (artifact.frame, artifact.graph, verdicts.of)
    return same_place and set(verdicts.names) <= {row.name for row in scheduled.nodes}


def _places(graphs: Iterable[Graph]) -> str:
    return ", ".join(g.place for g in graphs)


class Side(NamedTuple):
    """One of two names in a question, the single nodes that it stands for, and the FX node of its result, "" for no one node."""

    name: str
    nodes: tuple[int, ...]
    result: str = ""


class Step(NamedTuple):
    """What runs between two nodes: "call", "template" or "kernel", and how a sentence names it; "" for what computes nothing.

    `node` is the FX node that a call or a template computes.
    """

    kind: str
    text: str
    node: str = ""

    @property
    def is_call(self) -> bool:
        """Tell whether it computes a whole FX node, which lowering inlines into no other."""
        return self.kind in ("call", "template")


#: What the scheduler said of a kernel that it never saw.
NO_VERDICTS = Verdicts(
    RecordedFusion(
        of="",
        names=(),
        groups=(),
        rounds=(),
        rules=(),
        args=(),
        pairs=(),
        score_parts=(),
        scores=(),
        kernels=(),
        final=(),
        settings=EMPTY,
        made=(),
        paths=(),
    )
)


@dataclass(frozen=True)
class Graph:
    """The verdicts on one graph, with the reads, writes and origins of its nodes, and the graph's FX nodes.

    `functions` has what each of Dynamo's nodes calls, such as "layer_norm". `lacks_templates` tells whether max_autotune was off,
    and would have let Inductor choose Triton templates for products.
    """

    artifact: Artifact = field(repr=False)
    verdicts: Verdicts = field(repr=False)
    nodes: Mapping[str, Mapping[str, Plain]] = field(repr=False)
    graph_nodes: tuple[Mapping[str, Plain], ...] = field(default=(), repr=False)
    functions: Mapping[str, str] = field(default_factory=lambda: EMPTY, repr=False)
    lacks_templates: Callable[[], bool] = field(default=bool, repr=False, compare=False)

    @property
    def place(self) -> str:
        """The graph's place, such as "frame 0/0 graph forward"."""
        return f"frame {self.artifact.frame} graph {self.artifact.graph}{f' ({self.of})' if self.of else ''}"

    @property
    def of(self) -> str:
        """The path of a graph that is inside another one; "" for the outermost."""
        return self.verdicts.data.of

    def is_of(self, nodes: Artifact) -> bool:
        """Tell whether these verdicts are about the nodes of an artifact of stage ir_pre_fusion."""
        return _same_nodes(self.artifact, nodes)

    # Names ---------------------------------------------------------------------------------------------------------

    @cached_property
    def numbers_by_name(self) -> dict[str, tuple[int, ...]]:
        """The single nodes that each name stands for.

        An FX node that is a call or a reduction stands for what calls or reduces, also where others have the rest of its code,
        such as the division of a mean.
        """
        v = self.verdicts
        numbers_of: dict[str, list[int]] = {}
        central: dict[str, list[int]] = {}
        for number, name in enumerate(v.names):
            for other in (*self.nodes.get(name, {}).get("writes", ()), *self.fx_nodes(name)):
                numbers_of.setdefault(other, []).append(number)
            for other in self._central(name):
                central.setdefault(other, []).append(number)
        numbers_of |= {name: numbers for name, numbers in central.items() if name in numbers_of}
        for kernel, numbers in v.data.kernels:
            numbers_of.setdefault(kernel, []).extend(numbers)
        for group in v.data.final:
            numbers_of["_".join(v.names_in(group.number))] = list(v.members(group.number))
        numbers_of |= {name: [number] for number, name in enumerate(v.names)}
        return {name: tuple(dict.fromkeys(numbers)) for name, numbers in numbers_of.items()}

    def _central(self, name: str) -> Iterator[str]:
        """The FX nodes that a scheduler node calls or reduces."""
        row = self.nodes.get(name, {})
        yield from (self._called[buffer] for buffer in row.get("writes", ()) if buffer in self._called)
        for operation, nodes in _operations(row):
            if REDUCES.match(operation):
                yield from nodes.split()[:1]

    @cached_property
    def _called(self) -> dict[str, str]:
        """The FX node of each library call and template, by the buffer that it writes."""
        calls = (call for group in self.verdicts.data.final for call in group.calls or ())
        return {call.buffer: call.node for call in calls if call.buffer and call.node}

    def fx_nodes(self, name: str) -> tuple[str, ...]:
        """Return the FX nodes that a scheduler node computes; for a call or template only its own."""
        row = self.nodes.get(name, {})
        fx_node = row.get("node", "")
        return (fx_node,) if fx_node and ("Extern" in row["kind"] or name in self._whole) else tuple(row.get("origins", ()))

    def module(self, name: str) -> str:
        """Return the last name of the module that a scheduler node is all of, such as "gate_proj"; "" where there is none."""
        modules = {self._modules.get(node, "") for node in self.fx_nodes(name)}
        return modules.pop().rpartition(".")[2] if len(modules) == 1 else ""

    @cached_property
    def _modules(self) -> dict[str, str]:
        return {str(node["name"]): str(node.get("module") or "") for node in self.graph_nodes}

    @cached_property
    def _whole(self) -> set[str]:
        """The scheduler nodes that compute one whole FX node: templates, and calls that Inductor chose over a template."""
        v, whole = self.verdicts, set()
        for group in v.data.final:
            calls = v.members(group.number) if "Extern" in group.kind else ()
            whole |= {v.names[n] for n in (*calls, group.template) if n is not None}
        return whole

    def operations(self, group: GroupRow) -> Iterator[tuple[str, str]]:
        """Yield what a group's loops do, where that was recorded: each operation ("load_1", "add"), and its FX nodes."""
        for name in group["nodes"]:
            yield from _operations(self.nodes.get(name, {}))

    def namesakes(self, name: str) -> str:
        """Say which node a name is where other nodes have the operator of that name: "mm" is the first product of several."""
        if name not in self.numbers_by_name:
            return ""
        alike = [n for n in self.graph_nodes if operator_name(str(n.get("target"))) == name]
        own = next((str(n.get("code") or "").strip() for n in alike if n["name"] == name), "")
        others = [str(n["name"]) for n in alike if n["name"] != name and n["name"] in self.numbers_by_name]
        if not others or not own:
            return ""
        more = f" and {len(others) - MAX_LISTED} more" if len(others) > MAX_LISTED else ""
        return f" Here {name} is that of `{own}`; others are {', '.join(others[:MAX_LISTED])}{more}."

    def find(self, name: str) -> tuple[int, ...] | None:
        """Find the single nodes that a name stands for; None if this graph has no such name, or an operator several times."""
        places = self.operators.get(name, ())
        return self.numbers_by_name.get(name) or (places[0].numbers if len(places) == 1 else None)

    @cached_property
    def uses(self) -> dict[str, tuple[OperatorPlace, ...]]:
        """The places of each operator as in `operators`, with those whose name is a node's too."""
        return operator_places(
            self.graph_nodes, self.numbers_by_name, set(self._called.values()), self.functions, with_nodes=True
        )

    def places(self, name: str) -> tuple[OperatorPlace, ...]:
        """Return the places that a name stands for: one for the name of an FX node."""
        if name in self.uses and not (name in self.numbers_by_name and name[-1].isdigit()):
            return self.uses[name]
        if name in self.operators:
            return self.operators[name]
        node = next((node for node in self.graph_nodes if node["name"] == name), {})
        numbers = self.numbers_by_name.get(name, ())
        return (OperatorPlace(name, str(node.get("code") or "").strip(), numbers, central=name),) if node and numbers else ()

    @cached_property
    def operators(self) -> dict[str, tuple[OperatorPlace, ...]]:
        """The places of each operator of the program, by its names and by Dynamo's for its result."""
        return operator_places(self.graph_nodes, self.numbers_by_name, set(self._called.values()), self.functions)

    @property
    def every_name(self) -> tuple[str, ...]:
        """All names that `find` may know."""
        return (*self.numbers_by_name, *self.operators)

    @cached_property
    def _group_of(self) -> dict[int, FinalNode]:
        return {n: group for group in self.verdicts.data.final for n in self.verdicts.members(group.number)}

    @cached_property
    def _ancestors(self) -> list[int]:
        """For each node, as bits, the nodes whose results it needs."""
        bits = [0] * len(self.inputs)
        for number, inputs in enumerate(self.inputs):
            for other in inputs:
                bits[number] |= bits[other] | 1 << other
        return bits

    @cached_property
    def inputs(self) -> list[tuple[int, ...]]:
        """For each single node those before it that it needs."""
        numbers = {name: n for n, name in enumerate(self.verdicts.names)}
        reads = [self.nodes.get(name, {}).get("inputs", ()) for name in self.verdicts.names]
        return [tuple(numbers[name] for name in row if numbers.get(name, n) < n) for n, row in enumerate(reads)]

    @cached_property
    def fx_inputs(self) -> dict[str, tuple[str, ...]]:
        """The FX nodes that each FX node reads, in the graph's order."""
        nodes = [node for node in self.graph_nodes if node.get("op") == "call_function"]
        return {str(node["name"]): tuple(map(str, node.get("inputs") or ())) for node in nodes}

    def direction(self, first: int, second: int) -> str:
        """Return "template" if a node of the pair is one, "vertical" if one needs the other's result, else "horizontal"."""
        one, other = (self.verdicts.members(n) for n in (first, second))
        if {*one, *other} & {group.template for group in self.verdicts.data.final}:
            return "template"
        needs = [sum(1 << n for n in set(a)) & _any(self._ancestors[n] for n in b) for a, b in ((one, other), (other, one))]
        return "vertical" if any(needs) else "horizontal"

    # Tables --------------------------------------------------------------------------------------------------------

    def table(self) -> Iterator[PairRow]:
        """Yield one row per verdict, in the order of the rounds."""
        yield from map(self.row, sorted(self.verdicts.each(), key=lambda v: (v.rounds, v.first, v.second)))

    def row(self, v: Verdict) -> PairRow:
        """Return a verdict as a row of `table`."""
        verdicts = self.verdicts
        return {
            "frame": self.artifact.frame,
            "graph": self.artifact.graph,
            "first": "_".join(verdicts.names_in(v.first)),
            "second": "_".join(verdicts.names_in(v.second)),
            "direction": self.direction(v.first, v.second),
            "verdict": v.verdict,
            "rule": verdicts.words(v),
            "reason": self.reason(v),
            "shared_bytes": v.shared,
            "score": verdicts.scores.get((v.first, v.second), {}),
            "rounds": tuple(n + 1 for n in v.rounds),
            "after": tuple("_".join(verdicts.names_in(n)) for n in verdicts.earlier(v)),
        }

    def reason(self, v: Verdict) -> str:
        """Explain a verdict in plain words; for a pair that shares no data, name the buffers that both touch."""
        sentence = self.verdicts.sentence(v)
        if v.rule.said != "no shared data" or v.verdict != "refused":
            return sentence
        both = sorted(self.touched(self.verdicts.members(v.first)) & self.touched(self.verdicts.members(v.second)))
        return (
            f"{sentence} Both touch {', '.join(both[:MAX_LISTED])}, but at other places or in another order."
            if both
            else sentence
        )

    def groups(self) -> Iterator[GroupRow]:
        """Yield one row per node after fusion, in the order in which they run."""
        for group in self.verdicts.data.final:
            members = self.verdicts.members(group.number)
            names = [self.verdicts.names[n] for n in members]
            rows = [self.nodes.get(name, {}) for name in names]
            yield {
                "frame": self.artifact.frame,
                "graph": self.artifact.graph,
                "name": "_".join(names),
                "nodes": tuple(names),
                "kind": kind_of(group, members),
                "kernels": self.verdicts.kernels(members),
                "call": group.call or (group.ir or "" if "Extern" in group.kind else ""),
                "buffers": _distinct(row.get("writes", ()) for row in rows),
                "fx_nodes": _distinct(map(self.fx_nodes, names)),
                "read": group.read,
                "written": group.written,
                "unsized": group.unsized or (),
                "calls": group.calls,
                "elementwise": group.elementwise,
                "one_block": group.one_block,
                "rows": group.rows,
                "run": group.run,
                "lookups": group.lookups,
                "reread": group.reread,
                "strided": group.strided,
                "before": self._calls(members, before=True),
                "after": self._calls(members, before=False),
                "prologue": self._node_names(group.prologue or ()),
                "epilogue": self._node_names(group.epilogue or ()),
            }

    def _node_names(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.verdicts.names[n] for n in numbers)

    def _calls(self, members: tuple[int, ...], *, before: bool) -> tuple[str, ...]:
        """Find the calls next to these nodes: they make what the nodes read, or read what the nodes make."""
        inside = {self.verdicts.names[n] for n in members}
        reads = {i for name in inside for i in self.nodes.get(name, {}).get("inputs", ())}
        if before:
            return tuple(name for name in self._inputs_of_calls if name in reads and name not in inside)
        return tuple(name for name, taken in self._inputs_of_calls.items() if name not in inside and inside & taken)

    @cached_property
    def _inputs_of_calls(self) -> dict[str, frozenset[str]]:
        """Map each node that is a call to the nodes that it reads."""
        names = (self.verdicts.names[n] for n, group in self._group_of.items() if kind_of(group, (n,)) == "extern")
        return {name: frozenset(self.nodes.get(name, {}).get("inputs", ())) for name in names}

    def buffers(self) -> Iterator[BufferRow]:
        """Yield one row per buffer that lowering realized."""
        for row in self.verdicts.made():
            numbers = self.find(row["buffer"])
            node = self.verdicts.names[numbers[0]] if numbers else ""
            yield {
                "frame": self.artifact.frame,
                "graph": self.artifact.graph,
                "buffer": row["buffer"],
                "node": node,
                "lowering": row["lowering"],
                "why": row["why"],
                "where": row["where"],
            }

    def inlined(self) -> Iterator[InlinedRow]:
        """Yield one row per FX node that lowering inlined into other scheduler nodes."""
        into: dict[str, list[str]] = {}
        for name in self.verdicts.names:
            for origin in self.fx_nodes(name):
                if origin != self.nodes[name].get("node"):
                    into.setdefault(origin, []).append(name)
        for origin, names in into.items():
            yield {"frame": self.artifact.frame, "graph": self.artifact.graph, "fx_node": origin, "into": tuple(names)}

    # Why -----------------------------------------------------------------------------------------------------------

    def why(self, first: str, second: str) -> Why:
        """Say why two nodes are one kernel or not."""
        return self._why_sides(*(Side(name, self.find(name) or (), self._result(name)) for name in (first, second)))

    def on_line(self, line: str) -> tuple[int, ...]:
        """List the scheduler nodes that compute a line of the program, as in "model.py:12"; () for no line, and for none."""
        match = LINE.fullmatch(line)
        if match is None:
            return ()
        file, number = match[1], int(match[2])
        names = [
            str(node["name"])
            for node in self.graph_nodes
            if node.get("line") == number and f"/{node.get('file')}".endswith(f"/{file.removeprefix('/')}")
        ]
        return tuple(dict.fromkeys(n for name in names for n in self.numbers_by_name.get(name, ())))

    def _why_lines(self, one: Side, other: Side) -> Why:
        """Say why the nodes of two lines are one kernel or not, and name the kernels where only some of them are."""
        groups = [dict.fromkeys(self._group_of[n].number for n in side.nodes) for side in (one, other)]
        answer = self._why_sides(one, other)
        if not answer.fused or len(groups[0] | groups[1]) == 1:
            return answer
        kernels = [
            ", ".join(
                name
                for group in own
                for name in self.verdicts.kernels(self.verdicts.members(group)) or [self.verdicts.name(group)]
            )
            for own in groups
        ]
        return replace(answer, sentence=f"{one.name} is in {kernels[0]}, {other.name} in {kernels[1]}. {answer.sentence}")

    def _result(self, name: str) -> str:
        """Return the FX node of a name's result: the node itself, or that of an operator."""
        return name if name in self.numbers_by_name else next((place.node for place in self.operators.get(name, ())), "")

    def _why_sides(self, one: Side, other: Side) -> Why:
        """Say why the nodes that two names stand for are one kernel or not."""
        return self._overlapping(one, other) if set(one.nodes) & set(other.nodes) else self._of_two(one, other)

    def _overlapping(self, one: Side, other: Side) -> Why:
        """Say why two names are one kernel or not that have scheduler nodes in common."""
        both = [n for n in one.nodes if n in other.nodes]
        node = self.verdicts.names[min(both)]
        if one.name == other.name:
            return Why(one.name, other.name, True, f"{one.name} is {node} itself.", considered=False)
        for whole, part in ((one, other), (other, one)):
            if whole.name in self._groups_and_kernels and set(part.nodes) <= set(whole.nodes):
                return Why(one.name, other.name, True, f"{part.name} is in {whole.name}.", considered=False)
        if self._computed_in(both, one) and self._computed_in(both, other):
            same = f"{one.name} and {other.name} are one scheduler node, {node}: lowering inlined both into one loop."
            return Why(one.name, other.name, True, same, considered=False)
        answer = self._of_two(self._without(one, both), self._without(other, both))
        inlined = " and ".join(side.name for side in (one, other) if side.name != node)
        return replace(answer, first=one.name, second=other.name, sentence=f"{node} has code of {inlined}. {answer.sentence}")

    @cached_property
    def _groups_and_kernels(self) -> set[str]:
        v = self.verdicts
        groups = {"_".join(v.names_in(group.number)) for group in v.data.final}
        return groups - set(v.names) | {kernel for kernel, _ in v.data.kernels}

    def _computed_in(self, nodes: Iterable[int], side: Side) -> bool:
        """Tell whether some nodes of a name have all of it, and not only what follows a reduction or a call of it."""
        rest = set(side.nodes) - set(nodes)
        return not any(rest & self.kept_inputs[n] for n in nodes)

    @cached_property
    def kept_inputs(self) -> list[set[int]]:
        """For each node, the reductions and calls whose results it reads: lowering copies no such node into its readers."""
        rows = [self.nodes.get(name, {}) for name in self.verdicts.names]
        kept = {name: n for n, (name, row) in enumerate(zip(self.verdicts.names, rows, strict=True)) if _is_kept(row)}
        return [{kept[name] for name in row.get("inputs", ()) if name in kept} for row in rows]

    def _without(self, side: Side, shared: Iterable[int]) -> Side:
        """Return the nodes that only one of two names has, under a name that says which; all of them if it has no such node."""
        own = tuple(n for n in side.nodes if n not in set(shared))
        if not own or own == side.nodes:
            return side
        names = [self.verdicts.names[n] for n in own]
        return Side(f"{', '.join(names)} of {side.name}", own)

    def _of_two(self, one: Side, other: Side) -> Why:
        """Say why nodes are one kernel or not."""
        groups = {self._group_of[n].number for n in one.nodes} & {self._group_of[n].number for n in other.nodes}
        verdicts = self._between(one.nodes, other.nodes)
        if groups:
            return self._fused(one, other, min(groups), verdicts)
        refused = [v for v in verdicts if v.verdict == "refused"]
        if refused:
            return self._refused(one.name, other.name, refused, verdicts)
        sentence = self._never(one, other)
        rows = Table(map(self.row, verdicts))
        return Why(one.name, other.name, False, sentence, considered=bool(verdicts), verdicts=rows)

    def _between(self, one: Iterable[int], other: Iterable[int]) -> list[Verdict]:
        """Find every verdict on two nodes, or on the groups that contain them, in the order of the rounds."""
        a, b = ({n for member in side for n in self.verdicts.containing[member]} for side in (one, other))
        verdicts = [v for x in a for y in b for pair in ((x, y), (y, x)) for v in self.verdicts.about(*pair)]
        return sorted(verdicts, key=lambda v: (v.rounds[-1], max(v.first, v.second), v.first, v.second))

    def _fused(self, first: Side, second: Side, group: int, verdicts: list[Verdict]) -> Why:
        kernels = self.verdicts.kernels(self.verdicts.members(group))
        names = ", ".join(kernels) or self.verdicts.name(group)
        one = "one kernel" if len(kernels) < 2 else f"one group, for which {len(kernels)} kernels were written"
        joined = next((v for v in verdicts if v.verdict == "fused"), None)
        how = f" In round {joined.rounds[0] + 1} {self.verdicts.sentence(joined)}" if joined else self._grouped(group)
        rows, roles = Table(map(self.row, verdicts)), self._roles(first, second, group)
        sentence = f"{first.name} and {second.name} are {one}, {names}.{how}{roles}"
        return Why(first.name, second.name, True, sentence, verdicts=rows)

    def _roles(self, first: Side, second: Side, group: int) -> str:
        """Say where in a template two nodes are computed; "" outside of one."""
        template = next(g for g in self.verdicts.data.final if g.number == group)
        sentences = ""
        for name, numbers, _ in (first, second):
            for role, computed in (("prologue", template.prologue), ("epilogue", template.epilogue)):
                if set(numbers) <= set(computed or ()):
                    sentences += f" {name} is in the template's {role}: computed {ROLES[role]}."
        return sentences

    def _grouped(self, group: int) -> str:
        """Say how nodes became one group without a fusion of two."""
        kind = next(kind_of(g, ()) for g in self.verdicts.data.final if g.number == group)
        if kind == "combo":
            return " They do not depend on each other, and combo kernels put such kernels into one launch (combo_kernels)."
        if kind == "foreach":
            return " They come from one operation on a list of tensors, which is lowered to one foreach kernel."
        return ""

    def _refused(self, first: str, second: str, refused: list[Verdict], verdicts: list[Verdict]) -> Why:
        last = ([v for v in refused if self.verdicts.words(v) != WRONG_WAY] or refused)[-1]
        sentence = self.reason(last)
        possible = next((v for v in verdicts if v.verdict == "possible"), None)
        if possible is not None and (possible.first, possible.second) != (last.first, last.second):
            by_then = " and ".join(self.verdicts.name(n) for n in self.verdicts.earlier(last))
            sentence = (
                f"{self.verdicts.sentence(possible)} But a fusion that scored higher came first and made {by_then}. {sentence}"
            )
        sentence += self._in_one_kernel(last)
        return Why(first, second, False, sentence, self.verdicts.words(last), verdicts=Table(map(self.row, verdicts)))

    def _in_one_kernel(self, v: Verdict) -> str:
        """Say that two groups are separate loops of one kernel, as in C++, or launches of one; "" where they share none."""
        kernels, in_one_launch = self.verdicts.shared_kernels(*(self.verdicts.members(n) for n in (v.first, v.second)))
        if not kernels:
            return ""
        if in_one_launch:
            return f" Both are in the kernel {kernels} anyway, as loops one after the other."
        return f" They are two launches of one kernel source, {kernels}, one after the other: Inductor writes equal code once."

    def _never(self, one: Side, other: Side) -> str:
        """Say why the scheduler did not consider two nodes."""
        first, second = one.name, other.name
        for side, reader in ((one, other), (other, one)):
            for number in side.nodes:
                if sentence := self.unfusable(side.name, number):
                    return sentence + self._with_template(side, number, reader)
        a, b = (self.touched(side.nodes) for side in (one, other))
        if not a & b:
            return f"{first} and {second} were never considered: they have no buffer in common.{self._between_sides(one, other)}"
        devices = [{self.nodes.get(self.verdicts.names[n], {}).get("device") for n in side.nodes} for side in (one, other)]
        if not devices[0] & devices[1]:
            return f"{first} and {second} were never considered: they run on different devices."
        shared = ", ".join(sorted(a & b)[:MAX_LISTED])
        return (
            f"{first} and {second} were never considered: both touch {shared}, but the scheduler pairs each node only with the "
            f"next {self.most_partners} nodes that touch its buffer (max_fusion_buffer_group_pairwise_attempts)."
        )

    def _with_template(self, product: Side, number: int, reader: Side) -> str:
        """Say how Inductor could fuse a library's product with its reader; "" where it could not."""
        if not set(reader.nodes) <= set(self.epilogues[number]):
            return ""
        return (
            f' With mode="max-autotune" Inductor may choose a Triton template for {product.name}, and fuse {reader.name} into it.'
        )

    @cached_property
    def epilogues(self) -> list[tuple[int, ...]]:
        """For each single node the pointwise nodes that a Triton template could compute with it; () if it is no such product."""
        readers: list[list[int]] = [[] for _ in self.inputs]
        if self.verdicts.settings.get("epilogue_fusion") and self.lacks_templates():
            elements = [self._product_elements(n) for n in range(len(self.inputs))]
            for reader, inputs in enumerate(self.inputs):
                count = self._pointwise_elements(reader)
                for number in inputs:
                    needed_by_others = any(self._ancestors[other] >> number & 1 for other in inputs)
                    if count is not None and count == elements[number] and not needed_by_others:
                        readers[number].append(reader)
        return [tuple(numbers) for numbers in readers]

    def _product_elements(self, number: int) -> int | None:
        """Count the elements of a product that a library computes and a template could; None for other nodes."""
        group = self._group_of[number]
        row = self.nodes.get(self.verdicts.names[number], {})
        if kind_of(group, (number,)) != "extern" or not str(row.get("device")).startswith(("cuda", "xpu")):
            return None
        calls = [call for call in group.calls or () if call.buffer in row.get("writes", ())]
        if len(calls) != 1 or calls[0].operator not in TEMPLATE_PRODUCTS or calls[0].dtype not in TEMPLATE_DTYPES:
            return None
        sizes = [result.size for result in calls[0].results or () if result.size is not None]
        return _elements(sizes[0]) if len(sizes) == 1 else None

    def _pointwise_elements(self, number: int) -> int | None:
        """Count the elements of a pointwise loop; None for other nodes, and for a loop that may read in another order."""
        row = self.nodes.get(self.verdicts.names[number], {})
        if row.get("kind") != "SchedulerNode" or _is_kept(row) or not self._reordering.isdisjoint(row.get("origins", ())):
            return None
        return _elements(size for sizes in row.get("sizes") or () for size in sizes)

    @cached_property
    def _reordering(self) -> set[str]:
        """The FX nodes whose results have the elements of their inputs in another order, or only some of them."""
        return {str(node["name"]) for node in self.graph_nodes if REORDERS.search(str(node.get("target")))}

    def _between_sides(self, one: Side, other: Side) -> str:
        """Say through what one of two sides needs the other; "" where neither does, and where their own kernels touch."""
        for source, reader in ((one, other), (other, one)):
            numbers = self._between_nodes(source, reader)
            steps = [self.steps[n] for n in sorted(numbers)]
            if any(step.is_call for step in steps):
                last = ", and nothing is fused with a call" if all(step.kind == "call" for step in steps) else ""
                return f" {reader.name} needs {source.name} only through {_listed(steps)}{last}."
            if steps:
                return f" {reader.name} needs {source.name} through {_listed(steps)}."
        return ""

    def _between_nodes(self, source: Side, reader: Side) -> set[int]:
        """Find what runs between two sides; the second needs the first.

        The last calls before the reader; kernels alone where it needs the source through no call.
        """
        calls = {n for n, step in enumerate(self.steps) if step.is_call}
        passed, is_direct = _way(dict(enumerate(self.inputs)), source.nodes, reader.nodes, calls)
        if source.result in self.fx_inputs and reader.result in self.fx_inputs:  # a scheduler node may have code of several
            nodes = {self.steps[n].node: n for n in calls}
            fx_passed, is_direct = _way(self.fx_inputs, (source.result,), (reader.result,), nodes)
            if not is_direct:
                return {nodes[name] for name in fx_passed if name in nodes}
            passed &= {n for name in fx_passed for n in self.numbers_by_name.get(name, ())}
        if not is_direct:
            return passed & calls
        own = {self._group_of[n].number for n in (*source.nodes, *reader.nodes)}
        return {n for n in passed - calls if self.steps[n].text and self._group_of[n].number not in own}

    @cached_property
    def steps(self) -> list[Step]:
        """How a sentence names each single node where it runs between two others: the call, the template or the kernel."""
        codes = {str(node["name"]): str(node.get("code") or "").strip() for node in self.graph_nodes}
        return [self._step(n, codes) for n in range(len(self.verdicts.names))]

    def _step(self, number: int, codes: Mapping[str, str]) -> Step:
        name = self.verdicts.names[number]
        group = self._group_of.get(number)  # a compile that failed in the middle has no final groups
        if group is None:
            return Step("", "")
        members = self.verdicts.members(group.number)
        kind = kind_of(group, members)
        if kind in ("nop", "output of a call"):
            return Step("", "")
        kernels = ", ".join(self.verdicts.kernels(members))
        node = self.nodes.get(name, {}).get("node", "")
        line = f" for `{codes[node]}`" if codes.get(node) else ""
        if kind == "extern":
            return Step("call", f"{node or name}, a call of {group.call or group.ir}{line}", node)
        if number == group.template:
            return Step("template", f"{node or name}, the template {kernels or group.ir}{line}", node)
        return Step("kernel", f"{kernels} ({self.verdicts.name(group.number)})" if kernels else self.verdicts.name(group.number))

    @property
    def most_partners(self) -> int | None:
        """How many of the nodes that touch a buffer the scheduler asks about with each of them."""
        most = self.verdicts.settings.get("max_fusion_buffer_group_pairwise_attempts")
        return most if isinstance(most, int) else None

    def touched(self, numbers: Iterable[int]) -> set[str]:
        """The buffers that some single nodes read or write."""
        rows = [self.nodes.get(self.verdicts.names[n], {}) for n in numbers]
        return {name for row in rows for name in (*row.get("reads", ()), *row.get("writes", ()))}

    def unfusable(self, name: str, number: int) -> str:
        """Say why the scheduler never considers a node; "" if it does."""
        group = self._group_of.get(number)
        kind = kind_of(group, (number,)) if group else ""
        if kind == "nop":
            return f"{name} computes nothing, it only says where its result lies: there is nothing to fuse."
        if kind == "extern":
            called = group and (group.call or group.ir)
            return (
                f"{name} is a call of {called}. Inductor does not write its code: nothing is fused with it. "
                "The kernels before and after it stay separate."
            )
        if kind == "output of a call":
            return f"{name} is one of several results of a call: it computes nothing itself."
        return ""

    def alone(self, node: str) -> Why:
        """Say why a node is a kernel by itself."""
        numbers = self.find(node) or ()
        group = self._group_of[numbers[0]]
        members = self.verdicts.members(group.number)
        if len(members) > len(numbers):
            others = ", ".join(self.verdicts.names[n] for n in members if n not in numbers)
            names = ", ".join(self.verdicts.kernels(members))
            return Why(node, node, True, f"{node} is not alone: it is in {names or 'one group'} with {others}.")
        if sentence := self.unfusable(node, numbers[0]):
            return Why(node, node, False, sentence, considered=False)
        refused = {n: self._about(numbers, n) for n in range(len(self.verdicts.names)) if n not in numbers}
        last = [v for verdicts in refused.values() for v in verdicts[-1:] if v.verdict == "refused"]
        if not last:
            return Why(
                node, node, False, f"{node} was never considered with another node: {self._around(members)}.", considered=False
            )
        rules = Counter(self.verdicts.words(v) for v in last)
        rules_with_partners = [f"{rule} ({self._with(last, rule, numbers)})" for rule, _ in rules.most_common()]
        sentence = f"{node} is alone: the scheduler refused every fusion with it. {' '.join(_firsts(self, last))}"
        return Why(node, node, False, sentence, "; ".join(rules_with_partners), verdicts=Table(map(self.row, last)))

    def _around(self, members: tuple[int, ...]) -> str:
        """Describe the neighbours of a node that no other could be fused with."""
        before, after = (", ".join(self._calls(members, before=way)) for way in (True, False))
        if not before and not after:
            return "it shares no buffer with another fusible node"
        read = f"its inputs come from {before}" if before else ""
        used = f"its result goes to {after}" if after else ""
        return " and ".join(filter(None, (read, used))) + ", and nothing is fused with a call"

    def _about(self, numbers: tuple[int, ...], other: int) -> list[Verdict]:
        return self._between(numbers, (other,))

    def _with(self, verdicts: Iterable[Verdict], rule: str, numbers: tuple[int, ...]) -> str:
        """Name the partners that a rule refused."""
        partners: dict[str, None] = {}
        for v in verdicts:
            if self.verdicts.words(v) == rule:
                partner = v.second if set(self.verdicts.members(v.first)) & set(numbers) else v.first
                partners[self.verdicts.name(partner)] = None
        names = list(partners)
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        return "with " + ", ".join(names[:MAX_LISTED]) + more


def _way(
    inputs: Mapping[N, Sequence[N]], sources: Collection[N], readers: Collection[N], ends: Collection[N]
) -> tuple[set[N], bool]:
    """Find the nodes between sources and readers, walking from these up to the `ends` next to them.

    Also tells whether a way comes to a source past no end. `inputs` has the nodes in an order in which they can run.
    """
    needing = set(sources)
    for node, read in inputs.items():
        if not needing.isdisjoint(read):
            needing.add(node)
    passed: set[N] = set()
    pending, is_direct = list(readers), False
    while pending:
        for node in needing.intersection(inputs.get(pending.pop(), ())):
            is_direct = is_direct or node in sources
            if node not in passed and node not in sources:
                passed.add(node)
                if node not in ends:
                    pending.append(node)
    return passed - set(readers), is_direct


def _listed(steps: Iterable[Step]) -> str:
    """Name the first of some steps, and count the others."""
    texts = list(dict.fromkeys(step.text for step in steps))
    more = [f"{len(texts) - MAX_LISTED} more"] if len(texts) > MAX_LISTED else []
    return " and ".join([*texts[:MAX_LISTED], *more])


def _firsts(graph: Graph, verdicts: Iterable[Verdict]) -> list[str]:
    """Return the sentence of each rule's first verdict."""
    sentences: dict[str, str] = {}
    for v in verdicts:
        sentences.setdefault(str(v.rule), graph.reason(v))
    return list(sentences.values())


def _operations(row: Mapping[str, Plain]) -> Iterator[tuple[str, str]]:
    """Yield each operation of a scheduler node's loops, and its FX nodes."""
    for blocks in (row.get("bodies") or {}).values():
        for block in blocks.values():
            yield from ((str(operation), str(nodes)) for operation, nodes in block.items())


def _elements(sizes: Iterable[object]) -> int | None:
    """Multiply sizes as Inductor writes them; None where one is a symbol."""
    texts = [str(size) for size in sizes]
    return prod(map(int, texts)) if all(text.isdecimal() for text in texts) else None


def _is_kept(row: Mapping[str, Plain]) -> bool:
    """Tell whether lowering always writes a node's result to memory: it is a call or a reduction."""
    sizes: Sequence[Sequence[str]] = row.get("sizes") or ()
    return "Extern" in row.get("kind", "") or (len(sizes) > 1 and any(size != "1" for size in sizes[-1]))


def kind_of(group: FinalNode, members: tuple[int, ...]) -> str:
    """Classify a node after fusion: "fused", "alone", "extern", "nop", "foreach", "combo", "template" …"""
    if group.kind == "ExternKernelSchedulerNode":
        named = {"MultiOutput": "output of a call", "UserDefinedTritonKernel": "user's kernel"}
        return "template" if group.template is not None else named.get(group.ir or "", "extern")
    if group.kind == "ForeachKernelSchedulerNode" and group.combo:
        return "combo"
    if group.template is not None:
        return "template"
    return dict(KINDS).get(group.kind) or ("fused" if len(members) > 1 else "alone")


# Requests --------------------------------------------------------------------------------------------------------------


def unfulfilled_requests(trace: TraceData, events: Sequence[Event], requests: Sequence[KeepApart | Fuse]) -> list[Failure]:
    """List a Failure for each pair to keep apart or to fuse that the scheduler did not fulfil, with the reason.

    `events` have the kind "fusion_wish". InputError, with the nearest names, if no graph has the nodes or none has both, and for
    two names to keep apart of a single scheduler node.
    """
    outcomes = [typed(FusionRequest, event.data) for event in events]
    failures = []
    for number, request in enumerate(requests):
        rows = [row for outcome in outcomes for row in outcome.rows if row.wish == number]
        if not rows:
            raise _not_in_one_graph(request, outcomes)
        if isinstance(request, KeepApart) and any(row.same for row in rows):
            raise InputError(
                f"{request.first} and {request.second} are one scheduler node: lowering inlined both into one loop. keep_apart= "
                f"takes nodes that the scheduler fused{_fused_pairs(trace)}: t.fusion.groups has those of each kernel"
            )
        if any(row.together is isinstance(request, KeepApart) for row in rows):
            failures.append(_failure(trace, request))
    return failures


def _fused_pairs(trace: TraceData) -> str:
    """Name a few pairs that the scheduler fused, to be kept apart; "" if there are none."""
    groups = (row for graph in fusion_of(trace).graphs for row in graph.groups())
    fused = [row["nodes"] for row in groups if len(row["nodes"]) > 1 and row["kernels"]]
    pairs = [f'("{nodes[0]}", "{nodes[1]}")' for nodes in fused[:MAX_LISTED]]
    return f", here {' or '.join(pairs)}" if pairs else ""


def _failure(trace: TraceData, request: KeepApart | Fuse) -> Failure:
    if isinstance(request, KeepApart):
        step, outcome = "keep_apart", "still in one kernel"
    else:
        step, outcome = "fuse", "still separate kernels"
    message = f"{request.first} and {request.second} are {outcome}. {_why_unfulfilled(trace, request)}"
    return Failure("fusion", step, message.strip())


def _not_in_one_graph(request: KeepApart | Fuse, outcomes: Sequence[FusionRequest]) -> InputError:
    names = {name for outcome in outcomes for name in outcome.names}
    if not outcomes:
        return InputError("keep_apart= and fuse= need a graph that Inductor schedules, and this compile scheduled none")
    for name in (request.first, request.second):
        if name not in names:
            return unknown_name("scheduler node, buffer or FX node", name, names)
    where = " ".join(filter(None, (request.frame, request.graph)))
    chosen = f" ({where})" if where else ""
    return InputError(f"no graph{chosen} has both {request.first!r} and {request.second!r}: only nodes of one graph can be fused")


def _why_unfulfilled(trace: TraceData, request: KeepApart | Fuse) -> str:
    """Say why the scheduler did not fulfil a request; "" if no verdict tells."""
    graphs = [g for g in fusion_of(trace).graphs if g.find(request.first) is not None and g.find(request.second) is not None]
    answers = [g.why(request.first, request.second) for g in graphs]
    return next((why.sentence for why in answers if why.fused is isinstance(request, KeepApart)), "")


def _distinct(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in lists for name in names))


def _any(bits: Iterable[int]) -> int:
    union = 0
    for some in bits:
        union |= some
    return union


@once
def fusion_of(trace: TraceData) -> Fusion:
    """The fusion verdicts of a trace, read when first asked for."""
    return Fusion(trace)
