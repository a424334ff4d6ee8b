"""Edits and configs of a hand-written kernel, judged in a function that launches it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import explorer
from explorer.lab.live.launching import held_to
from explorer.model.values import Table
from tests.facts import says, untold

triton = pytest.importorskip("triton")
tl: Any = triton.language
pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]

X, Y = torch.randn(1000), torch.randn(1000)


@triton.jit
def add_to(x, y, n, BLOCK: tl.constexpr):
    """Add in place."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def either(pair, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(pair[0] + i))


def traced(**changes: Any) -> explorer.Trace:
    given = {"grid": lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), "target": "h100", "BLOCK": 256, **changes}
    return explorer.trace(add_to, X, Y, 1000, sass=False, **given)


@pytest.fixture(scope="module")
def trace() -> explorer.Trace:
    """A trace for a GPU you don't have."""
    return traced()


def test_an_edit_that_writes_the_same_stands(trace: explorer.Trace) -> None:
    """It is held to the kernel's bits, run by run() and check(), and reset() puts the kernel back; the arguments stay."""
    kernel, before = trace.kernels[0], X.clone()
    made = kernel.edit(kernel.source.replace("tl.load(y + i, i < n)", "0.0 + tl.load(y + i, i < n)"))
    try:
        assert made.in_place and made.kernel == "add_to" and made.interpreted and made.timed == "predicted"
        assert not made.check and "to the bit" in made.message
        assert kernel.edits.current == (made,) and kernel.edits[-1] is made and "+" in made.diff
        assert torch.equal(trace.live.run()["x"], X + Y) and torch.equal(X, before)
        assert [row["equal"] for row in (*trace.check(), *trace.check(expected=X + Y))] == [True, True]
        with pytest.raises(explorer.errors.NoVerbError, match=says("arguments", "t.kernels[0].edits.reset()")):
            trace.live.run(X, Y, 1000)
    finally:
        assert kernel.edits.reset()
    assert not kernel.edits.current and not kernel.edits.reset()


def test_an_edit_that_is_wrong_is_named_by_the_kernels_own_names(trace: explorer.Trace) -> None:
    """A wrong result names the argument, and an error the line of the source that was given; the kernel stays."""
    kernel = trace.kernels[0]
    wrong = kernel.edit(kernel.source.replace("tl.load(y", "2 * tl.load(y"))
    assert wrong.status == "wrong result" and not untold(wrong.message, "x", "1000") and "args" not in wrong.message
    line = next(n for n, text in enumerate(kernel.source.splitlines(), 1) if "tl.store" in text)
    broken = kernel.edit(kernel.source.replace("tl.store", "tl.stroe"))
    assert broken.status == "compile error" and broken.line == line and f"line {line}" in broken.described()
    assert broken.message.startswith("module 'triton.language' has no attribute 'stroe'")
    assert not kernel.edits.current


def test_an_edit_may_have_another_config(trace: explorer.Trace) -> None:
    """The grid is the one of the config; a value that the kernel does not have is an error."""
    kernel = trace.kernels[0]
    made = kernel.edit(kernel.source, config={"BLOCK": 128, "num_warps": 2})
    kernel.edits.reset()
    assert made.status == "in place" and (made.config or {})["BLOCK"] == 128 and (made.original_config or {})["BLOCK"] == 256
    with pytest.raises(explorer.errors.InputError, match=says("'SIZE'", "'BLOCK'")):
        kernel.edit(kernel.source, config={"SIZE": 128})
    with pytest.raises(explorer.errors.InputError, match=says("def", "config=")):
        kernel.edit(f"import math\n{kernel.source}")


def test_configs_are_compared(trace: explorer.Trace) -> None:
    """Without configs only the warps vary; with them any constant does. Each row has the predicted time of its launch."""
    tuning = trace.kernels[0].tune()
    assert {row["config"]["BLOCK"] for row in tuning._rows} == {256} and not tuning.measured
    assert {row["config"]["num_warps"] for row in tuning._rows} > {4, 8} and sum(row["taken"] for row in tuning._rows) == 1
    given = trace.kernels[0].tune([{"BLOCK": 512}, {"BLOCK": 100}])
    assert [row["config"]["BLOCK"] for row in given._rows] == [512, 100]
    assert given._rows[0]["seconds"] > 0 and not untold(given._rows[1]["error"], "power")


def test_times_are_held_to_the_kernels_own_config() -> None:
    """Torch held them to the config that it chose; a config that could not run has no ratio."""
    rows = [
        {"config": {"BLOCK": 2}, "taken": True, "ratio": 1.0},
        {"config": {"BLOCK": 1}, "taken": False, "ratio": 2.0},
        {"config": {"BLOCK": 4}, "taken": False, "ratio": None},
    ]
    held = held_to(Table(rows), {"BLOCK": 1})
    assert [(row["taken"], row["ratio"]) for row in held] == [(False, 0.5), (True, 1.0), (False, None)]


def test_an_edit_for_an_intel_gpu_is_interpreted() -> None:
    """The source is judged where triton has no backend; what needs one says so."""
    kernel = traced(target="max1550").kernels[0]
    assert kernel.edit(kernel.source.replace("i < n)", "i < 1000)")).status == "in place"
    assert kernel.edit(kernel.source.replace("tl.load(y", "2 * tl.load(y")).status == "wrong result"
    with pytest.raises(explorer.errors.CompileError, match=says("no backend", "Intel GPUs")):
        kernel.tune()


def test_what_cannot_be_launched_from_a_function_says_why() -> None:
    """Editing needs the grid, and arguments that torch.compile takes."""
    with pytest.raises(explorer.errors.InputError, match=says("add_to", "grid=")):
        traced(grid=None).kernels[0].tune()
    of_tuple = explorer.trace(either, (X, Y), torch.zeros(64), BLOCK=64, grid=(1,), target="h100", sass=False)
    with pytest.raises(explorer.errors.NoVerbError, match=says("either", "torch.compile", "explorer.trace")):
        of_tuple.kernels[0].edit(of_tuple.kernels[0].source)
