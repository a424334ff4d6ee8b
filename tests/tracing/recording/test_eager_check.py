"""What a compiler other than Inductor computes is compared with eager when the trace is made, and nothing else is touched."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.compilers.compiler import Compiler
from explorer.errors import InputError
from explorer.model.stage import Emit
from explorer.tracing.recording import eager_check

pytestmark = pytest.mark.compile

#: What is said of the first value that differs.
OFF = "4 of 4 elements are off by more than rounding explains; t.check() has the rows"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """An engine that multiplies its results by the last of these factors, which a test may change."""
    factors = [1.0]
    install(monkeypatch, lambda gm: lambda *args: tuple(result * factors[-1] for result in gm.forward(*args)))
    return factors


def install(monkeypatch: pytest.MonkeyPatch, made: Callable[[Any], Callable[..., Any]]) -> None:
    """Let `made` compile graphs as the only engine beside Inductor, "theirs"."""

    def backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
        return lambda gm, inputs: made(gm)

    theirs = Compiler("theirs", "Theirs", "an engine", "", ("json",), backend, ("execution",), {})
    monkeypatch.setattr("explorer.capture.compilers.compilers.COMPILERS", (theirs,))
    monkeypatch.setattr(eager_check, "MAX_SECONDS", 600.0)  # a loaded machine is no slow call


def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def checks(trace: explorer.Trace) -> list[tuple[str, bool]]:
    """What the trace says of a comparison."""
    return [(failure.message, failure.fatal) for failure in trace.failures if failure.step == "check"]


def test_a_result_that_differs_is_a_failure_that_leads_to_check(engine: list[float]) -> None:
    """A wrong engine is named, with the first value that differs and their number; a right one has no failure."""
    x = torch.randn(4)
    assert not explorer.trace(sine, x, backend="theirs").failures
    engine.append(1.5)
    one = explorer.trace(sine, x, backend="theirs")
    assert checks(one) == [(f"Theirs's output differs from eager's: {OFF}", False)]
    assert "differs from eager's" in repr(one)
    two = explorer.trace(lambda x: (x.sin(), x.cos()), x, backend="theirs")
    assert checks(two) == [(f"Theirs's output[0] and 1 more differ from eager's: {OFF}", False)]


def test_state_arguments_and_random_numbers_are_left_as_without_it(engine: list[float]) -> None:
    """After a trace the module, its arguments, the program's lists and the random numbers are what they are unchecked."""

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.seen: list[int] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.seen.append(x.dim())
            x.add_(1)
            return x * 2 + torch.rand(4)

    left = []
    for check in (True, False):
        torch.manual_seed(0)
        module, x = Counting(), torch.ones(4)
        trace = explorer.trace(module, x, backend="theirs", check=check)
        assert not trace.failures
        left.append([module.calls.item(), module.seen, x.tolist(), torch.rand(1).item(), trace.live.result.tolist()])
    assert left[0] == left[1]


@pytest.mark.parametrize("reason", ["asked", "slow", "large", "graph break"])
def test_it_is_left_out_where_calling_again_costs(engine: list[float], monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """The function is traced and called once: with check=False, where a call is expensive, or Python runs between graphs.

    The trace and its printed form say that nothing was compared, why, and what compares it.
    """
    called = []

    def function(x: torch.Tensor) -> torch.Tensor:
        if reason == "graph break":
            torch._dynamo.graph_break()
        called.append(1)
        return x.sin()

    if reason == "slow":
        monkeypatch.setattr(eager_check, "MAX_SECONDS", 0.0)
    if reason == "large":
        monkeypatch.setattr(eager_check, "MAX_BYTES", 15)
    engine.append(1.5)
    trace = explorer.trace(function, torch.randn(4), backend="theirs", check=reason != "asked")
    assert not checks(trace) and len(called) == 1
    said = {
        "asked": "the trace was made with check=False",
        "slow": r"the call took \d+\.\d s, and is repeated unasked only below 0 s",
        "large": "its tensors have 16 B, and it is repeated unasked only below 15 B",
        "graph break": "Python of the program runs between its graphs, and a comparison would run it twice more",
    }
    rows = [(row["where"], row["assumed"]) for row in trace.inductor.assumptions]
    assert rows == [("Theirs's results", "not compared with eager; t.check() compares them")]
    assert re.fullmatch(said[reason], trace.inductor.assumptions[0]["why"])
    assert "assumed: Theirs's results: not compared with eager; t.check() compares them" in repr(trace)


def test_an_operator_of_pytorchs_that_only_the_engine_makes_raise_is_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that hands PyTorch's matmul other rows has failed to run it; where eager raises too, the error goes on."""
    install(monkeypatch, lambda gm: lambda *args: gm.forward(*(arg[:1] for arg in args)))
    x = torch.randn(4, 4)
    (failure,) = explorer.trace(lambda x: x @ x, x, backend="theirs").failures
    assert failure.fatal and "Theirs compiled" in failure.message and "and could not run it:" in failure.message
    with pytest.raises(IndexError):
        explorer.trace(lambda x, rows: x[rows], x, torch.tensor([9, 1]), backend="theirs")


def test_a_code_generator_that_is_experimental_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pallas with a sine that is a cosine is named, unless check=False."""
    pytest.importorskip("jax", reason="JAX is not installed: pip install 'torch-compile-explorer[pallas]'")
    pallas = pytest.importorskip("torch._inductor.codegen.pallas", reason="this torch writes no Pallas")
    monkeypatch.setattr(pallas.PallasKernelOverrides, "sin", staticmethod(lambda x: f"jnp.cos({x})"))
    monkeypatch.setattr(eager_check, "MAX_SECONDS_WITH_JAX", 600.0)
    x, options = torch.randn(4), {"cpu_backend": "pallas"}
    assert not explorer.trace(lambda x: x.exp(), x, options=options).failures
    wrong = explorer.trace(sine, x, options=options)
    assert checks(wrong) == [(f"Pallas's output differs from eager's: {OFF}", False)]
    assert not checks(explorer.trace(sine, x, options=options, check=False))


def test_an_error_of_the_comparison_leaves_the_trace(engine: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where eager cannot be compared the trace has its texts, its result, and a Failure that is not fatal."""

    def refused(*args: object, **kwargs: object) -> None:
        raise RuntimeError("cannot be compared")

    monkeypatch.setattr("explorer.lab.live.function.compared", refused)
    x = torch.randn(4)
    trace = explorer.trace(sine, x, backend="theirs")
    assert checks(trace) == [("RuntimeError: cannot be compared", False)]
    assert trace.find("dynamo") and torch.equal(trace.live.result, x.sin())


def test_another_value_is_refused() -> None:
    """check= is True or False."""
    with pytest.raises(InputError, match="check is True or False"):
        explorer.trace(sine, torch.randn(4), check="yes")  # type: ignore[arg-type]
