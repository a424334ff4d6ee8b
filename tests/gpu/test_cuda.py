"""On an attached NVIDIA GPU: the same trace gives Triton kernels and plain torch.compile's results."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import explorer
from explorer.analysis.questions.costs import LAUNCHES
from tests.facts import untold

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(64, 128)
        self.norm = nn.LayerNorm(128)
        self.down = nn.Linear(128, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.gelu(self.up(x))
        return torch.softmax(self.down(self.norm(x)), -1)


def test_inference_gives_triton_kernels_and_plain_compiles_result() -> None:
    """sin²+cos² on the GPU gives one Triton kernel and exactly the result of plain torch.compile."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) ** 2 + torch.cos(x) ** 2

    x = torch.randn(1000, device="cuda")
    trace = explorer.trace(program, x)
    assert trace.meta["target"] == "cuda"
    assert [k.language for k in trace.kernels] == ["triton"]
    assert "@triton.jit" in trace.kernels[0].source
    assert torch.equal(trace.live.result, torch.compile(program)(x))


def test_the_cuda_target_moves_a_cpu_model_and_leaves_the_original() -> None:
    """target="cuda" traces a copy of a CPU module on the GPU; the module and its inputs stay where they are."""
    model, x = Block(), torch.randn(8, 64)
    trace = explorer.trace(model, x, target="cuda")
    assert trace.live.result.device.type == "cuda"
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    assert torch.allclose(trace.live.result.cpu(), model(x), atol=1e-4)


def test_training_gives_every_stage_each_time_and_plain_compiles_gradients() -> None:
    """The backward, which autograd's own thread compiles, is recorded in a first and in a second trace alike.

    Another compile may time another config as the fastest, which adds up in another order: results are equal but for rounding.
    """
    torch.manual_seed(0)
    model, x = Block().cuda(), torch.randn(32, 64, device="cuda", requires_grad=True)
    leaves = [x, *model.parameters()]
    for _ in range(2):
        trace = explorer.trace(model, x, train=True)
        assert trace.failures == ()
        stages = {(a.stage, a.graph) for a in trace.artifacts}
        for stage in ("post_grad", "ir_pre_fusion", "ir_post_fusion", "output_code", "kernel"):
            assert {(stage, "forward"), (stage, "backward")} <= stages
    plain = torch.compile(model)(x)
    expected = torch.autograd.grad(plain.sum(), leaves)
    torch.testing.assert_close(trace.live.result, plain)
    torch.testing.assert_close(list(trace.live.gradients.values()), list(expected))
    assert all(row["equal"] for row in trace.check())


def test_a_recorded_training_loop_has_its_backward() -> None:
    """record() catches forward and backward of an unchanged loop on the GPU."""
    model = Block().cuda()
    compiled, x = torch.compile(model), torch.randn(16, 64, device="cuda")
    with explorer.record() as recorded:
        for _ in range(2):
            compiled(x).sum().backward()
    assert recorded.trace.find("output_code", graph="backward")
    assert {k.language for k in recorded.trace.kernels} == {"triton"}


# What the GPU launched, and what was timed ---------------------------------------------------------------------------


def test_the_ladder_of_a_kernel_is_that_of_its_launch() -> None:
    """TTGIR, PTX, binary and registers are those in triton's cache that the GPU was given, not compiled again."""
    trace = explorer.trace(Block().cuda(), torch.randn(256, 64, device="cuda"))
    for kernel in trace.kernels:
        found = next(a.data for a in trace.find("ttgir") if a.kernel == kernel.name)
        assert found["launched"] and found["chosen"]
        assert kernel.binary()[:4] == b"\x7fELF" and ".entry" in kernel.text("ptx") and kernel.resources["registers"] > 0
    assert {link.target for link in trace.links if ":ptx:" in link.source} <= {k.artifact.id for k in trace.kernels}
    assert any(":ptx:" in link.source for link in trace.links) and any(":ttgir:" in link.source for link in trace.links)
    assert "MOV" in trace.kernels[0].text("sass")


def test_each_candidate_has_its_time_and_the_fastest_is_taken() -> None:
    """With max_autotune_pointwise every config is timed; the one that ran is the one with the least time."""

    x = torch.randn(4096, 8192, device="cuda")
    trace = explorer.trace(lambda x: torch.sin(x) * 2, x, options={"max_autotune_pointwise": True})
    rows = next(k.candidates.table for k in trace.kernels if len(k.candidates.table) > 1)
    times = [row["ms"] for row in rows if row["ms"] is not None]
    taken = [row for row in rows if row["taken"]]
    assert len(times) > 1 and len(taken) == 1 and taken[0]["ms"] == min(times)
    assert any("measured" in a.data["chosen"] for a in trace.find("ttgir"))


def test_the_table_of_kernels_has_the_time_that_was_measured() -> None:
    """A kernel whose configs were timed has the time of the one that ran, and the bytes of what it reads and writes."""
    x = torch.randn(4096, 8192, device="cuda")
    new = random.random()  # of a kernel that was timed before, Inductor's workers remember no more than which config won
    trace = explorer.trace(lambda x: torch.sin(x) * new, x, options={"max_autotune_pointwise": True})
    (row,) = trace.kernels.table
    ms = next(c["ms"] for c in trace.kernels[0].candidates.table if c["taken"])
    assert row["timed"] == "measured" and row["seconds"] == pytest.approx(ms / 1000) and row["launches"] == 1
    assert row["read"] == row["written"] == x.numel() * 4
    assert explorer.trace(torch.sin, x, backend="aot_eager").kernels.table == ()
    (row,) = explorer.trace(torch.sin, torch.randn(7, device="cuda")).kernels.table
    assert row["timed"] == "estimated" and row["seconds"] > 0


def test_the_smaller_block_that_inductor_adds_to_a_reduction_is_a_candidate() -> None:
    """Where a reduction takes many registers Inductor tries half its block too: attached it is timed, absent it is listed."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parts = [torch.sin(x * n) * torch.cos(y + n) / (1 + torch.exp(x - n)) for n in range(1, 6)]
        return torch.stack([p.sum(-1) + (p * p).sum(-1) + p.amax(-1) for p in parts]).sum(0)

    x, y = torch.randn(16384, 4096), torch.randn(16384, 4096)
    real = explorer.trace(program, x.cuda(), y.cuda())
    ours = explorer.trace(program, x, y, target="h200")
    scaled = [list(k.candidates.table) for trace in (real, ours) for k in trace.kernels if "red" in k.name]
    assert scaled and all(any(row["taken"] for row in rows) for rows in scaled)


def test_coordinate_descent_shows_every_config_it_timed() -> None:
    """The configs that coordinate descent came to are candidates with times, and the one that ran is the fastest."""
    options = {"coordinate_descent_tuning": True}
    trace = explorer.trace(lambda x: torch.softmax(x, -1), torch.randn(2048, 3000, device="cuda"), options=options)
    rows = trace.kernels[0].candidates.table
    assert len(rows) > 2 and sum(row["taken"] for row in rows) == 1
    times = {row["ms"] for row in rows if row["ms"] is not None}
    assert next(row["ms"] for row in rows if row["taken"]) <= min(times) * 1.2


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")  # torch's own, where it times templates
def test_the_choices_for_a_matrix_product_have_times() -> None:
    """mode="max-autotune" times the library and each template; each choice has its time, one is the fastest."""
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    trace = explorer.trace(lambda a, b: torch.relu(a @ b), a, b, mode="max-autotune-no-cudagraphs")
    rows = trace.inductor.choices.table
    assert {"ExternKernelCaller", "TritonTemplateCaller"} <= {row["kind"] for row in rows}
    fastest = [row for row in rows if row["fastest"]]
    assert len(fastest) == 1 and fastest[0]["ms"] == min(row["ms"] for row in rows if row["ms"] is not None)
    assert trace.inductor.assumptions == () and trace.failures == ()


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_each_timed_template_goes_down_the_ladder() -> None:
    """A measured choice has its time, its config and every text on request; the one in the output code is marked taken."""
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    trace = explorer.trace(lambda a, b: torch.relu(a @ b), a, b, mode="max-autotune-no-cudagraphs")
    found = [trace.inductor.choices[n] for n in range(len(trace.inductor.choices.table))]
    (fastest,), (taken,) = ([c for c in found if c.fastest], [c for c in found if c.taken])
    assert not untold(fastest.why, "measured", "fastest", str(len(found)))
    templates = [c for c in found if c.language == "triton"]
    lost = next(c for c in templates if not c.taken)
    assert lost.ms > 0 and lost.config["num_warps"] in (1, 2, 4, 8) and len(lost.grid) == 3
    assert "tt.dot" in lost.text("ttir") and ".entry" in lost.text("ptx") and lost.resources["registers"] > 0
    assert "EXIT" in lost.text("sass") and len(lost.passes()) > 30
    written = [k for k in trace.kernels if k.name.startswith("triton_tem")]
    assert bool(written) == (taken.language == "triton")
    assert all(f"BLOCK_M : tl.constexpr = {taken.config['BLOCK_M']}\n" in k.source for k in written)
    assert all(f"num_warps={taken.config['num_warps']}," in k.source for k in written)


def test_a_product_that_inductor_may_pad_has_both_times() -> None:
    """Sizes that are not aligned are timed as they are and padded."""
    a, b = (torch.randn(2047, 2047, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    trace = explorer.trace(lambda a, b: torch.relu(a) @ b, a, b)
    assert {row["choice"] for row in trace.inductor.choices.table} == {"as it is", "padded"}
    assert all(row["ms"] > 0 for row in trace.inductor.choices.table)


def test_a_recording_of_a_program_on_the_gpu_has_the_ladder() -> None:
    """record() without a target goes down to PTX for what ran on the GPU."""
    x = torch.randn(1000, device="cuda")
    with explorer.record() as recorded:
        torch.compile(lambda x: torch.sin(x) + 1)(x)
    assert recorded.trace.find("ptx")


triton = pytest.importorskip("triton")
tl = triton.language


@triton.autotune(configs=[triton.Config({"BLOCK": n}, num_warps=4) for n in (128, 1024)], key=["n"])
@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    """Twice x."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)


def test_an_autotuned_kernel_shows_tritons_own_times() -> None:
    """After a launch trace_kernel takes the config that triton chose, and each candidate has triton's time."""
    x, out = torch.randn(1 << 20, device="cuda"), torch.empty(1 << 20, device="cuda")
    before = explorer.trace(double, x, out, x.numel(), sass=False)
    assert not untold(before.find("ptx")[0].data["chosen"], "first", "timed")
    double[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    kernel = explorer.trace(double, x, out, x.numel(), sass=False).kernels[0]
    assert all(row["ms"] > 0 for row in kernel.candidates.table)
    assert min(kernel.candidates.table, key=lambda row: row["ms"])["taken"]
    assert "measured" in kernel._trace.find("ptx")[0].data["chosen"]


def test_a_hand_written_kernel_is_edited_and_tuned() -> None:
    """An edit is launched, held to the kernel and timed, and run() runs it; configs are timed, and held to the kernel's own."""
    x, out = torch.randn(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    launch = {"grid": lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),), "BLOCK": 128, "sass": False}
    trace = explorer.trace(double.fn, x, out, x.numel(), **launch)
    kernel = trace.kernels[0]
    made = kernel.edit(kernel.source.replace("* 2", "* 2.0"))
    assert made.in_place and made.timed == "measured" and made.seconds and not made.interpreted, repr(made)
    assert torch.equal(trace.live.run()["out"], x * 2) and not out.any() and kernel.edits.reset()
    assert kernel.edit(kernel.source.replace("* 2", "* 3")).status == "wrong result"
    tuning = kernel.tune([{"BLOCK": 1024}])
    assert tuning.measured and {row["config"]["BLOCK"]: row["taken"] for row in tuning._rows} == {128: True, 1024: False}
    assert all(row["seconds"] > 0 and (row["ratio"] == 1.0) == row["taken"] for row in tuning._rows)


def test_a_hand_written_kernel_shows_the_forms_of_its_launch() -> None:
    """The texts, binary and registers of trace_kernel are those of the object that triton launched; nothing runs for it."""
    x, out = torch.randn(1000, device="cuda"), torch.zeros(1000, device="cuda")
    config = {"BLOCK": 128, "num_warps": 4}
    before = explorer.trace(double.fn, x, out, x.numel(), sass=False, **config).kernels[0]
    assert before._trace.find("ptx")[0].data["launched"] and not out.any() and not before._trace.failures
    made = double.fn[(8,)](x, out, x.numel(), **config)
    torch.cuda.synchronize()
    for kernel in (before, explorer.trace(double.fn, x, out, x.numel(), **config).kernels[0]):
        assert kernel.binary() == made.asm["cubin"] and kernel.resources["registers"] == made.n_regs
        assert all(kernel.text(stage) == made.asm[stage] for stage in ("ttir", "ttgir", "llir", "ptx"))
        assert "EXIT" in kernel.text("sass") and any(":ptx:" in link.source for link in kernel._trace.links)
    absent = explorer.trace(double.fn, x, out, x.numel(), target="h100", sass=False, **config)
    assert not absent.find("ptx")[0].data["launched"]


@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
def test_an_absent_gpu_of_the_attached_kind_gives_the_same_kernels() -> None:
    """With the GPU attached too, the trace for it by name has the kernels of the real one, with the registers of its configs.

    Where Inductor times several configs, the real trace has the fastest of this run.
    """
    name = next((row["target"] for row in explorer.targets() if row["title"] in torch.cuda.get_device_name()), None)
    if name is None:
        pytest.skip("the attached GPU is not among the named ones")
    model, x = Block(), torch.randn(256, 64)
    real, ours = explorer.trace(model, x, target="cuda", train=True), explorer.trace(model, x, target=name, train=True)
    assert [k.name for k in real.kernels] == [k.name for k in ours.kernels]
    for one, other in zip(real.kernels, ours.kernels, strict=True):
        timed = next(a.data.config for a in real.find("ttgir") if a.kernel == one.name)
        config = {name: value for name, value in timed.items() if name not in ("ms", "taken")}
        assert other.candidates[config].resources["registers"] == one.resources["registers"]


def test_what_if_on_an_attached_gpu_is_estimated_and_measured() -> None:
    """The estimate is of the attached GPU: an input read twice takes a launch and its bytes longer; both traces are timed."""
    trace = explorer.trace(lambda x: (x.sin(), x.cos()), torch.randn(1 << 20, device="cuda"))
    what = trace.what_if(keep_apart=("sin", "cos"))
    assert what.equal is True and what.figure("kernels")["change"] == 1
    own, row = explorer.capture.absent.target.attached_gpu(), what.figure("estimated_seconds")
    assert row["before"] > LAUNCHES["generated"] and row["change"] > 0.9 * LAUNCHES["generated"] and own.title in row["note"]
    assert what.figure("measured_seconds")["after"] > 0
    (estimated,) = explorer.compare(trace, what.after, names=("one", "two")).figures.where(figure="estimated seconds")
    assert (estimated["one"], estimated["two"]) == (row["before"], row["after"])


# Caches, and wrappers in C++ ---------------------------------------------------------------------------------------------


def test_a_recording_says_which_binaries_and_configs_were_cached(tmp_path, monkeypatch) -> None:
    """The first compile of a kernel misses Triton's cache, the second finds it; the ladder is that of the launch both times.

    A kernel with several configs may miss once for each; what won is found alone.
    """
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    # named, not left out: Inductor's workers keep the one that they were started with, and write there
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    x, lookups = torch.randn(1 << 16, device="cuda"), []
    for _ in range(2):
        torch._dynamo.reset()
        with explorer.record() as recorded:
            torch.compile(lambda x: torch.sin(x) * 3 + 1)(x)
        lookups.append({row["key"]: row["state"] for row in recorded.trace.compiler.caches.where(cache="Triton")})
        assert recorded.trace.find("ptx") and recorded.trace.failures == ()
    first, second = lookups
    assert {*first.values()} == {"miss"} and [*second.values()] == ["hit"] and second.keys() <= first.keys()


def test_cpp_wrapper_on_the_gpu_has_its_kernels() -> None:
    """options={"cpp_wrapper": True}: Triton kernels out of the C++, down to PTX, and the result of eager."""
    model, x = Block().cuda().eval(), torch.randn(16, 64, device="cuda")
    trace = explorer.trace(model, x, options={"cpp_wrapper": True})
    assert trace.failures == () and {k.language for k in trace.kernels} == {"triton"} and trace.find("ptx")
    assert {a.language for a in trace.find("output_code")} == {"cpp"}
    assert all(kernel.launches for kernel in trace.kernels)


#: A package is made and run in processes of their own, as a program that ships it does: what crashes there ends no other test.
PLAIN_PACKAGE = """
import sys, torch

sys.path.insert(0, sys.argv[3])
from tests.gpu.test_cuda import Block

torch.manual_seed(0)
model, x = Block().cuda().eval(), torch.randn(16, 64, device="cuda")
with torch.no_grad():
    torch._inductor.aoti_compile_and_package(torch.export.export(model, (x,)), package_path=sys.argv[1])
    torch.save((x, model(x)), sys.argv[2])
"""
RUN_PACKAGE = """
import faulthandler, sys, torch

faulthandler.enable()
x, expected = torch.load(sys.argv[2])
found = torch._inductor.aoti_load_package(sys.argv[1])(x)
print("equal" if torch.allclose(found, expected, atol=1e-3) else f"{found} is not {expected}")
"""


def in_child(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program in a child process: how it ended, and what it wrote."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")
def test_aot_inductor_on_the_gpu_has_its_kernels_and_its_package_runs(tmp_path) -> None:
    """aoti_compile_and_package in a recording: all kernels down to PTX, and a package that computes what eager does.

    Where a package that plain torch made crashes too, the package is not judged, and the test is skipped after the rest.
    """
    model, x = Block().cuda().eval(), torch.randn(16, 64, device="cuda")
    with torch.no_grad():
        exported = torch.export.export(model, (x,))
        with explorer.record() as recorded:
            package = torch._inductor.aoti_compile_and_package(exported, package_path=f"{tmp_path}/m.pt2")
        torch.save((x, model(x)), tmp_path / "values.pt")
    trace = recorded.trace
    assert trace.failures == () and {k.language for k in trace.kernels} == {"triton"} and trace.find("ptx")
    assert {a.language for a in trace.find("output_code")} == {"cpp"}
    done = in_child(RUN_PACKAGE, package, tmp_path / "values.pt")
    if done.returncode < 0:
        plain, values = tmp_path / "plain.pt2", tmp_path / "plain.pt"
        made = in_child(PLAIN_PACKAGE, plain, values, Path(__file__).parents[2])
        assert made.returncode == 0, made.stderr
        if (ended := in_child(RUN_PACKAGE, plain, values)).returncode < 0:
            pytest.skip(f"a package of plain torch ends its process too, by signal {-ended.returncode}")
    assert (done.returncode, done.stdout.strip()) == (0, "equal"), done.stderr
