"""A torch._check for a line that asks for what only the data knows, recommended only after it was tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import explorer
from explorer.errors import LiveError
from explorer.lab.live.inserted import inserted
from tests.facts import untold

pytestmark = pytest.mark.compile

X, Y = torch.tensor([4, 2]), torch.arange(8.0)


def compared(x: torch.Tensor) -> torch.Tensor:
    n = x[1].item()
    if n > 3:
        return x + 1
    return x - 1


def sliced(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    n = x[0].item()
    part = y[:n]
    return part * 2 if part.shape[0] == 4 else part * 3


def reshaped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    n = x[1].item()
    z = y.reshape(n, -1)
    return z * 2 if z.shape[1] == 4 else z * 3


def halved(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    n = x[0].item()
    if n // 2 == 2: return y * 2  # fmt: skip  # noqa: E701 a statement on the line is a part of the one that asks
    return y * 3


def equal(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a, b = x.tolist()
    if a == b:
        return y * 2
    return y * 3


def helped(x: torch.Tensor) -> torch.Tensor:
    return x * _helper(x)


def _helper(x: torch.Tensor) -> int:
    z = x.nonzero()
    if z.shape[0] > 1:
        return 2
    return 3


def counted_down(x: torch.Tensor) -> torch.Tensor:
    n = x[0].item()
    while n > 3:
        n = n - 1
    return x + n


def looped(x: torch.Tensor) -> torch.Tensor:
    n = x[0].item()
    return x + sum(range(n))


@pytest.fixture(autouse=True)
def captured() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def traced(function: Callable[..., Any], *args: object, fullgraph: bool = True) -> explorer.Trace:
    return explorer.trace(function, *args, backend="aot_eager", fullgraph=fullgraph)


@pytest.mark.parametrize(
    ("function", "args", "check"),
    [
        (compared, (X,), "n <= 3"),
        (sliced, (X, Y), "part.shape[0] == 4"),
        (reshaped, (X, Y), "8 // n == 4"),
        (halved, (X, Y), "n // 2 == 2"),
        (equal, (X, Y), "a != b"),
        (helped, (X,), "z.shape[0] > 1"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_check_that_lets_a_line_through_is_recommended(function: Any, args: Any, check: str) -> None:
    """The failure has the program's words; the verdict recommends the check with which the call compiles and runs, tried."""
    code = function.__code__
    trace = traced(function, *args)
    (failure,) = trace.failures
    assert not untold(str(failure), "depends on the data", f"torch._check({check})", "not tried yet")
    (before,), (verdict,) = trace.advise(), trace.advise(prove=True)
    assert "not tried yet" in before.remedy and before.proof is None
    assert verdict.kind == "compile failed" and verdict.remedy.startswith(f"insert torch._check({check}) before line ")
    assert "tried" in str(verdict.proof)
    assert function.__code__ is code


def test_a_check_is_recommended_for_a_graph_break_too() -> None:
    """Without fullgraph the line breaks the graph; with the check it does not."""
    (verdict,) = traced(compared, X, fullgraph=False).advise(prove=True)
    assert verdict.kind == "graph break" and verdict.remedy.startswith("insert torch._check(n <= 3) before line ")


def test_no_check_is_recommended_that_does_not_help() -> None:
    """Each round of the loop asks anew: what was tried is said, and no check is the remedy."""
    (verdict,) = traced(counted_down, X).advise(prove=True)
    assert "insert" not in verdict.remedy and "no torch._check lets it through" in verdict.remedy
    assert not untold(str(verdict.proof), "tried", "torch._check(n > 3) does not help", "torch._check(n <= 3) does not hold")


def test_a_number_that_is_needed_itself_is_told_to_be_one() -> None:
    """There is no check to try for the rounds of a loop."""
    (verdict,) = traced(looped, X).advise(prove=True)
    assert "needs the number itself" in verdict.remedy and verdict.proof is None


def test_a_statement_stands_before_a_line_for_a_block_alone() -> None:
    """Functions with closures and decorators too run with the statement, and afterwards with the code that they had."""
    seen: list[int] = []

    def function(n: int) -> int:
        if n > 3:
            seen.append(-1)
        elif n > 2:
            seen.append(n)
        return n

    code, line = function.__code__, function.__code__.co_firstlineno + 3
    with inserted(__file__, line, "seen.append(7)"):
        function(3)
        assert function.__code__ is not code
    function(3)
    assert seen == [7, 3, 3] and function.__code__ is code
    with pytest.raises(LiveError, match="does not know the name elsewhere"), inserted(__file__, line, "elsewhere(n)"):
        pass
    assert function.__code__ is code
