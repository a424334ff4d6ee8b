"""The peak that explorer.fits predicts against the allocator's, for models of transformers on the attached GPU.

    python benchmarks/fitting.py [--target h100]

Prints a row a model: predicted and measured bytes above the start of a step, their ratio, and how long the prediction took.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoModelForCausalLM

import explorer
from explorer.studies.fitting import models
from explorer.studies.fitting.regional import regional

WIDTHS = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 8, "num_attention_heads": 16}
MODELS = (
    ("LlamaConfig", {**WIDTHS, "num_key_value_heads": 8, "vocab_size": 32000}),
    ("Qwen2Config", {**WIDTHS, "num_key_value_heads": 4, "vocab_size": 32000}),
    ("Qwen3Config", {**WIDTHS, "num_key_value_heads": 4, "vocab_size": 32000, "head_dim": 128}),
    ("GPT2Config", {"n_embd": 1024, "n_layer": 8, "n_head": 16, "vocab_size": 50257}),
)
KINDS = (("prefill", False, None), ("training", True, None), ("training, AdamW", True, "adamw"))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--target", default="h100")
    options.add_argument("--batch", type=int, default=2)
    options.add_argument("--sequence", type=int, default=1024)
    given = options.parse_args()
    print(f"{'model':<12} {'kind':<16} {'predicted':>15} {'measured':>15} {'ratio':>7} {'took':>6}  peak in")
    for config, fields in MODELS:
        for kind, train, optimizer in KINDS:
            asked: dict[str, Any] = {"batch": given.batch, "sequence": given.sequence, "train": train, "optimizer": optimizer}
            fit = explorer.fits(config, target=given.target, **asked, **fields)
            said = predicted(fit)
            seen = measured(config, fields, given.batch, given.sequence, train, optimizer) if torch.cuda.is_available() else 0
            ratio = f"{said / seen:.4f}" if seen else "-"
            print(f"{config:<12} {kind:<16} {said:>15,} {seen:>15,} {ratio:>7} {fit.took:>5.0f}s  {fit.peak_at}", flush=True)


def predicted(fit: explorer.types.Fit) -> int:
    """The peak above what is there before a step: weights, the tokens, and what the optimizer keeps."""
    return fit.peak_bytes - fit.bytes_of("weights") - fit.bytes_of("inputs") - fit.bytes_of("optimizer state")


def measured(config: str, fields: dict[str, int], batch: int, sequence: int, train: bool, optimizer: str | None) -> int:
    """The most that is asked of the allocator in a step, above the start: after two that compile and make what libraries keep."""
    torch.compiler.reset()
    model = AutoModelForCausalLM.from_config(models.config_of(config, fields), dtype=torch.bfloat16).cuda().train(train)
    models.with_loss(model)
    ids = torch.randint(0, fields["vocab_size"], (batch, sequence), device="cuda")
    call: Callable[..., Any] = models.call_for_loss if train else models.call_for_logits
    regions = regional(model, call, (ids,), models.call_for_logits)
    regions.compile(lambda region: torch.compile(region, fullgraph=True))
    stepper = torch.optim.AdamW(model.parameters()) if optimizer else None

    def step() -> None:
        with torch.set_grad_enabled(train):
            result = regions(ids)
            if train:
                result.backward()
            if stepper is not None:
                stepper.step()
        del result
        model.zero_grad(set_to_none=True)

    for _ in range(2):
        step()
    gc.collect()
    torch.cuda.synchronize()
    start = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return int(torch.cuda.memory_stats()["requested_bytes.all.peak"]) - int(start)


if __name__ == "__main__":
    main()
