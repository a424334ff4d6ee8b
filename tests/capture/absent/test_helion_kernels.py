"""Helion's kernels in a function that is traced for a GPU you don't have: compiled for it, run without it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import explorer
from explorer.stages.inductor.helion import COMMENT
from explorer.tracing.traced import Trace

helion: Any = pytest.importorskip("helion", reason="Helion is not installed: pip install helion")
hl: Any = pytest.importorskip("helion.language")

pytestmark = pytest.mark.compile


@helion.kernel(config=helion.Config(block_sizes=[32, 32], num_warps=8), ignore_warnings=[helion.exc.WrongDevice])
def add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        s = x[tile] + y[tile]
        out[tile] = torch.relu(s)
    return out


@helion.kernel(ignore_warnings=[helion.exc.WrongDevice])
def row_sum(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile, :].sum(-1)
    return out


def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return add_relu(x.sin(), y) * 2


@pytest.fixture(scope="module")
def trace() -> Trace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return explorer.trace(function, torch.randn(64, 64), torch.randn(64, 64), target="h100")


def test_it_is_a_kernel_in_every_form(trace: Trace) -> None:
    """The trace has no failure, and Helion's kernel has its source, its launch, its config and machine code's text."""
    assert not trace.failures
    (kernel,) = [k for k in trace.kernels if "_helion_add_relu" in k.source]
    assert {a.stage for a in trace.artifacts if a.kernel == kernel.name} >= {"kernel", "ttir", "ttgir", "llir", "ptx"}
    (launch,) = kernel.launches
    assert launch["grid"] == (4, 1, 1) and list(launch["arguments"]) == ["x", "y"]
    (ptx,) = [a for a in trace.find("ptx") if a.kernel == kernel.name]
    assert ".reqntid 256" in ptx.text


def test_its_lines_are_linked_to_those_of_the_helion_function(trace: Trace) -> None:
    """The source of the function is in the trace, and each line of it has code."""
    (kernel,) = [k for k in trace.kernels if "_helion_add_relu" in k.source]
    (source,) = [a for a in trace.find("source") if "add_relu" in a.title]
    linked = {n for link in trace.links if (link.source, link.how) == (kernel.artifact.id, COMMENT) for n in link.target_lines}
    assert {source.lines[n - 1].strip() for n in linked} >= {"s = x[tile] + y[tile]", "out[tile] = torch.relu(s)"}


def test_what_was_compiled_computes_what_eager_does(trace: Trace) -> None:
    """The program ran on the CPU, and the wrapper with Helion's function of the host runs in the interpreter."""
    assert [row["equal"] for row in trace.check()] == [True]


def test_without_a_config_the_default_is_taken_and_said_and_nothing_stays() -> None:
    """Helion measures nothing; afterwards no kernel of the program has a config."""
    x = torch.randn(64, 64)
    trace = explorer.trace(lambda x: row_sum(x) + 1, x, target="h100")
    assert not trace.failures
    (row,) = trace.inductor.assumptions
    assert (row["where"], row["assumed"]) == ("row_sum, a Helion kernel", "Helion's default config")
    torch.testing.assert_close(trace.live.result, x.sum(-1) + 1)
    assert all(bound._config is None for bound in row_sum._bound_kernels.values())
