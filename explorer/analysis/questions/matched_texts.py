"""Match the texts of several traces, stage by stage. Pure.

Two texts match if they are of the same stage, if their graphs are one to people (an inference graph is a forward) and if their
compiles have the same number in their traces. The texts of a kernel match those of the kernel that computes the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence

from explorer.analysis.questions.matched_kernels import KernelMatch
from explorer.analysis.questions.user_lines import FORWARD
from explorer.model.trace_data import TraceData, artifact_of

#: The kernel of a text: frame, graph and name.
Owner = tuple[str, str, str]


def matched_texts(traces: Sequence[TraceData], matches: Iterable[KernelMatch]) -> list[tuple[int, ...]]:
    """List each text that two traces or more have, as its number in each trace, -1 where a trace has none."""
    owners = _owners(traces, matches)
    rows: dict[Hashable, list[int]] = defaultdict(lambda: [-1] * len(traces))
    for number, trace in enumerate(traces):
        for at, key in enumerate(_keys(trace, owners[number])):
            rows[key][number] = at
    return [tuple(row) for row in rows.values() if sum(at >= 0 for at in row) > 1]


def _keys(trace: TraceData, owners: dict[Owner, Hashable]) -> Iterator[Hashable]:
    """What identifies each text of a trace in any trace, its number among those that are alike included."""
    frames = {frame: number for number, frame in enumerate(dict.fromkeys(a.frame for a in trace.artifacts if a.frame))}
    seen: dict[Hashable, int] = {}
    for a in trace.artifacts:
        kernel = owners.get((a.frame, a.graph, a.kernel), (a.kernel,)) if a.kernel else ()
        key = (a.stage, frames.get(a.frame, -1), FORWARD.get(a.graph, a.graph), kernel)
        seen[key] = seen.get(key, -1) + 1
        yield (*key, seen[key])


def _owners(traces: Sequence[TraceData], matches: Iterable[KernelMatch]) -> list[dict[Owner, Hashable]]:
    """Map each kernel to its match, where no trace has more than one kernel in the match."""
    found: list[dict[Owner, Hashable]] = [{} for _ in traces]
    for number, match in enumerate(matches):
        if sum(map(bool, match.kernels)) < 2 or max(map(len, match.kernels)) > 1:
            continue
        for trace, kernels, of in zip(traces, match.kernels, found, strict=True):
            for kernel in kernels:
                a = artifact_of(trace, kernel.artifact) if kernel.artifact else None  # a call has no text without the output code
                if a is not None and a.kernel:
                    of[a.frame, a.graph, a.kernel] = number
    return found


__all__ = ["matched_texts"]
