"""Compare two or more traces, with buffers matched by their origin. Pure.

Names such as op3 and buf7 mean nothing across compiles, so a scheduler node is matched by the value that it stores. That value
is the last of its FX nodes, identified by its user line, its operator, and its number among equal ones. This matches traces of
two targets, modes or versions, or before and after an edit, as far as their graphs agree. Matched values are the same if they
are computed from the same operators, numbers and lines, back to the graph's inputs.

Only Inductor has a scheduler. Traces of several compilers are compared by the lines of the program: what each made of a line,
and which lines it fused into one kernel.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from explorer.analysis.questions.cache_misses import cache_misses
from explorer.analysis.questions.figures import figures as figures_of_code
from explorer.analysis.questions.fusion import Why, fusion_of
from explorer.analysis.questions.joined_sets import joined
from explorer.analysis.questions.kernel_bytes import bytes_moved
from explorer.analysis.questions.kernels import first_form, kernels_of
from explorer.analysis.questions.line_texts import LineTexts, texts_of
from explorer.analysis.questions.memory import memory_figures, memory_of
from explorer.analysis.questions.program_lines import program_lines
from explorer.analysis.questions.source_lines import FirstLine
from explorer.analysis.questions.tables import graph_breaks, table
from explorer.analysis.questions.user_lines import UserLine, compiled_kernels, compilers_of
from explorer.errors import InputError
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Table
from explorer.model.wording import quantity, readable_bytes
from explorer.process.garbage import full_collections_paused
from explorer.stages.fx_graph import VIEWS
from explorer.stages.inductor.output_code import LIBRARIES, calls_of, kernel_called, names_called

#: What is known of a trace by Inductor, in the order of `figures`; of another compiler some of it is.
OF_INDUCTOR = (
    "FX nodes",
    "scheduler nodes",
    "fused groups",
    "kernels",
    "kernel launches",
    "library calls",
    "peak memory (bytes)",
    "saved for backward (bytes)",
    "most registers of a kernel",
    "spilled bytes",
    "estimated seconds",
)
#: The columns of the tables beside those that are named as the traces are.
COLUMNS = (
    "figure",
    "ratio",
    "stage",
    "name",
    "graph",
    "line",
    "code",
    "operator",
    "number",
    "same",
    "what",
    "values",
    "lines",
    "why",
)
#: A comparison that is printed lists at most this many groups that are not the same, and counts the others.
MAX_LISTED = 4
#: Graphs that compute the same: an inference graph is matched with a forward graph.
SAME_GRAPH = {"inference": "forward"}
#: Operators whose numbers are sizes and places, lists of numbers, and the numbers and dtypes in a node's arguments.
SIZED = re.compile(r"\b(view|reshape|expand|slice|select|full|empty|iota|arange|split|new_|as_strided|pad|repeat|sym_)")
LISTS = re.compile(r"\[[^][]*\]")
LITERALS = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])|torch\.(?:\w*float\w*|\w*int\d+|bool|complex\d+)")


#: The operators that Inductor may split into two nodes, and why it does so on one GPU and not on another: `num_splits` of torch
#: 2.13's _inductor/ir.py counts multiprocessors.
REDUCTION = re.compile(r"\.(sum|mean|prod|amax|amin|max|min|any|all|var|var_mean|argmax|argmin|nll_loss\w*)\b")
SPLIT_BY = ": Inductor splits a reduction where the GPU's multiprocessors would be idle otherwise"


@dataclass(frozen=True)
class Key:
    """A value's identity in any trace: compile, graph, user code, operator, and number among equal ones.

    `part` counts the nodes that store something of one value, such as the two of a reduction that is split.
    """

    compile: int
    graph: str
    code: str
    operator: str
    number: int
    part: int = 0

    @property
    def whole(self) -> Key:
        """The key of the value itself, for all nodes that store something of it."""
        return replace(self, part=0)

    def __str__(self) -> str:
        several = f" #{self.number + 1}" if self.number else ""
        several += f" part {self.part + 1}" if self.part else ""
        return f"{self.operator}{several} of `{self.code}`" if self.code else f"{self.operator}{several}"


@dataclass(frozen=True)
class Op:
    """A scheduler node: its name in its trace, the value that it stores, and its fused node.

    Two values of the same key have the same `computed_from` if everything that they are computed from is the same.
    """

    name: str
    key: Key
    group: tuple[str, str, str]
    computed_from: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        """Its frame, graph and name: another graph has nodes of the same names."""
        return (*self.group[:2], self.name)


class KeptApart(NamedTuple):
    """Why one trace keeps two nodes apart that another fuses: the traces' names, and what the scheduler says in each.

    `shared_bytes` is what the fused nodes share, 0 where that is not known.
    """

    apart_in: str
    apart: str
    fused_in: str
    fused: str
    shared_bytes: int

    def __str__(self) -> str:
        return f"apart in {self.apart_in}: {self.apart} Fused in {self.fused_in}: {self.fused}"


class Split(NamedTuple):
    """Why one trace needs more kernels than another for the same values, and the nodes that make it so."""

    why: str = ""
    keys: tuple[Key, ...] = ()
    kept_apart: KeptApart | None = None


class _Apart(NamedTuple):
    """A row of `Comparison.fusion`, its two nodes where they are apart, and where they are fused.

    `nodes` are the number of the trace with `Op.place`, and the key; `fused` is the number of the trace that fuses them there.
    """

    row: dict[str, Plain]
    nodes: tuple[tuple[tuple[int, str, str, str], Key], ...]
    fused: tuple[int, Op, Op]


def compare(*traces: TraceData, names: Iterable[str] = ()) -> Comparison:
    """Compare two or more traces; without `names` they are labelled by target, mode or as "trace 1".

    InputError for fewer than two traces, if there are not as many names as traces, and for the name of another column.
    """
    given = tuple(names)
    wrong = next((t for t in traces if not hasattr(t, "artifacts")), None)
    if wrong is not None:
        raise InputError(f"compare takes traces, explorer.compare(t1, t2), not {type(wrong).__name__}")
    if len(traces) < 2:
        raise InputError(f"compare takes two or more traces, not {len(traces)}: explorer.compare(t1, t2)")
    if given and (len(given) != len(traces) or len(set(given)) != len(given)):
        raise InputError(f"{len(traces)} traces need as many different names, not {given!r}")
    if unfit := [name for name in given if not _can_name(name)]:
        raise InputError(
            f"{unfit[0]!r} cannot name a trace: a name is a text other than the columns of the tables, {', '.join(COLUMNS)}"
        )
    return Comparison(traces, given or _names(traces))


def _can_name(name: object) -> bool:
    """Whether the tables can have a column of that name for a trace."""
    return isinstance(name, str) and name.strip() != "" and name not in COLUMNS


def _names(traces: tuple[TraceData, ...]) -> tuple[str, ...]:
    """Name the traces by the first fact that differs for all of them, else by number."""
    for fact in ("target", "backend", "mode", "name", "torch", "dynamic", "train", "keep_apart", "fuse"):
        values = [t.meta.get(fact) for t in traces]
        names = tuple(value if isinstance(value, str) else f"{fact}={value}" for value in values)
        if len(set(names)) == len(names) and all(map(_can_name, names)):
            return names
    return tuple(f"trace {n}" for n in range(1, len(traces) + 1))


class Comparison:
    """A comparison: `figures`, `lines`, `nodes`, `groups` and `fusion`, each as Table with a column per trace."""

    def __init__(self, traces: tuple[TraceData, ...], names: tuple[str, ...]) -> None:
        self.traces, self.names = traces, names
        with full_collections_paused():
            self._ops = [tuple(ops(trace)) for trace in traces]

    @property
    def cache_misses(self) -> Table:
        """One row per graph that missed a cache in the second trace: what its key has otherwise than the first trace's keys.

        `differs` says how its key differs from the `nearest` key in the first trace, the recording of the run that filled the
        cache; () if that run asked for the same key, or if its keys have no parts, as in older files. Both traces may be loaded
        from files. InputError for more than two traces.
        """
        if len(self.traces) != 2:
            raise InputError("cache misses are told between two traces, explorer.compare(earlier, t)")
        return cache_misses(self.traces[1], self.traces[0])

    @property
    def scheduled(self) -> list[tuple[Op, ...]]:
        """The scheduler nodes of each trace; none of a trace by another compiler than Inductor."""
        return self._ops

    @property
    def figures(self) -> Table:
        """One row per figure: kernels, launches, library calls, memory, compile seconds …; `ratio` is last to first."""
        with full_collections_paused():  # what is read of large files stays alive: each collection would walk all of it
            columns = [figures(trace) for trace in self.traces]
        return Table(
            {"figure": name, **dict(zip(self.names, values, strict=True)), "ratio": _ratio(values)}
            for name in columns[0]
            if any(values := [column[name] for column in columns])
        )

    @property
    def lines(self) -> Table:
        """One row per line of the program and graph: the kernels, dispatches and library calls that each compiler made of it.

        A kernel that computes other lines too, as several that were fused, is in the row of each: see `kernels`. () stands where
        no kernel of that compiler is known to compute the line. The number and the code come from the first trace that has the
        line.
        """
        return Table(
            {
                "graph": line.graph,
                "line": line.first.line.number,
                "code": line.first.line.code,
                **{n: tuple(kernel.name for kernel in of) for n, of in zip(self.names, line.kernels, strict=True)},
            }
            for line in program_lines(self.traces)
        )

    @property
    def kernels(self) -> Table:
        """One row per kernel, dispatch or library call of each trace: the lines of the program that it computes."""
        return Table(
            {
                "trace": name,
                "graph": kernel.graph,
                "kernel": kernel.name,
                "lines": tuple(line.number for line in kernel.user_lines),
                "code": tuple(line.code for line in kernel.user_lines),
            }
            for name, trace in zip(self.names, self.traces, strict=True)
            for kernel in compiled_kernels(trace)
        )

    def line(self, which: int | str) -> LineTexts:
        """Show what each compiler made of one line, given by its number in `lines` or a part of its code: see `LineTexts`.

        InputError, with the lines that there are, for one that no kernel computes, and for one of several.
        """
        forms: dict[FirstLine, list[set[UserLine]]] = {}
        for line in program_lines(self.traces):
            for of_trace, lines in zip(forms.setdefault(line.first, [set() for _ in self.traces]), line.lines, strict=True):
                of_trace.update(lines)
        chosen = sorted(first for first, lines in forms.items() if _is_asked_for(which, first.line, *lines))
        if len(chosen) != 1:
            listed = "; ".join(f"{line.number}: {line.code}" for line, _ in chosen or sorted(forms))
            raise InputError(f"{'several lines fit' if chosen else 'no kernel computes the line'} {which!r}: {listed}")
        return LineTexts(
            chosen[0].line,
            {
                name: tuple(text for line in sorted(lines) for text in texts_of(trace, line))
                for name, trace, lines in zip(self.names, self.traces, forms[chosen[0]], strict=True)
            },
        )

    @property
    def nodes(self) -> Table:
        """One row per value that a trace stores in a buffer, with its scheduler node in each trace.

        A trace that does not store it has "": there another kernel or other operators compute it. `same` is False if the
        traces that store it compute it from different values.
        """
        by_trace = [{op.key: op for op in ops} for ops in self._ops]
        keys = dict.fromkeys(key for stored in by_trace for key in stored)
        return Table(
            {
                **_facts(key),
                **{n: stored[key].name if key in stored else "" for n, stored in zip(self.names, by_trace, strict=True)},
                "same": len({stored[key].computed_from for stored in by_trace if key in stored}) == 1,
            }
            for key in keys
        )

    @property
    def groups(self) -> Table:
        """One row per set of fused nodes that share values across the traces, with what differs.

        `what` is "same" if each trace has one group of the same values. It is "values differ" if a value is in one trace
        only or is computed from different values, "split" if a trace needs more groups than another, which `why` explains, and
        "only in …" if the other traces store none of its values.
        """
        return Table(self._group_row(component) for component in self._sharing())

    @property
    def fusion(self) -> Table:
        """One row per pair of values that one trace fuses and another does not, with the recorded reason."""
        return Table(apart.row for apart in self._apart)

    @cached_property
    def _apart(self) -> tuple[_Apart, ...]:
        pairs = combinations(range(len(self.traces)), 2)
        return tuple(apart for one, other in pairs for apart in self._differences(one, other))

    def _sharing(self) -> list[list[set[tuple[str, str, str]]]]:
        """Return the groups of each trace that share values, directly or through other groups."""
        by_key: dict[Key, list[tuple[int, tuple[str, str, str]]]] = {}
        for number, ops in enumerate(self._ops):
            for op in ops:
                by_key.setdefault(op.key.whole, []).append((number, op.group))
        components = []
        for places in joined(by_key.values()):
            component: list[set[tuple[str, str, str]]] = [set() for _ in self.traces]
            for number, group in places:
                component[number].add(group)
            components.append(component)
        return components

    @cached_property
    def _by_group(self) -> list[dict[tuple[str, str, str], list[Op]]]:
        """The nodes of each trace by the group that computes them."""
        by_group: list[dict[tuple[str, str, str], list[Op]]] = [{} for _ in self._ops]
        for groups, ops in zip(by_group, self._ops, strict=True):
            for op in ops:
                groups.setdefault(op.group, []).append(op)
        return by_group

    @cached_property
    def _order(self) -> dict[Key, int]:
        """Which value comes before which: as in the first trace that has it."""
        return {key: number for number, key in enumerate(dict.fromkeys(op.key for ops in self._ops for op in ops))}

    def _members(self, component: list[set[tuple[str, str, str]]]) -> list[list[Op]]:
        """The nodes of each trace's groups."""
        return [[op for g in groups for op in by[g]] for by, groups in zip(self._by_group, component, strict=True)]

    def _group_row(self, component: list[set[tuple[str, str, str]]]) -> dict[str, Plain]:
        ops_of = self._members(component)
        every = sorted({op.key for ops in ops_of for op in ops}, key=self._order.__getitem__)
        columns = {name: tuple(sorted(g[2] for g in groups)) for name, groups in zip(self.names, component, strict=True)}
        lines = tuple(dict.fromkeys(key.code for key in every if key.code))
        what, split = self._judged(component, ops_of)
        return {"graph": every[0].graph, "what": what, "values": len(every), **columns, "lines": lines, "why": split.why}

    def _judged(self, component: list[set[tuple[str, str, str]]], ops_of: list[list[Op]]) -> tuple[str, Split]:
        """Name the difference of a component; where it is split, say why."""
        values = [{(op.key, op.computed_from) for op in ops} for ops in ops_of]
        keys = [{frozenset(op.key for op in by[g]) for g in groups} for by, groups in zip(self._by_group, component, strict=True)]
        what = self._what(keys, values)
        return what, self._why_split(ops_of) if what == "split" else Split()

    def _why_split(self, ops_of: list[list[Op]]) -> Split:
        """Say why one trace needs more groups: a value takes more nodes there, or two nodes are kept apart."""
        counted = [Counter(op.key.whole for op in ops) for ops in ops_of]
        for key in dict.fromkeys(key for of_trace in counted for key in of_trace):
            numbers = [of_trace[key] for of_trace in counted]
            if len(set(numbers)) > 1:
                places = (f"{quantity(n, 'node')} in {name}" for n, name in zip(numbers, self.names, strict=True))
                why = f"{key} takes {', '.join(places)}{SPLIT_BY if REDUCTION.search(key.operator) else ''}"
                return Split(why, tuple(op.key for ops in ops_of for op in ops if op.key.whole == key))
        # graphs and traces have nodes of the same names
        members = {(trace, *op.place) for trace, ops in enumerate(ops_of) for op in ops}
        for apart in self._apart:
            if apart.row["why"] and members.issuperset(place for place, _ in apart.nodes):
                kept_apart = self._kept_apart(apart)
                return Split(str(kept_apart), tuple(key for _, key in apart.nodes), kept_apart)
        return Split()

    def _kept_apart(self, apart: _Apart) -> KeptApart:
        """Say of two nodes why one trace keeps them apart, and what another trace gains by fusing them."""
        trace, first, second = apart.fused
        answer = _answer(self.traces[trace], first, second)
        fused = [row for row in answer.verdicts if row["verdict"] == "fused"] if answer else []
        return KeptApart(
            apart_in=str(apart.row["apart_in"]),
            apart=str(apart.row["why"]),
            fused_in=self.names[trace],
            fused=answer.sentence if answer else "no verdict of the scheduler is recorded on this pair.",
            shared_bytes=(fused[0]["shared_bytes"] or 0) if fused else 0,
        )

    def _what(self, groups: list[set[frozenset[Key]]], values: list[set[tuple[Key, str]]]) -> str:
        """Name a difference; `groups` has for each trace the values of each of its groups, `values` with their histories."""
        present = [name for name, of_trace in zip(self.names, groups, strict=True) if of_trace]
        if len(present) < len(self.names):
            return f"only in {', '.join(present)}"
        if any(of_trace != groups[0] for of_trace in groups) and max(map(len, groups)) > 1:
            return "split"
        return "same" if all(stored == values[0] for stored in values) else "values differ"

    def _differences(self, one: int, other: int) -> Iterator[_Apart]:
        """Yield neighbours in a group of one trace that are apart in the other, in both directions."""
        for fused, apart in ((one, other), (other, one)):
            there = {op.key: op for op in self._ops[apart]}
            groups: dict[tuple[str, str, str], list[Op]] = {}
            for op in self._ops[fused]:
                if op.key in there:
                    groups.setdefault(op.group, []).append(op)
            for ops in groups.values():
                for a, b in pairwise(ops):
                    first, second = there[a.key], there[b.key]
                    if first.group != second.group:
                        answer = _answer(self.traces[apart], first, second)
                        row: dict[str, Plain] = {
                            "graph": a.key.graph,
                            "first": str(a.key),
                            "second": str(b.key),
                            "fused_in": self.names[fused],
                            "apart_in": self.names[apart],
                            "nodes": (first.name, second.name),
                            "why": answer.sentence if answer else "",
                        }
                        nodes = tuple(((apart, *op.place), op.key) for op in (first, second))
                        yield _Apart(row, nodes, (fused, a, b))

    def __repr__(self) -> str:
        below = str(self.lines) if self._several_compilers() else "\n".join(self._groups_in_words())
        return f"<Comparison of {', '.join(self.names)}>\n{self._table()}\n{below}"

    def _groups_in_words(self) -> Iterator[str]:
        """Count the groups by what they are, and yield a line for the first that are not the same in all traces."""
        every = self.groups
        counted = Counter(row["what"] for row in every)
        yield f"fused groups: {', '.join(f'{n} {what}' for what, n in counted.items()) or 'none'}"
        rows = [row for row in every if row["what"] != "same"]
        for row in rows[:MAX_LISTED]:
            groups = " | ".join(", ".join(row[name]) or "none" for name in self.names)
            yield f"  {row['what']}: {groups}" + (f"; {row['why']}" if row["why"] else "")
        if len(rows) > MAX_LISTED:
            yield f"  and {len(rows) - MAX_LISTED} more in .groups"

    def _several_compilers(self) -> bool:
        """Whether not all traces are Inductor's: then the lines of the program say more than the scheduler's groups."""
        return not all(map(_by_inductor, self.traces)) and any(map(compiled_kernels, self.traces))

    def _table(self) -> str:
        """Return the figures as fixed-width text."""
        lines = [("", *self.names)]
        for row in self.figures:
            lines.append((row["figure"], *(shown(row["figure"], row[name]) for name in self.names)))
        widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
        return "\n".join("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines)

    def _repr_html_(self) -> str:
        rows = self.figures
        table = Table({"figure": r["figure"], **{n: shown(r["figure"], r[n]) for n in self.names}} for r in rows)
        figures = table._repr_html_()
        joined = Table({**row, **{name: ", ".join(row[name]) for name in self.names}} for row in self.lines)
        return f"{figures}{joined._repr_html_()}" if self._several_compilers() else figures


def _is_asked_for(which: int | str, first: UserLine, *forms: Iterable[UserLine]) -> bool:
    """Whether a line is the one of this number, or has this in its code in one of the traces."""
    if isinstance(which, int):
        return first.number == which
    return any(which in line.code for lines in forms for line in lines)


def shown(figure: str, value: Any) -> str:
    """Format a figure for people; "" if it is unknown."""
    if value is None:
        return ""
    if figure.endswith("(bytes)"):
        return readable_bytes(value)
    return f"{value:.3g}" if figure.startswith("estimated") else str(value)


def _facts(key: Key) -> dict[str, Plain]:
    return {"graph": key.graph, "code": key.code, "operator": key.operator, "number": key.number}


def _ratio(values: list[Any]) -> float | None:
    first, last = values[0], values[-1]
    return last / first if isinstance(first, (int, float)) and isinstance(last, (int, float)) and first else None


# Reading a trace -------------------------------------------------------------------------------------------------------


def reasons_apart(comparison: Comparison) -> dict[Key, Split]:
    """Map the nodes that make one trace need more kernels than another, by their keys, to the reason."""
    found: dict[Key, Split] = {}
    for component in comparison._sharing():
        _, split = comparison._judged(component, comparison._members(component))
        found |= dict.fromkeys(split.keys, split)
    return found


def ops(trace: TraceData) -> Iterator[Op]:
    """Yield the scheduler nodes of every graph of a trace."""
    compiles = {frame: n for n, frame in enumerate(dict.fromkeys(a.frame for a in trace.find("ir_pre_fusion")))}
    for ir in trace.find("ir_pre_fusion"):
        groups = _groups(trace, ir)
        keys = _keys(trace, ir, compiles[ir.frame])
        histories = _histories(trace, ir)
        last = dict(_last_computed(ir, keys))
        parts: Counter[Key] = Counter()
        key_of: dict[str, Key] = {}
        # calls first: their values are theirs, and loops have the copy that a call reads or the bias that is added to it
        for node in sorted(ir.nodes, key=lambda node: "Extern" not in node["kind"]):
            if name := last.get(str(node["name"])):
                key = keys[name][1]
                key_of[str(node["name"])], parts[key] = replace(key, part=parts[key]), parts[key] + 1
        for node in ir.nodes:
            own = str(node["name"])
            if own in key_of:
                yield Op(own, key_of[own], (ir.frame, ir.graph, groups.get(own, own)), histories.get(last[own], ""))


def _last_computed(ir: Artifact, keys: Mapping[str, tuple[int, Key]]) -> Iterator[tuple[str, str]]:
    """Pair each scheduler node with the last FX node that it computes, views and what others call left aside if it can be."""

    def last(names: Iterable[str]) -> str:
        return max(names, key=lambda name: keys[name][0], default="")

    computed = [(node, [name for name in node["origins"] if name in keys]) for node in ir.nodes]
    called = {last(names) for node, names in computed if "Extern" in node["kind"]}
    for node, names in computed:
        own = names
        if "Extern" not in node["kind"]:
            whole = [name for name in names if not VIEWS.match(keys[name][1].operator)]
            own = [name for name in whole if name not in called] or whole or names
        if own:
            yield str(node["name"]), last(own)


def _groups(trace: TraceData, ir: Artifact) -> dict[str, str]:
    """Map each scheduler node to its fused node."""
    after = trace.find("ir_post_fusion", ir.frame, ir.graph)
    return {part: str(node["name"]) for a in after for node in a.nodes for part in (node["fused"] or (node["name"],))}


def _keys(trace: TraceData, ir: Artifact, compile: int) -> dict[str, tuple[int, Key]]:
    """Map each FX node of the graph to its position and its key."""
    seen: Counter[tuple[str, str]] = Counter()
    keys: dict[str, tuple[int, Key]] = {}
    graph = SAME_GRAPH.get(ir.graph, ir.graph)
    for a in trace.find("post_grad", ir.frame, ir.graph):
        codes: dict[str, str] = {}
        for place, node in enumerate(a.nodes):
            # a node made by a pass may have no user line, so it takes the line of its input
            near = next((codes[name] for name in reversed(node.get("inputs", ())) if codes.get(name)), "")
            codes[node["name"]] = str(node.get("code") or near)
            what = (codes[node["name"]], str(node.get("target", "")))
            if node.get("op") not in ("placeholder", "output"):
                keys[str(node["name"])] = (place, Key(compile, graph, *what, seen[what]))
                seen[what] += 1
    return keys


def _histories(trace: TraceData, ir: Artifact) -> dict[str, str]:
    """Map each FX node of the graph to a digest of all that it is computed from.

    Inputs are identified by their position among the tensors. A tensor that forward saves for backward is identified by its
    digest in the forward graph.
    """
    saved = {}
    for a in trace.find("forward", ir.frame) if ir.graph == "backward" else ():
        saved.update(_digests(a.nodes, {}))
    digests: dict[str, str] = {}
    for a in trace.find("post_grad", ir.frame, ir.graph):
        digests.update(_digests(a.nodes, saved))
    return digests


def _digests(nodes: Iterable[Mapping[str, Plain]], saved: Mapping[str, str]) -> dict[str, str]:
    digests: dict[str, str] = {}
    tensors = 0
    for node in nodes:
        name = str(node["name"])
        if node.get("op") == "placeholder":
            tensors += bool(node.get("shape"))
            stated = name if name.startswith("tangents") else f"input {tensors}" if node.get("shape") else "size"
            digests[name] = saved.get(name, stated)
        else:
            inputs = [digests.get(str(other), "") for other in node.get("inputs", ())]
            what = (_family(str(node.get("target", ""))), _numbers(node), *inputs)
            digests[name] = hashlib.sha256("\0".join(what).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return digests


def _family(target: str) -> str:
    """Return an operator's name; one name for all attention, because the operator names only the library's kernel."""
    backward = "backward" if "backward" in target else ""
    return f"attention {backward}" if "scaled_dot_product" in target else target


def _numbers(node: Mapping[str, Plain]) -> str:
    """Return the numbers and dtypes in a node's arguments, without sizes, because dynamic sizes are symbols."""
    if SIZED.search(str(node.get("target", ""))):
        return ""
    texts = (LISTS.sub("", str(node.get(key, ""))) for key in ("args", "kwargs"))
    return " ".join(literal for text in texts for literal in LITERALS.findall(text))


def _answer(trace: TraceData, first: Op, second: Op) -> Why | None:
    """Say why two nodes of a trace are one kernel or not; None if the trace recorded no verdicts."""
    graphs = [g for g in fusion_of(trace).graphs if (g.artifact.frame, g.artifact.graph) == first.group[:2] == second.group[:2]]
    return graphs[0].why(first.name, second.name) if len(graphs) == 1 else None


def figures(trace: TraceData) -> dict[str, Plain]:
    """Return the figures of one trace for `Comparison.figures`; bytes as integers, times in seconds.

    An unknown figure is None. Of another compiler than Inductor the kernels and the FX nodes that it was handed are known. Memory
    is unknown if only the run knows the size of a buffer. Registers and spills are unknown for kernels without machine code: the
    CPU's, and Intel's if triton lacks that backend. Estimated seconds (see `figures.figures`) are unknown for a device that
    explorer has no figures of. Bytes between kernels come from `kernel_bytes`.
    """
    return {
        "frames compiled": len({a.frame for a in trace.find("dynamo")}),
        "graph breaks": len(graph_breaks(trace)),
        **(_of_inductor(trace) if _by_inductor(trace) else _of_another(trace)),
        "between kernels (bytes)": bytes_moved(trace),
        "compile seconds": round(sum(row["seconds"] or 0.0 for row in table(trace, "phase") if row["depth"] == 0), 3),
    }


def _by_inductor(trace: TraceData) -> bool:
    """Whether Inductor compiled a trace, or would have had there been anything to compile."""
    return (compilers_of(trace) or (trace.meta.get("backend", "inductor"),)) == ("inductor",)


def _of_inductor(trace: TraceData) -> dict[str, Plain]:
    """Return what Inductor's scheduler, its wrapper and its kernels say."""
    memory = memory_figures(memory_of(trace))  # before the launches: it parses the output code for both
    launched, called = launches(trace)
    forms = (first_form(trace, kernel.artifact) for kernel in kernels_of(trace))
    resources = [form.metadata for form in forms if form is not None]
    return {
        "FX nodes": sum(len(a.nodes) for a in trace.find("post_grad")),
        "scheduler nodes": sum(len(a.nodes) for a in trace.find("ir_pre_fusion")),
        "fused groups": sum(len(a.nodes) for a in trace.find("ir_post_fusion")),
        "kernels": len(kernels_of(trace)),
        "kernel launches": launched,
        "library calls": called,
        "peak memory (bytes)": memory.peak,
        "saved for backward (bytes)": memory.saved,
        "most registers of a kernel": max(_known_values(resources, "registers"), default=None),
        "spilled bytes": sum(spilled) if (spilled := _known_values(resources, "spill_stores", "spill_loads")) else None,
        "estimated seconds": figures_of_code(trace)["estimated_seconds"],
    }


def _of_another(trace: TraceData) -> dict[str, Plain]:
    """Return the figures of a compiler without Inductor's scheduler: None for every figure that only the scheduler gives."""
    unknown: dict[str, Plain] = dict.fromkeys(OF_INDUCTOR)
    handed = [a for stage in ("forward", "backward") for a in trace.find(stage)]
    return {**unknown, "FX nodes": sum(len(a.nodes) for a in handed) or None, "kernels": len(compiled_kernels(trace)) or None}


def _known_values(resources: Iterable[Mapping[str, Any]], *names: str) -> list[int]:
    """Return the known values of some kernel resources; none for kernels without machine code, as for the CPU."""
    return [row[name] for row in resources for name in names if row.get(name) is not None]


def launches(trace: TraceData) -> tuple[int, int]:
    """Count the kernel launches and the library calls when every graph is called once."""
    kernels = {(k.artifact.frame, k.artifact.graph, k.name) for k in kernels_of(trace)}
    launched = called = 0
    for artifact in trace.find("output_code"):
        in_cpp = artifact.language == "cpp"
        for name in (name for _, name in calls_of(artifact)) if in_cpp else names_called(artifact):
            launched += (artifact.frame, artifact.graph, kernel_called(name)) in kernels
            called += name.startswith(LIBRARIES)
    return launched, called


__all__ = ["Comparison", "KeptApart", "Split", "compare", "figures", "launches", "ops", "reasons_apart", "shown"]
