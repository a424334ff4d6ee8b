"""The launches of a compiled function, with their arguments from before and after."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.capture.splice.launches import recorded_launches
from explorer.lab.live.protocol import needs_live

pytestmark = pytest.mark.compile


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x.sin() * 2) @ w
    return torch.softmax(y, -1)


@pytest.mark.parametrize("target", ["cpu", "h100"])
def test_a_launch_has_its_arguments_of_before_and_after(target: str) -> None:
    """The first kernel reads the input and writes what eager computes; what it reads is unchanged."""
    x, w = torch.randn(16, 32), torch.randn(32, 48)
    trace = explorer.trace(program, x, w, target=target)
    live = needs_live(trace, "")
    launches = live.launches([(live.wrappers[0].file, kernel.name) for kernel in trace.kernels])
    assert [launch.kernel for launch in launches] == [kernel.name for kernel in trace.kernels]
    first = launches[0]
    assert torch.equal(first.before[0], x) and torch.equal(first.after[0], x)
    (written,) = first.changed
    assert torch.allclose(first.after[written], x.sin() * 2) and not torch.allclose(first.before[written], x.sin() * 2)
    assert [row["equal"] for row in trace.check()] == [True]


def test_a_backward_is_recorded_too() -> None:
    """The launches of a training trace are those of forward and backward."""
    x, w = torch.randn(16, 32, requires_grad=True), torch.randn(32, 48, requires_grad=True)
    trace = explorer.trace(program, x, w, train=True)
    live = needs_live(trace, "")
    names = [(wrapper.file, kernel.name) for wrapper in live.wrappers for kernel in trace.kernels if kernel.name in wrapper.text]
    assert {launch.file for launch in live.launches(names)} == {wrapper.file for wrapper in live.wrappers}
    assert len(live.wrappers) == 2


def test_no_more_launches_are_kept_than_asked_for() -> None:
    """A kernel that is launched twice is recorded once where one is asked for, and its second launch runs."""

    def twice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (((x.sin() @ w).sin() @ w).sin() @ w).sin() @ w

    trace = explorer.trace(twice, torch.randn(16, 16), torch.randn(16, 16))
    live = needs_live(trace, "")
    names = [(live.wrappers[0].file, kernel.name) for kernel in trace.kernels]
    every = [launch.kernel for launch in live.launches(names)]
    assert len(every) > len(set(every))
    assert len(live.launches(names, most=1)) == len(set(every))


def test_a_recorded_call_for_a_gpu_you_dont_have_ends_after_the_launch() -> None:
    """Nothing after the wanted launch is interpreted, and what the program wrote before it is put back."""
    x, w = torch.randn(16, 32), torch.randn(32, 48)
    counts = torch.zeros(16, 32)

    def counting(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        counts.add_(1)
        return program(x + counts, w)

    trace = explorer.trace(counting, x, w, target="h100")
    live, before = needs_live(trace, ""), counts.clone()
    first, second = [(live.wrappers[0].file, kernel.name) for kernel in trace.kernels]
    heard: list[str] = []
    with recorded_launches(live.wrappers, [second], hear=lambda launch: heard.append(launch.kernel)):
        (launch,) = live.launches([first], most=1)
        assert launch.after and not heard and torch.equal(counts, before)
        assert len(live.launches([first])) == 1 and heard == [second[1]]
