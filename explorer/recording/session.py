"""trace and record: compile with every hook on, then replay what was recorded."""

from __future__ import annotations

import contextlib
import difflib
import gc
import inspect
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

from explorer.absent import target as target_room
from explorer.absent.autocast import Ambient
from explorer.absent.launches import Launches
from explorer.compilers import backend as backend_room
from explorer.compilers import torch_compile as compiling
from explorer.errors import InputError, InterpretError, unknown_name
from explorer.gpus.figures import Target
from explorer.live.call import Call, clone, hidden_elsewhere, run_call
from explorer.live.ladders import Climb, Compiled, Ladders, ladder_events, launch_events
from explorer.live.session import Live
from explorer.live.state import State
from explorer.model.stage import Stage
from explorer.model.values import Event, Failure, Force, Plain, Veto
from explorer.observe.functions import emit_function, emit_inlined
from explorer.observe.launched import Find, loaded_kernels
from explorer.observe.patch import ON_PURPOSE, Guard, shielded
from explorer.observe.wishes import Changes, is_named
from explorer.observe.without_data import as_fake, without_data
from explorer.process.progress import in_notebook, progress
from explorer.process.ranks import count_started_processes, how_to_record_other_processes
from explorer.questions.fusion import unfulfilled_requests
from explorer.recording.recorder import Recorder, recording
from explorer.replay import replay
from explorer.stages import STAGES
from explorer.stages.dynamo.graph_break import facts
from explorer.stages.dynamo.recompile import reasons
from explorer.traced import Trace
from explorer.traced.what_if import name_list


def trace(
    fn: Callable[..., Any],
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    target: str | Target = "auto",
    train: bool = False,
    mode: str | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    backend: Any = "inductor",
    options: Mapping[str, Any] | None = None,
    stages: Sequence[Stage] = STAGES,
    fusion: Veto | Force | Sequence[Veto | Force] = (),
    without_pattern: str | Sequence[str] = (),
    without_pass: str | Sequence[str] = (),
    **unknown: Any,
) -> Trace:
    """Compile `fn(*args, **kwargs)` afresh, run it once, and return every stage of the compile as a Trace.

    `fn` is any callable or nn.Module; one that is compiled already is traced from its original. `target` is
    "auto" (the device the arguments are on), "cpu", "cuda", or a GPU that need not be here, by name ("h100") or as a
    `Target`: then every stage after Dynamo is that GPU's, and the function runs on the CPU. With `train` the outputs'
    sum is differentiated too, see `Trace.gradients`; without it nothing is kept for a backward. `mode`, `dynamic`,
    `fullgraph` and `options` are torch.compile's. `backend` is a registered name, a callable as torch.compile takes it, or a
    `compiler(module) -> module` that calls torch.compile itself.

    `fusion` keeps nodes of Inductor's scheduler apart or puts them together; where that was not possible a Failure says
    why. `without_pattern` and `without_pass` leave out what `Trace.matches` and `Trace.passes` list by these names, also
    where only a later round has them; "_sfdp_*" is all that begin so.

    A compile that fails still gives its trace, with a Failure; `Trace.raise_for_failures` raises. An
    error that `fn` itself raises goes through, with the trace so far as its attribute `explorer_trace`.
    Raises InputError for arguments that cannot be, and BusyError inside another recording.
    """
    live: list[Live] = []
    asked = {
        "kwargs": kwargs,
        "target": target,
        "train": train,
        "mode": mode,
        "dynamic": dynamic,
        "fullgraph": fullgraph,
        "backend": backend,
        "options": options,
        "stages": stages,
        "fusion": fusion,
        "without_pattern": without_pattern,
        "without_pass": without_pass,
    }
    try:
        return _traced(live, fn, args, **asked, unknown=unknown)
    except ON_PURPOSE:
        raise
    except Exception as error:
        if hasattr(error, "explorer_trace"):  # the function's own
            raise
        chosen = {"mode": mode, "dynamic": dynamic, "fullgraph": fullgraph, "options": dict(options) if options else None}
        return _given_up(live, Call(fn, args, dict(kwargs or {}), train), backend, chosen, error)


def _is_own(error: BaseException) -> bool:
    """Whether an error was raised by explorer alone: nothing of the program's or torch's was under way."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = str(Path(__file__).parents[1])
    return not isinstance(error, ON_PURPOSE) and all(f.startswith(own) or f == contextlib.__file__ for f in files)


def _given_up(begun: Sequence[Live], call: Call, backend: Any, chosen: Mapping[str, Any], error: Exception) -> Trace:
    """The trace of a call around which explorer itself failed: it says so, and has what torch alone made of the call."""
    live = begun[0] if begun else Live(call)
    if live.compiled is None and live.error is None:
        if backend_room.is_module_compiler(backend):
            live.compiled = backend(call.function)
        else:
            live.compiled = compiling.plain(call.function, backend, chosen)
        live.returned, live.gradients_by_name = run_call(live.compiled, call)
    message = f"explorer itself failed, and nothing was traced: {type(error).__name__}: {error}"
    return Trace({"name": name_of(call.function)}, failures=(Failure("record", "trace", message, fatal=True),), live=live)


def _traced(
    begun: list[Live],
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    kwargs: Mapping[str, Any] | None,
    target: str | Target,
    train: bool,
    mode: str | None,
    dynamic: bool | None,
    fullgraph: bool,
    backend: Any,
    options: Mapping[str, Any] | None,
    stages: Sequence[Stage],
    fusion: Veto | Force | Sequence[Veto | Force],
    without_pattern: str | Sequence[str],
    without_pass: str | Sequence[str],
    unknown: Mapping[str, Any],
) -> Trace:
    """What `trace` returns; what is called is put into `begun` when it is about to be."""
    _check_call(fn, args, kwargs, unknown)
    _check_stages(stages)
    _check_settings(dynamic, fullgraph, options)
    chosen = {"mode": mode, "dynamic": dynamic, "fullgraph": fullgraph, "options": dict(options) if options else None}
    _check_options(backend, chosen)
    fn = compiling.unwrapped(fn)
    empty = without_data(fn, args, kwargs or {})
    device = target_room.resolve(target, (args, kwargs), fn)
    absent = _absent(device, backend, options)
    _check_data(empty, absent, device)
    if empty:
        fn, args, kwargs = as_fake(fn, args, kwargs or {})
    ambient = Ambient.now(absent.device if absent else "")
    call = Call(fn, args, dict(kwargs or {}), train, absent, ambient)
    call = _placed(call, "cpu" if absent else str(device), target)
    made_for = absent.name if absent else str(device)
    left_out = name_list("without_pattern", without_pattern), name_list("without_pass", without_pass)
    changes = Changes(wishes(fusion), *left_out)
    meta = {"name": name_of(fn), "target": made_for, "train": train, "backend": name_of(backend), "fresh": True, **chosen}
    meta |= changed(changes)

    as_given = _as_given(call)

    def again(**otherwise: Any) -> Trace:
        inputs = {"kwargs": clone(dict(as_given.kwargs)), "target": target, "train": train, "stages": stages}
        with State.of(fn).kept():
            return trace(fn, *clone(as_given.args), **{**inputs, **chosen, "backend": backend, **asked, **otherwise})

    asked = {"fusion": changes.fusion, "without_pattern": changes.without_pattern, "without_pass": changes.without_pass}
    with progress(str(meta["name"])) as show:
        recorder = Recorder(show)
        live = Live(as_given, absent=absent, again=again, empty=bool(empty))
        begun.append(live)
        with full_collections_paused(), _climbing(absent) as climb, _attached(device) as find, _launching(absent) as launches:
            try:
                _record_call(live, call, recorder, stages, backend, chosen, absent, changes, climb, launches)
            except Exception as error:
                if _is_own(error):
                    raise
                error.explorer_trace = _finished(recorder, meta, stages, live)  # type: ignore[attr-defined]
                for note in advice_on_call(error, call):
                    error.add_note(f"explorer: {note}")
                raise
            live.ladders = _compiled_kernels(recorder, device, climb, find).with_choices(recorder.events)
            _launched_kernels(recorder, launches, live.ladders)
        live.generated = recorder.generated if absent else None
    return _heeded(_finished(recorder, meta, stages, live), recorder.events, changes)


def _check_call(fn: object, args: tuple[Any, ...], kwargs: object, unknown: Mapping[str, Any]) -> None:
    """InputError for what is no function, and for arguments that are not given as trace takes them."""
    if not callable(fn):
        raise InputError(f"trace takes a function or module and its arguments, not {type(fn).__name__}; write trace(f, x)")
    if compiling.is_module_class(fn):
        raise InputError(f"trace takes a module, and {name_of(fn)} is a class: make one first, trace({name_of(fn)}(…), x)")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InputError(
            f"kwargs is a mapping of the function's keyword arguments, kwargs={{'x': x}}, not {type(kwargs).__name__}"
        )
    if advice := compiling.not_for_dynamo(fn):
        raise InputError(advice)
    if unknown:
        own = [name for name in inspect.signature(trace).parameters if name not in ("fn", "args", "unknown")]
        near = [name for given in unknown for name in difflib.get_close_matches(given, own, n=1, cutoff=0.7)]
        meant = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        several = ", ".join(f"{name!r}: …" for name in unknown)
        given = ", ".join(map(repr, unknown))
        raise InputError(f"trace has no argument {given}: {meant}Keyword arguments of the function go into kwargs={{{several}}}")


def _check_stages(stages: object) -> None:
    """InputError for stages that are not Stage values."""
    several = (stages,) if isinstance(stages, (str, Stage)) else stages
    wrong = next((s for s in several if not isinstance(s, Stage)), None) if isinstance(several, Iterable) else stages
    if wrong is not None or isinstance(stages, Stage):
        what = type(stages).__name__ if wrong is None else repr(wrong)
        raise InputError(f"stages is a sequence of explorer.Stage, such as (*explorer.STAGES, mine), not {what}")


def _check_settings(dynamic: object, fullgraph: object, options: object) -> None:
    """InputError for arguments of torch.compile that are of another kind than it takes."""
    if dynamic is not None and not isinstance(dynamic, bool):
        raise InputError(f"dynamic is True, False or None, not {dynamic!r}")
    if not isinstance(fullgraph, bool):
        raise InputError(f"fullgraph is True or False, not {fullgraph!r}")
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"options is a mapping of Inductor's options, options={{'max_autotune': True}}, not {options!r}")


def _check_data(empty: str, absent: Target | None, device: str | Target) -> None:
    """InputError for tensors without data where the function runs on a device that is here."""
    if empty and absent is None:
        raise InputError(
            f"{empty} has no data (it is fake, or on the meta device), and a trace for {str(device)!r} runs the function once: "
            "name a GPU, such as target='h100', for which it is compiled and not computed; or give data, for a module by "
            "module.to_empty(device='cpu'), for a tensor by torch.empty_like(x, device='cpu')"
        )


def advice_on_call(error: Exception, call: Call) -> Iterator[str]:
    """What may be wrong with how the function was called, where its own error looks like it."""
    if "does not have a grad_fn" in str(error) and not call.train:
        yield (
            "trace calls the function without gradients, and with train=True differentiates its outputs itself; "
            "for one that calls backward() write: with explorer.record() as r: torch.compile(f)(x)"
        )
    if not call.args and not call.kwargs and "missing" in str(error) and isinstance(error, TypeError):
        yield "the function was called without arguments; they stand behind it: trace(f, x)"
    if said := compiling.no_driver(error) or (compiling.needs_its_gpu(error) if call.absent else ""):
        yield said
    only = call.args[0] if len(call.args) == 1 else None
    if isinstance(only, (tuple, list)) and f"'{type(only).__name__}' object" in str(error):
        yield "the function was called with one argument; arguments are given one by one: trace(f, x, y)"


def wishes(given: Veto | Force | Sequence[Veto | Force]) -> tuple[Veto | Force, ...]:
    """One wish or several as a tuple; InputError for anything else."""
    several = (given,) if isinstance(given, (Veto, Force)) else tuple(given or ())
    for wish in several:
        if not isinstance(wish, (Veto, Force)):
            raise InputError(f'fusion takes Veto("op3", "op7"), Force(…) or a tuple of them, not {wish!r}')
    return several


def changed(changes: Changes) -> dict[str, Plain]:
    """What a trace's meta says of its changes: nothing where there are none."""
    said = {
        "fusion": tuple(f"{type(w).__name__}({w.first!r}, {w.second!r})" for w in changes.fusion),
        "without_pattern": changes.without_pattern,
        "without_pass": changes.without_pass,
    }
    return {name: value for name, value in said.items() if value}


def _heeded(made: Trace, events: Sequence[Event], changes: Changes) -> Trace:
    """The trace with a Failure for each wish that did not come true; InputError for a name that the compile did not have."""
    if any(failure.fatal for failure in made.failures):
        return made
    try:
        for given, known, what in (
            (changes.without_pattern, changes.known_patterns, "pattern"),
            (changes.without_pass, changes.known_passes, "pass"),
        ):
            for name in given:
                if not any(is_named(each, (name,)) for each in known):
                    raise _no_such(what, name, known)
        failures = unfulfilled_requests(made, [e for e in events if e.kind == "fusion_wish"], changes.fusion)
    except InputError as error:
        error.explorer_trace = made  # type: ignore[attr-defined]
        raise
    return replace(made, failures=(*made.failures, *failures)) if failures else made


def _no_such(what: str, name: str, known: Collection[str]) -> InputError:
    """The error for a pattern or pass that the compile did not come by; it offers the nearest, where `name` is no wildcard."""
    if not known:
        return InputError(f"{name!r} cannot be left out: no {what} ran in this compile, which made no graph for Inductor")
    if set("*?[") & set(name):
        several = ", ".join(sorted(known)[:4])
        return InputError(f"no {what} is named like {name!r}: of {len(known)} that ran the first are {several}")
    return unknown_name(what, name, known)


def _check_options(backend: Any, chosen: Mapping[str, Any]) -> None:
    """InputError for a mode, option or backend that torch.compile does not have."""
    backend_room.resolve(backend)
    mode, options = chosen["mode"], chosen["options"]
    if mode is not None and mode not in compiling.valid_modes():
        raise unknown_name("mode", mode, compiling.valid_modes())
    if mode is not None and options is not None:
        raise InputError("torch.compile takes mode or options, not both: put the mode's settings into options")
    valid = {name.replace("-", "_") for name in compiling.valid_options(backend)}
    for option, value in (options or {}).items():
        if valid and str(option).replace("-", "_") not in valid:
            raise unknown_name("option", option, valid)
        if valid and (kind := compiling.wrong_type(str(option), value)):
            raise InputError(f"option {option!r} is of type {kind}, not {value!r}")


def _absent(device: str | Target, backend: Any, options: Mapping[str, Any] | None) -> Target | None:
    """The GPU that need not be here, None for an attached device; InputError where it cannot be compiled for as asked."""
    if isinstance(device, str):
        return None
    if compiling.freezes(options):
        raise InputError(
            f"freezing folds the parameters into the graph on the device itself, and {device.name!r} is not here: "
            "trace without freezing, or with target='cpu'"
        )
    if isinstance(backend, str) and backend != "inductor":
        raise InputError(f"backend {backend!r} needs the device it compiles for; target {device.name!r} works with 'inductor'")
    return device


def _placed(call: Call, device: str, target: object) -> Call:
    """The call on the device asked for; with "auto" everything stays where it is. InputError for what cannot be moved."""
    if target == "auto":
        return call
    if advice := hidden_elsewhere(call, device):
        raise InputError(advice)
    function = target_room.moved_function(call.function, device)
    args, kwargs = target_room.moved(call.args, device), target_room.moved(dict(call.kwargs), device)
    return replace(call, function=function, args=args, kwargs=kwargs)


def _as_given(call: Call) -> Call:
    """The call with copies of its arguments as they are now, before a traced function changes them: what is checked later."""
    return call.copy(State.of(call.function).tensors.values())


def _record_call(
    live: Live,
    call: Call,
    recorder: Recorder,
    stages: Sequence[Stage],
    backend: Any,
    chosen: Mapping[str, Any],
    absent: Target | None,
    changes: Changes,
    climb: Climb | None,
    launches: Launches | None,
) -> None:
    """Compile and call with the hooks on; an error of the compiler is kept, one of the function goes through."""
    begin = _begin(recorder, climb)
    record_it = partial(recording, stages, recorder, cold=True, absent=absent, changes=changes, compiled=begin, launches=launches)
    with shielded(record_it, recorder.guard, "set up", "take down"):
        try:
            if backend_room.is_module_compiler(backend):
                live.compiled = compiling.compiled_by(backend, call.function)
            else:
                live.compiled = compiling.compiled_afresh(call.function, backend, chosen)
            live.returned, live.gradients_by_name = run_call(live.compiled, call)
        except InterpretError as error:
            live.error = error
            recorder.failures.append(Failure("run", "interpreter", str(error)))
        except Exception as error:
            if not compiling.is_compiler_error(error) and not compiling.comes_from(error, recorder.compile_errors):
                raise
            live.error = error
            live.compiled = None
            note = compiling.advice(error)
            recorder.failures.append(Failure("compile", type(error).__name__, f"{note}\n{error}".strip(), fatal=True))
            recorder.failures += compile_failures(recorder, error)
        else:
            failed = compile_failures(recorder)
            if nothing := _note_if_nothing(recorder):
                failed = [*(f for f in failed if f.step != SKIPPED), nothing]
            recorder.failures += failed
        finally:
            _show_function(live, recorder)


def _attached(device: str | Target) -> AbstractContextManager[Find | None]:
    """Find what the attached GPU launches; on the CPU, or for a GPU you don't have, nothing is launched."""
    return loaded_kernels() if device in ("cuda", "auto") else nullcontext()


def _climbing(absent: Target | None) -> AbstractContextManager[Climb | None]:
    """What compiles kernels for a GPU you don't have, its first worker process starting now; None for other devices."""
    return Climb(absent) if absent is not None else nullcontext()


def _begin(recorder: Recorder, climb: Climb | None) -> Callable[[], None]:
    """What begins the kernels recorded so far: machine code is made while the program runs and other graphs compile."""
    return lambda: climb.begin(recorder.events) if climb is not None else None


def _compiled_kernels(recorder: Recorder, device: str | Target, climb: Climb | None, find: Find | None) -> Ladders:
    """Compile the Triton kernels that were recorded down to machine code, or take what was launched; record each text."""
    if device == "cpu" or (device == "auto" and target_room.attached()[1].missing):
        return Ladders()
    found: list[Compiled] = []
    make = climb.compiled if climb is not None else lambda events: ladder_events(events, _gpu(device), find=find)
    recorder.attempt("kernel", "compile", lambda: found.append(make(recorder.events)))
    if not found:
        return Ladders()
    recorder.events += found[0].events
    recorder.failures += found[0].failures
    return found[0].ladders


def _launching(absent: Target | None) -> AbstractContextManager[Launches | None]:
    """What notes the launches of the program's own Triton kernels, for a GPU you don't have; None for other devices."""
    return Launches(absent) if absent is not None else nullcontext()


def _launched_kernels(recorder: Recorder, launches: Launches | None, ladders: Ladders) -> None:
    """Record the kernels that the program launched outside of torch.compile, each with its ladder, and what was lost of them."""
    if launches is None:
        return
    found: list[Compiled] = []
    recorder.attempt("kernel", "launch", lambda: found.append(launch_events(launches, ladders)))
    for made in found:
        recorder.events += made.events
        recorder.failures += made.failures


def _gpu(device: str | Target) -> Target:
    """The GPU to compile for: the one asked for, or the attached one."""
    return target_room.attached_gpu() if isinstance(device, str) else device


def compile_failures(recorder: Recorder, raised: BaseException | None = None) -> list[Failure]:
    """A Failure for each compile that ended with an error, but for the one that `raised` comes from."""
    swallowed = {event.frame for event in recorder.events if event.kind == "compile_swallowed"}
    found: list[Failure] = []
    for event in recorder.events:
        if event.kind == "compile_error":
            error = recorder.compile_errors[event.data["number"]]
            if raised is None or not compiling.comes_from(raised, [error]):
                found.append(_compile_failure(event, error, event.frame in swallowed, recorder.events))
    messages = [failure.message for failure in found]
    return [f for n, f in enumerate(found) if not any(f.message in later for later in messages[n + 1 :])]


def _compile_failure(event: Event, error: BaseException, swallowed: bool, events: Sequence[Event]) -> Failure:
    """What became of one compile: it stopped, or Dynamo runs the function in Python."""
    facts = event.data
    what = f"{facts['function']} ({facts['file']}:{facts['line']})" if facts["function"] else f"the {facts['graph']}"
    if facts["limit"]:
        return _at_limit(event, what, swallowed, events)
    said = str(facts["message"]).partition("\nSet TORCHDYNAMO_VERBOSE")[0]
    message = f"{compiling.advice(error)}\n{said}".strip()
    if swallowed and facts["soft"]:
        return Failure("dynamo", SKIPPED, f"{what} runs in Python as a whole: {message}")
    went_on = f"; {compiling.SUPPRESSES} is on, so it runs in Python" if swallowed else ""
    return Failure("compile", str(facts["error"]), f"{what} could not be compiled{went_on}: {message}", fatal=True)


def _at_limit(event: Event, what: str, swallowed: bool, events: Sequence[Event]) -> Failure:
    """A function that is compiled no more, with the guards that failed on the way there."""
    limit, value, frame = str(event.data["limit"]), event.data["limit_value"], event.frame.rpartition("/")[0]
    compiles = [e for e in events if e.kind == "recompile" and e.frame.rpartition("/")[0] == frame]
    rows = [(e.frame.rpartition("/")[2], row) for e in compiles for row in reasons(e.data["text"])[:1] if row["earlier"]]
    way = "".join(f"\n  compile {number}: {guard_of(str(row['guard']))}" for number, row in rows)
    then = "a call that fits none of its compiles runs in Python" if swallowed else "with fullgraph the next one is an error"
    return Failure(
        "dynamo",
        limit,
        f"{what} has been compiled as often as {compiling.CONFIG}.{limit} allows, {value} times: {then}. Make what differs the "
        f"same or dynamic ({compiling.MARKS}, dynamic=True), or raise the limit. The guards that failed on the way there:{way}",
        fatal=not swallowed,
    )


def guard_of(text: str) -> str:
    """A failed guard without the code and the stack that Dynamo writes behind it."""
    return text.partition("\n")[0].partition("  # ")[0].strip()


def _note_if_nothing(recorder: Recorder) -> Failure | None:
    """What says that no frame was compiled, and why; None where one was."""
    if _compiled_anything(recorder):
        return None
    said = why_not_compiled(recorder)
    breaks = [facts(event.data["text"]) for event in recorder.events if event.kind == "graph_break"]
    if not said and breaks:
        hints = "".join(f"\n{hint}" for hint in breaks[0]["hints"])
        said = f"Dynamo leaves this function to Python: {breaks[0]['reason']}{hints}"
    if not said:
        said = (
            "the function runs no tensor operation that Dynamo could put in a graph; if an earlier call was left to Python, "
            f"Dynamo looks at it again after {compiling.RESETS}"
        )
    return Failure("dynamo", "compile", f"nothing was compiled: {said}")


def _note_failures(recorder: Recorder, processes: int) -> None:
    """Say what a recorded program does not say: compiles that failed, and what kept torch.compile from compiling.

    `processes` are those that the program had started before.
    """
    recorder.failures += compile_failures(recorder)
    stances = {event.data["stance"] for event in recorder.events if event.kind == "stance"}
    nothing = not _compiled_anything(recorder)
    if (nothing or stances & {"force_eager", "eager_on_recompile"}) and (why := why_not_compiled(recorder)):
        said = "nothing was compiled" if nothing else "not everything was compiled"
        recorder.failures.append(Failure("dynamo", "compile", f"{said}: {why}"))
    elif nothing and not recorder.failures and (others := count_started_processes() - processes) > 0:
        recorder.failures.append(
            Failure("dynamo", "other processes", f"nothing was compiled in this process; {how_to_record_other_processes(others)}")
        )


def _compiled_anything(recorder: Recorder) -> bool:
    return any(event.kind in ("dynamo", "dynamo_bytecode", "guards") for event in recorder.events)


def why_not_compiled(recorder: Recorder) -> str:
    """What in this process keeps torch.compile from compiling: a setting, or a stance; "" where nothing does."""
    if why := compiling.not_compiling():
        return f"torch.compile is switched off: {why}"
    stances = dict.fromkeys(str(event.data["stance"]) for event in recorder.events if event.kind == "stance")
    if not stances:
        return ""
    named = " and ".join(f'torch.compiler.set_stance("{stance}")' for stance in stances)
    return (
        f"{named} was in force, under which functions that are not compiled yet run in Python: "
        "record them under the default stance"
    )


def _show_function(live: Live, recorder: Recorder) -> None:
    """Show the traced function itself where no frame is its own: nothing was compiled, or torch wrapped it first."""
    code = compiling.entry_code(live.call.function)
    sources = [event.data for event in recorder.events if event.kind == "source"]
    if code is None or any((d["file"], d["line"]) == (code.co_filename, code.co_firstlineno) for d in sources):
        return
    compiled = any(event.kind == "dynamo_bytecode" for event in recorder.events)
    with recorder.within(next((event.frame for event in recorder.events if event.frame), "")):
        if compiled:
            emit_inlined(recorder, code)
        else:
            emit_function(recorder, code, not_compiled=0)


def _finished(recorder: Recorder, meta: Mapping[str, Plain], stages: Sequence[Stage], live: Live | None) -> Trace:
    failures = [*recorder.failures, *recorder.guard.failures(recorder.failures)]
    try:
        made = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        whole = {**meta, **compiling.torch_versions(), "made": made, "cost": recorder.seconds}
        with collection_paused():
            return Trace.of(replay(recorder.events, failures, whole, stages), live)
    except Exception as error:  # noqa: BLE001 the program ran, and gets a trace that says so
        lost = Failure("record", "replay", f"{type(error).__name__}: {error}", fatal=True)
        return Trace(meta, failures=(*failures, lost), live=live)


@contextmanager
def collection_paused() -> Iterator[None]:
    """No garbage collection inside: walking torch's million objects once takes longer than a replay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


#: A third threshold of the garbage collector that a compile does not reach.
NO_FULL_COLLECTION = 1_000_000


@contextmanager
def full_collections_paused() -> Iterator[None]:
    """No full garbage collection inside: each walks torch's and the compile's million objects, for 0.3 to 0.5 s.

    Young objects are collected as before, so that what the compile drops on its way does not pile up.
    """
    before = gc.get_threshold()
    if before[2] >= NO_FULL_COLLECTION:  # another thread pauses them, and puts its own back
        yield
        return
    gc.set_threshold(before[0], before[1], NO_FULL_COLLECTION)
    try:
        yield
    finally:
        gc.set_threshold(*before)


#: The step of a Failure for a function that Dynamo leaves to Python as a whole.
SKIPPED = "skipped frame"


class Recording:
    """What `record` gives: after the block, `trace` holds every compile that happened in it."""

    def __init__(self) -> None:
        self._trace: Trace | None = None
        self.events: list[Event] = []
        self.failures: list[Failure] = []

    @property
    def trace(self) -> Trace:
        """The trace of the block; InputError while the block still runs."""
        if self._trace is None:
            raise InputError("the recording is still under way: ask for its trace after the with block")
        return self._trace


@contextmanager
def record(
    target: str | Target = "auto", *, name: str = "recording", stages: Sequence[Stage] = STAGES, fresh: bool = False
) -> Iterator[Recording]:
    """Record every compile that happens in the block, such as a training loop, without changing the program.

    After the block `recording.trace` is the Trace, also where the block ended with an exception, which goes
    through. What was compiled before the block is not compiled again. `target` as for `trace`; a recording leaves
    the program's own tensors where they are. BusyError inside another recording.

    Caches are used as without the recording; `Trace.caches` has a row a lookup. Of a graph that a cache had, only the
    stages that the cache keeps are there: with `fresh` caches are written but not read, so that every stage is.
    For a GPU you don't have, Inductor's and AOTAutograd's caches of graphs are not used at all.
    """
    _check_stages(stages)
    device = target_room.resolve(target, (), lambda: None) if target != "auto" else "auto"
    absent = _absent(device, "inductor", None)
    result = Recording()
    meta: dict[str, Plain] = {"name": name, "target": absent.name if absent else str(device)}
    guard = Guard(losses={})
    try:
        with shielded(lambda: _recorded(result, device, absent, meta, stages, fresh), guard, "set up", "take down"):
            yield result
    except Exception as error:
        if absent is not None and (note := compiling.needs_its_gpu(error)):
            error.add_note(f"explorer: {note}")
        raise
    finally:
        if lost := guard.failures():  # whatever failed in explorer, the program ran, and there is a trace that says so
            before = result._trace or Trace(meta=meta)
            result._trace = replace(before, failures=(*before.failures, *lost))


@contextmanager
def _recorded(
    result: Recording,
    device: str | Target,
    absent: Target | None,
    meta: Mapping[str, Plain],
    stages: Sequence[Stage],
    fresh: bool,
) -> Iterator[None]:
    """Record what happens in the block, and give `result` its trace."""
    processes = count_started_processes()
    with progress(str(meta["name"])) as show:
        recorder = Recorder(show, every_thread=True)
        with _climbing(absent) as climb, _attached(device) as find, _launching(absent) as launches:
            begin = _begin(recorder, climb)
            record_it = partial(recording, stages, recorder, fresh=fresh, absent=absent, compiled=begin, launches=launches)
            try:
                with shielded(record_it, recorder.guard, "set up", "take down"):
                    yield
            finally:
                ladders = _compiled_kernels(recorder, device, climb, find)
                _launched_kernels(recorder, launches, ladders)
                recorder.attempt("compile", "failures", lambda: _note_failures(recorder, processes))
                result.events, result.failures = recorder.events, recorder.failures
                result._trace = _finished(recorder, meta, stages, None)


def name_of(value: Any) -> str:
    """What people call a function, a module or a backend."""
    if isinstance(value, str):
        return value
    if isinstance(value, BuiltinFunctionType):
        return value.__name__
    return str(getattr(value, "__qualname__", None) or type(value).__qualname__).rpartition("<locals>.")[2]


def explore(fn: Callable[..., Any], *args: Any, **options: Any) -> Trace:
    """Trace and show: `explorer.trace` with its arguments, displayed in a notebook, printed in a terminal."""
    made = trace(fn, *args, **options)
    if show(made) is not None and made.live is not None:
        made.live.shown_in = _execution()
    return made


def _execution() -> object:
    """The number of the notebook's cell that runs now."""
    from IPython.core.getipython import get_ipython

    return get_ipython().execution_count


def show(trace: Trace) -> Any:
    """Show a trace: in a notebook its view, in a terminal its stage table.

    Returns the view's widget, whose `selected`, `select`, `open` and `compare` lead it and follow it; None in a terminal.
    """
    if not isinstance(trace, Trace):
        raise InputError(f"show takes a Trace, such as explorer.trace(f, x) gives, not {type(trace).__name__}")
    if not in_notebook():
        print(trace)
        return None
    from IPython.display import display

    from explorer.widget import Explorer

    view = Explorer(trace)
    display(view)
    return view.shown(_execution())
