"""The rows inside events and artifacts: an FX node, a scheduler node, a place, a choice, a launch.

Sizes and strides are in elements, each as text, since a size may be symbolic ("s77"); bytes, seconds and milliseconds are named.
A field whose default is None is one that not every row has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from explorer.model.records import Record, record
from explorer.model.values import Plain

#: What an option, a setting or an argument of a kernel may be.
Setting = str | int | float | bool | None
Names = tuple[str, ...]


@record
class Place(Record):
    """A line of a file, and the function it is in."""

    file: str
    line: int
    function: str


# FX graphs ---------------------------------------------------------------------------------------------------------------


@record
class Output(Record):
    """One of several values that an FX node gives: a tensor, several values again, or the text of another value."""

    shape: Names | None = None
    stride: Names | None = None
    dtype: str | None = None
    device: str | None = None
    outputs: tuple[Output, ...] | None = None
    value: str | None = None


@record
class FxNode(Record):
    """A node of an FX graph.

    `op`, `target`, `args` and `kwargs` are torch.fx's, as text; `inputs` names the nodes it uses. `shape`, `stride`, `dtype` and
    `device` are those of the tensor it gives, `outputs` those of several, `value` the text of anything else. `stack` is the
    place of its Python stack in the graph's `stacks`; `file`, `line`, `function` and `code` are the innermost place of it,
    which the stage adds. `module` is the nn.Module as the program calls it, in an event as Dynamo reaches it. `original` is the
    ATen operator it was decomposed from and `decomposition` where that is defined. `seq_nr` is autograd's number of the
    forward operator, `from_` names the nodes of the graph before that it was traced for, and `input` says what an input is
    to the program.
    """

    name: str
    op: str
    target: str
    args: str
    kwargs: str
    inputs: Names
    shape: Names | None = None
    stride: Names | None = None
    dtype: str | None = None
    device: str | None = None
    outputs: tuple[Output, ...] | None = None
    value: str | None = None
    stack: int | None = None
    module: str | None = None
    original: str | None = None
    decomposition: str | None = None
    seq_nr: int | None = None
    input: str | None = None
    from_: Names | None = None
    file: str | None = None
    line: int | None = None
    function: str | None = None
    code: str | None = None


# Dynamo ------------------------------------------------------------------------------------------------------------------


@record
class GuardPlace(Record):
    """The place in torch that made a guard: "guards.py:12 in f", by the kind that Dynamo asked for and its source.

    Older files have only the places of guards without a line of the user's.
    """

    kind: str
    source: str
    place: str


# Inductor's scheduler ----------------------------------------------------------------------------------------------------


@record
class BufferLayout(Record):
    """A buffer in memory: its dtype, such as "torch.float32", and size and stride in elements, as the compiler writes them.

    `mutates` names the buffer or graph input in whose memory it is, where the node works in place; where that writes through a
    view, `size` is the view's, and `stride` is ().
    """

    dtype: str
    size: Names
    stride: Names
    mutates: str | None = None


@record
class SchedulerNode(Record):
    """A node of Inductor's scheduler.

    `kind` is the class of the node. `reads` and `writes` name buffers, `inputs` the nodes that write what it reads, `fused`
    the nodes in it and `origins` the FX nodes it computes; `node` is the one whose result it writes. `sizes` are the ranges of
    its loops, parallel then reduced. `layouts` has those of the buffers that it makes, by name. `bodies` has the FX node of each
    operation, by node in it, block and operation. `line_count` is the number of its lines in the text.
    """

    name: str
    kind: str
    device: str
    fused: Names
    inputs: Names
    reads: Names
    writes: Names
    sizes: tuple[Names, ...]
    origins: Names
    line_count: int
    node: str | None = None
    layouts: Mapping[str, BufferLayout] | None = None
    bodies: Mapping[str, Mapping[str, Mapping[str, str]]] | None = None


@record
class Group(Record):
    """Two nodes, by number, that were fused, and in which round, counted from 0; -1 for nodes that are several from the start."""

    kind: str
    of: tuple[int, ...]
    round: int


@record
class Round(Record):
    """One round of fusion: how many nodes there were before and after it, and whether the scheduler reordered loops in it."""

    before: int
    after: int
    reorder: bool


class Rule(NamedTuple):
    """The scheduler's reason, or where it gave none the file, line and function that refused."""

    said: str
    file: str
    line: int
    function: str


class VerdictRow(NamedTuple):
    """What the scheduler answered for a node and several partners: "possible", "fused" or "refused".

    Nodes are numbers, `partners` ranges of them such as "3-66,70". `rule` and `arguments` are places in `rules` and `args`.
    `shared_bytes` is what both access, None where the scheduler did not ask; `rounds` has a bit for each round, the lowest
    for the first.
    """

    first: int
    verdict: str
    rule: int
    arguments: int
    shared_bytes: int | None
    rounds: int
    partners: str


@record
class TensorLayout(Record):
    """A tensor that an operator returns: sizes and strides in elements; without any field for what is no tensor."""

    size: Names | None = None
    stride: Names | None = None
    dtype: str | None = None
    alias: bool | None = None


@record
class OperatorCall(Record):
    """An operator that is computed as a whole, by a library or a template; see `capture/observe/operators.py`.

    `operations` counts floating-point or integer operations, None where no formula is known. `sizes` are batch, rows, columns
    and inner size of the product behind it. `strides` are those of its first two inputs, in elements. `view` tells that the
    operator's schema has its result share the memory of an argument, so that it moves and computes nothing.
    """

    operator: str
    operations: int | None
    template: bool
    buffer: str | None = None
    node: str | None = None
    dtype: str | None = None
    tf32: bool | None = None
    sizes: tuple[int, ...] | None = None
    groups: int | None = None
    channels: int | None = None
    transposed: bool | None = None
    strides: tuple[tuple[int, ...], ...] | None = None
    results: tuple[TensorLayout, ...] | None = None
    view: bool | None = None


@record
class FinalNode(Record):
    """A node that is left after fusion: a kernel, a part of one, or a call.

    `number` is its number in the verdicts, `ir` the class of its IR node, `call` what the wrapper calls. `read` and
    `written` are bytes of memory, `unsized` names what has no known size. Of its elementwise operations, by dtype,
    `elementwise` are those where a reduction loops over a row, `one_block` those where a block holds the row; `rows` is the
    number of rows that a reduction reduces, `run` the shortest run of adjacent elements it reads. `template`, `prologue`
    and `epilogue` are nodes by number; `combo` says that a foreach node is a combo kernel.
    """

    number: int
    kind: str
    read: int
    written: int
    ir: str | None = None
    call: str | None = None
    combo: bool | None = None
    template: int | None = None
    prologue: tuple[int, ...] | None = None
    epilogue: tuple[int, ...] | None = None
    unsized: Names | None = None
    calls: tuple[OperatorCall, ...] | None = None
    elementwise: Mapping[str, int] | None = None
    one_block: Mapping[str, int] | None = None
    rows: int | None = None
    run: int | None = None


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


@record
class LoweredResult(Record):
    """A result of lowering an FX node: the boxes and views on the way, what they lead to by class, and its buffer, "" for none.

    `classes` has the class of the IR node and after it those that it is derived from in Inductor.
    """

    views: Names
    classes: Names
    buffer: str


@record
class LoweredNode(Record):
    """An FX node as Inductor lowered it: the function that is registered for its target, and what came out.

    `function`, `file` and `line` are "", "" and 0 for what has none, such as a constant or an entry of a tuple.
    """

    node: str
    op: str
    target: str
    function: str
    file: str
    line: int
    device: str
    results: tuple[LoweredResult, ...]


@record
class Decision(Record):
    """A place in Inductor's code, and the conditions that it tested on the way there, as its source writes them.

    `conditions` are those around the line, "not (…)" for an else branch; `passed` those before it that would have returned, and
    were false; `tested` has what the names in `conditions` were.
    """

    file: str
    line: int
    function: str
    conditions: Names
    passed: Names
    tested: Mapping[str, str]


@record
class FallbackReason(Record):
    """How Inductor came to call an operator of ATen instead of generating code: what it tested, innermost decision first.

    `registered` says that the operator's own lowering is the call; `listed` is "file:line" of the statement that makes it so;
    `unregistered` that no lowering was found and the call was made in its place. `asked` has questions to the backend with
    their answers, `refused` where a function that makes loops gave none, `unsupported` tensors that Inductor does not take.
    """

    operator: str
    decisions: tuple[Decision, ...]
    registered: bool
    unregistered: bool
    listed: str
    asked: tuple[tuple[str, str], ...]
    refused: Decision | None = None
    unsupported: Names


@record
class LoweredOperation(Record):
    """An operation of the graph: a loop nest put in memory, a template, or a call, and the FX node that it is of.

    `lowering` is the FX node under way when it was made, which for a loop nest may be a later one. `loops` has the class of the
    loop nest and those that it is derived from, () for what is none. `call` is what the wrapper calls.
    """

    operation: str
    buffers: Names
    node: str
    lowering: str
    classes: Names
    loops: Names
    call: str
    reason: FallbackReason | None = None


@record
class ReductionSplit(Record):
    """In how many parts Inductor does a reduction: "1" for all at once, "-1" for those of its input.

    `rows` are the sizes that stay, `reduced` how many elements each result is made of, `hint` Inductor's ReductionHint.
    """

    node: str
    reduction: str
    rows: Names
    reduced: str
    hint: str
    parts: str
    asked: tuple[tuple[str, str], ...]


@record
class LoopOrder(Record):
    """A new order of the loops of an operation: places in `sizes`, outermost first; `to_match` a buffer, "" for its strides."""

    operation: str
    order: tuple[int, ...]
    sizes: Names
    to_match: str


@record
class CandidateTiling(Record):
    """A tiling that the heuristic on strides proposed, by its loop variables, and its score."""

    tiling: Mapping[str, str]
    score: str


@record
class Tiling(Record):
    """How the loops of a kernel are tiled, by loop variable: of Triton the sizes, of C++ the dimension and the vector's length.

    `scores` is Inductor's analysis of coalesced accesses, empty where it decided by `candidates`. `kernel` is "" in C++.
    """

    kernel: str
    operations: Names
    tiling: Mapping[str, str]
    candidates: tuple[CandidateTiling, ...]
    scores: Mapping[str, str]


@record
class WishOutcome(Record):
    """What came of the Veto or Force of number `wish` in one graph: both names are one node, or were put in one kernel."""

    wish: int
    same: bool
    together: bool


@record
class Choice(Record):
    """One way of doing an operation: its name, class and config, and its time in milliseconds, None where not timed.

    `grid` is the launch grid of a Triton template, `source` the key of its source, "" for a call into a library. `why` says
    why the fastest counts as that, `taken` whether it was taken.
    """

    choice: str
    kind: str
    config: str
    ms: float | None
    fastest: bool
    why: str | None = None
    grid: tuple[int, ...]
    source: str
    taken: bool | None = None


# Kernels -----------------------------------------------------------------------------------------------------------------


@record
class Launch(Record):
    """One launch of a Triton kernel: by the wrapper, or `times` times by the program itself, from `place`.

    `line` is that of the wrapper, 0 without one. Parts of the grid are numbers where they are known, else their expressions.
    """

    line: int
    arguments: Mapping[str, Setting]
    grid: tuple[int | str, ...]
    times: int | None = None
    place: Place | None = None


@record
class Occupancy(Record):
    """How many blocks and warps of a kernel fit on a multiprocessor, and how many each limit would allow."""

    blocks: int
    warps: int
    fraction: float
    limited_by: str
    limits: Mapping[str, int]


@record
class KernelMetadata(Record):
    """What triton's metadata and the binary say of a kernel.

    `shared` is bytes a block, `registers` a thread; `stack`, `spill_stores` and `spill_loads` are bytes a thread;
    `tmem_size` and `global_scratch_size` bytes. The registers that are spilled are counted on AMD only.
    """

    num_warps: int | None = None
    num_ctas: int | None = None
    num_stages: int | None = None
    shared: int | None = None
    tmem_size: int | None = None
    global_scratch_size: int | None = None
    maxnreg: int | None = None
    enable_fp_fusion: bool | None = None
    launch_pdl: bool | None = None
    launch_cooperative_grid: bool | None = None
    waves_per_eu: int | None = None
    matrix_instr_nonkdim: int | None = None
    kpack: int | None = None
    registers: int | None = None
    accumulation_registers: int | None = None
    scalar_registers: int | None = None
    spilled_registers: int | None = None
    spilled_scalar_registers: int | None = None
    stack: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None
    occupancy: Occupancy | None = None


@record
class WrittenFile(Record):
    """A file that Inductor or triton wrote: `bytes` is its size, None where it is gone."""

    by: str
    path: str
    kind: str
    bytes: int | None


#: A config of a Triton kernel: its block sizes, warps and stages, and of one that was measured `ms`.
Config = Mapping[str, Plain]


# AOTAutograd -------------------------------------------------------------------------------------------------------------


@record
class GraphInput(Record):
    """An input of AOTAutograd's graph, and what the program does to it.

    `type` is its dtype and sizes, "" where that is not known. `mutation` is torch's: "not_mutated", "mutated_in_graph" (the
    compiled graph changes it) or "mutated_out_graph" (the code around the graph copies the new value into it).
    """

    type: str
    mutation: str
    mutates_data: bool
    mutates_metadata: bool
    is_leaf: bool
    requires_grad: bool


@record
class GraphOutput(Record):
    """An output of the program: torch's `OutputType` by name, and the number of what it is a view of, None for one of its own."""

    kind: str
    base: int | None
    requires_grad: bool


# Other compilers -----------------------------------------------------------------------------------------------------------


@record
class FileSection(Record):
    """A section of a file, and its bytes."""

    name: str
    bytes: int


@record
class XlaFigure(Record):
    """One of XLA's figures of a module, such as "flops", and its value."""

    figure: str
    value: float


@record
class OpenVinoPart(Record):
    """Operators of a graph by what is to run them: a part that OpenVINO is handed, or those left to PyTorch, and why."""

    part: str
    engine: str
    fx_nodes: Names
    why: str


@record
class OpenVinoOrigin(Record):
    """A line of a partitioned graph, `part.node` for one in a part, and the FX nodes of the graph before that it stands for."""

    name: str
    fx_nodes: Names


@record
class ExecutedLayer(Record):
    """A layer of the graph that OpenVINO executes: its kernel, and the layers of the IR that it comes from, in OpenVINO's names.

    `microseconds` is None where OpenVINO did not measure the layer.
    """

    order: int
    layer: str
    kernel: str
    name: str
    original: Names
    precision: str
    layouts: str
    shape: str
    microseconds: float | None


@record
class OnnxNode(Record):
    """An input ("placeholder") or a node of an ONNX graph.

    `name` is ONNX's, or where a node has none of its own the value that it computes; `target` the operator, behind the name of
    its domain: "Gemm", "com.microsoft.FusedGemm". `inputs` names the nodes whose values it uses, `reads` and `writes` the values.
    `fx_node` is the node of the exported program that the exporter says it is of.
    """

    name: str
    op: str
    target: str
    inputs: Names
    reads: Names
    writes: Names
    fx_node: str | None = None


@record
class OnnxChange(Record):
    """A node that a level of ONNX Runtime's optimiser took away or made.

    `change` is "fused" for a node that new ones took the place of, "folded" for one whose value is a constant now, "removed" for
    one that nothing new took the place of, and "added". `others` names the nodes that do its part now, or of an added one those
    that it was made of.
    """

    level: str
    change: str
    node: str
    operator: str
    others: Names


@record
class OnnxPlacement(Record):
    """The execution provider that a node is for."""

    node: str
    operator: str
    provider: str


@record
class SymbolicStep(Record):
    """One instruction that Dynamo executed on symbols: what the stack was after it, what it changed, and what it added.

    `attempt` counts from 0, `depth` the inlined calls around it. `code` is the text of the user's `line`, `offset` and
    `bytecode_line` the instruction's place in the frame's bytecode and in its text. `changed` has the locals that it changed,
    `nodes` the FX nodes and `guards` the guards that it added, each guard as kind and source; `raised` what ended it.
    """

    attempt: int
    last_attempt: bool
    depth: int
    function: str
    file: str
    line: int | None
    code: str
    offset: int | None
    bytecode_line: int | None
    opname: str
    argument: str
    stack: Names
    changed: Mapping[str, str]
    nodes: Names
    guards: Names
    raised: str


@record
class JudgedValue(Record):
    """A value that a launch wrote, and how a bisection judged it: `equal` is None where it was not compared, `note` says why.

    `launch` is the number of the launch in the call, from 1, and `line` that of the output code. `parameter` is the kernel's name
    of the value, `node` its FX node, `nodes` those inside the launch that lead to it, and `operations` the scheduler's nodes that
    write it.
    """

    launch: int
    kernel: str
    frame: str
    graph: str
    line: int
    parameter: str
    node: str
    equal: bool | None
    note: str
    operations: Names
    nodes: Names


@record
class CallTime(Record):
    """A call of a compiled frame in a profile, or its backward: `seconds` from its begin to its end, as the CPU sees it.

    `frame` is "" where it is not clear which one it is. `outer` is False for a call inside another one, whose seconds are part
    of that one's. `device` are the seconds in which a GPU did what the call launched; None where the profile is of the CPU.
    """

    frame: str
    backward: bool
    outer: bool
    seconds: float
    device: float | None


@record
class ExchangeTime(Record):
    """A collective that a compiled frame ran, once: `node` is that of the graph `artifact`, "" where it is not clear.

    `run` counts the calls of its frame. `seconds` are those of its kernel on a GPU, which waits there for the other ranks; on
    the CPU those in which the call waited for it. None where it is not known. `overlapped` are those of a GPU's in which
    another kernel ran; None on the CPU.
    """

    artifact: str
    node: str
    operator: str
    run: int
    seconds: float | None
    overlapped: float | None


@record
class ProfiledPart(Record):
    """A kernel, a library call or something else of a profile, with the seconds of all of its launches.

    `kind` is "kernel", "library call" or "not joined", and `why` says why something was not joined. `name` is the kernel, or the
    scheduler's node of a call, `nodes` the FX nodes that it computes, `events` the profile's names for it. `runs` counts the
    runs of the graph, `each` has the seconds of every launch of one run, added up over the runs, where all runs have as many.
    `idle` are the seconds that the device did nothing before these launches since the one before in the same run; None where
    the profile has no times.
    """

    frame: str
    graph: str
    name: str
    kind: str
    nodes: Names
    events: Names
    launches: int
    seconds: float
    runs: int
    each: tuple[float, ...]
    idle: float | None
    why: str
