"""Traces of programs that Dynamo was used on before, that compile a part of themselves, and that nothing was compiled of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import MethodType

import pytest
import torch

import explorer
from tests.facts import untold

pytestmark = pytest.mark.compile
X = torch.arange(16.0).reshape(4, 4)


def products(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Give a tensor when it is asked for."""
    yield x @ x


class Linear(torch.nn.Module):
    """A layer whose compile is the user's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def test_the_trace_of_a_generator_says_that_it_is_one() -> None:
    """Dynamo compiles none; the reason does not claim that it has no tensor operation."""
    (failure,) = explorer.trace(products, X, target="h100").failures
    assert not untold(failure.message, "generator")


@pytest.mark.parametrize("function", [products, lambda x: 3])
def test_nothing_compiled_is_not_called_equal(function: Callable[[torch.Tensor], object]) -> None:
    """The check has one row, which compared nothing and says why."""
    trace = explorer.trace(function, X, target="h100")
    (row,) = trace.check()
    assert row["equal"] is None and trace.failures[0].message in row["note"]


class Powers(torch.nn.Module):
    """A module with state and a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_forward_hook(lambda module, given, result: result * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x @ x @ x


class Cube:
    """An object that is called."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x @ x


def cube(x: torch.Tensor) -> torch.Tensor:
    """Call a library: no C++ is compiled."""
    return x @ x @ x


@pytest.mark.parametrize(
    "make",
    [lambda: cube, lambda: partial(cube), lambda: MethodType(cube, X), lambda: torch.compile(cube), Cube, Powers],
    ids=["function", "partial", "method", "compiled", "callable", "module"],
)
def test_what_failed_to_compile_before_is_compiled_again(
    make: Callable[[], Callable[..., torch.Tensor]], request: pytest.FixtureRequest
) -> None:
    """Dynamo skips code whose compile once failed with a suppressed error, whatever compiles it later."""
    request.addfinalizer(torch._dynamo.reset)  # some of that code is Dynamo's own, around any callable object

    def fails(graph: object, inputs: object) -> Callable[..., object]:
        raise RuntimeError("no")

    torch._dynamo.reset()
    program = make()
    given = () if isinstance(program, MethodType) else (X,)
    with torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(cube if callable(program) and not isinstance(program, (Cube, Powers)) else program, backend=fails)(X)
    trace = explorer.trace(program, *given, target="h100")
    assert trace.find("output_code")
    assert all(row["equal"] for row in trace.check())
    if isinstance(program, Powers):
        assert program.calls == 2


@pytest.mark.parametrize("layer", [Linear, partial(torch.nn.Linear, 4, 4)])
def test_a_module_that_was_compiled_in_place_is_traced_from_its_original(layer: Callable[[], torch.nn.Module]) -> None:
    """It is compiled afresh by Inductor, backward included, and a check compares with the module in eager mode."""
    module, ran = layer(), []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., object]:
        return lambda *args: ran.append("compiled") or graph(*args)

    module.compile(backend=backend)
    module(X)
    before = len(ran)
    trace = explorer.trace(module, X, target="h100", train=True)
    assert trace.find("output_code", graph="backward")
    assert all(row["equal"] for row in trace.check()) and len(ran) == before
    module(X)
    assert len(ran) > before or layer is not Linear, "torch compiles none of its own modules in place"


@pytest.mark.parametrize("stance", ["force_eager", "fail_on_recompile"])
def test_a_stance_that_forbids_to_compile_is_named(stance: str) -> None:
    """The trace has the reason, and no error of torch's is raised."""
    with torch.compiler.set_stance(stance):
        trace = explorer.trace(cube, X, target="h100")
    assert not untold("".join(failure.message for failure in trace.failures), "stance", stance)
    assert not trace.kernels
