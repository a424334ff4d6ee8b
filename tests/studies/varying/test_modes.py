"""compare_modes: one row per mode, timed in turn on the CPU, not timed for a GPU you don't have."""

from __future__ import annotations

import pytest
import torch

import explorer
from tests.facts import says, untold

pytestmark = pytest.mark.compile


def attention(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1).relu()


def changing(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * torch.rand_like(x)


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


X, W = torch.randn(64, 64), torch.randn(64, 64)
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@pytest.fixture(scope="module")
def modes_for_h100() -> explorer.types.Modes:
    """All modes, for a GPU that is not attached."""
    return explorer.compare_modes(attention, X, W, target="h100")


def test_each_mode_has_what_torch_sets_for_it(modes_for_h100: explorer.types.Modes) -> None:
    """The settings of each trace are those that torch lists for the mode, and each row says what became of CUDA graphs."""
    modes = modes_for_h100
    assert modes.names == MODES
    for row, trace in zip(modes.table, modes.traces, strict=True):
        for name, value in torch._inductor.list_mode_options(row["mode"]).items():
            told = [s["value"] for s in trace.compiler.settings.where(of="inductor", name=name)]
            assert told == [repr(value)] or told == [value], (row["mode"], name)
        asked = torch._inductor.list_mode_options(row["mode"]).get("triton.cudagraphs", False)
        assert (row["cuda_graphs"] == "captured") == asked
        assert row["kernels"] == len(trace.kernels) and row["peak_bytes"] == sum(r["bytes"] for r in trace.memory.peak)


def test_nothing_is_timed_on_a_gpu_you_do_not_have(modes_for_h100: explorer.types.Modes) -> None:
    """Each row says so, has the estimate, and no seconds."""
    modes = modes_for_h100
    for row in modes.table:
        assert row["seconds"] is row["spread_seconds"] is row["allocated_bytes"] is None
        assert not untold(row["not_timed"], "'h100'", "attached", "timed") and row["estimated_seconds"] > 0
    assert "seconds" not in modes._shown().columns and set(modes.table[0]["not_timed"].split()) <= set(repr(modes).split())


def test_modes_are_timed_in_turn_on_the_cpu() -> None:
    """Each has a median and a spread; a mode that compiles the same code has no kernel that differs."""
    modes = explorer.compare_modes(attention, X, W, modes=("default", "reduce-overhead"), repeats=5)
    assert all(row["seconds"] > 0 and row["spread_seconds"] >= 0 and row["compile_seconds"] > 0 for row in modes.table)
    assert [row["differ"] for row in modes.table] == [(), ()]
    assert not untold(modes.table[1]["cuda_graphs"], "cpu", "CUDA") and modes.table[0]["cuda_graphs"] == "not asked for"
    beside = modes.only("default", "reduce-overhead")
    assert beside.names == ("default", "reduce-overhead") and beside.figures
    assert torch.equal(modes["reduce-overhead"].live.result, modes["default"].live.result)


def test_the_program_is_left_alone() -> None:
    """A function that changes its input and draws random numbers is compiled in every mode on copies, from one state."""
    x, state = torch.zeros(4), torch.get_rng_state()
    modes = explorer.compare_modes(changing, x, modes=("default", "reduce-overhead"), repeats=1, target="h100")
    assert torch.equal(x, torch.zeros(4)) and torch.equal(torch.get_rng_state(), state)
    assert not any(row["failures"] for row in modes.table)


def test_a_mode_that_does_not_compile_says_so() -> None:
    """Its row has the failure and no time; the other columns are there."""
    modes = explorer.compare_modes(broken, X, modes=("default", "reduce-overhead"), fullgraph=True)
    assert all(not untold(row["not_timed"], "compile", "failed", "Unsupported") and row["failures"] for row in modes.table)


@pytest.mark.parametrize(
    ("modes", "facts"),
    [
        (("default", "max-autotun"), ("mode", "'max-autotun'", "'max-autotune'")),
        (("default",), ("compare_modes", "modes", "'default'")),
        ("default", ("compare_modes", "modes", "'default'")),
    ],
)
def test_mistakes_say_what_to_do(modes: tuple[str, ...], facts: tuple[str, ...]) -> None:
    """An unknown mode, and too few."""
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        explorer.compare_modes(attention, X, W, modes=modes)
    with pytest.raises(explorer.errors.InputError, match=says("modes", "list", "torch.compile", "3")):
        explorer.compare_modes(attention, X, W, modes=3)  # type: ignore[arg-type]
    with pytest.raises(explorer.errors.InputError, match="repeats"):
        explorer.compare_modes(attention, X, W, repeats=0)
