"""On an attached NVIDIA GPU: the arguments of each launch are eager's, and a CUDA graph is left alone."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.errors import NoVerbError
from tests.facts import untold

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
]


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.log((x @ w).cos())


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(64, 32, device="cuda"), torch.randn(32, 48, device="cuda")


def test_what_is_read_and_written_is_eagers() -> None:
    """The product is read from what mm wrote, and the kernel's own result has eager's range and NaNs."""
    x, w = inputs()
    rows = explorer.trace(program, x, w, target="cuda").live.values("kernel")
    product, result = x @ w, program(x, w)
    read = next(row for row in rows if row["kernel"].startswith("triton") and row["when"] == "before" and row["shape"])
    assert (read["shape"], read["stride"]) == (tuple(product.shape), tuple(product.stride()))
    assert [read["min"], read["max"]] == pytest.approx([float(product.min()), float(product.max())], rel=1e-3)
    written = rows[-1]
    finite = result[result.isfinite()]
    assert written["when"] == "after" and abs(written["nan"] - int(result.isnan().sum())) <= 3
    assert written["max"] == pytest.approx(float(finite.max()), abs=1e-3)


def test_a_step_and_its_state_stay_as_they_are() -> None:
    """The launches of forward and backward are there; parameters, gradients and random numbers of the GPU are as before."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(8)).cuda()
    trace = explorer.trace(model, torch.randn(4, 8, device="cuda"), target="cuda", train=True)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.cuda.get_rng_state()
    rows = trace.live.values("kernel")
    assert list(dict.fromkeys(row["graph"] for row in rows)) == ["forward", "backward"]
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")  # torch's own, of the first graph of a process
def test_a_cuda_graph_is_captured_undisturbed() -> None:
    """Launches that a CUDA graph captures are not read; where only such are left the error says so, and the function is right."""
    x, w = inputs()
    trace = explorer.trace(program, x, w, target="cuda", mode="reduce-overhead")
    for _ in range(3):
        try:
            rows = trace.live.values("kernel")
        except NoVerbError as error:
            assert not untold(str(error), "CUDA graphs")
        else:
            assert all(row["max"] is None or row["max"] == row["max"] for row in rows)
    assert torch.allclose(trace.live.run(), program(x, w), rtol=1e-3, atol=1e-3, equal_nan=True)
