"""What each kind of event holds: one record a kind, its fields typed, with their units.

Most hold what the artifact of their stage holds, see `artifacts`, and its text.

`EVENTS` has them by kind. An event of a kind that is not in it, such as that of a user's own probe, holds any read-only mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from explorer.model.artifacts import (
    FORMS,
    GRAPHS,
    IREE_FUNCTIONS,
    IREE_MODULES,
    ONNX_GRAPHS,
    TVM_FUNCTIONS,
    TVM_MODULES,
    XLA_HLO,
    XLA_MODULES,
    AotMetadata,
    Assumption,
    Autotune,
    Bisected,
    Bytecode,
    CacheLookup,
    CallMemory,
    ChangedSetting,
    ChoiceForm,
    CompilationMetrics,
    CompileCall,
    Decompiled,
    DynamoBytecode,
    ExecutedPart,
    Fusion,
    FxGraph,
    FxPass,
    IreeAfterPass,
    IreeForTarget,
    IreeModule,
    IreePass,
    Kernel,
    KernelForm,
    KernelLines,
    Lowering,
    MachineFunction,
    OnnxGraph,
    OnnxPlacements,
    OpenVinoExecuted,
    OpenVinoIr,
    OpenVinoPartition,
    OutputCode,
    PatternMatch,
    Profile,
    RunTimes,
    SchedulerGraph,
    Source,
    Symbol,
    SymbolicSteps,
    TvmAfterPass,
    TvmForTarget,
    TvmPass,
    TvmVm,
    Vmfb,
    XlaCost,
    XlaKernel,
    XlaModule,
    XlaPass,
)
from explorer.model.records import Record, record, typed
from explorer.model.rows import GuardPlace, Names, Place, WishOutcome, WrittenFile
from explorer.model.values import Plain, plain


@record
class Text(Record):
    """A text alone, such as the runnable graph, or the reasons of a recompile."""

    text: str


@record
class LogRecordText(Text):
    """A record of a log that no other stage shows, or several of one name: `name` is what torch calls it."""

    name: str


@record
class GraphBreakText(Text):
    """A graph break's message; `cell` names the cell of a notebook that the user's file stands for."""

    cell: str | None = None


# torch.compile -----------------------------------------------------------------------------------------------------------


@record
class Frame(Record):
    """A compile begins: the program's stack that led to it, outermost first; its last entry is the frame."""

    stack: tuple[Place, ...]


@record
class PhaseMark(Record):
    """A phase that the compiler times begins ("B") or ends ("E"), at the event's time."""

    name: str
    at: str
    function: str


@record
class ProcessGroups(Record):
    """The process groups of torch.distributed when a graph was compiled: the ranks of each, by its name."""

    groups: Mapping[str, tuple[int, ...]]


@record
class FoundFiles(Record):
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
class SourceText(Source):
    """The source of a function."""

    text: str


@record
class BytecodeText(Bytecode):
    """The bytecode of a function, as `dis` prints it."""

    text: str


@record
class DynamoBytecodeText(DynamoBytecode):
    """The bytecode that Dynamo puts in a frame's place, as `dis` prints it."""

    text: str


@record
class DecompiledText(Decompiled):
    """Dynamo's bytecode as Python, by depyf."""

    text: str


@record
class GuardTree(Record):
    """Dynamo's print of its guard tree, and where in torch the guards were made."""

    text: str
    made_at: tuple[GuardPlace, ...] | None = None


# FX graphs ---------------------------------------------------------------------------------------------------------------


@record
class FxGraphText(FxGraph):
    """An FX graph, as Python with shapes, strides, devices and the user's lines as comments."""

    text: str


@record
class FxPassText(FxPass):
    """A pass changed an FX graph: the graph after it, a node a line."""

    text: str


@record
class PatternMatchText(PatternMatch):
    """A pattern fired: the nodes matched and the nodes made, a line each."""

    text: str


@record
class FxPassIdle(Record):
    """The passes with which a round ended, which changed nothing: name and seconds."""

    section: str
    idle: tuple[tuple[str, float], ...]
    of: str | None = None


# Inductor ----------------------------------------------------------------------------------------------------------------


@record
class SchedulerText(SchedulerGraph):
    """The scheduler's nodes, as TORCH_COMPILE_DEBUG=1 writes them."""

    text: str


@record
class FusionWish(Record):
    """What came in one graph of each Veto and Force, and the names that scheduler nodes have there."""

    names: Names
    rows: tuple[WishOutcome, ...]


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
class ChoiceFormText(ChoiceForm):
    """One text of a choice, made on demand."""

    text: str


@record
class CudaGraphDecision(Record):
    """A decision on a CUDA graph: what was decided of what, why, and the Python stack that torch names, or ""."""

    decision: str
    what: str
    reason: str
    stack: str


@record
class GivenHint(Record):
    """A performance hint of Inductor's, the FX nodes that it is about, and the Python stack of the first that has one."""

    hint: str
    nodes: Names
    stack: str


@record
class OutputCodeText(OutputCode):
    """The wrapper and the kernels it defines, as the file that is run."""

    text: str


@record
class LibraryMemory(Record):
    """What the library calls of the output code allocate, measured."""

    calls: tuple[CallMemory, ...]


# Kernels -----------------------------------------------------------------------------------------------------------------


@record
class KernelText(Kernel):
    """A kernel's source."""

    text: str


@record
class KernelFormText(KernelForm):
    """One form of a Triton kernel, such as its PTX."""

    text: str


@record
class AssemblyText(Record):
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


# Other compilers -----------------------------------------------------------------------------------------------------------


@record
class IreeModuleText(IreeModule):
    """A module of IREE's in one of its dialects, with its locations."""

    text: str


@record
class IreePassText(IreePass):
    """A pass of IREE's, and the difference that it made."""

    text: str


@record
class IreeAfterPassText(IreeAfterPass):
    """The whole module of IREE's behind a pass, with its locations."""

    text: str


@record
class MachineFunctionText(MachineFunction):
    """A function of a kernel, cut out of the text of an executable."""

    text: str


@record
class IreeForTargetText(IreeForTarget):
    """What IREE writes for another target."""

    text: str


@record
class ExecutableText(Record):
    """The LLVM IR or the assembly of an executable, with the names of the kernels' functions in it.

    `groups` has FX nodes by their numbers: a location's line behind those of all nodes stands for one of these groups.
    """

    text: str
    fx_nodes: Names
    functions: Names
    groups: tuple[tuple[int, ...], ...] | None = None


@record
class TvmPassText(TvmPass):
    """A pass of TVM's, and the difference of the texts of the functions that it changed."""

    text: str


@record
class TvmAfterPassText(TvmAfterPass):
    """All functions of TVM's module behind a pass, as TVMScript."""

    text: str


@record
class TvmVmText(TvmVm):
    """The code of TVM's virtual machine."""

    text: str


@record
class TvmForTargetText(TvmForTarget):
    """What TVM writes for another target."""

    text: str


@record
class XlaModuleText(XlaModule):
    """A graph in MLIR on its way to XLA, with its locations."""

    text: str


@record
class XlaPassText(XlaPass):
    """A pass of XLA's, and the difference of the module's texts."""

    text: str


@record
class XlaKernelText(XlaKernel):
    """A kernel of XLA's: its LLVM IR, or its assembly when it was cut out of a listing."""

    text: str


@record
class OpenVinoPartitionText(OpenVinoPartition):
    """A graph as OpenVINO's backend partitioned it, with the graphs of the parts in it."""

    text: str


@record
class OpenVinoIrText(OpenVinoIr):
    """The model of a part of a graph, in OpenVINO's XML."""

    text: str


@record
class OnnxGraphText(OnnxGraph):
    """A graph in ONNX, in ONNX's own syntax."""

    text: str


#: What the events of each kind hold.
EVENTS: Mapping[str, type[Record]] = MappingProxyType(
    {
        "frame": Frame,
        "compile_call": CompileCall,
        "setting": ChangedSetting,
        "phase": PhaseMark,
        "cache": CacheLookup,
        "compilation_metrics": CompilationMetrics,
        "process_groups": ProcessGroups,
        "written_file": FoundFiles,
        "compile_error": CompileError,
        "compile_swallowed": CompileSwallowed,
        "stance": Stance,
        "source": SourceText,
        "bytecode": BytecodeText,
        "symbolic_steps": SymbolicSteps,
        "dynamo_bytecode": DynamoBytecodeText,
        "decompiled": DecompiledText,
        "guards": GuardTree,
        "recompile": Text,
        "graph_break": GraphBreakText,
        "symbol": Symbol,
        **dict.fromkeys(GRAPHS, FxGraphText),
        "aot_metadata": AotMetadata,
        "fx_graph_runnable": Text,
        "fx_pass": FxPassText,
        "fx_pass_idle": FxPassIdle,
        "pattern_match": PatternMatchText,
        "lowering": Lowering,
        "ir_pre_fusion": SchedulerText,
        "ir_post_fusion": SchedulerText,
        "fusion": Fusion,
        "fusion_wish": FusionWish,
        "assumption": Assumption,
        "autotune": Autotune,
        "autotune_taken": AutotuneTaken,
        "choice_source": ChoiceSource,
        "choice": ChoiceFormText,
        "cuda_graph": CudaGraphDecision,
        "perf_hint": GivenHint,
        "output_code": OutputCodeText,
        "library_memory": LibraryMemory,
        "kernel_lines": KernelLines,
        "kernel": KernelText,
        **dict.fromkeys(FORMS, KernelFormText),
        "assembly": AssemblyText,
        "profile": Profile,
        "run_times": RunTimes,
        "bisection": Bisected,
        "log_record": LogRecordText,
        "execution": ExecutedPart,
        **dict.fromkeys(IREE_MODULES, IreeModuleText),
        **dict.fromkeys(IREE_FUNCTIONS, ExecutableText),
        "iree_pass": IreePassText,
        "iree_after_pass": IreeAfterPassText,
        "iree_vm_module": Text,
        "iree_vmfb": Vmfb,
        "iree_target": IreeForTargetText,
        "onnx_exported_program": FxGraphText,
        **dict.fromkeys(ONNX_GRAPHS, OnnxGraphText),
        "onnxrt_providers": OnnxPlacements,
        "openvino_partition": OpenVinoPartitionText,
        "openvino_ir": OpenVinoIrText,
        "openvino_executed": OpenVinoExecuted,
        **dict.fromkeys(TVM_MODULES, Text),
        "tvm_pass": TvmPassText,
        "tvm_after_pass": TvmAfterPassText,
        "tvm_vm": TvmVmText,
        **dict.fromkeys(TVM_FUNCTIONS, ExecutableText),
        "tvm_target": TvmForTargetText,
        **dict.fromkeys(XLA_MODULES, XlaModuleText),
        **dict.fromkeys(XLA_HLO, Text),
        "xla_pass": XlaPassText,
        "xla_buffers": Text,
        "xla_cost": XlaCost,
        "xla_llvm": XlaKernelText,
        "xla_assembly": Text,
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
