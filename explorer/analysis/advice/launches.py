"""Verdicts on how a call's kernels are launched: CUDA graphs skipped or recorded again, kernels too small for launches. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from explorer.analysis.advice.call_cost import LAUNCH, TracedCall
from explorer.analysis.advice.dynamo import CALLS
from explorer.analysis.advice.verdicts import Cost, Verdict, duration
from explorer.analysis.questions.tables import table
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.records import typed
from explorer.model.values import Artifact
from explorer.model.wording import quantity
from explorer.stages.inductor.cuda_graph import (
    MOVED_INPUT,
    MOVED_OUTPUT,
    NEW_SIZE,
    OTHER_PLACE,
    OTHER_THREAD,
    RECORDED_AGAIN,
    STEP_NOT_OVER,
    STILL_ALIVE,
    WARMED_UP,
    CudaGraph,
    CudaGraphs,
)

#: Fewer launches than this are not called many.
MIN_LAUNCHES = 10
#: The kind of the verdicts on graphs that were recorded again.
AGAIN = "CUDA graph recorded again"
#: A graph is recorded twice where it is used in two ways, which stays so; more is a pattern.
FEWEST_AGAIN = 2
MARK = "call torch.compiler.cudagraph_mark_step_begin() where a step begins"
#: What helps, by why a graph was recorded again.
REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        NEW_SIZE: "pad the inputs to a few sizes; or compile with options={'triton.cudagraph_skip_dynamic_graphs': True}: "
        "graphs of dynamic sizes then run without CUDA graphs; or with dynamic=False, where a few sizes have their own kernels",
        MOVED_INPUT: "keep the tensor and write the new values into it with copy_(): parameters, buffers and tensors with "
        "torch._dynamo.mark_static_address have to stay where they are; an input that moves should have no such mark",
        MOVED_OUTPUT: "pass the same kind of tensor in each call, an output of the same compiled function or a clone() of it",
        STILL_ALIVE: f"let go of the output before the next call, or keep a clone() of it; {MARK}",
        STEP_NOT_OVER: f"{MARK}, and run a forward that needs no backward under torch.no_grad()",
        OTHER_PLACE: f"call the compiled functions in the same order in each step; {MARK}",
        OTHER_THREAD: "call the function in one thread",
    }
)


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
            "make the reason go away: a buffer that the model changes belongs to the module, or is marked with "
            "torch._dynamo.mark_static_address, everything else on the GPU; or give up mode='reduce-overhead'",
            (UserLine(str(row["file"]), int(row["line"]), str(row["code"])),) if row["file"] else (),
            tuple((a.id, 1) for a in traced.trace.find("cuda_graph"))[:1],
            why_unproved="the program has to change: trace it again, and t.table('cuda_graph') says whether it is captured",
        )


def recorded_again(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each reason why the graphs of a function were recorded again, or warmed up and never recorded."""
    for artifact in traced.trace.find("cuda_graph"):
        rows = typed(CudaGraphs, artifact.data).rows
        again: dict[str, list[tuple[int, CudaGraph]]] = {}  # by why, with the numbers of the rows
        for number, row in enumerate(rows, 1):
            cause = next((cause for cause in REMEDIES if row.reason.startswith(cause)), "")
            if (row.decision == RECORDED_AGAIN and cause) or (row.decision == WARMED_UP and cause == STEP_NOT_OVER):
                again.setdefault(cause, []).append((number, row))
        calls = Counter[tuple[str, str]]()  # of each graph, or of each part of one
        for row in rows:
            calls[row.graph, row.what] += row.count or 0
        for cause, of_cause in again.items():
            if cause == MOVED_INPUT or sum(row.count or 0 for _, row in of_cause) >= FEWEST_AGAIN:
                yield _recorded_again(traced, artifact, cause, of_cause, max(calls.values()))


def _recorded_again(
    traced: TracedCall, artifact: Artifact, cause: str, numbered: list[tuple[int, CudaGraph]], calls: int
) -> Verdict:
    rows = [row for _, row in numbered]
    count, seconds = sum(row.count or 0 for row in rows), sum(row.seconds or 0.0 for row in rows)
    source = next(iter(traced.trace.find("source", artifact.frame)), None)
    function = source.data["function"] if source else artifact.frame
    did = " and ".join(dict.fromkeys(row.decision for row in rows))
    lines = dict.fromkeys(UserLine(row.file, row.line, row.code) for row in rows if row.file)
    return Verdict(
        AGAIN,
        f"CUDA graphs of {function} were {did} {quantity(count, 'time')}",
        _recording(cause, count, seconds, calls),
        "; ".join(dict.fromkeys(row.reason for row in rows)),
        REMEDIES[cause],
        tuple(lines),
        tuple((artifact.id, number) for number, _ in numbered),
        why_unproved="a trace is of one call: record the changed program again, and t.inductor.cuda_graphs counts its recordings",
    )


def _recording(cause: str, count: int, seconds: float, calls: int) -> Cost:
    """Say what recordings cost: once for each size and for a change that comes once, else in the mean of the recorded calls."""
    if cause == NEW_SIZE or count < FEWEST_AGAIN:
        return Cost(
            seconds / CALLS, "measured", f"recording took it, and it ranks as if spread over {CALLS:,} calls", once=seconds
        )
    return Cost(seconds / calls, "measured", f"{quantity(count, 'recording')} in {quantity(calls, 'call')}", beyond=True)


def launch_bound(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict where launching many small kernels takes longer than what they do."""
    asked = bool(traced.trace.find("cuda_graph"))
    if traced.is_cpu or asked or len(traced.launches) < MIN_LAUNCHES:
        return
    small = [launch for launch in traced.launches if launch.seconds < LAUNCH and not launch.unknown]
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
