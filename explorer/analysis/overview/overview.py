"""Describe a trace for a terminal: the flow from graph to kernels, what takes the time of a call, what is worth a look. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from shutil import get_terminal_size
from typing import Any

from explorer.analysis.advice.advise import advise
from explorer.analysis.advice.call_cost import LAUNCH, TracedCall
from explorer.analysis.advice.verdicts import duration
from explorer.analysis.overview.launches import alike, launches
from explorer.analysis.questions.cells import cells_of, place
from explorer.analysis.questions.comparison import figures, shown
from explorer.analysis.questions.summary import head, notes
from explorer.analysis.questions.target import compiled_for, gpu_of
from explorer.model.trace_data import TraceData
from explorer.model.wording import quantity

#: Launches and verdicts that are shown, and columns of a launch's title.
MAX_LAUNCHES, MAX_VERDICTS, TITLE = 6, 4, 44
#: The counts between graph and kernels, and what a call runs: as `comparison.figures` names them, each with its noun.
FLOW = (("FX nodes", "FX node"), ("scheduler nodes", "scheduler node"), ("fused groups", "fused group"))
ENDS = (("kernel launches", "kernel launch"), ("library calls", "library call"))


def described(trace: TraceData) -> str:
    """Describe a trace: its counts, the flow, a call's time, the advice, what was assumed or failed, and the stages it has."""
    width = min(get_terminal_size((120, 24)).columns, 160)
    parts = [[head(trace)], *(_section(part, trace, width) for part in (_whole, _hottest, _worth_a_look)), [*notes(trace)]]
    stages = dict.fromkeys(a.stage for a in trace.artifacts)
    if stages:
        last = next(reversed(stages))
        listed = f"stages: {', '.join(stages)}; t.text('{last}') is the text of one, t.stages has their sizes and seconds"
        parts.append(textwrap.wrap(listed, width, subsequent_indent="  ", break_on_hyphens=False))
    first, *others = (part for part in parts if part)
    return "\n".join(["\n".join(first), *("\n".join(part) for part in others)])


def _section(part: Callable[[TraceData, int], list[str]], trace: TraceData, width: int) -> list[str]:
    """The lines of one part; of a trace that it cannot read, such as a damaged log's, a line that says so."""
    try:
        return part(trace, width)
    except Exception as error:  # noqa: BLE001 a trace can be printed whatever is in it
        return [f"not shown, {part.__name__.strip('_').replace('_', ' ')}: {type(error).__name__}: {error}"]


def _whole(trace: TraceData, width: int) -> list[str]:
    """Say how many of what there are from the graph to the kernels, how long that took, and the memory."""
    if not trace.artifacts:
        return []
    counted = figures(trace)
    steps = [_counted(counted, name, noun) for name, noun in FLOW]
    ends = [_counted(counted, name, noun) for name, noun in ENDS]
    graphs = quantity(len(trace.find("dynamo")), "graph") if trace.find("dynamo") else ""
    flow = " → ".join(filter(None, [graphs, *steps, " and ".join(filter(None, ends))]))
    facts = [f"compiled in {duration(float(str(counted['compile seconds'])))}"] if counted["compile seconds"] else []
    if trace.meta.get("train") is False:
        facts.append("without a backward, which train=True adds")
    if counted.get("peak memory (bytes)"):
        facts.append(f"{shown('peak memory (bytes)', counted['peak memory (bytes)'])} of memory at the peak of a graph")
    return [part for line in (flow, "; ".join(facts)) for part in textwrap.wrap(line, width, subsequent_indent="  ")]


def _counted(counted: Mapping[str, Any], name: str, noun: str) -> str:
    return quantity(counted[name], noun) if counted.get(name) else ""


def _hottest(trace: TraceData, width: int) -> list[str]:
    """The longest launches of a call, each with its share of the work and its user line."""
    call = TracedCall(trace)
    rows = launches(call)
    if not rows:
        return []
    target = gpu_of(trace)
    where = target.title if target else "the CPU" if call.is_cpu else str(compiled_for(trace))
    known = "measured" if all(row["known"] == "measured" for row in rows) else "estimated"
    work = f"{duration(call.device)} of work in {quantity(len(rows), 'launch')}"
    launching = f", which take Python {duration(call.host)} at {LAUNCH * 1e6:.0f} µs each, assumed" if call.host else ""
    whole = f"a call takes {duration(call.seconds)} on {where}, {known}: {work}{launching}"
    lines = [*textwrap.wrap(whole, width, subsequent_indent="  "), ""]
    groups = alike(rows)[:MAX_LAUNCHES]
    titles = [_cut(_title(group), TITLE) for group in groups]
    for group, title in zip(groups, titles, strict=True):
        first, seconds, share = group[0], *(sum(row[name] for row in group) for name in ("seconds", "share"))
        more = f" (+{quantity(first['other_lines'], 'line')})" if first["other_lines"] else ""
        what = f"{title:<{max(map(len, titles))}}  {first['line']}{more}  {first['code']}".rstrip()
        lines.append(_cut(f"  {duration(seconds):>8}  {share:4.0%}  {what}", width))
    left = len(rows) - sum(map(len, groups))
    return [*lines, f"  and {left} more: t.profile.launches" if left else "  t.profile.launches has their bytes and kernels", ""]


def _title(group: Sequence[Mapping[str, Any]]) -> str:
    """What launches that are alike compute, with their number and the graph where that is the backward one."""
    several = f"{len(group)} × " if len(group) > 1 else ""
    return f"{several}{group[0]['what']}{', backward' if group[0]['graph'] == 'backward' else ''}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _worth_a_look(trace: TraceData, width: int) -> list[str]:
    """The costliest verdicts of the advice, a line each."""
    advice = advise(trace)
    if not advice:
        return []
    lines = ["worth a look, by what it costs: print(t.advise())"]
    for verdict in advice[:MAX_VERDICTS]:
        at = f"  {place(cells_of(trace), verdict.lines[0].file, verdict.lines[0].number)}" if verdict.lines else ""
        lines.append(_cut(f"  {verdict.title}  [{verdict.shared}]{at}", width))
    left = len(advice) - MAX_VERDICTS
    return [*lines, *([f"  and {left} more"] if left > 0 else []), ""]


__all__ = ["described"]
