"""Random draws on an absent GPU: the CPU's generator gives them, and a row of the trace says so."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.absent.random_draws import ASSUMED, draws_random_numbers

pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")


def noisy(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + torch.rand(8, device="cuda")


def dropped(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x.sin())


def assumed(trace: explorer.Trace) -> list[object]:
    return [row["assumed"] for row in trace.table("assumption")]


def test_a_draw_on_the_gpu_in_a_compiled_function_is_an_assumption() -> None:
    """On the GPU `torch.rand(device="cuda")` leaves the CPU's generator alone; here it does not, which the trace says."""
    before = torch.get_rng_state()
    trace = explorer.trace(noisy, torch.ones(8), target="h100")
    assert trace.failures == () and not torch.equal(before, torch.get_rng_state())
    assert assumed(trace) == [ASSUMED]


def test_a_draw_on_the_gpu_in_eager_mode_is_an_assumption_once() -> None:
    """What the recorded program draws outside of compiled functions counts too."""
    with explorer.record("h100") as recorded:
        for _ in range(3):
            torch.zeros(4, device="cuda").normal_()
    assert assumed(recorded.trace) == [ASSUMED]


def test_a_program_on_the_cpu_moves_its_generator_as_without_explorer() -> None:
    """Dropout of a function whose inputs the program has on the CPU: the same numbers and state as eager, and no row."""
    x = torch.ones(64)
    torch.manual_seed(0)
    expected = dropped(x)
    state = torch.get_rng_state()
    torch.manual_seed(0)
    trace = explorer.trace(dropped, x, target="h100")
    assert torch.equal(trace.result, expected) and torch.equal(torch.get_rng_state(), state)
    assert assumed(trace) == []


def test_draws_on_the_cpu_beside_the_gpu_are_no_assumption() -> None:
    """A draw that names the CPU is the CPU's, also in a program that uses the GPU."""
    with explorer.record("h100") as recorded:
        torch.zeros(4, device="cuda")
        torch.rand(4, device="cpu")
        torch.rand(4, device=torch.device("cpu"))
        torch.rand(4)
    assert assumed(recorded.trace) == []


@pytest.mark.parametrize(("name", "random"), [("rand", True), ("dropout", True), ("normal_", True), ("sin", False), ("", False)])
def test_an_operators_tags_say_whether_it_draws(name: str, random: bool) -> None:
    """ATen tags each operator that draws with a seed."""
    assert draws_random_numbers(name) is random
