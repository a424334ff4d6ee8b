"""Ask `t.advise()` about forty programs with one planted slowness each, and about fifty-one that are fine.

    python benchmarks/advice.py                 every program, one row each
    python benchmarks/advice.py --only float64  programs whose name has one of these parts
    python benchmarks/advice.py --pages         the page of each, too

The oracle is the plant: each program is a usual one with one known mistake, and the kind of verdict that names it was written
down with the program. A planted program counts if the first verdict is of that kind. A fine one counts if there is no verdict.
All sizes are those of real models. For a GPU you don't have the tensors are on the meta device and need no memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

#: The least number of the planted programs whose plant is to be named first.
WANTED = 12


@dataclass(frozen=True)
class Program:
    """A program: the kinds of verdict that name its plant, () for a fine one, and a function that gives its trace."""

    name: str
    kinds: tuple[str, ...]
    about: str
    trace: Callable[[], Any]


def programs() -> tuple[Program, ...]:
    """Collect the programs, the planted ones first."""
    return (*dynamo(), *graphs(), *memory(), *kernels(), *unseen(), *fine(), *operators())


def on_h100(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Trace for an H100, which need not be here."""
    import explorer

    return explorer.trace(fn, *args, target="h100", **kwargs)


def meta(*size: int, dtype: str = "bfloat16") -> Any:
    """Make a tensor without data."""
    import torch

    return torch.empty(*size, device="meta", dtype=getattr(torch, dtype))


def mlp(width: int = 4096, dtype: str = "bfloat16", device: str = "meta") -> Any:
    """Make the MLP of a transformer."""
    import torch

    layers = (torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))
    return torch.nn.Sequential(*layers).to(device=device, dtype=getattr(torch, dtype))


# Dynamo ------------------------------------------------------------------------------------------------------------------


def dynamo() -> tuple[Program, ...]:
    """Programs whose plant is before Inductor: a graph break, recompiles."""
    return (
        Program("break", ("graph break",), "a log line between two layers", logged),
        Program("recompiles", ("recompiles",), "a counter of the module's, read in forward (a known trap)", counted),
    )


def logged() -> Any:
    import torch

    class Logged(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = mlp(1024, device="cpu"), mlp(1024, device="cpu")

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            print("activations", x.shape)
            return self.second(x)

    return on_h100(Logged(), torch.randn(64, 1024, dtype=torch.bfloat16))


def counted() -> Any:
    import torch

    import explorer

    class Counted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(64, 64)
            self.temperature = 1.0

        def forward(self, x: Any) -> Any:
            self.temperature *= 0.99
            return torch.softmax(self.layer(x) / self.temperature, -1)

    torch._dynamo.reset()
    model = torch.compile(Counted())
    with torch.no_grad(), explorer.record(target="h100") as recording:
        for _ in range(4):
            model(torch.randn(32, 64))
    torch._dynamo.reset()
    return recording.trace


# Graphs ------------------------------------------------------------------------------------------------------------------


def graphs() -> tuple[Program, ...]:
    """Programs whose plant is how their graph runs: CUDA graphs, launches, fallbacks, precision, fusion."""
    return (
        Program("cudagraphs", ("CUDA graphs skipped",), "reduce-overhead on a cache that is updated in place", cached_decode),
        Program("tiny", ("launch bound",), "an LSTM cell written out over 16 steps, batch 8", lstm),
        Program("fallback", ("fallback",), "fallback_random left on from a debugging session", random_fallback),
        Program("tf32", ("slow precision",), "float32 products at torch's default precision", float32),
        Program("unfused", ("fusion missed",), "max_fusion_size left at 1 from a search for a bug", unfused),
    )


def cached_decode() -> Any:
    import torch

    def decode(cache: Any, x: Any, weight: Any) -> Any:
        cache[:, -1].copy_(x @ weight)
        return torch.softmax(cache.float().mean(1), -1)

    return on_h100(decode, meta(8, 128, 1024), meta(8, 1024), meta(1024, 1024), mode="reduce-overhead")


def lstm() -> Any:
    import torch

    class Unrolled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.input, self.hidden = torch.nn.Linear(64, 512), torch.nn.Linear(128, 512)

        def forward(self, xs: Any, h: Any, c: Any) -> Any:
            for x in xs.unbind(1):
                i, f, g, o = (self.input(x) + self.hidden(h)).chunk(4, -1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
            return h

    model = Unrolled().to(device="meta", dtype=torch.bfloat16)
    return on_h100(model, meta(8, 16, 64), meta(8, 128), meta(8, 128))


def random_fallback() -> Any:
    import torch

    def noisy(x: Any, weight: Any) -> Any:
        x = torch.nn.functional.dropout(torch.nn.functional.gelu(x), 0.1, True)
        return x @ weight

    return on_h100(noisy, meta(16384, 4096), meta(4096, 512), options={"fallback_random": True})


def float32() -> Any:
    return on_h100(mlp(dtype="float32"), meta(8192, 4096, dtype="float32"))


def unfused() -> Any:
    import torch

    def gated(x: Any, gate: Any, scale: Any, bias: Any) -> Any:
        mean = x.float().mean(-1, keepdim=True)
        y = (x - mean) * torch.rsqrt(x.float().var(-1, keepdim=True) + 1e-5)
        y = y * scale + bias
        return (y * torch.sigmoid(gate)).bfloat16()

    return on_h100(gated, meta(16384, 4096), meta(16384, 4096), meta(4096), meta(4096), options={"max_fusion_size": 1})


# Memory ------------------------------------------------------------------------------------------------------------------


def memory() -> tuple[Program, ...]:
    """Programs whose plant is what they move: materialised buffers, layouts, casts, float64, strided reads."""
    return (
        Program(
            "attention", ("buffer materialised",), "attention with its scores in memory, in a form that no pattern knows", scores
        ),
        Program("layout", ("layout copied",), "heads made contiguous before attention", contiguous_heads),
        Program("cast", ("dtype cast",), "autocast over float32 weights, cast again at each call", autocast_weights),
        Program("float64", ("float64",), "a position table that NumPy made, in float64", numpy_positions),
        Program("strided", ("uncoalesced",), "two fields of a table of records, 128 bytes a record", records),
    )


def scores() -> Any:
    import torch

    def attend(q: Any, k: Any, v: Any, slopes: Any) -> Any:
        s = (q @ k.transpose(-1, -2)).float() / 8.0
        at = torch.arange(s.shape[-1], device=s.device)
        s = s - slopes[:, None, None] * (at[:, None] - at[None, :]).abs()
        return torch.softmax(torch.tanh(s / 30) * 30, -1).to(v.dtype) @ v

    heads = [meta(4, 16, 2048, 64) for _ in range(3)]
    return on_h100(attend, *heads, meta(16, dtype="float32"))


def contiguous_heads() -> Any:
    import torch

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.out = (torch.nn.Linear(512, 512, bias=False) for _ in range(4))

        def forward(self, x: Any) -> Any:
            q, k, v = (f(x).view(*x.shape[:2], 8, 64).transpose(1, 2).contiguous() for f in (self.q, self.k, self.v))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            return self.out(y.transpose(1, 2).contiguous().view(x.shape))

    return on_h100(Attention().to(device="meta", dtype=torch.bfloat16), meta(64, 256, 512))


def autocast_weights() -> Any:
    import torch

    class Autocast(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mlp = mlp(dtype="float32")

        def forward(self, x: Any) -> Any:
            with torch.autocast("cuda", torch.bfloat16):
                return self.mlp(x)

    return on_h100(Autocast(), meta(64, 4096, dtype="float32"))


def numpy_positions() -> Any:
    import torch

    def embed(x: Any, table: Any, scale: Any) -> Any:
        y = x + table[: x.shape[1]]
        return torch.nn.functional.layer_norm(y, (x.shape[-1],)), (y * scale).relu()

    return on_h100(embed, meta(16, 2048, 1024), meta(4096, 1024, dtype="float64"), meta(1024))


def records() -> Any:
    def area(boxes: Any) -> Any:
        return (boxes[:, 2] - boxes[:, 0]).clamp(min=0) * (boxes[:, 3] - boxes[:, 1]).clamp(min=0)

    return on_h100(area, meta(1 << 22, 32, dtype="float32"))


# Kernels -----------------------------------------------------------------------------------------------------------------


def kernels() -> tuple[Program, ...]:
    """Programs whose plant is in a kernel: spills, idle multiprocessors, C++ without vectors."""
    return (
        Program("spills", ("spills",), "a hand-written product whose tile is too large for its warps", wide_tile),
        Program("idle", ("low occupancy",), "a hand-written scale, a program for 8 million elements", few_programs),
        Program("scalar", ("not vectorised",), "a diffraction pattern: a Bessel function, lane by lane", diffraction),
    )


def wide_tile() -> Any:
    import torch

    source = beside("advice_kernels")

    def product(a: Any, b: Any) -> Any:
        out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        grid = (a.shape[0] // 256, b.shape[1] // 256)
        source.product[grid](a, b, out, a.shape[0], b.shape[1], a.shape[1], BM=256, BN=256, BK=32, num_warps=4, num_stages=2)
        return torch.relu(out)

    return on_h100(product, meta(2048, 2048), meta(2048, 2048))


def few_programs() -> Any:
    import torch

    source = beside("advice_kernels")

    def scaled(x: Any) -> Any:
        out = torch.empty_like(x)
        source.scaled[(x.numel() // (1 << 23),)](x, out, EACH=1 << 23, BLOCK=1024)
        return out

    return on_h100(scaled, meta(1 << 26, dtype="float32"))


def diffraction() -> Any:
    import torch

    import explorer

    def airy(x: Any, scale: Any) -> Any:
        x = x * scale + 1e-3
        return (2 * torch.special.bessel_j1(x) / x) ** 2

    return explorer.trace(airy, torch.rand(1 << 20), torch.rand(1 << 20), target="cpu")


def beside(name: str) -> Any:
    """Import a file beside this one; of hand-written kernels triton reads the source from it."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Programs that no threshold was chosen with ------------------------------------------------------------------------------


def unseen() -> tuple[Program, ...]:
    """Five more programs with a plant, and six that are fine, each run first when the advice was there."""
    import explorer

    models = beside("advice_models")
    return (
        Program("routed", ("graph break",), "a tensor asked in Python which expert is wanted", lambda: on_h100(*models.routed())),
        Program("tagged", ("recompiles",), "a text of the request in forward", lambda: models.recorded(models.appended())),
        Program("projected", ("dtype cast",), "float32 weights, .to(x.dtype)", lambda: on_h100(*models.cast_weights())),
        Program("t5", ("buffer materialised",), "T5's attention by einsum", lambda: on_h100(*models.relative_attention())),
        Program("preview", ("uncoalesced",), "a preview by slicing every eighth pixel", lambda: on_h100(*models.thinned())),
        Program("fine: llama", (), "a layer of Llama 3", lambda: on_h100(*models.llama())),
        Program("fine: complex", (), "the same, turned by complex numbers", lambda: on_h100(*models.complex_llama())),
        Program("fine: vit", (), "two layers of ViT-B/16", lambda: on_h100(*models.vit())),
        Program("fine: convnext", (), "two blocks of ConvNeXt", lambda: on_h100(*models.convnext())),
        Program("fine: denoiser", (), "a block of a diffusion model", lambda: on_h100(*models.denoiser())),
        Program("fine: gate", (), "a norm and a gate, on the CPU", lambda: explorer.trace(*models.gated_norm(), target="cpu")),
    )


# A program for each kind of operator -------------------------------------------------------------------------------------


def operators() -> tuple[Program, ...]:
    """The sixty small programs of `advice_operators.py`: a third has a plant."""
    import torch

    small = beside("advice_operators")
    with torch.device("meta"):  # no weight is allocated
        cases = [(f"op: {name}", *rest) for name, *rest in small.planted()]
        cases += [(f"fine op: {name}", *rest) for name, *rest in small.fine()]
    return tuple(
        Program(name, kinds, "", partial(on_h100, program, *inputs, **keywords))
        for name, kinds, program, inputs, keywords in cases
    )


# Programs that are fine --------------------------------------------------------------------------------------------------


def fine() -> tuple[Program, ...]:
    """Programs as PyTorch's own documentation would write them."""
    return (
        Program("fine: block", (), "a transformer block: bfloat16, fused attention", block),
        Program("fine: mlp", (), "an MLP in bfloat16", lambda: on_h100(mlp(), meta(8192, 4096))),
        Program("fine: norm", (), "a residual, a layer norm and a gate, one kernel", norm),
        Program("fine: convnet", (), "residual convolutions in bfloat16, channels last", convnet),
        Program("fine: cpu", (), "softmax of scaled scores, on the CPU", softmax),
    )


def block() -> Any:
    import torch

    class Block(torch.nn.Module):
        def __init__(self, width: int = 2048, heads: int = 16) -> None:
            super().__init__()
            self.heads = heads
            self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.mlp = mlp(width)

        def forward(self, x: Any) -> Any:
            b, s, w = x.shape
            q, k, v = self.qkv(self.norms[0](x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, s, w))
            return x + self.mlp(self.norms[1](x))

    return on_h100(Block().to(device="meta", dtype=torch.bfloat16), meta(8, 2048, 2048))


def norm() -> Any:
    import torch

    def forward(x: Any, residual: Any, gate: Any, weight: Any, bias: Any) -> Any:
        x = x + residual
        return x, torch.nn.functional.layer_norm(x, (4096,), weight, bias) * torch.sigmoid(gate)

    return on_h100(forward, *(meta(16384, 4096) for _ in range(3)), meta(4096), meta(4096))


def convnet() -> Any:
    import torch

    class Residual(torch.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.convs = torch.nn.ModuleList(torch.nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
            self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(width) for _ in range(2))

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.norms[0](self.convs[0](x)))
            return torch.relu(x + self.norms[1](self.convs[1](y)))

    model = torch.nn.Sequential(Residual(128), Residual(128)).eval().to(device="meta", dtype=torch.bfloat16)
    images = meta(128, 128, 56, 56).to(memory_format=torch.channels_last)
    return on_h100(model.to(memory_format=torch.channels_last), images)


def softmax() -> Any:
    import torch

    import explorer

    def attention_weights(scores: Any, bias: Any) -> Any:
        return torch.softmax(scores * 0.125 + bias, -1)

    return explorer.trace(attention_weights, torch.rand(512, 2048), torch.rand(2048), target="cpu")


# Asking ------------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--pages", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [p for p in programs() if any(part in p.name for part in asked.only)]
    right = [row(program, pages=asked.pages) for program in chosen]
    planted = [good for program, good in zip(chosen, right, strict=True) if program.kinds]
    silent = [good for program, good in zip(chosen, right, strict=True) if not program.kinds]
    print(f"named first: {sum(planted)} of {len(planted)}; silent on {sum(silent)} of {len(silent)}")


def row(program: Program, *, pages: bool) -> bool:
    """Print what was advised on a program, and tell whether that is right."""
    advice = program.trace().advise()
    first = advice[0].kind if advice else ""
    right = first in program.kinds if program.kinds else not advice
    others = ", ".join(verdict.kind for verdict in advice[1:])
    print(
        f"{'ok ' if right else 'NOT'}  {program.name:14}  first: {first or '(silent)':22}  then: {others:50}  {program.about}",
        flush=True,
    )
    if pages:
        print(advice)
    return right


if __name__ == "__main__":
    main()
