"""One file for each stage of the compiler, in a folder for each tool: text in, artifact out.

`STAGES` is the written-out tuple, in the compiler's order. Nothing of torch is imported. `replay.py` makes a trace's data of
events: a loop over stages, which knows none of them by name. `records.py` collects the records that the stages bring, and
`unread.py` makes facts when a recording is first read.
"""

from __future__ import annotations

from functools import partial

from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.stages import cuda
from explorer.stages.aot import aot_metadata, backward, forward, joint
from explorer.stages.cpp import assembly
from explorer.stages.dynamo import (
    bytecode,
    decompiled,
    dynamo_bytecode,
    graph_break,
    guards,
    recompile,
    source,
    symbol,
    symbolic_steps,
)
from explorer.stages.dynamo import graph as dynamo
from explorer.stages.halide import ASSEMBLY, LLVM, SCHEDULE, STMT
from explorer.stages.inductor import (
    assumption,
    attention,
    autotune,
    choice,
    cuda_graph,
    fusion,
    fx_graph_runnable,
    fx_pass,
    inductor_input,
    ir_post_fusion,
    ir_pre_fusion,
    kernel,
    lowering,
    output_code,
    pattern_match,
    perf_hint,
    post_grad,
    pre_grad,
)
from explorer.stages.iree import STAGES as IREE_STAGES
from explorer.stages.onnxrt import STAGES as ONNXRT_STAGES
from explorer.stages.openvino import STAGES as OPENVINO_STAGES
from explorer.stages.pallas import JAXPR, MOSAIC, STABLEHLO
from explorer.stages.torch_compile import (
    bisection,
    cache,
    compilation_metrics,
    compile_call,
    compiled_fn,
    eager_collective,
    execution,
    log_record,
    phase,
    piece,
    profile,
    run_times,
    setting,
    written_file,
)
from explorer.stages.triton import amdgcn, counters, llir, ptx, sass, ttgir, ttir
from explorer.stages.tvm import STAGES as TVM_STAGES
from explorer.stages.xla import STAGES as XLA_STAGES

#: The stages of the compilers other than Inductor, each in its compiler's order.
OTHER_COMPILERS: tuple[Stage, ...] = (
    *IREE_STAGES,
    *ONNXRT_STAGES,
    *OPENVINO_STAGES,
    *TVM_STAGES,
    *XLA_STAGES,
    compiled_fn.STAGE,
    execution.STAGE,
)
#: Every stage, in the order in which the compiler comes to it.
STAGES: tuple[Stage, ...] = (
    source.STAGE,
    compile_call.STAGE,
    setting.STAGE,
    phase.STAGE,
    cache.STAGE,
    compilation_metrics.STAGE,
    bytecode.STAGE,
    symbolic_steps.STAGE,
    recompile.STAGE,
    graph_break.STAGE,
    symbol.STAGE,
    dynamo.STAGE,
    dynamo_bytecode.STAGE,
    decompiled.STAGE,
    guards.STAGE,
    piece.STAGE,
    pre_grad.STAGE,
    aot_metadata.STAGE,
    joint.STAGE,
    forward.STAGE,
    backward.STAGE,
    inductor_input.STAGE,
    fx_graph_runnable.STAGE,
    attention.STAGE,
    pattern_match.STAGE,
    fx_pass.STAGE,
    post_grad.STAGE,
    assumption.STAGE,
    autotune.STAGE,
    choice.STAGE,
    lowering.STAGE,
    ir_pre_fusion.STAGE,
    fusion.STAGE,
    ir_post_fusion.STAGE,
    perf_hint.STAGE,
    cuda_graph.STAGE,
    output_code.STAGE,
    written_file.STAGE,
    kernel.STAGE,
    ttir.STAGE,
    ttgir.STAGE,
    llir.STAGE,
    ptx.STAGE,
    amdgcn.STAGE,
    sass.STAGE,
    cuda.PTX,
    cuda.SASS,
    assembly.STAGE,
    JAXPR,
    STABLEHLO,
    MOSAIC,
    SCHEDULE,
    STMT,
    LLVM,
    ASSEMBLY,
    profile.STAGE,
    run_times.STAGE,
    counters.STAGE,
    eager_collective.STAGE,
    bisection.STAGE,
    log_record.STAGE,
    *OTHER_COMPILERS,
)


def stages_of(trace: TraceData) -> tuple[Stage, ...]:
    """The stages that a trace was made with, or those that its file has, see `described.py`; explorer's where nothing says."""
    return trace._stages or STAGES


def stage_of(trace: TraceData, name: str) -> Stage:
    """The stage of that name: of those the trace was made with, or of explorer's, or else a bare one that shows the text."""
    stage_by_name = next((stage for stage in (*stages_of(trace), *STAGES) if stage.name == name), None)
    return stage_by_name or Stage(
        name=name, title=name, language="text", about="", render=partial(text_artifact, title=name, language="text")
    )


__all__ = ["OTHER_COMPILERS", "STAGES", "stage_of", "stages_of"]
