"""Turn a comparison of two or three traces into one payload for the view. Pure.

The texts of the traces follow each other. Ids and frames begin with the name of their trace, so that the front end tells them
apart as it does those of one trace. A line of the program that two traces have is linked: a click on it lights both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from explorer.analysis.questions.comparison import Comparison, KeptApart
from explorer.analysis.questions.kernel_differences import (
    LIMITED_BY,
    SAME_CALL,
    SAME_SOURCE,
    SAME_VALUES,
    SOURCE_LINES,
    Likeness,
    likenesses,
    summary,
)
from explorer.analysis.questions.matched_kernels import Bound, KernelMatch, MatchedKernel, matched_kernels
from explorer.analysis.questions.matched_texts import matched_texts
from explorer.analysis.questions.source_lines import matched_lines, unrelated
from explorer.analysis.questions.target import compiled_for, gpu_of
from explorer.errors import InputError
from explorer.model.trace_data import TraceData
from explorer.model.values import Link, Plain, jsonable
from explorer.model.wording import quantity
from explorer.reference.gpus.properties import gpu_facts
from explorer.stages import STAGES, stages_of
from explorer.stages.inductor.verdicts import saving
from explorer.view import wire
from explorer.view.payload import FORMAT, merged, payload, runs
from explorer.view.program_info import line_infos
from explorer.view.views import views_of

#: The most traces that have room beside each other.
MAX_TRACES = 3
#: The columns of a graph's nodes, and of how they were lowered, that refer to strings.
NODE_STRINGS = ("op", "target", "type", "module", "place", "code", "args")
LOWERED_STRINGS = ("kind", "by", "why")


def check_comparable(comparison: Comparison) -> None:
    """Raise InputError for traces that have no room beside each other, or nothing in common."""
    names = comparison.names
    if len(names) > MAX_TRACES:
        raise InputError(
            f"a view has room for {MAX_TRACES} traces, not {len(names)}: show fewer of them, or print explorer.compare(…), "
            "which takes any number"
        )
    if found := unrelated(comparison.traces):
        first, second = (f"{comparison.traces[n].meta.get('name', '?')!r} ({names[n]})" for n in found)
        raise InputError(
            f"{first} and {second} have no line of the program in common, so nothing in them can be matched: show traces of one "
            "function, for two targets, by two backends, or before and after an edit"
        )


def payload_of_comparison(comparison: Comparison) -> wire.Payload:
    """Return the traces as one JSON-able dict, with what they differ in; see `check_comparable` for the errors."""
    check_comparable(comparison)
    parts = [payload(trace) for trace in comparison.traces]
    starts = _starts([len(part["artifacts"]) for part in parts])
    links = list(_joining(comparison, starts))
    hows = list(dict.fromkeys((*(how for part in parts for how in part["hows"]), *(how for how, _ in links))))
    notices = [f"{name}: {part['notice']}" for name, part in zip(comparison.names, parts, strict=True) if part["notice"]]
    whole: wire.Payload = {
        "format": FORMAT,
        "meta": jsonable(_meta(comparison)),
        "counts": "; ".join(f"{name}: {part['counts']}" for name, part in zip(comparison.names, parts, strict=True)),
        "notice": "; ".join(notices),
        "stages": _stages(parts),
        "on_demand": parts[0]["on_demand"],
        "artifacts": [],
        "strings": [],
        "kernels": [],
        "calls": [],
        "lines": [],
        "fusion": [],
        "choices": [],
        "memory": {},
        "collectives": {},
        "advice": {"about": "", "headline": "", "verdicts": []},
        "overview": [],
        "hows": hows,
        "links": [(*pair, hows.index(how), flat) for how, (pair, flat) in links],
        "failures": [],
        "views": [],
    }
    for name, part, start in zip(comparison.names, parts, starts, strict=True):
        _append(whole, part, name, start)
    _share_texts(whole["artifacts"])
    indexes = [{a.id: n + start for n, a in enumerate(t.artifacts)} for t, start in zip(comparison.traces, starts, strict=True)]
    whole["lines"] = list(line_infos(comparison.traces, indexes))
    whole["comparison"] = _differences(comparison, parts, starts)
    whole["views"] = views_of(whole)
    return whole


def joined(comparison: Comparison) -> TraceData:
    """Return the traces as the data of one, with ids and frames as the view has them."""
    return TraceData(
        _meta(comparison),
        tuple(
            replace(a, id=f"{name} {a.id}", frame=_frame(name, a.frame))
            for name, trace in zip(comparison.names, comparison.traces, strict=True)
            for a in trace.artifacts
        ),
        _stages=tuple(dict.fromkeys(stage for trace in comparison.traces for stage in stages_of(trace))),
    )


def _frame(name: str, frame: str) -> str:
    return f"{name} {frame}".strip()


def _starts(lengths: Iterable[int]) -> list[int]:
    """Return the index at which each list begins when they are joined."""
    starts, total = [], 0
    for length in lengths:
        starts.append(total)
        total += length
    return starts


def _meta(comparison: Comparison) -> dict[str, Any]:
    """Say each fact once where the traces agree, else the fact of each."""
    traces = comparison.traces
    facts: dict[str, Any] = {}
    for key in dict.fromkeys(key for trace in traces for key in trace.meta):
        values = [trace.meta.get(key, "") for trace in traces]
        alike = all(type(value) is type(values[0]) and value == values[0] for value in values)
        facts[key] = values[0] if alike else " | ".join(dict.fromkeys(map(_worded, values)))
    return facts


def _worded(value: Plain) -> str:
    """Word a fact of one trace beside another's: None is torch's default, "" or a missing fact is not said."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "default" if value is None else str(value) or "not stated"


def _stages(parts: Sequence[wire.Payload]) -> list[wire.StageInfo]:
    """The stages of all traces, in the compiler's order."""
    found = {stage["name"]: stage for part in reversed(parts) for stage in part["stages"]}
    order = dict.fromkeys((*(stage.name for stage in STAGES), *(stage["name"] for part in parts for stage in part["stages"])))
    return [found[name] for name in order if name in found]


# One trace into the whole ------------------------------------------------------------------------------------------------


def _append(whole: wire.Payload, part: wire.Payload, name: str, start: int) -> None:
    """Add a trace's payload to the joint payload; its texts begin at index `start`."""
    strings, verdicts = len(whole["strings"]), len(whole["advice"]["verdicts"])
    whole["strings"] += part["strings"]
    whole["artifacts"] += [_artifact(a, name, start, strings) for a in part["artifacts"]]
    whole["kernels"] += [
        {
            **kernel,
            "artifact": kernel["artifact"] + start,
            "user": _user(kernel["user"], start),
            "advised": [number + verdicts for number in kernel["advised"]],
            "frame": _frame(name, kernel["frame"]),
            "forms": {stage: at + start for stage, at in kernel["forms"].items()},
        }
        for kernel in part["kernels"]
    ]
    whole["calls"] += [
        {
            **call,
            "artifact": _index(call["artifact"], start),
            "user": _user(call["user"], start),
            "advised": [number + verdicts for number in call["advised"]],
            "frame": _frame(name, call["frame"]),
        }
        for call in part["calls"]
    ]
    whole["fusion"] += [
        {**fusion, "frame": _frame(name, fusion["frame"]), "nodes": _index(fusion["nodes"], start)} for fusion in part["fusion"]
    ]
    whole["choices"] += [
        {**choice, "frame": _frame(name, choice["frame"]), "artifact": choice["artifact"] + start} for choice in part["choices"]
    ]
    _append_memory(whole["memory"], part["memory"], name)
    _append_collectives(whole["collectives"], part["collectives"], name, start)
    _append_advice(whole["advice"], part["advice"], name, start)
    whole["overview"] += [_overview(info, name, start) for info in part["overview"]]
    hows = [whole["hows"].index(how) for how in part["hows"]]
    whole["links"] += [(source + start, target + start, hows[how], flat) for source, target, how, flat in part["links"]]
    whole["failures"] += [{**failure, "what": f"{failure['what']}, in {name}"} for failure in part["failures"]]


def _artifact(info: wire.ArtifactInfo, name: str, start: int, strings: int) -> wire.ArtifactInfo:
    """Return a text's entry with what refers to other texts and to strings moved on."""
    moved: wire.ArtifactInfo = {**info, "id": f"{name} {info['id']}", "frame": _frame(name, info["frame"])}
    if isinstance(before := info.get("before"), int):
        moved["before"] = before + start
    if nodes := info.get("nodes"):
        moved["nodes"] = _moved(nodes, NODE_STRINGS, strings)
        if lowered := nodes.get("lowered"):
            moved["nodes"]["lowered"] = _moved(lowered, LOWERED_STRINGS, strings)
    return moved


def _share_texts(artifacts: list[wire.ArtifactInfo]) -> None:
    """Leave out texts that an artifact before has: traces for two targets have most texts down to the graphs in common."""
    firsts: dict[str, int] = {}
    for index, artifact in enumerate(artifacts):
        first = firsts.setdefault(artifact["text"], index)
        if first != index and artifact["text"]:
            artifact["text"] = ""
            artifact["same_text"] = first


def _moved(columns: Any, names: Iterable[str], by: int) -> Any:
    """Return columns whose references to strings are shifted by so many."""
    return {**columns, **{name: [at + by for at in columns[name]] for name in names}}


def _append_advice(whole: wire.AdviceInfo, part: wire.AdviceInfo, name: str, start: int) -> None:
    """Add a trace's verdicts to the joint ones; a share is of the trace's own call."""
    whole["about"] = f"{whole['about']} {name}: {part['about']}".strip()
    whole["headline"] = "; ".join(filter(None, (whole["headline"], f"{name}: {part['headline']}")))
    whole["verdicts"] += [
        {
            **verdict,
            "title": f"{name}: {verdict['title']}",
            "lines": [_user(user, start) for user in verdict["lines"]],
            "places": [(at + start, line) for at, line in verdict["places"]],
        }
        for verdict in part["verdicts"]
    ]


def _overview(info: wire.OverviewInfo, name: str, start: int) -> wire.OverviewInfo:
    """Return what one of several traces came to, with its places moved on."""
    hottest: list[wire.HotInfo] = [
        {**hot, "artifact": _index(hot["artifact"], start), "source": _index(hot["source"], start)} for hot in info["hottest"]
    ]
    inputs: list[wire.InputInfo] = [{**each, "artifact": each["artifact"] + start} for each in info["inputs"]]
    return {**info, "trace": name, "hottest": hottest, "inputs": inputs}


def _index(index: int, start: int) -> int:
    """Return the index of a text in the joint payload; -1 stays."""
    return index + start if index >= 0 else -1


def _user(user: wire.UserPlace, start: int) -> wire.UserPlace:
    """Return the place of a user line in the joint payload."""
    at, line, place, code = user
    return _index(at, start), line, place, code


def _append_collectives(whole: wire.CollectivesInfo, part: wire.CollectivesInfo, name: str, start: int) -> None:
    given: Any = whole
    for key, rows in cast("Mapping[str, list[Any]]", part).items():
        moved = ({**row, "frame": _frame(name, row["frame"]), "text": row["text"] + start} for row in rows)
        given.setdefault(key, []).extend(moved)


def _append_memory(whole: wire.MemoryInfo, part: wire.MemoryInfo, name: str) -> None:
    for key in ("table", "timeline", "unread", "uncounted"):
        rows: Any = part.get(key)
        if rows is not None:
            given: Any = whole
            given.setdefault(key, []).extend({**row, "frame": _frame(name, row["frame"])} for row in rows)


# What they differ in -----------------------------------------------------------------------------------------------------


def _joining(comparison: Comparison, starts: Sequence[int]) -> Iterator[tuple[str, tuple[tuple[int, int], list[int]]]]:
    """Yield the links between the lines of the program that several traces have, by kind and pair of sources."""
    index = [{a.id: n + start for n, a in enumerate(t.artifacts)} for t, start in zip(comparison.traces, starts, strict=True)]
    groups: dict[tuple[str, tuple[int, int]], list[Link]] = {}
    for match in matched_lines(comparison.traces):
        pair = tuple(index[at.trace][at.source] for at in (match.later, match.earlier))
        link = Link("", (match.later.line,), "", (match.earlier.line,), match.how)
        groups.setdefault((match.how, (pair[0], pair[1])), []).append(link)
    for (how, pair), links in groups.items():
        yield how, (pair, [number for run in merged(runs(links)) for number in run])


def _differences(comparison: Comparison, parts: Sequence[wire.Payload], starts: Sequence[int]) -> wire.ComparisonInfo:
    traces = comparison.traces
    matches = matched_kernels(comparison)
    alike = likenesses(comparison, matches)
    places = _Places(comparison, starts)
    kernels = [places.match(match, likeness) for match, likeness in zip(matches, alike, strict=True)]
    kept_apart = [match.kept_apart for match in matches]
    work = _work(comparison.names, parts)
    return {
        "traces": [
            {"name": name, "meta": part["meta"], "counts": part["counts"], "texts": len(part["artifacts"])}
            for name, part in zip(comparison.names, parts, strict=True)
        ],
        "texts": [
            [at + start if at >= 0 else -1 for at, start in zip(row, starts, strict=True)]
            for row in matched_texts(traces, matches)
        ],
        "gpus": list(_gpus(traces)),
        "figures": [*_figures(comparison), *_times(parts)],
        "summary": [
            *_first_difference(comparison),
            *([work] if work else []),
            *summary(alike, [match.why for match in matches]),
        ],
        "work": work,
        "kernels": kernels,
        "hottest": list(_hottest(comparison.names, kernels, alike, kept_apart, _Titles(parts, starts))),
    }


def _first_difference(comparison: Comparison) -> Iterator[str]:
    """Say where two traces for one target differ first, and what was set otherwise."""
    from explorer.analysis.findings.first_difference import in_words  # every view imports this module

    if len({compiled_for(trace).name for trace in comparison.traces}) == 1:
        yield from in_words(comparison)


#: The most differences that the overview tells; half of them are of other kernels, if there are so many.
MAX_TOLD = 6
#: What a match of each kind is, as a sentence.
SENTENCES = {
    SAME_SOURCE: "The source is the same.",
    SAME_VALUES: "The values are the same, the source is not.",
    SAME_CALL: "The library call is the same.",
}
#: Times differ where one is at least so many times another.
MIN_RATIO = 1.02
#: What is said of kernels that no record explains.
NOT_KNOWN = "why is not known: no record says it"
#: A scheduler node, or several that were fused.
NODE = re.compile(r"\bop\d+(?:_op\d+)*\b")
SAME_TITLES = re.compile(r"(`[^`]+`) and \1")


def _hottest(
    names: Sequence[str],
    matches: Sequence[wire.MatchInfo],
    alike: Sequence[Likeness],
    kept_apart: Sequence[KeptApart | None],
    titles: _Titles,
) -> Iterator[wire.DifferenceInfo]:
    """Yield what differs, the largest difference first: a match of kernels, or the library calls that differ in the same way.

    Calls with other shares of one peak differ in the same way. What takes as long in each trace is told only where no time
    differs, as after an edit.
    """
    groups: dict[tuple[tuple[Bound, ...], int], list[int]] = {}
    for number, match in enumerate(matches):
        if match["differs"] or _apart(_seconds([match])) or match["what"] not in SENTENCES:
            is_call = match["what"] == SAME_CALL
            limits = tuple(replace(bound, share=None) for bound in alike[number].bounds)
            groups.setdefault((limits, -1 if is_call else number), []).append(number)
    seconds = {key: _seconds([matches[number] for number in of]) for key, of in groups.items()}
    order = sorted(groups, key=lambda key: (-_apart(seconds[key]), -max(value or 0.0 for value in seconds[key])))
    order = [key for key in order if _apart(seconds[key]) or None in seconds[key]] or order
    others = [key for key in order if matches[groups[key][0]]["what"] not in SENTENCES][: MAX_TOLD // 2]
    shown = {*others, *[key for key in order if key not in others][: MAX_TOLD - len(others)]}
    for key in (key for key in order if key in shown):
        first = max(groups[key], key=lambda number: max(value or 0.0 for value in matches[number]["seconds"]))
        yield {
            "what": titles.what(names, matches[first], len(groups[key]), seconds[key]),
            "why": _why(names, matches[first], [alike[number] for number in groups[key]], kept_apart[first], titles),
            "match": first,
        }


def _apart(seconds: Sequence[float | None]) -> float:
    """Return by how many seconds the times of several traces differ; 0.0 where they are as long, or not known."""
    known = [value for value in seconds if value is not None]
    least, most = min(known, default=0.0), max(known, default=0.0)
    return most - least if most > least * MIN_RATIO else 0.0


def _seconds(matches: Sequence[wire.MatchInfo]) -> list[float | None]:
    """Add up what the kernels of several matches take in each trace: 0.0 for none, None where a time is not known."""
    columns = zip(*(zip(match["seconds"], match["kernels"], strict=True) for match in matches), strict=True)
    known = ([value if kernels else 0.0 for value, kernels in column] for column in columns)
    return [None if None in of else sum(value or 0.0 for value in of) for of in known]


def _timings(seconds: Sequence[float | None]) -> Iterator[tuple[str, str]]:
    """Word what each trace takes, "" for what is not known, and how often that is what the first takes."""
    from explorer.analysis.advice.verdicts import duration  # the advice is not imported before it is asked for

    first = seconds[0]
    for number, value in enumerate(seconds):
        times = _times_as_long(first, value) if first and value and number else ""
        yield duration(value) if value is not None else "", times


def _times_as_long(first: float, value: float) -> str:
    """Word a time as a multiple of another; "" where they are as long."""
    by = value / first
    rounded = float(f"{by:.2g}") if by >= 2 or by <= 0.5 else round(by, 2)
    return "" if rounded == 1 else f" (×{rounded:g})"


def _why(
    names: Sequence[str], match: wire.MatchInfo, alike: Sequence[Likeness], kept_apart: KeptApart | None, titles: _Titles
) -> str:
    """Say in sentences what differs in a match and those like it, and why; that it is not known, where nothing says it."""
    if match["what"] in SENTENCES:
        differs = {fact: values for fact, values in alike[0].differs.items() if fact != SOURCE_LINES}
        if alike[0].bounds:
            differs[LIMITED_BY] = tuple(map(_ranged, zip(*(likeness.bounds for likeness in alike), strict=True)))
        facts = (
            f"{fact}: {', '.join(f'{value} in {name}' for name, value in zip(names, values, strict=True))}"
            for fact, values in differs.items()
        )
        told = "; ".join(facts)
        return f"{SENTENCES[match['what']]} {f'What differs: {told}.' if told else 'Nothing else is known to differ.'}"
    why = match["differs"] or NOT_KNOWN
    if match["what"] != "split":
        return f"{match['what'].capitalize()}: {why.removesuffix('.')}."
    if kept_apart is not None:
        apart = titles.in_words(kept_apart.apart, names.index(kept_apart.apart_in), match)
        fused = saving(kept_apart.shared_bytes)
        fused = fused or titles.in_words(kept_apart.fused, names.index(kept_apart.fused_in), match)
        why = f"Not fused in {kept_apart.apart_in}: {apart} Fused in {kept_apart.fused_in}: {fused}"
    return f"{why.removesuffix('.')}."


def _ranged(bounds: Sequence[Bound]) -> str:
    """Word limits that differ in their share of a peak alone, with the least and the largest share."""
    shares = sorted({bound.share for bound in bounds if bound.share is not None})
    return bounds[0].worded(" to ".join(map(str, dict.fromkeys((*shares[:1], *shares[-1:])))))


class _Titles:
    """What the kernels and library calls of several traces compute, by their places and by the scheduler nodes in them."""

    def __init__(self, parts: Sequence[wire.Payload], starts: Sequence[int]) -> None:
        self._of_place: dict[tuple[int, int], str] = {}
        self._of_node: dict[tuple[int, str, str, str], str] = {}
        self._graphs = [(a["frame"], a["graph"]) for part in parts for a in part["artifacts"]]
        for trace, (part, start) in enumerate(zip(parts, starts, strict=True)):
            of_kernel = {}
            for kernel in part["kernels"]:
                title = kernel["title"] or kernel["name"]
                self._of_place[kernel["artifact"] + start, 0] = title
                of_kernel[kernel["frame"], kernel["graph"], kernel["name"]] = title
            for call in part["calls"]:
                self._of_place[_index(call["artifact"], start), call["line"]] = call["title"] or call["name"]
            for group in (group for graph in part["fusion"] for group in graph["groups"]):
                place = group["frame"], group["graph"]
                for name in group["kernels"][:1]:
                    title = of_kernel.get((*place, name), name)
                    self._of_node |= {(trace, *place, node): title for node in group["nodes"]}

    def what(self, names: Sequence[str], match: wire.MatchInfo, count: int, seconds: Sequence[float | None]) -> str:
        """Name what a match is in each trace, and what it takes there; the match is an example where several count as one."""
        called = [
            list(dict.fromkeys(self._of_place.get((k["artifact"], k["line"]), k["name"]) for k in of)) for of in match["kernels"]
        ]
        timings = list(_timings(seconds))
        if count > 1 or all(titles == called[0] and len(of) == 1 for titles, of in zip(called, match["kernels"], strict=True)):
            told = ", ".join(f"{time} in {name}{times}" for name, (time, times) in zip(names, timings, strict=True) if time)
            title = f"{count} library calls such as {called[0][0]}" if count > 1 else called[0][0]
            return f"{title}: {told}" if told else title
        sides = []
        for name, of, titles, (time, times) in zip(names, match["kernels"], called, timings, strict=True):
            words = (
                [quantity(len(of), "kernel"), " and ".join(f"`{title}`" for title in titles), time + times] if of else ["none"]
            )
            sides.append(f"{name}: {', '.join(filter(None, words))}")
        return "; ".join(sides)

    def in_words(self, text: str, trace: int, match: wire.MatchInfo) -> str:
        """Put the title of its kernel in the place of each scheduler node that a sentence names."""
        places = [self._graphs[kernel["artifact"]] for kernel in match["kernels"][trace] if kernel["artifact"] >= 0]

        def titled(node: re.Match[str]) -> str:
            titles = {self._of_node.get((trace, *place, part), "") for place in places for part in node[0].split("_")}
            return f"`{next(iter(titles))}`" if len(titles) == 1 and "" not in titles else node[0]

        return SAME_TITLES.sub(r"two \1 kernels", NODE.sub(titled, text))


def _gpus(traces: Sequence[TraceData]) -> Iterator[wire.FactInfo]:
    """Yield the facts of the GPUs that the traces are for; none for traces of one GPU, or of none."""
    gpus = [gpu_of(trace) for trace in traces]
    if len({gpu.name if gpu else "" for gpu in gpus}) < 2:
        return
    facts = [gpu_facts(gpu) if gpu else {} for gpu in gpus]
    for name in dict.fromkeys(name for known in facts for name in known):
        yield {"fact": name, "values": [known.get(name, "") for known in facts]}


#: The times of a call as the overview has them, and what they are called.
TIMES: tuple[tuple[Literal["seconds", "device", "host"], str], ...] = (
    ("seconds", "a call takes"),
    ("device", "its kernels and library calls"),
    ("host", "its launches from Python"),
)
#: Figures of `Comparison.figures` that the view tells elsewhere: `TIMES`, and how long the compile took on this machine.
TOLD_ELSEWHERE = ("estimated seconds", "compile seconds")


def _times(parts: Sequence[wire.Payload]) -> Iterator[wire.FigureInfo]:
    """Yield what a call of each trace takes; None for a trace whose launches are not known."""
    infos = [part["overview"][0] for part in parts]
    known = list(dict.fromkeys(info["known"] for info in infos if info["launches"]))
    for key, name in TIMES if known else ():
        how = "assumed" if key == "host" else " or ".join(known)
        yield {
            "figure": f"{name}, {how}",
            "unit": "seconds",
            "values": [info[key] if info["launches"] else None for info in infos],
        }


def _work(names: Sequence[str], parts: Sequence[wire.Payload]) -> str:
    """Say what a call takes in each trace, and which kinds of its launches make the difference; "" where it is not known."""
    from explorer.analysis.advice.verdicts import duration  # the advice is not imported before it is asked for

    infos = [part["overview"][0] for part in parts]
    if not all(info["launches"] for info in infos):
        return ""
    known = " and ".join(dict.fromkeys(info["known"] for info in infos))
    call = ", ".join(f"{duration(info['seconds'])} in {name}" for name, info in zip(names, infos, strict=True))
    kinds = dict.fromkeys(one["what"] for info in infos for one in info["work"])
    return f"A call takes {call} ({known}): {'; '.join(_kind_of_work(kind, infos) for kind in kinds)}."


def _kind_of_work(kind: str, infos: Sequence[wire.OverviewInfo]) -> str:
    """Say how many launches of one kind each trace has, and what they take."""
    from explorer.analysis.advice.verdicts import duration  # the advice is not imported before it is asked for

    works = [[one for one in info["work"] if one["what"] == kind] for info in infos]
    seconds = [sum(one["seconds"] for one in of) for of in works]
    count = " → ".join(dict.fromkeys(f"{sum(one['count'] for one in of):,}" for of in works))
    if _apart(seconds):
        return f"{count} {kind} {' → '.join(map(duration, seconds))}"
    return f"{count} {kind} about the same ({', '.join(map(duration, seconds))})"


def _figures(comparison: Comparison) -> Iterator[wire.FigureInfo]:
    for row in comparison.figures:
        name = row["figure"]
        if name in TOLD_ELSEWHERE:
            continue
        unit: Literal["", "bytes", "seconds"] = "bytes" if "bytes" in name else "seconds" if "seconds" in name else ""
        yield {"figure": name.removesuffix(" (bytes)"), "unit": unit, "values": [row[of] for of in comparison.names]}


class _Places:
    """The places of several traces' kernels in the texts of the payload."""

    def __init__(self, comparison: Comparison, starts: Sequence[int]) -> None:
        self._traces = comparison.traces
        self._index = [{a.id: n + at for n, a in enumerate(t.artifacts)} for t, at in zip(self._traces, starts, strict=True)]

    def match(self, match: KernelMatch, likeness: Likeness) -> wire.MatchInfo:
        """Return the kernels that compute the same, with the total cost of each trace's."""
        return {
            "graph": match.graph,
            "what": likeness.what,
            "differs": match.why or str(likeness),
            "code": list(match.code),
            "kernels": [[self._place(n, k.name, k.artifact, k.line) for k in of] for n, of in enumerate(match.kernels)],
            "bytes": [_total(of, "bytes") for of in match.kernels],
            "seconds": [_total(of, "seconds") for of in match.kernels],
        }

    def _place(self, trace: int, name: str, artifact: str, line: int) -> wire.KernelPlace:
        return {"name": name, "artifact": self._index[trace].get(artifact, -1), "line": line}


def _total(kernels: Sequence[MatchedKernel], what: str) -> Any:
    """Add up a cost of some kernels; None without kernels, or if the figure of one is unknown."""
    costs = [getattr(kernel, what) for kernel in kernels]
    return sum(costs) if costs and None not in costs else None


__all__ = ["MAX_TRACES", "check_comparable", "joined", "payload_of_comparison"]
