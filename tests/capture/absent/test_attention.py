"""Which attention operator a GPU you don't have gets, against what torch's own CUDA build decided for it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.absent.absent_gpu import pretending

pytest.importorskip("triton")

TESTS = Path(__file__).parents[2]
RELEASE = ".".join(torch.__version__.split(".")[:2])


@pytest.fixture(scope="module")
def attention(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """`tests/attention_cases.py` as a module."""
    return module_at(TESTS / "attention_cases.py")


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """Return what the CUDA build of this release decided: for each GPU one letter a case."""
    file = TESTS / "data" / f"attention-choice-torch{RELEASE}.json.gz"
    if not file.exists():
        pytest.skip(f"tests/record_attention.py was not run with torch {RELEASE}")
    found: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return found


def decided(attention: ModuleType, target: str) -> str:
    """Return the letters that traces for a target give."""
    with pretending(explorer.Target.parse(target)):
        letters: str = attention.decided(attention.cases())
        return letters


@pytest.mark.parametrize("target", ["v100", "t4", "a100", "rtx4090", "h100", "b200", "rtx5090"])
def test_the_operator_is_the_one_torch_takes_on_that_gpu(attention: ModuleType, recorded: dict[str, Any], target: str) -> None:
    """Dtypes × masks × is_causal × head sizes × dropout × training, lengths, numbers of heads, layouts: all the same."""
    cases = list(attention.cases())
    real, ours = recorded[target], decided(attention, target)
    assert len(real) == len(ours) == len(cases)
    assert [(case, one, other) for case, one, other in zip(cases, real, ours, strict=True) if one != other] == []


def test_the_recordings_hold_every_operator(recorded: dict[str, Any]) -> None:
    """On Hopper and Blackwell all four are taken by some case, before Ampere neither cuDNN's nor flash attention."""
    assert set(recorded["h100"]) == set(recorded["b200"]) >= set("cfem")
    assert set(recorded["a100"]) >= set("fem") and set(recorded["t4"]) & set("cfem") == set("em")


def test_on_amd_flash_and_efficient_attention_are_those_of_aotriton(attention: ModuleType) -> None:
    """No cuDNN; a mask, or is_causal with other lengths of keys, keeps flash out; float32 is efficient; float64 is math."""
    Case = attention.Case
    wanted = {
        Case(torch.bfloat16): "f",
        Case(torch.float16, grad=True): "f",
        Case(torch.bfloat16, dropout=0.1): "f",
        Case(torch.bfloat16, causal=True): "f",
        Case(torch.bfloat16, causal=True, lengths=(32, 64)): "e",
        Case(torch.bfloat16, "bool"): "e",
        Case(torch.float32): "e",
        Case(torch.float32, "same", dropout=0.1): "e",
        Case(torch.float64): "m",
        Case(torch.bfloat16, size=(520, 520)): "m",
        Case(torch.bfloat16, "bool", size=(64, 128)): "m",
    }
    with pretending(explorer.Target.parse("mi300x")):
        assert dict(zip(wanted, attention.decided(wanted), strict=True)) == wanted


@pytest.mark.parametrize(
    ("dropout", "mask", "operator"), [(0.25, "", "c"), (0.1, "", "f"), (0.1, "bool", "e"), (0.0, "bool", "c")]
)
def test_a_dropout_that_cudnn_would_round_keeps_it_out(attention: ModuleType, dropout: float, mask: str, operator: str) -> None:
    """cuDNN drops in steps of 1/16: from torch 2.12 on 0.1, which GPT-2 and BERT have, is another operator's."""
    wanted = "c" if RELEASE == "2.11" else operator
    with pretending(explorer.Target.parse("h100")):
        assert attention.decided([attention.Case(torch.bfloat16, mask, dropout=dropout)]) == wanted
