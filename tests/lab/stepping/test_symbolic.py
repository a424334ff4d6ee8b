"""Dynamo's symbolic execution, step by step, held to Dynamo's graph, to `dis`, and to what Python itself executes."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from tests.facts import untold

pytestmark = pytest.mark.compile


def straight(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    y = torch.sin(x) * scale
    parts = [y, y + 1]
    return torch.cat(parts, -1).sum()


def doubled(y: torch.Tensor) -> torch.Tensor:
    return y.cos() * 2


def inlining(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = doubled(x) - doubled(x + 1)
    return x


def breaking(x: torch.Tensor) -> torch.Tensor:
    y = doubled(x)
    torch._dynamo.graph_break()
    return doubled(y)


def branching(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


MODEL = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.LayerNorm(4))


@pytest.mark.parametrize("program", [straight, inlining, breaking, MODEL], ids=["straight", "inlining", "breaking", "model"])
def test_the_nodes_of_all_steps_are_the_graphs_each_once(program: Callable[..., Any]) -> None:
    """The nodes that the last attempt of each frame added are exactly those of Dynamo's graph."""
    trace = explorer.trace(program, torch.randn(4, 8), target="h100")
    steps = trace.dynamo.steps()
    graphs = trace.find("dynamo")
    assert len(graphs) == (2 if program is breaking else 1)
    for graph in graphs:
        added = [name for row in steps.where(frame=graph.frame, last_attempt=True) for name in row["nodes"]]
        assert sorted(added) == sorted(node["name"] for node in graph.nodes)


def executed(code: CodeType, call: Callable[[], object]) -> list[int]:
    """The offsets of the instructions of a code object that Python executes in a call, by its own opcode events."""
    offsets: list[int] = []

    def traced(frame: Any, event: str, arg: object) -> Any:
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            offsets.append(frame.f_lasti)
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        call()
    finally:
        sys.settrace(before)
    return offsets


def test_the_instructions_are_those_that_python_executes() -> None:
    """Of straight-line code each instruction is one step: those of `dis`, in the order of the eager run's opcode events."""
    x = torch.randn(4, 8)
    steps = explorer.trace(straight, x, target="h100").dynamo.steps()
    listed = [(i.offset, i.opname) for i in dis.get_instructions(straight) if i.opname != "EXTENDED_ARG"]
    assert [(row["offset"], row["opname"]) for row in steps] == listed
    ran = executed(straight.__code__, lambda: straight(x))
    assert [row["offset"] for row in steps if row["opname"] != "RESUME"] == [n for n in ran if n in dict(listed) and n > 0]


def test_the_symbolic_stack_is_as_deep_as_pythons() -> None:
    """After each instruction there are as many symbols as the effects of the instructions so far add up to."""
    steps = explorer.trace(straight, torch.randn(4, 8), target="h100").dynamo.steps()
    depth = 0
    for row, instruction in zip(steps, dis.get_instructions(straight), strict=True):
        depth += dis.stack_effect(instruction.opcode, instruction.arg)
        if instruction.opname not in ("PRECALL", "RETURN_VALUE"):  # Dynamo calls and returns in one
            assert len(row["stack"]) == depth, row


def test_a_graph_break_is_shown_as_an_attempt_given_up() -> None:
    """Dynamo walks to the graph break, raises a restart there, and walks again; only the second walk's graph is compiled."""
    steps = explorer.trace(breaking, torch.randn(4), target="h100").dynamo.steps()
    first, second = steps.where(frame="0/0", attempt=0), steps.where(frame="0/0", attempt=1)
    assert first and second and not any(row["last_attempt"] for row in first)
    assert "Restart" in first[-1]["raised"]
    assert not any(row["raised"] for row in second)
    headings = [line for line in steps.text.splitlines() if line.startswith("#") and not untold(line, "attempt")]
    assert ["Dynamo" in line for line in headings[:2]] == [True, False]


def test_inlined_calls_are_nested_and_steps_name_the_users_lines() -> None:
    """The steps of an inlined function are one deeper, with its own lines, and add its nodes themselves."""
    steps = explorer.trace(inlining, torch.randn(4), target="h100").dynamo.steps()
    inside = [row for row in steps if row["function"] == "doubled"]
    assert {row["depth"] for row in inside} == {1}
    assert {row["line"] for row in inside} == {doubled.__code__.co_firstlineno, doubled.__code__.co_firstlineno + 1}
    assert sum("cos" in name for row in inside for name in row["nodes"]) == 4
    assert not any("cos" in name for row in steps if row["depth"] == 0 for name in row["nodes"])


def test_looking_at_a_symbol_changes_nothing() -> None:
    """A traced argument that is not used stays lazy, and gets no guard; the graph and the guards are those of the trace."""

    def program(x: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
        pair = (x, unused)
        return pair[0] + 1

    trace = explorer.trace(program, torch.randn(4), torch.randn(5), target="h100")
    steps = trace.dynamo.steps()
    assert "lazy L['unused']" in {symbol for row in steps for symbol in row["stack"]}
    guards = {guard.split(" ", 1)[1] for row in steps for guard in row["guards"] if " " in guard}
    assert "L['x']" in guards and "L['unused']" not in guards
    guarded = {str(row["source"]) for row in trace.dynamo.guards}
    assert "L['x']" in guarded and "L['unused']" not in guarded


def test_graphs_inside_a_graph_are_walked_too() -> None:
    """The branches of a cond are inlined; the nodes of the outer graph are each added once."""
    trace = explorer.trace(branching, torch.randn(4), target="h100")
    (graph,) = trace.find("dynamo")
    added = [name for row in trace.dynamo.steps().where(last_attempt=True) for name in row["nodes"]]
    names = [node["name"] for node in graph.nodes]
    assert [added.count(name) for name in names if not name.startswith("cond_")] == [1] * sum(
        not name.startswith("cond_") for name in names
    )
