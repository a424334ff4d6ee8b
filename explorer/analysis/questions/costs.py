"""The cost of each generated kernel and library call: bytes, operations and seconds, each with its source. Pure.

    t.kernels.table            one row per kernel
    t.inductor.extern_calls    one row per library call

`observe/work.py` counts bytes and operations during the compile, from the scheduler's nodes. Seconds are those that Inductor
measured on an attached device. Otherwise they are an estimate: a launch, and the longer of the times for the bytes and for the
operations, at the share of the GPU's peak that kernels reach. A profile that was read in comes before both. Each share was
measured: see `SHARES`. An unknown figure is None, and the row says why. `outside` says how a row differs from those that the
estimate was validated on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from explorer.analysis.questions.collectives import is_collective, is_wait
from explorer.analysis.questions.fusion import Graph, fusion_of
from explorer.analysis.questions.kernels import KernelData, candidate_rows, first_form, kernel_launches, kernels_of
from explorer.analysis.questions.profile import how_measured, parts_by_place, seconds_a_run
from explorer.analysis.questions.rows import CallRow, GroupRow, KernelRow
from explorer.analysis.questions.target import compiled_for, gpu_of
from explorer.model.records import typed
from explorer.model.shared import Kernel, OperatorCall
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Table
from explorer.model.wording import quantity
from explorer.reference.gpus.figures import Target
from explorer.reference.gpus.properties import WORDS
from explorer.stages.fx_graph import runs_inside
from explorer.stages.triton.origins import Launch

#: The groups of scheduler nodes that a kernel computes, each with its graph.
Groups = Sequence[tuple[Graph, GroupRow]]

#: The source of bytes and seconds, or why they are unknown.
BYTES = "what its loops address, each buffer once; for a gather, such as an embedding, only the rows it looks up"
CALL_BYTES = "the operands and results of the call, each once"
NO_GROUPS = "no record says which scheduler nodes this kernel computes, so what it reads and writes is not known"
TOGETHER = "several kernels were written for one group of nodes, {names}: what each of them moves is not known"
MEASURED = "measured by Inductor's autotuning on the attached device, {ms:.4g} ms a launch"
ESTIMATED = "estimated for {title}, not measured. {limited}"
UNSIZED = "sizes that only the run knows: {names}"
NOT_TIMED = "nothing timed it: Inductor times a Triton kernel only where it tries several configs, as with mode='max-autotune'"
NO_TIMING = (
    "nothing timed it: Inductor benchmarks Triton kernels only, and this is {kind}; t.benchmark() times the whole function"
)
NO_TARGET = "no estimate: the bandwidth of {target!r} is not known here"
EXCHANGED = "no estimate here: a collective takes as long as what connects the GPUs does, see its row of t.collectives.table"
WAITED = "a wait moves no bytes: what is left of its collective when it is reached is `exposed` in t.collectives.table"
#: The kind of group that is a kernel of the user's own.
OWN_KIND = "user's kernel"


def kernel_table(trace: TraceData) -> Table:
    """See `Kernels.table`."""
    return Table(kernel_rows(trace), KernelRow.__annotations__)


def kernel_rows(trace: TraceData) -> list[KernelRow]:
    """List a row for each of `kernels_of`, in its order."""
    groups: dict[tuple[str, str, str], list[tuple[Graph, GroupRow]]] = {}
    for graph in fusion_of(trace).graphs:
        for group in graph.groups():
            for name in group["kernels"]:
                groups.setdefault((graph.artifact.frame, graph.artifact.graph, name), []).append((graph, group))
    places = [(k, (k.artifact.frame, k.artifact.graph, k.name)) for k in kernels_of(trace)]
    return [_row(kernel, groups.get(place, ())) for kernel, place in places]


def _row(kernel: KernelData, by_scheduler: Groups) -> KernelRow:
    a, form = kernel.artifact, first_form(kernel._trace, kernel.artifact)
    own = typed(Kernel, a.data)
    groups = [group for graph, group in by_scheduler for _ in range(runs_of(kernel._trace, graph))] or own_group(a)
    taken = form.metadata if form is not None else {}
    spills = [taken[key] for key in ("spill_stores", "spill_loads") if taken.get(key) is not None]
    in_wrapper = kernel_launches(kernel._trace, a)
    launches = _launches(kernel, in_wrapper, by_scheduler)
    unknown = _unknown(groups) if groups else own.bytes_known or NO_GROUPS
    read, written = (None if unknown else sum(group[key] for group in groups) for key in ("read", "written"))
    time = _time(kernel, groups, launches, unknown)
    return {
        "frame": a.frame,
        "graph": a.graph,
        "kernel": kernel.name,
        "language": kernel.language,
        "operators": kernel.operators,
        "launches": launches,
        "grid": tuple(dict.fromkeys(row["grid"] for row in in_wrapper)),
        "registers": taken.get("registers"),
        "shared": taken.get("shared"),
        "spills": sum(spills) if spills else None,
        "read": read,
        "written": written,
        "bytes_known": unknown or own.bytes_known or BYTES,
        "operations": None if unknown else summed(operations(group) for group in groups),
        "seconds": time.seconds,
        "launch_seconds": time.launches,
        "limit": time.limit,
        "timed": time.timed,
        "seconds_known": time.known,
        "outside": time.outside,
    }


def call_table(trace: TraceData) -> Table:
    """See `t.inductor.extern_calls`."""
    return Table(call_rows(trace), CallRow.__annotations__)


def call_rows(trace: TraceData) -> list[CallRow]:
    """List a row for each library call, in the scheduler's order."""
    groups = ((graph, group) for graph in fusion_of(trace).graphs for group in graph.groups())
    return [_call_row(trace, graph, group) for graph, group in groups if is_call(group)]


#: The class of torch/_inductor/ir.py for one run of a region. What the region launches is counted instead, once for each run.
REGION = "InvokeSubgraph"
#: Classes there for numbers of the host: such a node reads or checks a size, and launches nothing.
OF_THE_HOST = frozenset({"AssertScalar", "DynamicScalar", "DynamicSelectStorageOffset", "DynamicSliceSize"})


def is_call(group: GroupRow) -> bool:
    """Tell whether a group is a library call, or a template that became one."""
    if group["kind"] == "extern":
        return group["call"] not in OF_THE_HOST and group["call"] != REGION
    return group["kind"] == "template" and not group["kernels"]


def runs_of(trace: TraceData, graph: Graph) -> int:
    """How often a call of the outermost graph runs this graph: more than once if it is a region that several nodes invoke."""
    lowered = trace.find("post_grad", graph.artifact.frame, graph.artifact.graph) if graph.of else ()
    return runs_inside(lowered[-1], graph.of) if lowered else 1


def uses_of(trace: TraceData, kernel: Artifact) -> int:
    """How often a call runs the region that a kernel was compiled for; 1 for a kernel of no region, or of several graphs."""
    place = (kernel.frame, kernel.graph)
    graphs = [graph for graph in fusion_of(trace).graphs if (graph.artifact.frame, graph.artifact.graph) == place]
    holding = [graph for graph in graphs if any(name == kernel.kernel for name, _ in graph.verdicts.data.kernels)]
    return runs_of(trace, holding[0]) if len(holding) == 1 else 1


def exchanges(group: GroupRow) -> bool:
    """Tell whether a group is a collective, or the wait for one."""
    called = group.get("call", "")
    return is_collective(called) or is_wait(called)


def _call_row(trace: TraceData, graph: Graph, group: GroupRow) -> CallRow:
    unknown = unsized([group])
    call: Mapping[str, Plain] = next(iter(group["calls"] or ()), {})
    runs, counted = runs_of(trace, graph), operations(group)
    time = _call_time(trace, graph, group, unknown, runs)
    return {
        "frame": graph.artifact.frame,
        "graph": graph.artifact.graph,
        "node": group["name"],
        "call": group["call"],
        "operator": call.get("operator", ""),
        "dtype": call.get("dtype", ""),
        "operations": None if counted is None else counted * runs,
        "launches": runs,
        "read": None if unknown else group["read"] * runs,
        "written": None if unknown else group["written"] * runs,
        "bytes_known": unknown or CALL_BYTES,
        "seconds": time.seconds,
        "launch_seconds": time.launches,
        "limit": time.limit,
        "timed": time.timed,
        "seconds_known": time.known,
        "outside": time.outside,
    }


def _launches(kernel: KernelData, in_wrapper: Sequence[Launch], groups: Groups) -> int | None:
    """Count a kernel's launches in one run: from the wrapper, else from the scheduler's list of kernels.

    `trace(kernel, …)` traces one launch.
    """
    graphs = {id(graph): graph for graph, *_ in groups}.values()
    runs = [runs_of(kernel._trace, graph) for graph in graphs]
    if in_wrapper and max(runs, default=1) == 1:
        return sum(1 if row.times is None else row.times for row in in_wrapper)
    kernels = ((count, name) for graph, count in zip(graphs, runs, strict=True) for name, _ in graph.verdicts.data.kernels)
    listed = sum(count for count, name in kernels if name == kernel.name)
    return listed or (1 if typed(Kernel, kernel.artifact.data).bytes_known else None)


def own_group(kernel: Artifact) -> list[GroupRow]:
    """Return what a hand-written kernel computes as the scheduler has it of one inside a compiled function; [] without bytes."""
    own = typed(Kernel, kernel.data)
    if own.read is None or own.written is None:
        return []
    uncounted = OperatorCall(operator=kernel.kernel, operations=None, template=False)
    return [
        {
            "frame": kernel.frame,
            "graph": kernel.graph,
            "name": kernel.kernel,
            "nodes": (),
            "kind": OWN_KIND,
            "kernels": (kernel.kernel,),
            "call": "",
            "buffers": (),
            "fx_nodes": (),
            "read": own.read,
            "written": own.written,
            "unsized": (),
            "calls": (uncounted,),
            "elementwise": None,
            "one_block": None,
            "rows": None,
            "run": None,
            "lookups": (),
            "reread": 0,
            "strided": False,
            "before": (),
            "after": (),
            "prologue": (),
            "epilogue": (),
        }
    ]


def _unknown(groups: Sequence[GroupRow]) -> str:
    """Say why a kernel's bytes are unknown; "" if its groups' bytes are its own."""
    shared = next((group["kernels"] for group in groups if len(group["kernels"]) > 1), ())
    return TOGETHER.format(names=", ".join(shared)) if shared else unsized(groups)


def unsized(groups: Sequence[GroupRow]) -> str:
    """Say why the bytes of some groups are unknown; "" if they are known."""
    names = dict.fromkeys(name for group in groups for name in group["unsized"])
    return UNSIZED.format(names=", ".join(names)) if names else ""


@dataclass(frozen=True)
class _Time:
    """The seconds of all launches, their kind, their source, and what of it was not validated.

    The kind is "measured", "estimated" or "". Without seconds the source says why they are unknown.
    """

    seconds: float | None
    timed: str
    known: str
    outside: str = ""
    launches: float | None = None
    limit: str = ""


def _call_time(trace: TraceData, graph: Graph, group: GroupRow, unknown: str, runs: int) -> _Time:
    if profiled := _profiled(trace, graph.artifact.frame, graph.artifact.graph, group["name"]):
        return profiled
    if is_wait(group["call"]):
        return _Time(0.0, "estimated", WAITED, launches=0.0)
    if is_collective(group["call"]):
        return _Time(None, "", EXCHANGED)
    target = gpu_of(trace)
    if target is None or unknown:
        return _Time(None, "", unknown or no_target(trace))
    one = estimate(target, group)
    if one.seconds is None:
        return _Time(None, "", one.outside)
    return _Time(one.seconds * runs, "estimated", _how_estimated(one, target), one.outside, one.launch * runs, one.limit)


def _profiled(trace: TraceData, frame: str, graph: str, name: str) -> _Time | None:
    """The time that a profile measured of a kernel or call; None without one."""
    part = parts_by_place(trace).get((frame, graph, name))
    return _Time(seconds_a_run(part), "measured", how_measured(trace, part)) if part is not None else None


def _time(kernel: KernelData, groups: Sequence[GroupRow], launches: int | None, unknown: str) -> _Time:
    if profiled := _profiled(kernel._trace, kernel.artifact.frame, kernel.artifact.graph, kernel.name):
        return profiled
    ms = measured_ms(kernel)
    if ms is not None:
        return _Time(ms / 1000 * (launches or 1), "measured", MEASURED.format(ms=ms))
    target = gpu_of(kernel._trace)
    if target is None or unknown:
        why = unknown if target is not None else ""
        return _Time(None, "", why or no_target(kernel._trace, kernel.language))
    estimates = [estimate(target, group) for group in groups]
    if unknown_kernel := next((one.outside for one in estimates if one.seconds is None), ""):
        return _Time(None, "", unknown_kernel)
    slowest = max(estimates, key=lambda e: e.seconds or 0.0)
    return _Time(
        sum(one.seconds or 0.0 for one in estimates),
        "estimated",
        _how_estimated(slowest, target),
        "; ".join(dict.fromkeys(one.outside for one in estimates if one.outside)),
        sum(one.launch for one in estimates),
        slowest.limit,
    )


def measured_ms(kernel: KernelData) -> float | None:
    """Return the milliseconds of a launch that autotuning measured for the config taken; None where it timed nothing."""
    return next((row.get("ms") for row in candidate_rows(kernel) if row["taken"]), None)


def _how_estimated(launch: Estimate, target: Target) -> str:
    return ESTIMATED.format(title=target.title, limited=launch.limited)


def no_target(trace: TraceData, language: str = "") -> str:
    """Say why there is no estimate for the trace's target."""
    target = compiled_for(trace)
    if target.is_absent_gpu:
        return NO_TARGET.format(target=target.name)
    return NOT_TIMED if language == "triton" else NO_TIMING.format(kind=language or "a library call")


# The estimate ----------------------------------------------------------------------------------------------------------


#: The part of a launch that limits its estimated time.
LIMITS = {
    "launch": "the launch",
    "memory": "memory bandwidth",
    "L2": "L2 bandwidth",
    "operations": "arithmetic",
    "places": "accesses one by one",
}
#: Why a launch is limited so, where it reaches no share of a peak.
WHY = {
    "launch": "it does little work",
    "L2": "its bytes fit in L2",
    "places": "it looks up single elements, or adds to them",
}
#: Seconds of a kernel that does next to nothing: one that Inductor generates, one whose threads wait for each other (reductions,
#: transposing copies), a library's, and cuDNN's attention, which clears its workspace before. Measured on an H200 by
#: benchmarks/estimates.py, as are all figures of this kind below.
LAUNCHES = MappingProxyType({"generated": 0.9e-6, "waiting": 1.3e-6, "library": 2.0e-6, "attention": 4.0e-6})
#: How much faster L2 is than memory. A kernel's bytes are in L2 up to the first share of its size, and none above the second.
L2_SPEED, L2_SHARES = 2.0, (0.3, 0.8)
#: What DRAM and L2 hand out at the least, in bytes: https://docs.nvidia.com/nsight-compute/ProfilingGuide (sector).
SECTOR = 32
#: The least seconds of a reduction whose elements lie apart: its loads wait for memory one after the other.
STRIDED = 2.5e-6
#: Lookups of single elements, and sectors of atomic additions, for each multiprocessor and clock. Measured on an H200.
LOOKUPS, ADDITIONS = 0.8, 0.45
#: Seconds between two atomic additions to one sector: 4 Mi additions to 1024 floats took 360 µs on an H200.
SAME_SECTOR = 11e-9
#: Blocks of a loop over long rows that run on a multiprocessor at once: Inductor gives each 512 of 2048 threads.
BLOCKS = 4
#: Bytes of a row from which a block has one row (`triton_heuristics._reduction_configs`: a step takes 2048 elements).
LONG_ROW = 8192
#: How much more than its part of the bandwidth a multiprocessor can have where others are idle.
IDLE_NEIGHBOUR_GAIN = 2.0
#: The share of the peak that kernels reach, by what they compute.
SHARES: Mapping[str, float] = MappingProxyType(
    {
        "memory": 0.90,
        "elementwise": 0.75,
        "mm": 0.80,
        "template": 0.75,
        "attention": 0.69,
        "attention_backward": 0.55,
        "attention_fp32": 0.5,
        "conv": 0.65,
        "conv_backward": 0.45,
        "conv_grouped": 0.15,
        "conv_grouped_fp32": 0.095,
        "int8_rows": 0.065,
        "split_scan": 0.185,
    }
)
#: The share of busy multiprocessors above which it is not said how many blocks a call has.
MOSTLY_BUSY = 0.9
#: How the name of a kernel begins whose reductions hold a row in one block, and of one whose blocks scan one row together.
IN_ONE_BLOCK, SPLIT_SCAN = "triton_per", "triton_spl"
#: The inner size from which attention reaches its share; at smaller ones the exponentials weigh more.
HEAD = 128
#: Tiles of a result that one block computes and what they reach; the inner size that is worth a block of its own.
TILES, SPLIT = ((128, 1.0), (64, 0.8)), 256
#: The GPUs that the estimate was compared with.
VALIDATED = ("NVIDIA H200", "NVIDIA H100")
#: Parts of the names of the operators that it was compared with.
VALIDATED_CALLS = ("mm", "convolution", "attention", "linear_backward")  # the last is MPS's name of two products
FEW_CHANNELS = "a convolution of fewer than 8 channels, which cuDNN pads"
TRANSPOSED = "a transposed convolution, for which cuDNN takes kernels with tensor cores or, up to 30 times slower, without"
NO_RATE = "the rate of {dtype} on this GPU is not known: its bytes alone"
NO_SHARE = "the share of the peak that {operator} reaches was not measured"
UNKNOWN_CALL = "no estimate: nothing is known of how long {operator} takes; on the GPU, t.benchmark() times the whole function"
#: Operators without counted operations that take as long as their bytes: seeds for random numbers, and copies.
BY_BYTES = ("inductor_seeds", "randint", "clone", "copy", "fill", "zero", "constant_pad_nd", "cat")
OTHER_GPU = "the shares were measured on H100 and H200, not on {title}"
NOT_COUNTED = "recorded by a version of explorer that did not count operations: its bytes alone"
NO_LOOKUPS = "recorded by a version of explorer that counted neither lookups nor second passes over rows"
OTHER_KERNEL = "a kernel of the user's own: its bytes alone"


@dataclass(frozen=True)
class Estimate:
    """The seconds of one launch, its limit in `LIMITS`, how it differs from validated launches, else "", and its floor.

    The seconds are None for an operator that nothing is known of; `outside` then names it.

    `launch` are the seconds that the launch takes whatever it computes. `limited` says what limits it and what it reaches of that
    peak, and how many blocks share its operations if they leave multiprocessors idle: of two products with equally many
    operations, the one with fewer blocks takes longer.
    """

    seconds: float | None
    limit: str
    outside: str = ""
    launch: float = 0.0
    limited: str = ""


def estimate(target: Target, group: GroupRow) -> Estimate:
    """Estimate a group's seconds: a launch, and the longer of bytes and operations; 0 if it runs nothing.

    0 too for a collective and its wait, whose time is no kernel's: see `priced_collectives`.
    """
    if exchanges(group):
        return Estimate(0.0, "launch")
    if group["kind"] in ("nop", "output of a call") or not (group["kernels"] or group["read"] or group["written"]):
        return Estimate(0.0, "launch")
    if unknown := unknown_call(group):
        return Estimate(None, "", UNKNOWN_CALL.format(operator=unknown))
    moved = group["read"] + group["written"] + copied(group) + _beside_lookups(target, group)
    kept = 0.0 if group["run"] else resident(target, moved)
    tail = _last_round(target, group)
    streamed = moved / _bandwidth(target, group) / (1 + (L2_SPEED - 1) * kept) * (tail if kept else 1)
    parts = {
        "L2" if kept else "memory": streamed + _reread_seconds(target, group),
        "operations": _operation_seconds(target, group) * tail,
    }
    launch, one_by_one = LAUNCHES[_launch(group)], _place_seconds(target, group)
    seconds = max(launch + max(parts.values()) + one_by_one, STRIDED if group["strided"] else 0.0)
    parts["places"] = one_by_one
    limit = max(parts, key=lambda name: parts[name])
    limit = limit if parts[limit] > launch else "launch"
    sentences = (_limited(target, group, limit, moved, seconds), _idle(target, group, limit))
    return Estimate(seconds, limit, _outside(target, group), launch, " ".join(filter(None, sentences)))


def unknown_call(group: GroupRow) -> str:
    """Name the operator of a library call or template that nothing is known of; "" for any other group."""
    if group["kind"] not in ("extern", "template"):
        return ""
    uncounted = (call for call in group["calls"] or () if call["operations"] is None)
    names = (str(call["operator"] or group["call"] or "this call") for call in uncounted)
    return next((name for name in names if name.rpartition(".")[2].rstrip("_") not in BY_BYTES), "")


def _limited(target: Target, group: GroupRow, limit: str, moved: float, seconds: float) -> str:
    """Say what limits a launch, with its rate and the peak; without them if the launch has no peak or several."""
    what, why = LIMITS[limit], WHY.get(limit, "")
    if limit == "memory":
        why = f"{moved / seconds / 1e9:,.0f} of {target.bandwidth / 1e9:,.0f} GB/s"
    if limit == "operations":
        peaks = {(call.get("dtype"), rate_of(target, call)) for call in group["calls"] or ()}
        dtype, peak = peaks.pop() if len(peaks) == 1 else (None, 0.0)
        if dtype:
            what = f"{dtype} {what}"
        if peak and (count := operations(group)):
            why = f"{count / seconds / 1e12:,.3g} of {peak / 1e12:,.0f} TFLOP/s"
    return f"Limited by {what}: {why}." if why else f"Limited by {what}."


def _idle(target: Target, group: GroupRow, limit: str) -> str:
    """Say how many blocks compute a group's only call, where they keep too few multiprocessors busy."""
    blocks = [blocks_of(target, call)[1] for call in group["calls"] or ()]
    if limit != "operations" or len(blocks) != 1 or not blocks[0] or (busy := _full(target, blocks[0])) > MOSTLY_BUSY:
        return ""
    fill = "fills" if blocks[0] == 1 else "fill"
    return f"{quantity(blocks[0], 'block')} {fill} {100 * busy:.0f} % of the {target.multiprocessors} {WORDS[target.vendor][0]}."


def _launch(group: GroupRow) -> str:
    if group["kernels"]:
        return "waiting" if group["rows"] or group["run"] else "generated"
    return "attention" if any("attention" in str(call["operator"]) for call in group["calls"] or ()) else "library"


def resident(target: Target, moved: float) -> float:
    """Estimate the share of a kernel's bytes that is in L2: all of few, none of many, or none where its size is not known."""
    if not target.l2:
        return 0.0
    least, most = L2_SHARES
    return min(1.0, max(0.0, (most - moved / target.l2) / (most - least)))


def _bandwidth(target: Target, group: GroupRow) -> float:
    """Estimate bytes per second: the memory's rate, or less for a reduction of few rows on few multiprocessors."""
    whole = target.bandwidth * SHARES["memory"]
    rows = group["rows"]
    if _is(group, SPLIT_SCAN):
        return target.bandwidth * SHARES["split_scan"]
    return min(whole, IDLE_NEIGHBOUR_GAIN * whole * rows / target.multiprocessors) if rows else whole


def _is(group: GroupRow, category: str) -> bool:
    """Tell whether a group's kernel is of a category.

    Inductor writes the category of a Triton kernel into its name (`get_kernel_category_by_source_code`).
    """
    return any(str(name).startswith(category) for name in group["kernels"])


def _last_round(target: Target, group: GroupRow) -> float:
    """Estimate how much longer a loop over long rows takes because its last round of blocks leaves multiprocessors idle."""
    rows, at_once = group["rows"] or 0, BLOCKS * target.multiprocessors
    if rows <= at_once or _is(group, IN_ONE_BLOCK) or group["read"] / rows < LONG_ROW:
        return 1.0
    return -(-rows // at_once) * at_once / rows


def _reread_seconds(target: Target, group: GroupRow) -> float:
    """Estimate the time of a second pass over rows: it finds them in L2 if the rows of all running blocks fit there."""
    again, rows = group["reread"] or 0, group["rows"]
    if not again or not rows or _is(group, IN_ONE_BLOCK):
        return 0.0
    running = min(rows, BLOCKS * target.multiprocessors) * again / rows
    return again / _bandwidth(target, group) / (1 + (L2_SPEED - 1) * resident(target, running))


def _beside_lookups(target: Target, group: GroupRow) -> float:
    """Count the bytes that memory hands out beside single elements: two sectors at a time, for what is not in L2."""
    alone = (each for each in group["lookups"] or () if not each["adds"] and each["run"] <= SECTOR)
    return sum(float(each["count"] * SECTOR * (1 - resident(target, each["buffer"]))) for each in alone)


def _place_seconds(target: Target, group: GroupRow) -> float:
    """Estimate the time of lookups of single elements, and of atomic additions to places spread evenly over their buffer."""
    turns = target.multiprocessors * target.clock
    lookups = group["lookups"] or () if turns else ()
    seconds = 0.0
    for each in lookups:
        sectors = each["count"] * -(-each["run"] // SECTOR)
        if each["adds"]:
            seconds += max(sectors / (ADDITIONS * turns), SAME_SECTOR * sectors / max(1, each["buffer"] // SECTOR))
        elif each["run"] <= SECTOR:
            seconds += sectors / (LOOKUPS * turns)
    return seconds


def copied(group: GroupRow) -> int:
    """Count the bytes that a group moves beyond its reads and writes.

    A transposing copy touches each sector of rows that are shorter several times. Where the channels of a convolution's input
    do not lie side by side, cuDNN copies what goes in and comes out.
    """
    if run := group["run"]:
        return int((group["read"] + group["written"]) * max(0, SECTOR // run - 1))
    calls = [call for call in group["calls"] or () if "conv" in str(call["operator"]) and call.get("strides")]
    elsewhere = any(call.get("groups") == 1 and len(call["strides"][0]) > 3 and call["strides"][0][1] != 1 for call in calls)
    return 2 * int(group["read"] + group["written"]) if elsewhere else 0


def _operation_seconds(target: Target, group: GroupRow) -> float:
    """Estimate the time of a group's library operators and of its loops."""
    whole = [_call_seconds(target, call) for call in group["calls"] or ()]
    loops = [
        count / (rate * SHARES["elementwise"])
        for dtype, count in loop_operations(group).items()
        if (
            rate := target.peak.get("fp64" if dtype == "float64" else "fp32", 0.0) / 2
        )  # the peak counts a fused multiply-add as two
    ]
    return float(sum(whole) + sum(loops))


def loop_operations(group: GroupRow) -> Mapping[str, int]:
    """Count the operations of a group's loops by dtype.

    A reduction has others where one block holds a row than where it loops over it.
    """
    counts: Mapping[str, int] | None = group["one_block"] if _is(group, IN_ONE_BLOCK) else None
    return counts or group["elementwise"] or {}


def _call_seconds(target: Target, call: Mapping[str, Plain]) -> float:
    rate = rate_of(target, call)
    count = call["operations"]
    return count / (rate * share_of(call) * filled(target, call)) if rate and count else 0.0


def share_of(call: Mapping[str, Plain]) -> float:
    """Return the share of the peak that an operator's kernels reach if their tiles fill the GPU."""
    operator, sizes = str(call["operator"]), call.get("sizes") or (1, 1, 1, HEAD)
    backward = "_backward" if "backward" in operator else ""
    if "attention" in operator:
        if call.get("dtype") == "float32":
            return SHARES["attention_fp32"]
        return SHARES[f"attention{backward}"] * float(min(1.0, sizes[3] / HEAD) ** 0.5)
    if "conv" in operator:
        if call.get("transposed"):  # cuDNN computes it as the gradient of a convolution's input
            return SHARES["conv_backward"]
        if _grouped(call):
            return SHARES["conv_grouped_fp32" if call.get("dtype") == "float32" else "conv_grouped"]
        return SHARES[f"conv{backward}"]
    if call.get("dtype") == "int8" and call.get("strides") and call["strides"][-1][-1] == 1:
        return SHARES["int8_rows"]
    return SHARES["template" if call["template"] else "mm"]


def _grouped(call: Mapping[str, Plain]) -> bool:
    """Tell whether a convolution's groups have fewer channels than a tensor core takes at a time."""
    return int(call.get("groups") or 1) > 1 and min(call["sizes"][2:]) < 16


def filled(target: Target, call: Mapping[str, Plain]) -> float:
    """Estimate the share of busy multiprocessors: few tiles leave some idle, and so does the last round."""
    return blocks_of(target, call)[0]


def blocks_of(target: Target, call: Mapping[str, Plain]) -> tuple[float, int]:
    """Estimate the share of busy multiprocessors, and the blocks that compute the call; (1.0, 0) where nothing says its sizes."""
    sizes = call.get("sizes")
    if not sizes or _grouped(call):
        return 1.0, 0
    batch, rows, columns, inner = sizes
    if "attention" in str(call["operator"]):
        blocks = batch * -(-rows // TILES[0][0])
        return _full(target, blocks), blocks
    if "conv" in str(call["operator"]):
        side = TILES[0][0]
        blocks = batch * -(-rows // side) * -(-columns // side)
        return _full(target, blocks) * float(min(1.0, columns / side)), blocks
    return max(
        (reached * _full(target, blocks * split), blocks * split)
        for side, reached in TILES
        if (blocks := batch * -(-rows // side) * -(-columns // side))
        for split in (1, max(1, min(inner // SPLIT, target.multiprocessors // blocks)))
    )


def _full(target: Target, blocks: int) -> float:
    """Return the share of multiprocessors that this number of blocks keeps busy, over all its rounds."""
    rounds = -(-blocks // target.multiprocessors)
    return blocks / (rounds * target.multiprocessors) if blocks else 1.0


def rate_of(target: Target, call: Mapping[str, Plain]) -> float:
    """Return the peak rate of an operator's products, in operations/s; 0.0 if it is unknown.

    float32 runs in TF32 where torch allowed it and the GPU has it. A Triton template has no tensor cores below compute
    capability 8.0.
    """
    dtype = str(call.get("dtype", ""))  # a call of an unknown operator has no dtype
    if call["template"] and target.vendor == "nvidia" and target.capability < (8, 0) and dtype == "float16":
        return target.peak.get("fp32", 0.0)
    if dtype in ("float16", "bfloat16", "float32") and "conv" in str(call["operator"]) and _grouped(call):
        return target.peak.get("fp32", 0.0)  # cuDNN's kernels for these use no tensor cores
    names = ("tf32", "fp32") if dtype in ("float32", "complex64") and call.get("tf32") else RATES.get(dtype, ())
    return next((target.peak[name] for name in names if name in target.peak), 0.0)


#: torch's dtypes → the rates for their products; the first that a GPU has counts.
RATES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "float32": ("fp32",),
        "complex64": ("fp32",),
        "float64": ("fp64_tensor", "fp64"),
        "complex128": ("fp64_tensor", "fp64"),
        "float16": ("fp16",),
        "bfloat16": ("bf16", "fp32"),
        "int8": ("int8",),
        "uint8": ("int8",),
        "float8_e4m3fn": ("fp8",),
        "float8_e5m2": ("fp8",),
        "float8_e4m3fnuz": ("fp8",),
        "float8_e5m2fnuz": ("fp8",),
        "float4_e2m1fn_x2": ("fp4",),
    }
)


def operations(group: GroupRow) -> int | None:
    """Count the operations of a group's matrix products, convolutions and attention; None if some are unknown."""
    return None if group["calls"] is None else summed(call["operations"] for call in group["calls"])


def summed(counts: Iterable[int | None]) -> int | None:
    """Add up; None if a part is unknown."""
    listed = list(counts)
    return None if None in listed else sum(count or 0 for count in listed)


def _outside(target: Target, group: GroupRow) -> str:
    """Say how a group differs from those that were compared with measured times; "" if it does not."""
    if group["calls"] is None:
        return NOT_COUNTED
    if group["kind"] == OWN_KIND:
        return OTHER_KERNEL
    reasons = []
    for call in group["calls"]:
        operator, dtype = str(call["operator"]), str(call.get("dtype", ""))
        if call["operations"] is not None and not any(name in operator for name in VALIDATED_CALLS):
            reasons.append(NO_SHARE.format(operator=operator))
        elif call["operations"] is not None and not rate_of(target, call):
            reasons.append(NO_RATE.format(dtype=dtype))
        elif "conv" in operator and call.get("channels", 8) < 8 and call.get("groups") == 1:
            reasons.append(FEW_CHANNELS)
        elif call.get("transposed") and dtype in ("float16", "bfloat16"):
            reasons.append(TRANSPOSED)
    if group["kernels"] and group["lookups"] is None:
        reasons.append(NO_LOOKUPS)
    if not any(name in target.title for name in VALIDATED):
        reasons.append(OTHER_GPU.format(title=target.title))
    return "; ".join(dict.fromkeys(reasons))
