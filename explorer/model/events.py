"""What each kind of event holds: one record a kind, its fields typed, with their units.

`EVENTS` has them by kind. An event of a kind that is not in it, such as that of a user's own probe, holds any read-only mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from explorer.model.records import Record, record, typed
from explorer.model.rows import (
    Choice,
    Config,
    FinalNode,
    FxNode,
    Group,
    GuardPlace,
    KernelMetadata,
    Launch,
    MadeBuffer,
    Names,
    Place,
    Round,
    Rule,
    SchedulerNode,
    Setting,
    VerdictRow,
    WishOutcome,
    WrittenFile,
)
from explorer.model.values import Call, Plain, plain


@record
class Text(Record):
    """A text alone, such as the runnable graph, a graph break's message, or the reasons of a recompile."""

    text: str


# torch.compile -----------------------------------------------------------------------------------------------------------


@record
class Frame(Record):
    """A compile begins: the program's stack that led to it, outermost first; its last entry is the frame."""

    stack: tuple[Place, ...]


@record
class CompileCall(Record):
    """The torch.compile call that a frame came from, and the line that called the function.

    `options` are Inductor's, as Python writes their values; `dynamic` is None where it was not given.
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


@record
class ChangedSetting(Record):
    """A setting of dynamo, inductor or functorch that is not at its default, values as Python writes them."""

    of: str
    name: str
    value: str
    default: str
    set_by: str


@record
class Phase(Record):
    """A phase that the compiler times begins ("B") or ends ("E"), at the event's time."""

    name: str
    at: str
    function: str


@record
class CacheLookup(Record):
    """A lookup in a cache of graphs, kernels or configs: "hit", "miss" or "bypass", and why.

    `graph` or `kernel` says what was looked up, both "" for a whole frame. `seconds_saved` is what a hit saved.
    """

    cache: str
    state: str
    graph: str
    key: str
    kernel: str
    reason: str
    seconds_saved: float | None


@record
class CompilationMetrics(Record):
    """What torch counted of a compile: `of` a "forward" or "backward", by torch's own names."""

    of: str
    figures: Mapping[str, Plain]  # torch's CompilationMetrics, of which each version has others


@record
class WrittenFiles(Record):
    """Files that were written or found at once."""

    files: tuple[WrittenFile, ...]


@record
class CompileError(Record):
    """A compile ended with an error; `soft` for one of those after which Dynamo may run the frame in Python.

    `function`, `file` and `line` are the frame's, `graph` names a graph that has no frame of its own. `limit` names the
    recompile limit that was reached, with its value. `number` is the error's place among those of the recording.
    """

    error: str
    message: str
    soft: bool
    function: str
    file: str
    line: int
    graph: str
    limit: str
    limit_value: int
    number: int


@record
class CompileSwallowed(Record):
    """Dynamo kept the error of a compile to itself and runs the frame in Python."""


@record
class Stance(Record):
    """A compiled function was called under a stance under which it may not be compiled."""

    stance: str


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
    """The source of a function.

    `inlined` where it runs inside another's compile, `launches` where it launches Triton kernels itself, `unseen` where
    only line numbers are shown: "changed" or "none". `not_compiled` counts the resume functions that were never compiled.
    """

    text: str
    first_line: int
    compiled: bool
    inlined: bool | None = None
    launches: bool | None = None
    unseen: str | None = None
    not_compiled: int | None = None


@record
class Bytecode(Code):
    """The bytecode of a function, as `dis` prints it."""

    text: str
    names: Names
    compiled: bool
    not_compiled: int | None = None


@record
class DynamoBytecode(Code):
    """Dynamo's bytecode; `copied` has the lines of the text that it copied, each with its line in the user's file."""

    text: str
    names: Names
    copied: tuple[tuple[int, int], ...] | None = None


@record
class Decompiled(Code):
    """Dynamo's bytecode as Python; `undone` is the instruction that depyf could not turn into it."""

    text: str
    undone: str | None = None


@record
class Guards(Record):
    """Dynamo's print of its guard tree, and where in torch the guards were made that are for no line of the user's."""

    text: str
    made_at: tuple[GuardPlace, ...] | None = None


@record
class SymbolFact(Record):
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


# FX graphs ---------------------------------------------------------------------------------------------------------------


@record
class FxGraph(Record):
    """An FX graph: its readable text, its nodes, the nodes of the graphs inside it, and the distinct stacks of its nodes.

    `graph_text` is the graph as `print(gm.graph)` writes it. `of` is the path of a graph inside another one, "" for the
    outermost. Of what a log or a cache has there is the text alone; `cached` for what a cache had.
    """

    text: str
    nodes: tuple[FxNode, ...] | None = None
    inner: tuple[FxNode, ...] | None = None
    stacks: Names | None = None
    graph_text: str | None = None
    of: str | None = None
    cached: bool | None = None


@record
class FxPass(Record):
    """A pass changed an FX graph: `text` is the graph after it and `before` the one before, a node a line.

    `section` is the round of passes: "pre_grad", "joint" or "post_grad". `made` and `erased` name nodes, `replaced` the
    nodes whose uses each made one took, `parts` those that decompose another, `stacks` has the made ones' Python stacks.
    `idle` has name and seconds of the passes since the last change, which changed nothing.
    """

    name: str
    section: str
    text: str
    before: str
    made: Names
    erased: Names
    seconds: float | None
    of: str | None = None
    stacks: Mapping[str, str] | None = None
    replaced: Mapping[str, Names] | None = None
    parts: Names | None = None
    idle: tuple[tuple[str, float], ...] | None = None
    idle_after: tuple[tuple[str, float], ...] | None = None


@record
class FxPassIdle(Record):
    """The passes with which a round ended, which changed nothing: name and seconds."""

    section: str
    idle: tuple[tuple[str, float], ...]
    of: str | None = None


@record
class PatternMatch(Record):
    """A pattern fired: where it is defined, which nodes it matched and made, and the made ones' Python stacks.

    `section` is the round of passes that it fired in, `of` the path of the graph, "" for the outermost.
    """

    pattern: str
    of: str | None = None
    section: str | None = None
    kind: str
    file: str
    line: int
    matched: Names
    made: Names
    stacks: Mapping[str, str] | None = None
    text: str
    expression: str


# Inductor ----------------------------------------------------------------------------------------------------------------


@record
class SchedulerGraph(Record):
    """The scheduler's nodes before or after fusion; `of` is Inductor's name of the graph, `path` its path in the outermost."""

    text: str
    nodes: tuple[SchedulerNode, ...]
    of: str | None = None
    path: str | None = None


@record
class Fusion(Record):
    """What the scheduler considered in one graph, what it fused, and why it refused; see `observe/fusion.py`.

    Scheduler nodes are numbers: places in `names`, and after these in `groups`. `scores` has round, both nodes and the parts
    named in `score_parts`; `kernels` each kernel's name and nodes; `paths` calls in Inductor, innermost first.
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


@record
class FusionWish(Record):
    """What came in one graph of each Veto and Force, and the names that scheduler nodes have there."""

    names: Names
    rows: tuple[WishOutcome, ...]


@record
class Assumption(Record):
    """What Inductor would have timed on a GPU that is not attached, what was taken for the outcome, and why."""

    where: str
    assumed: str
    why: str


@record
class Autotune(Record):
    """The ways of doing an operation that Inductor chose among; inputs as dtype and sizes, "float32[8, 16]"."""

    operation: str
    inputs: Names
    choices: tuple[Choice, ...]


@record
class AutotuneTaken(Record):
    """A fusion settled on one choice, and why."""

    choice: str
    why: str


@record
class ChoiceSource(Record):
    """The source of a choice, in "triton", "cpp" or "fx", by the key that choices name it by."""

    source: str
    name: str
    language: str
    text: str


@record
class CudaGraph(Record):
    """A decision on a CUDA graph: what was decided of what, why, and the Python stack that torch names, or ""."""

    decision: str
    what: str
    reason: str
    stack: str


@record
class PerfHint(Record):
    """A performance hint of Inductor's, the FX nodes that it is about, and the Python stack of the first that has one."""

    hint: str
    nodes: Names
    stack: str


@record
class OutputCode(Record):
    """The wrapper that Inductor wrote, and its file's name; `cached` for what a cache had."""

    text: str
    file: str
    cached: bool | None = None


@record
class KernelLines(Record):
    """What a kernel computes line by line: (line counted from 1, FX node), its scheduler nodes, its template's FX nodes."""

    name: str
    lines: tuple[tuple[int, str], ...]
    operations: Names
    template: Names


# Kernels -----------------------------------------------------------------------------------------------------------------


@record
class Kernel(Record):
    """A kernel's source, and the line of the wrapper on which it begins.

    `comment` is what stands above it in the wrapper. Of a kernel that the program launches itself `file` and `first_line` are
    where it is defined, `launched_from` the places that launch it.
    """

    name: str
    language: str
    text: str
    wrapper_line: int
    comment: str
    definitions: tuple[KernelLines, ...] | None = None
    file: str | None = None
    first_line: int | None = None
    launched_from: tuple[Place | None, ...] | None = None


@record
class KernelForm(Record):
    """One form of a Triton kernel on its way to machine code.

    `file` and `first_line` say where its source's lines are in the text's locations. `config` is the one of `candidates` that
    was compiled and `chosen` why; `measured` has those that the attached GPU timed, with `ms`. `launched` where it is the
    form of a launch on that GPU. `stage_seconds` is what the compiler took for it. `ptx_lines` has for each instruction of
    SASS the line of the PTX it was assembled from.
    """

    name: str
    text: str
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


@record
class Assembly(Record):
    """The assembly of a C++ kernel as the compiler writes it.

    `nested` are the lines of the kernel's source in functions of their own; `inlined` has for an instruction's line of the
    text the calls (file, line) it was inlined by, innermost first; `unlinked` says why it has none.
    """

    name: str
    file: str
    text: str
    nested: tuple[int, ...]
    inlined: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
    unlinked: str


_GRAPHS = ("dynamo", "pre_grad", "joint", "forward", "backward", "inductor_input", "post_grad")
#: The kinds of the forms of a Triton kernel.
FORMS = ("ttir", "ttgir", "llir", "ptx", "amdgcn", "sass")
#: What the events of each kind hold.
EVENTS: Mapping[str, type[Record]] = MappingProxyType(
    {
        "frame": Frame,
        "compile_call": CompileCall,
        "setting": ChangedSetting,
        "phase": Phase,
        "cache": CacheLookup,
        "compilation_metrics": CompilationMetrics,
        "written_file": WrittenFiles,
        "compile_error": CompileError,
        "compile_swallowed": CompileSwallowed,
        "stance": Stance,
        "source": Source,
        "bytecode": Bytecode,
        "dynamo_bytecode": DynamoBytecode,
        "decompiled": Decompiled,
        "guards": Guards,
        "recompile": Text,
        "graph_break": Text,
        "symbol": SymbolFact,
        **dict.fromkeys(_GRAPHS, FxGraph),
        "fx_graph_runnable": Text,
        "fx_pass": FxPass,
        "fx_pass_idle": FxPassIdle,
        "pattern_match": PatternMatch,
        "ir_pre_fusion": SchedulerGraph,
        "ir_post_fusion": SchedulerGraph,
        "fusion": Fusion,
        "fusion_wish": FusionWish,
        "assumption": Assumption,
        "autotune": Autotune,
        "autotune_taken": AutotuneTaken,
        "choice_source": ChoiceSource,
        "cuda_graph": CudaGraph,
        "perf_hint": PerfHint,
        "output_code": OutputCode,
        "kernel_lines": KernelLines,
        "kernel": Kernel,
        **dict.fromkeys(FORMS, KernelForm),
        "assembly": Assembly,
    }
)


def event_data(kind: str, facts: Mapping[str, Plain]) -> Mapping[str, Plain]:
    """What an event of `kind` holds of these facts: the kind's record, or for a kind not in `EVENTS` a read-only mapping.

    FieldError for facts that are not those of the kind.
    """
    shape = EVENTS.get(kind)
    if shape is None:
        frozen: Mapping[str, Plain] = plain(facts)
        return frozen
    return typed(shape, facts)
