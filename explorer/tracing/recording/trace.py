"""trace: compile one call with the probes on, then replay what was recorded."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from explorer.capture.absent import target as target_room
from explorer.capture.absent.autocast import Ambient
from explorer.capture.absent.cluster import Cluster
from explorer.capture.compilers import backend as backends
from explorer.capture.compilers import torch_compile as compiling
from explorer.capture.compilers.compilers import compiler_named
from explorer.capture.ladder.triton_tools import is_triton_kernel
from explorer.capture.observe.functions import emit_function, emit_inlined
from explorer.capture.observe.patch import ON_PURPOSE, shielded
from explorer.capture.observe.requests import Changes
from explorer.capture.observe.torch_logs import REFUSED_OPERATORS, torch_logs_kept_from_terminal
from explorer.capture.observe.without_data import as_fake, without_data
from explorer.errors import BusyError, InputError, InterpretError, require_installed
from explorer.lab.live.call import Call, clone, hidden_elsewhere, run_call
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.hooked import hooked_modules
from explorer.lab.live.state import PlainValues, State
from explorer.model.stage import Stage
from explorer.model.values import Failure, NodePairs, Plain
from explorer.process.garbage import full_collections_paused
from explorer.process.progress import progress
from explorer.reference.gpus.figures import Target
from explorer.stages.plugged import with_plugged
from explorer.tracing.recording.advice import advice_on_call, devices_apart
from explorer.tracing.recording.arguments import TraceRequest, absent_target, check_data, check_dtypes, check_request, name_of
from explorer.tracing.recording.changes import changes_in_meta, with_unfulfilled
from explorer.tracing.recording.compile_failures import (
    SKIPPED_FRAME,
    asked_of_data,
    compile_failures,
    failure_if_nothing_compiled,
)
from explorer.tracing.recording.eager_check import engine_alone_raises, note_difference
from explorer.tracing.recording.finish import failures_of, finished
from explorer.tracing.recording.kernels import KernelRecorder, recording_kernels
from explorer.tracing.recording.recorder import Recorder, recording
from explorer.tracing.traced import Trace
from explorer.tracing.traced.what_if import fusion_requests, name_list

#: DDP makes its buckets anew after its first backward and sends them before the second, and FSDP2 is set up in its first call.
STEPS_BEFORE = 2


def trace(
    fn: Callable[..., Any] | None = None,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    target: str | Target | Cluster = "auto",
    train: bool = False,
    mode: str | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    backend: Any = "inductor",
    options: Mapping[str, Any] | None = None,
    stages: Sequence[Stage] | None = None,
    keep_apart: NodePairs = (),
    fuse: NodePairs = (),
    without_pattern: str | Sequence[str] = (),
    without_pass: str | Sequence[str] = (),
    world: int | None = None,
    rank: int = 0,
    check: bool = True,
    grid: Any = None,
    config: int | Mapping[str, Plain] | None = None,
    **unknown: Any,
) -> Trace:
    """Compile `fn(*args, **kwargs)` afresh, run it once, and return every stage of the compile as a Trace.

    `fn` is any callable or nn.Module; one that is compiled already is traced from its original. `target` is
    "auto" (the device the arguments are on), "cpu", "cuda", or a GPU that need not be here, by name ("h100") or as a
    `Target`: then every stage after Dynamo is that GPU's, and the function runs on the CPU. With `train` the outputs'
    sum is differentiated too, see `t.live.gradients`; without it nothing is kept for a backward. For a function that calls
    DistributedDataParallel or FSDP2 that is the third of three steps, which their hooks take part in. `mode`, `dynamic`,
    `fullgraph` and `options` are torch.compile's. `backend` is a registered name, a callable as torch.compile takes it, or a
    `compiler(module) -> module` that calls torch.compile itself.

    What IREE, ONNX Runtime, OpenVINO, TVM, XLA, or a Pallas or Halide kernel computes is compared with eager once, as `t.check()`
    does, and a Failure says where it differs. That is left out with `check=False`, for a call that takes more than a second
    or has more than 1 GiB of tensors, and where Python runs between the graphs; `t.inductor.assumptions` says why.

    `keep_apart=("op3", "op7")` keeps two nodes of Inductor's scheduler from becoming one kernel, `fuse=("sin", "mul")` makes them
    one where Inductor's rules allow it; a Failure says why if that was not possible. Each takes a list of pairs too. A node is
    named as the scheduler names it, by a buffer it writes, or by an FX node it computes; a third and a fourth name in a pair
    choose the graph ("backward") and the compile ("0/0").
    `without_pattern` and `without_pass` leave out the patterns and passes that `t.inductor.matches` and `t.inductor.passes` list
    by these names, also those that only a later round has; "_sfdp_*" matches every name with that prefix.

    With `world` the trace is for that many of the named GPU, as rank `rank` sees them, in this one process; `target` may be a
    `Cluster` instead. Collectives exchange nothing then: their results have the right shapes, not the values of a run.

    `fn` may be a Triton kernel too, @triton.jit or @triton.autotune: `trace(kernel, x, out, n, grid=(8,), BLOCK=256)` compiles
    `kernel[grid](x, out, n, BLOCK=256)` and runs nothing. Its constexprs and triton's own options, such as num_warps, are
    keywords; its tensors may be on the CPU. `grid` is as in a launch; only `t.live.run` and `t.check(expected=…)` need it.
    `config` chooses a candidate of an autotuned kernel by index or values; None is the first, for the attached GPU the one that
    triton has measured the fastest. With sass=False SASS is made when it is asked for.

    State that earlier compiles left is set aside: no cache of graphs is read or written. `record` uses the caches. `stages` are
    what is observed, all of `explorer.types.STAGES` and of plug-ins by default.

    A compile that fails still gives its trace, with a Failure; `Trace.raise_for_failures` raises. An
    error that `fn` itself raises goes through, with the trace so far as its attribute `explorer_trace`.
    Raises InputError for arguments that cannot be, and NotInstalledError without torch.

    Only one trace can be made at a time, and none during a recording that is `fresh` or for a GPU you don't have. A second one
    waits if another thread makes the first. If waiting cannot help, as in the same thread, torch alone compiles `fn`, and a
    Failure says why nothing was traced.
    """
    require_installed("torch", "explorer.trace", "full")
    if fn is None:
        raise InputError("trace needs a function or module, and its arguments: write explorer.trace(f, x)")
    if is_triton_kernel(fn):
        from explorer.tracing.recording.handwritten import trace_kernel

        torch_compiles = {"train": train, "mode": mode, "dynamic": dynamic, "fullgraph": fullgraph, "options": options}
        left_out = {
            "keep_apart": keep_apart,
            "fuse": fuse,
            "without_pattern": without_pattern,
            "without_pass": without_pass,
            "world": world,
        }
        check_kernel_settings({**torch_compiles, **left_out, "backend": backend})
        if isinstance(target, Cluster):
            raise InputError("a Triton kernel is compiled for one GPU: give target= its name, such as 'h100'")
        return trace_kernel(trace, fn, *args, grid=grid, target=target, config=config, **(kwargs or {}), **unknown)
    unknown |= {name: value for name, value in (("grid", grid), ("config", config)) if value is not None}
    compile_settings = (mode, dynamic, fullgraph, backend, options)
    changed = (keep_apart, fuse, without_pattern, without_pass)
    request = TraceRequest(fn, args, kwargs, target, train, *compile_settings, with_plugged(stages), *changed, world, rank, check)
    tracing = _Tracing(request, sys._getframe(1))
    try:
        check_request(request, unknown, tracing.caller)
        with request.joined():
            return tracing.trace()
    except BusyError as error:
        if tracing.live is None or tracing.live.begun:  # torch was busy with something else
            raise
        with _joined(request):
            return tracing.trace_without_explorer(error)
    except ON_PURPOSE:
        raise
    except Exception as error:
        if hasattr(error, "explorer_trace"):  # raised by the traced function
            raise
        with _joined(request):
            return tracing.trace_without_explorer(error)


def check_kernel_settings(settings: Mapping[str, Any]) -> None:
    """Raise InputError for a setting of torch.compile's that a kernel cannot have."""
    for name, value in settings.items():
        if value not in (None, False, "inductor", ()):
            raise InputError(f"{name} is torch.compile's, and a Triton kernel is compiled by triton: leave {name}= out")


def _joined(request: TraceRequest) -> AbstractContextManager[None]:
    """Be the cluster's rank inside the block, as far as explorer can find the cluster."""
    try:
        return request.joined()
    except Exception:  # noqa: BLE001 this may be what failed
        return nullcontext()


@dataclass(frozen=True)
class Plan:
    """One call to trace: where it runs, what it is compiled for, and how the compile is changed.

    `device` is the kernels' device. `absent` is the same if it is an absent GPU; the call then runs on the CPU.
    """

    request: TraceRequest
    call: Call
    device: str | Target
    absent: Target | None
    changes: Changes
    without_data: bool

    @staticmethod
    def of(request: TraceRequest) -> Plan:
        """Find the device and place the call there. InputError for what cannot be compiled or moved."""
        fn, args, kwargs = compiling.unwrapped(request.fn), request.args, request.kwargs or {}
        tensor_without_data = without_data(fn, args, kwargs)
        cluster = request.cluster
        device = target_room.resolve(cluster.target if cluster else request.target, (args, kwargs), fn)
        absent = absent_target(device, request.backend, request.options)
        check_data(tensor_without_data, absent, device)
        if tensor_without_data:
            fn, args, kwargs = as_fake(fn, args, kwargs)
        ambient = Ambient.now(absent.device if absent else "")
        call = Call(fn, args, dict(kwargs), request.train, absent, ambient, cluster, hooked_modules(fn))
        check_dtypes(absent, call)
        call = _placed(call, "cpu" if absent else str(device), request.target)
        left_out = name_list("without_pattern", request.without_pattern), name_list("without_pass", request.without_pass)
        changes = Changes(fusion_requests(request.keep_apart, request.fuse), *left_out)
        return Plan(replace(request, fn=fn), call, device, absent, changes, bool(tensor_without_data))

    def meta(self) -> dict[str, Plain]:
        """Return what the trace's meta says of the request."""
        return {
            "name": name_of(self.request.fn),
            "target": self.absent.name if self.absent else str(self.device),
            "train": self.request.train,
            "backend": name_of(self.request.backend),
            "fresh": True,
            **(self.call.cluster.meta() if self.call.cluster else {}),
            **self.request.compile_settings(),
            **changes_in_meta(self.changes),
        }

    def retrace(self, unchanged: Call, other_arguments: Mapping[str, Any]) -> Trace:
        """Trace the call again with some arguments of `trace` changed; `unchanged` has the inputs as they were before."""
        inputs = {"kwargs": clone(dict(unchanged.kwargs))}
        with State.of(self.request.fn).kept():
            unchanged.held.put_back()
            return trace(self.request.fn, *clone(unchanged.args), **{**self.request.keywords(), **inputs, **other_arguments})


def _placed(call: Call, device: str, target: object) -> Call:
    """Move the call to the device asked for; with "auto" everything stays where it is. InputError for what cannot be moved."""
    if target == "auto":
        return call
    if advice := hidden_elsewhere(call, device):
        raise InputError(advice)
    function = target_room.moved_function(call.function, device)
    args, kwargs = target_room.moved(call.args, device), target_room.moved(dict(call.kwargs), device)
    return replace(call, function=function, args=args, kwargs=kwargs)


@dataclass
class _Tracing:
    """One call of `trace` by `caller`; `live` is set as soon as the function may run, which happens once."""

    request: TraceRequest
    caller: FrameType
    live: LiveFunction | None = None

    def trace(self) -> Trace:
        """Compile and call the function with the probes on, and replay what they recorded."""
        plan = Plan.of(self.request)
        meta = plan.meta()
        # a traced function may change its inputs, and the verbs of the trace are asked later
        state = State.of(plan.call.function)
        unchanged, held = plan.call.copy(state.tensors.values()), PlainValues.of(state)
        with progress(str(meta["name"])) as show:
            recorder = Recorder(show)
            self.live = live = LiveFunction(unchanged, absent=plan.absent, empty=plan.without_data)
            live.retrace = lambda **arguments: plan.retrace(live.call, arguments)
            live.trace_arguments = plan.request.keywords()
            with full_collections_paused(), recording_kernels(plan.device, plan.absent, recorder.guard) as kernels:
                try:
                    seconds = _compile_and_call(live, plan, recorder, kernels)
                except Exception as error:
                    if not _is_of_explorer(error):
                        error.explorer_trace = finished(recorder, meta, plan.request.stages, live)  # type: ignore[attr-defined]
                        for note in advice_on_call(error, plan.call, self.caller):
                            error.add_note(f"explorer: {note}")
                    raise
                live.ladders = kernels.finish(recorder).with_choices(recorder.events)
            live.call = replace(unchanged, held=held.changed())
            live.generated = recorder.generated if plan.absent else None
            live.loaded = kernels.modules
            live.options = compiling.options_of(plan.request.mode, plan.request.options)
            live.guard_events = [event for event in recorder.events if event.kind == "guards"]
            note_difference(live, recorder, plan.request.backend, seconds, check=self.request.check)
        trace = finished(recorder, meta, plan.request.stages, live)
        live.late_losses = partial(recorder.guard.failures, failures_of(recorder))
        return with_unfulfilled(trace, recorder.events, plan.changes)

    def trace_without_explorer(self, error: Exception) -> Trace:
        """Give the result of torch alone, in a trace that says what kept explorer from tracing.

        Where the function was called already, it is not called again.
        """
        request = self.request
        live = self.live or LiveFunction(Call(request.fn, request.args, dict(request.kwargs or {}), request.train))
        if not live.begun and live.error is None:
            live.compiled = _compiled_without_explorer(request, live.call.function)
            self._call_without_explorer(live)
        why = str(error) if isinstance(error, BusyError) else f"explorer itself failed: {type(error).__name__}: {error}"
        message = f"nothing was traced: {why}"
        failure = Failure("record", "trace", message, fatal=True)
        live.uncompiled = message
        name = str(getattr(live.call.function, "__name__", type(live.call.function).__name__))  # `name_of` may be what failed
        return Trace({"name": name}, failures=(failure,), _live=live)

    @staticmethod
    def _call_without_explorer(live: LiveFunction) -> None:
        """Call what torch alone compiled, for this machine: for a GPU that torch.cuda speaks of it would look for the driver."""
        assert live.compiled is not None
        try:
            live.returned, live.gradients_by_name = run_call(_called_once(live), live.call, told=False)
        except Exception as error:
            if not live.begun:
                live.returned = live.compiled(*live.call.args, **live.call.kwargs)  # `run_call` may be what failed
            elif not _is_of_explorer(error):
                raise


def _called_once(live: LiveFunction) -> Callable[..., Any]:
    """What calls the compiled function, and keeps what it returned whatever fails in explorer afterwards."""

    def call(*args: Any, **kwargs: Any) -> Any:
        assert live.compiled is not None
        live.begun = True
        live.returned = live.compiled(*args, **kwargs)
        return live.returned

    return call


def _is_of_explorer(error: BaseException) -> bool:
    """Whether explorer alone raised an error: no code of the program or torch was under way."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    package = str(Path(__file__).parents[2])
    return not isinstance(error, ON_PURPOSE) and all(f.startswith(package) or f == contextlib.__file__ for f in files)


def _compile_and_call(live: LiveFunction, plan: Plan, recorder: Recorder, kernels: KernelRecorder) -> float:
    """Compile and call with the probes on, and return the seconds of the call after its last compile.

    An error of the compiler is kept, one of the function goes through.
    """
    seconds = 0.0
    record_it = partial(
        recording,
        plan.request.stages,
        recorder,
        cold=True,
        absent=plan.absent,
        changes=plan.changes,
        compiled=partial(kernels.start, recorder),
        launches=kernels.launches,
    )
    quiet, in_place = torch_logs_kept_from_terminal(REFUSED_OPERATORS), compiling.in_place_afresh(plan.call.hooked)
    with quiet, in_place, shielded(record_it, recorder.guard, "set up", "take down") as recorded:
        told = recorded is not None  # else the compile is torch's own, for this machine
        try:
            live.compiled = _compiled_afresh(plan, recorder)
            if plan.call.hooked and plan.call.train:
                with State.of(plan.call.function).kept():
                    for _ in range(STEPS_BEFORE):
                        run_call(_called_once(live), plan.call, told=told)
            live.returned, live.gradients_by_name = run_call(_called_once(live), plan.call, told=told)
            seconds = recorder.seconds_since_last()
        except InterpretError as error:
            live.error = error
            recorder.failures.append(Failure("run", "interpreter", str(error)))
        except Exception as error:
            of_compile = compiling.is_compiler_error(error) or compiling.comes_from(error, recorder.compile_errors)
            ran = live.begun and not of_compile
            engine = ""
            if ran:
                asked = plan.request.backend
                engine = backends.engine_that_raised(asked, error) or engine_alone_raises(live, recorder, asked)
            if not of_compile and not engine:
                raise
            _note_compiler_error(live, recorder, error, engine)
        else:
            _note_silent_failures(live, recorder)
        finally:
            _record_function(plan.call.function, recorder)
    return seconds


def _compiled_afresh(plan: Plan, recorder: Recorder) -> Callable[..., Any]:
    """Hand the function to the compiler, without what earlier compiles of it left."""
    request, function = plan.request, plan.call.function
    if backends.is_module_compiler(request.backend):
        return compiling.compiled_by(request.backend, function)
    backend, settings = backends.given_to_torch(
        request.backend, recorder, request.compile_settings(), absent=plan.absent is not None
    )
    return compiling.compiled_afresh(function, backend, settings)


def _compiled_without_explorer(request: TraceRequest, function: Callable[..., Any]) -> Any:
    """Hand the function to the compiler as a program without explorer does."""
    if callable(request.backend) and backends.is_module_compiler(request.backend):
        return request.backend(function)
    if callable(request.backend) or _is_torchs(request.backend):
        options = dict(request.options) if request.options else None  # `compile_settings` may be what failed
        torch_settings = {"mode": request.mode, "dynamic": request.dynamic, "fullgraph": request.fullgraph, "options": options}
        return compiling.plain(function, request.backend, torch_settings)
    # a compiler that explorer itself brings, which emits what it sees
    backend, settings = backends.given_to_torch(request.backend, Recorder(), request.compile_settings())
    return compiling.plain(function, backend, settings)


def _is_torchs(backend: object) -> bool:
    """Whether torch alone knows what to do with a backend's name, as far as explorer can tell."""
    try:
        return compiler_named(backend) is None
    except Exception:  # noqa: BLE001 the question itself may be what failed
        return True


def _note_compiler_error(live: LiveFunction, recorder: Recorder, error: Exception, engine: str) -> None:
    """Keep the compiler's error for the trace's verbs, and add Failures for it and for the other compiles that failed.

    `engine` is the one that raised the error when it ran what it had compiled, "" where a compile failed.
    """
    live.error = error
    live.compiled = None
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("explorer: ")]
    advice = devices_apart(error, live.call) or compiling.advice(error) or asked_of_data(str(error), recorder.events)
    ran = f"{engine} compiled {_place_of(live.call.function)}, and could not run it:" if engine else ""
    message = "\n".join([advice, ran, str(error), *notes]).strip()
    step = "run" if engine else "compile"
    recorder.failures.append(Failure(step, type(error).__name__, message, fatal=True))
    recorder.failures += compile_failures(recorder, error)


def _place_of(function: Callable[..., Any]) -> str:
    """Name a function with its file and line, where it has Python code."""
    code = compiling.entry_code(function)
    return f"{name_of(function)} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name_of(function)


def _note_silent_failures(live: LiveFunction, recorder: Recorder) -> None:
    """Add Failures for compiles whose errors Dynamo swallowed, or one that says why nothing was compiled."""
    failures = compile_failures(recorder)
    if nothing := failure_if_nothing_compiled(recorder, live.call.function):
        live.uncompiled = nothing.message
        failures = [*(f for f in failures if f.step != SKIPPED_FRAME), nothing]
    recorder.failures += failures


def _record_function(function: Callable[..., Any], recorder: Recorder) -> None:
    """Record the traced function's source where no frame is its own: nothing was compiled, or torch wrapped it first."""
    code = compiling.entry_code(function)
    sources = [event.data for event in recorder.events if event.kind == "source"]
    if code is None or any((d["file"], d["line"]) == (code.co_filename, code.co_firstlineno) for d in sources):
        return
    compiled = any(event.kind == "dynamo_bytecode" for event in recorder.events)
    with recorder.within(next((event.frame for event in recorder.events if event.frame), "")):
        if compiled:
            emit_inlined(recorder, code)
        else:
            emit_function(recorder, code, not_compiled=0)
