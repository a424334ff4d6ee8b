"""Random draws on an absent GPU: the CPU's generator gives them, and a row of the trace says so."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.capture.absent.random_draws import ASSUMED, draws_random_numbers
from tests.facts import untold

pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")


def noisy(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + torch.rand(8, device="cuda")


def dropped(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x.sin())


@torch.compiler.disable
def drawn_in_eager_mode(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(8, device="cuda") + torch.rand_like(x)


@torch.compiler.disable
def devices(x: torch.Tensor, seen: list[torch.device]) -> torch.Tensor:
    seen.append(x.device)
    return torch.compile(torch.cos)(x)


@torch.compiler.disable
def failing(x: torch.Tensor) -> torch.Tensor:
    raise KeyError(str(x.device))


def skipped(x: torch.Tensor) -> torch.Tensor:
    try:
        torch._dynamo.graph_break()
        return x + torch.rand(8, device="cuda")
    finally:
        pass


def assumed(trace: explorer.Trace) -> list[object]:
    return [row["assumed"] for row in trace.table("assumption")]


@pytest.mark.compile
def test_a_draw_on_the_gpu_in_a_compiled_function_is_an_assumption() -> None:
    """On the GPU `torch.rand(device="cuda")` leaves the CPU's generator alone; here it does not, which the trace says."""
    before = torch.get_rng_state()
    trace = explorer.trace(noisy, torch.ones(8), target="h100")
    assert trace.failures == () and not torch.equal(before, torch.get_rng_state())
    assert assumed(trace) == [ASSUMED]


@pytest.mark.compile
def test_a_draw_on_the_gpu_in_eager_mode_is_an_assumption_once() -> None:
    """What the recorded program draws outside of compiled functions counts too."""
    with explorer.record("h100") as recorded:
        for _ in range(3):
            torch.zeros(4, device="cuda").normal_()
    assert assumed(recorded.trace) == [ASSUMED]


@pytest.mark.compile
def test_a_draw_in_a_disabled_function_is_an_assumption() -> None:
    """A function under torch.compiler.disable that a compiled function calls draws as the rest of the program does."""
    trace = explorer.trace(lambda x: drawn_in_eager_mode(x.sin()).cos(), torch.ones(8), target="h100")
    assert trace.failures == () and assumed(trace) == [ASSUMED]


@pytest.mark.compile
def test_a_disabled_function_sees_the_gpu_and_the_compiled_ones_in_it_are_compiled_for_it() -> None:
    """It sees the devices that the program sees outside of compiled functions; whatever it raises, all is as before after it."""
    seen: list[torch.device] = []
    with explorer.record("h100") as recorded:
        x = torch.ones(8, device="cuda")
        torch.compile(lambda x: devices(x.sin(), seen) + 1)(x)
        with pytest.raises(KeyError, match="cuda:0"):
            torch.compile(lambda x: failing(x.sin()) + 1)(x)
        devices(x, seen)
        seen.append(torch.compile(lambda x: x * 2)(x).device)
    assert seen == [torch.device("cuda", 0)] * 3 and recorded.trace.failures == ()
    assert any("tl_math.cos" in code.text for code in recorded.trace.find("output_code"))
    with pytest.raises(KeyError, match="cpu"):
        failing(torch.ones(8))


@pytest.mark.compile
def test_a_skipped_function_that_draws_on_the_gpu_says_what_to_do() -> None:
    """What Dynamo skips runs inside of compiled code, where nothing is on the GPU; under torch.compiler.disable it works."""
    with pytest.raises(RuntimeError, match=r"CUDA|NVIDIA") as caught, explorer.record("h100"):
        torch.compile(lambda x: skipped(x.sin()).cos())(torch.ones(8))
    assert any(not untold(note, "Dynamo", "torch.compiler.disable") for note in caught.value.__notes__)
    with explorer.record("h100") as recorded:
        torch.compile(lambda x: torch.compiler.disable(skipped)(x.sin()).cos())(torch.ones(8))
    assert assumed(recorded.trace) == [ASSUMED] and recorded.trace.failures == ()


@pytest.mark.compile
def test_a_program_on_the_cpu_moves_its_generator_as_without_explorer() -> None:
    """Dropout of a function whose inputs the program has on the CPU: the same numbers and state as eager, and no row."""
    x = torch.ones(64)
    torch.manual_seed(0)
    expected = dropped(x)
    state = torch.get_rng_state()
    torch.manual_seed(0)
    trace = explorer.trace(dropped, x, target="h100")
    assert torch.equal(trace.live.result, expected) and torch.equal(torch.get_rng_state(), state)
    assert assumed(trace) == []


@pytest.mark.compile
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
