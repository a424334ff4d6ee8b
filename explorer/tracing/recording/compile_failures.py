"""Failures for compiles that ended with an error, and for functions that were not compiled at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.analysis.questions.data_dependent import data_dependent, symbols_of_condition
from explorer.capture.compilers import torch_compile as compiling
from explorer.model.records import typed
from explorer.model.values import Event, Failure
from explorer.process.ranks import count_started_processes, how_to_record_other_processes, rank_and_world
from explorer.process.sigterm import line_of_error
from explorer.stages.dynamo.graph_break import facts
from explorer.stages.dynamo.recompile import reasons
from explorer.stages.dynamo.symbol import Symbol
from explorer.tracing.recording.arguments import name_of
from explorer.tracing.recording.recorder import Recorder
from explorer.tracing.traced import Trace

#: The step of a Failure for a function that Dynamo leaves to Python as a whole.
SKIPPED_FRAME = "skipped frame"


# Compiles that ended with an error --------------------------------------------------------------------------------------


def compile_failures(recorder: Recorder, raised: BaseException | None = None) -> list[Failure]:
    """List a Failure for each compile that ended with an error, but for the one that `raised` comes from."""
    swallowed = {event.frame for event in recorder.events if event.kind == "compile_swallowed"}
    failures: list[Failure] = []
    for event in recorder.events:
        if event.kind == "compile_error":
            error = recorder.compile_errors[event.data["number"]]
            if raised is None or not compiling.comes_from(raised, [error]):
                failures.append(_compile_failure(event, error, event.frame in swallowed, recorder.events))
    return _without_repetition(failures)


def _without_repetition(failures: Sequence[Failure]) -> list[Failure]:
    """Drop failures whose message a later one contains: the error of an inner compile is part of the outer one's."""
    messages = [failure.message for failure in failures]
    return [f for n, f in enumerate(failures) if not any(f.message in later for later in messages[n + 1 :])]


def _compile_failure(event: Event, error: BaseException, swallowed: bool, events: Sequence[Event]) -> Failure:
    """Describe one compile that ended with an error: it stopped, or Dynamo runs the function in Python."""
    data = event.data
    what = f"{data['function']} ({data['file']}:{data['line']})" if data["function"] else f"the {data['graph']}"
    if data["limit"]:
        return _limit_failure(event, what, swallowed, events)
    torchs_message = str(data["message"]).partition("\nSet TORCHDYNAMO_VERBOSE")[0]
    message = f"{compiling.advice(error) or asked_of_data(torchs_message, events)}\n{torchs_message}".strip()
    if swallowed and data["soft"]:
        return Failure("dynamo", SKIPPED_FRAME, f"{what} runs in Python as a whole: {message}")
    went_on = f"; {compiling.SUPPRESSES} is on, so it runs in Python" if swallowed else ""
    return Failure("compile", str(data["error"]), f"{what} could not be compiled{went_on}: {message}", fatal=True)


def asked_of_data(message: str, events: Sequence[Event]) -> str:
    """Say in the program's words what a compile asked that only the data knows; "" for another error."""
    symbols: dict[str, list[Symbol]] = {}
    for event in events:
        if event.kind == "symbol":
            symbols.setdefault(event.frame, []).append(typed(Symbol, event.data))
    asked = data_dependent(message, symbols_of_condition(message, list(symbols.values())))
    return f"{asked.sentence}. What to do: {asked.remedy}." if asked else ""


def _limit_failure(event: Event, what: str, swallowed: bool, events: Sequence[Event]) -> Failure:
    """Describe a function that reached the limit on recompiles, with the guards that failed on the way there."""
    limit, value, frame = str(event.data["limit"]), event.data["limit_value"], event.frame.rpartition("/")[0]
    compiles = [e for e in events if e.kind == "recompile" and e.frame.rpartition("/")[0] == frame]
    rows = [(e.frame.rpartition("/")[2], row) for e in compiles for row in reasons(e.data["text"])[:1] if row["earlier"]]
    way = "".join(f"\n  compile {number}: {guard_without_source(str(row['guard']))}" for number, row in rows)
    then = "a call that fits none of its compiles runs in Python" if swallowed else "with fullgraph the next one is an error"
    return Failure(
        "dynamo",
        limit,
        f"{what} has been compiled as often as {compiling.CONFIG}.{limit} allows, {value} times: {then}. Make what differs the "
        f"same or dynamic ({compiling.MARKS}, dynamic=True), or raise the limit. The guards that failed on the way there:{way}",
        fatal=not swallowed,
    )


def guard_without_source(text: str) -> str:
    """Cut off the code and the stack that Dynamo writes after a failed guard."""
    return text.partition("\n")[0].partition("  # ")[0].strip()


def with_error_of_rank(trace: Trace, error: BaseException | None, environment: Mapping[str, str]) -> Trace:
    """The trace of a rank whose program raised an error, with a Failure that has the error's line.

    Whoever reads the files of a job has not seen what each rank printed. A compile that failed is a Failure already.
    """
    if not isinstance(error, Exception) or rank_and_world(environment) is None:
        return trace
    said = str(error).partition("\n")[0]
    if any(failure.stage == "compile" and said in failure.message for failure in trace.failures):
        return trace
    line = line_of_error(error)
    message = f"the program ended with {type(error).__name__}: {said}" + (f", at {line}" if line else "")
    return replace(trace, failures=(*trace.failures, Failure("run", type(error).__name__, message, fatal=True)))


# Functions that were not compiled ---------------------------------------------------------------------------------------


def failure_if_nothing_compiled(recorder: Recorder, function: object) -> Failure | None:
    """Say why no frame of a traced function was compiled; None where one was."""
    if _compiled_anything(recorder):
        return None
    reason = why_not_compiled(recorder) or _reason_of_graph_break(recorder) or _reason_to_skip(recorder, function)
    return Failure("dynamo", "compile", f"nothing was compiled: {reason}")


def _reason_to_skip(recorder: Recorder, function: object) -> str:
    """Say why Dynamo made no graph of a function, by what it is and whether Dynamo looked at a frame at all."""
    if any(event.kind == "frame" for event in recorder.events):
        return "the function runs no tensor operation that Dynamo could put in a graph"
    if compiling.is_generator(function):
        return (
            "the function is a generator, whose code runs when its values are asked for. Dynamo leaves it to Python: trace a "
            f"function that consumes it, explorer.trace(lambda x: list({name_of(function)}(x)), x)"
        )
    return (
        "Dynamo looked at no code of the function. It skips code whose compile failed before with a suppressed error, code that "
        "torch.compiler.disable covers, and code of torch and other libraries. It looks at failed code again after "
        f"{compiling.RESETS}"
    )


def _reason_of_graph_break(recorder: Recorder) -> str:
    """Word the first graph break with its hints; "" where there is none."""
    breaks = [facts(event.data["text"]) for event in recorder.events if event.kind == "graph_break"]
    if not breaks:
        return ""
    hints = "".join(f"\n{hint}" for hint in breaks[0]["hints"])
    return f"Dynamo leaves this function to Python: {breaks[0]['reason']}{hints}"


def note_failures(recorder: Recorder, processes_before: int) -> None:
    """Add Failures for what a recorded program does not report: compiles that failed, and what prevented compiles.

    `processes_before` counts the processes that the program had started when the recording began.
    """
    recorder.failures += compile_failures(recorder)
    stances = {event.data["stance"] for event in recorder.events if event.kind == "stance"}
    nothing = not _compiled_anything(recorder)
    if (nothing or stances & {"force_eager", "eager_on_recompile"}) and (why := why_not_compiled(recorder)):
        extent = "nothing was compiled" if nothing else "not everything was compiled"
        recorder.failures.append(Failure("dynamo", "compile", f"{extent}: {why}"))
    elif nothing and not recorder.failures and (others := count_started_processes() - processes_before) > 0:
        message = f"nothing was compiled in this process; {how_to_record_other_processes(others)}"
        recorder.failures.append(Failure("dynamo", "other processes", message))


def _compiled_anything(recorder: Recorder) -> bool:
    return any(event.kind in ("dynamo", "dynamo_bytecode", "guards") for event in recorder.events)


def why_not_compiled(recorder: Recorder) -> str:
    """Name the setting or the stance that keeps torch.compile from compiling; "" where there is none."""
    if why := compiling.not_compiling():
        return f"torch.compile is switched off: {why}"
    stances = dict.fromkeys(str(event.data["stance"]) for event in recorder.events if event.kind == "stance")
    if not stances:
        return ""
    calls = " and ".join(f'torch.compiler.set_stance("{stance}")' for stance in stances)
    return f"{calls} was in force, so not-yet-compiled functions ran in Python: record them under the default stance"
