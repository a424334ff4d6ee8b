"""The MLIR passes of one Triton kernel, with the module before and after each, as MLIR prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from explorer.capture.ladder.ladder import Lowered
from explorer.capture.ladder.triton_pool import StageError, Worker
from explorer.model.values import Plain, Table, text_lines

_DUMP = re.compile(r"^// -----// IR Dump Before (?P<name>.*?) \((?P<argument>[^()]*)\).*?//----- //\n", re.MULTILINE)
#: A step inside a pass, such as TritonGPUPipeline's LowerLoops; triton prints these itself.
_STEP = re.compile(r"^// -----// \w+ internal IR Dump After: (?P<name>\w+).*\n", re.MULTILINE)
_STAGE = re.compile(r"^-- explorer stage (\w+)\n", re.MULTILINE)


def passes(lowered: Lowered) -> Table:
    """One row per pass, in order: stage, name, argument (its name in mlir-opt), changed, before, after, error.

    `after` is the input of the stage's next pass, and for the last pass the stage's output ("" if that is not MLIR). A pass
    that runs others inside itself, as the inliner does, is followed by these. A pass that prints its own steps, as
    TritonGPUPipeline does, has a row for each step, "TritonGPUPipeline: LowerLoops", and then a row for the rest. A pass that
    crashed or failed is the last row: its `after` is "", and `error` says what happened.
    """
    with Worker({"MLIR_ENABLE_DUMP": "1"}) as worker:
        try:
            answer = worker.ask(lowered.job)
        except StageError as error:
            return Table(rows(error.printed, {}, str(error)))
    return Table(rows(answer["stderr"], answer["texts"]))


def rows(printed: str, texts: dict[str, str], error: str = "") -> Iterator[dict[str, Plain]]:
    """The rows of MLIR's output, by stage; `texts` are the stages' outputs, `error` stopped the last stage."""
    parts = _STAGE.split(printed)[1:]
    stages = [(stage, dump) for stage, dump in zip(parts[::2], parts[1::2], strict=True) if _DUMP.search(dump)]
    for number, (stage, dump) in enumerate(stages, 1):
        final = texts.get(stage, "") if stage in ("ttir", "ttgir") else ""
        yield from _stage_rows(stage, dump, final, error if number == len(stages) else "")


def _stage_rows(stage: str, dump: str, final: str, error: str) -> Iterator[dict[str, Plain]]:
    heads = list(_DUMP.finditer(dump))
    ends = [*(head.start() for head in heads[1:]), len(dump)]
    steps = [step for head, end in zip(heads, ends, strict=True) for step in _steps(head, dump[head.end() : end])]
    modules = [*(module for _, _, module in steps), final.strip()]
    for number, ((name, argument, before), after) in enumerate(zip(steps, modules[1:], strict=True), 1):
        last = number == len(steps)
        pass_error = error if last else ""
        yield {
            "stage": stage,
            "name": name,
            "argument": argument,
            "changed": None if last and not after else before != after,
            "before": before,
            "after": "" if pass_error else after,
            "error": pass_error,
        }


def _steps(head: re.Match[str], body: str) -> Iterator[tuple[str, str, str]]:
    """Split a pass's log into (name, argument, module before): each step it printed, then the rest."""
    inside = list(_STEP.finditer(body))
    starts = [0, *(step.end() for step in inside)]
    ends = [*(step.start() for step in inside), len(body)]
    names = [*(f"{head['name']}: {step['name']}" for step in inside), head["name"]]
    for name, start, end in zip(names, starts, ends, strict=True):
        yield name, head["argument"], _module(body[start:end])


def _module(text: str) -> str:
    """The module in a dump, without other output after it."""
    lines = text_lines(text.strip())
    end = max((n for n, line in enumerate(lines) if line.startswith(("}", "#loc"))), default=len(lines) - 1)
    return "\n".join(lines[: end + 1])
