"""The bytes that a prediction counts: an argument that is only stored to moves once."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.capture.splice import prediction
from explorer.capture.splice.prediction import Prediction, is_loaded, own_trips
from tests.trials import try_in_this_process


def test_the_loop_of_a_kernel_of_the_users_own_is_counted() -> None:
    """Its bounds follow from arguments and constants; where they do not, nothing is said."""
    source = "def f(K, m, BK):\n    for k in range(0, tl.cdiv(K, BK)):\n        for j in range(m):\n            pass"
    assert own_trips(source, {"K": 100, "BK": 32, "m": 3}) == 4
    assert own_trips(source, {"K": 100, "BK": 32, "m": torch.zeros(1)}) == 4
    assert own_trips(source, {"K": 100}) is None and own_trips("def f(x):\n    pass", {"x": 1}) is None


def test_an_argument_that_only_stores_address_is_not_read() -> None:
    """An input, an output, and one that is both."""
    source = "\n".join(
        (
            "def triton_(in_ptr0, in_out_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):",
            "    tmp0 = tl.load(in_ptr0 + (x0), None)",
            "    tmp1 = tl.load(in_out_ptr0 + (x0), None)",
            "    tl.store(out_ptr0 + (x0), tmp0, None)",
            "    tl.store(in_out_ptr0 + (x0), tmp1, None)",
        )
    )
    assert [is_loaded(source, name) for name in ("in_ptr0", "in_out_ptr0", "out_ptr0")] == [True, True, False]


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The bytes of each prediction that is asked for."""
    moved: list[float] = []

    def noted(*given: object) -> Prediction:
        moved.append(float(given[-1]))  # type: ignore[arg-type]
        return Prediction(1.0, "memory")

    monkeypatch.setattr(prediction, "predicted", noted)
    return moved


@pytest.mark.compile
def test_a_pointwise_kernel_moves_its_input_and_its_output_once(moved: list[float]) -> None:
    """The oracle are the sizes of both tensors: what is written was counted twice."""
    x = torch.randn(64, 256)
    explorer.trace(lambda x: x + 1, x, target="h100").kernels[0].tune([{"num_warps": 2}])
    assert moved == [2 * x.nbytes] * len(moved) != []


@pytest.mark.compile
def test_how_an_edit_spells_a_store_changes_no_bytes(moved: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pointer in a variable of its own addresses what the original's store did: both move the input and the output once."""
    try_in_this_process(monkeypatch)
    x = torch.randn(64, 256)
    kernel = explorer.trace(lambda x: x + 1, x, target="h100").kernels[0]
    before = "tl.store(out_ptr0 + (x0)"
    assert before in kernel.source
    variant = kernel.edit(kernel.source.replace(before, "there = out_ptr0 + (x0)\n    tl.store(there"))
    assert variant.in_place and moved == [2 * x.nbytes] * 2
