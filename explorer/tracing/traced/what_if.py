"""What if: compile the same call with something changed, and compare.

t.what_if(keep_apart=("op3", "op7"))       t.what_if(without_pattern="_sfdp_pattern_1")
t.what_if(options={"max_fusion_size": 2})  t.what_if(without_pass="remove_noop_ops")
t.what_if(settings={"torch.backends.cuda.matmul.allow_tf32": True})
t.what_if(settings={"torch.nn.parallel.DistributedDataParallel.bucket_cap_mb": 4})
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from explorer.analysis.questions.figures import estimated, figures, shown
from explorer.analysis.questions.fusion import Graph, check_known
from explorer.capture.compilers.settings import changed_settings
from explorer.capture.compilers.wrapping import WRAPPING, wrapped_otherwise
from explorer.errors import ExplorerError, InputError, unknown_name
from explorer.lab.live.protocol import Changes, Live, needs_live, with_options
from explorer.lab.live.timing import Seconds
from explorer.model.guessed import NamesGuessed, guess
from explorer.model.values import EMPTY, Fuse, KeepApart, NodePairs, Plain, Table

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace

#: A pair has the names of two nodes, a graph and a compile id.
MAX_NAMES = 4
#: How often each compiled function is timed.
REPEATS = 20
SAME_CODE = "the change alters none of the generated code"
LIBRARY_CALLS_ALONE = "the change is in how the GPU runs library calls, which the CPU computes here as before"


@dataclass(frozen=True)
class WhatIf(NamesGuessed):
    """A second trace and its differences: `table` has one row per figure, with before, after, the change and a note.

    `equal` is True where both results were computed and are the same by the judge of `Trace.check`, False where they differ,
    and None where that could not be checked. `note` says which, and `check` has one row per output. For a GPU you don't have,
    the new kernels are interpreted and compared with eager.
    `same_code` is True if both generated the same code. Then both are timed only if a setting or an option was changed, which
    may act when the code runs. The row of measured seconds has their `spread`, the distance from the first to the third
    quartile of the calls: a smaller change may be chance.
    """

    before: Trace = field(repr=False)
    after: Trace = field(repr=False)
    table: Table
    equal: bool | None
    note: str
    check: Table = field(default_factory=Table, repr=False)
    same_code: bool = False

    def _guess(self, name: str) -> str:
        right = {"trace": "what.after", "rows": "what.table", "figures": "what.table"}.get(name, "")
        return guess("WhatIf", name, right or (f"what.after.{name}" if hasattr(type(self.after), name) else ""))

    def figure(self, name: str) -> Mapping[str, Plain]:
        """One figure by name: before, after, change; InputError for an unknown name."""
        for row in self.table:
            if row["figure"] == name:
                return row
        raise unknown_name("figure", name, [str(row["figure"]) for row in self.table])

    def __repr__(self) -> str:
        failures = "".join(f"\nfailure: {f}" for f in self.after.failures if f not in self.before.failures)
        code = f"code: {SAME_CODE}\n" if self.same_code else ""
        return f"{as_text(self.table)}\n{code}result: {self.note}{failures}"

    def _repr_html_(self) -> str:
        code = f"<p>code: {html.escape(SAME_CODE)}</p>" if self.same_code else ""
        return f"{Table(map(_in_words, self.table))._repr_html_()}{code}<p>result: {html.escape(self.note)}</p>"


def what_if(
    trace: Trace,
    *,
    keep_apart: NodePairs | None,
    fuse: NodePairs | None,
    without_pass: str | Sequence[str],
    without_pattern: str | Sequence[str],
    options: Mapping[str, Plain],
    settings: Mapping[str, Plain] = EMPTY,
    limit: float | None = None,
) -> WhatIf:
    """Trace the same call with something changed, and compare: see `Trace.what_if`."""
    trace_again = needs_live(trace, "what if").trace_again
    # a pass or pattern may come up only once something else is left out, so the compile itself looks for the names
    passes, patterns = name_list("without_pass", without_pass), name_list("without_pattern", without_pattern)
    if not isinstance(options, Mapping):
        raise InputError(f"options is a mapping of Inductor's options, options={{'max_fusion_size': 2}}, not {options!r}")
    changes: Changes = {}
    if keep_apart is not None:
        changes["keep_apart"] = [_with_node_names(trace, pair) for pair in node_pairs("keep_apart", keep_apart)]
    if fuse is not None:
        changes["fuse"] = [_with_node_names(trace, pair) for pair in node_pairs("fuse", fuse)]
    if passes:
        changes["without_pass"] = (*trace.meta.get("without_pass", ()), *passes)
    if patterns:
        changes["without_pattern"] = (*trace.meta.get("without_pattern", ()), *patterns)
    if options:
        changes |= with_options(trace, options)
    if not isinstance(settings, Mapping):
        raise InputError(f"settings is a mapping of torch's settings by their full names to values, not {settings!r}")
    if not changes and not settings:
        raise InputError("what_if needs a change: keep_apart=, fuse=, without_pass=, without_pattern=, options= or settings=")
    if not settings:
        _check_pairs_change_something(trace, changes)
    wrapping = {name: settings[name] for name in settings if name in WRAPPING}
    others = {name: settings[name] for name in settings if name not in WRAPPING}
    with changed_settings(others), wrapped_otherwise(_hooked_modules(trace), wrapping):
        after = trace_again(**changes)
    return compared(trace, after, limit, others)


def _hooked_modules(trace: Trace) -> Sequence[Any]:
    """The DDP and FSDP2 modules that the traced function calls."""
    from explorer.lab.live.function import LiveFunction

    live = needs_live(trace, "what if")
    return live.call.hooked if isinstance(live, LiveFunction) else ()


def name_list(argument: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """Make a tuple of one name or several; InputError for anything else."""
    several = (given,) if isinstance(given, str) else given
    if not isinstance(several, Iterable) or not all(isinstance(name, str) for name in several):
        raise InputError(
            f"{argument} takes a name or several, as t.inductor.matches and t.inductor.passes list them, not {given!r}"
        )
    return tuple(several)


def fusion_requests(keep_apart: NodePairs, fuse: NodePairs) -> tuple[KeepApart | Fuse, ...]:
    """Return the requests of two arguments of `trace`; InputError for what is no pair of names."""
    apart = [KeepApart(*pair) for pair in node_pairs("keep_apart", keep_apart)]
    return (*apart, *(Fuse(*pair) for pair in node_pairs("fuse", fuse)))


def node_pairs(argument: str, given: NodePairs) -> list[tuple[str, ...]]:
    """Make a list of one pair of names or several; InputError for anything else."""
    if _is_pair(given):
        return [tuple(map(str, given))]
    if isinstance(given, Sequence) and not isinstance(given, str) and all(map(_is_pair, given)):
        return [tuple(pair) for pair in given]
    raise InputError(
        f'{argument} takes the names of two nodes, {argument}=("op3", "op7"), or a list of such pairs, not {given!r}'
    )


def _is_pair(given: object) -> bool:
    if not isinstance(given, Sequence) or isinstance(given, str):
        return False
    return 2 <= len(given) <= MAX_NAMES and all(isinstance(name, str) for name in given)


def _with_node_names(trace: Trace, pair: tuple[str, ...]) -> tuple[str, ...]:
    """Replace names of kernels and operators in a pair by scheduler nodes; InputError for a name of nothing.

    Scheduler nodes are counted anew in each graph, so the pair is then of the first graph that has both names.
    """
    request = KeepApart(*pair)
    graphs = _graphs_meant(trace, request)
    for name in (request.first, request.second):
        check_known(name, graphs)
    both = next((g for g in graphs if g.find(request.first) and g.find(request.second)), None)
    first, second = (_node_name([both] if both else graphs, name) for name in (request.first, request.second))
    if both and (first, second) != (request.first, request.second):
        return first, second, both.artifact.graph, both.artifact.frame
    return first, second, request.graph, request.frame


def _graphs_meant(trace: Trace, request: KeepApart) -> list[Graph]:
    """Return the graphs that a pair may be about."""
    return [g for g in trace.fusion.graphs if request.graph in ("", g.artifact.graph) and request.frame in ("", g.artifact.frame)]


def _check_pairs_change_something(trace: Trace, changes: Changes) -> None:
    """Check that some pair is not already as asked, where pairs are the only change; InputError, with why, if all are.

    A trace that was made with pairs of its own loses them, so it changes in any case.
    """
    asked = {"keep_apart": changes.get("keep_apart", ()), "fuse": changes.get("fuse", ())}
    pairs = [(name, pair) for name, given in asked.items() for pair in node_pairs(name, given)]
    if not pairs or set(changes) - {"keep_apart", "fuse"} or trace.meta.get("keep_apart") or trace.meta.get("fuse"):
        return
    reasons = []
    for name, pair in pairs:
        request = KeepApart(*pair)
        first, second = request.first, request.second
        answers = [g.why(first, second) for g in _graphs_meant(trace, request) if g.find(first) and g.find(second)]
        if not answers or any(why.fused is (name == "keep_apart") for why in answers):
            return
        reasons.append(answers[0].sentence)
    already = "not fused" if pairs[0][0] == "keep_apart" else "one kernel"
    raise InputError(f"{pairs[0][0]}= would change nothing, they are {already} already: {' '.join(reasons)}")


def _node_name(graphs: Sequence[Graph], name: str) -> str:
    """The first scheduler node of a kernel or an operator; any other name as it is."""
    kernels = {kernel for g in graphs for kernel, _ in g.verdicts.data["kernels"]}
    if name in kernels or not any(name in g.numbers_by_name for g in graphs):
        for graph in graphs:
            if numbers := graph.find(name):
                return graph.verdicts.names[numbers[0]]
    return name


def as_text(rows: Table) -> str:
    """Write figures as fixed-width text: whole numbers as they are, seconds with three digits, and each row's note last."""
    cells = [("", "before", "after", "change", ""), *(tuple(_in_words(row).values()) for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(4)]
    lines = (
        f"{name.ljust(widths[0])}  {'  '.join(map(str.rjust, numbers, widths[1:]))}  {note}" for name, *numbers, note in cells
    )
    return "\n".join(map(str.rstrip, lines))


def _in_words(row: Mapping[str, Plain]) -> dict[str, str]:
    """Format the figures of a row, and leave out its spread: few have one, and the note says it."""
    numbers = {column: shown(row[column]) for column in ("before", "after", "change")}
    return {"figure": str(row["figure"]), **numbers, "note": str(row["note"])}


# The difference --------------------------------------------------------------------------------------------------------


def compared(before: Trace, after: Trace, limit: float | None = None, settings: Mapping[str, Plain] = EMPTY) -> WhatIf:
    """Compare the figures of two traces of one call, and whether they compute the same; the second one's with `settings`."""
    one, other = figures(before), figures(after)
    same_code = _code(before) == _code(after) != []
    with changed_settings(settings):
        equal, note, check = _checked(before, after, limit, same_code)
    notes = {"estimated_seconds": estimated(after), "launches": "kernels and library calls"}
    rows = [_row(name, one[name], other[name], notes.get(name, "")) for name in one]
    rows += [*_of_the_call(before, after), *_of_hooks(before, after)]
    live = needs_live(after, "comparing")
    if equal is not None and live.absent is None and (not same_code or settings or _run_options(before) != _run_options(after)):
        first, second = _timed(needs_live(before, "timing"), live, settings)
        how = f"medians of {REPEATS} calls here, {'one after the other' if settings else 'in turn'}"
        spreads = f"spread {shown(first.spread)} before and {shown(second.spread)} after"
        row = _row("measured_seconds", first.clock, second.clock, f"{how}; {spreads}", (first.spread + second.spread) / 2)
        rows.append({**row, "note": f"{row['note']}, so this may be chance"} if may_be_chance(row) else row)
    return WhatIf(before, after, Table(rows), equal, note, check, same_code)


def _of_the_call(before: Trace, after: Trace) -> list[dict[str, Plain]]:
    """The rows of what is around the kernels: graph breaks, and the seconds of a call with its launches, as in the advice."""
    from explorer.analysis.advice.call_cost import LAUNCH, TracedCall

    one, other = (None if call.is_cpu or call.unread else call.seconds for call in map(TracedCall, (before, after)))
    how = f"estimated, with {LAUNCH * 1e6:.0f} µs for a launch from Python, as in t.advise()"
    note = "" if one is None or other is None else how
    breaks, breaks_after = (len(trace.dynamo.graph_breaks) for trace in (before, after))
    return [_row("graph_breaks", breaks, breaks_after, ""), _row("call_seconds", one, other, note)]


def _of_hooks(before: Trace, after: Trace) -> list[dict[str, Plain]]:
    """The rows of what DDP's or FSDP2's hooks exchange in a step: what nothing hides of it, and the peak memory."""
    from explorer.analysis.advice.hooks import LAID_OUT
    from explorer.analysis.questions.hook_memory import COUNTED, peak_bytes_of_step
    from explorer.analysis.questions.priced_collectives import exposed_in_step

    hidden = _row("exposed_seconds", exposed_in_step(before), exposed_in_step(after), f"estimated: {LAID_OUT}")
    peak = _row("step_peak_bytes", peak_bytes_of_step(before), peak_bytes_of_step(after), COUNTED)
    return [row for row in (hidden, peak) if (row["before"], row["after"]) != (None, None)]


def may_be_chance(measured: Mapping[str, Plain]) -> bool:
    """Whether the change in a row of measured seconds is no larger than their spread."""
    change, spread = measured["change"], measured["spread"]
    return isinstance(change, float) and isinstance(spread, float) and abs(change) <= spread


def _code(trace: Trace) -> list[list[str]]:
    """The generated code of each graph, without comments: the first one counts the graphs of the process."""
    return [[line for line in a.lines if not line.lstrip().startswith("# ")] for a in trace.find("output_code")]


def _library_calls(trace: Trace) -> list[object]:
    """How each library call is made: its operator, sizes, and whether it may use TF32."""
    return [row["calls"] for row in trace.fusion.groups if row["calls"]]


def _run_options(trace: Trace) -> tuple[Plain, Plain]:
    """The mode and options. Some act when the code runs: CUDA graphs, and the configs that are tried."""
    return trace.meta.get("mode"), trace.meta.get("options")


def _timed(before: Live, after: Live, settings: Mapping[str, Plain]) -> tuple[Seconds, Seconds]:
    """Time both: in turn, or where settings differ each under its own."""
    if not settings:
        return before.race(after, REPEATS)
    first, _ = before.race(before, REPEATS)
    with changed_settings(settings):
        second, _ = after.race(after, REPEATS)
    return first, second


def _row(name: str, one: float | None, other: float | None, note: str, spread: float | None = None) -> dict[str, Plain]:
    change = None if one is None or other is None else other - one
    return {"figure": name, "before": one, "after": other, "change": change, "spread": spread, "note": note}


def _checked(before: Trace, after: Trace, limit: float | None, same_code: bool) -> tuple[bool | None, str, Table]:
    """Check whether both compute the same: the answer, a note on it, and one row per output."""
    if any(f.fatal for f in (*before.failures, *after.failures)):
        return None, "not checked: a compile failed", Table()
    live = needs_live(after, "comparing")
    if live.absent is not None and same_code and _library_calls(before) != _library_calls(after):
        return None, f"not checked: {LIBRARY_CALLS_ALONE}", Table()
    if live.absent is not None:
        return _interpreted(after, limit)
    check = needs_live(before, "comparing").compare(live)
    return *judgement(check, "beside the first trace, by the rounding that its function allows"), check


def _interpreted(after: Trace, limit: float | None) -> tuple[bool | None, str, Table]:
    """Check the second trace for a GPU you don't have: its code is interpreted and compared with eager."""
    try:
        check = after.check(limit)
    except (ExplorerError, NotImplementedError, RuntimeError) as error:
        return None, f"not checked: {error}", Table()
    return *judgement(check, "as the interpreter runs the kernels, against eager"), check


def judgement(check: Table, how: str) -> tuple[bool | None, str]:
    """Sum up the rows of a check: equal if something was compared and nothing of it is unequal; `how` says by what."""
    compared_rows = [row for row in check if row["equal"] is not None]
    others = [row for row in check if row["equal"] is None]
    if not all(row["equal"] for row in compared_rows):
        return False, f"not equal, see .check ({how})"
    if not compared_rows:
        return None, f"not checked: {'; '.join(dict.fromkeys(str(row['note']) for row in others))} ({how})"
    exception = f"; {len(others)} of {len(check)} could not be compared, see .check" if others else ""
    return True, f"equal, {how}{exception}"
