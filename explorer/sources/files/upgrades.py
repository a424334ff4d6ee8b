"""What files of an older format say differently: one function for each kind that changed, by the format it changed from.

Format 1 did not say what stands in its texts: the targets of nodes, which round of passes a pattern fired in, the layouts of
buffers. They are read out of the texts here, and nowhere else. Format 2 had the name of a kernel that failed as the step of its
Failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from explorer.model.values import Event, Plain, text_lines
from explorer.stages.records import event_data

#: The format that is written now.
FORMAT = 3
Data = Mapping[str, Plain]
#: A node of an FX graph as a line: name = target(arguments), the kind of node before the target of all but calls of functions.
_NODE = re.compile(r"^\s*(?P<name>\w+) = (?:(?:placeholder|get_attr|call_module|call_method) )?(?P<target>[^\s(]+)\(")
_WORD = re.compile(r"\w+")
_LAYOUT = re.compile(
    r"^\s*(?P<name>\w+)\.layout = \w+\('[^']*', (?P<dtype>torch\.\w+), size=\[(?P<size>[^]]*)\], stride=\[(?P<stride>[^]]*)\]"
)


def _written_file(data: Data) -> Data:
    """An event had one file, or with `rows` several."""
    return {"files": data.get("rows", [data])}


def _compilation_metrics(data: Data) -> Data:
    """torch's own figures stood beside `of`."""
    return {"of": data["of"], "figures": {key: value for key, value in data.items() if key != "of"}}


def _all_metrics(data: Data) -> Data:
    """The same in an artifact, which has the figures of several compiles."""
    return {"rows": [_compilation_metrics(row) for row in data["rows"]]}


def _nodes(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Name and target of each line that is a node."""
    return [(match["name"], match["target"]) for line in lines if (match := _NODE.match(line))]


def _fx_pass(data: Data) -> Data:
    """The nodes stood in the text alone."""
    lines = text_lines(str(data["text"]))
    nodes = _nodes(lines)
    replaced = data.get("replaced") or {}
    unknown = set(data["made"]) - set(replaced) - set(data.get("stacks") or {}) if replaced else set()
    users: dict[str, list[str]] = {}
    for line in lines if unknown else ():
        name, _, rest = line.partition(" = ")
        for used in dict.fromkeys(_WORD.findall(rest.partition("(")[2])):
            if used in unknown:
                users.setdefault(used, []).append(name.strip())
    return {**data, "names": [name for name, _ in nodes], "targets": [target for _, target in nodes], "users": users}


def _pattern_match(data: Data) -> Data:
    """The targets of the nodes stood in the text alone."""
    lines = text_lines(str(data["text"]))
    between = lines.index("made")
    matched, made = dict(_nodes(lines[1:between])), dict(_nodes(lines[between + 1 :]))
    return {
        **data,
        "matched_targets": [matched.get(name, "") for name in data["matched"]],
        "made_targets": [made.get(name, "") for name in data["made"]],
    }


def _scheduler_graph(data: Data) -> Data:
    """The layouts of buffers stood in the text alone."""
    matches = (match for line in text_lines(str(data["text"])) if (match := _LAYOUT.match(line)))
    layouts = {m["name"]: {"dtype": m["dtype"], "size": _parts(m["size"]), "stride": _parts(m["stride"])} for m in matches}
    nodes = [
        {**node, "layouts": {name: layouts[name] for name in (node["name"], *node["writes"]) if name in layouts}}
        for node in data["nodes"]
    ]
    return {**data, "nodes": nodes}


#: Steps that are not the names of kernels.
_STEPS_OF_FORMAT_2 = ("gather", "render", "link", "do_bench", "compile", "launch", "watch", "unwatch", "record")


def upgraded_failure(data: Data, number: int) -> Data:
    """Return a Failure from a file of format `number`.

    In format 2, failures of the stages "kernel" and "launch" had a kernel's name as step.
    """
    if number > 2 or data["stage"] not in ("kernel", "launch") or data["step"] in _STEPS_OF_FORMAT_2:
        return data
    return {**data, "step": "ladder" if data["stage"] == "kernel" else "launch", "kernel": data["step"]}


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


#: ("event" or "artifact", its kind or stage, the format it is read from) → what makes it one of the next format.
UPGRADES: Mapping[tuple[str, str, int], Callable[[Data], Data]] = MappingProxyType(
    {
        ("event", "written_file", 1): _written_file,
        ("event", "compilation_metrics", 1): _compilation_metrics,
        ("artifact", "compilation_metrics", 1): _all_metrics,
        ("event", "fx_pass", 1): _fx_pass,
        ("event", "pattern_match", 1): _pattern_match,
        ("event", "ir_pre_fusion", 1): _scheduler_graph,
        ("event", "ir_post_fusion", 1): _scheduler_graph,
        ("artifact", "ir_post_fusion", 1): _scheduler_graph,
    }
)


def upgraded(of: str, kind: str, data: Data, number: int) -> Data:
    """The data of an event or artifact from a file of format `number`, as the present format has it."""
    for older in range(number, FORMAT):
        upgrade = UPGRADES.get((of, kind, older))
        data = data if upgrade is None else upgrade(data)
    return data


def with_sections(events: Sequence[Event]) -> list[Event]:
    """Return the events of a recording of format 1, with the round of passes in which each pattern fired.

    A post-grad round begins with the graph that is handed to Inductor; what fires before, in a graph that has a name, is of the
    joint round.
    """
    begun: dict[tuple[str, str], float] = {}
    for event in events:
        handed = {"inference": "inductor_input", "forward": "forward", "backward": "backward"}.get(event.graph)
        if event.kind == handed and event.data.get("nodes"):
            begun.setdefault((event.frame, event.graph), event.time)
    return [_with_section(event, begun) if event.kind == "pattern_match" else event for event in events]


def _with_section(event: Event, begun: Mapping[tuple[str, str], float]) -> Event:
    post_grad = begun.get((event.frame, event.graph), float("inf")) <= event.time
    section = "post_grad" if post_grad else "joint" if event.graph else "pre_grad"
    return replace(event, data=event_data(event.kind, {**event.data, "section": section}))
