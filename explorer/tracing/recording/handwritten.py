"""trace_kernel: a hand-written Triton kernel, from its source down to machine code, for any GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from explorer.capture.absent.target import attached_gpu
from explorer.capture.compilers import torch_compile as compiling
from explorer.capture.ladder.ladder import Ladder, ladder_from_answer, of_launch
from explorer.capture.ladder.sass_lines import ptx_lines
from explorer.capture.ladder.triton_jit import (
    CONFIG_OPTIONS,
    LoweredCall,
    argument_names,
    function_name,
    grid_with,
    lower_call,
    own_config,
    with_configs,
)
from explorer.capture.ladder.triton_pool import Worker
from explorer.capture.ladder.triton_tools import missing_backend, no_sass
from explorer.errors import CompileError, ExplorerError, InputError, require_installed
from explorer.lab.live.kernel import LiveKernel
from explorer.lab.live.kernel_call import KernelCall, copies
from explorer.lab.live.ladder_events import events_of, kernel_source, without_backend, without_sass
from explorer.lab.live.launching import Launching
from explorer.model.values import Event, Failure, Plain
from explorer.reference.gpus.figures import Target
from explorer.stages.records import event_data
from explorer.stages.replay import replay
from explorer.tracing.recording.cells import with_cells
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of


def trace_kernel(
    trace: Callable[..., Trace],
    kernel: Any,
    *args: Any,
    grid: Any = None,
    target: str | Target = "auto",
    config: int | Mapping[str, Plain] | None = None,
    sass: bool = True,
    **constants: Any,
) -> Trace:
    """Compile `kernel[grid](*args, **constants)` for a GPU that need not be here, and return every stage: see `explorer.trace`.

    `trace` is that of a function, which an edit is tried in. `t.live.run` and `Trace.check(expected=…)` run the kernel on
    copies of the arguments, interpreted if these are on the CPU.
    `Kernel.edit` and `Kernel.tune` run it in a function that launches it, which torch.compile compiles for that. `Kernels.table`
    has the bytes of the launch, by its TTIR, and an estimated time. For the attached GPU, every form is the one that a launch
    runs: triton has it from an earlier launch, or compiles it for the next one. Registers are the driver's count. If that GPU
    cannot run the kernel, a Failure says so. SASS costs 0.3 s; with sass=False it is made when asked for.

    InputError for arguments or a source that triton refuses, with the line; where a stage below fails, the Trace has a
    Failure with what the compiler said. Where the installed triton has no backend for the GPU, as for Intel's, the Trace has the
    source, and a Failure for each stage below it.
    """
    for module in ("torch", "triton"):
        require_installed(module, "explorer.trace", "full")
    gpu = attached_gpu() if target in ("auto", "cuda") else Target.parse(target)
    written = lower_call(kernel, args, constants, grid, gpu, config)
    lowered = written.lowered
    place = {"file": lowered.file, "first_line": lowered.first_line}
    call = KernelCall(kernel, args, constants, grid, config)
    facts = {**place, **call.bytes_moved(lowered.ttir)}
    data = {"name": lowered.name, "language": "triton", "text": written.source, "wrapper_line": 0, "comment": "", **facts}
    source = kernel_source(lowered.name, written.source, lowered.file, lowered.first_line)
    events = [Event("source", 0.0, data=source), Event("kernel", 0.0, data=event_data("kernel", data))]
    failures: list[Failure] = []
    launch = {"line": 0, "arguments": dict(written.arguments), "grid": written.grid}
    live = LiveKernel(
        call,
        compile_with=lambda other: _ladder(lower_call(kernel, args, constants, grid, gpu, other), []),
        absent=None if target in ("auto", "cuda") else gpu,
        launching=Launching(partial(_in_function, trace, call, target), argument_names(kernel), {}),
    )
    try:
        ladder = _ladder(written, failures)
        live.ladder = ladder
        code = ladder.sass() if sass and gpu.vendor == "nvidia" and not no_sass(gpu) else ""
        lines = ptx_lines([ladder])[0] if code else ()
        events += events_of(ladder, events[-1], sass=code, lines=lines, launches=(launch,))
        failures += without_sass(gpu, events)
    except ExplorerError as error:
        failed = Failure("kernel", "ladder", str(error), fatal=True, kernel=lowered.name)
        failures += without_backend(gpu) or [failed]
        live.error = error
    compiled = live.ladder.metadata if live.ladder is not None else {}
    live.launching.own = own_config(kernel, constants, lowered.config, compiled)
    meta = {"name": lowered.name, "target": gpu.name, "backend": "triton", **compiling.torch_versions()}
    return trace_of(replay(with_cells(events), failures, meta), live)


def _in_function(
    trace: Callable[..., Trace], call: KernelCall, target: str | Target, configs: Sequence[Mapping[str, Plain]]
) -> Trace:
    """Trace a function that launches the kernel with the first of some configs: there it can be edited and tuned."""
    if call.grid is None:
        raise InputError(f"editing and tuning {function_name(call.kernel)} launch it: give explorer.trace its grid=")
    kernel, constants = with_configs(call.kernel, call.args, call.constants, configs)
    names = tuple(name for name in configs[0] if name not in CONFIG_OPTIONS)
    sizes = {
        tuple(config[name] for name in names): grid_with(kernel, call.args, constants, call.grid, config) for config in configs
    }

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        """Dynamo traces this function, and need not find the module of the program's own."""
        return sizes[tuple(meta[name] for name in names)]

    def launch(*args: Any, **constants: Any) -> None:
        kernel[grid](*args, **constants)

    copied = copies((*call.args, *constants.values()))  # the trace runs it once
    args, given = copied[: len(call.args)], copied[len(call.args) :]
    return trace(launch, *args, kwargs=dict(zip(constants, given, strict=True)), target=target)


def _ladder(written: LoweredCall, failures: list[Failure]) -> Ladder:
    """The kernel compiled, with the forms of its launch where the GPU is attached; a Failure where that cannot launch it.

    It is compiled in a process of its own first, where a crash of the compiler harms nothing.
    """
    lowered = written.lowered
    if missing := missing_backend(lowered.target):
        raise CompileError(missing)
    with Worker() as worker:
        ladder = ladder_from_answer(lowered, worker.ask(lowered.job))
    if written.launch is not None:
        try:
            ladder = replace(of_launch(lowered, written.launch()), seconds=ladder.seconds)
        except ExplorerError as error:
            failures.append(Failure("launch", "run", str(error), kernel=lowered.name))
    why = f"measured the fastest of {len(written.measured)}" if written.measured else "measured the fastest, by triton"
    return replace(ladder, measured=written.measured, chosen=why if written.tuned else "")
