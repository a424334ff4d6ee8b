"""Verdicts on how a call's kernels are launched: CUDA graphs that were skipped, kernels too small for their launches. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.analysis.advice.call_cost import LAUNCH, TracedCall
from explorer.analysis.advice.verdicts import Cost, Verdict, duration
from explorer.analysis.questions.tables import table
from explorer.analysis.questions.user_lines import UserLine

#: Fewer launches than this are not called many.
MIN_LAUNCHES = 10


def cuda_graphs(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each reason why a requested CUDA graph was not made."""
    rows = [row for row in table(traced.trace, "cuda_graph") if str(row["decision"]).startswith("skipped")]
    reasons = dict.fromkeys(str(row["reason"]) for row in rows)
    for reason in reasons:
        row = next(row for row in rows if row["reason"] == reason)
        yield Verdict(
            "CUDA graphs skipped",
            "CUDA graphs were asked for and skipped",
            _launching(traced),
            f"{row['what']}: {reason}",
            "make the reason go away: a buffer that the model changes belongs to the module, everything else on the GPU; or give "
            "up mode='reduce-overhead'",
            (UserLine(str(row["file"]), int(row["line"]), str(row["code"])),) if row["file"] else (),
            tuple((a.id, 1) for a in traced.trace.find("cuda_graph"))[:1],
            why_unproved="the program has to change: trace it again, and t.table('cuda_graph') says whether it is captured",
        )


def launch_bound(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict where launching many small kernels takes longer than what they do."""
    asked = bool(traced.trace.find("cuda_graph"))
    if traced.is_cpu or asked or len(traced.launches) < MIN_LAUNCHES:
        return
    small = [launch for launch in traced.launches if launch.seconds < LAUNCH]
    graphs = "let CUDA graphs launch them, with mode='reduce-overhead'; " if traced.has_cuda_graphs else ""
    yield Verdict(
        "launch bound",
        f"{len(small)} of {len(traced.launches)} launches do less than {LAUNCH * 1e6:.0f} µs of work",
        _launching(traced),
        f"the kernels and calls take {duration(traced.device)}, the longest of them "
        f"{duration(max(launch.seconds for launch in traced.launches))}",
        f"{graphs}batch more work into a call",
        traced.lines_of(small),
        traced.places_of(small)[:3],
        {"options": {"triton.cudagraphs": True}} if traced.has_cuda_graphs else {},
        "" if traced.has_cuda_graphs else f"CUDA graphs are traced for NVIDIA GPUs alone, and this is {_title(traced)}",
    )


def _title(traced: TracedCall) -> str:
    return traced.target.title if traced.target is not None else "none"


def _launching(traced: TracedCall) -> Cost:
    """The seconds that Python launches longer than the GPU works."""
    seconds = max(0.0, LAUNCH * len(traced.launches) - traced.device)
    how = f"{len(traced.launches)} launches from Python at an assumed {LAUNCH * 1e6:.0f} µs, less the work that goes on meanwhile"
    return Cost(seconds, "estimated", how)
