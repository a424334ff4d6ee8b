"""Describe a trace for a terminal: the flow from graph to kernels, what takes the time of a call, what is worth a look. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from shutil import get_terminal_size

from explorer.analysis.advice.call_cost import LAUNCH
from explorer.analysis.advice.verdicts import duration
from explorer.analysis.overview.overview import Overview, Step
from explorer.analysis.questions.cells import cells_of, place
from explorer.analysis.questions.comparison import shown
from explorer.analysis.questions.input_sizes import described_sizes
from explorer.analysis.questions.summary import head, notes
from explorer.model.trace_data import TraceData
from explorer.model.wording import cut, quantity
from explorer.stages.torch_compile.run_times import REST

#: Launches, verdicts and inputs that are shown, and columns of a launch's title.
MAX_LAUNCHES, MAX_VERDICTS, MAX_INPUTS, TITLE = 6, 4, 4, 44
#: Columns of the bar of a whole call.
BAR = 20


def described(trace: TraceData) -> str:
    """Describe a trace: its counts, the flow, a call's time, the advice, what was assumed or failed, and the stages it has."""
    width = min(get_terminal_size((120, 24)).columns, 160)
    overview = Overview(trace)
    parts = [[head(trace)], *(_section(part, overview, width) for part in (_whole, _hottest, _worth_a_look)), [*notes(trace)]]
    stages = dict.fromkeys(a.stage for a in trace.artifacts)
    if stages:
        last = next(reversed(stages))
        listed = f"stages: {', '.join(stages)}; t.text('{last}') is the text of one, t.stages has their sizes and seconds"
        parts.append(textwrap.wrap(listed, width, subsequent_indent="  ", break_on_hyphens=False))
    first, *others = (part for part in parts if part)
    return "\n".join(["\n".join(first), *("\n".join(part) for part in others)])


def _section(part: Callable[[Overview, int], list[str]], overview: Overview, width: int) -> list[str]:
    """The lines of one part; of a trace that it cannot read, such as a damaged log's, a line that says so."""
    try:
        return part(overview, width)
    except Exception as error:  # noqa: BLE001 a trace can be printed whatever is in it
        return [f"not shown, {part.__name__.strip('_').replace('_', ' ')}: {type(error).__name__}: {error}"]


def _whole(overview: Overview, width: int) -> list[str]:
    """Say how many of what there are from the graph to the kernels, how long that took, and the memory."""
    if not overview.trace.artifacts:
        return []
    steps = [step for step in overview.flow if not step.is_launch]
    launches = [step for step in overview.flow if step.is_launch]
    flow = " → ".join(filter(None, [*map(_counted, steps), " and ".join(map(_counted, launches))]))
    facts = [f"compiled in {duration(overview.compile_seconds)}"] if overview.compile_seconds else []
    if overview.lacks_backward:
        facts.append("without a backward, which train=True adds")
    if overview.peak_memory:
        facts.append(f"{shown('peak memory (bytes)', overview.peak_memory)} of memory at the peak of a graph")
    if overview.saved_for_backward:
        facts.append(f"{shown('saved for backward (bytes)', overview.saved_for_backward)} saved for backward")
    outside = f"{overview.sent_outside}; t.collectives.table lists them" if overview.sent_outside else ""
    sizes = described_sizes(overview.inputs, MAX_INPUTS)
    inputs = f"inputs: {sizes}" if sizes else ""
    return [
        part for line in (flow, "; ".join(facts), inputs, outside) for part in textwrap.wrap(line, width, subsequent_indent="  ")
    ]


def _counted(step: Step) -> str:
    return quantity(step.count, step.noun)


def _hottest(overview: Overview, width: int) -> list[str]:
    """The longest launches of a call, each with its share of the work and its user line."""
    call = overview.call
    if not call.launches:
        return []
    work = f"{duration(call.device)} of work in {quantity(call.launch_count, 'launch')}{call.without}"
    launching = f", which take Python {duration(call.host)} at {LAUNCH * 1e6:.0f} µs each, assumed" if call.host else ""
    breaks = f"; {quantity(call.breaks, 'graph break')} {'adds' if call.breaks == 1 else 'add'} {duration(call.breaking)}"
    whole = f"a call takes {duration(call.seconds)} on {overview.where}, {overview.known}: {work}{launching}"
    whole += breaks if call.breaks else ""
    if call.measured is not None and call.eager is not None:
        whole = f"a call takes {duration(call.measured)} on {overview.where}, measured; eager mode takes {duration(call.eager)}"
    lines = [*textwrap.wrap(whole, width, subsequent_indent="  "), *_parts(overview), ""]
    groups = overview.groups[:MAX_LAUNCHES]
    titles = [cut(group.title, TITLE) for group in groups]
    for group, title in zip(groups, titles, strict=True):
        row = group.first
        more = f" (+{quantity(row['other_lines'], 'line')})" if row["other_lines"] else ""
        what = f"{title:<{max(map(len, titles))}}  {row['line']}{more}  {row['code']}".rstrip()
        seconds = duration(group.seconds) if group.is_known else "?"
        lines.append(cut(f"  {seconds:>8}  {group.share:4.0%}  {what}", width))
    left = len(call.launches) - sum(len(group.ranked) for group in groups)
    return [*lines, f"  and {left} more: t.profile.launches" if left else "  t.profile.launches has their bytes and kernels", ""]


def _parts(overview: Overview) -> list[str]:
    """The parts of a measured call, each with its share of the call and a bar; none where no call was measured."""
    whole = sum(part.seconds for part in overview.parts) or 1.0
    return [
        f"  {duration(part.seconds):>8}  {part.seconds / whole:4.0%}  {'█' * round(BAR * part.seconds / whole):<{BAR}}  "
        f"{part.what}{f' ({part.count})' if part.what != REST else ''}"
        for part in overview.parts
    ]


def _worth_a_look(overview: Overview, width: int) -> list[str]:
    """The costliest verdicts of the advice, a line each."""
    advice = overview.advice
    if not advice:
        return []
    lines = ["worth a look, by what it costs: print(t.advise())"]
    for verdict in advice[:MAX_VERDICTS]:
        at = f"  {place(cells_of(overview.trace), verdict.lines[0].file, verdict.lines[0].number)}" if verdict.lines else ""
        lines.append(cut(f"  {verdict.title}  [{verdict.shared}]{at}", width))
    left = len(advice) - MAX_VERDICTS
    return [*lines, *([f"  and {left} more"] if left > 0 else []), ""]


__all__ = ["described"]
