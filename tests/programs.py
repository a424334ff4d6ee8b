"""The programs that the recorded events in `data/` come from, and that live tests compile.

They are in one file so that every recording and every test speaks of the same lines.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional


def sin_cos(x: torch.Tensor) -> torch.Tensor:
    """sin² + cos²: one graph, one fused kernel."""
    s = torch.sin(x) ** 2
    c = torch.cos(x) ** 2
    return s + c


def toy_example(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A branch on data: Dynamo breaks the graph there and goes on in one of two resume functions."""
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


class Mlp(nn.Module):
    """Linear, GELU, Linear."""

    def __init__(self, width: int = 16, hidden: int = 32) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.gelu(self.up(x))
        return self.down(hidden)


def scaled(x: torch.Tensor) -> torch.Tensor:
    """Compiled again when the dtype changes, and again for a size that is marked dynamic."""
    return torch.relu(x) * x.shape[0]


class Attention(nn.Module):
    """Projections around scaled_dot_product_attention."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def run_sin_cos(device: str) -> None:
    """One call without gradients."""
    with torch.no_grad():
        torch.compile(sin_cos)(torch.randn(64, device=device))


def run_toy_example(device: str) -> None:
    """Two calls, so that both branches run: three frames."""
    compiled, a = torch.compile(toy_example), torch.randn(10, device=device)
    compiled(a, torch.ones(10, device=device))
    compiled(a, -torch.ones(10, device=device))


def run_mlp_train(device: str) -> None:
    """One forward and backward."""
    model = Mlp().to(device)
    torch.compile(model)(torch.randn(8, 16, device=device)).sum().backward()


def run_recompile(device: str) -> None:
    """float32, then float64, then a size marked dynamic, 4 to 64: three compiles of one frame."""
    compiled = torch.compile(scaled)
    compiled(torch.randn(8, device=device))
    compiled(torch.randn(8, device=device, dtype=torch.float64))
    x = torch.randn(12, device=device)
    torch._dynamo.mark_dynamic(x, 0, min=4, max=64)
    compiled(x)


def run_attention(device: str) -> None:
    """One call without gradients."""
    model = Attention().to(device)
    with torch.no_grad():
        torch.compile(model)(torch.randn(2, 8, 32, device=device))


class Small(nn.Module):
    """A linear layer, and two operators behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        z = torch.relu(y)
        return z + 1.5


def run_iree_linear(device: str) -> None:
    """One inference by IREE."""
    model = Small().to(device)
    with torch.no_grad():
        torch.compile(model, backend="iree", options={"passes": True, "after_passes": ["convert-torch-to-linalg"]})(
            torch.randn(2, 8, device=device)
        )


def run_onnxrt_linear(device: str) -> None:
    """One inference by ONNX Runtime."""
    model = Small().to(device)
    with torch.no_grad():
        torch.compile(model, backend="onnxrt")(torch.randn(2, 8, device=device))


class Parted(nn.Module):
    """A linear layer, and behind it an operator that OpenVINO does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        z = torch.relu(y)
        w = torch.special.bessel_j0(z)
        return w * 2 + 1.5


def run_openvino_parts(device: str) -> None:
    """One inference by OpenVINO's backend of torch.compile, in float32, which PyTorch has a part in."""
    options = {"aot_autograd": True, "config": {"INFERENCE_PRECISION_HINT": "f32"}}
    model = Parted().to(device)
    with torch.no_grad():
        torch.compile(model, backend="openvino", options=options)(torch.randn(2, 8, device=device))


class Twice(nn.Module):
    """Two equal layers, of which TVM makes one function, and operators behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.first(x))
        z = torch.relu(self.second(y))
        return z.view(-1), (torch.relu(z) + 1.5).sum(0)


def run_tvm_linear(device: str) -> None:
    """One inference by TVM."""
    model = Twice().to(device)
    with torch.no_grad():
        torch.compile(model, backend="tvm", options={"after_passes": ["FuseOps", "tirx.MakePackedAPI"]})(
            torch.randn(2, 8, device=device)
        )


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Each half of the last dimension, turned by an angle for each position."""
    c, s = torch.cos(angles), torch.sin(angles)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * c - second * s, second * c + first * s), dim=-1)


class RmsNorm(nn.Module):
    """A root mean square norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        square = x.pow(2)
        mean = square.mean(-1, keepdim=True)
        return x * torch.rsqrt(mean + 1e-6) * self.weight


def gated(up: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """SwiGLU."""
    open_by = torch.sigmoid(gate)
    return up * gate * open_by


class Rotary(nn.Module):
    """A block of a transformer in five functions: norm, attention with turned queries and keys, norm, gated layer."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.gate, self.down = nn.Linear(width, 48), nn.Linear(width, 48), nn.Linear(48, width)

    def attend(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, angles), rotate(k, angles)
        scores = q @ k.transpose(-1, -2) * (width / self.heads) ** -0.5
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x), angles)
        y = self.norm2(x)
        return x + self.down(gated(self.up(y), self.gate(y)))


def run_rotary(device: str) -> None:
    """One inference."""
    model = Rotary().to(device)
    with torch.no_grad():
        torch.compile(model)(torch.randn(2, 8, 32, device=device), torch.randn(8, 4, device=device))


def run_xla_linear(device: str) -> None:
    """One inference by XLA through StableHLO."""
    model = Twice().to(device)
    with torch.no_grad():
        torch.compile(model, backend="xla")(torch.randn(2, 8, device=device))


def weighed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product, which a library computes, and a softmax with pointwise operators behind it."""
    y = torch.softmax(x @ w, -1)
    z = y * 2 + x
    return z.relu()


def run_pallas_softmax(device: str) -> None:
    """One inference with Pallas as Inductor's language for the CPU."""
    with torch.no_grad(), torch._inductor.config.patch(cpu_backend="pallas"):
        torch.compile(weighed)(torch.randn(32, 64, device=device), torch.randn(64, 64, device=device))


#: What is recorded, by the name of its file in `data/`.
PROGRAMS: dict[str, Callable[[str], None]] = {
    "sin_cos": run_sin_cos,
    "toy_example": run_toy_example,
    "mlp_train": run_mlp_train,
    "recompile": run_recompile,
    "attention": run_attention,
    "iree_linear": run_iree_linear,
    "tvm_linear": run_tvm_linear,
    "xla_linear": run_xla_linear,
    "onnxrt_linear": run_onnxrt_linear,
    "openvino_parts": run_openvino_parts,
}

#: What is recorded for the tests of the view, and of kernels in languages other than Triton and C++, in `data/views/`.
VIEWED: dict[str, Callable[[str], None]] = {"rotary": run_rotary, "pallas_softmax": run_pallas_softmax}


class Changing(nn.Module):
    """Changes its input and returns two results, one of them without a change of the other input."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.add_(1.0)
        return x * 2, y


class Block(nn.Module):
    """A residual block whose norms hold the deeper layers' gradients together."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class WideBlock(nn.Module):
    """`Block`, but for its width."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(96, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def run_layers(device: str) -> None:
    """One inference by seven blocks, of which the fourth is wider, in a model that is an argument."""
    blocks = [Block() for _ in range(3)], [WideBlock()], [Block() for _ in range(3)]
    model = nn.Sequential(*(block for part in blocks for block in part)).to(device)

    def run(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return net(x)  # type: ignore[no-any-return]

    with torch.no_grad():
        torch.compile(run)(model, torch.randn(8, 32, device=device))


VIEWED["layers"] = run_layers


def run_tuned_bmm(device: str) -> None:
    """One batched product of which Inductor times a C++ template and the library."""
    compiled = torch.compile(torch.bmm, options={"max_autotune": True})
    compiled(torch.randn(4, 64, 48, device=device), torch.randn(4, 48, 32, device=device))


def rectified(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product with an epilogue."""
    return torch.relu(a @ b)


def run_tuned_mm(device: str) -> None:
    """One product of which Inductor has templates and the library to choose from."""
    half = {"device": device, "dtype": torch.bfloat16}
    torch.compile(rectified, options={"max_autotune": True})(torch.randn(512, 256, **half), torch.randn(256, 384, **half))


def added_rectified(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """A product with an epilogue of two operators, each on its own line."""
    product = a @ b
    positive = torch.relu(product)
    return positive + c


def run_cutlass_epilogue(device: str) -> None:
    """One product by a template of CUTLASS, with an epilogue in it; TORCHINDUCTOR_CUTLASS_DIR names a checkout of CUTLASS."""
    options = {
        "max_autotune": True,
        "max_autotune_gemm_backends": "CUTLASS",
        "benchmark_epilogue_fusion": False,
        "cutlass.cutlass_epilogue_fusion_enabled": True,
        "cutlass.cutlass_tma_only": True,
        "cutlass.cutlass_max_profiling_configs": 3,
    }
    half = {"device": device, "dtype": torch.float16}
    tensors = torch.randn(256, 512, **half), torch.randn(512, 256, **half), torch.randn(256, 256, **half)
    torch.compile(added_rectified, options=options)(*tensors)


def grouped(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """A grouped product, the only one that Inductor has a template in CuTe DSL for."""
    return torch._grouped_mm(a, b, offsets)


def run_cutedsl_grouped(device: str) -> None:
    """One grouped product by a template in CuTe DSL, for a B200; needs nvidia-cutlass-dsl."""
    half = {"device": device, "dtype": torch.bfloat16}
    offsets = torch.tensor([32, 64, 96, 128], dtype=torch.int32, device=device)
    options = {"max_autotune": True, "max_autotune_gemm_backends": "CUTEDSL"}
    torch.compile(grouped, options=options)(torch.randn(128, 64, **half), torch.randn(4, 64, 128, **half), offsets)


VIEWED |= {
    "cutedsl_grouped": run_cutedsl_grouped,
    "cutlass_epilogue": run_cutlass_epilogue,
    "tuned_bmm": run_tuned_bmm,
    "tuned_mm": run_tuned_mm,
}


def cosine(x: torch.Tensor) -> torch.Tensor:
    """A break, then an operator."""
    torch._dynamo.graph_break()
    return x.cos()


def times(x: torch.Tensor, n: int) -> torch.Tensor:
    """A number that each compile is made for, a break, and a call that breaks."""
    y = x * n
    torch._dynamo.graph_break()
    return cosine(y)


def run_limit(device: str) -> None:
    """Calls with four numbers, where two compiles are allowed."""
    compiled = torch.compile(times, backend="eager", dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        for n in range(2, 6):
            compiled(torch.ones(n, device=device), n)


VIEWED["limit"] = run_limit
