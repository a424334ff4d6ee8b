"""Hand-written Triton kernels, traced for GPUs that are not here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

import explorer
from explorer.capture.ladder.absent_driver import AbsentDriver
from tests.facts import says, untold

triton = pytest.importorskip("triton")
tl: Any = triton.language


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    """Vector add."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + i, i < n) + tl.load(y + i, i < n)
    tl.store(out + i, total, i < n)


@triton.autotune(
    configs=[
        triton.Config({"BM": 128, "BN": 128, "BK": 64}, num_warps=8, num_stages=3),
        triton.Config({"BM": 64, "BN": 64, "BK": 32}, num_warps=4, num_stages=4),
    ],
    key=["m"],
)
@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A @ B for sizes that the blocks divide."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + (at + inner)[None, :])
        total += tl.dot(left, tl.load(b + (at + inner)[:, None] * n + columns[None, :]))
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def row_sum(x, out, n, BLOCK: tl.constexpr):
    """The sum of one row."""
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + i, i < n, other=0.0), 0))


@triton.jit
def centered(x, out, BLOCK: tl.constexpr):
    """Each row less its mean, times its softmax: all of a row is in registers at once."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + i, (value - tl.sum(value, 0) / BLOCK) * power / tl.sum(power, 0))


@triton.jit
def undefined(x, BLOCK: tl.constexpr):
    """Uses a name that is not there."""
    i = tl.arange(0, BLOCK)
    tl.store(x + i, nowhere)  # noqa: F821


#: The line of this file that has the name.
NOWHERE = undefined.fn.__code__.co_firstlineno + 4


X = torch.zeros(1000)
HALF = torch.zeros(256, 256, dtype=torch.float16)


def trace_add(**changes: Any) -> explorer.Trace:
    given = {"grid": lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), "target": "h100", "BLOCK": 256, **changes}
    return explorer.trace(add, X, X, X, 1000, **given)


@pytest.mark.compile
def test_a_kernel_goes_from_source_to_sass() -> None:
    """The trace has the source and every stage, linked: the line of the store leads to the store instruction."""
    trace = trace_add()
    assert [a.stage for a in trace.artifacts] == ["source", "kernel", "ttir", "ttgir", "llir", "ptx", "sass"]
    kernel = trace.find("kernel")[0]
    assert kernel.lines[0] == "@triton.jit" and not trace.failures and trace.meta["target"] == "h100"
    store = next(n for n, line in enumerate(kernel.lines, 1) if "tl.store" in line)
    reached = {row["artifact"].split(":")[1]: row["lines"] for row in trace.follow(kernel.id, store)}
    assert any("STG" in trace.find("sass")[0].lines[n - 1] for n in reached["sass"])
    assert any("tt.store" in trace.find("ttir")[0].lines[n - 1] for n in reached["ttir"])
    assert ["tl.store" in trace.find("source")[0].lines[n - 1] for n in reached["source"]] == [True]


@pytest.mark.compile
def test_the_launch_and_the_resources_of_the_call_are_told() -> None:
    """The grid, a number for each axis, the arguments, registers and occupancy are facts of the stages."""
    data = trace_add(num_warps=8).find("ptx")[0].data
    assert data["launches"][0]["grid"] == (4, 1, 1) and data["launches"][0]["arguments"]["x"] == "float32[1000]"
    assert data["metadata"]["num_warps"] == 8 and data["metadata"]["registers"] > 0
    assert data["metadata"]["occupancy"]["blocks"] == 8


@pytest.mark.compile
@pytest.mark.parametrize("gpu", ["h100", "max1550"])
def test_a_launch_has_bytes_and_an_estimated_time(gpu: str) -> None:
    """The table of kernels counts what the launch reads and writes, and estimates its time as of a kernel in a function."""
    x, y, out = (torch.zeros(2**20) for _ in range(3))
    (row,) = explorer.trace(add, x, y, out, 2**20, target=gpu, BLOCK=256, sass=False).kernels.table
    assert (row["read"], row["written"], row["launches"]) == (2**23, 2**22, 1) and "TTIR" in row["bytes_known"]
    assert row["timed"] == "estimated" and row["limit"] in ("memory", "L2") and "own" in row["outside"]
    assert row["seconds"] > (2**23 + 2**22) / (2 * explorer.Target.parse(gpu).bandwidth)


@pytest.mark.compile
@pytest.mark.parametrize(
    ("gpu", "stage", "instruction"),
    [
        ("a100", "ptx", "mma.sync"),
        ("h100", "ptx", "wgmma.mma_async"),
        ("b200", "ptx", "tcgen05.mma"),
        ("mi300x", "amdgcn", "v_mfma_"),
    ],
)
def test_a_dot_becomes_the_tensor_core_instruction_of_its_gpu(gpu: str, stage: str, instruction: str) -> None:
    """tl.dot is mma.sync on A100, wgmma on H100, tcgen05 on B200 and MFMA on MI300X, and counted as such."""
    trace = explorer.trace(matmul, HALF, HALF, HALF, 256, 256, 256, target=gpu)
    assert instruction in trace.text(stage)
    assert (trace.find("sass") or trace.find("amdgcn"))[0].data["mix"]["tensor core"] > 0


@pytest.mark.compile
def test_every_config_of_an_autotuned_kernel_can_be_compiled() -> None:
    """All configs are listed; the first is taken, the second on request, by number or by value."""
    first = explorer.trace(matmul, HALF, HALF, HALF, 256, 256, 256, target="h100", sass=False).find("ttir")[0].data
    assert len(first["candidates"]) == 2 and first["config"] == first["candidates"][0]
    for config in (1, {"BM": 64, "BN": 64, "BK": 32, "num_warps": 4, "num_stages": 4}):
        trace = explorer.trace(matmul, HALF, HALF, HALF, 256, 256, 256, target="h100", sass=False, config=config)
        assert trace.find("ttgir")[0].data["config"] == first["candidates"][1]


@pytest.mark.compile
def test_a_candidate_and_the_binary_come_from_the_live_process() -> None:
    """A candidate compiles another config of the same call; kernel.binary() is the cubin."""
    kernel = explorer.trace(matmul, HALF, HALF, HALF, 256, 256, 256, target="h100", sass=False).kernels[0]
    other = kernel.candidates[1]
    assert other.config["BM"] == 64 and other.binary() != kernel.binary() and kernel.binary()[:4] == b"\x7fELF"
    assert [row["taken"] for row in kernel.candidates.table] == [True, False]
    assert not untold(kernel._trace.find("ptx")[0].data["chosen"], "first", "2 candidates", "none", "timed")


@pytest.mark.compile
def test_what_triton_has_measured_on_the_attached_gpu_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a launch with the same key the config is triton's choice and each candidate has its median time."""
    from dataclasses import replace

    from explorer.reference.gpus.figures import Target
    from explorer.tracing.recording import handwritten

    first, second = matmul.configs
    key = (256, "torch.float16", "torch.float16", "torch.float16")
    monkeypatch.setattr(matmul, "cache", {key: second})
    monkeypatch.setattr(matmul, "configs_timings", {first: [float("inf")] * 3, second: [0.25, 0.2, 0.3]}, raising=False)
    monkeypatch.setattr(handwritten, "attached_gpu", lambda: replace(Target.parse("h100"), name="cuda"))
    kernel = explorer.trace(matmul, HALF, HALF, HALF, 256, 256, 256, sass=False).kernels[0]
    assert [(row["BM"], row["ms"], row["taken"]) for row in kernel.candidates.table] == [(128, None, False), (64, 0.25, True)]
    assert not untold(kernel._trace.find("ptx")[0].data["chosen"], "measured", "fastest", "2")
    other = explorer.trace(matmul, HALF, HALF, HALF, 512, 256, 256, sass=False)
    assert not untold(other.find("ptx")[0].data["chosen"], "first", "2 candidates", "none", "timed")
    named = explorer.trace(matmul, HALF, HALF, HALF, 256, 256, 256, target="h100", sass=False).kernels[0]
    assert "ms" not in named.candidates.table[0] and named.candidates.table[0]["taken"]


@pytest.mark.compile
def test_heuristics_are_applied() -> None:
    """A constexpr that triton.heuristics computes is computed from the call's arguments."""
    trace = explorer.trace(row_sum, X, X, 1000, target="a100", sass=False)
    assert "1024" in trace.text("ttir") and trace.find("ttir")[0].data["launches"][0]["arguments"]["BLOCK"] == 1024


@pytest.mark.compile
def test_the_kernel_itself_is_left_as_it_was() -> None:
    """Its caches stay empty, and no driver is left behind."""
    before = triton.runtime.driver._active
    trace_add()
    assert not add.device_caches and triton.runtime.driver._active is before


@pytest.mark.compile
def test_sass_and_passes_are_made_on_demand() -> None:
    """A trace without SASS makes it when asked; every MLIR pass is a row, and each begins where the last ended."""
    kernel = trace_add(sass=False).kernels[0]
    assert "STG" in kernel.text("sass")
    passes = kernel.passes()
    assert len(passes) > 30 and {row["stage"] for row in passes} >= {"ttir", "ttgir", "llir"}
    assert any(row["changed"] for row in passes) and any(row["changed"] is False for row in passes)
    coalesce = next(row for row in passes if "Coalesce" in row["name"])
    assert "tt.load" in coalesce["before"] and coalesce["stage"] == "ttgir"
    pairs = [(one, two) for one, two in pairwise(passes) if one["stage"] == two["stage"]]
    assert all(one["after"] == two["before"] for one, two in pairs)


@pytest.mark.compile
def test_a_loaded_trace_is_equal_and_says_what_it_cannot_do() -> None:
    """Saved and loaded, the trace is the same value; its passes need the live process."""
    import pickle

    trace = trace_add(sass=False)
    loaded = pickle.loads(pickle.dumps(trace))
    assert loaded == trace
    with pytest.raises(explorer.errors.LiveError, match="passes"):
        loaded.kernels[0].passes()


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (
            lambda: explorer.trace(undefined, X, target="h100", BLOCK=16),
            ("undefined", f"line {NOWHERE}", "nowhere is not defined"),
        ),
        (lambda: explorer.trace(add, X, X, X, 1000, target="h100"), ("add", "BLOCK")),
        (lambda: explorer.trace(add, X, X, X, 1000, target="h100", BLOCK=16, train=True), ("train", "triton")),
        (lambda: explorer.trace(add, X, X, X, 1000, target="h100", BLOKC=16), ("given BLOCK", "no parameter 'BLOKC'", "BLOCK=…")),
        (lambda: explorer.trace(add, X, X, X, 1000, target="h1000", BLOCK=16), ("'h1000'", "'h100'")),
        (lambda: explorer.trace(add, X, X, X, 1000, target="h100", BLOCK=16, grid=(0,)), ("grid", "(0,)")),
        (lambda: explorer.trace(add, X, X, X, 1000, target="h100", BLOCK=16, config=1), ("config", "@triton.autotune")),
        (
            lambda: explorer.trace(add, X, X, X, 1000, target="h100", BLOCK=16, grid=lambda meta: (meta["SIZE"],)),
            ("function", "grid", "KeyError: 'SIZE'"),
        ),
    ],
    ids=["undefined", "missing", "setting", "misspelt", "target", "grid", "config", "grid function"],
)
def test_a_wrong_call_says_what_would_be_right(call: Any, facts: tuple[str, ...]) -> None:
    """A name that is not defined, a missing argument, a setting of torch.compile's, an unknown GPU, an empty grid: InputError."""
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        call()


@pytest.mark.compile
def test_without_a_gpu_auto_asks_for_a_name() -> None:
    """On a machine without a GPU the default target says to name one."""
    if torch.cuda.is_available():
        pytest.skip("a GPU is attached")
    with pytest.raises(explorer.errors.InputError, match=says("GPU", "target='h100'", "mi300x")):
        explorer.trace(add, X, X, X, 1000, BLOCK=256)


# An attached GPU -------------------------------------------------------------------------------------------------------


class AttachedDriver(AbsentDriver):
    """A driver that loads kernels, and says of each that it takes 40 registers and spills 2; nothing runs."""

    launcher_cls = staticmethod(lambda source, metadata: lambda *args: None)

    def __init__(self, target: explorer.Target, shared: int) -> None:
        super().__init__(target)
        self.device = f"attached:{shared}"
        self.utils = SimpleNamespace(
            load_binary=lambda *args: (object(), object(), 40, 2, 1024),
            get_device_properties=lambda device: {"max_shared_mem": shared},
        )


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Callable[[int], None]]:
    """An H100 that seems attached, with so many bytes of shared memory a block."""
    h100 = explorer.Target.parse("h100")
    monkeypatch.setattr("explorer.tracing.recording.handwritten.attached_gpu", lambda: replace(h100, name="cuda"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    before = triton.runtime.driver._active
    yield lambda shared: triton.runtime.driver.set_active(AttachedDriver(h100, shared))
    triton.runtime.driver._active = before


@pytest.mark.compile
def test_the_forms_for_an_attached_gpu_are_those_of_its_launch(attached: Callable[[int], None]) -> None:
    """Triton compiles as for a launch, the driver counts the registers, and the kernel's own cache is left as it was."""
    attached(232448)
    caches = dict(add.device_caches)
    kernel = explorer.trace(add, X, X, X, 1000, target="cuda", BLOCK=256).kernels[0]
    data = kernel._trace.find("ptx")[0].data
    assert data["launched"] and not untold(data["chosen"], "only") and not kernel._trace.failures
    assert kernel.resources["registers"] == 40 and kernel.resources["stack"] == 8 and kernel.resources["num_warps"] == 4
    assert dict(add.device_caches) == caches
    assert kernel.stages == ("kernel", "ttir", "ttgir", "llir", "ptx", "sass") and "STG" in kernel.text("sass")
    store = next(n for n, line in enumerate(kernel.source.splitlines(), 1) if "tl.store" in line)
    reached = {row["artifact"].split(":")[1] for row in kernel._trace.follow(kernel.artifact.id, store)}
    assert {"ttir", "ttgir", "ptx", "sass"} <= reached and len(kernel.passes()) > 30


@pytest.mark.compile
def test_what_was_launched_before_is_what_is_shown(attached: Callable[[int], None]) -> None:
    """A kernel that the program has launched is not compiled again: its own texts and binary are shown."""
    attached(232448)
    try:
        made = add[(4,)](X, X, X, 1000, BLOCK=256)
        made.asm["ptx"] += "// of the launch"
        kernel = explorer.trace(add, X, X, X, 1000, target="cuda", BLOCK=256, sass=False).kernels[0]
        assert kernel.text("ptx").endswith("// of the launch") and kernel.binary() == made.kernel
        other = explorer.trace(add, X, X, X, 1000, target="cuda", BLOCK=512, sass=False).kernels[0]
        assert "of the launch" not in other.text("ptx") and other._trace.find("ptx")[0].data["launched"]
    finally:
        add.device_caches.clear()


@pytest.mark.compile
def test_what_an_attached_gpu_cannot_launch_is_compiled_and_says_so(attached: Callable[[int], None]) -> None:
    """A kernel that needs more shared memory than the GPU has is shown as compiled, with a Failure that gives the reason."""
    attached(1024)
    trace = explorer.trace(matmul, HALF, HALF, HALF, 256, 256, 256, target="cuda", sass=False)
    (failure,) = trace.failures
    assert failure.stage == "launch" and "out of resource: shared memory" in failure.message and not failure.fatal
    assert not trace.find("ptx")[0].data["launched"] and "wgmma" in trace.text("ptx")
    assert not untold(trace.find("ptx")[0].data["chosen"], "first", "2 candidates")


@triton.jit
def square(value):
    """A function that a kernel calls."""
    return value * value


@triton.jit
def squares(tensors, sizes, BLOCK: tl.constexpr):
    """Two tensors in a tuple, and a size in another."""
    i = tl.arange(0, BLOCK)
    tl.store(tensors[1] + i, square(tl.load(tensors[0] + i, i < sizes[0])), i < sizes[0])


@triton.jit
def doubled(source, out, BLOCK: tl.constexpr):
    """A tile through tensor descriptors that the host makes."""
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    out.store(at, source.load(at) * 2)


@triton.jit
def scaled(x, out, n, bias=None, by=2, BLOCK: tl.constexpr = 128, CLAMP: tl.constexpr = "relu"):
    """Arguments with defaults, one of them None."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n) * by
    if bias is not None:
        value += tl.load(bias + i, i < n)
    if CLAMP == "relu":
        value = tl.maximum(value, 0.0)
    tl.store(out + i, value, i < n)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 4096}), triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512}, num_warps=8)],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, a, **_: [c for c in configs if c.kwargs["BLOCK"] <= a["n"]]},
)
@triton.heuristics({"EVEN": lambda a: a["n"] % a["BLOCK"] == 0})
@triton.jit
def one_more(x, out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    """Autotuned, pruned, and with a heuristic that needs the config."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, tl.load(x + i) + 1)
    else:
        tl.store(out + i, tl.load(x + i, i < n) + 1, i < n)


class Pair(NamedTuple):
    """Two tensors by name."""

    source: torch.Tensor
    out: torch.Tensor


def described(tensor: torch.Tensor) -> Any:
    descriptors = pytest.importorskip("triton.tools.tensor_descriptor")
    return descriptors.TensorDescriptor.from_tensor(tensor, [32, 32])


def by_block(meta: Any) -> tuple[int]:
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


R, SQUARE = torch.randn(1000), torch.randn(64, 64)
OUT = torch.zeros(1000)

#: Kernel, arguments, options, what it writes, and what is said of some argument.
FORMS: dict[str, tuple[Any, Callable[[], tuple[Any, ...]], dict[str, Any], torch.Tensor, tuple[str, Any]]] = {
    "tuple": (
        squares,
        lambda: ((R, OUT), (1000,)),
        {"BLOCK": 1024, "grid": (1,)},
        R * R,
        ("tensors", "(float32[1000], float32[1000])"),
    ),
    "named tuple": (squares, lambda: (Pair(R, OUT), (1000,)), {"BLOCK": 1024, "grid": 1}, R * R, ("sizes", "(1000)")),
    "descriptor": (
        doubled,
        lambda: (described(SQUARE), described(torch.zeros(64, 64))),
        {"BLOCK": 32, "grid": (2, 2)},
        2 * SQUARE,
        ("out", "descriptor of float32[64, 64] in blocks of [32, 32]"),
    ),
    "defaults": (scaled, lambda: (R, OUT, 1000), {"grid": by_block}, (2 * R).relu(), ("bias", None)),
    "none": (scaled, lambda: (R, OUT, 1000, None, 3), {"CLAMP": "", "grid": by_block}, 3 * R, ("by", 3)),
    "not none": (scaled, lambda: (R, OUT, 1000, R), {"CLAMP": "", "grid": by_block}, 3 * R, ("bias", "float32[1000]")),
    "by name": (scaled, lambda: (), {"x": R, "out": OUT, "n": 1000, "grid": by_block}, (2 * R).relu(), ("BLOCK", 128)),
    "decorated": (one_more, lambda: (R, OUT, 1000), {"grid": by_block}, R + 1, ("EVEN", False)),
}


@pytest.mark.compile
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_argument_is_compiled_told_and_run(form: str) -> None:
    """Tuples, descriptors, defaults, None, keywords, and what decorators add: lowered, in the launch's facts, and checked."""
    kernel, args, options, expected, (name, told) = FORMS[form]
    trace = explorer.trace(kernel, *args(), target="h100", sass=False, **options)
    assert not trace.failures and trace.text("ptx")
    assert trace.kernels[0].launches[0]["arguments"][name] == told
    (row,) = trace.check(expected=expected)
    assert row["equal"] and not OUT.any()


@pytest.mark.compile
def test_pruning_leaves_its_candidates_and_heuristics_follow_the_config() -> None:
    """prune_configs_by takes configs away before the first is taken; the constexpr of a heuristic is that config's."""
    (kernel,) = explorer.trace(one_more, R[:512], OUT[:512], 512, target="a100", sass=False, grid=by_block).kernels
    assert [(row["BLOCK"], row["taken"]) for row in kernel.candidates.table] == [(256, True), (512, False)]
    assert kernel.launches[0]["grid"] == (2, 1, 1) and kernel.launches[0]["arguments"]["EVEN"] is True


@triton.jit
def fatal(x, BLOCK: tl.constexpr):
    """Makes LLVM abort."""
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.inline_asm_elementwise("mov.b64 $0, $1;", "=l,q", [tl.load(x + i)], tl.float32, True, 1))


@pytest.mark.compile
def test_a_crash_of_the_compiler_is_a_failure_of_the_trace() -> None:
    """Where LLVM aborts, the trace has the source and a fatal Failure that says so."""
    trace = explorer.trace(fatal, X, target="h100", BLOCK=32)
    assert trace.find("kernel") and not untold(trace.failures[0].message, "crashed", "stage") and trace.failures[0].fatal
    with pytest.raises(explorer.errors.CompileError, match="crashed"):
        trace.raise_for_failures()


@pytest.mark.compile
def test_what_nvdisasm_cannot_read_loses_nothing_else() -> None:
    """For a V100 the SASS alone is lost: a failure says why and what to do, the target's row too, and PTX and cubin are there."""
    x = torch.randn(100)
    trace = explorer.trace(add, x, x, torch.empty(100), 100, BLOCK=128, grid=(1,), target="v100")
    (kernel,) = trace.kernels
    why = explorer.targets().where(target="v100")[0]["why"]
    if "sass" in kernel.stages:  # an nvdisasm that still reads it
        assert not trace.failures and "nvdisasm" not in why
        return
    assert kernel.stages == ("kernel", "ttir", "ttgir", "llir", "ptx") and kernel.binary()[:4] == b"\x7fELF"
    (failure,) = trace.failures
    assert failure.stage == "sass" and "SM70" in failure.message and "TRITON_NVDISASM_PATH" in failure.message
    assert not untold(why, "PTX", "cubin")
    with pytest.raises(explorer.errors.CompileError, match="SM70"):
        kernel.text("sass")


@pytest.mark.compile
def test_code_flow_names_what_makes_each_form() -> None:
    """TTIR … PTX are made by triton's backend, the SASS by its assembler; the source is nobody's."""
    x = torch.randn(100)
    trace = explorer.trace(add, x, x, torch.empty(100), 100, BLOCK=128, grid=(1,), target="h100")
    made = {row["stage"]: (row["function"], row["file"]) for row in trace.stages if row["function"]}
    backend = "triton/backends/nvidia/compiler.py"
    forms = {stage: (f"CUDABackend.make_{stage}", backend) for stage in ("ttir", "ttgir", "llir", "ptx")}
    assert made == {**forms, "sass": ("CUDABackend.make_cubin", backend)}
    amd = explorer.trace(torch.sin, x, target="mi300x").stages.where(stage="amdgcn")
    assert [row["function"] for row in amd] == ["HIPBackend.make_amdgcn"]


@pytest.mark.compile
def test_a_launch_is_ranked_and_judged() -> None:
    """t.profile.launches has the launch, and advise judges it: a row of 32768 floats in four warps spills."""
    x = torch.empty(1024, 32768)
    trace = explorer.trace(centered, x, torch.empty_like(x), BLOCK=32768, grid=(1024,), num_warps=4, target="h100")
    (launch,) = trace.profile.launches
    assert launch["what"] == launch["kernel"] == "centered" and launch["known"] == "estimated"
    assert launch["read"] == launch["written"] == x.numel() * 4 and launch["share"] == 1
    advice = trace.advise()
    assert untold(advice.about, "A launch takes", "H100") == []
    (spilled,) = [verdict for verdict in advice if verdict.kind == "spills"]
    assert spilled.places and "tune()" in spilled.why_unproved
    assert untold(str(trace), "a call takes", "H100", "centered") == []


@pytest.mark.compile
def test_what_a_hand_written_kernel_has_not_is_said() -> None:
    """There is no result, no gradient and no time of a kernel that is only compiled: each says what to do."""
    x = torch.randn(100)
    trace = explorer.trace(add, x, x, torch.empty(100), 100, BLOCK=128, grid=(1,), target="h100", sass=False)
    with pytest.raises(explorer.errors.NoVerbError, match=r"t\.live\.run\(\)"):
        trace.live.result  # noqa: B018
    with pytest.raises(explorer.errors.NoVerbError, match="train=True"):
        trace.live.gradients  # noqa: B018
    with pytest.raises(explorer.errors.NoVerbError, match="do_bench"):
        trace.benchmark()
