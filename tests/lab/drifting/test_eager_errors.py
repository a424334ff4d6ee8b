"""One eager run beside float64."""

from __future__ import annotations

import torch
from torch import nn

from explorer.lab.drifting.eager_errors import eager_results, eager_run, largest, module_names
from explorer.lab.live.call import Call


class Net(nn.Module):
    """Two layers and a buffer that each call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Count the call."""
        self.calls += 1
        return self.second(self.first(x).relu())


def test_a_run_leaves_the_program_as_it_is() -> None:
    """Arguments, parameters, buffers, gradients and random numbers are those of before."""
    net, x = Net(), torch.randn(4, 8, requires_grad=True)
    net.first.weight.grad = torch.ones(8, 8)
    before, generator = {k: v.clone() for k, v in net.state_dict().items()}, torch.get_rng_state()
    run = eager_run(Call(net, (x,), {}, train=True))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(net.first.weight.grad, torch.ones(8, 8)) and net.second.weight.grad is None and x.grad is None
    assert torch.equal(torch.get_rng_state(), generator)
    assert {"output", "gradient of args[0]", "gradient of first.weight"} <= set(run.results)
    assert 0 < max(run.result_errors.values()) < 1e-5


def test_rows_have_the_module_of_their_operators() -> None:
    """Layers that one line calls are told apart by the name of the module."""
    run = eager_run(Call(Net(), (torch.randn(4, 8),), {}))
    assert {"first", "second"} <= {error.place.module for error in run.errors}
    assert all(error.place.file == __file__ for error in run.errors)


def test_two_runs_inside_autocast_are_the_same() -> None:
    """A weight that autocast cast in one run is cast again in the next, so operators have the same numbers."""
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        call = Call(nn.Linear(8, 8), (torch.randn(4, 8),), {})
        with torch.enable_grad():
            first, second = eager_run(call), eager_run(call)
        assert torch.is_autocast_cache_enabled()
    assert first.errors == second.errors
    assert sum(error.narrowed for error in first.errors) == 3


def test_modules_that_a_function_names_have_names() -> None:
    """A closure's and a method's modules are named as the program reaches them."""
    net = Net()
    assert module_names(lambda x: net(x))[id(net.first)] == "net.first"
    assert module_names(net.forward)[id(net.second)] == "second"


def test_the_exact_results_are_those_of_a_module_in_float64() -> None:
    """The float64 values are what the same module computes with float64 parameters."""
    net, x = Net(), torch.randn(4, 8)
    run = eager_run(Call(net, (x,), {}))
    wide = Net().double()
    wide.load_state_dict(net.state_dict())
    with torch.no_grad():
        assert largest({"output": wide(x.double())}, run.exact) < 1e-14
    assert largest(eager_results(Call(net, (x,), {})), run.exact) == run.result_errors["output"]
