"""The probes. All of them observe every compile, whatever stages are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from explorer.capture.observe import (
    aot,
    autotuning,
    caches,
    compile_fx,
    cuda_graphs,
    dynamo,
    metrics,
    passes,
    patterns,
    perf_hints,
)
from explorer.capture.observe.attention import attention
from explorer.capture.observe.bytecode import bytecode
from explorer.capture.observe.captured import captured_ahead
from explorer.capture.observe.compile_calls import compile_calls
from explorer.capture.observe.context import context
from explorer.capture.observe.debug_calls import WRITTEN, written_for_debugging
from explorer.capture.observe.dynamo_graph import graph
from explorer.capture.observe.eager_collectives import eager_collectives
from explorer.capture.observe.guards import guards
from explorer.capture.observe.kernel_compiles import kernel_compiles
from explorer.capture.observe.kernel_lines import kernel_lines
from explorer.capture.observe.lowering import lowerings
from explorer.capture.observe.pieces import pieces
from explorer.capture.observe.process_groups import groups_at_compiles
from explorer.capture.observe.retraced import retraced
from explorer.capture.observe.scheduler import verdicts
from explorer.capture.observe.settings import settings
from explorer.capture.observe.structured import only_heard
from explorer.capture.observe.symbols import symbols
from explorer.capture.observe.written_files import written_files
from explorer.model.stage import Watch


@dataclass(frozen=True, slots=True)
class Probe:
    """What observes one part of the compiler.

    `watch(emit)` is a context manager, inside which the probe emits events of these `kinds`. A Failure calls it by `name` where
    it cannot be entered: the stage that loses the most then.
    """

    name: str
    watch: Watch
    kinds: tuple[str, ...]


#: Every probe. The first says where the compile is, so that it begins before the others at each function that they share.
PROBES: tuple[Probe, ...] = (
    Probe("context", context, ()),
    Probe("structured log", only_heard, ()),
    Probe("piece", pieces, ("piece",)),
    Probe("source", dynamo.frames, ("frame", "recompile", "compile_error", "compile_swallowed", "stance")),
    Probe("compile_call", compile_calls, ("compile_call",)),
    Probe("setting", settings, ("setting",)),
    Probe("process_groups", groups_at_compiles, ("process_groups",)),
    Probe("phase", dynamo.phases, ("phase",)),
    Probe("kernel compiles", kernel_compiles, ()),
    Probe("cache", caches.lookups, ("cache", "post_grad", "output_code", "library_memory")),
    Probe("compilation_metrics", metrics.compilation_metrics, ("compilation_metrics",)),
    Probe("bytecode", bytecode, ("source", "bytecode", "dynamo_bytecode", "decompiled")),
    Probe("bytecode ahead", captured_ahead, ("source", "bytecode", "dynamo_bytecode", "decompiled", "compile_call")),
    Probe("recompile", partial(dynamo.logged, kind="recompile", name="recompile_reasons"), ("recompile",)),
    Probe("graph_break", dynamo.graph_breaks, ("graph_break",)),
    Probe("symbol", symbols, ("symbol",)),
    Probe("dynamo", graph, ("dynamo", "source")),
    Probe("guards", guards, ("guards",)),
    Probe("pre_grad", compile_fx.pre_grad, ("pre_grad",)),
    Probe("joint", aot.graphs, ("joint", "forward", "backward")),
    Probe("retraced", retraced, ()),
    Probe("aot_metadata", aot.metadata, ("aot_metadata",)),
    Probe("forward", compile_fx.joint_graph, ("joint", "forward")),
    Probe("backward", compile_fx.lowered_graph, ("forward", "backward", "inductor_input", "source", "compile_error")),
    Probe("fx_graph_runnable", compile_fx.runnable, ("fx_graph_runnable",)),
    Probe("pattern_match", patterns.pattern_matches, ("pattern_match",)),
    Probe("attention", attention, ("attention",)),
    Probe("fx_pass", passes.passes, ("fx_pass", "fx_pass_idle")),
    Probe("output_code", written_for_debugging, WRITTEN),
    Probe("autotune", autotuning.algorithm_choices, ("autotune", "autotune_taken", "choice_source")),
    Probe("lowering", lowerings, ("lowering",)),
    Probe("fusion", verdicts, ("fusion",)),
    Probe("perf_hint", perf_hints.perf_hints, ("perf_hint",)),
    Probe("cuda_graph", cuda_graphs.cuda_graphs, ("cuda_graph",)),
    Probe("written_file", written_files, ("written_file",)),
    Probe("kernel", kernel_lines, ("kernel_lines",)),
    Probe("eager_collective", eager_collectives, ("eager_collective",)),
)
