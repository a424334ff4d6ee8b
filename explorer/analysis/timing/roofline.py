"""The roofline: each kernel by operations a byte and operations a second, below the peaks of its device. Pure.

Operations are those that Inductor counted: of matrix products, convolutions and attention, and of the loops around them. Bytes
are those that a kernel must move, each buffer once; where they are in a cache it may be above the roof of the memory. Williams,
Waterman and Patterson, "Roofline", CACM 52(4), 2009, has the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from explorer.analysis.questions.costs import call_rows, is_call, kernel_rows, loop_operations, rate_of
from explorer.analysis.questions.fusion import fusion_of
from explorer.analysis.questions.rows import GroupRow
from explorer.analysis.questions.target import gpu_of
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain, Table

COLUMNS = (
    "frame",
    "graph",
    "kernel",
    "operators",
    "operations",
    "bytes",
    "intensity",
    "seconds",
    "timed",
    "rate",
    "bandwidth",
    "dtype",
    "limit",
    "share",
    "spec_share",
)
PEAK_COLUMNS = ("what", "attained", "spec", "unit", "how")


@dataclass(frozen=True)
class Peak:
    """A peak measured on this device: "memory" in bytes/s, or a dtype's products in operations/s; `how` says by which program."""

    what: str
    rate: float
    how: str


@dataclass(frozen=True, repr=False)
class Roofline:
    """The kernels and library calls of a trace below the peaks of their device; a notebook shows the picture.

    `table()` has the kernels, `peaks()` what bounds them. `device` names where the attained peaks were measured, "" where none
    were.
    """

    _rows: tuple[Mapping[str, Plain], ...] = field(repr=False)
    peak_rows: tuple[Mapping[str, Plain], ...] = field(repr=False)
    device: str

    @property
    def table(self) -> Table:
        """One row per kernel or library call: operations, bytes, seconds of one run, and how near it is to its roof.

        `intensity` is operations a byte, `rate` operations a second, `bandwidth` bytes a second; `timed` is "measured" or
        "estimated". `limit` is "memory" or "operations": the lower roof at this intensity. `share` is the part of the attained
        roof that it reaches, `spec_share` the part of the roof by the GPU's specification. Unknown figures are None.
        """
        return Table(self._rows, COLUMNS)

    @property
    def peaks(self) -> Table:
        """One row per peak: memory in bytes/s, products of each dtype in operations/s; attained here and by the GPU's figures."""
        return Table(self.peak_rows, PEAK_COLUMNS)

    @property
    def svg(self) -> str:
        """The picture: log-log, a filled dot for a measured time, an empty one for an estimate."""
        return draw(self._rows, self.peak_rows, self.device)

    def __repr__(self) -> str:
        placed = sum(row["rate"] is not None for row in self._rows)
        return f"<Roofline of kernels and calls, {placed} of {len(self._rows)} timed; peaks: {self.device or 'not measured'}>"

    def _repr_html_(self) -> str:
        return self.svg


def roofline_of(trace: TraceData, peaks: Sequence[Peak] = (), device: str = "") -> Roofline:
    """Place the kernels and calls of a trace below peaks that were measured, and below the figures of its GPU."""
    rows = tuple(_rows(trace, {peak.what: peak.rate for peak in peaks}))
    return Roofline(rows, tuple(_peak_rows(trace, peaks, rows)), device)


def _peak_rows(trace: TraceData, peaks: Sequence[Peak], rows: Sequence[Mapping[str, Plain]]) -> Iterator[Mapping[str, Plain]]:
    measured = {peak.what: peak for peak in peaks}
    target = gpu_of(trace)
    for what in dict.fromkeys(("memory", *measured, *(row["dtype"] for row in rows if row["dtype"]))):
        peak = measured.get(what)
        spec = None if target is None else target.bandwidth if what == "memory" else rate_of(target, _product(what)) or None
        yield {
            "what": what,
            "attained": peak.rate if peak else None,
            "spec": spec,
            "unit": "bytes/s" if what == "memory" else "operations/s",
            "how": peak.how if peak else "not measured here",
        }


def _product(dtype: str) -> Mapping[str, Plain]:
    """A matrix product of a dtype, as the figures of a GPU are asked for its rate."""
    return {"operator": "aten.mm", "dtype": dtype, "template": False}


def _rows(trace: TraceData, measured: Mapping[str, float]) -> Iterator[Mapping[str, Plain]]:
    work: dict[tuple[str, str, str], list[GroupRow]] = {}
    for graph in fusion_of(trace).graphs:
        for group in graph.groups():
            for name in (group["name"],) if is_call(group) else group["kernels"]:
                work.setdefault((graph.artifact.frame, graph.artifact.graph, name), []).append(group)
    costs = [(row["kernel"], row["operators"], row) for row in kernel_rows(trace)]
    costs += [(call["node"], (call["operator"],), call) for call in call_rows(trace)]  # type: ignore[misc]
    for name, operators, cost in costs:
        groups = work.get((cost["frame"], cost["graph"], name), [])
        moved = None if cost["read"] is None or cost["written"] is None else cost["read"] + cost["written"]
        facts = {"frame": cost["frame"], "graph": cost["graph"], "kernel": name, "operators": operators}
        yield {**facts, **_placed(trace, groups, moved, cost["seconds"], cost["timed"], measured)}


def _placed(
    trace: TraceData,
    groups: Sequence[GroupRow],
    moved: int | None,
    seconds: float | None,
    timed: str,
    measured: Mapping[str, float],
) -> Mapping[str, Plain]:
    """Where one kernel lies, and the part of the roofs above it that it reaches."""
    count, dtype = _operations(groups)
    intensity = count / moved if count is not None and moved else None
    rate = count / seconds if count is not None and seconds else None
    bandwidth = moved / seconds if moved is not None and seconds else None
    target = gpu_of(trace)
    spec = {"memory": target.bandwidth, dtype: rate_of(target, _product(dtype))} if target is not None else {}
    roofs = [_roof(peaks, dtype, count, moved) for peaks in (measured, spec)]
    shares = [roof[0] / seconds if roof is not None and seconds else None for roof in roofs]
    limit = next((roof[1] for roof in roofs if roof is not None), "")
    return {
        "operations": count,
        "bytes": moved,
        "intensity": intensity,
        "seconds": seconds,
        "timed": timed,
        "rate": rate,
        "bandwidth": bandwidth,
        "dtype": dtype,
        "limit": limit,
        "share": shares[0],
        "spec_share": shares[1],
    }


def _operations(groups: Sequence[GroupRow]) -> tuple[int | None, str]:
    """Count the operations of some groups; the dtype is the most common one. None where some are not known."""
    counts: dict[str, int] = {}
    for group in groups:
        for call in group["calls"] or ():
            if call["operations"] is None:
                return None, str(call.get("dtype") or "")
            dtype = str(call.get("dtype") or "float32")
            counts[dtype] = counts.get(dtype, 0) + int(call["operations"])
        for dtype, count in loop_operations(group).items():
            counts[dtype] = counts.get(dtype, 0) + count
        if group["calls"] is None:
            return None, ""
    return (sum(counts.values()), max(counts, key=lambda name: counts[name])) if counts else (0 if groups else None, "")


def _roof(peaks: Mapping[str, float], dtype: str, count: int | None, moved: int | None) -> tuple[float, str] | None:
    """The least seconds that a kernel needs by some peaks, and which of them bounds it; None where they do not say."""
    memory, rate = peaks.get("memory"), peaks.get(dtype)
    if count is None or moved is None or not memory or (count and not rate):
        return None
    by_memory, by_rate = moved / memory, count / rate if rate else 0.0
    return (by_memory, "memory") if by_memory >= by_rate else (by_rate, "operations")


# The picture ----------------------------------------------------------------------------------------------------------

WIDE, HIGH, LEFT, BELOW, ABOVE, RIGHT = 680, 400, 70, 44, 14, 16
ATTAINED, SPEC, MEMORY, OPERATIONS = "#1a1a1a", "#777", "#0072b2", "#d55e00"


@dataclass(frozen=True)
class _Axes:
    """Log-log axes: the decades shown, and where a value of each is."""

    left: float
    right: float
    low: float
    high: float

    def x(self, value: float) -> float:
        return LEFT + (math.log10(value) - self.left) / (self.right - self.left) * (WIDE - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HIGH - BELOW - (math.log10(value) - self.low) / (self.high - self.low) * (HIGH - BELOW - ABOVE)


def draw(rows: Sequence[Mapping[str, Plain]], peaks: Sequence[Mapping[str, Plain]], device: str) -> str:
    """Draw the rows that have both an intensity and a rate, and each peak as a roof."""
    points = [row for row in rows if row["intensity"] and row["rate"]]
    left_out = len(rows) - len(points)
    about = f"attained peaks: {device}" if device else "peaks not measured"
    about += f"; {left_out} without operations or time not drawn" if left_out else ""
    axes = _axes(points, peaks)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" role="img" '
        f'aria-label="{escape("Roofline, " + about)}" font-family="ui-monospace, monospace" font-size="10" '
        f'style="max-width:100%;height:auto;background:#fff;display:block;margin:4px 0">',
        *_grid(axes),
        *_roof_lines(axes, peaks),
        *(_dot(axes, row) for row in points),
        f'<text x="{LEFT}" y="{HIGH - 6}" fill="#444">operations a byte; {escape(about)}</text></svg>',
    ]
    return "".join(parts)


def _axes(points: Sequence[Mapping[str, Plain]], peaks: Sequence[Mapping[str, Plain]]) -> _Axes:
    """Whole decades around all that is drawn."""
    rates = [row[key] for row in peaks if row["unit"] == "operations/s" for key in ("attained", "spec") if row[key]]
    highest = [*(row["rate"] for row in points), *rates] or [1.0]
    intensities = [row["intensity"] for row in points] or [1.0]
    left, right = math.floor(math.log10(min(intensities))), math.ceil(math.log10(max(intensities)) + 0.01)
    low, high = math.floor(math.log10(min(row["rate"] for row in points) if points else 1.0)), math.ceil(math.log10(max(highest)))
    return _Axes(left, max(right, left + 1), low, max(high, low + 1))


def _grid(axes: _Axes) -> Iterator[str]:
    for power in range(int(axes.left), int(axes.right) + 1):
        x = axes.x(10.0**power)
        yield f'<line x1="{x:.1f}" y1="{ABOVE}" x2="{x:.1f}" y2="{HIGH - BELOW}" stroke="#e4e4e4"/>'
        yield f'<text x="{x:.1f}" y="{HIGH - BELOW + 14}" text-anchor="middle" fill="#444">{10.0**power:g}</text>'
    for power in range(int(axes.low), int(axes.high) + 1):
        y = axes.y(10.0**power)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDE - RIGHT}" y2="{y:.1f}" stroke="#e4e4e4"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 3:.1f}" text-anchor="end" fill="#444">{_operations_a_second(10.0**power)}</text>'


def _operations_a_second(rate: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= size:
            return f"{rate / size:.3g} {unit}op/s"
    return f"{rate:.3g} op/s"


def _roof_lines(axes: _Axes, peaks: Sequence[Mapping[str, Plain]]) -> Iterator[str]:
    """For the attained peaks and for the figures: the slope of the memory up to the highest rate, and a line for each rate."""
    for key, colour, dashes in (("attained", ATTAINED, ""), ("spec", SPEC, ' stroke-dasharray="5 4"')):
        memory = next((row[key] for row in peaks if row["what"] == "memory"), None)
        rates = {row["what"]: row[key] for row in peaks if row["unit"] == "operations/s" and row[key]}
        if not memory or not rates:
            continue
        first, last = 10.0**axes.left, 10.0**axes.right
        ridge = min(last, max(rates.values()) / memory)
        begin = max(first, 10.0**axes.low / memory)
        if begin < ridge:
            ends = f'x1="{axes.x(begin):.1f}" y1="{axes.y(begin * memory):.1f}" x2="{axes.x(ridge):.1f}"'
            title = f"<title>{escape(f'memory, {key}: {memory / 1e9:.4g} GB/s')}</title>"
            yield f'<line {ends} y2="{axes.y(ridge * memory):.1f}" stroke="{colour}"{dashes}>{title}</line>'
        for name, rate in rates.items():
            start, y = max(first, min(last, rate / memory)), axes.y(rate)
            said = f"{name} {_operations_a_second(rate)}" + (" by its figures" if key == "spec" else "")
            yield f'<line x1="{axes.x(start):.1f}" y1="{y:.1f}" x2="{WIDE - RIGHT}" y2="{y:.1f}" stroke="{colour}"{dashes}/>'
            yield f'<text x="{WIDE - RIGHT}" y="{y - 3:.1f}" text-anchor="end" fill="{colour}">{escape(said)}</text>'


def _dot(axes: _Axes, row: Mapping[str, Plain]) -> str:
    colour = MEMORY if row["limit"] == "memory" else OPERATIONS
    share = row["share"] if row["share"] is not None else row["spec_share"]
    about = f"{row['kernel']}: {_operations_a_second(row['rate'])}, {row['intensity']:.3g} operations a byte, "
    about += f"{row['seconds'] * 1e6:.4g} us {row['timed']}" + (f", {share:.0%} of its roof ({row['limit']})" if share else "")
    fill = colour if row["timed"] == "measured" else "#fff"
    x, y = axes.x(row["intensity"]), axes.y(row["rate"])
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" fill-opacity=".8" stroke="{colour}" stroke-width="1.5">'
        f"<title>{escape(about)}</title></circle>"
    )
