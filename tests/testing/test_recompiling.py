"""Calls of one compiled function: which of them compiles it again, held to Dynamo's own count."""

from __future__ import annotations

import re
from typing import Any

import pytest

from explorer import testing
from explorer.errors import InputError
from tests.facts import says, untold

torch = pytest.importorskip("torch", reason="torch is not installed: recompiles are of compiled functions")
#: `assert_no_recompile` compiles what it is given.
pytestmark = pytest.mark.compile


def double(x: Any) -> Any:
    return x + x


def compiles(*sizes: int, **settings: Any) -> int:
    """How often Dynamo compiles for calls of these sizes, counted by torch's own backend for that."""
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x + x, backend=counter, **settings)
    for size in sizes:
        compiled(torch.ones(size))
    torch._dynamo.reset()
    return int(counter.frame_count)


@pytest.mark.parametrize("settings", [{}, {"dynamic": True}, {"dynamic": False}])
@pytest.mark.parametrize("sizes", [(4, 4), (4, 8), (4, 8, 16)])
def test_as_many_recompiles_are_found_as_dynamo_counts(sizes: tuple[int, ...], settings: dict[str, Any]) -> None:
    """The limit that just holds is the number of compiles after the first."""
    calls = [(torch.ones(size),) for size in sizes]
    again = compiles(*sizes, **settings) - 1
    t = testing.assert_no_recompile(double, *calls, at_most=again, backend="eager", **settings)
    assert len({row["frame"] for row in t.dynamo.recompiles}) == again
    if again:
        with pytest.raises(testing.ContractError):
            testing.assert_no_recompile(double, *calls, at_most=again - 1, backend="eager", **settings)


def test_a_recompile_names_the_call_and_the_guard() -> None:
    """The message has the call's number, its sizes, the guard that failed and where the function stands."""
    with pytest.raises(testing.ContractError) as raised:
        testing.assert_no_recompile(double, (torch.ones(4),), (torch.ones(4),), (torch.ones(8),), backend="eager")
    text = str(raised.value)
    assert not untold(text, "call 3 of 3", "(float32[8])")
    assert "expected 4, actual 8" in text, "torch's own words of the guard"
    assert re.search(r"test_recompiling\.py:\d+: double", text)


def test_where_torch_stops_compiling_is_a_finding() -> None:
    """At the limit of torch's settings calls run in Python and recompile nothing more, which does not pass."""
    calls = [(torch.ones(size),) for size in (4, 8, 16, 32)]
    with torch._dynamo.config.patch(recompile_limit=2), pytest.raises(testing.ContractError) as raised:
        testing.assert_no_recompile(double, *calls, at_most=3, backend="eager", dynamic=False)
    assert not untold(str(raised.value), "limit", "recompiles", "double")
    torch._dynamo.reset()


def test_the_program_is_left_alone() -> None:
    """What a call changes is put back, and the function's own compiles stay with it."""
    torch._dynamo.reset()
    compiled = torch.compile(double, backend="eager")
    compiled(torch.ones(4))
    buffer = torch.zeros(4)

    def adds(x: Any) -> Any:
        x.add_(1)
        return x

    testing.assert_no_recompile(adds, (buffer,), (buffer,), backend="eager")
    assert buffer.tolist() == [0.0] * 4
    testing.assert_no_recompile(compiled, (torch.ones(4),), (torch.ones(4),), backend="eager")
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(4))
    torch._dynamo.reset()


def test_a_module_and_an_absent_gpu_do() -> None:
    """A module is called as it is, and compiled for a GPU you don't have."""
    pytest.importorskip("triton")
    module = torch.nn.Linear(8, 4)
    t = testing.assert_no_recompile(module, (torch.ones(2, 8),), (torch.ones(2, 8),), target="h100")
    assert t.meta["target"] == "h100" and not t.dynamo.recompiles


def test_wrong_calls_say_what_to_give() -> None:
    """One call, or arguments that are no tuple, are refused; so is a function in which nothing is compiled."""
    with pytest.raises(InputError, match=says("two calls", "(x,), (y,)", "1")):
        testing.assert_no_recompile(double, (torch.ones(4),))
    with pytest.raises(InputError, match=says("tuple", "(x,)", "Tensor")):
        testing.assert_no_recompile(double, torch.ones(4), torch.ones(8))

    def nothing(x: Any) -> Any:
        return x

    with pytest.raises(testing.ContractError, match="not judged"):
        testing.assert_no_recompile(torch.compiler.disable(nothing), (1,), (2,), backend="eager")
