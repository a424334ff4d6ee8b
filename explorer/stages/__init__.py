"""One file a stage; `STAGES` lists them in the compiler's order."""

from __future__ import annotations

from explorer.stage import Stage
from explorer.stages import (
    assembly,
    backward,
    bytecode,
    decompiled,
    dynamo,
    dynamo_bytecode,
    forward,
    fx_graph_runnable,
    fx_pass,
    graph_break,
    guards,
    inductor_input,
    ir_post_fusion,
    ir_pre_fusion,
    joint,
    kernel,
    output_code,
    pattern_match,
    phase,
    post_grad,
    pre_grad,
    recompile,
    source,
    symbol,
)

#: Every stage, in the order in which the compiler comes to it.
STAGES: tuple[Stage, ...] = (
    source.STAGE,
    phase.STAGE,
    bytecode.STAGE,
    recompile.STAGE,
    graph_break.STAGE,
    symbol.STAGE,
    dynamo.STAGE,
    dynamo_bytecode.STAGE,
    decompiled.STAGE,
    guards.STAGE,
    pre_grad.STAGE,
    joint.STAGE,
    forward.STAGE,
    backward.STAGE,
    inductor_input.STAGE,
    fx_graph_runnable.STAGE,
    pattern_match.STAGE,
    fx_pass.STAGE,
    post_grad.STAGE,
    ir_pre_fusion.STAGE,
    ir_post_fusion.STAGE,
    output_code.STAGE,
    kernel.STAGE,
    assembly.STAGE,
)

__all__ = ["STAGES"]
