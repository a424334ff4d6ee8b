"""On an attached NVIDIA GPU: faults are bisected to the kernel and the lowering, and right programs are left in peace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
]
FILE = Path(__file__).parents[2] / "benchmarks" / "bisecting.py"


@pytest.fixture
def script(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The script that plants the faults."""
    return module_at(FILE)


@pytest.mark.parametrize("level", ["lowering", "decomposition", "pass", "pattern"])
def test_a_planted_fault_is_found_on_the_gpu(level: str, script: ModuleType) -> None:
    """The part of the compiler that has the fault is named."""
    kind, result = script.found_at(level, "cuda")
    assert kind == "found", result


def test_a_fault_in_one_kernel_of_twelve_layers_is_found_on_the_gpu(script: ModuleType) -> None:
    """A constant that is changed in the text of a Triton kernel of GPT-2 is found, with its line."""
    kind, result = script.found_in_text(lambda: script.gpt2(12), "cuda", "0.7978845608", "0.79")
    assert kind == "found", result


@pytest.mark.parametrize("train", [False, True])
def test_right_programs_are_left_in_peace_on_the_gpu(train: bool, script: ModuleType) -> None:
    """No program without a fault is said to have one."""
    for name, build in script.RIGHT.items():
        kind, result = script.silent(build, "cuda", train)
        assert kind in ("right", "nothing compared"), (name, result)
