"""The programs of questions: their text is what is traced, and what surrounds them is left as it was."""

from __future__ import annotations

import importlib
import inspect

import pytest
import torch

import explorer
from explorer.errors import InputError
from explorer.workshop.quiz.exercises import random_tensors, traced_on
from explorer.workshop.quiz.programs import program, undisturbed

SCALE = program(
    """
def scale(x):
    return x * 2
"""
)


@pytest.mark.compile
def test_a_program_is_traced_from_its_text() -> None:
    """Line 1 is the `def`, the source in the trace is the text, and each load is another function."""
    function = SCALE.load()
    t = explorer.trace(function, torch.randn(4), backend="eager")
    assert t.text("source") == SCALE.text == inspect.getsource(function) and SCALE.name == "scale"
    assert SCALE.load() is not function and SCALE.load().__code__ is not function.__code__


def test_a_program_apart_is_one_whose_sizes_dynamo_has_not_seen() -> None:
    """Its file has another name each time, by which Dynamo would remember the sizes of earlier calls."""
    assert len({SCALE.load(apart=True).__code__.co_filename for _ in range(3)}) == 3


@pytest.mark.compile
def test_a_stance_that_the_learner_left_does_not_reach_the_truth() -> None:
    """Under force_eager a question's own trace is compiled all the same, and the stance is in force again after it."""
    with torch.compiler.set_stance("force_eager"):
        with undisturbed():
            t = explorer.trace(SCALE.load(), torch.randn(4), backend="eager")
        assert t.find("dynamo")
        assert not explorer.trace(SCALE.load(), torch.randn(4), backend="eager").find("dynamo")


@pytest.mark.compile
def test_a_function_is_traced_on_inputs_that_are_the_same_each_time() -> None:
    """The learner's own seed does not reach them; they have the shapes and the dtype asked for."""
    inputs: list[torch.Tensor] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        inputs.append(x)
        return x

    for seed in (1, 2):
        torch.manual_seed(seed)
        t = traced_on(SCALE.load(), lambda: map(keep, random_tensors((2, 3), dtype="float16")()), backend="eager")
        assert t.find("dynamo")
    assert torch.equal(*inputs) and inputs[0].shape == (2, 3) and inputs[0].dtype == torch.float16


def test_a_kernel_without_triton_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package; a program without kernels does not need it."""

    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    assert SCALE.load()(2) == 4
    with pytest.raises(InputError, match="needs triton"):
        program("def kernel():\n    pass", is_triton=True).load()


def test_the_generators_of_gpus_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the CPU's generator is seeded, since only its state is put back."""
    seeded: list[str] = []
    for name in ("cuda", "xpu"):
        monkeypatch.setattr(getattr(torch, name), "manual_seed_all", lambda seed, name=name: seeded.append(name))
    with undisturbed():
        first = torch.rand(3)
    with undisturbed():
        assert torch.equal(torch.rand(3), first)
    assert not seeded
