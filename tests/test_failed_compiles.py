"""What goes wrong in compiles without the program's saying so: swallowed errors, frames left to Python, limits, switches."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

import explorer
from tests.facts import untold

pytestmark = pytest.mark.compile


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Compile nothing before a test, and keep nothing it compiled."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def prints(x: torch.Tensor) -> torch.Tensor:
    print("seen")
    return x.sin()


def breaks_in_try(x: torch.Tensor) -> torch.Tensor:
    try:
        y = x.sin()
        torch._dynamo.graph_break()
        return y + 1
    finally:
        x.cos()


def refuses(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    raise ValueError("this backend refuses")


def recorded(run: Callable[[], object]) -> tuple[explorer.Trace, BaseException | None]:
    """The recording of a program, and what it raised."""
    error = None
    with explorer.record() as recording:
        try:
            run()
        except Exception as raised:  # noqa: BLE001 whichever it is, the test looks at it
            error = raised
    return recording.trace, error


def test_an_error_that_the_program_swallows_is_a_failure() -> None:
    """A graph break under fullgraph=True is told, with its place and torch's own words, though the program goes on."""
    trace, error = recorded(lambda: torch.compile(prints, backend="eager", fullgraph=True)(torch.ones(2)))
    (failure,) = trace.failures
    assert error is not None and (failure.stage, failure.step, failure.fatal) == ("compile", "Unsupported", True)
    assert failure.message.startswith(f"prints ({__file__}:") and "`print`" in failure.message


@pytest.mark.parametrize("suppressed", [False, True])
def test_a_backend_that_raises_in_a_recording_is_a_failure(suppressed: bool) -> None:
    """The error goes to the program as without the recording, or with suppress_errors to nobody; it is told in both."""
    with torch._dynamo.config.patch(suppress_errors=suppressed):
        trace, error = recorded(lambda: torch.compile(lambda x: x.sin(), backend=refuses)(torch.ones(2)))
    (failure,) = trace.failures
    assert (error is None) == suppressed
    assert failure.step == "BackendCompilerFailed" and failure.fatal and "this backend refuses" in failure.message
    assert ("suppress_errors" in failure.message) == suppressed


def test_a_frame_that_is_left_to_python_is_a_failure_in_a_trace_and_a_recording() -> None:
    """A break inside `try` leaves the whole function to Python: it is named, and so is the break."""
    trace, error = recorded(lambda: torch.compile(breaks_in_try, backend="eager")(torch.ones(2)))
    torch._dynamo.reset()  # Dynamo does not look again at what it left to Python
    (failure,) = trace.failures
    assert error is None and (failure.stage, failure.step, failure.fatal) == ("dynamo", "skipped frame", False)
    assert not untold(failure.message, "breaks_in_try", "Python", "torch._dynamo.graph_break()")
    traced = explorer.trace(breaks_in_try, torch.ones(2), backend="eager")
    (failure,) = traced.failures
    assert not untold(failure.message, "Dynamo", "Python", "torch._dynamo.graph_break()")
    for made in (trace, traced):
        assert [row["line"] for row in made.dynamo.graph_breaks] == [breaks_in_try.__code__.co_firstlineno + 3]


def test_a_backend_that_raises_in_the_backward_is_a_failure_as_in_the_forward() -> None:
    """In a trace the error is kept, with what was compiled before it; in a recording it goes to the program, and is told."""
    backend = aot_autograd(fw_compiler=lambda graph, inputs: graph.forward, bw_compiler=refuses)
    x = torch.ones(2, requires_grad=True)
    trace = explorer.trace(lambda x: x.sin(), x, backend=backend, train=True)
    assert [(f.stage, f.step, f.fatal) for f in trace.failures] == [("compile", "ValueError", True)]
    assert trace.find("forward")
    with pytest.raises(explorer.errors.CompileError):
        trace.raise_for_failures()
    trace, error = recorded(lambda: torch.compile(lambda x: x.cos(), backend=backend)(x).sum().backward())
    assert isinstance(error, ValueError)
    (failure,) = trace.failures
    assert not untold(str(failure), "compile", "ValueError", "backward", "this backend refuses")


def test_an_error_of_the_function_itself_still_goes_through() -> None:
    """An error of the program's own is not taken for a failed compile because a compile failed before it."""

    def function(x: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("the program's own")

    with pytest.raises(ZeroDivisionError, match="the program's own"):
        explorer.trace(function, torch.ones(2), backend="eager")


@pytest.mark.parametrize("fullgraph", [False, True])
def test_the_recompile_limit_is_a_row_and_a_failure_with_the_way_there(fullgraph: bool) -> None:
    """The limit reached is among the recompiles; the failure lists the guard that failed each time, and what to do."""

    def times(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    def run() -> None:
        compiled = torch.compile(times, backend="eager", fullgraph=fullgraph)
        for n in range(2, 8):
            compiled(torch.ones(3), n)

    with torch._dynamo.config.patch(recompile_limit=3, automatic_dynamic_shapes=False):
        trace, error = recorded(run)
    (failure,) = trace.failures
    assert (failure.stage, failure.step, failure.fatal) == ("dynamo", "recompile_limit", fullgraph)
    assert not untold(failure.message, "times", "recompile_limit", "3", "mark_dynamic", "dynamic=True")
    assert [line.strip() for line in failure.message.splitlines()[1:]] == [f"compile {n}: n == {n + 1}" for n in (1, 2, 3)]
    assert not untold(trace.dynamo.recompiles[-1]["guard"], "recompile_limit (3)", "times")
    assert (error is not None) == fullgraph


@pytest.mark.parametrize("stance", ["force_eager", "eager_on_recompile"])
def test_a_stance_that_keeps_functions_from_being_compiled_is_named(stance: str) -> None:
    """A trace and a recording of a program that sets one name it, and do not say that there is nothing to compile."""

    def run() -> None:
        with torch.compiler.set_stance(stance):
            torch.compile(torch.sin, backend="eager")(torch.ones(2))

    with torch.compiler.set_stance(stance):
        traced = explorer.trace(lambda x: x.sin(), torch.ones(2), backend="eager")
    for trace in (traced, recorded(run)[0]):
        (failure,) = trace.failures
        assert not untold(failure.message, f'torch.compiler.set_stance("{stance}")')


def test_the_default_stance_is_not_spoken_of() -> None:
    """A trace of a function without tensor operations says just that, and a recording without compiles says nothing."""
    (failure,) = explorer.trace(lambda: 1, backend="eager").failures
    assert not untold(failure.message, "tensor operation")
    assert recorded(lambda: None)[0].failures == ()


def test_a_switch_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With torch.compile switched off, a trace and a recording say by what, and how to switch it on."""
    program = (
        "import torch, explorer\n"
        "with explorer.record() as r: torch.compile(torch.sin)(torch.ones(2))\n"
        "for t in (r.trace, explorer.trace(torch.sin, torch.ones(2))): print(*t.failures, sep='\\n')\n"
    )
    environment = {**os.environ, "TORCH_COMPILE_DISABLE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all("TORCH_COMPILE_DISABLE=1" in line for line in lines)
    # torch's other switch sets the same setting when torch is imported
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    with torch._dynamo.config.patch(disable=True):
        traces = (recorded(lambda: torch.compile(torch.sin)(torch.ones(2)))[0], explorer.trace(torch.sin, torch.ones(2)))
    for trace in traces:
        assert "TORCHDYNAMO_DISABLE=1" in "".join(map(str, trace.failures))


def test_unbacked_symbols_are_rows() -> None:
    """The size of what nonzero returns is a symbol with the user's line, though it has no value while compiling."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.nonzero() * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        trace, _ = recorded(lambda: torch.compile(function, backend="eager")(torch.ones(2)))
    (row,) = trace.dynamo.symbols
    assert row["symbol"] == "u0" and row["val"] == "" and "unbacked" in row["source"]
    assert row["line"] == function.__code__.co_firstlineno + 1
    assert "u0 = data (unbacked" in trace.text("symbol")
