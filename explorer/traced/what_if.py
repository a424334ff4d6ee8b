"""What if: the same call compiled with something changed, and what that changes.

t.what_if(fusion=Veto("op3", "op7"))      t.what_if(without_pattern="_sfdp_pattern_1")
t.what_if(options={"max_fusion_size": 2})  t.what_if(without_pass="remove_noop_ops")
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from explorer.compilers.torch_compile import mode_options
from explorer.errors import ExplorerError, InputError, unknown_name
from explorer.live.protocol import Changes
from explorer.model.values import Force, Plain, Rows, Veto
from explorer.questions.figures import estimated, figures, shown
from explorer.questions.fusion import Graph

if TYPE_CHECKING:
    from explorer.traced.trace import Trace

#: Calls of each compiled function that are timed.
REPEATS = 20


@dataclass(frozen=True)
class WhatIf:
    """A second trace and what is different: `rows`, one a figure, before, after, the change, and a note on the figure.

    `equal` is True where the results of both were computed and are the same by the judge of `Trace.check`, False where they
    differ, None where that could not be checked; `note` says which, and `check` has one row an output. For a GPU that is not
    here the new kernels are interpreted and compared with eager.
    """

    before: Trace = field(repr=False)
    trace: Trace = field(repr=False)
    rows: Rows
    equal: bool | None
    note: str
    check: Rows = field(default_factory=Rows, repr=False)

    def figure(self, name: str) -> Mapping[str, Plain]:
        """One figure by name: before, after, change; InputError for a name that is none."""
        for row in self.rows:
            if row["figure"] == name:
                return row
        raise unknown_name("figure", name, [str(row["figure"]) for row in self.rows])

    def __repr__(self) -> str:
        failures = "".join(f"\nfailure: {f}" for f in self.trace.failures if f not in self.before.failures)
        return f"{table(self.rows)}\nresult: {self.note}{failures}"

    def _repr_html_(self) -> str:
        return f"{self.rows._repr_html_()}<p>result: {html.escape(self.note)}</p>"


def what_if(
    trace: Trace,
    *,
    fusion: Veto | Force | Sequence[Veto | Force] | None,
    without_pass: str | Sequence[str],
    without_pattern: str | Sequence[str],
    options: Mapping[str, Plain],
    limit: float | None = None,
) -> WhatIf:
    """See `Trace.what_if`."""
    trace_again = trace.needs_live("what if").trace_again
    # a name that this trace lists nothing of may come up in a later round, once something else is left out: the compile knows
    passes, patterns = name_list("without_pass", without_pass), name_list("without_pattern", without_pattern)
    if not isinstance(options, Mapping):
        raise InputError(f"options is a mapping of Inductor's options, options={{'max_fusion_size': 2}}, not {options!r}")
    changes: Changes = {}
    if fusion is not None:
        wishes = (fusion,) if isinstance(fusion, (Veto, Force)) else fusion
        changes["fusion"] = tuple(_named(trace, wish) for wish in wishes)
    if passes:
        changes["without_pass"] = (*trace.meta.get("without_pass", ()), *passes)
    if patterns:
        changes["without_pattern"] = (*trace.meta.get("without_pattern", ()), *patterns)
    if options:
        changes |= _options(trace, options)
    if not changes:
        raise InputError("what_if needs a change: fusion=, without_pass=, without_pattern= or options=")
    return compared(trace, trace_again(**changes), limit)


def name_list(argument: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several as a tuple; InputError for anything else."""
    several = (given,) if isinstance(given, str) else given
    if not isinstance(several, Iterable) or not all(isinstance(name, str) for name in several):
        raise InputError(f"{argument} takes a name or several, as t.matches and t.passes list them, not {given!r}")
    return tuple(several)


def _named(trace: Trace, wish: Veto | Force) -> Veto | Force:
    """A wish by names that the scheduler knows: a kernel is meant by the first of its nodes."""
    if not isinstance(wish, (Veto, Force)):
        raise InputError(f'fusion takes Veto("op3", "op7"), Force(…) or a tuple of them, not {wish!r}')
    graphs = [g for g in trace.fusion.graphs if wish.graph in ("", g.artifact.graph) and wish.frame in ("", g.artifact.frame)]
    for name in (wish.first, wish.second):
        known = {known for g in graphs for known in g.numbers_by_name}
        if name not in known:
            raise unknown_name("scheduler node, buffer, FX node or kernel", name, known)
    return replace(wish, first=_node(graphs, wish.first), second=_node(graphs, wish.second))


def _node(graphs: Sequence[Graph], name: str) -> str:
    kernels = {kernel for g in graphs for kernel, _ in g.verdicts.data["kernels"]}
    found = next((g.find(name) for g in graphs if g.find(name)), None)
    if name not in kernels or found is None:
        return name
    return next(g.verdicts.names[found[0]] for g in graphs if g.find(name))


def _options(trace: Trace, options: Mapping[str, Plain]) -> Changes:
    """The trace's own options with the new ones; its mode becomes the options that it stands for."""
    mode = trace.meta.get("mode")
    own = {**(mode_options(str(mode)) if mode else {}), **(trace.meta.get("options") or {})}
    return {"mode": None, "options": {**own, **options}}


def table(rows: Rows) -> str:
    """Figures as fixed-width text: whole numbers as they are, seconds with three digits; what there is to say behind them."""
    columns = ("before", "after", "change")
    cells = [("", *columns, ""), *((str(row["figure"]), *(shown(row[c]) for c in columns), str(row["note"])) for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(4)]
    lines = (
        f"{name.ljust(widths[0])}  {'  '.join(map(str.rjust, numbers, widths[1:]))}  {note}" for name, *numbers, note in cells
    )
    return "\n".join(map(str.rstrip, lines))


# The difference --------------------------------------------------------------------------------------------------------


def compared(before: Trace, after: Trace, limit: float | None = None) -> WhatIf:
    """Two traces of one call side by side, and whether they compute the same."""
    one, other = figures(before), figures(after)
    equal, note, check = _checked(before, after, limit)
    notes = {"estimated_seconds": estimated(after)}
    live = after.needs_live("comparing")
    if equal is not None and live.absent is None:
        one["measured_seconds"], other["measured_seconds"] = before.needs_live("timing").race(live, REPEATS)
        notes["measured_seconds"] = f"medians of {REPEATS} calls here, in turn"
    rows = Rows(_row(name, one[name], other[name], notes.get(name, "")) for name in one)
    return WhatIf(before, after, rows, equal, note, check)


def _row(name: str, one: float | None, other: float | None, note: str) -> dict[str, Plain]:
    change = None if one is None or other is None else other - one
    return {"figure": name, "before": one, "after": other, "change": change, "note": note}


def _checked(before: Trace, after: Trace, limit: float | None) -> tuple[bool | None, str, Rows]:
    """Whether both compute the same, what to say of it, and one row an output."""
    if any(f.fatal for f in (*before.failures, *after.failures)):
        return None, "not checked: a compile failed", Rows()
    live = after.needs_live("comparing")
    if live.absent is not None:
        return _interpreted(after, limit)
    check = before.needs_live("comparing").compare(live)
    return *judgement(check, "beside the first trace, by the rounding that its function allows"), check


def _interpreted(after: Trace, limit: float | None) -> tuple[bool | None, str, Rows]:
    """The same for a GPU you don't have: what was generated anew is interpreted, and compared with eager."""
    try:
        check = after.check(limit)
    except (ExplorerError, NotImplementedError, RuntimeError) as error:
        return None, f"not checked: {error}", Rows()
    return *judgement(check, "as the interpreter runs the kernels, against eager"), check


def judgement(check: Rows, how: str) -> tuple[bool | None, str]:
    """What the rows of a check come to: equal is what was compared, if anything was, and nothing of it is unequal."""
    known = [row for row in check if row["equal"] is not None]
    rest = [row for row in check if row["equal"] is None]
    if not all(row["equal"] for row in known):
        return False, f"not equal, see .check ({how})"
    if not known:
        return None, f"not checked: {'; '.join(dict.fromkeys(str(row['note']) for row in rest))} ({how})"
    but = f"; {len(rest)} of {len(check)} could not be compared, see .check" if rest else ""
    return True, f"equal, {how}{but}"
