"""Explain the scheduler's reasons in a plain sentence each; quote a reason that is not in the tables.

`{a}` and `{b}` are the two nodes in the scheduler's order, `{0}`, `{1}` … what the scheduler says of them, `{shared}` the
bytes they share, and `{max_fusion_size}` and the like are settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from explorer.model.records import Record, record
from explorer.model.shared import Names, Setting
from explorer.model.values import Call


class Rule(NamedTuple):
    """The scheduler's reason, or where it gave none the file, line and function that refused."""

    said: str
    file: str
    line: int
    function: str


@record
class MadeBuffer(Record):
    """A buffer that lowering put in memory: the FX node under way, and the place in `paths` of the calls that led to it.

    `output`, `needed_by`, `users`, `reads` and `operations` are what Inductor decides by; `most_reads` and
    `most_operations` are its limits, of the settings `setting_reads` and `setting_operations`.
    """

    buffer: str
    lowering: str
    path: int
    output: bool | None = None
    needed_by: Names | None = None
    users: int | None = None
    reads: int | None = None
    operations: int | None = None
    most_reads: int | None = None
    setting_reads: str | None = None
    most_operations: int | None = None
    setting_operations: str | None = None
    heavy: Names | None = None


#: The reasons that concern speed alone, which `fuse=` overrides: those of Inductor's choices, which by Inductor's rule are not needed
#: for correctness, those of its timing, and a request to keep two nodes apart.
FOR_SPEED = (
    "no shared data",
    "no shared data due to indexing mismatch",
    "exceeds max fusion",
    "Fusion will increase peak memory",
    "fusion_prevent_too_many_reads_and_writes",
    "score_fusion_memory_threshold",
    "Nodes are too far away. Fusing them may increase peak memory.",
    "speedup_by_fusion",
    "register spilling of the first kernel",
    "register spilling of the second kernel",
    "register spilling of the fused kernel",
    "vetoed",
)
#: What the scheduler says → what it means.
SENTENCE_BY_REASON: Mapping[str, str] = MappingProxyType(
    {
        # neither direction
        "no shared data": "{a} and {b} read and write nothing in common in the same order, so one kernel would save no memory traffic.",
        "no shared data due to indexing mismatch": "{a} and {b} touch the same buffer, but in a different order, so one kernel could not reuse the values that it loads.",
        "exceeds max fusion": "{a} and {b} together are more than {max_fusion_size} nodes, the most that one kernel may hold (max_fusion_size).",
        "Fusion will increase peak memory": "One kernel for {a} and {b} would keep inputs of both alive that could be reused in between: more than 32 times what "
        "it saves ({shared} bytes).",
        "fusion_prevent_too_many_reads_and_writes": "One kernel for {a} and {b} would touch more than {max_fusion_unique_io_buffers} buffers "
        "(max_fusion_unique_io_buffers).",
        "will create cycle": "An earlier fused group must run between {a} and {b}: fusing them would make a cycle.",
        "device mismatch (%s vs %s)": "{a} runs on {0} and {b} on {1}: a kernel runs on one device.",
        "fusion for buffer explicit disabled": "Lowering asked for a separate kernel for a buffer of {a} or {b}.",
        "grouped node must not be fused with other nodes": "{a} or {b} is part of a group with a fixed order, such as communication. The scheduler fuses nothing into such a group.",
        "speedup_by_fusion": "{a} and {b} could be fused, but one kernel is no faster: Inductor timed it, or assumed so where it could not time.",
        "register spilling of the first kernel": "{a} alone already needs more registers than there are, so nothing is added to it.",
        "register spilling of the second kernel": "{b} alone already needs more registers than there are, so nothing is added to it.",
        "register spilling of the fused kernel": "One kernel for {a} and {b} would need more registers than there are, and spill them to memory.",
        "vetoed": "{a} and {b} were kept apart by keep_apart=.",
        # torch 2.15
        "a consumer depends on another producer sub-node": "The kernels of one foreach run at the same time, but a part of {b} needs a part of {a} that it is not paired with.",
        "incompatible reduction contracts": "{a} and {b} are reductions that promise different orders of summing, and one kernel could keep only one promise.",
        "template fusion does not preserve strict reduction ordering": "{b} must sum in a fixed order, which it would lose inside the template {a}.",
        "reduction fusion does not preserve strict reduction ordering": "{a} or {b} must sum in a fixed order, which one kernel for both reductions would not keep.",
        "nested reduction append planning failed": "{a} is a reduction inside a reduction, and there is no plan for adding {b} to it.",
        "nested reduction append producer placement mismatch": "{a} is a reduction inside a reduction, and its parts do not run where {b} does.",
        "sub-parent epilogue planning failed": "{a} looks like a reduction, and {b} like work on a part of its elements, but Inductor found no plan that covers all of it.",
        "consumer is not wholly in the sub-parent epilogue": "Only a part of {b} follows the reduction {a} on the same elements, so it cannot be added as a whole.",
        "staged fusion dependency proof failed": "Inductor could not prove that a kernel in stages for {a} and {b} reads each value only when it is ready.",
        "staged reduction plan would be lost": "{a} or {b} is a reduction in stages, and one kernel for both would not keep its stages.",
        "invalid sub-parent epilogue fusion": "{b} would have to follow the reduction {a} on a part of its elements, and their loops do not allow it.",
        # calls
        "node1 is extern or nop": "{a} is a call of a library, or computes nothing: there is no loop to add {b} to.",
        "node1 is nop": "{a} computes nothing: it only says where its result lies.",
        "node1 is extern but not a triton kernel": "{a} is a call of a library: there is no loop to add {b} to.",
        "node1's triton kernel doesn't support epilogue fusion": "{a} is a Triton kernel that the user wrote, and it does not end with a store that {b} could be put before.",
        "node1 is extern but node2 is not SchedulerNode": "{a} is a Triton kernel that the user wrote; only a single pointwise node can be added to it, not {b}.",
        "node1 is extern but node2.node is not SchedulerNode": "{a} is a Triton kernel that the user wrote; only a single pointwise node can be added to it, not {b}.",
        "node1 is extern but node2.node.data is not Pointwise": "{a} is a Triton kernel that the user wrote; only a pointwise node can be added to it, and {b} is not one.",
        "epilogue reads from buffers other than the mutated output": "{a} is a Triton kernel that the user wrote; {b} reads more than its output, and Inductor cannot add such loads to it.",
        "epilogue is not a unary read of the output buffer": "{a} is a Triton kernel that the user wrote; {b} reads more than its output, and Inductor cannot add such loads to it.",
        "epilogue's read and write indices differ": "{a} is a Triton kernel that the user wrote; {b} does not write where it reads, so it cannot be put before the kernel's store.",
        "node1 and node2 uses different buf layouts": "{a} is a Triton kernel that the user wrote; {b} writes its result in a different layout.",
        "node2 is extern or nop": "{b} is a call of a library, or computes nothing: it is not a loop that could be added to {a}.",
        "node1 must go before node2": "{a} needs the result of {b}: they can only be fused the other way round.",
        # templates
        "prologue fusion turned off": "Nothing is computed inside a template's loads: prologue fusion is off (prologue_fusion, and max_autotune).",
        "prologue fusion only supported for pointwise nodes": "Only pointwise nodes can be computed while the template {b} loads its inputs, and {a} is not one.",
        "prologue fusion only supported for TritonTemplates": "{b} is not a Triton template, so {a} cannot be computed while it loads its inputs.",
        "template has no allowed prologue inputs": "The template {b} cannot compute anything while it loads its inputs.",
        "prologue fusion not implemented for kernel for these inputs": "The template {b} can compute something while it loads some of its inputs, but not the one that {a} makes.",
        "template prologue can only fuse functional pointwise nodes": "{a} changes a buffer in place, which cannot be done inside the loads of the template {b}.",
        "template prologue can only fuse nodes with a single use": "A part of {a} is used outside it too, so it has to be in memory and not only inside the loads of {b}.",
        "template prologue can only fuse nodes with a single use into template": "The result of {a} is used elsewhere than in the template {b} too, so it has to be in memory.",
        "prologue fusion will not increase amount of bytes read in kernel": "{a} reads more bytes than it writes, so the template {b} would load more if it computed {a} itself.",
        "prologue fusion will not increase attempt to fuse in padding bc it increases unaligned reads": "{a} only pads, and the template {b} would load unaligned addresses if it padded by itself.",
        "prologue fusion that must be upcast to fp32 not profitable for low precision templates": "{a} must be computed in fp32, while the template {b} loads 16 bits or less.",
        "template epilogue not satisfied": "{b} cannot be computed before the template {a} stores its result: only pointwise nodes without mutation can, and "
        "only with epilogue_fusion on.",
        "multi-output template epilogue requires ComputedBuffer": "{a} is a template with several outputs; {b} is not a loop that could be computed before it stores one.",
        "template fusion does not preserve strict sum ordering": "The order of a sum was asked to be kept, and fusing with a template would change it.",
        "reduction fusion does not preserve strict sum ordering": "The order of a sum was asked to be kept, and fusing {a} and {b} would change it.",
        # foreach
        "foreach do not have same length": "{a} and {b} are lists of operations of different lengths, so they cannot be paired one by one.",
        "candidate producer is a reduction, foreach ops cannot be fused with reductions currently": "{a} is a reduction, and nothing but pointwise nodes is fused into a foreach kernel.",
        "candidate consumer is a reduction, foreach ops cannot be fused with reductions currently": "{b} is a reduction, and nothing but pointwise nodes is fused into a foreach kernel.",
        "candidate producer is not dep of any foreach consumer": "None of the operations in the foreach kernel {b} reads what {a} makes.",
        "candidate consumer has no dep in any foreach producer": "{b} reads the results of several operations of the foreach kernel {a}, or of none.",
        # producer and consumer
        "memory deps did not match": "{b} does not read the elements that {a} has just written, so it must wait for all of {a}.",
        "intermediate nodes between node1 & node2": "{b} also needs a node that itself needs {a}: that node has to run in between.",
        # siblings
        "score_fusion_memory_threshold": "{a} and {b} share {shared} bytes, fewer than the {score_fusion_memory_threshold} that make a kernel of both "
        "worth it (score_fusion_memory_threshold).",
        "Nodes are too far away. Fusing them may increase peak memory.": "{a} and {b} are more than 64 nodes apart in the program; one kernel for both would keep the buffers in between alive.",
        # Triton
        "Split scan cannot fuse with reductions": "One of {a} and {b} is a scan that several blocks work on, the other a reduction: they cannot share a kernel.",
        "numel/rnumel mismatch (reduce) (%s, %s), (%s, %s)": "{a} and {b} are reductions of different shape: {a} makes {0} results of {2} elements each, {b} {1} of {3}.",
        "invalid loop order and tiling for native matmul": "{a} or {b} is a matrix product that Inductor writes itself, and the other's loops run in another order.",
        "numel/rnumel mismatch (non-reduce) (%s, %s), (%s, %s)": "{a} computes {0} elements and {b} {1}: one loop cannot do both.",
        "numel/rnumel mismatch prologue mismatch (%s, %s), (%s, %s)": "{a} computes {0} elements, but the nodes already in that load compute {1}.",
        "tiling mismatch (%s, %s, %s)": "{a} walks through memory in tiles of {0}, {b} of {1}: together they would lose the tiles that suit them.",
        "nodes numel/rnumel incompatibility": "The pointwise node has as many elements as the reduction has inputs, but its sizes do not divide the same way.",
        "invalid tiling for reduction": "The pointwise node is best computed in two-dimensional tiles, and a reduction's loop cannot be tiled like that.",
        "nodes numel incompatibility": "The pointwise node has neither as many elements as the reduction has results, nor as many as it has inputs.",
    }
)

_OTHER_RANGES = "The loops of {a} and {b} do not run over the same ranges, so the C++ backend cannot make one loop of them."
_NO_OUTER = (
    "{b} needs results that {a} has only at the end of a loop, and their outer loops differ, so the C++ backend cannot put "
    "both into one outer loop."
)
#: The function that said no without a word → what it means.
SENTENCE_BY_FUNCTION: Mapping[str, str] = MappingProxyType(
    {
        "CppScheduling.can_fuse_horizontal": "Side by side the C++ backend fuses at most {cpp.max_horizontal_fusion_size} nodes (cpp.max_horizontal_fusion_size), "
        "and no template.",
        "CppScheduling._can_fuse_horizontal_impl": "One of {a} and {b} is several loops under one outer loop. The C++ backend puts nothing beside them.",
        "CppScheduling._why_fuse_nodes": _OTHER_RANGES,
        "CppScheduling._can_fuse_nodes_with_compatible_ranges": _OTHER_RANGES,
        "CppScheduling._align_compatible_range_nodes": _OTHER_RANGES,
        "CppScheduling.can_fuse_vertical": "After a template, the C++ backend can add only pointwise nodes that its epilogues support; before it, nothing.",
        "CppScheduling.can_fuse_vertical_outer_loop": _NO_OUTER,
        "CppScheduling._get_outer_loop_fusion_depth": _NO_OUTER,
        "PallasScheduling.can_fuse": "{a} and {b} reduce the same buffer in different orders. Inductor's Pallas keeps the dimensions that are reduced, so their results would not fit together in one kernel.",
        "template_fusion_with_epilogues_supported": "The C++ template {a} writes its output in another order than {b} reads it.",
        "FusedMixOrderReductions.can_fuse_with": "{a} is two reductions over the same data in different order; {b} can be added to neither alone.",
        "FusedMixOrderReductions.sub_node_can_fuse": "{a} is two reductions over the same data in different order; {b} can be added to neither alone.",
        "FusedNestedReductions.can_fuse_with": "{a} is a reduction inside another; {b} fits the loops of neither.",
    }
)


class _Known(dict[str, object]):
    """Values for a sentence; one that is not known is "?"."""

    def __missing__(self, key: str) -> object:
        return "?"


def words(rule: Rule, args: Sequence[str]) -> str:
    """Quote a rule in the scheduler's words, or name the function that refused without any."""
    if rule.said:
        try:
            return rule.said % tuple(args) if "%s" in rule.said else rule.said
        except TypeError:
            return f"{rule.said} {tuple(args)}"
    return f"{rule.function} ({rule.file}:{rule.line})" if rule.function else "(no reason given)"


def sentence(rule: Rule, args: Sequence[str], *, a: str, b: str, **settings: object) -> str:
    """Word a rule as one plain sentence; quote a rule that is not in the tables."""
    template = SENTENCE_BY_REASON.get(rule.said) or (SENTENCE_BY_FUNCTION.get(rule.function) if not rule.said else None)
    if template is None:
        quoted = words(rule, args)
        if rule.said:
            return f"The scheduler refuses {a} with {b}: {quoted}."
        return f"The scheduler refuses {a} with {b} without giving a reason, in {quoted}."
    values = _Known(settings, a=a, b=b, **{str(n): arg for n, arg in enumerate(args)})
    return re.sub(r"\{([\w.]+)\}", lambda m: str(values[m[1]]), template)


# Why a buffer is made --------------------------------------------------------------------------------------------------

#: A function on the way to the making of a buffer → why it is made; the first that is found, from the innermost out.
WHY_REALIZED: tuple[tuple[str, str], ...] = (
    (r"create_multilayer|_multilayer", "a reduction too long for its few results is split in two, and this is the first half"),
    (r"check_for_split_dense_dim_reindexing", "a full reduction of it reads memory in the buffer's own order"),
    (
        r"^(Welford|OnlineSoftmax|MultiOutput|ArgReduction|Arg)\w*Reduction\.",
        "a reduction with several results, which one loop makes together",
    ),
    (r"make_reduction|^Reduction\.|cumsum|^Scan\.|^SplitScan\.|^Sort\.|scan", "a reduction, scan or sort, made by a loop"),
    (r"ExternKernel\.copy_input|require_(exact_)?strides?|require_stride", "an operator asks for certain strides"),
    (r"GraphLowering\.output", "it is an output of the graph"),
    (r"foreach|register_foreach", "a list of operations makes its results in one foreach kernel"),
    (r"random|seed", "it holds random numbers, which are drawn once"),
    (r"ConcatKernel|cat\b|realize_into", "it is written straight into the buffer that it is a part of"),
    (
        r"realize_input|realize_inputs|ExternKernel|FallbackKernel|Conv|conv|mm_args|tuned_|fallback",
        "{lowering} reads it, and library calls and templates read from memory",
    ),
    (r"mutate|copy_|index_put|scatter|set_", "it is changed in place, or changes another buffer in place"),
    (r"pool|gather|index_|upsample|embedding|roll|grid|take", "its elements are read several times or at computed places"),
)


def why_made(row: MadeBuffer, path: Sequence[Call], settings: Mapping[str, Setting]) -> str:
    """Say in a few words why lowering put a value in memory."""
    functions = [function for _, _, function in path]
    if row.output and any("require" in f or "copy_input" in f for f in functions):
        return "it is an output of the graph, with the strides that eager gives it"
    if any(f.endswith("mark_reuse") for f in functions):
        return _made_for_reuse(row, settings)
    if "GraphLowering.run_node" in functions and not any("require" in f or "copy_input" in f for f in functions):
        return _made_by_lowering(row, functions, settings)
    for function in functions:
        for pattern, why in WHY_REALIZED:
            if re.search(pattern, function):
                return why.replace("{lowering}", row.lowering or "a call")
    return f"{asked_by(path)[2] or 'lowering'} asks for it in memory"


def asked_by(path: Sequence[Call]) -> Call:
    """The file, line and function that asked for a buffer: the innermost that is not the box itself."""
    asked = [call for call in path if not call[2].startswith(("MutableBox.", "StorageBox.", "TensorBox.", "BaseView."))]
    return (asked or list(path) or [("", 0, "")])[0]


def _made_by_lowering(row: MadeBuffer, functions: Sequence[str], settings: Mapping[str, Setting]) -> str:
    """Why GraphLowering.run_node, which comes after each node's lowering, put the result in memory."""
    if any(f.endswith("realize_hint") for f in functions):
        if row.needed_by:
            return f"{', '.join(row.needed_by)} reads it from memory, and others use it too"
        return _too_much(row, settings, "computing it where it is read would")
    if row.output:
        return "it is an output of the graph"
    if row.operations is not None:
        most = max(100, row.most_operations or 0)  # GraphLowering.run_node: has_large_inner_fn(threshold=100)
        return f"it is {row.operations} operations, more than the {most} that are computed where a value is read"
    return "it is too large to be computed where it is read"


def _made_for_reuse(row: MadeBuffer, settings: Mapping[str, Setting]) -> str:
    """Why a value that several nodes use is put in memory."""
    used = f"it is used {row.users} times, and computing it again"
    most = settings.get("realize_reads_threshold")
    if row.heavy:
        return f"{used} is costly on the CPU ({', '.join(row.heavy)})"
    if row.most_operations is None:  # recorded before 0.2
        return f"{used} would read {row.reads} values each time (realize_reads_threshold is {most}), or is costly"
    if _exceeds(row.operations, row.most_operations):
        return f"{used} would each time {_operations(row)}"
    return f"{used} would read {row.reads} values each time, more than {most} (realize_reads_threshold)"


def _too_much(row: MadeBuffer, settings: Mapping[str, Setting], would: str) -> str:
    """Which limit on the size of a loop body put its result in memory."""
    if row.most_operations is None:  # recorded before 0.2, by the reads alone
        most = settings.get("realize_acc_reads_threshold")
        too_many = isinstance(most, int) and _exceeds(row.reads, most)
        limit = f"more than {most}" if too_many else "or compute too many operations"
        return f"{would} read {row.reads} values there, {limit}"
    if _exceeds(row.reads, row.most_reads):
        return f"{would} read {row.reads} values there, more than {row.most_reads} ({row.setting_reads})"
    if _exceeds(row.operations, row.most_operations):
        return f"{would} {_operations(row)}"
    return f"{would} read too much data in total (realize_acc_reads_size_threshold)"


def _exceeds(count: int | None, most: int | None) -> bool:
    return count is not None and most is not None and count > most


def _operations(row: MadeBuffer) -> str:
    return f"repeat {row.operations} operations, more than {row.most_operations} ({row.setting_operations})"
