"""The scratch memory of library calls: each call of the output code runs once more, alone, and the allocator is asked."""

from __future__ import annotations

import mmap
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import explorer
from explorer.analysis.questions.memory import memory_figures
from explorer.capture.observe import library_memory
from explorer.capture.observe.library_memory import LibraryCalls
from explorer.model.records import typed
from explorer.model.shared import CallMemory, OutputCode

HEAD = """
import torch
from torch._inductor.select_algorithm import extern_kernels
from torch._inductor.async_compile import AsyncCompile
aten = torch.ops.aten
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
async_compile = AsyncCompile()
cpp_fused_0 = async_compile.cpp_pybinding(['float*'], '''this is no C++''')
"""


def code(body: str, given: str) -> str:
    """Output code with this body of `call`, and these inputs."""
    lines = ["class Runner:", "    def call(self, args):", *(f"        {line}" for line in body.strip().splitlines())]
    lines += ["def get_args():", *(f"    {line}" for line in given.strip().splitlines())]
    return HEAD + "\n".join(lines)


def measured(text: str) -> tuple[CallMemory, ...]:
    return LibraryCalls().measured(text).calls


X = "x = rand_strided((64, 64), (64, 1), device='cpu', dtype=torch.float32)"
SORTED = code(
    "buf0 = empty_strided_cpu((64, 64), (64, 1), torch.float32)\ncpp_fused_0(x, buf0)\nbuf1 = aten.sort.default(buf0, 0)", X
)


def test_a_call_takes_its_results_and_its_scratch_memory() -> None:
    """A sort keeps values and indices, and takes a little more; torch's profiler saw the same when the test ran it."""
    (call,) = measured(SORTED)
    x = torch.zeros(64, 64)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        torch.sort(x, 0)
    sizes = [e.nbytes() for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]" and e.nbytes() > 0]
    assert call.kept == 64 * 64 * (4 + 8)
    assert call.peak == sum(sizes) > call.kept
    assert SORTED.splitlines()[call.line - 1].endswith("aten.sort.default(buf0, 0)")


def test_results_are_given_on_to_later_calls() -> None:
    """A part of a call's result, and a view of a buffer, are what the next call is given, with their layouts."""
    body = """
buf0 = aten.linalg_qr.default(x)
buf1 = buf0[0]
buf2 = empty_strided_cpu((32, 64), (64, 1), torch.float32)
extern_kernels.mm(reinterpret_tensor(buf1, (32, 64), (64, 1), 0), x, out=buf2)
buf3 = aten.sort.default(buf2)
"""
    calls = measured(code(body, X))
    assert [call.kept for call in calls] == [2 * 64 * 64 * 4, 0, 32 * 64 * (4 + 8)]


def test_equal_calls_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of the same operator, layouts and constants run once in a recording; each has its own line."""
    ran: list[Any] = []
    allocated = library_memory._allocated
    monkeypatch.setattr(library_memory, "_allocated", lambda call: (ran.append(call), allocated(call))[1])
    body = "buf0 = aten.sort.default(x, 0)\nbuf1 = aten.sort.default(x, 0)\nbuf2 = aten.sort.default(x, 1)"
    library = LibraryCalls()
    first, second, third = library.measured(code(body, X)).calls
    assert library.measured(code(body, X)).calls == (first, second, third) and len(ran) == 2
    assert (first.peak, first.line + 1) == (second.peak, second.line) and third.line == second.line + 1


@pytest.mark.parametrize(
    "body",
    [
        "buf0 = torch.ops._c10d_functional.all_reduce.default(x, 'sum', '0')",
        "buf0 = aten.bernoulli.default(x)",
        "buf0 = aten._scaled_dot_product_flash_attention_for_cpu.default(q, q, q, 0.1)",
        "buf0 = aten.sort.default(missing)",
        "buf0 = aten.nonzero.default(x)",
    ],
)
def test_what_must_not_run_again_is_not_measured(body: str) -> None:
    """A collective and what draws random numbers do not run, nor what depends on values or is unknown."""
    before = torch.random.get_rng_state()
    q = "q = rand_strided((1, 2, 64, 64), (8192, 4096, 64, 1), device='cpu', dtype=torch.float32)"
    assert measured(code(body, f"{X}\n{q}")) == ()
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_users_operator_does_not_run_again() -> None:
    """It may do more than compute; its results are unknown, and so is a call that takes them."""
    ran: list[int] = []

    @torch.library.custom_op("explorer_tests::noted", mutates_args=())
    def noted(x: torch.Tensor) -> torch.Tensor:
        ran.append(1)
        return x.clone()

    body = "buf0 = torch.ops.explorer_tests.noted.default(x)\nbuf1 = aten.sort.default(buf0)\nbuf2 = aten.sort.default(x)"
    (call,) = measured(code(body, X))
    assert ran == [] and call.kept == 64 * 64 * (4 + 8)


def test_a_large_call_is_not_measured() -> None:
    """A product that takes long does not run; a call after it does, also one that takes a part of its result."""
    body = "buf0 = aten.mm.default(y, y)\nbuf1 = aten.sort.default(reinterpret_tensor(buf0, (64, 64), (64, 1), 0))"
    given = f"{X}\ny = rand_strided((16384, 16384), (16384, 1), device='cpu', dtype=torch.float32)"
    (call,) = measured(code(body, given))
    assert call.kept == 64 * 64 * (4 + 8)


@pytest.mark.skipif(sys.platform != "linux", reason="reads this process's memory from /proc")
def test_weights_that_are_only_read_take_no_memory() -> None:
    """A product with 64 MiB of weights runs again on zeros, which take no memory; only the diagonal is written."""
    weights = torch.empty_strided((4096, 4096), (4096, 1), dtype=torch.float32, device="meta")
    before = _resident()
    given = library_memory._with_data(weights)
    assert given.sum() == 4096 and given.stride() == (4096, 1)
    assert _resident() - before < weights.numel() * weights.itemsize / 2


def _resident() -> int:
    """The bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE


def test_an_error_of_the_measuring_thread_is_raised_where_the_recording_is_read() -> None:
    """It becomes a Failure there, and nothing is printed; attention without dropout is measured."""
    with pytest.raises(SyntaxError):
        measured("def call(:")
    q = "q = rand_strided((1, 2, 64, 64), (8192, 4096, 64, 1), device='cpu', dtype=torch.float32)"
    assert len(measured(code("buf0 = aten._scaled_dot_product_flash_attention_for_cpu.default(q, q, q)", q))) == 1


def test_code_of_a_gpu_is_not_measured() -> None:
    """The allocator of a GPU is another."""
    assert measured(SORTED.replace("'cpu'", "'cuda:0'")) == ()


def test_a_profile_of_the_program_goes_on() -> None:
    """A recording may be read while the program profiles itself: neither disturbs the other."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        calls = measured(SORTED)
        torch.ones(2).sin()
    assert len(calls) == 1 and any(event.key == "aten::sin" for event in profiled.key_averages())


@pytest.mark.compile
def test_a_trace_counts_what_a_call_took_in_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak of the graph is the allocator's; the calls are measured when the trace is first read, and not by this thread."""
    threads: list[bool] = []
    allocated = library_memory._allocated
    monkeypatch.setattr(
        library_memory,
        "_allocated",
        lambda call: (threads.append(threading.current_thread() is threading.main_thread()), allocated(call))[1],
    )
    x = torch.rand(64, 96)
    trace = explorer.trace(lambda x: torch.linalg.qr(x)[0] @ x, x, target="cpu")
    assert threads == []
    calls = typed(OutputCode, trace.find("output_code")[0].data).calls
    assert calls and threads and not any(threads) and trace.memory.uncounted == ()
    (scratch,) = [row for row in trace.memory.table if row["kind"] == "scratch"]
    assert memory_figures(trace.memory).peak == x.nbytes + max(call.peak for call in calls)
    assert "linalg_qr" in scratch["made_by"] and scratch["lines"] and scratch in trace.memory.table.where(graph="inference")
