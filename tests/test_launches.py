"""Launches of Triton kernels outside of torch.compile, recorded for a GPU you don't have."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.model.trace_data import artifact_of
from explorer.tracing.traced import Trace
from tests.facts import says

triton = pytest.importorskip("triton")
tl: Any = triton.language
pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]

LADDER = ("kernel", "ttir", "ttgir", "llir", "ptx", "sass")


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    """Vector add."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    """Twice a vector."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)


@triton.jit
def refused(x, out, BLOCK: tl.constexpr):
    """A kernel with an assertion that never holds."""
    i = tl.arange(0, BLOCK)
    tl.static_assert(BLOCK == 0, "never")
    tl.store(out + i, tl.load(x + i))


def launched(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return out


class Program:
    """What one program saw while it was recorded for an H100, and its trace."""

    def __init__(self) -> None:
        x, y = torch.randn(1024), torch.randn(1024)
        with explorer.record("h100") as recording, pytest.warns(UserWarning, match=says("timed", "h100")):
            self.driver = triton.runtime.driver.active
            self.sum = launched(x, y)
            self.again = launched(x, y)
            self.odd = launched(x[:1000], y[:1000])[:999]
            launched(x[:999], y[:999])
            self.doubled = torch.empty_like(x)
            self.handle = double[lambda meta: (triton.cdiv(1024, meta["BLOCK"]),)](x, self.doubled, 1024)
            self.warm = add.warmup(x, y, self.sum, 1024, BLOCK=512, grid=(1,))
            self.warm._init_handles()
            self.registers, self.shared = self.warm.n_regs, self.warm.metadata.shared
            self.by_handle = torch.empty_like(x)
            self.warm[(2, 1, 1)](x, y, self.by_handle, 1024, 512)
            self.ptx, self.sass = self.handle.asm["ptx"], self.handle.asm["sass"]
            self.times = triton.testing.do_bench(lambda: launched(x, y), quantiles=[0.5, 0.2])
            self.time = triton.testing.do_bench(lambda: None)
            self.compiled = torch.compile(lambda x, y: launched(x, y).sin())(x, y)
        self.x, self.y, self.trace = x, y, recording.trace


@pytest.fixture(scope="module")
def program() -> Program:
    """One program that asks, launches, compiles and times."""
    return Program()


def by_name(trace: Trace) -> dict[str, explorer.Kernel]:
    """The kernels that were launched outside of torch.compile, by name."""
    return {k.name: k for k in trace.kernels if not k.artifact.frame}


def test_the_driver_is_answered_for_the_target(program: Program) -> None:
    """Name, figures and device of triton's active driver are the target's inside the block, and as before after it."""
    target = explorer.Target.parse("h100")
    assert program.driver.get_current_target().arch == 90 and program.driver.get_current_device() == 0
    figures = program.driver.utils.get_device_properties(0)
    assert figures["multiprocessor_count"] == target.multiprocessors and figures["max_shared_mem"] == target.shared_per_block
    assert program.driver.get_active_torch_device() == torch.device("cpu")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="active drivers"):
            triton.runtime.driver.active  # noqa: B018


def test_launches_compute_what_they_should(program: Program) -> None:
    """Plain, autotuned and compiled launches, and those of a kernel from `warmup`, write the right numbers."""
    torch.testing.assert_close(program.sum, program.x + program.y)
    torch.testing.assert_close(program.doubled, 2 * program.x)
    torch.testing.assert_close(program.by_handle, program.x + program.y)
    torch.testing.assert_close(program.compiled, (program.x + program.y).sin())


def test_each_launched_kernel_has_its_ladder(program: Program) -> None:
    """One kernel for each way in which triton specializes it, down to SASS; those in a graph are Inductor's, not these."""
    kernels = by_name(program.trace)
    assert set(kernels) == {"add", "add_1", "add_2", "double"}
    assert all(kernel.stages == LADDER and kernel.resources["registers"] > 0 for kernel in kernels.values())
    assert kernels["add"].text("ptx") != kernels["add_1"].text("ptx")  # 999 is no multiple of 16
    assert [row["taken"] for row in kernels["double"].candidates.table] == [True, False]
    inductor = [k.name for k in program.trace.kernels if k.artifact.frame]
    assert "add_0" in inductor


def test_launches_are_counted_with_their_lines(program: Program) -> None:
    """A row for each place, arguments and grid, with its count and a link from the kernel to the user's line."""
    rows = by_name(program.trace)["add"].launches
    lines, first = inspect.getsourcelines(launched)
    line = first + next(n for n, text in enumerate(lines) if "add[" in text)
    assert rows[0]["times"] >= 2 and rows[0]["grid"] == (4, 1, 1) and rows[0]["arguments"]["n"] == 1024
    assert rows[0]["place"] == {"file": __file__, "line": line, "function": "launched"}
    ptx = next(a for a in program.trace.find("ptx") if a.kernel == "add")
    (number,) = [n for n, text in enumerate(ptx.lines, 1) if "add.f32" in text or "add.rn.f32" in text][:1]
    found = program.trace.follow(ptx.id, number)
    sources = {
        (artifact_of(program.trace, r["artifact"]).data["qualname"], r["route"][-1]) for r in found if r["stage"] == "source"
    }
    assert ("add", "the program's own line") in sources and ("launched", "called from") in sources
    assert all(row["share"] == 1.0 for row in program.trace.coverage() if row["stage"] == "ttir" and not row["frame"])


def test_a_launch_gives_what_triton_gives(program: Program) -> None:
    """Registers, shared memory and texts of what the GPU would run, as a program reads them of triton's own kernel."""
    assert program.registers > 0 and program.shared == 0
    assert ".target sm_90a" in program.ptx and "EXIT" in program.sass
    assert by_name(program.trace)["double"].text("ptx") == program.ptx


def test_nothing_is_timed(program: Program) -> None:
    """do_bench runs its function once and gives NaN in the form asked for; a failure of the trace says so."""
    assert len(program.times) == 2 and all(map(math.isnan, [*program.times, program.time]))
    (failure,) = program.trace.failures
    assert failure.step == "do_bench" and "gives NaN" in failure.message
    assert triton.testing.do_bench.__module__ == "triton.testing"  # it is triton's own again


def test_the_trace_is_a_value(program: Program, tmp_path: Path) -> None:
    """It is saved and loaded, shown as a page, and its tables count the launches."""
    program.trace.save(tmp_path / "t.json.gz")
    assert explorer.load(tmp_path / "t.json.gz") == program.trace
    program.trace.to_html(tmp_path / "t.html")
    (row,) = program.trace.kernels.table.where(kernel="double")
    assert row["launches"] == 1 and row["registers"] > 0


def test_what_triton_refuses_is_said() -> None:
    """A kernel that the GPU's compiler refuses is in the trace, with the reason and its line; the interpreter raises too."""
    x = torch.randn(16)
    with explorer.record("h100") as recording, pytest.raises(explorer.errors.InterpretError):
        refused[(1,)](x, torch.empty(16), BLOCK=16)
    (failure,) = recording.trace.failures
    assert failure.stage == "kernel" and "refused line" in failure.message and "never" in failure.message
    assert [k.name for k in recording.trace.kernels] == ["refused"]


def test_launches_of_a_traced_function_outside_its_graphs_are_there(program: Program) -> None:
    """After a graph break, or where Dynamo is told to stay away, a launch is as in `record`."""

    @torch.compiler.disable
    def apart(x: torch.Tensor) -> torch.Tensor:
        return launched(x, x)

    trace = explorer.trace(lambda x: apart(x.sin()).cos(), program.x, target="h100")
    assert set(by_name(trace)) == {"add"} and trace.kernels[-1].text("sass")
    assert trace.kernels[-1].binary()[:4] == b"\x7fELF" and trace.check()[0]["equal"]


SCRIPT = """
import torch, triton, triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)

x, y = torch.rand(1000, device=DEVICE), torch.rand(1000, device=DEVICE)
out = torch.empty_like(x)
add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, BLOCK=256)
print(torch.equal(out, x + y))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A program that only launches a kernel."""
    path = tmp_path_factory.mktemp("launches") / "vector_add.py"
    path.write_text(SCRIPT, encoding="utf-8")
    yield path


def test_the_command_line_records_a_plain_triton_program(script: Path) -> None:
    """`explorer trace --target h100` runs it unchanged and writes its kernel down to SASS."""
    out = script.with_suffix(".json.gz")
    command = [sys.executable, "-m", "explorer", "trace", "--target", "h100", "-o", str(out), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
    (kernel,) = explorer.load(out).kernels
    assert kernel.name == "add" and kernel.stages == LADDER
    assert (
        kernel.launches[0]["place"]["line"] == SCRIPT.splitlines().index(next(s for s in SCRIPT.splitlines() if "add[" in s)) + 1
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_the_command_line_without_a_target_says_what_to_write(script: Path) -> None:
    """Without a GPU the program fails as it does alone, and explorer's word after it names a target."""
    command = [sys.executable, "-m", "explorer", "trace", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "active drivers" in done.stderr and "--target h100 SCRIPT" in done.stderr
