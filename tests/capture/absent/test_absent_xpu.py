"""Traces for an Intel GPU you don't have: Inductor's XPU path down to its Triton source, eager's result, nothing stays."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import explorer
from explorer.lab.live.call import Call, run_call, tensors_of
from explorer.lab.live.protocol import live_of
from explorer.reference.gpus.figures import KB, Target
from tests.facts import says, untold

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")

BELOW = ("ttir", "ttgir", "llir", "spv")
ONEDNN, FLASH = "_scaled_dot_product_fused_attention_overrideable", "_scaled_dot_product_flash_attention"


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.drop = nn.Linear(64, 128), nn.Linear(128, 64), nn.Dropout(0.25)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.down(F.gelu(self.up(x))))


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.norm(x), -1)


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm, self.two = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.two(F.relu(self.norm(self.one(x))))).mean((2, 3))


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.table(x))


def elementwise(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * y + 1).sum(-1)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(64, 64, dtype=torch.bool, device=q.device).tril())


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)


def dropped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)


def heads(dtype: torch.dtype, grad: bool) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(2, 4, 64, 32, dtype=dtype, requires_grad=grad) for _ in range(3))


#: Name → whether it is a training → a function and its arguments.
CASES: dict[str, Callable[[bool], tuple[Any, tuple[torch.Tensor, ...]]]] = {
    "elementwise": lambda grad: (elementwise, (torch.randn(128, 256, requires_grad=grad), torch.randn(128, 256))),
    "mlp": lambda grad: (Mlp().train(grad), (torch.randn(32, 64),)),
    "norm": lambda grad: (Norm(), (torch.randn(32, 256),)),
    "conv": lambda grad: (Conv().train(grad), (torch.randn(4, 3, 32, 32),)),
    "attention": lambda grad: (attention, heads(torch.float32, grad)),
    "half attention": lambda grad: (attention, heads(torch.bfloat16, grad)),
}


def compared(fn: Any, args: tuple[Any, ...], train: bool, **options: Any) -> explorer.Trace:
    """The trace of a call whose outputs and gradients are those of eager with the same seed."""
    eager = Call(deepcopy(fn) if isinstance(fn, nn.Module) else fn, args, options.pop("kwargs", {}), train).copy()
    traced = eager.copy()
    torch.manual_seed(1)
    expected = tensors_of(run_call(eager.function, eager))
    torch.manual_seed(1)
    trace = explorer.trace(fn, *traced.args, kwargs=dict(traced.kwargs), train=train, **options)
    given = tensors_of((trace.live.result, trace.live.gradients if train else None))
    assert [name for name, _ in given] == [name for name, _ in expected]
    for (name, one), (_, other) in zip(expected, given, strict=True):
        torch.testing.assert_close(other, one, msg=lambda text, n=name: f"{n}: {text}")
    return trace


def extern(trace: explorer.Trace) -> set[str]:
    """The operators and library calls in the trace's wrappers."""
    code = "\n".join(a.text for a in trace.artifacts if a.stage == "output_code")
    return set(re.findall(r"(?:extern_kernels\.|torch\.ops\.aten\.)(\w+)(?:\.\w+)?\(", code))


@pytest.mark.compile
@pytest.mark.sampled
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("case", CASES)
def test_every_stage_down_to_the_triton_source_is_the_xpus_and_the_result_eagers(case: str, train: bool) -> None:
    """Graphs, wrapper and kernels name the XPU; what lies below says that triton has no backend for it."""
    fn, args = CASES[case](train)
    trace = compared(fn, args, train, target="max1550")
    for artifact in trace.artifacts:
        if artifact.stage in ("forward", "post_grad", "output_code"):
            assert "xpu:0" in artifact.text and "cuda:0" not in artifact.text and ']cpu"' not in artifact.text
    for kernel in trace.kernels:
        assert kernel.language == "triton" and "@triton_heuristics." in kernel.source and "type='xpu'" in kernel.source
    assert {a.graph for a in trace.artifacts if a.stage == "output_code"} == ({"forward", "backward"} if train else {"inference"})
    assert [f.stage for f in trace.failures if f.step == "triton"] == (list(BELOW) if trace.kernels else [])
    assert not any(f.fatal for f in trace.failures)


@pytest.mark.compile
def test_the_wrapper_is_the_xpus() -> None:
    """Buffers, guard and stream are torch.xpu's, and a kernel is told the properties that torch.xpu would report."""
    import inspect

    from torch._inductor.runtime.hints import DeviceProperties

    trace = explorer.trace(elementwise, torch.randn(128, 256), torch.randn(128, 256), target="b580")
    code = trace.text("output_code")
    assert "empty_strided_xpu((128, )" in code and "with torch.xpu._DeviceGuard(0):" in code
    assert "_xpu_getCurrentRawStream as get_raw_stream" in code and "device_str='xpu'" in code
    # torch.xpu reports no warp size: torch 2.14 says so, before it wrote what it assumes
    warp = "warp_size=32" if "32 if" in inspect.getsource(DeviceProperties) else "warp_size=None"
    for fact in (
        "multi_processor_count=20",
        "'architecture': 21479031808",
        "'gpu_eu_count': 160",
        "'sub_group_sizes': [16, 32]",
        warp,
        "major=None",
    ):
        assert fact in code


@pytest.mark.compile
@pytest.mark.parametrize(
    ("fn", "dtype", "train", "operators"),
    [
        (attention, torch.float32, False, {ONEDNN}),
        (attention, torch.bfloat16, False, {ONEDNN}),
        (masked, torch.bfloat16, False, {ONEDNN}),
        (grouped, torch.float16, False, {ONEDNN}),
        (dropped, torch.bfloat16, False, {"bmm"}),
        (attention, torch.float32, True, {"bmm"}),
        (attention, torch.bfloat16, True, {FLASH, f"{FLASH}_backward"}),
        (masked, torch.bfloat16, True, {"bmm"}),
    ],
)
def test_attention_is_what_an_xpu_chooses(fn: Any, dtype: torch.dtype, train: bool, operators: set[str]) -> None:
    """oneDNN's operator in inference; in training flash attention in half precision without a mask, else the mathematics."""
    assert extern(explorer.trace(fn, *heads(dtype, train), train=train, target="max1550")) == operators


@pytest.mark.compile
def test_a_disabled_attention_backend_is_not_chosen() -> None:
    """`sdpa_kernel` chooses for an absent XPU as on a real one, also its order."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert extern(explorer.trace(attention, *heads(torch.bfloat16, False), target="b580")) == {FLASH}
    with sdpa_kernel(SDPBackend.MATH):
        assert extern(explorer.trace(attention, *heads(torch.bfloat16, False), target="b580")) == {"bmm"}


@pytest.mark.compile
def test_in_inference_mode_attention_is_the_xpus_too() -> None:
    """Under torch.inference_mode no autograd decomposes the operator; the choice is the same."""
    with torch.inference_mode():
        trace = explorer.trace(attention, *(t.clone() for t in heads(torch.float32, False)), target="max1550")
    assert extern(trace) == {ONEDNN}


@pytest.mark.compile
def test_the_backward_of_an_embedding_stays_an_operator() -> None:
    """Only a build for XPU does so; another GPU in the same process gets Inductor's own kernels again."""
    model, words = Words(), (torch.randint(0, 50, (8, 32)),)
    assert "embedding_dense_backward" in extern(compared(model, words, True, target="max1550"))
    assert "embedding_dense_backward" not in extern(compared(model, words, True, target="h100"))


@pytest.mark.compile
def test_max_autotune_says_what_was_assumed() -> None:
    """Nothing is timed; the table has each choice that timing would have decided, and the GPU on which it was measured."""
    options = {"target": "max1550", "mode": "max-autotune-no-cudagraphs"}
    trace = compared(lambda a, b: F.relu(a @ b), (torch.randn(512, 512), torch.randn(512, 512)), False, **options)
    product, fused = trace.inductor.assumptions
    assert not untold(product["assumed"], "mm", "fastest") and not untold(fused["assumed"], "faster")
    assert untold(fused["assumed"], "not")
    assert not any(untold(row["why"], "GPU", "H200") for row in trace.inductor.assumptions)
    assert [k.name for k in trace.kernels] == ["triton_tem_fused_mm_relu_0"]


@pytest.mark.compile
def test_autocast_for_the_cpu_is_autocast_for_the_xpu() -> None:
    """The matrix product under autocast is bfloat16 in the XPU's graph."""

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return a @ b

    trace = explorer.trace(product, torch.randn(32, 32), torch.randn(32, 32), target="max1550")
    assert "bf16[32, 32][32, 1]xpu:0" in trace.text("post_grad")


@pytest.mark.compile
def test_dynamic_sizes_stay_symbols() -> None:
    """A dynamic trace has symbols in the launch, and one kernel for all sizes."""
    args = (torch.randn(33, 64), torch.randn(64, 64))
    trace = compared(lambda x, w: torch.softmax(x @ w, -1), args, False, target="max1550", dynamic=True)
    assert re.search(r"\bs\d+\b", trace.text("post_grad")) and "ks0" in trace.kernels[0].source


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_a_gpt2_of_transformers_traces_for_an_intel_gpu(train: bool) -> None:
    """A small GPT-2 with random weights: all kernels Triton for the XPU, outputs and gradients eager's."""
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=64, n_head=4, vocab_size=128))
    options = {"target": "max1550", "kwargs": {"use_cache": False, "return_dict": False}}
    trace = compared(model.train(train), (torch.randint(0, 128, (2, 32)),), train, **options)
    assert all("type='xpu'" in kernel.source for kernel in trace.kernels) and len(trace.kernels) > 4
    assert extern(trace) >= ({"bmm", "embedding_dense_backward"} if train else {ONEDNN})


# Below Triton's source ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain() -> explorer.Trace:
    """A trace of one small kernel for an Intel GPU."""
    return explorer.trace(torch.sin, torch.randn(64), target="max1550")


@pytest.mark.compile
@pytest.mark.parametrize("stage", BELOW)
def test_a_stage_that_triton_cannot_make_says_so(plain: explorer.Trace, stage: str) -> None:
    """Asked for TTIR, TTGIR, LLIR or SPIR-V, kernel and trace name the backend that the installed triton lacks."""
    for ask in (plain.kernels[0].text, plain.text):
        with pytest.raises(explorer.errors.CompileError, match=says(stage, "triton", "no backend", "Intel GPUs")):
            ask(stage)
    assert live_of(plain).error is None and torch.equal(plain.live.result, torch.sin(*live_of(plain).call.args))


@pytest.mark.compile
def test_what_needs_the_ladder_says_so_too(plain: explorer.Trace) -> None:
    """Passes, binary and other candidates of the kernel raise the same reason; a wrong stage stays a wrong stage."""
    kernel = plain.kernels[0]
    for ask in (kernel.passes, lambda: kernel.binary(), lambda: kernel.candidates[{"num_warps": 8}].resources):
        with pytest.raises(explorer.errors.CompileError, match=says("triton", "no backend", "Intel GPUs")):
            ask()
    with pytest.raises(explorer.errors.InputError, match=says("stage", "'ptx'", "'kernel'")):
        kernel.text("ptx")


@pytest.mark.compile
def test_a_handwritten_kernel_for_an_intel_gpu_has_its_source() -> None:
    """trace_kernel gives the source, names why each stage below is missing, and runs the kernel; what triton refuses raises."""
    import triton.language as tl

    @triton.jit
    def ones(x, size: tl.constexpr):  # type: ignore[no-untyped-def]
        tl.store(x + tl.arange(0, size), 1.0)

    trace = explorer.trace(ones, torch.zeros(8), 8, target="max1550", grid=(1,))
    assert [a.stage for a in trace.artifacts] == ["source", "kernel"] and trace.meta["target"] == "max1550"
    assert [f.stage for f in trace.failures] == list(BELOW) and not any(f.fatal for f in trace.failures)
    for stage in BELOW:
        for ask in (trace.kernels[0].text, trace.text):
            with pytest.raises(explorer.errors.CompileError, match=says(stage, "triton", "no backend", "Intel GPUs")):
                ask(stage)
    for ask in (trace.kernels[0].passes, lambda: trace.kernels[0].binary()):
        with pytest.raises(explorer.errors.CompileError, match=says("triton", "no backend", "Intel GPUs")):
            ask()
    assert torch.equal(trace.live.run()["x"], torch.ones(8))
    with pytest.raises(explorer.errors.InputError, match=says("ones", "size")):
        explorer.trace(ones, torch.zeros(8), target="max1550")


def test_the_rows_of_intel_gpus_say_how_far_down_they_go() -> None:
    """targets() lists the vendor, the figures, and that the installed triton has no backend for it."""
    rows = {row["target"]: row for row in explorer.targets() if row.get("vendor") == "intel"}
    assert {"max1550", "max1100", "b580", "b570"} <= set(rows)
    for row in rows.values():
        assert row["works"] and not untold(row["why"], "Triton source", "no backend") and row["sources"]


# State ---------------------------------------------------------------------------------------------------------------


def touched() -> dict[str, Any]:
    """Everything that the pretence of an XPU writes to: attributes by identity, tables by what they hold, C++ places."""
    from torch._dynamo import device_interface
    from torch._inductor import lowering
    from torch._subclasses import fake_tensor
    from torch.utils import _triton
    from triton.runtime.driver import driver

    from explorer.capture.absent import native

    owners = (torch.cuda, torch.xpu, torch.xpu.random, torch.version, device_interface, _triton, driver, fake_tensor)
    names = {
        f"{owner!r}.{name}": id(value) for owner in owners for name, value in vars(owner).items() if name != "__warningregistry__"
    }
    tables = {
        "lowerings": lowering.lowerings,
        "fallbacks": lowering.fallbacks,
        "decompositions": lowering.decompositions,
    }
    backward = torch.ops.aten.embedding_dense_backward.default
    return {
        **names,
        **{f"{name} of the embedding": backward in table for name, table in tables.items()},
        "attention": dict(torch.ops.aten.scaled_dot_product_attention.default.py_kernels),
        "native": native.places(),
        "interfaces": {name: id(kind) for name, kind in device_interface.device_interfaces.items()},
        "available": (torch.xpu.is_available(), torch.cuda.is_available(), torch.accelerator.is_available()),
    }


@pytest.mark.compile
def test_nothing_stays_and_the_next_trace_is_its_own_gpus() -> None:
    """After a trace for an Intel GPU everything is as it was, a trace for an H100 is as before it, and so is the CPU's."""
    args = (torch.randn(64, 128, requires_grad=True), torch.randn(64, 128))
    explorer.trace(elementwise, *args, target="b580", train=True)  # torch imports what it needs
    first, before = explorer.trace(elementwise, *args, target="h100", train=True), touched()
    explorer.trace(elementwise, *args, target="max1550", train=True)
    after = touched()
    assert {name: (before[name], after.get(name)) for name in before if after.get(name) != before[name]} == {}
    second = explorer.trace(elementwise, *args, target="h100", train=True)
    assert [k.source for k in second.kernels] == [k.source for k in first.kernels]
    assert second.kernels[0].text("ptx") == first.kernels[0].text("ptx")
    assert F.scaled_dot_product_attention(*heads(torch.float32, False)).device.type == "cpu"


@pytest.mark.compile
def test_everything_is_put_back_when_the_compile_fails() -> None:
    """An error in the middle of the compile leaves no trace of the XPU."""
    explorer.trace(torch.sin, torch.randn(8), target="max1550")
    before = touched()
    trace = explorer.trace(lambda x: x + torch.randn(32), torch.randn(32), target="max1550")
    assert any(f.fatal and "device=x.device" in f.message for f in trace.failures)
    after = touched()
    assert {name for name in before if after.get(name) != before[name]} == set()


@pytest.mark.compile
def test_a_users_own_intel_target_is_what_the_kernel_is_told() -> None:
    """Target(vendor="intel", …) with a GPU's IP version: the properties follow from the figures and from `reported`."""
    own = Target(
        name="own",
        title="Own",
        vendor="intel",
        arch="30.0.4",
        multiprocessors=12,
        memory=16 << 30,
        bandwidth=1e11,
        peak={"fp32": 1e13},
        l2=16 << 20,
        shared_per_block=128 * KB,
        shared_per_multiprocessor=128 * KB,
        reported={"device_id": 77, "has_fp64": False},
    )
    code = explorer.trace(torch.sin, torch.randn(64), target=own).text("output_code")
    for fact in ("'gpu_subslice_count': 12", "'device_id': 77", "'has_fp64': False", f"'architecture': {30 << 30 | 4 << 8}"):
        assert fact in code
