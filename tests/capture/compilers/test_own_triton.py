"""Backends of your own that replace one operator by a hand-written Triton kernel, for a GPU you don't have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._inductor.compile_fx import compile_fx  # by name, as the backends of users have it

import explorer

triton = pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")

pytestmark = pytest.mark.compile
tl: Any = triton.language


@triton.jit
def silu_kernel(x, out, n, BLOCK: tl.constexpr):
    """x times its sigmoid."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(out + i, value * tl.sigmoid(value), i < n)


def my_silu(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    silu_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out


@torch.library.triton_op("explorer_own::silu", mutates_args={})
def silu_operator(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(silu_kernel)[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out


def with_silu(gm: torch.fx.GraphModule, function: Any) -> torch.fx.GraphModule:
    """Replace PyTorch's SiLU in a graph by the function."""
    for node in gm.graph.nodes:
        if node.target is torch.nn.functional.silu:
            node.target, node.kwargs = function, {}
    gm.recompile()
    return gm


def launching(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    return with_silu(gm, my_silu)


def through_inductor(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    return compile_fx(with_silu(gm, torch.ops.explorer_own.silu.default), inputs)


def gate(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    z = torch.nn.functional.silu(y)
    return z + 1


LADDER = {"kernel", "ttir", "ttgir", "llir", "ptx"}


def stages_of_line(trace: explorer.Trace, code: str, kernel: str) -> set[str]:
    """The stages of a kernel that a line of `gate` leads to."""
    (source,) = [artifact for artifact in trace.find("source") if "return z + 1" in artifact.text]
    number = next(n for n, line in enumerate(source.lines, 1) if code in line)
    return {row["stage"] for row in trace.follow(source.id, number) if row["artifact"].endswith(f":{kernel}")}


def test_a_kernel_that_the_graph_launches_has_its_ladder_and_is_reached_from_the_users_line() -> None:
    """PyTorch runs the rest of the graph; the line of the operator leads through the user's function to the machine code."""
    trace = explorer.trace(gate, torch.randn(1000), backend=launching, target="h100")
    assert not trace.failures
    rows = [(row["what"], row["engine"].partition(":")[0], row["calls"]) for row in trace.table("execution")]
    assert rows == [("all but z", "PyTorch", 1), ("z", "my_silu (test_own_triton.py", 1)]
    assert stages_of_line(trace, "silu(y)", "silu_kernel") >= LADDER
    assert not stages_of_line(trace, "x * 2", "silu_kernel")
    assert all(row["equal"] and row["interpreted"] for row in trace.check())


def test_inductor_behind_a_backend_compiles_for_the_gpu_also_where_its_function_was_imported_by_name() -> None:
    """All stages are that GPU's; the hand-written kernel stands between Inductor's, and all are interpreted in a check."""
    trace = explorer.trace(gate, torch.randn(1000), backend=through_inductor, target="h100")
    assert not trace.failures
    assert [kernel.language for kernel in trace.kernels] == ["triton"] * 3
    assert {a.stage for a in trace.artifacts if a.kernel == "silu_kernel_0"} >= LADDER
    assert "cuda:0" in trace.text("post_grad") and not trace.find("execution")
    assert all(row["equal"] and row["interpreted"] for row in trace.check())
