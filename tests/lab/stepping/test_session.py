"""A call whose code of one stage runs from real files: what runs, where pdb stops, and what is left behind."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.lab.live.protocol import live_of
from explorer.model.trace_data import artifact_of
from explorer.tracing.traced.trace import trace_of
from tests.facts import says

pytestmark = pytest.mark.compile

EVERY = ("graph", "dynamo_bytecode", "decompiled", "forward", "inductor_input", "post_grad", "wrapper")


def double(y: torch.Tensor) -> torch.Tensor:
    return y.cos() * 2


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x) @ w
    torch._dynamo.graph_break()
    return double(y).softmax(-1)


@pytest.fixture(scope="module")
def trace() -> explorer.Trace:
    return explorer.trace(program, torch.randn(4, 8), torch.randn(8, 8), target="h100")


@contextmanager
def lines_run(files: list[str]) -> Iterator[dict[str, list[int]]]:
    """The lines of these files that run inside the block, in order, by Python's own tracing."""
    ran: dict[str, list[int]] = {file: [] for file in files}

    def traced(frame: Any, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in ran:
            return None
        if event == "line":
            ran[frame.f_code.co_filename].append(frame.f_lineno)
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        yield ran
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("stage", EVERY)
def test_the_code_of_a_stage_runs_from_files_with_the_lines_of_its_text(trace: explorer.Trace, stage: str) -> None:
    """Python's tracing sees lines of every file run, each file has its artifact's lines, and the result is the trace's."""
    with trace.live.as_files(stage) as steps:
        assert len(steps.files) == 2, "a graph break makes two frames"
        for row in steps.files:
            written, shown = Path(row["file"]).read_text().split("\n"), artifact_of(trace, row["artifact"]).lines
            assert [line.strip() == "" for line in written[: len(shown)]] == [line.strip() == "" for line in shown]
            if stage not in ("decompiled", "dynamo_bytecode", "wrapper"):
                assert written[1 : len(shown)] == list(shown[1:])  # the first names a class, which may be "<lambda>"
        with lines_run([row["file"] for row in steps.files]) as ran:
            returned = steps.run()
        assert all(ran.values())
    assert torch.allclose(returned, trace.live.result)
    assert not any(Path(row["file"]).exists() for row in steps.files), "removed with the block"


def test_the_bytecode_that_runs_is_the_one_that_is_shown(trace: explorer.Trace) -> None:
    """Of straight-line code every line after RESUME runs, once and in order: each instruction has its own line."""
    with trace.live.as_files("dynamo_bytecode", frame="1/0") as steps:
        with lines_run([steps.file]) as ran:
            steps.run()
        text = Path(steps.file).read_text().split("\n")
    resume = next(n for n, line in enumerate(text, 1) if " RESUME " in line)
    assert ran[steps.file] == [n for n, line in enumerate(text, 1) if line.strip() and n > resume]


def test_the_backward_of_a_training_trace_is_stepped_through() -> None:
    """A training trace runs its forward and its backward graph from files."""
    trace = explorer.trace(lambda x: (x.sin() * 2).sum(), torch.randn(8, requires_grad=True), target="h100", train=True)
    with trace.live.as_files("post_grad") as steps:
        assert [row["graph"] for row in steps.files] == ["forward", "backward"]
        with lines_run([row["file"] for row in steps.files]) as ran:
            steps.run()
    assert all(ran.values())


def test_graphs_inside_a_graph_run_from_the_file() -> None:
    """The branch of a cond that is taken is stepped through in the file of the graph around it."""

    def branching(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,))

    trace = explorer.trace(branching, torch.ones(4), target="h100")
    with trace.live.as_files("graph") as steps, lines_run([steps.file]) as ran:
        returned = steps.run()
    text = trace.text("dynamo").split("\n")
    assert any(".sin()" in text[n - 1] for n in ran[steps.file])
    assert not any(".cos()" in text[n - 1] for n in ran[steps.file])
    assert torch.allclose(returned, branching(torch.ones(4)))


def closed_over() -> Callable[[torch.Tensor], torch.Tensor]:
    scale = torch.full((4,), 3.0)

    def inner(x: torch.Tensor) -> torch.Tensor:
        return (lambda y: y * scale)(x) + 1

    return inner


def test_decompiled_code_keeps_the_closure() -> None:
    """What depyf writes of a function with a closure runs in its place, with the closure's values."""
    trace = explorer.trace(closed_over(), torch.ones(4), target="h100")
    with trace.live.as_files("decompiled") as steps, lines_run([steps.file]) as ran:
        assert torch.equal(steps.run(), torch.full((4,), 4.0))
    assert ran[steps.file]


def test_debug_stops_at_a_line_and_shows_the_values(trace: explorer.Trace, capsys: pytest.CaptureFixture[str]) -> None:
    """debug() gives pdb's own answers to its commands: the line it stopped at, and the value there."""
    line = next(n for n, text in enumerate(artifact_of(trace, "0/0:dynamo").lines, 1) if "= sin @" in text)
    returned = trace.live.debug("graph", line, frame="0/0", commands=["p sin.shape, sin.flatten()[0].item()", "continue"])
    printed = capsys.readouterr().out
    assert f".dynamo.py({line})forward()" in printed
    x = live_of(trace).call.args[0]  # type: ignore[union-attr]
    assert f"(torch.Size([4, 8]), {torch.sin(x).flatten()[0].item()})" in printed
    assert torch.equal(returned, trace.live.result)
    assert sys.gettrace() is None


def test_quit_ends_the_run(trace: explorer.Trace, capsys: pytest.CaptureFixture[str]) -> None:
    """After "quit" debug() returns None, and the trace can be run as before."""
    assert trace.live.debug("wrapper", commands=["quit"], frame="0/0") is None
    assert "call()" in capsys.readouterr().out
    assert torch.allclose(trace.live.run(), trace.live.result)


def test_a_line_without_code_is_refused(trace: explorer.Trace) -> None:
    """A breakpoint on a comment or beyond the file raises InputError, with the nearest lines that have code."""
    with pytest.raises(explorer.errors.InputError, match=says("line 999")) as refused:
        trace.live.debug("graph", 999)
    assert len(re.findall(r"\d+", str(refused.value))) > 1


def test_what_is_no_line_and_no_list_of_commands_is_refused(trace: explorer.Trace) -> None:
    """The name of a line, and one command that is not in a list, are mistakes that the message shows how to write."""
    with trace.live.as_files("graph") as steps:
        with pytest.raises(explorer.errors.InputError, match=says("breakpoint", "line", "3 or [3, 5]", "not 'x'")):
            steps.debug(breakpoint="x")  # type: ignore[arg-type]
        with pytest.raises(explorer.errors.InputError, match=says("commands", "list", "pdb", "'p 1'")):
            steps.debug(commands="p 1")


def test_a_stage_without_code_is_refused(trace: explorer.Trace) -> None:
    """A stage that does not run, one that the trace lacks, and a loaded trace are each refused with what to do."""
    with pytest.raises(explorer.errors.InputError, match=says("stage", "'guards'", "'dynamo'", "'graph'", "'wrapper'")):
        trace.live.as_files("guards")
    with pytest.raises(explorer.errors.InputError, match=says("stage", "'backward'", "dynamo")):
        trace.live.as_files("backward")
    with pytest.raises(explorer.errors.LiveError, match=says("stepping", "process", "explorer.trace")):
        trace_of(trace).live.as_files()


def test_text_of_depyf_that_is_another_function_is_not_run(trace: explorer.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where depyf's text gives another result than the function, CompileError says so and names the stage that is exact."""
    from explorer.lab.stepping import capture

    right = capture.decompiled_text

    def wrong(*args: Any) -> Any:
        from dataclasses import replace

        facts = right(*args)
        return replace(facts, text=facts.text.replace("return graph_out_0[0]", "return graph_out_0[0] + 1"))

    monkeypatch.setattr(capture, "decompiled_text", wrong)
    with pytest.raises(explorer.errors.CompileError, match=says("depyf", "output", "'dynamo_bytecode'")):
        trace.live.as_files("decompiled")


def test_the_traced_arguments_are_left_alone() -> None:
    """A function that changes its input is stepped through on copies."""
    x = torch.zeros(4)
    trace = explorer.trace(lambda x: x.add_(1), x, target="h100")
    before = x.clone()
    with trace.live.as_files("post_grad") as steps:
        assert torch.equal(steps.run(), torch.ones(4))
        assert torch.equal(steps.run(), torch.ones(4))
    assert torch.equal(x, before)
