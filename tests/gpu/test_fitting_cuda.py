"""On an attached NVIDIA GPU: the peak that explorer.fits predicts is what torch's allocator gives out in the same regions."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

import explorer

FILE = Path(__file__).parents[2] / "benchmarks" / "fitting.py"
pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]

LLAMA = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 6,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 8192,
}
GPT2 = {"n_embd": 768, "n_layer": 6, "n_head": 12, "vocab_size": 8192}
BATCH, SEQUENCE = 4, 512


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The benchmark, which measures the same of larger models."""
    spec = importlib.util.spec_from_file_location("fitting_benchmark", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("config", "fields", "train", "optimizer"),
    [
        ("LlamaConfig", LLAMA, False, None),
        ("LlamaConfig", LLAMA, True, None),
        ("LlamaConfig", LLAMA, True, "adamw"),
        ("GPT2Config", GPT2, True, None),
    ],
    ids=["llama prefill", "llama training", "llama training with adamw", "gpt2 training"],
)
def test_the_peak_is_what_the_allocator_gave_out(
    bench: ModuleType, config: str, fields: dict[str, int], train: bool, optimizer: str | None
) -> None:
    """The prediction for a GPU by name is within 3 % of what is asked of the attached one's allocator, before it rounds."""
    name = "h200" if "H200" in torch.cuda.get_device_name() else "h100"
    fit = explorer.fits(config, target=name, batch=BATCH, sequence=SEQUENCE, train=train, optimizer=optimizer, **fields)
    said = bench.predicted(fit)
    seen = bench.measured(config, fields, BATCH, SEQUENCE, train, optimizer)
    print(
        f"\n{config} train={train} optimizer={optimizer}: predicted {said:,}, measured {seen:,}, {said / seen:.4f}, {fit.peak_at}"
    )
    assert said == pytest.approx(seen, rel=0.03)
