"""Read HLO: its computations and instructions, and the FX nodes that an instruction's `op_name` names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from explorer.model.trace_data import TraceData
from explorer.model.values import FUSED, Artifact, Link
from explorer.stages.fx_graph import node_lines
from explorer.stages.fx_locations import graph_of
from explorer.stages.kinds import Kinds, by_rules, rules

#: How a line's FX node is known.
OP_NAME = "HLO op_name"
#: The operations of a program that start no kernel: they name, put together or take apart what is there.
NO_KERNEL = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id")

HLO = rules(
    blank=r"^\s*$",
    signature=r"^(HloModule|ENTRY|%)",
    braces=r"^\}",
    inputs=r"^[-+ ]\s*(ROOT )?%[\w.-]+ = .*? parameter\(",
    constants=r"^[-+ ]\s*(ROOT )?%[\w.-]+ = .*? (constant\(|broadcast\(%constant[\w.]*\))",
    output=r"^[-+ ]\s*(ROOT )?%[\w.-]+ = .*? (tuple|get-tuple-element)\(",
)
_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%(?P<name>[\w.-]+) \(")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%(?P<name>[\w.-]+) = (?:\(.*?\)|\S+) (?P<operation>[a-z][\w-]*)\(")
_OP_NAME = re.compile(r'\bmetadata=\{[^}]*?\bop_name="([^"]*)"')
_CALLED = re.compile(r"\b(?:calls|to_apply|body|condition|true_computation|false_computation)=%([\w.-]+)")
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")


class Instruction(NamedTuple):
    """An instruction: its name and operation, its line, and the computations that it calls."""

    name: str
    operation: str
    line: int
    called: tuple[str, ...]


class Computation(NamedTuple):
    """A computation of a module: its name, its first and last line, its instructions; one is the module's entry."""

    name: str
    entry: bool
    first: int
    last: int
    instructions: tuple[Instruction, ...]


def computations(lines: Sequence[str]) -> Iterator[Computation]:
    """Each computation of a module, in the text's order."""
    head: re.Match[str] | None = None
    first, instructions = 0, list[Instruction]()
    for number, line in enumerate(lines, 1):
        if begun := _COMPUTATION.match(line):
            head, first, instructions = begun, number, []
        elif head is not None and line.startswith("}"):
            yield Computation(head["name"], bool(head["entry"]), first, number, tuple(instructions))
            head = None
        elif found := _INSTRUCTION.match(line):
            instructions.append(Instruction(found["name"], found["operation"], number, tuple(_called(line))))


def _called(line: str) -> Iterator[str]:
    yield from _CALLED.findall(line)
    for names in _BRANCHES.findall(line):
        yield from re.findall(r"%([\w.-]+)", names)


@dataclass(frozen=True)
class Module:
    """A module's computations and instructions, by their names."""

    computations: Mapping[str, Computation]
    instructions: Mapping[str, Instruction]

    def lines_inside(self, instruction: Instruction) -> list[int]:
        """The lines of the computations that an instruction calls, and of those that they call."""
        waiting, reached = list(instruction.called), dict[str, Computation]()
        while waiting:
            computation = self.computations.get(waiting.pop())
            if computation is not None and computation.name not in reached:
                reached[computation.name] = computation
                waiting += (name for each in computation.instructions for name in each.called)
        return sorted(line for each in reached.values() for line in range(each.first, each.last + 1))

    def lines_of(self, name: str) -> list[int]:
        """Return the lines that a kernel of this name computes: an instruction with what it calls, or a computation.

        XLA names a kernel of a single instruction `NAME_kernel`.
        """
        names = (name, name.removesuffix("_kernel"))
        for instruction in (self.instructions[each] for each in names if each in self.instructions):
            return [*self.lines_inside(instruction), instruction.line]
        for computation in (self.computations[each] for each in names if each in self.computations):
            return list(range(computation.first, computation.last + 1))
        return []


@lru_cache(maxsize=2)
def module_of(lines: tuple[str, ...]) -> Module:
    """Read a module; it is asked for once for each of its kernels."""
    by_name = {each.name: each for each in computations(lines)}
    return Module(by_name, {each.name: each for computation in by_name.values() for each in computation.instructions})


def kernels(lines: Sequence[str]) -> Iterator[tuple[Instruction, list[int]]]:
    """Each instruction of a module's entry that runs a kernel or a library's, with the lines of what it calls."""
    module = module_of(tuple(lines))
    for entry in (each for each in module.computations.values() if each.entry):
        for instruction in entry.instructions:
            if instruction.operation not in NO_KERNEL:
                yield instruction, module.lines_inside(instruction)


def op_names(lines: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The number of each line that states an `op_name`, and the names in it; XLA joins the names of several instructions."""
    for number, line in enumerate(lines, 1):
        if found := _OP_NAME.search(line):
            yield number, tuple(filter(None, re.split(r"[;/]", found[1])))


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each instruction to the FX nodes in its `op_name`, and each call of computations to the instructions inside them."""
    graph = graph_of(artifact, trace)
    if graph is not None:
        places = node_lines(graph)
        for number, names in op_names(artifact.lines):
            if found := tuple(sorted({places[name] for name in names if name in places})):
                yield Link(artifact.id, (number,), graph.id, found, OP_NAME)
    for instruction, inside in kernels(artifact.lines):
        if inside:
            yield Link(artifact.id, (instruction.line,), artifact.id, tuple(inside), FUSED)


def kinds(artifact: Artifact) -> Kinds:
    """Instructions compute, but parameters, constants and what only puts results together."""
    return by_rules(artifact.lines, HLO)
