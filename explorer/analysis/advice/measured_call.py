"""The verdict on a measured call whose time goes elsewhere than to its kernels. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.analysis.advice.call_cost import LAUNCH, TracedCall
from explorer.analysis.advice.dynamo import LIMITS
from explorer.analysis.advice.launches import MIN_LAUNCHES
from explorer.analysis.advice.verdicts import Cost, Verdict, duration
from explorer.analysis.questions.user_lines import UserLine
from explorer.capture.compilers.torch_compile import MARKS
from explorer.model.values import Plain
from explorer.stages.torch_compile.run_times import (
    ALLOCATING,
    CHECKING,
    CODE,
    DYNAMO,
    GUARD,
    GUARDS,
    KERNELS,
    MISSES,
    WRAPPERS,
)

#: The kinds of the verdicts, each with the parts of a call that it is about.
PARTS = {
    "guards": (GUARDS,),
    "cache entries": (MISSES,),
    "Dynamo": (DYNAMO,),
    "AOTAutograd's wrappers": (WRAPPERS,),
    "output code": (CHECKING, ALLOCATING, CODE),
    "kernels": (KERNELS,),
}
KINDS = frozenset(PARTS) - {"kernels"}
AGAIN = "t.live.cost() of the changed program shows it"
SKIP_GUARDS = "torch.compiler.set_stance(skip_guard_eval_unsafe=True)"


def dominant(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict on what takes most of a measured call; none where its kernels do, or where no call was measured."""
    seconds = {part.part: part.seconds for part in traced.parts}
    counts = {part.part: part.count for part in traced.parts}
    costs = {kind: sum(seconds.get(name, 0.0) for name in names) for kind, names in PARTS.items()}
    kind = max(costs, key=lambda each: costs[each])
    calls = counts.get(KERNELS, 0)
    are_small = calls >= MIN_LAUNCHES and costs["kernels"] / calls < LAUNCH
    if are_small and kind in ("kernels", "output code"):
        yield _small_calls(traced, calls, costs["kernels"], costs["output code"])
    elif kind in KINDS and costs[kind] > 0:
        title, remedy, what_if, prove = _about(traced, kind, counts)
        how = f"t.live.cost() timed {', '.join(PARTS[kind])} by themselves"
        evidence = f"the kernel calls take {duration(costs['kernels'])}, and a call in eager mode {duration(traced.eager or 0.0)}"
        lines = _guarded(traced) if kind == "guards" else ()
        yield Verdict(
            kind, title, Cost(costs[kind], "measured", how), evidence, remedy, lines, (), what_if, "" if what_if else prove
        )


def _small_calls(traced: TracedCall, calls: int, inside: float, around: float) -> Verdict:
    """The verdict on many kernel calls that are short beside the output code around them."""
    graphs = (
        "on a GPU let CUDA graphs launch them, with mode='reduce-overhead'; "
        if traced.has_cuda_graphs and not traced.is_cpu
        else ""
    )
    return Verdict(
        "launch bound",
        f"{calls} kernel calls take {duration(inside)}, and the output code around them {duration(around)}",
        Cost(inside + around, "measured", "t.live.cost() timed the kernel calls by themselves and the output code as a whole"),
        f"a kernel call takes {duration(inside / calls)} on average; a call in eager mode takes {duration(traced.eager or 0.0)}",
        f"{graphs}batch more work into a call; cpp_wrapper calls the kernels from C++",
        traced.lines_of(traced.launches),
        traced.places_of(traced.launches)[:3],
        {"options": {"triton.cudagraphs": True}} if graphs else {"options": {"cpp_wrapper": True}},
    )


def _about(traced: TracedCall, kind: str, counts: dict[str, int]) -> tuple[str, str, dict[str, Plain], str]:
    """The title of a verdict, what to do, and what proves it: arguments of `what_if`, or else a sentence."""
    if kind == "guards":
        return (
            f"{counts[GUARDS]} guards take more than the kernels",
            f"let the function read fewer objects, dicts and attributes; once all inputs have been met, {SKIP_GUARDS} "
            "skips most guards",
            {},
            f"{AGAIN}, and so does a call under {SKIP_GUARDS}",
        )
    if kind == "cache entries":
        return (
            f"{counts[MISSES]} cache entries are tried before the one that fits",
            "compile fewer variants: mark a size that changes as dynamic, or compile each use as a function of its own",
            {},
            f"{AGAIN}; explorer.vary(f, x) says what dynamic sizes spare",
        )
    if kind == "Dynamo":
        return _about_dynamo(traced, counts[DYNAMO])
    if kind == "AOTAutograd's wrappers":
        return (
            "AOTAutograd's wrappers take more than the kernels",
            "without gradients call it under torch.no_grad(); give it fewer inputs and outputs, and compile a larger region",
            {},
            AGAIN,
        )
    return (
        "The output code's checks, allocations and Python take more than the kernels",
        "compile a larger region; cpp_wrapper does all of it in C++",
        {"options": {"cpp_wrapper": True}},
        "",
    )


def _about_dynamo(traced: TracedCall, frames: int) -> tuple[str, str, dict[str, Plain], str]:
    """The same for Dynamo's frames: after the limit on recompiles, with several frames, or with one that is entered often."""
    if any(failure.step in LIMITS for failure in traced.trace.failures):
        title = "The limit on recompiles was reached, and code runs in eager mode since"
        remedy = f"mark the size that changes as dynamic, {MARKS}(x, 0), or keep what changes in a tensor"
        return title, remedy, {}, f"{AGAIN}; t.dynamo.recompiles has the guards that failed"
    if not frames:
        title, remedy = (
            "No compiled frame ran: the call is Python and eager operators",
            "remove what keeps Dynamo from compiling it",
        )
        return title, remedy, {}, f"{AGAIN}; t.dynamo.graph_breaks and t.failures have the reasons"
    if frames > 1:
        title = f"{frames} compiled frames take more outside of their graphs than the kernels"
        return (
            title,
            "avoid the graph breaks, so that one frame has one graph",
            {},
            f"{AGAIN}; t.dynamo.graph_breaks has the reasons",
        )
    title = "Entering the compiled function takes more than the kernels"
    return title, "compile one larger region, such as the loop that calls it, so that it is entered less often", {}, AGAIN


def _guarded(traced: TracedCall) -> tuple[UserLine, ...]:
    """The user lines of the dearest guards."""
    guards = (row for row in traced.rows if row.kind == GUARD and row.file)
    return tuple(dict.fromkeys(UserLine(row.file, row.line, row.code) for row in guards))


__all__ = ["KINDS", "dominant"]
