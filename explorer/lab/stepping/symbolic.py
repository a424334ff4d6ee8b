"""Dynamo's symbolic execution, step by step: each instruction, the stack and the locals after it, and what it added.

Dynamo runs a function's bytecode on symbols. It goes through it again from the start where a graph break or a mistaken assumption
makes it, each time as one more attempt; the last is the one whose graph is compiled.
"""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, TypeVar

from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.functions import disassembly
from explorer.capture.observe.patch import Guard, followed, guarding, observed
from explorer.errors import CompileError, InputError
from explorer.lab.live.protocol import Live, live_of
from explorer.lab.stepping.capture import compiles_begun, names_as_in_a_trace
from explorer.lab.stepping.line_table import disassembled_lines
from explorer.model.trace_data import TraceData
from explorer.model.values import EMPTY, Artifact, Event, Plain, Table
from explorer.stages.dynamo.symbolic_steps import SymbolicStep, step_lines
from explorer.stages.dynamo.symbolic_steps import SymbolicSteps as FrameSteps
from explorer.stages.replay import extended, rendered

T = TypeVar("T", bound=TraceData)

COLUMNS = (
    "step", "frame", "attempt", "last_attempt", "depth", "function", "file", "line",
    "code", "offset", "bytecode_line", "opname", "argument", "stack", "locals", "changed", "nodes", "guards", "raised",
)  # fmt: skip
#: What is said where the graph of the second trace is another one.
OTHER_GRAPH = (
    "the call was traced once more, and the graph of frame {frame} is not that of this trace: "
    "its nodes have no links to the steps"
)
#: The most elements of a symbolic list or dict that are written, and the most containers inside each other.
MAX_ITEMS, MAX_DEPTH = 6, 2


@dataclass(eq=False)
class _Step:
    """One instruction: the facts from before it, and the nodes and guards added until it ended."""

    attempt: _Attempt
    facts: dict[str, Plain]
    nodes: list[Any] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)
    of_frame: bool = False


@dataclass(eq=False)
class _Attempt:
    """One walk of Dynamo's through a frame, whose `code` it is. `names` has the names that its graph's nodes have in the end."""

    frame: str
    number: int
    code: CodeType
    steps: list[_Step] = field(default_factory=list)
    under_way: list[_Step] = field(default_factory=list)
    names: dict[Any, str] = field(default_factory=dict)


class SymbolicSteps(Table):
    """The steps as a table; `text` writes them as one does by hand."""

    #: The texts of Dynamo's graphs of the frames that the steps are of.
    graphs: Mapping[str, list[str]] = EMPTY

    @property
    def text(self) -> str:
        """One line per step, inlined calls indented, under the user's line, with what the step added at its end."""
        return "\n".join(
            text
            for frame, steps in _by_frame(self).items()
            for text in (f"# frame {frame}", *(line.text for line in step_lines(steps)))
        )


def with_steps(trace: T, steps: SymbolicSteps) -> T:
    """Return the trace with the steps as a stage of each frame; see `Trace.attach`."""
    if trace.find("symbolic_steps"):
        return trace
    by_frame = _by_frame(steps)
    if not by_frame.keys() & set(trace.compile_ids):
        raise InputError("these steps are of another trace: give what t.dynamo.steps() returns")
    events = []
    for frame, of_frame in by_frame.items():
        same = _graphs(trace, frame) == steps.graphs.get(frame)
        if not same:
            warnings.warn(f"explorer: {OTHER_GRAPH.format(frame=frame)}", stacklevel=4)
        events.append(Event("symbolic_steps", 0.0, frame, data=FrameSteps(steps=tuple(of_frame), same_graph=same)))
    artifacts: list[Artifact] = []
    for event in events:
        artifacts += rendered(trace, [event])
    return extended(trace, artifacts)


def _graphs(trace: TraceData, frame: str) -> list[str]:
    """The texts of Dynamo's graph of a frame."""
    return [artifact.text for artifact in trace.find("dynamo", frame)]


def _by_frame(rows: Table) -> dict[str, list[SymbolicStep]]:
    """The steps of each frame, in order."""
    frames: dict[str, list[SymbolicStep]] = {}
    for row in rows:
        fields = {name: row[name] for name in SymbolicStep.__annotations__}
        fields["changed"] = {name: row["locals"][name] for name in row["changed"]}
        frames.setdefault(row["frame"], []).append(SymbolicStep(**fields))
    return frames


def symbolic_steps(live: Live) -> SymbolicSteps:
    """Trace the call once more, and give each step of Dynamo's; CompileError where it cannot be compiled again."""
    attempts: list[_Attempt] = []
    begun: dict[str, None] = {}
    lost: dict[tuple[str, str, str], None] = {}
    with guarding(Guard(errors=lost)), compiles_begun(begun), _stepped(attempts):
        again = live.trace_again()
    if (second := live_of(again)) is not None and second.error is not None:
        failures = "\n".join(map(str, again.failures))
        raise CompileError(f"the call could not be compiled once more:\n{failures}") from second.error
    for _, what, message in lost:
        warnings.warn(f"explorer: not all of the symbolic execution is seen: {what}: {message}", stacklevel=3)
    names = names_as_in_a_trace(begun)
    last = {attempt.frame: attempt for attempt in attempts}
    steps = [(attempt, step) for attempt in attempts for step in attempt.steps]
    lines = {attempt: disassembled_lines(attempt.code, disassembly(attempt.code)) for attempt in attempts}
    rows = SymbolicSteps(
        (
            _row(number, names, attempt, last[attempt.frame] is attempt, step, lines[attempt])
            for number, (attempt, step) in enumerate(steps)
        ),
        COLUMNS,
    )
    rows.graphs = {frame: _graphs(again, frame) for frame in again.compile_ids}
    return rows


def _row(
    number: int, names: Mapping[str, str], attempt: _Attempt, last: bool, step: _Step, lines: Mapping[int, int]
) -> dict[str, Plain]:
    """Return the row of one step. In an attempt that was given up, the nodes keep their names from that attempt.

    `lines` has the line of the frame's disassembly for each of its offsets.
    """
    nodes = tuple(attempt.names[node] for node in step.nodes if node in attempt.names)
    if not attempt.names:
        nodes = tuple(node.name for node in step.nodes)
    row: dict[str, Plain] = {
        "step": number,
        "frame": names.get(attempt.frame, attempt.frame),
        "attempt": attempt.number,
        "last_attempt": last,
        **step.facts,
        "code": linecache.getline(step.facts["file"], step.facts["line"] or 0).strip(),
        "bytecode_line": lines.get(step.facts["offset"]) if step.of_frame else None,
        "nodes": nodes,
        "guards": tuple(step.guards),
    }
    return {column: row.get(column) for column in COLUMNS}


@contextmanager
def _stepped(attempts: list[_Attempt]) -> Iterator[None]:
    """Note every step of Dynamo's inside the block."""
    from torch._dynamo.output_graph import OutputGraph, SubgraphTracer
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase
    from torch._guards import GuardsSet

    translators: dict[int, _Attempt] = {}
    kept: list[Any] = []  # so that no two translators have one id

    def stepping(translator: Any) -> Generator[None, Any, None]:
        attempt = _attempt_of(translator, translators, kept, attempts)
        step = _begun(translator, attempt)
        if step is None:
            yield
            return
        attempt.steps.append(step)
        attempt.under_way.append(step)
        before = step.facts["locals"]
        returned = False
        try:
            yield
            returned = True
        finally:
            raised = None if returned else sys.exc_info()[0]
            step.facts["raised"] = raised.__name__ if raised is not None else ""
            attempt.under_way.remove(step)
            _ended(step, translator, before)

    def created(node: Any, tracer: Any, *args: Any, **kwargs: Any) -> None:
        if (step := _under_way(attempts)) is not None:
            step.nodes.append(node)

    def guarded(result: Any, guards: Any, guard: Any, **kwargs: Any) -> None:
        if (step := _under_way(attempts)) is not None:
            text = f"{guard.create_fn_name()} {_source_name(guard)}".strip()
            if text not in step.guards:
                step.guards.append(text)

    def compiling(output: Any, gm: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        if attempts:
            attempts[-1].names = {node: node.name for node in gm.graph.nodes}
        yield

    with (
        observed(InstructionTranslatorBase, "step", stepping),
        observed(OutputGraph, "call_user_compiler", compiling),
        followed(SubgraphTracer, "create_node", created),
        followed(GuardsSet, "add", guarded),
    ):
        yield


def _under_way(attempts: list[_Attempt]) -> _Step | None:
    """The innermost step that Dynamo is at."""
    return attempts[-1].under_way[-1] if attempts and attempts[-1].under_way else None


def _attempt_of(translator: Any, translators: dict[int, _Attempt], kept: list[Any], attempts: list[_Attempt]) -> _Attempt:
    """Return the attempt that a translator is part of. Each attempt makes a new outermost translator, which identifies it."""
    outermost = translator
    while getattr(outermost, "parent", None) is not None:
        outermost = outermost.parent
    if id(outermost) not in translators:
        kept.append(outermost)
        frame = current_compile_id()
        number = sum(attempt.frame == frame for attempt in attempts)
        translators[id(outermost)] = _Attempt(frame, number, outermost.f_code)
        attempts.append(translators[id(outermost)])
    return translators[id(outermost)]


def _begun(translator: Any, attempt: _Attempt) -> _Step | None:
    """Begin a step with the facts on a translator's next instruction; None if there is none."""
    pointer = translator.instruction_pointer
    if pointer is None or pointer >= len(translator.instructions):
        return None
    instruction = translator.instructions[pointer]
    code = translator.f_code
    positions = getattr(instruction, "positions", None)
    line = getattr(positions, "lineno", None) or instruction.starts_line or translator.lineno
    facts: dict[str, Plain] = {
        "depth": len(attempt.under_way),
        "function": code.co_name,
        "file": code.co_filename,
        "line": line,
        "offset": instruction.offset,
        "opname": instruction.opname,
        "argument": _argument(instruction),
        "stack": (),
        "locals": _locals(translator),
        "changed": (),
        "raised": "",
    }
    return _Step(attempt, facts, of_frame=code is attempt.code)


def _argument(instruction: Any) -> str:
    """What an instruction is given, as `dis` writes it where it can."""
    value = instruction.argval
    if value is None and instruction.arg is None:
        return ""
    if hasattr(value, "opname"):  # the target of a jump
        return f"to {value.offset}"
    return str(getattr(value, "co_name", None) or value if not isinstance(value, str) else value)[:80]


def _ended(step: _Step, translator: Any, before: Mapping[str, str]) -> None:
    """Note the stack and the locals after a step, and which locals are other than before."""
    step.facts["stack"] = tuple(described(value) for value in translator.stack)
    after = _locals(translator)
    step.facts["locals"] = after
    step.facts["changed"] = tuple(name for name, value in after.items() if before.get(name) != value)


def _locals(translator: Any) -> dict[str, str]:
    """The symbolic locals by name."""
    return {str(name): described(value) for name, value in translator.symbolic_locals.items()}


# What a symbol is ------------------------------------------------------------------------------------------------------


def described(value: Any, depth: int = 0) -> str:
    """Write a VariableTracker without calling its methods: a lazy one would realize its value, and add guards."""
    fields = getattr(value, "__dict__", {})
    cache = fields.get("_cache")
    if cache is not None and hasattr(cache, "vt"):
        return described(cache.vt, depth) if cache.vt is not None else f"lazy {_source(cache)}"
    kind = type(value).__name__.removesuffix("Variable").removesuffix("VariableTracker") or type(value).__name__
    if (proxy := fields.get("proxy")) is not None and hasattr(proxy, "node"):
        return f"{kind} %{proxy.node.name}{_shape(proxy.node)}"
    if kind == "Constant":
        return repr(fields.get("value"))[:80]
    if isinstance(items := fields.get("items"), (list, tuple)):
        return f"{kind}({_some(list(items), depth, lambda v: described(v, depth + 1))})"
    if isinstance(items, dict):
        # pairs, since looking a key up would compare it with others
        return f"{kind}({_some(list(items.items()), depth, lambda pair: f'{_key(pair[0])}: {described(pair[1], depth + 1)}')})"
    function = fields.get("fn", fields.get("value"))
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    if name is None and (source := _source(value)):
        name = source
    return f"{kind} {name}" if name else kind


def _some(items: list[Any], depth: int, write: Callable[[Any], str]) -> str:
    """The first items, and how many more there are."""
    if depth >= MAX_DEPTH:
        return f"{len(items)} items" if items else ""
    more = f", … {len(items) - MAX_ITEMS} more" if len(items) > MAX_ITEMS else ""
    return ", ".join(map(write, items[:MAX_ITEMS])) + more


def _key(key: Any) -> str:
    """A key of a symbolic dict, which Dynamo keeps in a wrapper."""
    return described(getattr(key, "vt", key), MAX_DEPTH)


def _shape(node: Any) -> str:
    """The type and sizes of what a node gives, where Dynamo knows them: " float32[4, 8]"."""
    value = node.meta.get("example_value")
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return ""
    return f" {str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"


def _source(value: Any) -> str:
    """Where a value comes from, as guards write it: "L['x']"; "" where it has no source, or one without a name."""
    return _source_name(getattr(value, "__dict__", {}).get("source"))


def _source_name(source: Any) -> str:
    """The name of a source or of a guard: an attribute, and before torch 2.11 a method."""
    try:
        name = getattr(source, "name", "")
        return str(name() if callable(name) else name)
    except NotImplementedError:  # such as an nn.Module that Dynamo makes itself
        return ""
