"""A sample of the faults that are planted in the compiler: a check finds each, and calls no right program wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[3] / "benchmarks" / "planted_faults.py"
#: One of each kind of judgement: units, small numbers, 16 bits, whole numbers, state, gradients, overflows, random numbers.
SAMPLE = (
    "float32 off by 0.0009", "small numbers", "bfloat16 off by 0.02", "whole numbers at a million, off by one",
    "an input that is changed, nothing returned", "a small gradient", "beside an overflow of eager's",
    "running statistics of an instance norm", "whole numbers, never the largest", "a dropout in training",
)  # fmt: skip
RIGHT = ("gelu in bfloat16", "logarithm of what has none", "right: numbers cut off that are rounded, bfloat16")


@pytest.fixture
def script(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The script that plants them all."""
    return module_at(FILE)


@pytest.mark.compile
@pytest.mark.parametrize("name", SAMPLE)
def test_a_wrong_lowering_is_found(name: str, script: ModuleType) -> None:
    """An operator that is lowered to something else makes a check say so."""
    row = script.in_lowering("lowering", name, "h100")
    assert row["kind"] == "found", row


@pytest.mark.compile
@pytest.mark.parametrize("name", RIGHT)
def test_a_program_that_is_lowered_as_it_should_be_is_not_called_wrong(name: str, script: ModuleType) -> None:
    """Rounding and NaN are no faults."""
    row = script.in_lowering("right", name, "h100")
    assert row["kind"] == "right", row


@pytest.mark.compile
def test_faults_in_the_text_of_a_kernel_are_found(script: ModuleType) -> None:
    """Each change of a kernel that makes its numbers worse than eager's is found, and the kernel without one is right."""
    rows = {name: run() for name, run in script.in_texts("small", "h100", "float32", "1/2")}
    kinds = {name: row["kind"] for name, row in rows.items()}
    assert kinds.pop("no fault") == "right"
    assert len(kinds) >= 3 and set(kinds.values()) == {"found"}, rows


def test_a_fault_below_the_rounding_of_eager_is_told_from_others(script: ModuleType) -> None:
    """A result is as near to float64 as eager's if no error, from largest to least, is much larger."""
    import torch

    exact = torch.linspace(1, 2, 1000, dtype=torch.float64)
    eager = exact.float()
    assert script._as_near(eager.clone(), eager, exact)
    assert not script._as_near(eager * (1 + 1e-6), eager, exact)
    assert not script._as_near(eager.where(torch.arange(1000) != 7, 1.5), eager, exact)
    assert not script._as_near(eager.where(torch.arange(1000) != 7, torch.nan), eager, exact)


def test_all_faults_of_the_compiler_are_planted_for_both_targets(script: ModuleType) -> None:
    """113 faults for the CPU and for a GPU that is not attached are the 226 of the total."""
    options = script.argparse.Namespace(targets="cpu,h100", dtypes="float32", only=["lowering"], match="", part="1/1")
    assert len(script.items(options)) == 226
