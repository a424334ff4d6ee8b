"""Helion's kernels in a function that is traced for a GPU you don't have: compiled for it, run without it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import explorer
from explorer.errors import InputError
from explorer.stages.inductor.helion import COMMENT
from explorer.tracing.traced import Trace
from tests.facts import says

helion: Any = pytest.importorskip("helion", reason="Helion is not installed: pip install helion")
hl: Any = pytest.importorskip("helion.language")

pytestmark = pytest.mark.compile


@helion.kernel(config=helion.Config(block_sizes=[32, 32], num_warps=8))
def add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        s = x[tile] + y[tile]
        out[tile] = torch.relu(s)
    return out


@helion.kernel()
def row_sum(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile, :].sum(-1)
    return out


@helion.kernel(config=helion.Config(block_sizes=[16, 16, 16], pid_type="persistent_blocked"))
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k, n = x.size(0), x.size(1), y.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        total = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            total = torch.addmm(total, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = total
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


@pytest.mark.parametrize(
    "change",
    [
        lambda kernel: kernel.edit(source=kernel.source.replace("num_warps=8", "num_warps=4")),
        lambda kernel: kernel.edit(ttgir=kernel.text("ttgir")),
        lambda kernel: kernel.tune(),
        lambda kernel: kernel.tune(configs=[{"num_warps": 4}]),
    ],
    ids=["edit the source", "edit the TTGIR", "tune", "tune with configs"],
)
def test_what_is_changed_of_it_is_the_helion_function(change: Callable[[explorer.Kernel], object], trace: Trace) -> None:
    """Helion writes the kernel, so an edit and other configs are refused with what to do, and the kernel stays as it is."""
    (kernel,) = [k for k in trace.kernels if "_helion_add_relu" in k.source]
    with pytest.raises(InputError, match=says(kernel.artifact.kernel, "Helion", "config=", "trace again")):
        change(kernel)
    assert [row["equal"] for row in trace.check()] == [True]


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


def test_a_kernel_alone_whose_launch_depends_on_the_gpu_is_compiled_too(capfd: pytest.CaptureFixture[str]) -> None:
    """A persistent kernel is launched for as many multiprocessors as the target has; Helion warns of no wrong device."""
    trace = explorer.trace(matmul, torch.randn(64, 32), torch.randn(32, 64), target="h100")
    assert not trace.failures and "WrongDevice" not in capfd.readouterr().err
    (kernel,) = [k for k in trace.kernels if "_helion_matmul" in k.source]
    assert [launch["grid"] for launch in kernel.launches] == [(132, 1, 1)] and "tt.dot" in kernel.text("ttir")
    assert [row["equal"] for row in trace.check()] == [True]


def test_on_the_cpu_the_failure_says_what_to_do() -> None:
    """Inductor's generator for the CPU takes no Helion kernel."""
    x = torch.randn(64, 64)
    trace = explorer.trace(lambda x: add_relu(x, x) + 1, x, target="cpu")
    assert ["Inductor compiles no Helion kernel for the CPU" in failure.message for failure in trace.failures] == [True]
