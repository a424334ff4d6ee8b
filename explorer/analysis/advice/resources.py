"""Verdicts on what single kernels take: registers that spill, multiprocessors left idle, C++ loops without vectors. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.analysis.advice.call_cost import Launch, TracedCall, first_line
from explorer.analysis.advice.verdicts import Cost, Verdict, duration
from explorer.analysis.questions.costs import IDLE_NEIGHBOUR_GAIN
from explorer.analysis.questions.kernels import KernelData
from explorer.model.values import Plain, text_lines
from explorer.model.wording import quantity

#: The share of a multiprocessor's warps below which too few loads are under way to fill the memory's bandwidth.
LOW = 0.125
#: Seconds that an element takes in a C++ loop without vectors, beside those of its bytes: assumed, an operation or two.
SCALAR = 1e-9


# GPU ---------------------------------------------------------------------------------------------------------------------


def spills(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each kernel whose values do not fit into its registers."""
    for launch in traced.launches:
        for kernel in traced.kernels_of(launch):
            taken = kernel.resources
            each = sum(int(taken.get(key) or 0) for key in ("spill_stores", "spill_loads"))
            if each:
                yield _spilled(traced, launch, kernel, taken, each)


def _spilled(traced: TracedCall, launch: Launch, kernel: KernelData, taken: Mapping[str, Plain], each: int) -> Verdict:
    threads = int(taken["num_warps"]) * (traced.target.warp if traced.target else 32)
    blocks = _blocks(kernel) or 1
    moved = each * threads * blocks
    return Verdict(
        "spills",
        f"{kernel.name} spills {each:,} bytes a thread",
        Cost(
            traced.seconds_of(moved),
            "estimated",
            f"each spilling instruction once, {blocks:,} blocks of {threads} threads",
            moved,
            beyond=not launch.measured,
        ),
        f"ptxas: {taken['registers']} registers, {taken.get('spill_stores')} bytes of spill stores, "
        f"{taken.get('spill_loads')} of spill loads, with num_warps={taken['num_warps']}",
        "smaller blocks, or more warps for the same block, so that each thread holds less",
        traced.lines_of([launch]),
        ((kernel.artifact.id, first_line(kernel)),),
        why_unproved="the block sizes and warps are the program's own; tune() of the kernel predicts others"
        if launch.row["kind"] == "user's kernel"
        else "",
        what_if={} if launch.row["kind"] == "user's kernel" else {"options": {"max_autotune": True}},
    )


def _blocks(kernel: KernelData) -> int | None:
    """Count the blocks of a kernel's launch; None where its grid is not known."""
    for row in kernel.launches:
        if row["grid"] and all(isinstance(part, int) for part in row["grid"]):
            return math.prod(row["grid"])
    return None


def idle(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each kernel that leaves most of the GPU idle: too few blocks, or too few warps at a time."""
    if traced.target is None:
        return
    for launch in traced.launches:
        for kernel in traced.kernels_of(launch):
            yield from _few_blocks(traced, launch, kernel)
            yield from _few_warps(traced, launch, kernel)


def _few_blocks(traced: TracedCall, launch: Launch, kernel: KernelData) -> Iterator[Verdict]:
    target, blocks = traced.target, _blocks(kernel)
    if target is None or not blocks or blocks * IDLE_NEIGHBOUR_GAIN >= target.multiprocessors or launch.measured:
        return
    full = traced.seconds_of(launch.row["read"] + launch.row["written"])
    longer = full * target.multiprocessors / (IDLE_NEIGHBOUR_GAIN * blocks) - full
    yield Verdict(
        "low occupancy",
        f"{kernel.name} has {quantity(blocks, 'block')} for {target.multiprocessors} multiprocessors",
        Cost(
            longer,
            "estimated",
            f"a block has at most {IDLE_NEIGHBOUR_GAIN:.0f} times its part of the bandwidth; all of them: {duration(full)}",
            beyond=not launch.row["rows"],  # the estimate counts the rows of a reduction
        ),
        f"the wrapper launches it with the grid {kernel.launches[0]['grid']}",
        "give each block less to do, and launch more of them",
        traced.lines_of([launch]),
        ((kernel.artifact.id, first_line(kernel)),),
        why_unproved="the grid is the program's own"
        if launch.row["kind"] == "user's kernel"
        else "no option of Inductor's gives this kernel more blocks",
    )


def _few_warps(traced: TracedCall, launch: Launch, kernel: KernelData) -> Iterator[Verdict]:
    occupancy = kernel.resources.get("occupancy")
    if occupancy is None or occupancy["fraction"] > LOW or launch.measured or launch.row["calls"]:
        return
    if kernel.resources.get("spill_stores"):
        return  # the same registers, said by `spills`
    full = traced.seconds_of(launch.row["read"] + launch.row["written"])
    longer = full * (2 * LOW / occupancy["fraction"] - 1)
    yield Verdict(
        "low occupancy",
        f"{kernel.name} runs {occupancy['warps']} warps at a time on a multiprocessor",
        Cost(
            longer,
            "estimated",
            f"at most: if bandwidth falls with the warps below {2 * LOW:.0%} of those that fit",
            beyond=True,
        ),
        f"{occupancy['fraction']:.0%} of the warps that fit, limited by {occupancy['limited_by']}",
        "fewer registers or less shared memory a block: smaller blocks, fewer stages",
        traced.lines_of([launch]),
        ((kernel.artifact.id, first_line(kernel)),),
        why_unproved="what_if changes what Inductor decides; t.kernels has its candidates, and what each takes",
    )


# C++ ---------------------------------------------------------------------------------------------------------------------

_FOR = re.compile(r"^\s*for ?\((?:int64_t|long) (\w+)=.*?; *\1 *< *(?:static_cast<int64_t>\()?(\d+)L?\)*; *\1 *\+(.*)\)\s*$")
_STEP = re.compile(r"\((\d+)L?\)|(?<=[+=])\s*(\d+)$")
#: A function that is called for one element of a vector after the other.
_LANES = re.compile(r"tmpbuf_out\[i\] = (?:std::)?(\w+)\(")


@dataclass(frozen=True)
class Loop:
    """An innermost loop of a C++ kernel: its line, how often it runs, whether on vectors, what is called lane by lane."""

    line: int
    runs: int
    vectors: bool
    lanes: tuple[str, ...] = ()


def loops(text: str) -> Iterator[Loop]:
    """Yield the innermost loops of a C++ kernel, as Inductor writes them: each nested one is indented more."""
    open_loops: list[tuple[int, int, int]] = []  # indentation, runs, line
    lines = text_lines(text)
    for number, line in enumerate(lines, 1):
        indentation = len(line) - len(line.lstrip())
        head = _FOR.match(line)
        if head is None:
            continue
        while open_loops and open_loops[-1][0] >= indentation:
            open_loops.pop()
        step = _STEP.search(head[3])
        runs = max(1, int(head[2]) // (int(step[1] or step[2]) if step else 1))
        open_loops.append((indentation, runs, number))
        body = _body(lines[number:], indentation)
        if not any(_FOR.match(inner) for inner in body):
            traced = "\n".join(body)
            lanes = tuple(dict.fromkeys(_LANES.findall(traced)))
            yield Loop(number, math.prod(count for _, count, _ in open_loops), "at::vec" in traced, lanes)


def _body(lines: list[str], indentation: int) -> list[str]:
    """The lines of a loop's body: up to the brace that stands where the loop does."""
    for number, line in enumerate(lines):
        if line.strip() == "}" and len(line) - len(line.lstrip()) == indentation:
            return lines[: number + 1]
    return lines


def scalar(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each C++ kernel with a long loop that computes an element at a time."""
    for launch in traced.launches:
        for kernel in traced.kernels_of(launch):
            if kernel.language == "cpp":
                yield from _scalar(traced, launch, kernel)


def _scalar(traced: TracedCall, launch: Launch, kernel: KernelData) -> Iterator[Verdict]:
    every = list(loops(kernel.source))
    slow = [loop for loop in every if not loop.vectors or loop.lanes]
    lanes = tuple(dict.fromkeys(name for loop in slow for name in loop.lanes))
    width = _width(kernel.source)
    elements = sum(loop.runs * (width if loop.lanes else 1) for loop in slow)
    if not elements:
        return
    worst = max(slow, key=lambda loop: loop.runs)
    yield Verdict(
        "not vectorised",
        f"{kernel.name} computes {elements:,} elements one at a time",
        Cost(
            elements * SCALAR,
            "estimated",
            f"{SCALAR * 1e9:.0f} ns an element assumed, on one thread, beside its bytes",
            beyond=not launch.measured,
        ),
        f"line {worst.line}: {_why(kernel.source, lanes)}",
        f"compute it without {', '.join(lanes)}: vectors have no such function" if lanes else _remedy(kernel.source),
        traced.lines_of([launch]),
        ((kernel.artifact.id, worst.line),),
        why_unproved="Inductor has no option that gives this loop vectors; the line has to change",
    )


def _width(source: str) -> int:
    """How many elements a vector of the kernel has; 16 where it does not say."""
    found = re.search(r"\+=static_cast<int64_t>\((\d+)L\)\)", source)
    return int(found[1]) if found else 16


#: What C++ names in a loop, and what Inductor's vectors do not have (`VECTORIZABLE_DTYPES`, and index expressions of its tiling).
_REASONS = (
    (
        r"\b(?:complex|c10::complex)\b",
        "complex numbers have no vectors here",
        "compute with the real and the imaginary part",
    ),
    (
        r"randint64_cpu|rand_cpu|randn_cpu",
        "random numbers are drawn one at a time",
        "draw them outside of the loop",
    ),
    (r"atomic_add", "several elements may add to one place", "use a one-hot product where it is small"),
)


def _why(source: str, lanes: tuple[str, ...]) -> str:
    if lanes:
        return f"inside a loop of vectors {', '.join(lanes)} is called for one lane after the other"
    found = next((why for pattern, why, _ in _REASONS if re.search(pattern, source)), "")
    return f"the loop has no at::vec{f': {found}' if found else ', and Inductor gives no reason'}"


def _remedy(source: str) -> str:
    found = next((remedy for pattern, _, remedy in _REASONS if re.search(pattern, source)), "")
    return found or "read memory in its own order, in a dtype that has vectors"
