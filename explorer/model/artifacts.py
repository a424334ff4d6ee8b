"""What the artifact of each stage holds in `data`: one record a stage, its fields typed, with their units.

`ARTIFACTS` has them by stage. An artifact of a stage that is not in it, such as a user's own, holds any read-only mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from explorer.model.records import FieldError, Record, keys_of, record, typed
from explorer.model.rows import (
    CallTime,
    Choice,
    Config,
    ExchangeTime,
    ExecutedLayer,
    FileSection,
    FinalNode,
    FxNode,
    GraphInput,
    GraphOutput,
    Group,
    JudgedValue,
    KernelMetadata,
    Launch,
    LoopOrder,
    LoweredNode,
    LoweredOperation,
    MadeBuffer,
    Names,
    OnnxChange,
    OnnxNode,
    OnnxPlacement,
    OpenVinoOrigin,
    OpenVinoPart,
    Place,
    ProfiledPart,
    ReductionSplit,
    Round,
    Rule,
    SchedulerNode,
    Setting,
    SymbolicStep,
    Tiling,
    VerdictRow,
    WrittenFile,
    XlaFigure,
)
from explorer.model.values import Call, Plain, plain

# torch.compile -----------------------------------------------------------------------------------------------------------


@record
class Nothing(Record):
    """A text without further facts."""


@record
class RecordName(Record):
    """What torch calls a record of its log."""

    name: str


@record
class CompileCall(Record):
    """The torch.compile call that a frame came from, and the line that called the function.

    `options` are Inductor's, as Python writes their values; `dynamic` is None where it was not given. `cell` and `called_cell`
    name the cells of a notebook that the files stand for, such as "In[5]".
    """

    file: str
    line: int
    code: str
    backend: str
    options: Mapping[str, str]
    called_file: str
    called_line: int
    called_code: str
    dynamic: bool | None = None
    cell: str | None = None
    called_cell: str | None = None


@record
class ChangedSetting(Record):
    """A setting of dynamo, inductor or functorch that is not at its default, values as Python writes them.

    Of another compiler, such as "openvino", it is a property that the compiler was handed.
    """

    of: str
    name: str
    value: str
    default: str
    set_by: str


@record
class ChangedSettings(Record):
    """The settings of one compile that were not at their defaults."""

    rows: tuple[ChangedSetting, ...]


@record
class Phase(Record):
    """A phase that the compiler timed, in seconds since the recording began and of its own; None where it did not end."""

    name: str
    function: str
    graph: str
    start: float
    seconds: float | None
    depth: int


@record
class Phases(Record):
    """The phases of one compile, by their start."""

    rows: tuple[Phase, ...]


@record
class CacheLookup(Record):
    """A lookup in a cache of graphs, kernels, configs or artifacts: "hit", "miss" or "bypass", and why.

    `graph` or `kernel` says what was looked up, both "" for a whole frame. `seconds_saved` is what a hit saved. `nearest` is
    the key before it that is most like one that missed, and `differs` what they have otherwise. `parts` are the parts of the
    key as `cache_keys.KeyParts`: all of them, or those that are others than in the key `relative_to`.
    """

    cache: str
    state: str
    graph: str
    key: str
    kernel: str
    reason: str
    seconds_saved: float | None
    nearest: str | None = None
    differs: tuple[str, ...] | None = None
    parts: Mapping[str, str] | None = None
    relative_to: str | None = None


@record
class CacheLookups(Record):
    """The lookups in caches of one frame."""

    rows: tuple[CacheLookup, ...]


@record
class CompilationMetrics(Record):
    """What torch counted of a compile: `of` a "forward" or "backward", by torch's own names."""

    of: str
    figures: Mapping[str, Plain]  # torch's CompilationMetrics, of which each version has others


@record
class AllMetrics(Record):
    """What torch counted of the compiles of one frame."""

    rows: tuple[CompilationMetrics, ...]


@record
class WrittenFiles(Record):
    """The files that were written for one frame, each once."""

    rows: tuple[WrittenFile, ...]


# Dynamo ------------------------------------------------------------------------------------------------------------------


@record
class Code(Record):
    """A code object: its function, and where that is defined; `resume` for one that Dynamo made to go on after a graph break."""

    function: str
    qualname: str
    file: str
    line: int
    resume: bool


@record
class Source(Code):
    """A function's source.

    `inlined` where it runs inside another's compile, `launches` where it launches Triton kernels itself, `unseen` where
    only line numbers are shown, "changed" or "none", or the lines that a log quotes, "quoted"; "today" where the file that
    a log names is shown as it is now. `not_compiled` counts the resume functions that were never compiled. `cell` names the
    cell of a notebook that `file` stands for, such as "In[5]".
    """

    first_line: int
    compiled: bool
    inlined: bool | None = None
    launches: bool | None = None
    unseen: str | None = None
    not_compiled: int | None = None
    cell: str | None = None


@record
class Bytecode(Code):
    """The bytecode of a function: the names it uses."""

    names: Names
    compiled: bool
    not_compiled: int | None = None


@record
class DynamoBytecode(Code):
    """Dynamo's bytecode; `copied` has the lines of the text that it copied, each with its line in the user's file."""

    names: Names
    copied: tuple[tuple[int, int], ...] | None = None


@record
class SymbolicSteps(Record):
    """Each step of Dynamo's symbolic execution of one frame, those of attempts that it gave up included, in order.

    `same_graph` says that the graph which they added is the trace's, so that their nodes are its nodes.
    """

    steps: tuple[SymbolicStep, ...]
    same_graph: bool


@record
class Decompiled(Code):
    """Dynamo's bytecode as Python; `undone` is the instruction that depyf could not turn into it."""

    undone: str | None = None


@record
class Guard(Record):
    """A guard: its condition, the value that it reads, and where it is from.

    `code`, `file`, `line` and `function` are the user's line, `framework` torch's own place, `note` what torch remarks.
    `origin` says in words where it is from, `derived_from` names by kind and source the guards that it follows from.
    """

    kind: str
    source: str
    expression: str
    code: str
    file: str
    line: int
    function: str | None = None
    framework: str | None = None
    note: str | None = None
    origin: str | None = None
    derived_from: tuple[tuple[str, str], ...] | None = None


@record
class Guards(Record):
    """The guards of one compile, and Dynamo's own print of them."""

    rows: tuple[Guard, ...]
    tree: str | None = None


@record
class Recompile(Record):
    """A guard that failed, and the compile that it belongs to."""

    earlier: str
    guard: str


@record
class Recompiles(Record):
    """Why a function was compiled again."""

    rows: tuple[Recompile, ...]


@record
class Symbol(Record):
    """What became known of a symbolic size: it was "created", or "guarded" by an expression, at a line of the user's.

    Of a created one `symbol`, `val` (the value at this call), `vr` (its range) and `source`; of a guarded one `expr`.
    `framework` is a place in torch, where no line of the user's is known.
    """

    what: str
    symbol: str | None = None
    val: str | None = None
    vr: str | None = None
    source: str | None = None
    expr: str | None = None
    file: str
    line: int
    code: str
    framework: str | None = None


@record
class Symbols(Record):
    """The symbolic sizes of one compile."""

    rows: tuple[Symbol, ...]


@record
class GraphBreak(Record):
    """Why a graph ended, what Dynamo suggests, and the user's line; `cell` as in `Source`."""

    reason: str
    explanation: str
    hints: Names
    file: str
    line: int
    cell: str | None = None


# FX graphs ---------------------------------------------------------------------------------------------------------------


@record
class FxGraph(Record):
    """An FX graph: its nodes, the nodes of the graphs inside it, and the distinct Python stacks of its nodes.

    `graph_text` is the graph as `print(gm.graph)` writes it. `of` is the path of a graph inside another one, "" for the
    outermost. What a log or a cache has is the text alone; `cached` for what a cache had.
    """

    nodes: tuple[FxNode, ...] | None = None
    inner: tuple[FxNode, ...] | None = None
    stacks: Names | None = None
    graph_text: str | None = None
    of: str | None = None
    cached: bool | None = None


@record
class FxPass(Record):
    """A pass that changed an FX graph; `before` is the text of the graph before it, a node a line.

    `section` is the round of passes: "pre_grad", "joint" or "post_grad". `made` and `erased` name nodes, `replaced` the
    nodes whose uses each made one took, `parts` those that decompose another, `stacks` has the made ones' Python stacks.
    `names` and `targets` are those of the node on each line of the text, without the output, which is last. `users` has the
    nodes that use a made one, where it takes no other's uses and states no line itself, in the order of their first use.
    `seconds` is what the pass took. `idle` has name and seconds of the passes since the last change, which changed
    nothing, `idle_after` of those after the last one.
    """

    name: str
    section: str
    before: str
    made: Names
    erased: Names
    seconds: float | None
    of: str | None = None
    stacks: Mapping[str, str] | None = None
    replaced: Mapping[str, Names] | None = None
    parts: Names | None = None
    names: Names | None = None
    targets: Names | None = None
    users: Mapping[str, Names] | None = None
    idle: tuple[tuple[str, float], ...] | None = None
    idle_after: tuple[tuple[str, float], ...] | None = None


@record
class AotMetadata(Record):
    """AOTAutograd's metadata of a graph: the inputs that are changed in place, and the outputs that are views."""

    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]


@record
class PatternMatch(Record):
    """A pattern fired: where it is defined, which nodes it matched and made, and the made ones' Python stacks.

    `section` is the round of passes that it fired in, `of` the path of the graph, "" for the outermost. The text has under
    "matched" and under "made" a line a node; `matched_targets` and `made_targets` are these nodes' targets.
    """

    pattern: str
    of: str | None = None
    section: str | None = None
    kind: str
    file: str
    line: int
    matched: Names
    made: Names
    matched_targets: Names | None = None
    made_targets: Names | None = None
    stacks: Mapping[str, str] | None = None
    expression: str


# Inductor ----------------------------------------------------------------------------------------------------------------


@record
class Lowering(Record):
    """How each FX node of one graph was lowered, and Inductor's decisions on its loops; see `capture/observe/lowering.py`."""

    of: str
    path: str
    lowered: tuple[LoweredNode, ...]
    operations: tuple[LoweredOperation, ...]
    splits: tuple[ReductionSplit, ...]
    orders: tuple[LoopOrder, ...]
    tilings: tuple[Tiling, ...]


@record
class SchedulerGraph(Record):
    """The scheduler's nodes before or after fusion; `of` is Inductor's name of the graph, `path` its path in the outermost."""

    nodes: tuple[SchedulerNode, ...]
    of: str | None = None
    path: str | None = None


@record
class Fusion(Record):
    """What the scheduler considered in one graph, what it fused, and why it refused; see `capture/observe/scheduler_log.py`.

    Scheduler nodes are numbers: places in `names`, and after these in `groups`. `scores` has round, both nodes and the parts
    named in `score_parts`; `kernels` each kernel's name and nodes; `paths` calls in Inductor, innermost first. `about` has the
    nodes that a line of the text is about, which the stage adds.
    """

    of: str
    names: Names
    groups: tuple[Group, ...]
    rounds: tuple[Round, ...]
    rules: tuple[Rule, ...]
    args: tuple[Names, ...]
    pairs: tuple[VerdictRow, ...]
    score_parts: Names
    scores: tuple[tuple[Setting, ...], ...]
    kernels: tuple[tuple[str, tuple[int, ...]], ...]
    final: tuple[FinalNode, ...]
    settings: Mapping[str, Setting]
    made: tuple[MadeBuffer, ...]
    paths: tuple[tuple[Call, ...], ...]
    about: tuple[tuple[int, tuple[int, ...]], ...] | None = None

    def _check(self) -> None:
        """Hold each number of a node, and each place in a table of the record, to what there is."""
        nodes = len(self.names) + len(self.groups)
        for number, group in enumerate(self.groups, len(self.names)):
            _check_places(group.of, number, "groups")
        for row in self.pairs:
            _check_places((row.first,), nodes, "pairs")
            _check_places((row.rule,), len(self.rules), "pairs")
            _check_places((row.arguments,), len(self.args), "pairs")
            _check_places((row.rounds.bit_length(),), len(self.rounds) + 1, "pairs")
            for low, high in spans(row.partners):
                _check_places((low, high), nodes, "pairs")
            if self.rules[row.rule].said == CYCLE and self.args[row.arguments]:
                _check_places((whole(text) for text in self.args[row.arguments][0].split()), nodes, "args")
        for _, members in (*self.kernels, *(self.about or ())):
            _check_places(members, nodes, "kernels")
        for final in self.final:
            template = () if final.template is None else (final.template,)
            _check_places((final.number, *template, *(final.prologue or ()), *(final.epilogue or ())), nodes, "final")
        _check_places((row.path for row in self.made), len(self.paths), "made")
        if any(len(row) < 3 for row in self.scores):
            raise FieldError("a round and two nodes expected", "scores")


#: What the scheduler says of two nodes one of which must run between the other and a node fused with it.
CYCLE = "will create cycle"

#: Numbers as (first, last) of those that follow each other.
Spans = tuple[tuple[int, int], ...]


def spans(text: str) -> Spans:
    """((3, 5), (7, 7)) for "3-5,7"; FieldError for another text."""
    pairs = (part.partition("-") for part in text.split(","))
    return tuple((whole(first), whole(last if dash else first)) for first, dash, last in pairs)


def whole(text: str) -> int:
    """The whole number of a text; FieldError for another one, and for more digits than any number of a node has."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise FieldError(f"the number of a node expected, not {text[:20]!r}")
    return int(text)


def _check_places(numbers: Iterable[int], count: int, field: str) -> None:
    """FieldError for a number that is no place among `count`."""
    for number in numbers:
        if not 0 <= number < count:
            raise FieldError(f"a number from 0 to {count - 1} expected, not {str(number)[:20]}", field)


@record
class Assumption(Record):
    """What Inductor would have timed on a GPU that is not attached, what was taken for the outcome, and why."""

    where: str
    assumed: str
    why: str


@record
class GraphAssumption(Record):
    """An assumption, and the graph it is about."""

    graph: str
    where: str
    assumed: str
    why: str


@record
class Assumptions(Record):
    """The assumptions of a compile for a GPU that is not attached."""

    rows: tuple[GraphAssumption, ...]


@record
class Autotune(Record):
    """The ways of doing an operation that Inductor chose among; inputs as dtype and sizes, "float32[8, 16]"."""

    operation: str
    inputs: Names
    choices: tuple[Choice, ...]


@record
class ChoiceForm(Record):
    """One text of a choice: `choice` as its row names it, `form` "kernel" for its source, else a form of a Triton kernel.

    `name` is what the text is called, such as "triton_mm_7.ttgir". `language` is that of the source. `file` and `first_line`
    say where its source's lines are in the locations of its other forms; "" and 1 in the source itself.
    """

    name: str
    choice: str
    form: str
    operation: str
    language: str
    file: str
    first_line: int


@record
class CudaGraph(Record):
    """A decision on a CUDA graph: what was decided of what and why, and the user's line, "" and 0 where none is known."""

    graph: str
    decision: str
    what: str
    reason: str
    file: str
    line: int
    function: str
    code: str


@record
class CudaGraphs(Record):
    """The decisions on CUDA graphs of one frame."""

    rows: tuple[CudaGraph, ...]


@record
class PerfHint(Record):
    """A performance hint, the FX nodes that it is about, and the user's line, "" and 0 where none is known."""

    graph: str
    hint: str
    nodes: Names
    file: str
    line: int
    function: str
    code: str


@record
class PerfHints(Record):
    """The performance hints of one frame."""

    rows: tuple[PerfHint, ...]


@record
class CallMemory(Record):
    """What a library call allocates, measured: `line` of the output code, the most bytes at once, and those of its results."""

    line: int
    peak: int
    kept: int


@record
class OutputCode(Record):
    """The wrapper that Inductor wrote: its file's name, "" for a temporary one; `cached` for what a cache had.

    `calls` has the library calls whose memory was measured.
    """

    file: str
    cached: bool | None = None
    calls: tuple[CallMemory, ...] | None = None


# Kernels -----------------------------------------------------------------------------------------------------------------


@record
class KernelLines(Record):
    """What a kernel computes line by line: (line counted from 1, FX node), its scheduler nodes, its template's FX nodes.

    `nodes` are all FX nodes that it computes, where no probe saw which of its lines do: in a log, or in what a cache had. The
    `lines` are then read from the texts, with `by_text`, and a line with several nodes computes one of them.
    """

    name: str
    lines: tuple[tuple[int, str], ...]
    operations: Names
    template: Names
    nodes: Names | None = None
    by_text: bool | None = None


@record
class Kernel(Record):
    """A kernel, and the line of the wrapper on which it begins.

    `comment` is what stands above it in the wrapper. Of a kernel that the program launches itself `file` and `first_line` are
    where it is defined, `launched_from` the places that launch it. Of one that `trace_kernel` had, `read` and `written` are the
    bytes of its launch, and `bytes_known` says how they are known, or why they are not.
    """

    name: str
    language: str
    wrapper_line: int
    comment: str
    definitions: tuple[KernelLines, ...] | None = None
    file: str | None = None
    first_line: int | None = None
    launched_from: tuple[Place | None, ...] | None = None
    read: int | None = None
    written: int | None = None
    bytes_known: str | None = None


@record
class KernelForm(Record):
    """One form of a Triton kernel on its way to machine code.

    `file` and `first_line` say where its source's lines are in the text's locations. `config` is the one of `candidates` that
    was compiled and `chosen` why; `measured` has those that the attached GPU timed, with `ms`. `launched` where it is the
    form of a launch on that GPU. `stage_seconds` is what the compiler took for it. `ptx_lines` has for each instruction of
    SASS the line of the PTX it was assembled from, `mix` counts its instructions by class, which the stage adds.
    """

    name: str
    file: str
    first_line: int
    target: str
    config: Config
    candidates: tuple[Config, ...]
    chosen: str
    metadata: KernelMetadata
    launches: tuple[Launch, ...]
    stage_seconds: float | None
    measured: tuple[Config, ...] | None = None
    launched: bool | None = None
    ptx_lines: tuple[int, ...] | None = None
    mix: Mapping[str, int] | None = None


@record
class Assembly(Record):
    """The assembly of a C++ kernel: pairs of a line of the text and one of the kernel, by how they are known.

    `unlinked` says why instructions of inlined functions are not among them.
    """

    name: str
    file: str
    stated: Mapping[str, tuple[tuple[int, int], ...]]
    unlinked: str


# Other compilers -----------------------------------------------------------------------------------------------------------


@record
class ExecutedPart(Record):
    """What ran a part of a graph: an engine, or PyTorch in its place, and why; `calls` is how often it did while recorded.

    `device` is the engine's own name for where it ran, and `what` the part: the whole graph, or its operators.
    """

    graph: str
    engine: str
    device: str
    what: str
    calls: int
    why: str


@record
class Profile(Record):
    """What runs of the compiled code took, by a profile that was read in: `seconds` are the sum of all rows.

    `source` is what recorded it, `device` where it ran. `of` is "device" for the times of a GPU's kernels, "CPU" for those of
    the CPU, of which each row has what is not in another row.
    """

    source: str
    device: str
    of: str
    seconds: float
    rows: tuple[ProfiledPart, ...]


@record
class RunTimes(Record):
    """The calls of compiled frames in a profile, and the collectives that they ran, both in the order of time.

    `source` is what recorded it.
    """

    source: str
    calls: tuple[CallTime, ...]
    exchanges: tuple[ExchangeTime, ...]


@record
class Bisected(Record):
    """What a bisection found: in a sentence, what brings it about, and every value that it judged.

    `first` is the number of the first launch that is off, 0 where none is.
    """

    summary: str
    cause: str
    first: int
    rows: tuple[JudgedValue, ...]


@record
class Execution(Record):
    """What ran the graphs of one frame."""

    rows: tuple[ExecutedPart, ...]


@record
class IreeModule(Record):
    """A module of IREE's in one of its dialects; `fx_nodes` are the nodes of the graph it was handed, in their order."""

    fx_nodes: Names


@record
class MachineFunction(Record):
    """A function of a kernel: for each line of its text that states one the place (file, line) that it comes from."""

    name: str
    fx_nodes: Names
    places: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]


@record
class IreeForTarget(Record):
    """What IREE writes for another target, such as "cuda:sm_80": `form` is what the text is called, such as "PTX"."""

    target: str
    form: str
    language: str
    fx_nodes: Names


@record
class IreePass(Record):
    """A pass of IREE's that changed the module: `operation` is what it ran on, such as "func.func @main".

    `number` counts from 0 the passes that IREE says changed something. `before` and `after` are the lines of the whole module.
    `places` has for each line of the difference the places (file, line) that it comes from.
    """

    number: int
    name: str
    options: str
    operation: str
    before: int
    after: int
    fx_nodes: Names
    places: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]


@record
class IreeAfterPass(Record):
    """The whole module of IREE's behind a pass, `number` among those that changed something; `before` is its text before it."""

    number: int
    name: str
    before: str
    fx_nodes: Names


@record
class Vmfb(Record):
    """The file that IREE's runtime loads: its bytes and their SHA-256, its sections, the command that made it, its seconds."""

    rows: tuple[FileSection, ...]
    bytes: int
    sha256: str
    seconds: float
    command: Names


@record
class OpenVinoPartition(Record):
    """A graph as OpenVINO's backend partitioned it: what is to run which operators, and the FX nodes that a line stands for."""

    rows: tuple[OpenVinoPart, ...]
    origins: tuple[OpenVinoOrigin, ...]


@record
class OpenVinoIr(Record):
    """The model of a part of a graph, such as "fused_0", as it was handed to OpenVINO's compiler."""

    name: str


@record
class OpenVinoExecuted(Record):
    """The graph that OpenVINO executes of a part, one row a layer."""

    name: str
    rows: tuple[ExecutedLayer, ...]


@record
class OnnxGraph(Record):
    """A graph in ONNX: its nodes, behind its inputs, and the names of its constants."""

    nodes: tuple[OnnxNode, ...]
    constants: Names


@record
class OnnxChanges(Record):
    """What each level of ONNX Runtime's optimiser changed in one graph."""

    rows: tuple[OnnxChange, ...]


@record
class OnnxPlacements(Record):
    """The execution provider of each node."""

    rows: tuple[OnnxPlacement, ...]


@record
class TvmPass(Record):
    """A pass of TVM's that changed functions: of Relax, of TIR, or of both, which is its `level`.

    `number` counts all passes from 0. `before` and `after` are the lines of the functions that it changed.
    """

    number: int
    name: str
    level: str
    functions: Names
    before: int
    after: int
    seconds: float


@record
class TvmAfterPass(Record):
    """All functions of TVM's module behind a pass, `number` among all; `before` is their text before it."""

    number: int
    name: str
    before: str


@record
class TvmVm(Record):
    """The code of TVM's virtual machine: each TIR function that it calls, in order, with the FX nodes that the call is of."""

    calls: tuple[tuple[str, Names], ...]


@record
class TvmForTarget(Record):
    """What TVM writes for another target: `form` is what the text is called.

    `nodes` has the FX nodes of each line of the module that was compiled; the locations of assembly name these lines.
    """

    target: str
    form: str
    language: str
    nodes: tuple[tuple[int, Names], ...]


@record
class XlaModule(Record):
    """A graph in MLIR on its way to XLA; `fx_nodes` are its FX nodes, in the order in which locations count them."""

    fx_nodes: Names


@record
class XlaPass(Record):
    """A pass of XLA's that changed the module, in one of XLA's pipelines.

    `number` is XLA's own, in order. `before` and `after` are the lines of the module.
    """

    number: int
    pipeline: str
    name: str
    before: int
    after: int


@record
class XlaCost(Record):
    """XLA's figures of a module: operations that it estimates, and bytes."""

    rows: tuple[XlaFigure, ...]


@record
class XlaKernel(Record):
    """A kernel that XLA compiled, by the name of its instruction in the optimised HLO."""

    name: str


#: The levels of ONNX Runtime's optimiser, as a trace's options name them: each does what the one before it does too.
ONNXRT_LEVELS = ("disable", "basic", "extended", "layout", "all")
#: The stages that are a graph in ONNX, in the order in which they are made.
ONNX_GRAPHS = ("onnx", "onnx_optimize", *(f"onnxrt_{level}" for level in ONNXRT_LEVELS))
#: The stages that are texts of TVM's modules.
TVM_MODULES = ("tvm_relax", "tvm_fused", "tvm_tir")
#: The stages that are a function of TVM's machine code.
TVM_FUNCTIONS = ("tvm_llvm", "tvm_assembly")
#: The stages that are a graph in MLIR on its way to XLA, and those that are a module in HLO.
XLA_MODULES, XLA_HLO = ("xla_torch", "xla_stablehlo"), ("xla_before", "xla_optimized")
#: The stages that are a kernel of XLA's.
XLA_KERNELS = ("xla_llvm", "xla_assembly")
#: The stages that are a module of IREE's in MLIR.
IREE_MODULES = (
    "iree_torch",
    "iree_input",
    "iree_abi",
    "iree_preprocessing",
    "iree_global_optimization",
    "iree_dispatch_creation",
    "iree_flow",
    "iree_stream",
    "iree_executable_sources",
    "iree_executable_configurations",
    "iree_executable_targets",
    "iree_hal",
    "iree_vm",
)
#: The stages that are a function of a dispatch.
IREE_FUNCTIONS = ("iree_llvm", "iree_assembly")
#: The stages that are FX graphs of a whole round.
GRAPHS = ("dynamo", "pre_grad", "joint", "forward", "backward", "inductor_input", "post_grad", "compiled_fn")
#: The stages of the forms of a Triton kernel.
FORMS = ("ttir", "ttgir", "llir", "ptx", "amdgcn", "sass")
#: What the artifacts of each stage hold.
ARTIFACTS: Mapping[str, type[Record]] = MappingProxyType(
    {
        "source": Source,
        "compile_call": CompileCall,
        "setting": ChangedSettings,
        "phase": Phases,
        "cache": CacheLookups,
        "compilation_metrics": AllMetrics,
        "bytecode": Bytecode,
        "symbolic_steps": SymbolicSteps,
        "recompile": Recompiles,
        "graph_break": GraphBreak,
        "symbol": Symbols,
        "dynamo_bytecode": DynamoBytecode,
        "decompiled": Decompiled,
        "guards": Guards,
        **dict.fromkeys(GRAPHS, FxGraph),
        "aot_metadata": AotMetadata,
        "fx_graph_runnable": Nothing,
        "pattern_match": PatternMatch,
        "fx_pass": FxPass,
        "assumption": Assumptions,
        "autotune": Autotune,
        "choice": ChoiceForm,
        "lowering": Lowering,
        "ir_pre_fusion": SchedulerGraph,
        "ir_post_fusion": SchedulerGraph,
        "fusion": Fusion,
        "perf_hint": PerfHints,
        "cuda_graph": CudaGraphs,
        "output_code": OutputCode,
        "written_file": WrittenFiles,
        "kernel": Kernel,
        **dict.fromkeys(FORMS, KernelForm),
        "assembly": Assembly,
        "profile": Profile,
        "run_times": RunTimes,
        "bisection": Bisected,
        "log_record": RecordName,
        "execution": Execution,
        **dict.fromkeys(IREE_MODULES, IreeModule),
        **dict.fromkeys(IREE_FUNCTIONS, MachineFunction),
        "iree_pass": IreePass,
        "iree_after_pass": IreeAfterPass,
        "iree_vm_module": Nothing,
        "iree_vmfb": Vmfb,
        "iree_target": IreeForTarget,
        "onnx_exported_program": FxGraph,
        **dict.fromkeys(ONNX_GRAPHS, OnnxGraph),
        "onnxrt_changes": OnnxChanges,
        "onnxrt_providers": OnnxPlacements,
        "openvino_partition": OpenVinoPartition,
        "openvino_ir": OpenVinoIr,
        "openvino_executed": OpenVinoExecuted,
        **dict.fromkeys(TVM_MODULES, Nothing),
        "tvm_pass": TvmPass,
        "tvm_after_pass": TvmAfterPass,
        "tvm_vm": TvmVm,
        **dict.fromkeys(TVM_FUNCTIONS, MachineFunction),
        "tvm_target": TvmForTarget,
        **dict.fromkeys(XLA_MODULES, XlaModule),
        **dict.fromkeys(XLA_HLO, Nothing),
        "xla_pass": XlaPass,
        "xla_buffers": Nothing,
        "xla_cost": XlaCost,
        **dict.fromkeys(XLA_KERNELS, XlaKernel),
    }
)


def may_hold(stage: str, key: str) -> bool:
    """Whether the data of a stage's artifacts may have a key, which is known without reading them; of other stages any may."""
    shape = ARTIFACTS.get(stage)
    return shape is None or key in keys_of(shape)


def artifact_data(stage: str, facts: Mapping[str, Plain]) -> Mapping[str, Plain]:
    """What an artifact of a stage holds of these facts: the stage's record, or for a stage not in `ARTIFACTS` a mapping.

    FieldError for facts that are not those of the stage.
    """
    shape = ARTIFACTS.get(stage)
    if shape is None:
        frozen: Mapping[str, Plain] = plain(facts)
        return frozen
    return typed(shape, facts)
