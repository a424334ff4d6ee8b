"""Link the nodes of an FX graph to the graph before it: by name, by from_node, by the pass that made them. Pure.

    dynamo → (passes) → pre_grad → joint → (passes) → forward, backward → (passes) → post_grad
                                 → forward → (passes) → inductor_input → (passes) → post_grad      in inference

A node that is in the graph that a round of passes begins with links to it there. One that is not was made on the way: it
links to the pass that made it, and there to the pattern that made it, which links it to the nodes that it replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from explorer.model.records import typed
from explorer.model.shared import FxNode, FxPass, PatternMatch
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import CALL_NODE, MADE_WITHIN, REWRITE, Artifact, Link, once
from explorer.stages.fx_graph import (
    FxGraph,
    all_fx_nodes,
    captured_graphs,
    innermost,
    link_files,
    node_lines,
    nodes_of_calls,
    outer_nodes,
    stack_of,
)

#: How it is known: a round of passes left the node alone; one of them made it; a pattern replaced nodes by it; AOTAutograd
#: traced it for a node of Dynamo's graph; autograd gave it the number of the forward operator that it differentiates.
SAME, MADE, REPLACED, FROM_NODE, SEQ_NR = "same node", "made by", "replaced", "from_node", "seq_nr"
#: A pass made every use of one node a use of another; it made a node that only such nodes use.
USES, FOR_USES = "replace_all_uses_with", "used only by what replaced"
#: Autograd added gradients of one tensor up.
ADDED = "sum of gradients"
#: A pass made it as a part of what took the place of another.
PART = "decomposed"

#: The line of each node by its name, and the node's target.
Nodes = Mapping[str, tuple[int, str]]


def link_graph(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link an FX graph to the user's lines and to the graph before it."""
    yield from link_files(artifact, trace)
    yield from link_before(artifact, trace)
    yield from _link_traced(artifact, trace)


@once
def nodes_of(artifact: Artifact) -> Nodes:
    """The nodes of a graph, or of the list of nodes that a pass leaves."""
    if artifact.stage == "fx_pass":
        data = typed(FxPass, artifact.data)
        return _numbered(data.names or (), data.targets or (), 1)
    targets = {node.name: node.target for node in all_fx_nodes(artifact)}
    return {name: (line, targets.get(name, "")) for name, line in node_lines(artifact).items()}


def _numbered(names: Iterable[str], targets: Iterable[str], first: int) -> Nodes:
    """List the nodes of consecutive lines; `first` is the number of the first line."""
    return {name: (line, target) for line, (name, target) in enumerate(zip(names, targets, strict=True), first)}


@once
def made_nodes(pattern: Artifact) -> Nodes:
    """The nodes that a pattern made, by their lines: below those it matched, each part of the text under a heading."""
    data = typed(PatternMatch, pattern.data)
    return _numbered(data.made, data.made_targets or (), len(data.matched) + 3)


@once
def matched_nodes(pattern: Artifact) -> Nodes:
    """The nodes that a pattern matched."""
    data = typed(PatternMatch, pattern.data)
    return _numbered(data.matched, data.matched_targets or (), 2)


def within(artifact: Artifact) -> str:
    """The prefix of a pass's nodes in the outermost graph's text: the path of the graph that the pass changed."""
    path = _path(artifact)
    return f"{path}." if path else ""


def _path(artifact: Artifact) -> str | None:
    """The path of the graph that an artifact is of: "" for the outermost, None where a recording does not say."""
    return _data_of(artifact).of


def _data_of(artifact: Artifact) -> FxGraph | FxPass | PatternMatch:
    """What a graph, a pass over one or a match in one holds."""
    if artifact.stage == "fx_pass":
        return typed(FxPass, artifact.data)
    if artifact.stage == "pattern_match":
        return typed(PatternMatch, artifact.data)
    return typed(FxGraph, artifact.data)


# Rounds of passes ----------------------------------------------------------------------------------------------------


def section_of(artifact: Artifact) -> str:
    """The round of passes that an artifact belongs to or ends: "pre_grad", "joint", "post_grad", or "" for none."""
    data = _data_of(artifact)
    if not isinstance(data, FxGraph):
        return data.section or ""
    ends = {"pre_grad": "pre_grad", "inductor_input": "joint", "backward": "joint", "post_grad": "post_grad"}
    return "joint" if artifact.stage == "forward" and artifact.graph != "inference" else ends.get(artifact.stage, "")


def _base(section: str, artifact: Artifact, trace: TraceData) -> Artifact | None:
    """Return the graph with which a round of passes began."""
    inference = artifact.graph == "inference"
    if section == "pre_grad":
        graphs = captured_graphs(trace, artifact.frame)
    elif section == "joint":
        graphs = trace.find("forward", artifact.frame, "inference") if inference else trace.find("joint", artifact.frame)
    elif section == "post_grad" and artifact.graph in ("inference", "forward", "backward"):
        graphs = trace.find("inductor_input" if inference else artifact.graph, artifact.frame, artifact.graph)
    else:
        graphs = ()
    return graphs[-1] if graphs else None


def link_before(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each node to itself in the graph that the round of passes began with, or to the pass or pattern that made it."""
    section = section_of(artifact)
    base = _base(section, artifact, trace)
    if base is None:
        return
    nodes = matched_nodes(artifact) if artifact.stage == "pattern_match" else nodes_of(artifact)
    old, prefix = nodes_of(base), within(artifact)
    inputs = {prefix + node.name for node in all_fx_nodes(artifact) if node.op == "placeholder"}
    unclear = _unclear(artifact, base)
    unknown = {}
    for name, (line, target) in ((prefix + name, place) for name, place in nodes.items() if name not in unclear):
        if name in old and (old[name][1] == target or name in inputs):
            yield Link(artifact.id, (line,), base.id, (old[name][0],), SAME)
        else:
            unknown[name] = line
    makers = _makers(section, artifact, trace) if unknown else {}
    users = _users(artifact) if makers else {}
    for name, line in unknown.items():
        if name in makers:
            yield Link(artifact.id, (line,), *makers[name], MADE)
        elif (user := users.get(name.partition(".")[0])) in makers and "." in name and name not in old:
            yield Link(artifact.id, (line,), *makers[user], MADE_WITHIN)  # in a graph that a pass made as that node's argument
        elif name in old:  # a pass gave it another target, such as the in-place form of an operator
            yield Link(artifact.id, (line,), base.id, (old[name][0],), SAME)


def _users(artifact: Artifact) -> dict[str, str]:
    """The node that each graph inside is an argument of, by the graph's path."""
    graphs = {node.name: node.target for node in outer_nodes(artifact) if node.op == "get_attr"}
    return {graphs[name]: node.name for node in outer_nodes(artifact) for name in node.inputs if name in graphs}


def _unclear(artifact: Artifact, base: Artifact) -> set[str]:
    """Names that may stand for a node of a graph inside another one, where a recording does not say which graph a pass was on."""
    if artifact.language != "fx-lines" or _path(artifact) is not None:
        return set()
    return {node.name.rpartition(".")[2] for node in all_fx_nodes(base)[len(base.nodes) :]}


def _makers(section: str, artifact: Artifact, trace: TraceData) -> dict[str, tuple[str, tuple[int]]]:
    """Where each node was made that the round's first graph does not have: in which pass, or else in which pattern.

    By the node's name in the outermost graph, as for all nodes of a round.
    """
    graphs = ("joint", artifact.graph) if section == "joint" else (artifact.graph,)
    places: dict[str, tuple[str, tuple[int]]] = {}
    for stage in ("pattern_match", "fx_pass"):
        for maker in trace.find(stage, artifact.frame):
            if maker is artifact or maker.time > artifact.time or (maker.graph not in graphs and section != "pre_grad"):
                continue
            data = _data_of(maker)
            if isinstance(data, PatternMatch):
                places |= {within(maker) + name: (maker.id, (line,)) for name, (line, _) in made_nodes(maker).items()}
            elif isinstance(data, FxPass) and data.section == section:
                nodes = nodes_of(maker)
                places |= {within(maker) + name: (maker.id, (nodes[name][0],)) for name in data.made if name in nodes}
    return places


def link_pattern(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link a pattern's new nodes to those it replaced, and these to the graph before."""
    made, matched = ({line for line, _ in nodes(artifact).values()} for nodes in (made_nodes, matched_nodes))
    if made and matched:
        yield Link(artifact.id, tuple(sorted(made)), artifact.id, tuple(sorted(matched)), REPLACED)
    yield from link_before(artifact, trace)
    yield from _link_made(artifact, trace, made_nodes(artifact), typed(PatternMatch, artifact.data).stacks or {})


def _link_made(artifact: Artifact, trace: TraceData, nodes: Nodes, stacks: Mapping[str, str]) -> Iterator[Link]:
    """Link new nodes of a pass or a pattern to the user's line on their own stack."""
    for name, stack in stacks.items():
        place = innermost(stack)
        if name in nodes and place and (source := source_line(trace, place.file, place.line, frame=artifact.frame)):
            yield Link(artifact.id, (nodes[name][0],), source[0], (source[1],), "stack_trace")


def link_pass(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link the nodes that a pass left alone, those it made, and all it made together to all it erased."""
    data = typed(FxPass, artifact.data)
    yield from link_before(artifact, trace)
    yield from _link_made(artifact, trace, nodes_of(artifact), data.stacks or {})
    base = _base(section_of(artifact), artifact, trace)
    if base is None:
        return
    nodes, old, prefix = nodes_of(artifact), nodes_of(base), within(artifact)
    yield from _link_replaced(artifact, base.id, old, nodes, trace)
    made = tuple(nodes[name][0] for name in data.made if name in nodes)
    erased = tuple(old[prefix + name][0] for name in data.erased if prefix + name in old)
    if made and erased:
        yield Link(artifact.id, made, base.id, erased, REWRITE)


def _link_replaced(artifact: Artifact, base: str, old: Nodes, nodes: Nodes, trace: TraceData) -> Iterator[Link]:
    """Link each new node of a pass to the nodes whose uses it took."""
    data = typed(FxPass, artifact.data)
    replaced, parts = data.replaced or {}, data.parts or ()
    makers = _makers(data.section, artifact, trace) if replaced else {}
    rows = [(name, origins, PART if name in parts else USES) for name, origins in replaced.items()]
    rows += [(name, origins, FOR_USES) for name, origins in _made_for(data.users or {}, replaced).items()]
    for name, origins, how in rows:
        for origin in (within(artifact) + origin for origin in origins if name in nodes):
            if origin in makers:
                yield Link(artifact.id, (nodes[name][0],), *makers[origin], how)
            elif origin in old:
                yield Link(artifact.id, (nodes[name][0],), base, (old[origin][0],), how)


def _made_for(users: Mapping[str, Sequence[str]], replaced: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """For each new node that only replacing nodes use, the nodes that those replaced.

    Such as the one tensor of seeds that all random operators of a graph take theirs from.
    """
    made_for: dict[str, tuple[str, ...]] = {}
    for name in reversed(list(users)):  # by their first use, so that what uses a node comes before it
        origins = [replaced.get(user) or made_for.get(user, ()) for user in users[name]]
        if all(origins):
            made_for[name] = tuple(dict.fromkeys(origin for some in origins for origin in some))
    return made_for


# AOTAutograd ---------------------------------------------------------------------------------------------------------


def _link_traced(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link AOTAutograd's nodes to the Dynamo nodes they were traced for; backward nodes to the operator they differentiate."""
    if artifact.stage != "joint" and (artifact.stage, artifact.graph) != ("forward", "inference"):
        return
    before = [a for a in trace.find("pre_grad", artifact.frame) if not _path(a)] or captured_graphs(trace, artifact.frame)
    lines = node_lines(artifact)
    origins = _Origins(artifact, before[-1]) if before else None
    forward: dict[tuple[int | None, int | None], list[int]] = {}
    calls = nodes_of_calls(artifact, trace)
    for node in all_fx_nodes(artifact):
        if node.name in lines and node.from_ is not None:
            if origins is not None and (origin := origins.line(node)):
                how = CALL_NODE if node.name in calls else FROM_NODE
                yield Link(artifact.id, (lines[node.name],), before[-1].id, (origin,), how)
            if node.seq_nr is not None:
                forward.setdefault((node.seq_nr, node.stack), []).append(lines[node.name])
    for node in all_fx_nodes(artifact):
        if node.name not in lines or node.from_ is not None:
            continue
        if (key := (node.seq_nr, node.stack)) in forward:
            yield Link(artifact.id, (lines[node.name],), artifact.id, tuple(forward[key]), SEQ_NR)
        elif _adds_gradients(node) and not _states_line(node, artifact, trace):
            added = tuple(lines[name] for name in node.inputs if name in lines)
            yield Link(artifact.id, (lines[node.name],), artifact.id, added, ADDED)


def _adds_gradients(node: FxNode) -> bool:
    """True for a node without `from` by which autograd adds up the gradients of a tensor that has several uses."""
    return node.target == "aten.add.Tensor" and len(node.inputs) == 2


def _states_line(node: FxNode, artifact: Artifact, trace: TraceData) -> bool:
    """Whether the innermost place of the node's stack is a line of the user's."""
    place = innermost(stack_of(artifact, node.stack))
    return place is not None and source_line(trace, place.file, place.line, frame=artifact.frame) is not None


class _Origins:
    """The nodes that AOTAutograd traced, by the names that its own nodes state, which say nothing of the graph they are in."""

    def __init__(self, traced: Artifact, before: Artifact) -> None:
        self._traced, self._before, self._lines = traced, before, node_lines(before)
        self._by_name: dict[str, list[FxNode]] = {}
        for node in all_fx_nodes(before):
            if node.name in self._lines:
                self._by_name.setdefault(node.name.rpartition(".")[2], []).append(node)

    def line(self, node: FxNode) -> int:
        """Return the line of the node that another was traced for, or 0; of several of that name, the one with the same stack."""
        candidates = self._by_name.get(node.from_[0], []) if node.from_ else []
        if len(candidates) > 1:
            stack = stack_of(self._traced, node.stack)
            candidates = [one for one in candidates if stack_of(self._before, one.stack) == stack != ""]
        return self._lines[candidates[0].name] if len(candidates) == 1 else 0
