"""What each generated kernel costs: bytes read and written, and seconds, each with how it is known. Pure.

    t.kernels.table()      one row a kernel

Bytes are the scheduler's own, of the nodes that it put into a kernel. Seconds are those that Inductor measured on an
attached device, or for a GPU that is not there a roofline. Where neither is known there is none, and the row says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from explorer.errors import InputError
from explorer.fusion import Graph
from explorer.gpus import NAMED, Target
from explorer.model import Artifact, Plain, Rows
from explorer.target import attached_gpu

if TYPE_CHECKING:
    from explorer.traced import Kernel, Trace

Shape = tuple[int, ...]
#: FX nodes by name.
Nodes = Mapping[str, Mapping[str, Plain]]
#: The groups of the scheduler's nodes that a kernel computes, each with the graph it is of and that graph's FX nodes.
Groups = Sequence[tuple[Graph, Nodes, Mapping[str, Plain]]]

#: How bytes and seconds are known, or why they are not.
BYTES = "the scheduler's own count; of a buffer that is read at computed places, such as an embedding, it counts the whole"
NO_GROUPS = "no record says which scheduler nodes this kernel computes, so what it reads and writes is not known"
TOGETHER = "several kernels were written for one group of nodes, {names}: what each of them moves is not known"
MEASURED = "measured by Inductor's autotuning on the attached device, {ms:.4g} ms a launch"
ESTIMATED = "estimated, not measured: bytes at the bandwidth, or operations at the peak rate, of {title}; no launch overhead"
NOT_TIMED = "nothing timed it: Inductor times a Triton kernel only where it tries several configs, as with mode='max-autotune'"
NO_TIMING = "nothing timed it: Inductor times no kernel written in {language}; t.benchmark() times the whole function"
NO_TARGET = "no estimate: the bandwidth of {target!r} is not known here"
ATTACHED = ("cpu", "cuda", "xpu", "auto", "None")


def kernel_table(trace: Trace) -> Rows:
    """See `Kernels.table`."""
    groups: dict[tuple[str, str, str], list[tuple[Graph, Nodes, Mapping[str, Plain]]]] = {}
    for graph in trace.fusion.graphs:
        nodes = nodes_of(trace, graph)
        for group in graph.groups():
            for name in group["kernels"]:
                groups.setdefault((graph.artifact.frame, graph.artifact.graph, name), []).append((graph, nodes, group))
    places = [(k, (k.artifact.frame, k.artifact.graph, k.name)) for k in trace.kernels]
    return Rows(_row(kernel, groups.get(place, ())) for kernel, place in places)


def _row(kernel: Kernel, groups: Groups) -> dict[str, Plain]:
    a, taken = kernel.artifact, kernel.resources
    spills = [taken[key] for key in ("spill_stores", "spill_loads") if taken.get(key) is not None]
    launches = _launches(kernel, groups)
    unknown = _unknown(groups)
    read, written = (None if unknown else sum(group[key] for *_, group in groups) for key in ("read", "written"))
    seconds, timed, how = _time(kernel, groups, launches, unknown)
    return {
        "frame": a.frame, "graph": a.graph, "kernel": kernel.name, "language": kernel.language, "operators": kernel.operators,
        "launches": launches, "grid": tuple(dict.fromkeys(row.get("grid") for row in kernel.launches)),
        "registers": taken.get("registers"), "shared": taken.get("shared"), "spills": sum(spills) if spills else None,
        "read": read, "written": written, "bytes_known": unknown or BYTES,
        "seconds": seconds, "timed": timed, "seconds_known": how,
    }  # fmt: skip


def _launches(kernel: Kernel, groups: Groups) -> int | None:
    """How often the code runs the kernel once through: as the wrapper says, else as often as the scheduler wrote it."""
    if kernel.launches:
        return sum(int(row.get("times", 1)) for row in kernel.launches)
    graphs = {id(graph): graph for graph, *_ in groups}.values()
    return sum(1 for graph in graphs for name, _ in graph.verdicts.data["kernels"] if name == kernel.name) or None


def _unknown(groups: Groups) -> str:
    """Why the bytes of a kernel's groups are not the kernel's; "" where they are."""
    if not groups:
        return NO_GROUPS
    shared = next((group["kernels"] for *_, group in groups if len(group["kernels"]) > 1), ())
    return TOGETHER.format(names=", ".join(shared)) if shared else ""


def _time(kernel: Kernel, groups: Groups, launches: int | None, unknown: str) -> tuple[float | None, str, str]:
    """Seconds of all launches, "measured", "estimated" or "", and how that is known or why it is not."""
    ms = next((row.get("ms") for row in kernel.candidates if row["taken"]), None)
    if ms is not None:
        return ms / 1000 * (launches or 1), "measured", MEASURED.format(ms=ms)
    trace = kernel.trace
    target, name = target_of(trace), str(trace.meta.get("target"))
    if target is None and name in ATTACHED:
        return None, "", NOT_TIMED if kernel.language == "triton" else NO_TIMING.format(language=kernel.language)
    if target is None or unknown:
        return None, "", unknown or NO_TARGET.format(target=name)
    seconds = sum(roofline(target, group, nodes) for _, nodes, group in groups)
    return seconds, "estimated", ESTIMATED.format(title=target.title)


# The roofline ----------------------------------------------------------------------------------------------------------


def absent_of(trace: Trace) -> Target | None:
    """The GPU that is not here which a trace was made for, None for an attached device."""
    absent: Target | None = getattr(trace.live, "absent", None)
    return absent or next((t for t in NAMED if t.name == trace.meta.get("target")), None)


def target_of(trace: Trace) -> Target | None:
    """The GPU that a trace was made for, with its figures; None where they are not known, as for the CPU.

    Those of an attached GPU are asked of it, which needs the process that made the trace.
    """
    found = absent_of(trace)
    if found is None and trace.live is not None and trace.meta.get("target") == "cuda":
        try:
            found = attached_gpu()
        except InputError:
            return None
    return found if found is not None and found.bandwidth > 0 else None


def nodes_of(trace: Trace, graph: Graph) -> Nodes:
    """The nodes of the post-grad graph that a scheduler's graph was made of, by name."""
    found: tuple[Artifact, ...] = trace.find("post_grad", graph.artifact.frame, graph.artifact.graph)
    return {node["name"]: node for artifact in found for node in artifact.nodes}


def roofline(target: Target, group: Mapping[str, Plain], nodes: Nodes) -> float:
    """The least seconds of a group: the longer of its bytes at the memory's bandwidth and its operations at the peak rate."""
    moved = (group["read"] + group["written"]) / target.bandwidth
    counted = [(operations(nodes[name], nodes), nodes[name]) for name in group["fx_nodes"] if name in nodes]
    computed = sum(count / peak(target, str(node.get("dtype", ""))) for count, node in counted) if target.peak else 0.0
    return float(max(moved, computed))


def peak(target: Target, dtype: str) -> float:
    """The peak rate for a dtype in operations/s; for one that the target has no figure of, that of fp32."""
    short = {"float16": "fp16", "bfloat16": "bf16", "int8": "int8", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}.get(
        dtype, "fp32"
    )
    return target.peak.get(short, target.peak["fp32"])


def operations(node: Mapping[str, Plain], nodes: Nodes) -> float:
    """The multiplications and additions of a matrix product, convolution or attention, from its shapes; 0 for all else.

    A product of m×k and k×n is 2mkn; a convolution 2 × outputs × weights of one output channel; attention two products
    forward and five backward, whether or not a mask leaves half of them out. 0 where a size is symbolic.
    """
    count = next((rule for part, rule in OPERATIONS if part in str(node.get("target", ""))), None)
    made = [node, *(nodes[name] for name in node.get("inputs", ()) if name in nodes)]
    out, *shapes = [_sizes(one) for one in made]
    if count is None or None in (out, *shapes):
        return 0.0
    try:
        return count(out or (), [shape for shape in shapes if shape])
    except (IndexError, ValueError):
        return 0.0


def _sizes(node: Mapping[str, Plain]) -> Shape | None:
    """The sizes of a node's tensor, or of its first; None where one is symbolic."""
    sizes = node.get("shape", ()) or next((o.get("shape", ()) for o in node.get("outputs", ()) if o), ())
    return tuple(int(s) for s in sizes) if all(str(s).isdigit() for s in sizes) else None


def _product(out: Shape, shapes: Sequence[Shape]) -> float:
    return 2.0 * math.prod(out) * shapes[-2:][0][-1]  # of x @ x there is one input


def _convolution(out: Shape, shapes: Sequence[Shape]) -> float:
    return 2.0 * math.prod(out) * math.prod(shapes[1][1:])


def _attention(products: int) -> Callable[[Shape, Sequence[Shape]], float]:
    def count(out: Shape, shapes: Sequence[Shape]) -> float:
        query, key = [s for s in shapes if len(s) == 4][-3:][:2] if products == 2 else [s for s in shapes if len(s) == 4][1:3]
        return products * 2.0 * math.prod(query) * key[-2]

    return count


#: A part of an operator's name → how its operations are counted from the shape of its output and of its inputs.
OPERATIONS: tuple[tuple[str, Callable[[Shape, Sequence[Shape]], float]], ...] = (
    ("_attention_backward", _attention(5)), ("_attention", _attention(2)),
    ("aten.convolution.", _convolution), ("aten.addmm.", _product), ("aten.mm.", _product),
    ("aten.bmm.", _product), ("aten.baddbmm.", _product),
)  # fmt: skip
