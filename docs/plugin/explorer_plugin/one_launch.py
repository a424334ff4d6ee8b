"""A check of `t.advise()`: whether one kernel or library call takes most of a call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from explorer.types import Check, Cost, Verdict

#: The share of a call above which a launch is named.
SHARE = 0.5


def ask(trace: Any) -> Iterator[Verdict]:
    """Name the launch that takes more than `SHARE` of all launches' seconds, by the times that the trace knows."""
    launches = [row for row in trace.profile.launches if row["seconds"] is not None]
    longest = max(launches, key=lambda row: row["seconds"], default=None)
    whole = sum(row["seconds"] for row in launches)
    if longest is None or longest["seconds"] <= SHARE * whole:
        return
    kernels = [a for a in trace.find("kernel") if a.kernel == longest["kernel"]]
    yield Verdict(
        kind="one launch",
        title=f"one launch takes {longest['seconds'] / whole:.0%} of the work: {longest['what']}",
        cost=Cost(longest["seconds"], "estimated", "the launch's row of t.profile.launches"),
        evidence=f"{longest['what']}: {longest['seconds'] * 1e6:.3g} µs of {whole * 1e6:.3g} µs",
        remedy="Look at this one first: all others together take less.",
        places=tuple((a.id, number) for a in kernels for number in range(1, len(a.lines) + 1)),
        why_unproved="it names a place, and proposes no change",
    )


CHECK = Check("one launch", ask)
