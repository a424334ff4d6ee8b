"""Traces for a GPU you don't have: every stage is that GPU's, the function gives eager's result, nothing stays."""

from __future__ import annotations

import contextlib
import gc
import re
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import explorer
from explorer.capture.absent.absent_gpu import pretending
from explorer.capture.absent.torch_cuda import torch_cuda_answers
from explorer.lab.live import ladder_events
from explorer.lab.live.call import Call, run_call, tensors_of
from explorer.lab.live.protocol import live_of
from explorer.reference.gpus.figures import Target
from tests.facts import says, untold

pytest.importorskip("triton")
pytestmark = [
    # Inductor's own advice to whoever compiles float32 matrix products for such a GPU
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
    # Dynamo's own, where a graph break is in a function that is differentiated
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
]

TARGETS = ("h100", "a100", "b200", "mi300x")
NVIDIA_ATTENTION = "_scaled_dot_product_{}_attention"


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


def elementwise(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * y + 1).sum(-1)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(64, 64, dtype=torch.bool, device=q.device).tril())


def broken(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x) * 2
    torch._dynamo.graph_break()
    return torch.cos(y) + 1


def buffers(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    total.add_(x.detach().sum(0))
    return x * 2 + torch.arange(x.shape[-1], device=x.device) + torch.full((1,), 3.0, device=x.device)


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
    "masked attention": lambda grad: (masked, heads(torch.float32, grad)),
    "graph break": lambda grad: (broken, (torch.randn(32, 64, requires_grad=grad),)),
    "buffers": lambda grad: (buffers, (torch.randn(32, 64, requires_grad=grad), torch.zeros(64))),
}


def compared(fn: Any, args: tuple[Any, ...], train: bool, **options: Any) -> explorer.Trace:
    """The trace of a call whose outputs and gradients are those of eager with the same seed."""
    eager = Call(deepcopy(fn) if isinstance(fn, nn.Module) else fn, args, options.pop("kwargs", {}), train).copy()
    traced = eager.copy()
    torch.manual_seed(1)
    expected = tensors_of(run_call(eager.function, eager))
    torch.manual_seed(1)
    trace = explorer.trace(fn, *traced.args, kwargs=dict(traced.kwargs), train=train, **options)
    trace.raise_for_failures() if live_of(trace).error else None
    given = tensors_of((trace.live.result, trace.live.gradients if train else None))
    assert [name for name, _ in given] == [name for name, _ in expected]
    for (name, one), (_, other) in zip(expected, given, strict=True):
        torch.testing.assert_close(other, one, msg=lambda text, n=name: f"{n}: {text}")
    return trace


def lacking(trace: explorer.Trace) -> list[str]:
    """Return the stages down to machine code that a kernel of the trace lacks; SASS is made only on demand."""
    vendor = explorer.Target.parse(trace.meta["target"]).vendor
    machine = ("ptx", "sass") if vendor == "nvidia" else ("amdgcn",)
    whole = ("kernel", "ttir", "ttgir", "llir", *machine)
    found = [f"{k.name}: {k.stages}" for k in trace.kernels if k.stages != whole or k.binary()[:4] != b"\x7fELF"]
    return [*found, *(str(f) for f in trace.failures if f.stage == "kernel")]


def extern(trace: explorer.Trace) -> set[str]:
    """The operators and library calls in the trace's wrappers."""
    code = "\n".join(a.text for a in trace.artifacts if a.stage == "output_code")
    return set(re.findall(r"(?:extern_kernels\.|torch\.ops\.aten\.)(\w+)(?:\.\w+)?\(", code))


@pytest.mark.compile
@pytest.mark.sampled
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("case", CASES)
def test_a_trace_for_an_absent_gpu_has_its_stages_and_gives_eagers_result(case: str, train: bool, target: str) -> None:
    """Every kernel is Triton, every post-grad tensor is on the GPU, and outputs and gradients are those of eager."""
    fn, args = CASES[case](train)
    trace = compared(fn, args, train, target=target)
    assert trace.meta["target"] == target
    assert {k.language for k in trace.kernels} <= {"triton"} and (trace.kernels or "attention" in case)
    for artifact in trace.artifacts:
        if artifact.stage in ("forward", "post_grad", "output_code"):
            assert "cuda:0" in artifact.text and ']cpu"' not in artifact.text
    graphs = {a.graph for a in trace.artifacts if a.stage == "output_code"}
    assert graphs == ({"forward", "backward"} if train else {"inference"})
    assert lacking(trace) == []


@pytest.mark.compile
@pytest.mark.parametrize(
    ("target", "dtype", "operator"),
    [
        ("h100", torch.float32, "efficient"),
        ("a100", torch.float32, "efficient"),
        ("mi300x", torch.float32, "efficient"),
        ("a100", torch.bfloat16, "flash"),
        ("h100", torch.bfloat16, "cudnn"),
        ("b200", torch.float16, "cudnn"),
        ("mi300x", torch.bfloat16, "flash"),
        ("t4", torch.float16, "efficient"),
        ("rtx4090", torch.bfloat16, "flash"),
    ],
)
def test_attention_arrives_as_the_operator_of_that_gpu(target: str, dtype: torch.dtype, operator: str) -> None:
    """In inference and training, by torch's own order: cuDNN first on Hopper and Blackwell, flash, efficient."""
    name = NVIDIA_ATTENTION.format(operator)
    assert extern(compared(attention, heads(dtype, False), False, target=target)) == {name}
    if target in ("h100", "mi300x"):  # each operator that there is
        assert extern(compared(attention, heads(dtype, True), True, target=target)) == {name, f"{name}_backward"}


@pytest.mark.compile
def test_a_mask_keeps_flash_attention_out() -> None:
    """On an A100 half precision with a mask takes efficient attention: flash takes no mask."""
    trace = explorer.trace(masked, *heads(torch.bfloat16, False), target="a100")
    assert extern(trace) == {NVIDIA_ATTENTION.format("efficient")}


@pytest.mark.compile
@pytest.mark.parametrize(
    ("target", "dtype", "size", "operators"),
    [
        ("mi300x", torch.float32, 36, {NVIDIA_ATTENTION.format("efficient")}),
        ("mi300x", torch.bfloat16, 36, {"bmm"}),
        ("mi300x", torch.float32, 320, {NVIDIA_ATTENTION.format("efficient")}),
        ("mi300x", torch.float32, 520, {"bmm"}),
    ],
)
def test_attention_on_amd_is_taken_as_aotriton_takes_it(target: str, dtype: torch.dtype, size: int, operators: set[str]) -> None:
    """Head sizes up to 512, in steps of 8 in half precision and of 4 in float32, with a mask that keeps flash out."""
    args = tuple(torch.randn(1, 2, 64, size, dtype=dtype) for _ in range(3))
    assert extern(explorer.trace(masked, *args, target=target)) == operators


@pytest.mark.compile
def test_cudnn_attention_can_be_deprioritized(monkeypatch: pytest.MonkeyPatch) -> None:
    """TORCH_CUDNN_SDPA_DEPRIORITIZED is torch's own switch: flash attention comes first then."""
    monkeypatch.setenv("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")
    trace = explorer.trace(attention, *heads(torch.bfloat16, False), target="h100")
    assert extern(trace) == {NVIDIA_ATTENTION.format("flash")}


@pytest.mark.compile
@pytest.mark.parametrize("target", ["h100", "mi300x", "max1550"])
@pytest.mark.parametrize("count", [4, 32])
def test_numbers_of_the_program_are_constants_of_the_gpu(target: str, count: int) -> None:
    """`torch.tensor([…], device=x.device)` is written into the kernel where it is small, else read by it; nothing is copied."""
    numbers = [float(n) for n in range(count)]
    trace = compared(lambda x: x * torch.tensor(numbers, device=x.device), (torch.randn(8, count),), False, target=target)
    (kernel,) = trace.kernels
    assert ("3.0" in kernel.source) == (count == 4)
    assert ("_tensor_constant0, buf0" in trace.text("output_code")) == (count == 32) and not extern(trace)


@pytest.mark.usefixtures("warm_python")
@pytest.mark.compile
def test_what_another_gpu_was_compiled_with_before_does_not_matter() -> None:
    """Inductor's pattern tables, which a process fills once, are the same after traces for other vendors."""
    # both processes are forked from one that has imported torch and compiled nothing
    code = (
        "import os, torch, explorer\n"
        "import torch._inductor.compile_fx\n"
        "from explorer.stages import STAGES\n"
        "stages = [stage for stage in STAGES if stage.name in ('pattern_match', 'kernel', 'output_code')]\n"
        "def handmade(q, k, v): return torch.softmax(q @ k.transpose(-2, -1) / 5.6, -1) @ v\n"
        "for targets in (['mi300x'], ['h100', 'max1550', 'mi300x']):\n"
        "    if os.fork():\n"
        "        assert os.wait()[1] == 0\n"
        "        continue\n"
        "    torch.manual_seed(0)\n"
        "    args = [torch.randn(2, 4, 64, 32, dtype=torch.bfloat16) for _ in range(3)]\n"
        "    for target in targets: trace = explorer.trace(handmade, *args, target=target, stages=stages)\n"
        "    print([m['pattern'] for m in trace.inductor.matches], [k.source for k in trace.kernels], flush=True)\n"
        "    os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    alone, after_others = done.stdout.splitlines()
    assert alone == after_others and "sfdp" in alone.lower()


@pytest.mark.compile
def test_a_disabled_attention_backend_is_not_chosen() -> None:
    """`sdpa_kernel` chooses for an absent GPU as it does on a real one."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        trace = explorer.trace(attention, *heads(torch.bfloat16, False), target="h100")
    assert extern(trace) == {NVIDIA_ATTENTION.format("flash")}


@pytest.mark.compile
def test_the_same_function_gives_each_target_its_own_facts() -> None:
    """What a kernel is told of its device is the target's: capability, multiprocessors, warp size, backend."""
    x, y = torch.randn(128, 256), torch.randn(128, 256)
    told = {t: explorer.trace(elementwise, x, y, target=t).text("output_code") for t in (*TARGETS, "h100")}
    for target, facts in {
        "h100": ("cc=90", "multi_processor_count=132", "warp_size=32", "type='cuda'"),
        "a100": ("cc=80", "multi_processor_count=108"),
        "b200": ("cc=100", "multi_processor_count=148"),
        "mi300x": ("cc='gfx942'", "multi_processor_count=304", "warp_size=64", "type='hip'"),
    }.items():
        assert all(fact in told[target] for fact in facts), target


@pytest.mark.compile
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_dynamic_sizes_stay_symbols(train: bool) -> None:
    """A dynamic trace has symbols in the kernel's launch, and one kernel for all sizes."""
    args = (torch.randn(33, 64, requires_grad=train), torch.randn(64, 64, requires_grad=train))
    trace = compared(lambda x, w: torch.softmax(x @ w, -1), args, train, target="h100", dynamic=True)
    assert re.search(r"\bs\d+\b", trace.text("post_grad"))
    assert "ks0" in trace.kernels[0].source


@pytest.mark.compile
def test_recompiles_are_each_compiled_for_the_gpu() -> None:
    """A recording of a program for a GPU: each recompile goes there too, and the program gets its CPU results."""
    x = torch.randn(8)
    with explorer.record(target="h100") as recording:
        compiled = torch.compile(lambda t, up: t.exp() if up else t.tanh())
        assert torch.equal(compiled(x, True), x.exp()) and torch.equal(compiled(x, False), x.tanh())
    assert len(recording.trace.dynamo.recompiles) == 1
    assert [k.language for k in recording.trace.kernels] == ["triton", "triton"]


@pytest.mark.compile
def test_a_size_marked_dynamic_stays_dynamic_after_a_graph_break() -> None:
    """AOTAutograd marks the results of a graph, so that the graph after the break does not specialize on their sizes.

    For an absent GPU the results come from another copy of the graph. Without the marks the program would raise.
    """

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return x * y

    torch._dynamo.reset()
    with explorer.record("h100", fresh=True) as recording:
        compiled = torch.compile(broken)
        for rows in (4, 6, 8):
            x = torch.randn(rows, 16)
            torch._dynamo.mark_dynamic(x, 0)
            assert torch.allclose(compiled(x), x * x.sin())
    assert not recording.trace.dynamo.recompiles and recording.trace.compile_ids == ("0/0", "1/0")


@pytest.mark.compile
def test_a_training_loop_learns_as_in_eager_while_its_graphs_are_the_gpus() -> None:
    """Five steps of gradient descent under a recording end with eager's weights."""
    torch.manual_seed(0)
    eager = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    traced = deepcopy(eager)

    def learn(model: Any, parameters: Iterator[torch.Tensor]) -> None:
        optimizer = torch.optim.SGD(parameters, 0.01)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(4, 16)).pow(2).mean().backward()
            optimizer.step()

    learn(eager, eager.parameters())
    with explorer.record(target="a100") as recording:
        learn(torch.compile(traced), traced.parameters())
    for one, other in zip(eager.parameters(), traced.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert {a.graph for a in recording.trace.artifacts if a.stage == "output_code"} == {"forward", "backward"}


@pytest.mark.compile
@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs", "reduce-overhead"])
def test_modes_that_would_time_say_what_was_assumed(mode: str) -> None:
    """Nothing is timed; where timing would have decided, the trace says what was assumed, of which choices."""
    args = (torch.randn(512, 512), torch.randn(512, 512))
    trace = compared(lambda a, b: F.relu(a @ b), args, False, target="h100", mode=mode)
    tuned = mode.startswith("max-autotune")
    of_mm = [row["assumed"] for row in trace.inductor.assumptions if row["where"].startswith("mm, ")]
    assert [untold(assumed, "mm", "fastest") for assumed in of_mm] == [[]] * tuned
    assert all(not untold(row["why"], "timed", "GPU") and row["graph"] == "inference" for row in trace.inductor.assumptions)
    assert bool(trace.inductor.choices.table) == tuned and {row["ms"] for row in trace.inductor.choices.table} <= {None}
    assert [row["kind"] for row in trace.inductor.choices.table if row["fastest"]] == ["ExternKernelCaller"] * tuned
    assert bool(re.search(r"(?i)\bassumed\W+mm\b", repr(trace))) == tuned
    assert trace.failures == ()


@pytest.mark.compile
def test_a_tuned_product_calls_the_library_and_one_with_an_epilogue_is_a_template() -> None:
    """Measurements on real GPUs took these more often; the template has a tile for each multiprocessor."""
    a, b = (torch.randn(512, 512, dtype=torch.bfloat16) for _ in "ab")
    alone = explorer.trace(lambda a, b: a @ b, a, b, target="h200", mode="max-autotune")
    assert extern(alone) == {"mm"} and not alone.kernels
    fused = explorer.trace(lambda a, b: F.relu(a @ b), a, b, target="h200", mode="max-autotune")
    assert not extern(fused) and [k.name for k in fused.kernels] == ["triton_tem_fused_mm_relu_0"]
    (how,) = [row["assumed"] for row in fused.inductor.assumptions if "fused" in row["assumed"]]
    taken = next(row["config"] for row in fused.inductor.choices.table if not untold(how, row["choice"]))
    assert "BLOCK_K=128, BLOCK_M=64, BLOCK_N=32" in taken  # 128 tiles; an H200 took this one
    assert "wgmma" in fused.text("ptx")


@pytest.mark.compile
@pytest.mark.parametrize(
    ("sizes", "dtype", "precision", "padded"),
    [
        ((1023, 1023, 1023), torch.bfloat16, "highest", True),
        ((1023, 1024, 1024), torch.bfloat16, "highest", False),
        ((513, 513, 513), torch.bfloat16, "highest", False),
        ((1023, 1023, 1023), torch.float32, "highest", False),
        ((1023, 1023, 1023), torch.float32, "high", True),
    ],
)
def test_products_are_padded_where_timing_would_likely_have_padded_them(
    sizes: tuple[int, int, int], dtype: torch.dtype, precision: str, padded: bool
) -> None:
    """Large products on tensor cores with an unaligned inner size or unaligned columns; the assumption says so."""
    rows, inner, columns = sizes
    args = torch.randn(rows, inner, dtype=dtype), torch.randn(inner, columns, dtype=dtype)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        trace = explorer.trace(lambda a, b: F.relu(a) @ b, *args, target="h200")
    finally:
        torch.set_float32_matmul_precision(before)
    (row,) = trace.inductor.assumptions
    assert not untold(row["assumed"], "faster" if padded else "not faster", "padding") and ("not" in row["assumed"]) != padded
    assert ("constant_pad_nd" in trace.text("post_grad")) == padded and trace.failures == ()


@pytest.mark.compile
def test_autocast_for_the_cpu_is_autocast_for_the_gpu() -> None:
    """The matrix product under autocast is bfloat16 in the GPU's graph."""

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return a @ b

    trace = explorer.trace(product, torch.randn(32, 32), torch.randn(32, 32), target="h100")
    assert trace.live.result.dtype == torch.bfloat16
    assert "bf16[32, 32][32, 1]cuda:0" in trace.text("post_grad")


@pytest.mark.compile
def test_a_tensor_made_on_the_cpu_is_refused_as_a_gpu_would_with_advice() -> None:
    """`torch.randn(32)` without a device meets a GPU tensor: the failure says so and what to write."""
    trace = explorer.trace(lambda x: x + torch.randn(32), torch.randn(32), target="h100")
    (failure,) = [f for f in trace.failures if f.fatal]
    assert "device=x.device" in failure.message


def test_freezing_is_refused_with_advice() -> None:
    """Parameters cannot become constants on a GPU you don't have; the option and the setting are both seen."""
    with pytest.raises(explorer.errors.InputError, match=says("freezing", "'h100'", "target='cpu'")):
        explorer.trace(Mlp().eval(), torch.randn(2, 64), target="h100", options={"freezing": True})
    with torch._inductor.config.patch(freezing=True), pytest.raises(explorer.errors.InputError, match="freezing"):
        explorer.trace(Mlp().eval(), torch.randn(2, 64), target="h100")


def test_another_backend_needs_its_device() -> None:
    """A named GPU works with Inductor; any other backend is refused at once."""
    with pytest.raises(explorer.errors.InputError, match=says("'eager'", "'h100'", "'inductor'")):
        explorer.trace(torch.sin, torch.randn(4), target="h100", backend="eager")


def test_without_a_compiler_the_error_names_gpp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the helper must be built and there is no g++, the error says what to install."""
    from explorer.capture.absent import native

    monkeypatch.setattr(native.shutil, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(explorer.errors.InputError, match=r"apt install g\+\+"):
        native.build_command("x.so")


def transformer(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]:
    """A small model with random weights, its inputs and keyword arguments."""
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    sizes = {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
    tokens, image = (torch.randint(0, 128, (2, 32)),), (torch.randn(2, 3, 32, 32),)
    text, plain = {"use_cache": False, "return_dict": False}, {"return_dict": False}
    made: dict[str, Callable[[], tuple[Any, tuple[torch.Tensor, ...], dict[str, Any]]]] = {
        "gpt2": lambda: (
            transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=64, n_head=4, vocab_size=128)),
            tokens,
            text,
        ),
        "bert": lambda: (transformers.BertModel(transformers.BertConfig(**sizes, vocab_size=128)), tokens, plain),
        "vit": lambda: (transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=32, patch_size=8)), image, plain),
        "llama": lambda: (
            transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, num_key_value_heads=2, vocab_size=128)),
            tokens,
            text,
        ),
        "resnet": lambda: (
            transformers.ResNetModel(
                transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16], depths=[1], layer_type="basic")
            ),
            image,
            plain,
        ),
    }
    return made[name]()


@pytest.mark.compile
@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gpt2", "h100"),
        ("bert", "a100"),
        ("llama", "mi300x"),
        pytest.param("vit", "b200", marks=pytest.mark.whole),
        pytest.param("resnet", "h100", marks=pytest.mark.whole),
    ],
)
def test_models_from_transformers_trace_for_gpus(name: str, target: str, train: bool) -> None:
    """Small random models: all kernels Triton, attention the GPU's, outputs and gradients eager's."""
    model, args, kwargs = transformer(name)
    trace = compared(model.train(train), args, train, target=target, kwargs=kwargs)
    assert {k.language for k in trace.kernels} == {"triton"} and not any(f.fatal for f in trace.failures)
    # with torch 2.11 transformers gives BERT a mask that is expanded in its last dimension, which no fused operator takes
    attention = (
        "bmm" if (name, train, torch.__version__ < "2.12") == ("bert", True, True) else NVIDIA_ATTENTION.format("efficient")
    )
    assert extern(trace) & {"convolution", attention}
    assert not any("for_cpu" in operator for operator in extern(trace)) and lacking(trace) == []


#: What Dynamo itself counts in these places while it traces.
COUNTERS = ("__warningregistry__", "cache_hits", "cache_misses")


def touched() -> dict[str, int]:
    """The identity of every attribute of every module and class that the pretence writes to."""
    import triton.testing
    from torch._dynamo import device_interface
    from torch._inductor import compile_fx, constant_folding, cudagraph_utils, output_code, scheduler, select_algorithm
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.fx_passes import joint_graph, pad_mm
    from torch._inductor.runtime import hints, triton_helpers
    from torch._subclasses import fake_tensor, meta_utils
    from torch.fx.experimental import proxy_tensor
    from triton.runtime.driver import driver

    from explorer.capture.absent import native

    owners: tuple[Any, ...] = (
        torch.cuda,
        torch.cuda.random,
        torch.version,
        device_interface,
        driver,
        triton.testing,
        triton_helpers,
        hints,
        pad_mm,
        proxy_tensor,
        compile_fx,
        output_code,
        cudagraph_utils,
        fake_tensor,
        fake_tensor.FakeTensorMode,
        PyCodeCache,
        meta_utils.MetaTensorDescriber,
        constant_folding.ConstantFolder,
        joint_graph.UniformValueConstantFolder,
        scheduler.Scheduler,
        select_algorithm.AlgorithmSelectorCache,
    )
    found = {f"{owner!r}.{name}": id(value) for owner in owners for name, value in vars(owner).items() if name not in COUNTERS}
    interfaces = {f"interface {name}": id(kind) for name, kind in device_interface.device_interfaces.items()}
    return {**found, **interfaces, **{f"native {n}": place for n, place in enumerate(native.places())}}


@pytest.fixture(scope="module")
def after_imports() -> tuple[torch.Tensor, torch.Tensor]:
    """Return arguments of `fresh_function`, after the imports and counts of torch's first traces."""
    x, w = torch.randn(16, 32, requires_grad=True), torch.randn(32, 32)
    for target in TARGETS:
        explorer.trace(fresh_function(), x, w, target=target, train=True)
    return x, w


def fresh_function() -> Any:
    """A function with a code object that no earlier trace knows."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.gelu(x @ w)

    return types.FunctionType(function.__code__.replace(), globals())


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is attached, on which the tensor would be")
@pytest.mark.parametrize("answers", [torch_cuda_answers, pretending])
def test_an_attached_gpu_is_started_after_the_absent_one_answered(
    answers: Callable[[Target], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tensor asked for on the absent GPU, which is refused, leaves torch to start CUDA itself at the next one."""
    from explorer.capture.absent import native

    def ask() -> None:
        with contextlib.suppress(Exception):  # there is no such tensor, by which of torch's messages does not matter
            torch.empty(1, device="cuda")

    started: list[bool] = []
    with answers(Target.parse("h100")):
        ask()
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: started.append(True))
    ask()
    native.forget_starts()  # of the function above
    assert started == [True]


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="this torch was built with CUDA, and says so to every thread")
def test_only_the_thread_that_sees_the_gpu_is_told_of_a_build_with_cuda() -> None:
    """Another thread never finds a function of CUDA's that is gone before it is called; two traces may end in any order."""
    told: list[bool] = []
    first, second = threading.Barrier(2, timeout=60), threading.Barrier(2, timeout=60)

    def elsewhere() -> None:
        told.append(torch.cuda._is_compiled())
        with torch_cuda_answers(Target.parse("mi300x")):
            told.append(torch.cuda._is_compiled() and torch.cuda.is_available())
            first.wait()
            second.wait()
            told.append(torch.cuda._is_compiled() and torch.cuda.is_available())
        told.append(torch.cuda._is_compiled())

    thread = threading.Thread(target=elsewhere)
    with torch_cuda_answers(Target.parse("h100")):
        thread.start()
        first.wait()
        assert torch.cuda._is_compiled() and torch.cuda.is_available()
    assert not torch.cuda._is_compiled()
    second.wait()
    thread.join()
    assert told == [False, True, True, False]
    assert "explorer" not in torch.cuda._is_compiled.__code__.co_filename


@pytest.mark.compile
def test_nothing_stays_after_traces_for_four_targets(after_imports: tuple[torch.Tensor, torch.Tensor]) -> None:
    """torch.cuda, the driver, the interfaces and every replaced function are the originals; fake tensors do not pile up."""
    available, before = torch.cuda.is_available(), touched()
    counts = []
    for number in range(8):
        explorer.trace(fresh_function(), *after_imports, target=TARGETS[number % 4], train=True)
        if number in (3, 7):
            gc.collect()
            counts.append(sum(issubclass(type(o), torch.fx.GraphModule) for o in gc.get_objects()))
    after = touched()
    assert {name: (before[name], after.get(name)) for name in before if after.get(name) != before[name]} == {}
    assert torch.cuda.is_available() == available
    assert counts[1] <= counts[0] + 8, "a graph or two a trace is Dynamo's own cache entry"


@pytest.mark.compile
@pytest.mark.usefixtures("after_imports")
def test_everything_is_put_back_when_the_compile_fails() -> None:
    """An error in the middle of the compile leaves no trace of the GPU."""
    before = touched()
    trace = explorer.trace(lambda x: x + torch.randn(32), torch.randn(32), target="b200")
    assert any(f.fatal for f in trace.failures)
    after = touched()
    assert {name for name in before if after.get(name) != before[name]} == set()


@pytest.mark.compile
def test_kernels_are_compiled_while_the_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the first graph's code runs its kernels are on their way, and Inductor starts no workers of its own."""
    from torch._inductor.async_compile import AsyncCompile

    begun: list[int] = []
    own = ladder_events.LadderCompiles.begin
    monkeypatch.setattr(
        ladder_events.LadderCompiles, "begin", lambda self, events: (own(self, events), begun.append(len(self._kernels)))[0]
    )
    monkeypatch.setattr(AsyncCompile, "process_pool", lambda: pytest.fail("Inductor's workers were started"))
    seen: list[int] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x) * 2
        torch._dynamo.graph_break()
        seen.extend(begun)
        return torch.cos(y) + 1

    trace = explorer.trace(function, torch.randn(32, 64), target="h100")
    assert seen == [1] and len(trace.kernels) == 2
    assert all(k.text("ptx") for k in trace.kernels)


@pytest.mark.compile
def test_a_cpu_trace_after_a_gpu_trace_is_the_cpus() -> None:
    """Answers of a device that torch caches do not reach the next compile."""
    x, y = torch.randn(128, 256), torch.randn(128, 256)
    plain = explorer.trace(elementwise, x, y, target="cpu").text("post_grad")
    explorer.trace(elementwise, x, y, target="h100")
    again = explorer.trace(elementwise, x, y, target="cpu")
    assert again.text("post_grad") == plain and {k.language for k in again.kernels} == {"cpp"}


def _attends(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A layer whose heads are a view of a product, and are used after a graph break, as in PyG's GATConv."""
    heads = (x @ weight).view(x.shape[0], 2, -1)
    torch._dynamo.graph_break()
    return (heads.sin() * heads.sum(-1, keepdim=True)).flatten(1)


def _two_layers(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    for weight in (first, second):
        x = _attends(x, weight)
    return x


@pytest.mark.compile
@pytest.mark.parametrize("train", (False, True))
def test_what_is_compiled_after_a_graph_break_takes_what_the_gpus_code_returns(train: bool) -> None:
    """A graph's view goes into code with symbolic sizes: no guard on its base, as on a GPU, and a check runs all of it."""
    torch.manual_seed(0)
    x, first, second = torch.randn(20, 8), torch.randn(8, 32, requires_grad=train), torch.randn(32, 8, requires_grad=train)
    trace = explorer.trace(_two_layers, x, first, second, target="h100", train=train)
    assert {failure.step for failure in trace.failures} == {"skipped frame"} and trace.find("recompile")
    assert "_base" not in "".join(guards.text for guards in trace.find("guards"))
    rows = trace.check()
    assert rows and all(row["equal"] for row in rows)
    assert torch.equal(trace.live.result, _two_layers(x, first, second))
