"""Symbolic execution as a stage: its links held to `dis`, to the stacks of torch's nodes, and to the lines of its guards."""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.errors import LiveError
from explorer.model.values import Artifact
from explorer.stages.dynamo.symbolic_steps import SymbolicStep, SymbolicSteps, step_lines
from tests.facts import says

pytestmark = pytest.mark.compile


def doubled(y: torch.Tensor) -> torch.Tensor:
    return y.cos() * 2


class Model(nn.Module):
    """A module whose forward inlines a function and a layer, tests a number, and breaks the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.times = 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = doubled(self.layer(x))
        if self.times > 2:
            y = y + self.times
        torch._dynamo.graph_break()
        return doubled(y)


def program(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    parts = [torch.sin(x) * scale, x + 1]
    for part in range(2):
        parts[part] = doubled(parts[part])
    return torch.cat(parts, -1).sum()


@pytest.fixture(scope="module", params=[program, Model()], ids=["function", "module"])
def case(request: pytest.FixtureRequest) -> tuple[explorer.Trace, CodeType]:
    traced: Callable[..., Any] = request.param
    code = traced.forward.__code__ if isinstance(traced, nn.Module) else traced.__code__
    return explorer.trace(traced, torch.randn(4, 8), target="h100").attach(
        explorer.trace(traced, torch.randn(4, 8), target="h100").dynamo.steps()
    ), code


def steps_of(artifact: Artifact) -> dict[int, SymbolicStep]:
    """The steps by their line of the text."""
    data = artifact.data
    assert isinstance(data, SymbolicSteps)
    return {n: data.steps[step] for n, (_, step) in enumerate(step_lines(data.steps), 1) if step is not None}


def test_each_instruction_of_the_frame_leads_to_diss_lines(case: tuple[explorer.Trace, CodeType]) -> None:
    """A step is linked to the source line that `dis` gives its instruction, and to the line of `dis`' text that shows it."""
    trace, code = case
    by_offset = {i.offset: i for i in dis.get_instructions(code)}
    (steps,) = trace.find("symbolic_steps", "0/0")
    (bytecode,) = trace.find("bytecode", "0/0")
    source = trace.find("source", "0/0")[0]
    links = [link for link in trace.links if link.source == steps.id]
    first = int(source.data["first_line"])
    checked = 0
    for number, step in steps_of(steps).items():
        if step.depth:
            continue
        instruction = by_offset[step.offset or 0]
        assert (step.opname, step.line) == (instruction.opname, instruction.positions and instruction.positions.lineno)
        lines = [line for link in links if link.target == source.id and number in link.source_lines for line in link.target_lines]
        assert lines == [(step.line or 0) - first + 1]
        (shown,) = (
            line for link in links if link.target == bytecode.id and number in link.source_lines for line in link.target_lines
        )
        assert f" {instruction.opname} " in f"{bytecode.lines[shown - 1]} "
        assert not instruction.argrepr or instruction.argrepr in bytecode.lines[shown - 1]
        checked += 1
    assert checked >= len([i for i in by_offset.values() if i.opname not in ("EXTENDED_ARG", "CACHE")]) * 0.8


def test_each_node_leads_to_a_step_of_the_line_on_its_stack(case: tuple[explorer.Trace, CodeType]) -> None:
    """Every node of Dynamo's graph is linked to one step, which is of the innermost line of the stack that torch keeps."""
    trace, _ = case
    for graph in trace.find("dynamo"):
        (steps,) = trace.find("symbolic_steps", graph.frame)
        by_line = steps_of(steps)
        for node in graph.nodes:
            if node["op"] == "output":
                continue
            (line,) = (
                line
                for link in trace.links
                if (link.source, link.target) == (graph.id, steps.id)
                for number in link.source_lines
                if graph.lines[number - 1].strip().startswith((f"{node['name']}: ", f"{node['name']} = "))
                for line in link.target_lines
            )
            step = by_line[line]
            assert node["name"] in step.nodes and step.last_attempt
            if node["op"] not in ("placeholder", "get_attr") and "torch" not in step.file.rpartition("/site-packages/")[2]:
                assert (step.file, step.line) == (node["file"], node["line"])


def test_a_guard_leads_to_a_step_of_the_line_that_torch_says(case: tuple[explorer.Trace, CodeType]) -> None:
    """The step that added a guard is on the user's line that torch prints behind the guard, or in what that line calls."""
    trace, _ = case
    checked = 0
    for guards in trace.find("guards"):
        (steps,) = trace.find("symbolic_steps", guards.frame)
        texts = dict(enumerate(steps.lines, 1))
        for link in trace.links:
            if (link.source, link.target) != (guards.id, steps.id):
                continue
            row, line = guards.data["rows"][link.source_lines[0] - 1], link.target_lines[0]
            assert row["source"] in texts[line]
            if row["code"]:
                followed = trace.follow(guards.id, link.source_lines[0])
                assert any(steps.id == found["artifact"] and line in found["lines"] for found in followed)
                checked += any(found["stage"] == "source" for found in followed)
    assert checked


def test_every_step_leads_to_a_line_of_the_program(case: tuple[explorer.Trace, CodeType]) -> None:
    """Also those in torch's own modules, which lead to the user's call; the headings are comments."""
    trace, _ = case
    shares = {row["frame"]: row["share"] for row in trace.coverage() if row["stage"] == "symbolic_steps"}
    assert shares == dict.fromkeys(shares, 1.0) and shares


def test_it_is_kept_in_a_file_and_asked_for_once(case: tuple[explorer.Trace, CodeType]) -> None:
    """A loaded trace has the same texts, links and table; asked again it is the same trace."""
    trace, _ = case
    loaded = explorer.tracing.traced.loads(explorer.sources.files.trace_file.dumps(trace))
    assert loaded == trace and loaded.text("symbolic_steps") == trace.text("symbolic_steps")
    assert len(loaded.table("symbolic_steps")) == sum(len(steps_of(a)) for a in trace.find("symbolic_steps"))
    assert trace.attach(trace.dynamo.steps()) is trace
    with pytest.raises(LiveError):
        explorer.tracing.traced.loads(
            explorer.sources.files.trace_file.dumps(explorer.trace(doubled, torch.ones(2), backend="eager"))
        ).attach(
            explorer.tracing.traced.loads(
                explorer.sources.files.trace_file.dumps(explorer.trace(doubled, torch.ones(2), backend="eager"))
            ).dynamo.steps()
        )


def test_a_trace_without_it_pays_nothing() -> None:
    """While a trace compiles, Dynamo's step is its own; only the verb observes it, and it is as before after it."""
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    own = InstructionTranslatorBase.step
    seen: list[object] = []

    def backend(gm: Any, inputs: Any) -> Any:
        seen.append(InstructionTranslatorBase.step)
        return gm.forward

    trace = explorer.trace(doubled, torch.ones(2), backend=backend)
    assert seen == [own] and not trace.find("symbolic_steps")
    trace.attach(trace.dynamo.steps())
    assert seen[1] is not own and InstructionTranslatorBase.step is own


def test_nodes_of_another_graph_are_not_linked() -> None:
    """Where the second trace of the call has another graph, a warning says so, and its nodes lead nowhere."""

    class Changing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin() if state["first"] else x.cos()

    state = {"first": True}
    trace = explorer.trace(Changing(), torch.ones(3), backend="eager")
    state["first"] = False
    with pytest.warns(UserWarning, match=says("graph", "frame 0/0", "links")):
        other = trace.attach(trace.dynamo.steps())
    (graph,) = other.find("dynamo")
    assert not [link for link in other.links if link.source == graph.id and "symbolic_steps" in link.target]
    assert "cos" in other.text("symbolic_steps")
