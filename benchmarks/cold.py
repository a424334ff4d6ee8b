"""Compile three models from nothing as they are and as the advice says, and print the seconds before and after.

The models are for a named GPU that need not be here, so no C++ is compiled. Before and after take turns, each in a process of
its own with empty caches. Nothing is asserted: the table is to be read.

    python benchmarks/cold.py
    python benchmarks/cold.py --models gpt2 --layers 12 --train
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

Built = tuple[Any, tuple[Any, ...]]


def gpt2(layers: int) -> Built:
    """GPT-2 of small width, with its language model head and no key-value cache."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=layers, n_embd=64, n_head=4, vocab_size=512, bos_token_id=0, eos_token_id=1, use_cache=False)
    return GPT2LMHeadModel(config).eval(), (torch.randint(0, 512, (1, 64)),)


def llama(layers: int) -> Built:
    """Llama of small width, with its language model head and no key-value cache."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 512}
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, use_cache=False, **sizes)).eval(), (
        torch.randint(0, 512, (1, 64)),
    )


class Residual(nn.Module):
    """A residual block: group norm, SiLU and convolution, twice."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(4, channels) for _ in range(2))
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x: Any) -> Any:
        y = x
        for norm, conv in zip(self.norms, self.convs, strict=True):
            y = conv(nn.functional.silu(norm(y)))
        return x + y


def residual(layers: int) -> Built:
    """A network of residual blocks, as in a U-Net for diffusion."""
    import torch

    return nn.Sequential(*(Residual(32) for _ in range(layers))).eval(), (torch.randn(1, 32, 16, 16),)


MODELS: Mapping[str, Callable[[int], Built]] = {"gpt2": gpt2, "llama": llama, "residual": residual}


def rows_of(name: str, options: argparse.Namespace) -> list[str]:
    """Trace a model, prove the advice on its compile, and return a row per verdict."""
    import explorer
    from explorer.analysis.advice.compiling import KINDS

    model, inputs = MODELS[name](options.layers)
    trace = explorer.trace(model, *inputs, target=options.target, train=options.train)
    print(f"{name}, {options.layers} layers\n{trace.compiler.summary()}\n", flush=True)
    rows = []
    for verdict in (verdict for verdict in trace.advise(prove=True) if verdict.kind in KINDS):
        proof = verdict.proof
        print(f"{verdict.title}\n  do: {verdict.remedy}\n  proof: {proof or verdict.why_unproved}\n", flush=True)
        if proof and proof.before and proof.after:
            cells = (name, verdict.title, f"{proof.before:.2f}", f"{proof.after:.2f}", f"{proof.after / proof.before:.2f}")
            rows.append(f"| {' | '.join(cells)} |")
    return rows or [f"| {name} | nothing stands out | | | |"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the advice on each model, and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--layers", type=int, default=8, help="blocks of each model (default 8)")
    parser.add_argument("--target", default="h100", help="a GPU that need not be here (default h100)")
    parser.add_argument("--train", action="store_true", help="a training step in place of inference")
    options = parser.parse_args(arguments)
    rows = [row for name in options.models for row in rows_of(name, options)]
    print("\n".join(["| model | advice | seconds before | after | ratio |", "| --- | --- | --- | --- | --- |", *rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
