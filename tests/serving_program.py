"""A decoder compiled piece by piece, as vLLM and SGLang do it, on the same functions of torch.

The backend splits Dynamo's graph at attention, and hands each piece to `standalone_compile`: for any number of tokens, and once
more for each size of its own. A piece whose cache key was compiled before is not compiled again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch._functorch._aot_autograd import autograd_cache
from torch._inductor import compile_fx as inductor
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx.passes.split_module import split_module


@torch.library.custom_op("serving::attention", mutates_args=())
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend; a serving stack reads its KV cache here."""
    return torch.softmax(q @ k.T, -1) @ v


@attention.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(q)


class Layer(nn.Module):
    """One layer of a decoder, with a squared ReLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).split(self.width, -1)
        x = x + self.out(torch.ops.serving.attention(q, k, v))
        return x + self.down(torch.relu(self.up(x)).pow(2))


class Decoder(nn.Module):
    """An embedding of tokens, and layers that are alike."""

    def __init__(self, layers: int = 3, width: int = 16, words: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return x


class SquareByMul:
    """A pass that puts x * x in the place of x ** 2."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.pow.Tensor_Scalar):
            if node.args[1] == 2:
                node.target, node.args = torch.ops.aten.mul.Tensor, (node.args[0], node.args[0])


class Idle:
    """A pass that finds nothing to do."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        pass


class PassManager(CustomGraphPass):
    """Runs passes one after the other, after Inductor's own."""

    def __init__(self, passes: Sequence[Callable[[torch.fx.Graph], None]]) -> None:
        self.passes = passes

    def __call__(self, graph: torch.fx.Graph) -> None:
        for each in self.passes:
            each(graph)

    def uuid(self) -> str:
        return ", ".join(["passes", *(type(each).__name__ for each in self.passes)])


class StopCompiling(BaseException):
    """Ends the compile of a piece that was compiled before."""


class PiecewiseBackend:
    """The backend of torch.compile; `sizes` are numbers of tokens to compile the pieces for, besides any number.

    Pieces are compiled by `standalone_compile`, whose result can be saved, or else by `compile_fx`.
    """

    def __init__(
        self,
        sizes: Sequence[int] = (),
        passes: Sequence[Callable[[torch.fx.Graph], None]] = (),
        *,
        standalone: bool = True,
    ) -> None:
        self.sizes = sizes
        self.standalone = standalone
        self.options = {"config_patches": {"post_grad_custom_post_pass": PassManager(passes)}}
        self.compiled: dict[str, Callable[..., Any]] = {}
        self.reused = self.calls = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        numbers: dict[torch.fx.Node, int] = {}
        number, splitting = 0, set()
        for node in graph.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            is_attention = node.target in (torch.ops.serving.attention, torch.ops.serving.attention.default)
            if is_attention:
                number += 1
                splitting.add(f"submod_{number}")
            numbers[node] = number
            number += is_attention
        split = split_module(graph, None, numbers.__getitem__, keep_original_order=True)
        fake = torch._guards.detect_fake_mode(inputs)
        names = [name for name, _ in split.named_children() if name not in splitting]
        with fake:
            _CompilePieces(split, names, self).run(*(fake.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs))
        return split

    def compile(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], dynamic_shapes: str) -> Callable[..., Any]:
        """Compile a piece, or give what an equal piece was compiled to."""
        key, original = "", autograd_cache.autograd_cache_key

        def autograd_cache_key(*args: Any, **kwargs: Any) -> Any:
            nonlocal key
            found = original(*args, **kwargs)
            key = found[0]
            if key in self.compiled:
                raise StopCompiling
            return found

        with patch.object(autograd_cache, "autograd_cache_key", autograd_cache_key):
            try:
                if self.standalone:
                    made = torch._inductor.standalone_compile(graph, inputs, dynamic_shapes=dynamic_shapes, options=self.options)
                else:
                    made = inductor.compile_fx(copy.deepcopy(graph), inputs, **self.options)
            except StopCompiling:
                self.reused += 1
                return self.compiled[key]
        self.compiled[key] = made
        return made


class _CompilePieces(torch.fx.Interpreter):
    """Runs the split graph on fake tensors, and compiles each piece when it is called."""

    def __init__(self, split: torch.fx.GraphModule, names: Sequence[str], backend: PiecewiseBackend) -> None:
        super().__init__(split)
        self.names = names
        self.backend = backend

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        output = super().call_module(target, args, kwargs)
        if target in self.names:
            self.module.__dict__[target] = _Piece(self.fetch_attr(target), args, self.backend)
        return output


class _Piece:
    """A compiled piece: calls what was compiled for the number of tokens, or for any."""

    def __init__(self, graph: torch.fx.GraphModule, args: tuple[Any, ...], backend: PiecewiseBackend) -> None:
        self.symbol = next((n for n, x in enumerate(args) if isinstance(x, torch.SymInt)), None)
        self.any_size = backend.compile(graph, args, "from_graph")
        self.by_size = {size: backend.compile(graph, _of_size(args, size), "from_example_inputs") for size in backend.sizes}

    def __call__(self, *args: Any) -> Any:
        size = args[self.symbol] if self.symbol is not None else None
        return self.by_size.get(size, self.any_size)(*args)


def _of_size(args: tuple[Any, ...], size: int) -> list[Any]:
    """The inputs of a piece for one number of tokens."""

    def fixed(length: Any) -> int:
        return size if isinstance(length, torch.SymInt) else length

    return [
        torch.empty([*map(fixed, x.shape)], dtype=x.dtype, device=x.device) if isinstance(x, torch.Tensor) else fixed(x)
        for x in args
    ]
