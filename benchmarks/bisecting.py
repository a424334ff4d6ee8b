"""Plant numeric faults at each level of the compiler and let `Trace.bisect` find them; without a fault it must be silent.

    python benchmarks/bisecting.py cpu            # or h100, or cuda where a GPU is attached
    python benchmarks/bisecting.py h100 --only decomposition pattern

One line per program: "found" where the launch, and the lowering, pass, pattern or decomposition that was planted are named, else
"missed"; "right" where nothing is said of a program without a fault, else "false alarm". The last line counts them.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.nn import functional

import explorer
from explorer.lab.live.protocol import needs_live

aten = torch.ops.aten
Built = tuple[Callable[..., Any], tuple[Any, ...]]


class Block(nn.Module):
    """A feed-forward layer with a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.norm(functional.gelu(self.up(x)))).softmax(-1) + x


class Attention(nn.Module):
    """Attention of two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 8, 16)


class Convolved(nn.Module):
    """A convolution with a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)


class Logits(nn.Module):
    """The logits of a language model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(tokens).logits
        return logits


def gpt2(layers: int) -> Built:
    """GPT-2 with a small hidden size, and tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=layers, n_embd=32, n_head=2, vocab_size=64, n_positions=16, use_cache=False,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return Logits(GPT2LMHeadModel(config)), (torch.randint(0, 64, (1, 8)),)


def of(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Callable[[], Built]:
    """A function or a module's class on normally distributed numbers."""

    def build() -> Built:
        torch.manual_seed(0)
        made = function() if isinstance(function, type) else function
        return made, tuple(torch.randn(shape).to(dtype).requires_grad_() for shape in shapes)

    return build


def in_place(x: torch.Tensor) -> torch.Tensor:
    """Rows are added twice to memory that nothing else reads."""
    rows = x[:5].exp()
    at = torch.arange(5, device=x.device) // 2
    return x.sin().index_put((at,), rows, accumulate=True).cos().index_put((at + 1,), rows, accumulate=True).sum(0)


def in_a_copy(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows are added to a copy, since the original is read later."""
    at = torch.arange(5, device=x.device) // 2
    y = x.sin()
    return y.index_put((at,), x[:5], accumulate=True), y.scatter_add(0, at[:, None].expand(5, 4), x[:5]) * y


def in_a_view(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Parts of a tensor are written through views of it."""
    y = x.sin()
    y[1:3] = 0
    y[:, ::2] += 1
    y[:4].t().copy_(x[4:] * 2)
    return y.cos(), y


#: Programs without a fault.
RIGHT: dict[str, Callable[[], Built]] = {
    "block": of(Block, (8, 16)),
    "attention": of(Attention, (2, 8, 16)),
    "convolution": of(Convolved, (2, 3, 8, 8)),
    "views": of(lambda x, y: ((x.softmax(-1) * y).view(-1, 4).sum(0), x.t() + 1), (12, 16), (12, 16)),
    "joined": of(lambda x, y: torch.cat([x.sin(), y.cos()], 1).relu() @ y.t().repeat(2, 1), (12, 16), (12, 16)),
    "split reduction": of(lambda x: (x * 2).sum().sin(), (1 << 18,)),
    "bfloat16": of(lambda x, y: functional.gelu(x @ y).softmax(-1), (16, 32), (32, 16), dtype=torch.bfloat16),
    "float16": of(lambda x: functional.layer_norm(x, (32,)).tanh(), (16, 32), dtype=torch.float16),
    "dropout": of(lambda x: (functional.dropout(x.sin(), 0.5) * x, x.cos()), (64, 8)),
    "embedding": of(lambda w: functional.embedding(torch.arange(8, device=w.device) % 5, w).exp().logsumexp(0), (5, 16)),
    "cumulative": of(lambda x: x.cumsum(0) / (x.abs().cumsum(0) + 1), (32, 8)),
    "indices": of(lambda x: x.gather(1, x.argsort(1)).diff(dim=1).clamp(-1, 1), (8, 16)),
    "in place": of(in_place, (8, 4)),
    "in place of a copy": of(in_a_copy, (8, 4)),
    "in place of a view": of(in_a_view, (8, 4)),
}
#: The program in which faults are planted.
PLANTED = of(lambda x, y: ((functional.gelu(x) @ y).sin().softmax(-1) * 0.5, functional.silu(x)), (8, 16), (16, 16))


@contextmanager
def in_lowering() -> Iterator[None]:
    """The sine is lowered to one that is off by a thousandth."""
    from torch._inductor import lowering
    from torch._inductor.virtualized import ops

    wrong = lowering.make_pointwise(lambda x: ops.mul(ops.sin(x), ops.constant(1.001, torch.float32)))
    with mock.patch.dict(lowering.lowerings, {aten.sin.default: wrong}):
        yield


@contextmanager
def in_lowering_in_place() -> Iterator[None]:
    """Rows are put in place of others where they are to be added."""
    from torch._inductor import lowering

    right = lowering.lowerings[aten.index_put_.default]

    def wrong(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
        return right(x, indices, values, False)

    with mock.patch.dict(lowering.lowerings, {aten.index_put_.default: wrong}):
        yield


@contextmanager
def in_decomposition() -> Iterator[None]:
    """The gelu is decomposed with another constant."""
    from torch._inductor import decomposition

    def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
        return x * 0.5 * (1 + torch.erf(x * 0.7))

    decomposition.fast_random_decomps.cache_clear()
    with mock.patch.dict(decomposition.decompositions, {aten.gelu.default: gelu}):
        yield
    decomposition.fast_random_decomps.cache_clear()


@contextmanager
def in_pass() -> Iterator[None]:
    """A pass after autograd changes a constant."""
    from torch._inductor import config
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Wrong(CustomGraphPass):
        def __call__(self, graph: Any) -> None:
            for node in graph.nodes:
                if node.target is aten.sin.default:
                    node.target = aten.tan.default

        def uuid(self) -> str:
            return "wrong"

    with config.patch(post_grad_custom_post_pass=Wrong()):
        yield


@contextmanager
def in_pattern() -> Iterator[None]:
    """A pattern replaces the sine by something else."""
    from torch._inductor import config
    from torch._inductor.custom_graph_pass import CustomGraphPass
    from torch._inductor.pattern_matcher import Arg, CallFunction, Match, PatternMatcherPass, register_graph_pattern

    patterns = PatternMatcherPass()

    @register_graph_pattern(CallFunction(aten.sin.default, Arg()), pass_dict=patterns)
    def sine_as_tangent(match: Match, x: Any) -> None:
        match.replace_by_example(lambda x: torch.ops.aten.tan.default(x), [x])

    class Wrong(CustomGraphPass):
        def __call__(self, graph: Any) -> None:
            patterns.apply(graph)

        def uuid(self) -> str:
            return "wrong pattern"

    with config.patch(post_grad_custom_post_pass=Wrong()):
        yield


@contextmanager
def in_text(trace: Any, before: str, after: str) -> Iterator[str]:
    """A kernel of a trace is compiled of another text; gives its name."""
    from explorer.capture.splice.kernels import compiled, kernel_text
    from explorer.capture.splice.wrappers import replaced_kernels

    live = needs_live(trace, "")
    kernel = next(k for k in trace.kernels if before in k.source)
    wrapper = next(w for w in live.wrappers if f"{kernel.name} = " in w.text)
    text = kernel.source.replace(before, after, 1)
    wrong = compiled(kernel_text(wrapper, kernel.name, text, kernel.language))

    def put(standing: Any) -> Any:
        # one that is interpreted runs in whichever interpreter runs the others
        return replace(wrong, wrappers=standing.wrappers) if hasattr(wrong, "wrappers") else wrong

    with replaced_kernels([(wrapper, kernel.name, put)]):
        yield kernel.name


def found_at(level: str, target: str, build: Callable[[], Built] = PLANTED, train: bool = False) -> tuple[str, Any]:
    """Plant a fault at a level: "found" or what is wrong, and the bisection."""
    contexts = {
        "lowering": in_lowering,
        "lowering in place": in_lowering_in_place,
        "decomposition": in_decomposition,
        "pass": in_pass,
        "pattern": in_pattern,
    }
    names = {
        "lowering": ("lowerings", "sin"),
        "lowering in place": ("lowerings", "index_put"),
        "decomposition": ("decomposition", "aten.gelu.default"),
        "pass": ("post_grad_passes", "post_grad_custom_post_pass"),
        "pattern": ("patterns", "sine_as_tangent"),
    }
    function, arguments = build()
    with contexts[level]():
        result = explorer.trace(function, *arguments, train=train, target=target).bisect()
    named = (result.cause.kind, result.cause.name) if result.cause else ("", "")
    is_found = named[0] == names[level][0] and names[level][1] in named[1] and (result.first is not None) == ("lowering" in level)
    return "found" if is_found else "missed", result


def found_in_text(build: Callable[[], Built], target: str, before: str, after: str, train: bool = False) -> tuple[str, Any]:
    """Plant a fault in the text of a kernel."""
    function, arguments = build()
    trace = explorer.trace(function, *arguments, train=train, target=target)
    with in_text(trace, before, after) as name:
        result = trace.bisect()
    first = result.first
    is_found = first is not None and first.kernel == name and any(before in text for _, text in first.kernel_lines)
    return "found" if is_found else "missed", result


def silent(build: Callable[[], Built], target: str, train: bool) -> tuple[str, Any]:
    """Bisect a program without a fault."""
    function, arguments = build()
    if not train:
        arguments = tuple(a.detach() for a in arguments)
    result = explorer.trace(function, *arguments, train=train, target=target).bisect()
    compared = [row for row in result.table if row["equal"] is not None]
    return "false alarm" if result.off else "right" if compared else "nothing compared", result


def steps(target: str) -> Iterator[tuple[str, str, Callable[[], tuple[str, Any]]]]:
    """(level, name, what runs it) of each program."""
    for level in ("lowering", "decomposition", "pass", "pattern"):
        yield level, "planted", lambda level=level: found_at(level, target)  # type: ignore[misc]
    yield "lowering in place", "planted", lambda: found_at("lowering in place", target, of(in_place, (8, 4)))
    yield "lowering", "planted, trained", lambda: found_at("lowering", target, train=True)
    layers = 12 if target in ("cpu", "cuda") else 1
    for train in (False, True):
        name = f"GPT-2 of {layers} layers{', trained' if train else ''}"
        yield "text", name, lambda train=train: found_in_text(lambda: gpt2(layers), target, "0.7978845608", "0.79", train)  # type: ignore[misc]
    for name, build in RIGHT.items():
        for train in (False, True):
            label = f"{name}{', trained' if train else ''}"
            yield "right", label, lambda build=build, train=train: silent(build, target, train)  # type: ignore[misc]


def main() -> int:
    """Run the programs and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="cpu, cuda, or a GPU such as h100")
    levels = ("lowering", "lowering in place", "decomposition", "pass", "pattern", "text", "right")
    parser.add_argument("--only", nargs="+", default=levels, choices=levels)
    parser.add_argument("--match", default="", help="only programs whose name has this word")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: dict[str, int] = {}
    for level, name, run in steps(options.target):
        if level not in options.only or options.match not in name:
            continue
        began = time.perf_counter()
        try:
            kind, result = run()
        except Exception as error:  # noqa: BLE001 a benchmark says what failed and goes on
            kind, result = "failed", f"{type(error).__name__}: {error}"
        counts[kind] = counts.get(kind, 0) + 1
        print(f"{kind:12} {time.perf_counter() - began:6.1f} s  {level:13} {name}", flush=True)
        if kind not in ("found", "right"):
            print(result, flush=True)
        elif level == "right":
            left_out = {str(row["note"]) for row in result.table if row["equal"] is None}
            print(*(f"    {note}" for note in sorted(left_out)), sep="\n", end="\n" if left_out else "", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return int(not counts or not set(counts) <= {"found", "right"})


if __name__ == "__main__":
    sys.exit(main())
