"""The shape of what the artifacts of each stage hold in `data`, and a check of it for files that anybody may have written.

A key that no shape names is let through, as is a stage that is not one of explorer's own: a user's stage holds what it likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import msgspec

Names = list[str]
#: What an option or setting may be.
Setting = str | int | float | bool | None


class Tensor(TypedDict):
    """One of several outputs of a node."""

    device: NotRequired[str]
    dtype: NotRequired[str]
    shape: NotRequired[Names]


#: A node of an FX graph; "from" names the nodes of the graph before that it was made of.
FxNode = TypedDict(
    "FxNode",
    {
        "name": str,
        "op": str,
        "target": str,
        "args": str,
        "kwargs": str,
        "inputs": Names,
        "file": NotRequired[str],
        "line": NotRequired[int],
        "function": NotRequired[str],
        "code": NotRequired[str],
        "module": NotRequired[str],
        "stack": NotRequired[int],
        "from": NotRequired[Names],
        "original": NotRequired[str],
        "decomposition": NotRequired[str],
        "seq_nr": NotRequired[int],
        "device": NotRequired[str],
        "dtype": NotRequired[str],
        "shape": NotRequired[Names],
        "stride": NotRequired[Names],
        "outputs": NotRequired[list[Tensor]],
        "value": NotRequired[str],
        "input": NotRequired[str],
    },
)


class FxGraph(TypedDict):
    """A graph of torch.fx, the nodes of the graphs inside it, and the distinct call stacks of its nodes."""

    nodes: list[FxNode]
    inner: NotRequired[list[FxNode]]
    stacks: Names
    of: NotRequired[str]
    graph_text: NotRequired[str]


class Function(TypedDict):
    """A function of the user's, or one that Dynamo made or inlined."""

    function: str
    qualname: str
    file: str
    line: int
    resume: bool


class Source(Function):
    """The text of a function."""

    first_line: int
    compiled: bool
    inlined: NotRequired[bool]
    not_compiled: NotRequired[str | None]


class Bytecode(Function):
    """The bytecode of a function; "copied" pairs lines of a resume function with those of the function it resumes."""

    names: Names
    compiled: NotRequired[bool]
    not_compiled: NotRequired[str | None]
    copied: NotRequired[list[tuple[int, int]]]


class Phase(TypedDict):
    """One phase that the compiler timed, in seconds."""

    name: str
    function: str
    graph: str
    depth: int
    start: float
    seconds: float | None


class Phases(TypedDict):
    """The phases of one compile."""

    rows: list[Phase]


class Guard(TypedDict):
    """One guard, and the line that it is for."""

    code: str
    expression: str
    kind: str
    source: str
    file: str
    line: int
    function: NotRequired[str]
    framework: NotRequired[str]
    note: NotRequired[str]
    origin: NotRequired[str]
    derived_from: NotRequired[list[tuple[str, str]]]


class Guards(TypedDict):
    """The guards of one compile."""

    rows: list[Guard]


class Recompile(TypedDict):
    """A guard that failed, and the compile that it belongs to."""

    earlier: str
    guard: str


class Recompiles(TypedDict):
    """Why a function was compiled again."""

    rows: list[Recompile]


class Symbol(TypedDict):
    """Something that became known of a symbolic size: "val" its value now, "vr" the range of its values, "source" what it is."""

    what: str
    file: str
    line: int
    code: str
    symbol: NotRequired[str]
    val: NotRequired[str]
    vr: NotRequired[str]
    source: NotRequired[str]


class Symbols(TypedDict):
    """The symbolic sizes of one compile."""

    rows: list[Symbol]


class GraphBreak(TypedDict):
    """Why a graph ended."""

    reason: str
    explanation: str
    hints: Names
    file: str
    line: int


class CompileCall(TypedDict):
    """The torch.compile call that a frame came from, and the line that called the function."""

    file: str
    line: int
    code: str
    backend: str
    options: dict[str, str]
    called_file: str
    called_line: int
    called_code: str


class Metrics(TypedDict):
    """What torch counted of one compile, by torch's own names beside `of`."""

    of: str


class AllMetrics(TypedDict):
    """What torch counted of the compiles of a frame."""

    rows: list[Metrics]


class ChangedSetting(TypedDict):
    """A setting that was not at its default, as Python writes its values."""

    of: str
    name: str
    value: str
    default: str
    set_by: str


class Settings(TypedDict):
    """The settings of one compile that were not at their defaults."""

    rows: list[ChangedSetting]


class WrittenFile(TypedDict):
    """A file that Inductor or triton wrote."""

    by: str
    path: str
    kind: str
    bytes: int | None


class WrittenFiles(TypedDict):
    """The files that were written for one frame."""

    rows: list[WrittenFile]


class CudaGraph(TypedDict):
    """A decision on a CUDA graph, and the user's line."""

    decision: str
    what: str
    reason: str
    file: str
    line: int
    code: str


class CudaGraphs(TypedDict):
    """The decisions on CUDA graphs of one frame."""

    rows: list[CudaGraph]


class PerfHint(TypedDict):
    """A performance hint, the nodes that it is about, and the user's line."""

    hint: str
    nodes: Names
    file: str
    line: int
    code: str


class PerfHints(TypedDict):
    """The performance hints of one frame."""

    rows: list[PerfHint]


class PatternMatch(TypedDict):
    """A pattern that fired, and where it is defined."""

    pattern: str
    kind: str
    expression: str
    file: str
    line: int
    matched: Names
    made: Names
    stacks: NotRequired[dict[str, str]]
    of: NotRequired[str]


class FxPass(TypedDict):
    """A pass that changed a graph, and those around it that did not, with their seconds."""

    name: str
    section: str
    seconds: float | None
    before: str
    made: Names
    erased: Names
    replaced: NotRequired[dict[str, Names]]
    stacks: NotRequired[dict[str, str]]
    idle: NotRequired[list[tuple[str, float]]]
    idle_after: NotRequired[list[tuple[str, float]]]
    of: NotRequired[str]


class IrNode(TypedDict):
    """A node of Inductor's scheduler."""

    name: str
    kind: str
    device: str
    line_count: int
    inputs: Names
    reads: Names
    writes: Names
    origins: Names
    fused: Names
    sizes: list[Names]
    node: NotRequired[str]
    bodies: NotRequired[dict[str, dict[str, dict[str, str]]]]


class Ir(TypedDict):
    """The scheduler's nodes before or after fusion."""

    nodes: list[IrNode]
    of: NotRequired[str]
    path: NotRequired[str]


class Group(TypedDict):
    """Two nodes that were fused, and the round in which."""

    kind: str
    of: tuple[int, int]
    round: int


class Round(TypedDict):
    """One round of fusion, and how many nodes there were before and after it."""

    before: int
    after: int
    reorder: bool


class Result(TypedDict):
    """A tensor that a library call returns; nothing of what is no tensor."""

    alias: NotRequired[bool]
    dtype: NotRequired[str]
    size: NotRequired[Names]
    stride: NotRequired[Names]


class Call(TypedDict):
    """An operator that is computed as a whole, see `observe/work.py`."""

    operator: str
    operations: int | None
    template: bool
    buffer: NotRequired[str]
    channels: NotRequired[int]
    dtype: NotRequired[str]
    groups: NotRequired[int]
    node: NotRequired[str]
    results: NotRequired[list[Result]]
    sizes: NotRequired[list[int]]
    strides: NotRequired[list[list[int]]]
    tf32: NotRequired[bool]
    transposed: NotRequired[bool]


class FinalNode(TypedDict):
    """A node after fusion; what it reads and writes in bytes, and what it computes."""

    kind: str
    number: int
    read: int
    written: int
    ir: NotRequired[str]
    call: NotRequired[str]
    calls: NotRequired[list[Call]]
    elementwise: NotRequired[dict[str, int]]
    one_block: NotRequired[dict[str, int]]
    rows: NotRequired[int | None]
    run: NotRequired[int | None]
    unsized: NotRequired[Names]


class Buffer(TypedDict):
    """Why a buffer is in memory."""

    buffer: str
    lowering: str
    path: int
    needed_by: NotRequired[Names]
    output: NotRequired[bool]
    reads: NotRequired[int]
    users: NotRequired[int]


class Verdicts(TypedDict):
    """The scheduler's verdicts; nodes are given by their place in "names", see `stages/inductor/fusion.py`."""

    names: Names
    of: str
    about: list[tuple[int, list[int]]]
    args: list[Names]
    final: list[FinalNode]
    groups: list[Group]
    kernels: list[tuple[str, list[int]]]
    made: list[Buffer]
    pairs: list[tuple[int, str, int, int, int | None, int, str]]
    paths: list[list[tuple[str, int, str]]]
    rounds: list[Round]
    rules: list[tuple[str, str, int, str]]
    score_parts: Names
    scores: list[list[int | float]]
    settings: dict[str, Setting]


class File(TypedDict):
    """Where a text was written."""

    file: str


class Definition(TypedDict):
    """What one function of a kernel computes, line by line."""

    name: str
    lines: list[tuple[int, str]]
    operations: Names
    template: list[Any]


class Kernel(TypedDict):
    """A kernel cut out of the output code."""

    name: str
    language: str
    wrapper_line: int
    comment: NotRequired[str]
    definitions: NotRequired[list[Definition]]
    launched_from: NotRequired[list[Place]]


class Place(TypedDict):
    """A line of the program."""

    file: str
    line: int
    function: str


class Launch(TypedDict):
    """One launch of a Triton kernel: by the wrapper, or `times` times by the program itself."""

    line: int
    grid: list[str | int]
    arguments: dict[str, str | int | float | bool | None]
    times: NotRequired[int]
    place: NotRequired[Place]


class LadderForm(TypedDict):
    """One form of a Triton kernel on its way to machine code."""

    name: str
    file: str
    first_line: int
    target: str
    config: dict[str, Setting]
    candidates: list[dict[str, Setting]]
    chosen: str
    metadata: dict[str, Any]
    launches: list[Launch]
    stage_seconds: float | None
    mix: NotRequired[dict[str, int]]
    launched: NotRequired[bool]


class Assumption(TypedDict):
    """What was assumed where Inductor would have timed."""

    where: str
    graph: str
    assumed: str
    why: str


class Assumptions(TypedDict):
    """The assumptions of a compile for a GPU that is not attached."""

    rows: list[Assumption]


class Choice(TypedDict):
    """One way of doing an operation; "ms" in milliseconds."""

    choice: str
    kind: str
    taken: bool
    ms: float | None


class Autotune(TypedDict):
    """The ways of doing an operation that Inductor chose among."""

    operation: str
    inputs: Names
    choices: list[Choice]


_GRAPHS = ("dynamo", "pre_grad", "joint", "forward", "backward", "inductor_input", "post_grad")
_LADDER = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")
SHAPES: Mapping[str, Any] = {
    **dict.fromkeys(_GRAPHS, FxGraph),
    **dict.fromkeys(_LADDER, LadderForm),
    "source": Source,
    "bytecode": Bytecode,
    "dynamo_bytecode": Bytecode,
    "decompiled": Function,
    "phase": Phases,
    "guards": Guards,
    "recompile": Recompiles,
    "symbol": Symbols,
    "graph_break": GraphBreak,
    "compile_call": CompileCall,
    "compilation_metrics": AllMetrics,
    "setting": Settings,
    "written_file": WrittenFiles,
    "cuda_graph": CudaGraphs,
    "perf_hint": PerfHints,
    "pattern_match": PatternMatch,
    "fx_pass": FxPass,
    "ir_pre_fusion": Ir,
    "ir_post_fusion": Ir,
    "fusion": Verdicts,
    "output_code": File,
    "kernel": Kernel,
    "assumption": Assumptions,
    "autotune": Autotune,
}


def check(artifact_id: str, stage: str, data: object) -> None:
    """ValueError, which says where, for data of one of explorer's stages, as JSON has it, that has not the shape of the stage."""
    shape = SHAPES.get(stage)
    if shape is None:
        return
    try:
        msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        raise ValueError(f"{artifact_id}: {error}") from None
