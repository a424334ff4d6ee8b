"""Verdicts on what Nsight Compute counted: excess sectors, bank conflicts, spills, idle threads and blocks, stalls. Pure.

Every figure is the report's. What the time would be without is not measured: each cost is a bound. The times of a report are of
cold caches, and of the base clock unless ncu was told otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.analysis.advice.call_cost import Launch, TracedCall
from explorer.analysis.advice.verdicts import Cost, Verdict, duration
from explorer.analysis.counters.carried import LINES, Carried, of_kernel
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.records import typed
from explorer.model.values import Artifact
from explorer.model.wording import quantity
from explorer.stages.triton.counters import STALL, Counters, sass_of

#: Chosen here: below these parts of a kernel's sectors, wavefronts, multiprocessors or samples nothing is said.
MIN_EXCESS, MIN_SPILLED, MIN_IDLE, MIN_STALL = 0.1, 0.05, 0.2, 0.4
#: Chosen here: of the 32 threads of a warp, and of the warps that fit, in per cent.
MIN_THREADS, MIN_OCCUPANCY = 24, 25
WARP = 32
#: The blocks of a multiprocessor after which one more matters little: chosen here. So are the samples that say something.
MAX_BLOCKS, MIN_SAMPLES = 4, 30
#: Per cent of a peak below which latency bounds a kernel, by the rule of ncu's section SpeedOfLight.
LATENCY_BOUND = 60
#: A line counts as one of the causes from this part of the count on.
MIN_PART = 0.1
#: The usual reason of a stall and what helps, after "Warp Stall Reasons" of NVIDIA's Kernel Profiling Guide.
STALLS: Mapping[str, tuple[str, str]] = {
    "long_sb": ("a load from global or local memory", "more loads under way: more warps or stages, or fewer bytes"),
    "short_sb": ("shared memory or a special function", "fewer exchanges between threads, fewer exp, log and sin"),
    "mio": ("the queue of shared memory and special functions", "fewer and wider accesses of shared memory"),
    "lg": ("the queue of global and local memory", "wider loads and stores, fewer of them"),
    "barrier": ("other warps at a barrier", "fewer warps a block, or less to reduce between them"),
    "math": ("a busy arithmetic unit", "fewer operations, or those of another unit such as the tensor cores"),
    "wait": ("the fixed latency of the instruction before", "more warps, or more independent work in each"),
    "no_inst": ("instructions that are not fetched yet", "shorter code: less unrolling, smaller blocks"),
    "branch_resolve": ("the target of a branch", "fewer branches"),
    "drain": ("stores at the end of the kernel", "stores that are coalesced"),
    "gmma": ("the tensor cores", "nothing, if they are what should bound it"),
    "membar": ("a memory fence", "fewer atomics and fences"),
    "imc": ("constants that are not cached", "fewer constants"),
    "tex": ("the queue of the texture unit", "fewer accesses by it"),
}


@dataclass(frozen=True)
class Counted:
    """A kernel of a call that the report has: its launch, its counters, and its instructions with counts."""

    traced: TracedCall
    launch: Launch
    artifact: Artifact
    counters: Counters
    rows: tuple[Carried, ...]

    def total(self, name: str) -> float:
        """Sum a count over the instructions."""
        return sum(one.row.counts.get(name, 0) for one in self.rows)

    def cost(self, share: float, what: str, *, beyond: bool = False) -> Cost:
        """What a share of the kernel's time costs; `what` says what the share is of."""
        seconds, known = self.launch.seconds, self.launch.known
        how = f"at most: {what}, {share:.0%} of the kernel's {duration(seconds)}"
        return Cost(seconds * share, known, how, beyond=beyond and not self.launch.measured)

    def lines(self, name: str) -> tuple[UserLine, ...]:
        """The user lines with most of a count."""
        parts: dict[UserLine, float] = {}
        for one in self.rows:
            found = [UserLine(*place) for place in LINES.places(self.traced.trace, one)] if not one.why else []
            for line in found:
                parts[line] = parts.get(line, 0) + one.row.counts.get(name, 0) / len(found)
        least = MIN_PART * self.total(name)
        return tuple(sorted((line for line in parts if parts[line] >= least > 0), key=lambda line: -parts[line]))

    def first(self, name: str) -> Carried:
        """The instruction with most of a count."""
        return max(self.rows, key=lambda one: one.row.counts.get(name, 0))

    def verdict(self, kind: str, title: str, cost: Cost, evidence: str, remedy: str, by: str) -> Verdict:
        """Build a verdict whose lines and place are those with most of the count `by`."""
        sass, first = sass_of(self.artifact, self.traced.trace), self.first(by)
        return Verdict(
            kind,
            f"{self.counters.name} {title}",
            cost,
            f"Nsight Compute: {evidence}",
            remedy,
            self.lines(by) or self.traced.lines_of([self.launch]),
            ((sass.id, first.row.line),) if sass is not None and first.row.line else (),
            why_unproved="the counters are of this code: change it, and explorer trace --ncu counts again",
        )


def counted(traced: TracedCall) -> Iterator[Verdict]:
    """Yield the verdicts on each kernel of a call that a report has; its main stall where nothing else is found."""
    for kernel in _kernels(traced):
        found = [verdict for check in _CHECKS for verdict in check(kernel)]
        yield from found or _stalled(kernel)


def _kernels(traced: TracedCall) -> Iterator[Counted]:
    artifacts = {(a.frame, a.graph, a.kernel): a for a in traced.trace.find("counters") if not typed(Counters, a.data).why}
    for launch in traced.launches if artifacts else ():
        for kernel in traced.kernels_of(launch):
            artifact = artifacts.pop((kernel.artifact.frame, kernel.artifact.graph, kernel.name), None)
            rows = of_kernel(traced.trace, artifact) if artifact is not None else ()
            if artifact is not None and rows:
                yield Counted(traced, launch, artifact, typed(Counters, artifact.data), rows)


def _uncoalesced(kernel: Counted) -> Iterator[Verdict]:
    excess, sectors = kernel.total("excess_sectors"), kernel.total("sectors")
    if excess and excess >= MIN_EXCESS * sectors:
        first = kernel.first("excess_sectors").row
        yield kernel.verdict(
            "uncoalesced",
            f"needs {1 - excess / sectors:.0%} of the sectors that it moves",
            kernel.cost(excess / sectors, "if its time is that of its sectors", beyond=True),
            f"{excess:,.0f} of {sectors:,.0f} sectors of L2 are excess, most by {first.text} "
            f"({first.counts['excess_sectors']:,.0f} of {first.counts.get('sectors', 0):,.0f})",
            "let neighbouring threads access neighbouring elements: make the dimension that they run along the contiguous one",
            "excess_sectors",
        )


def _conflicts(kernel: Counted) -> Iterator[Verdict]:
    excess, wavefronts = kernel.total("excess_wavefronts"), kernel.total("wavefronts")
    if excess and excess >= MIN_EXCESS * wavefronts:
        first = kernel.first("excess_wavefronts").row
        share = kernel.total(f"{STALL}short_sb") + kernel.total(f"{STALL}mio")
        samples = kernel.total("samples")
        yield kernel.verdict(
            "bank conflicts",
            f"repeats {excess / wavefronts:.0%} of its accesses of shared memory",
            kernel.cost(share / samples if samples else excess / wavefronts, "the samples that wait for shared memory"),
            f"{excess:,.0f} of {wavefronts:,.0f} wavefronts of shared memory are conflicts of banks, most by {first.text} "
            f"({first.counts['excess_wavefronts']:,.0f})",
            "another block shape or number of warps gives another layout; t.kernels[n].layout() has the banks of each",
            "excess_wavefronts",
        )


def _spilled(kernel: Counted) -> Iterator[Verdict]:
    local, sectors = kernel.total("local_sectors"), kernel.total("sectors")
    if local and local >= MIN_SPILLED * (local + sectors):
        first = kernel.first("local_sectors").row
        yield kernel.verdict(
            "spills",
            f"moves {local / (local + sectors):.0%} of its sectors for local memory",
            kernel.cost(local / (local + sectors), "if its time is that of its sectors", beyond=True),
            f"{local:,.0f} sectors of local memory beside {sectors:,.0f} of global memory, most by {first.text}"
            + _registers(kernel),
            "smaller blocks, or more warps for the same block, so that each thread holds less",
            "local_sectors",
        )


def _registers(kernel: Counted) -> str:
    registers = kernel.counters.metrics.get("registers")
    return f"; {registers:.0f} registers a thread" if registers else ""


def _idle_threads(kernel: Counted) -> Iterator[Verdict]:
    executed, threads = kernel.total("executed"), kernel.total("thread_executed")
    if executed and threads and threads < MIN_THREADS * executed:
        idle = 1 - threads / executed / WARP
        yield kernel.verdict(
            "divergence",
            f"has {threads / executed:.1f} of {WARP} threads active in an instruction",
            kernel.cost(idle, "if its time is that of its instructions"),
            f"{threads:,.0f} thread instructions with their predicate on in {executed:,.0f} of warps",
            "choose block sizes that the sizes of the tensors fill: masked elements take the same time as others",
            "executed",
        )


def _few_warps(kernel: Counted) -> Iterator[Verdict]:
    occupancy, possible = (kernel.counters.metrics.get(name) for name in ("occupancy", "possible_occupancy"))
    if occupancy is None or occupancy >= MIN_OCCUPANCY or not _waits(kernel):
        return
    if kernel.counters.metrics.get("blocks", 0) < kernel.counters.metrics.get("multiprocessors", 0):
        return  # `_idle_multiprocessors` says why
    limits = {name: kernel.counters.metrics.get(f"blocks_by_{name}") for name in ("registers", "shared", "warps")}
    known = {name: limit for name, limit in limits.items() if limit}
    least = min(known, key=lambda name: known[name]) if known else ""
    limited = f"; {least} allow {known[least]:.0f} blocks on a multiprocessor" if least else ""
    allowed = f", {possible:.0f} % are possible with these blocks" if possible is not None else ""
    samples = kernel.total("samples")
    yield kernel.verdict(
        "low occupancy",
        f"has {occupancy:.0f} % of the warps that fit",
        kernel.cost(kernel.total(f"{STALL}long_sb") / samples if samples else 0.0, "the samples that wait for memory"),
        f"{occupancy:.1f} % of the warps of a multiprocessor are active{allowed}{limited}{_registers(kernel)}",
        "fewer registers or less shared memory a block: smaller blocks, fewer stages; or more blocks",
        f"{STALL}long_sb",
    )


def _idle_multiprocessors(kernel: Counted) -> Iterator[Verdict]:
    """Too few blocks for the multiprocessors, or one more on some than on the others."""
    metrics = kernel.counters.metrics
    blocks, all_of_them = metrics.get("blocks", 0), metrics.get("multiprocessors", 0)
    each = blocks / all_of_them if all_of_them else 0
    idle = 1 - each / math.ceil(each) if 0 < each <= MAX_BLOCKS else 0
    if idle < MIN_IDLE:
        return
    few = each < 1
    placed = f"{quantity(round(blocks), 'block')} for {all_of_them:.0f} multiprocessors"
    yield kernel.verdict(
        "low occupancy" if few else "tail",
        f"has {placed}" if few else f"has {placed}: most have {math.floor(each)} where some have {math.ceil(each)}",
        kernel.cost(idle, "if all multiprocessors had as much to do, and equal blocks took equally long"),
        f"{placed}, of {metrics.get('threads', 0):,.0f} threads each: {metrics.get('waves', 0):.2f} waves of what fits",
        "smaller blocks, so that there are more of them" if few else "a block size with which the blocks fill them evenly",
        "samples",
    )


def _waits(kernel: Counted) -> bool:
    """Whether neither arithmetic nor memory is near its peak, so that latency bounds the kernel; True where that is not known."""
    return all(kernel.counters.metrics.get(name, 0) < LATENCY_BOUND for name in ("compute", "memory"))


def _stalled(kernel: Counted) -> Iterator[Verdict]:
    samples = kernel.total("samples")
    stalls = {reason: kernel.total(f"{STALL}{reason}") for reason in STALLS}
    reason = max(stalls, key=lambda name: stalls[name])
    if samples < MIN_SAMPLES or stalls[reason] < MIN_STALL * samples or not _waits(kernel):
        return
    by = f"{STALL}{reason}"
    waits_for, remedy = STALLS[reason]
    first = kernel.first(by).row
    yield kernel.verdict(
        "stall",
        f"waits for {waits_for} in {stalls[reason] / samples:.0%} of its samples",
        kernel.cost(stalls[reason] / samples, "if nothing waited for it"),
        f"{stalls[reason]:,.0f} of {samples:,.0f} samples are {by}, most at {first.text} ({first.counts[by]:,.0f})",
        remedy,
        by,
    )


_CHECKS = (_uncoalesced, _conflicts, _spilled, _idle_threads, _idle_multiprocessors, _few_warps)

__all__ = ["counted"]
