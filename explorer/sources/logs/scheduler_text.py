"""Read the scheduler's nodes from the text that `TORCH_COMPILE_DEBUG=1` writes of them. Pure.

The text does not say which FX nodes a scheduler node computes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from explorer.model.values import text_lines
from explorer.stages.inductor.scheduler_ir import SchedulerNode, SchedulerText
from explorer.stages.readable_graph import sizes_of

_HEADER = re.compile(r"^(?P<name>\w+): (?P<kind>\w*(?:Scheduler|Foreach|Fused|Kernel)\w*)\(")
_DEPENDENCY = re.compile(r"(?:Memory|Star|Weak)Dep\((?:name=)?'([^']+)'")
_DEVICE = re.compile(
    r"\.group\.device = (?P<group>\S+)|Layout\('(?P<layout>[^']+)'|device\(type='(?P<type>\w+)'(?:, index=(?P<index>\d+))?"
)
_RANGES = re.compile(r"^\w+\.group\.iteration = \((.*)\)$", re.MULTILINE)


def nodes_of_text(text: str) -> SchedulerText:
    """The record of a text, with its nodes; nodes inside a fused one are named by it."""
    lines = text_lines(text)
    starts = [(number, header) for number, line in enumerate(lines) if (header := _HEADER.match(line))]
    ends = [*(number for number, _ in starts[1:]), len(lines)]
    parts = [(header, "\n".join(lines[number:end])) for (number, header), end in zip(starts, ends, strict=True)]
    inside = {name for header, part in parts for name in _fused(header["name"], part)}
    whole = [number for number, (header, _) in enumerate(parts) if header["name"] not in inside]
    borders = [*whole[1:], len(parts)]
    nodes = tuple(_node(parts[first:end]) for first, end in zip(whole, borders, strict=True))
    writers = {buffer: node.name for node in nodes for buffer in node.writes}
    linked = (replace(node, inputs=tuple(sorted({writers.get(b, b) for b in node.reads}))) for node in nodes)
    return SchedulerText(text=text, nodes=tuple(linked))


def _fused(name: str, part: str) -> Sequence[str]:
    """The names of the nodes inside a fused one, which its name puts together."""
    return name.split("_") if f"{name}.snodes[" in part else ()


def _node(parts: Sequence[tuple[re.Match[str], str]]) -> SchedulerNode:
    """Make a node from its own text and the texts of the nodes inside it."""
    header, own = parts[0]
    name, whole = header["name"], "\n".join(part for _, part in parts)
    ranges = next((found[1] for _, part in parts if (found := _RANGES.search(part))), "")
    writes = tuple(dict.fromkeys(_dependencies(own, f"{name}.writes")))
    reads = (n for field in ("unmet_dependencies", "met_dependencies") for n in _dependencies(own, f"{name}.{field}"))
    device = _DEVICE.search(whole)
    return SchedulerNode(
        name=name,
        kind=header["kind"],
        device=_device_of(device) if device else "",
        fused=tuple(_fused(name, own)),
        inputs=(),
        reads=tuple(sorted({n for n in reads if n not in writes})),
        writes=writes,
        sizes=tuple((size,) for size in sizes_of(ranges)),
        origins=(),
        line_count=len(text_lines(whole.rstrip())),
    )


def _device_of(match: re.Match[str]) -> str:
    """The device that a text names, such as "cuda:0"."""
    index = f":{match['index']}" if match["index"] else ""
    return match["group"] or match["layout"] or f"{match['type']}{index}"


def _dependencies(text: str, field: str) -> Iterator[str]:
    """The buffers of a field, which may go on over several lines."""
    start = text.find(f"{field} =")
    if start >= 0:
        rest = text[start:]
        end = re.search(r"\]\s*$", rest, re.MULTILINE)
        yield from _DEPENDENCY.findall(rest[: end.end() if end else len(rest)])
