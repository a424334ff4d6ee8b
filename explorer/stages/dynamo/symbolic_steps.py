"""Dynamo's symbolic execution of a frame, instruction by instruction, made by `Trace.attach`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import CALL_STACK, CALLED_FROM, Artifact, Event, Link, Plain
from explorer.stages.dynamo.guards import ASKED_AS, Guards
from explorer.stages.fx_graph import node_lines
from explorer.stages.kinds import COMMENT


@record
class SymbolicStep(Record):
    """One instruction that Dynamo executed on symbols: what the stack was after it, what it changed, and what it added.

    `attempt` counts from 0, `depth` the inlined calls around it. `code` is the text of the user's `line`, `offset` and
    `bytecode_line` the instruction's place in the frame's bytecode and in its text. `changed` has the locals that it changed,
    `nodes` the FX nodes and `guards` the guards that it added, each guard as kind and source; `raised` what ended it.
    """

    attempt: int
    last_attempt: bool
    depth: int
    function: str
    file: str
    line: int | None
    code: str
    offset: int | None
    bytecode_line: int | None
    opname: str
    argument: str
    stack: Names
    changed: Mapping[str, str]
    nodes: Names
    guards: Names
    raised: str


@record
class SymbolicSteps(Record):
    """All steps of Dynamo's symbolic execution of one frame in order, also of the attempts that it gave up.

    `same_graph` says that the steps added the trace's own graph: their nodes are its nodes.
    """

    steps: tuple[SymbolicStep, ...]
    same_graph: bool


#: How a step is known to be of a line of the source and of the bytecode, and a node or guard to be of a step.
POSITIONS, OFFSET, ADDED = "instruction positions", "instruction offset", "symbolic execution"
#: How wide an instruction is written.
WIDTH = 36


class StepLine(NamedTuple):
    """One line of the text, and the number of the step that it shows; None for a heading."""

    text: str
    step: int | None


def step_lines(steps: Sequence[SymbolicStep]) -> Iterator[StepLine]:
    """Write a heading for each attempt, the user's line before its steps, and the steps, those of inlined calls indented."""
    attempt: int | None = None
    place: object = None
    for number, step in enumerate(steps):
        if attempt != step.attempt:
            attempt, place = step.attempt, None
            given_up = "" if step.last_attempt else ", given up: Dynamo starts again"
            yield StepLine(f"# attempt {step.attempt + 1}{given_up}", None)
        indent = "    " * step.depth
        if place != (step.file, step.line, step.depth):
            place = (step.file, step.line, step.depth)
            yield StepLine(f"{indent}# {step.file}:{step.line} in {step.function}: {step.code}", None)
        yield StepLine(indent + readable(step), number)


def readable(step: SymbolicStep) -> str:
    """One step: its instruction, the stack after it, the locals that it changed, and what it added."""
    added = [f"%{name}" for name in step.nodes] + [f"guard {guard}" for guard in step.guards]
    parts = [f"{step.opname} {step.argument}".strip().ljust(WIDTH), f"[{', '.join(step.stack)}]"]
    parts += [f"{name} = {symbol}" for name, symbol in step.changed.items()]
    parts += [f"+ {', '.join(added)}"] if added else []
    parts += [f"! {step.raised}"] if step.raised else []
    text = f"{'' if step.offset is None else step.offset:>5} " + "  ".join(parts)
    return " ".join(text.split("\n"))


def render(event: Event, id: str) -> Artifact:
    """The steps, one a line under the user's lines."""
    data = typed(SymbolicSteps, event.data)
    text = "\n".join(line.text for line in step_lines(data.steps))
    return text_artifact(event, id, "Symbolic execution", "symbolic", text=text, data=data)


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each step to its line of the source and of the bytecode, and to it each node and guard that it added."""
    data = typed(SymbolicSteps, artifact.data)
    lines = {step: number for number, (_, step) in enumerate(step_lines(data.steps), 1) if step is not None}
    bytecode = [a.id for a in trace.find("bytecode", artifact.frame)][:1]
    for number, callers in enumerate(_callers(data.steps)):
        step = data.steps[number]
        yield from _to_source(artifact, trace, lines[number], step, callers)
        if step.bytecode_line is not None and step.depth == 0:
            yield from (Link(artifact.id, (lines[number],), id, (step.bytecode_line,), OFFSET) for id in bytecode)
    final = [(lines[n], step) for n, step in enumerate(data.steps) if step.last_attempt]
    if data.same_graph:
        yield from _of_nodes(artifact, trace, final)
    yield from _of_guards(artifact, trace, final)


def _callers(steps: Sequence[SymbolicStep]) -> Iterator[tuple[SymbolicStep, ...]]:
    """For each step the steps of the calls around it, the innermost last."""
    around: list[SymbolicStep] = []
    for step in steps:
        while around and (around[-1].depth >= step.depth or around[-1].attempt != step.attempt):
            around.pop()
        yield tuple(around)
        around.append(step)


def _to_source(
    artifact: Artifact, trace: TraceData, line: int, step: SymbolicStep, callers: Sequence[SymbolicStep]
) -> Iterator[Link]:
    """Link a step to its own line of the program, and to the lines of the calls that led there."""
    how = POSITIONS
    for each in (step, *reversed(callers)):
        place = source_line(trace, each.file, each.line, frame=artifact.frame) if each.line else None
        if place:
            yield Link(artifact.id, (line,), place[0], (place[1],), how)
            how = CALLED_FROM
        elif how == POSITIONS:
            how = CALL_STACK  # torch's own code, whose source is not in the trace: the user's line is a call


def _of_nodes(artifact: Artifact, trace: TraceData, steps: Iterable[tuple[int, SymbolicStep]]) -> Iterator[Link]:
    """Link each node of Dynamo's graph to the step that added it."""
    by_node = {name: line for line, step in steps for name in step.nodes}
    for graph in trace.find("dynamo", artifact.frame):
        for name, line in node_lines(graph).items():
            if name in by_node:
                yield Link(graph.id, (line,), artifact.id, (by_node[name],), ADDED)


def _of_guards(artifact: Artifact, trace: TraceData, steps: Iterable[tuple[int, SymbolicStep]]) -> Iterator[Link]:
    """Link each guard to the first step that asked for it, by the kind that Dynamo asked for and the source."""
    by_guard: dict[str, int] = {}
    for line, step in steps:
        for guard in step.guards:
            by_guard.setdefault(guard, line)
    for guards in trace.find("guards", artifact.frame):
        for number, row in enumerate(typed(Guards, guards.data).rows, 1):
            asked = (f"{kind} {row.source}" for kind in (row.kind, *ASKED_AS.get(row.kind, ())))
            by = next((by_guard[guard] for guard in asked if row.source and guard in by_guard), None)
            if by is not None:
                yield Link(guards.id, (number,), artifact.id, (by,), ADDED)


def kinds(artifact: Artifact) -> list[str]:
    """The headings are comments; every step is an instruction."""
    return [COMMENT if step is None else "" for _, step in step_lines(typed(SymbolicSteps, artifact.data).steps)]


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many instructions Dynamo executed, and how often it started again."""
    data = typed(SymbolicSteps, artifacts[0].data)
    again = max((step.attempt for step in data.steps), default=0)
    return f"{len(data.steps)} steps" + (f", {again + 1} attempts" if again else "")


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """One row per step."""
    yield from (step.mapping() for step in typed(SymbolicSteps, artifact.data).steps)


STAGE = Stage(
    name="symbolic_steps",
    title="Symbolic execution",
    language="symbolic",
    event=SymbolicSteps,
    artifact=SymbolicSteps,
    render=render,
    link=link,
    kinds=kinds,
    summary=summary,
    rows=rows,
    columns=tuple(SymbolicStep.__annotations__),
    why_absent="it is made on request, by tracing the call once more: t.attach(t.dynamo.steps()) gives the trace with it",
    about="Each instruction that Dynamo executed on symbols: the stack after it, the locals that it changed, and the nodes and "
    "guards that it added.",
)
