"""Find where two traces of one program differ first, and which settings and versions differ. Pure.

The stages are compared in the order in which torch makes them. Names of nodes, buffers and symbols mean nothing in another
compile: each stands for its position. A round of passes is looked into where its last graph differs, and a difference in what
passes did to the same graph in the end is none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple

from explorer.analysis.findings.rules import code_at, listed
from explorer.analysis.questions.comparison import Comparison
from explorer.analysis.questions.kernels import kernel_body, kernels_of_graph
from explorer.analysis.questions.lowering import SAID, by_node
from explorer.analysis.questions.rows import LoweringRow
from explorer.analysis.questions.tables import graph_breaks, table
from explorer.model.records import typed
from explorer.model.shared import FxPass, PatternMatch
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Table, text_lines
from explorer.model.wording import cut, quantity
from explorer.stages.chain import section_of
from explorer.stages.inductor.lowered import Lowering

#: What of a trace's meta says with what it was compiled, and what it was asked for.
VERSIONS = ("torch", "triton", "python")
REQUESTED = ("target", "backend", "train", "mode", "dynamic", "fullgraph", "keep_apart", "fuse")
#: The columns of the table, beside one for each trace.
COLUMNS = ("what", "name", "stage", "graph", "why")
#: What a round of passes is called, and the stage that shows its last graph.
ROUNDS: Mapping[str, str] = {"pre_grad": "pre-grad", "joint": "joint graph", "post_grad": "post-grad"}
#: The texts below a kernel's source, from its compiler on.
BELOW = ("ttir", "ttgir", "llir", "ptx", "amdgcn", "sass")
#: Columns of a line of code that is quoted.
WIDTH = 90

SYMBOL = re.compile(r"\b(?:s|u|zuf|zf)\d+\b")
WORD = re.compile(r"[A-Za-z_]\w*")
FUNCTION = re.compile(r"^(\s*(?:async )?def )\w+")
VALUE = re.compile(r"\b(?:tmp|buf|op)\d+\b")
#: What a text has of the file and the machine it was made on: its places, a hash, a comment.
PLACES = re.compile(r" loc\(.*\)$|, !dbg !\d+|'backend_hash': '\w*',? ?|'kernel_name': '\w*',? ?|/\*.*?\*/|\s*(?:#|//).*$")
#: Whole lines that only have such.
UNTOLD = re.compile(r"\s*(?:#loc|!|\.loc|\.file|\.section|\.b8|\.b32|\.b64|\.cfi|\.ident|#|//|import |from )")
#: The number of an operation among those of its name.
NUMBERED = re.compile(r"_\d+$")
#: The sources of kernels in the output code.
QUOTED = re.compile(r"'''.*?'''|r?\"\"\".*?\"\"\"", re.DOTALL)
ENTRY = re.compile(r", (?=['\"])")


@dataclass(frozen=True)
class Differing:
    """One thing that two traces have otherwise: what kind of thing, its name, where, and what each trace has."""

    what: str
    name: str
    values: tuple[str, str]
    stage: str = ""
    graph: str = ""
    why: str = ""

    def text(self, names: Sequence[str]) -> str:
        """Write it in one line."""
        where = f"{self.stage}{f' ({self.graph})' if self.graph else ''}: " if self.stage else ""
        each = "; ".join(f"{value} in {name}" for value, name in zip(self.values, names, strict=True))
        why = f" ({self.why})" if self.why else ""
        return f"{where}{self.what}{f' {self.name}' if self.name else ''}: {each}{why}"


class _Pair(NamedTuple):
    """A frame of each trace, and a graph of it."""

    traces: tuple[TraceData, TraceData]
    frames: tuple[str, str]
    graph: str = ""

    def find(self, stage: str) -> tuple[Artifact | None, Artifact | None]:
        """The text of a stage in each trace."""
        found = [t.find(stage, f, self.graph or None) for t, f in zip(self.traces, self.frames, strict=True)]
        return tuple(of[-1] if of else None for of in found)  # type: ignore[return-value]

    def each(self, ask: Callable[[TraceData, str], Any]) -> tuple[Any, Any]:
        """An answer for each trace and its frame."""
        one, other = (ask(t, f) for t, f in zip(self.traces, self.frames, strict=True))
        return one, other


def first_difference(comparison: Comparison) -> Table:
    """One row for where two traces differ first, and one for each version, setting and request that differs.

    See `Comparison.first_difference`.
    """
    names = comparison.names
    columns = (*COLUMNS[:-1], *names, COLUMNS[-1])
    if len(comparison.traces) != 2:
        return Table((), columns, f"two traces have a first difference, not {len(comparison.traces)}")
    rows = (
        {
            "what": one.what,
            "name": one.name,
            "stage": one.stage,
            "graph": one.graph,
            **dict(zip(names, one.values, strict=True)),
            "why": one.why,
        }
        for one in differing(comparison)
    )
    return Table(rows, columns, "these two traces have the same texts, settings and versions")


def differing(comparison: Comparison) -> tuple[Differing, ...]:
    """Return the first difference, where there is one, and behind it the versions, settings and requests that differ."""
    before, after = comparison.traces
    causes = [
        *_facts("version", VERSIONS, before, after),
        *_facts("request", REQUESTED, before, after),
        *_settings(before, after),
    ]
    first = next(_in_order(comparison), None)
    return (_explained(first, causes), *causes) if first else tuple(causes)


def in_words(comparison: Comparison) -> Iterator[str]:
    """Yield a line for the first difference and a line for the settings and versions that differ; none where nothing does."""
    if len(comparison.traces) != 2:
        return
    found = differing(comparison)
    causes = [one for one in found if not one.stage]
    if len(causes) < len(found):
        yield f"differs first at: {found[0].text(comparison.names)}"
    if causes:
        head = "set otherwise" if len(causes) < len(found) else "set otherwise, with no difference in the texts"
        yield f"{head}: {'; '.join(one.text(comparison.names) for one in causes)}"


# Causes ------------------------------------------------------------------------------------------------------------------


def _facts(what: str, names: Iterable[str], before: TraceData, after: TraceData) -> Iterator[Differing]:
    """Yield the facts of the traces' meta that differ."""
    for name in names:
        values = [str(trace.meta.get(name)) for trace in (before, after)]
        if values[0] != values[1]:
            yield Differing(what, name, (values[0], values[1]))


def _settings(before: TraceData, after: TraceData) -> Iterator[Differing]:
    """Yield each setting that has another value, a trace without it has the default."""
    one, other = (
        {f"{row['of']}.{row['name']}": row for row in table(trace, "setting") if row["set_by"] != "explorer"}
        for trace in (before, after)
    )
    for name in dict.fromkeys((*one, *other)):
        default = (one.get(name) or other[name])["default"]
        values = [of[name]["value"] if name in of else default for of in (one, other)]
        if values[0] != values[1]:
            yield Differing("setting", name, (str(values[0]), str(values[1])))


def _explained(first: Differing, causes: Sequence[Differing]) -> Differing:
    """Say which cause the first difference names itself, or that there is one alone; nothing where neither is known."""
    words = set(WORD.findall(" ".join((first.name, first.why, *first.values))))
    named = [cause.name for cause in causes if cause.what == "setting" and cause.name.rpartition(".")[2] in words]
    if named:
        told = f"it names {listed(named)}"
    elif len(causes) == 1 and first.what != "line":
        told = f"the only {causes[0].what} that differs is {causes[0].name}"
    else:
        return first
    return replace(first, why="; ".join(filter(None, (first.why.removesuffix("."), told))))


# In the order of the stages ----------------------------------------------------------------------------------------------


def _in_order(comparison: Comparison) -> Iterator[Differing]:
    before, after = comparison.traces
    frames = (tuple(dict.fromkeys(a.frame for a in trace.artifacts if a.frame)) for trace in (before, after))
    for one, other in zip_longest(*frames):
        if one is None or other is None:
            yield Differing("frame", one or other, ("compiled", "not compiled")[:: 1 if one else -1], "Dynamo")  # type: ignore[arg-type]
            return
        yield from _of_frame(comparison, _Pair((before, after), (one, other)))


def _of_frame(comparison: Comparison, pair: _Pair) -> Iterator[Differing]:
    yield from _program(pair)
    yield from _breaks(pair)
    yield from _graph(pair, "dynamo", "Dynamo's graph")
    yield from _passes(pair, "pre_grad", "pre_grad")
    yield from _graph(pair, "joint", "joint graph", decomposed=True)
    for graph in dict.fromkeys(a.graph for a in (*_graphs(pair, 0), *_graphs(pair, 1))):
        of = pair._replace(graph=graph)
        if graph == "inference":
            yield from _graph(of, "forward", "AOTAutograd's graph", decomposed=True)
            yield from _passes(of, "joint", "inductor_input")
        else:
            yield from _passes(of, "joint", "backward" if graph == "backward" else "forward")
        yield from _passes(of, "post_grad", "post_grad")
        yield from _lowering(of)
        yield from _fusion(comparison, of)
        yield from _kernels(of)
        yield from _wrapper(of)


def _graphs(pair: _Pair, number: int) -> Iterator[Artifact]:
    for stage in ("forward", "backward", "post_grad"):
        yield from pair.traces[number].find(stage, pair.frames[number])


def _program(pair: _Pair) -> Iterator[Differing]:
    """Yield the first line of the program that is another; the name of the function is none."""
    one, other = pair.find("source")
    if one and other:
        lines = ([FUNCTION.sub(r"\1f", line.strip()) for line in text_lines(a.text)] for a in (one, other))
        for a, b in zip_longest(*lines, fillvalue=""):
            if a != b:
                yield Differing("line", "", (_code(a), _code(b)), "the program")
                return


def _breaks(pair: _Pair) -> Iterator[Differing]:
    """Yield a graph break that one trace has in this frame and the other not."""
    one, other = pair.each(_breaks_by_code)
    for key in (*one, *other):
        if (key in one) != (key in other):
            row = one.get(key) or other[key]
            code = _code(key[1])
            values = (f"at {code}", "no break") if key in one else ("no break", f"at {code}")
            why = " ".join((row["explanation"], *row["hints"]))
            yield Differing("graph break", str(row["reason"]), values, "Dynamo", why=cut(why, 2 * WIDTH))


def _breaks_by_code(trace: TraceData, frame: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The graph breaks of a frame by their reason and the user's code: a line's number says where it stands in its file."""
    rows = (row for row in graph_breaks(trace) if frame in row["frames"])
    return {(str(row["reason"]), code_at(trace, row["file"], row["line"])): row for row in rows}


# FX graphs ---------------------------------------------------------------------------------------------------------------


def _canonical(nodes: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The nodes of a graph with positions for names, and symbols numbered as they come."""
    places: dict[str, str] = {}
    symbols: dict[str, str] = {}

    def placed(text: Any) -> str:
        named = WORD.sub(lambda word: places.get(word[0], word[0]), str(text))
        return SYMBOL.sub(lambda symbol: symbols.setdefault(symbol[0], f"symbol{len(symbols)}"), named)

    found = []
    for number, node in enumerate(nodes):
        target = "" if node["op"] in ("placeholder", "output") else str(node["target"])
        tensor = (placed(node.get("shape")), placed(node.get("stride")), str(node.get("dtype"))) if node["op"] != "output" else ()
        found.append((str(node["op"]), target, placed(node["args"]), placed(node["kwargs"]), *tensor))
        places[str(node["name"])] = f"%{number}"
    return found


def _graph(pair: _Pair, stage: str, title: str, *, decomposed: bool = False) -> Iterator[Differing]:
    """Yield what differs first in an FX graph; where it was decomposed, the operator that was decomposed otherwise."""
    one, other = pair.find(stage)
    if one is None or other is None:
        if one is not other:
            values = ("recorded", "not recorded") if one else ("not recorded", "recorded")
            yield Differing("graph", stage, values, title, pair.graph)
        return
    canonical = _canonical(one.nodes), _canonical(other.nodes)
    if canonical[0] == canonical[1]:
        return
    if decomposed:
        yield from _decomposed(one, other, title, pair.graph)
    yield _nodes(one, other, canonical, title, pair.graph)


def _decomposed(one: Artifact, other: Artifact, title: str, graph: str) -> Iterator[Differing]:
    parts = [_parts(a.nodes) for a in (one, other)]
    for operator in parts[0]:
        found = [of.get(operator, Counter[str]()) for of in parts]
        if found[0] != found[1] and all(found):
            by = next((str(n["decomposition"]) for a in (one, other) for n in a.nodes if _is_part(n, operator)), "")
            values = [_counted(of) for of in found]
            yield Differing("decomposition of", operator, (values[0], values[1]), title, graph, f"by {by}" if by else "")


def _is_part(node: Mapping[str, Any], operator: str) -> bool:
    return bool(node.get("original") == operator and node.get("decomposition"))


def _parts(nodes: Iterable[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """The operators that each operator of ATen became."""
    parts: dict[str, Counter[str]] = {}
    for node in nodes:
        if original := node.get("original"):
            parts.setdefault(str(original), Counter())[str(node["target"])] += 1
    return parts


def _counted(targets: Counter[str]) -> str:
    return listed(f"{count} {target}" if count > 1 else target for target, count in targets.items()) or "none"


def _nodes(
    one: Artifact, other: Artifact, canonical: tuple[list[tuple[str, ...]], list[tuple[str, ...]]], title: str, graph: str
) -> Differing:
    """What the nodes of two graphs differ in: their operators, or else the first node that is another."""
    targets = [Counter(str(n["target"]) for n in a.nodes if n["op"] not in ("placeholder", "output")) for a in (one, other)]
    only = targets[0] - targets[1], targets[1] - targets[0]
    if only[0] or only[1]:
        return Differing("operators", "", (_counted(only[0]), _counted(only[1])), title, graph)
    number = next((n for n, (a, b) in enumerate(zip(*canonical, strict=False)) if a != b), None)
    if number is None:
        return Differing("nodes", "", (str(len(one.nodes)), str(len(other.nodes))), title, graph)
    said = [_said(a.nodes[number]) for a in (one, other)]
    return Differing("node", str(one.nodes[number]["name"]), (said[0], said[1]), title, graph)


def _said(node: Mapping[str, Any]) -> str:
    shape = f"{node['dtype']}[{', '.join(node.get('shape') or ())}]" if node.get("dtype") else str(node.get("value") or "input")
    if node["op"] == "placeholder":
        return _code(shape)
    return _code(f"returns {node['args']}" if node["op"] == "output" else f"{shape} = {node['target']}{node['args']}")


# Passes ------------------------------------------------------------------------------------------------------------------


class _Change(NamedTuple):
    """A pass that changed a graph: its name and effect, and how often each pattern matched in it."""

    name: str
    effect: tuple[str, ...]
    patterns: Counter[str]


def _passes(pair: _Pair, section: str, last: str) -> Iterator[Differing]:
    """Yield the first pass of a round that changed the graph otherwise, if the round's last graph differs; else that graph."""
    one, other = pair.find(last)
    if one is None or other is None or _canonical(one.nodes) == _canonical(other.nodes):
        return
    changes = pair.each(lambda t, f: _changes(t, f, section, pair.graph))
    title = f"{ROUNDS[section]} passes"
    for a, b in zip_longest(*changes):
        if a == b or (a and b and a[:2] == b[:2]):
            continue
        has_other = a is None or (b is not None and a.name != b.name and a.name in [c.name for c in changes[1]])
        change, there = (b, a) if has_other else (a, b)
        same = a is not None and b is not None and a.name == b.name
        yield _pattern(pair, section, title, change, there if same else None, has_other) or _pass(
            pair, section, title, change, there if same else None, has_other
        )
    titles = {"forward": "forward graph", "backward": "backward graph", "post_grad": "post-grad graph"}
    partitioned = last in ("forward", "backward") and pair.graph != "inference"
    title = f"{titles.get(last, ROUNDS[section])}{', which the partitioner cut' if partitioned else ''}"
    yield _nodes(one, other, (_canonical(one.nodes), _canonical(other.nodes)), title, pair.graph)


def _changes(trace: TraceData, frame: str, section: str, graph: str) -> list[_Change]:
    """The passes of a round that changed the graph, in order."""
    graphs = {"joint", graph} if section == "joint" else {graph}
    found: list[_Change] = []
    matched: Counter[str] = Counter()
    steps = [a for stage in ("pattern_match", "fx_pass") for a in trace.find(stage, frame) if section_of(a) == section]
    for a in sorted(steps, key=lambda a: a.time):
        if section != "pre_grad" and a.graph not in graphs:
            continue
        if a.stage == "pattern_match":
            matched[typed(PatternMatch, a.data).pattern] += 1
            continue
        data = typed(FxPass, a.data)
        targets = dict(zip(data.names or (), data.targets or (), strict=True))
        made = tuple(sorted(targets.get(name, "") for name in data.made))
        found.append(_Change(data.name, (*made, f"-{len(data.erased)}"), matched))
        matched = Counter()
    return found


def _pattern(pair: _Pair, section: str, title: str, change: _Change, there: _Change | None, has_other: bool) -> Differing | None:
    """The pattern that matched in one trace more often than in the other, in the pass that differs."""
    others = there.patterns if there else Counter[str]()
    for name in (*change.patterns, *others):
        counts = (change.patterns[name], others[name])
        if counts[0] != counts[1]:
            here, absent = (f"matched {quantity(count, 'time')}" for count in counts)
            if there is None:
                absent = f"{absent} ({change.name} {_became(pair, section, change.name, 0 if has_other else 1)})"
            values = (absent, here) if has_other else (here, absent)
            return Differing("pattern", name, values, f"{title}, {change.name}", pair.graph)
    return None


def _pass(pair: _Pair, section: str, title: str, change: _Change, there: _Change | None, has_other: bool) -> Differing:
    here = _effect(change)
    absent = _effect(there) if there else _became(pair, section, change.name, 0 if has_other else 1)
    return Differing("FX pass", change.name, (absent, here) if has_other else (here, absent), title, pair.graph)


def _effect(change: _Change) -> str:
    made = Counter(change.effect[:-1])
    erased = f"erased {quantity(int(change.effect[-1][1:]), 'node')}"
    return f"made {_counted(made)} and {erased}" if made else erased


def _became(pair: _Pair, section: str, name: str, number: int) -> str:
    """Say what became of a pass in the trace where it changed nothing: a round without any change does not say what ran."""
    of = [a for a in pair.traces[number].find("fx_pass", pair.frames[number]) if section_of(a) == section]
    ran = [name for a in of for name, _ in (*(typed(FxPass, a.data).idle or ()), *(typed(FxPass, a.data).idle_after or ()))]
    if name in ran:
        return "ran and changed nothing"
    return "did not run" if ran else "changed nothing or did not run"


# Lowering, fusion, kernels -----------------------------------------------------------------------------------------------


def _lowering(pair: _Pair) -> Iterator[Differing]:
    """Yield the first node that was lowered to something else, a reduction that was split otherwise, or other loops."""
    rows: tuple[list[LoweringRow], list[LoweringRow]] = pair.each(lambda t, f: list(by_node(t, f, pair.graph).values()))
    pairs = list(zip(*rows, strict=False))
    for a, b in pairs:
        if a["kinds"] != b["kinds"]:
            odd = a if a["kind"] in ("fallback", "extern call", "template") else b
            values = [SAID.get(row["kind"], row["kind"]) for row in (a, b)]
            yield Differing(
                "lowering of", a["target"], (values[0], values[1]), "lowering", pair.graph, cut(odd["why"], 2 * WIDTH)
            )
    data = [typed(Lowering, a.data) if a else None for a in pair.find("lowering")]
    for a, b in zip(*(of.splits if of else () for of in data), strict=False):
        if a.parts != b.parts:
            values = [
                {"1": "in one part", "-1": "with the loops of its input"}.get(s.parts, f"in {s.parts} parts") for s in (a, b)
            ]
            asked = "; ".join(f"{question} = {answer}" for question, answer in dict.fromkeys((*a.asked, *b.asked)))
            yield Differing("reduction", a.node, (values[0], values[1]), "lowering", pair.graph, asked)
    nodes = [_loops(a.nodes) if a else [] for a in pair.find("ir_pre_fusion")]
    if nodes[0] != nodes[1]:
        for a, b in pairs:
            if a["function"] != b["function"]:
                yield Differing("lowering of", a["target"], (a["function"], b["function"]), "lowering", pair.graph)
        yield _scheduler_node(pair, nodes)


def _scheduler_node(pair: _Pair, nodes: Sequence[Sequence[_Loops]]) -> Differing:
    """What the scheduler's nodes differ in before fusion: the operations of the first that is another, or else its loops."""
    number = next((n for n, (one, other) in enumerate(zip(*nodes, strict=False)) if one != other), None)
    graph = pair.find("ir_pre_fusion")[0]
    if number is None or graph is None:
        return Differing("scheduler nodes", "", (str(len(nodes[0])), str(len(nodes[1]))), "lowering", pair.graph)
    a, b = (of[number] for of in nodes)
    only = [_counted(Counter(one.operations) - Counter(two.operations)) for one, two in ((a, b), (b, a))]
    values = only if a.operations != b.operations else [f"{one.kind} {one.sizes} {one.layouts}" for one in (a, b)]
    name = str(graph.nodes[number]["node"] or graph.nodes[number]["name"])
    return Differing("operations of", name, (_code(values[0]), _code(values[1])), "lowering", pair.graph)


class _Loops(NamedTuple):
    """A scheduler node: its kind, sizes and layouts, symbols numbered, and the operations in its loops."""

    kind: str
    sizes: str
    layouts: str
    operations: tuple[str, ...]


def _loops(nodes: Iterable[Mapping[str, Any]]) -> list[_Loops]:
    """The scheduler's nodes, without names."""
    symbols: dict[str, str] = {}

    def placed(value: Any) -> str:
        return SYMBOL.sub(lambda symbol: symbols.setdefault(symbol[0], f"symbol{len(symbols)}"), str(value))

    found = []
    for node in nodes:
        layouts = "; ".join(f"{x['dtype']} {placed((x['size'], x['stride']))}" for x in (node.get("layouts") or {}).values())
        blocks = (block for body in (node.get("bodies") or {}).values() for block in body.values())
        operations = tuple(NUMBERED.sub("", operation) for block in blocks for operation in block)
        found.append(_Loops(str(node["kind"]), placed(node["sizes"]), layouts, operations))
    return found


def _fusion(comparison: Comparison, pair: _Pair) -> Iterator[Differing]:
    """Yield the first pair of nodes that one trace fuses and the other does not."""
    groups = [[tuple(node["fused"]) for node in a.nodes] if a else [] for a in pair.find("ir_post_fusion")]
    if groups[0] == groups[1]:
        return
    graph = "forward" if pair.graph == "inference" else pair.graph
    for row in comparison.fusion:
        if row["graph"] == graph:
            apart = row["apart_in"] == comparison.names[0]
            values = ("apart", "in one kernel") if apart else ("in one kernel", "apart")
            yield Differing(
                "fusion of",
                " and ".join(cut(str(row[node]), WIDTH) for node in ("first", "second")),
                values,
                "fusion",
                pair.graph,
                str(row["why"]),
            )
            return
    yield Differing("fused groups", "", (str(len(groups[0])), str(len(groups[1]))), "fusion", pair.graph)


def _kernels(pair: _Pair) -> Iterator[Differing]:
    """Yield the first line of a kernel's own code that is another, or of a text below it."""
    kernels = pair.each(lambda t, f: kernels_of_graph(t, f, pair.graph))
    for a, b in zip(*kernels, strict=False):
        if changed := _first_line(kernel_body(a), kernel_body(b)):
            yield Differing("kernel", a.name, changed, "the kernel's source", pair.graph)
    if len(kernels[0]) != len(kernels[1]):
        yield Differing("kernels", "", (str(len(kernels[0])), str(len(kernels[1]))), "output code", pair.graph)
    for stage in BELOW:
        texts = [t.find(stage, f, pair.graph) for t, f in zip(pair.traces, pair.frames, strict=True)]
        for text, other in zip(*texts, strict=False):
            if changed := _first_line(text.text.replace(text.kernel, ""), other.text.replace(other.kernel, "")):
                yield Differing("kernel", text.kernel, changed, stage.upper(), pair.graph)


def _wrapper(pair: _Pair) -> Iterator[Differing]:
    """Yield the first line of the output code that is another outside its kernels, then what is written above a kernel's code."""
    kernels = pair.each(lambda t, f: kernels_of_graph(t, f, pair.graph))
    one, other = pair.find("output_code")
    if one and other:
        named = re.compile("|".join(re.escape(kernel.name) for of in kernels for kernel in of) or "$^")
        if changed := _first_line(*(named.sub("kernel", QUOTED.sub("", a.text)) for a in (one, other))):
            yield Differing("line", "", changed, "output code", pair.graph)
    for a, b in zip(*kernels, strict=False):
        entries = [dict.fromkeys(_told(kernel.source.replace(kernel.name, ""))) for kernel in (a, b)]
        only = [next((entry for entry in of if entry not in there), "") for of, there in (entries, entries[::-1])]
        if any(only):
            yield Differing("kernel", a.name, (_code(only[0]), _code(only[1])), "above the kernel's code", pair.graph)


def _first_line(one: str, other: str) -> tuple[str, str] | None:
    """Return the first line that two texts have otherwise; None where there is none."""
    for a, b in zip_longest(_told(one), _told(other), fillvalue=""):
        if a != b:
            return _code(a), _code(b)
    return None


def _told(text: str) -> Iterator[str]:
    """The lines of a text without what is of its file and its machine; values are numbered as they come."""
    values: dict[str, str] = {}
    for line in text_lines(text):
        if UNTOLD.match(line):
            continue
        for entry in ENTRY.split(PLACES.sub("", line).strip()):
            yield VALUE.sub(lambda value: values.setdefault(value[0], f"value{len(values)}"), entry)


def _code(text: str) -> str:
    return f"`{cut(' '.join(text.split()), WIDTH)}`" if text.strip() else "nothing"


__all__ = ["differing", "first_difference", "in_words"]
