"""What the plug-in adds to a trace: its stages, its compiler and its check, and that a file keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import explorer


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1) + 1


@pytest.fixture(scope="module")
def trace() -> explorer.Trace:
    return explorer.trace(program, torch.randn(4096, 4096), target="h100")


def test_each_load_of_the_kernels_has_a_line(trace: explorer.Trace) -> None:
    """The stage lists what the kernels load, and each line leads to the load in the output code."""
    rows = trace.table("loads")
    assert len(rows) == sum(kernel.source.count("tl.load(") for kernel in trace.kernels) > 0
    code = trace.text("output_code").split("\n")
    assert all(f"{row['value']} = tl.load({row['pointer']}" in code[row["line"] - 1] for row in rows)
    (loads,) = trace.find("loads")
    assert len([link for link in trace.links if link.source == loads.id]) == len(loads.lines)


def test_the_compiler_runs_the_program_and_shows_its_text() -> None:
    """`backend="listing"` gives eager's result, and its listing has a line for each operator."""
    trace = explorer.trace(program, torch.randn(4, 8), backend="listing", options={"upper": True})
    assert [row["equal"] for row in trace.check()] == [True]
    first, second = trace.text("listing").split("\n")
    assert first.startswith("softmax: <BUILT-IN METHOD SOFTMAX") and second.startswith("add: ")


def test_the_check_names_the_only_launch(trace: explorer.Trace) -> None:
    """Softmax is one kernel, which takes the whole call, and the verdict has its line of the program."""
    (verdict,) = [verdict for verdict in trace.advise().verdicts if verdict.kind == "one launch"]
    assert "100%" in verdict.title and [line.code for line in verdict.lines] == ["return torch.softmax(x, -1) + 1"]


def test_a_file_keeps_the_stage(trace: explorer.Trace, tmp_path: Path) -> None:
    """A saved trace has the stage's text and table."""
    trace.save(tmp_path / "t.trace")
    loaded = explorer.load(tmp_path / "t.trace")
    assert loaded.text("loads") == trace.text("loads") and loaded.table("loads") == trace.table("loads")
