"""A call that changes what its own guards hold is compiled again at the next call."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

import explorer
from explorer.analysis.advice.dynamo import names_set


class Counting(nn.Module):
    """A module that counts its calls, and sets a switch that it never reads."""

    def __init__(self, scaled: bool) -> None:
        super().__init__()
        self.scaled, self.calls, self.on = scaled, 0, True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.on = False
        return x.sin() * self.calls if self.scaled else x.sin()


class Silent(Counting):
    """The same module, which counts nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.on = False
        return x.sin() * self.calls


def compiles_of_two_calls(module: nn.Module) -> int:
    """How often torch itself compiles for two calls."""
    counter = CompileCounter()
    compiled = torch.compile(module, backend=counter)
    compiled(torch.ones(4))
    compiled(torch.ones(4))
    return int(counter.frame_count)


@pytest.mark.compile
@pytest.mark.parametrize(("module", "again"), [(Counting(True), True), (Counting(False), True), (Silent(True), False)])
def test_a_value_that_a_call_changes_and_a_guard_holds_is_named(module: Counting, again: bool) -> None:
    """The verdict is there exactly where torch compiles the second of two calls again; a verb still finds what was traced."""
    trace = explorer.trace(module, torch.ones(4), target="h100")
    found = [verdict for verdict in trace.advise() if verdict.kind == "recompiles"]
    assert bool(found) == again
    for verdict in found:
        assert "self.calls" in verdict.title and verdict.lines[0].code == "self.calls += 1" and "== 0" in verdict.evidence
    calls = module.calls
    assert trace.check()[0]["equal"] and module.calls == calls
    torch._dynamo.reset()
    assert (compiles_of_two_calls(module) == 2) == again


def test_constants_are_read_from_the_bytecode_of_each_python() -> None:
    """An attribute that Dynamo's function sets, a global, and small integers as Python 3.14 writes them."""
    attribute = "200 LOAD_FAST 0 (self)\n  202 LOAD_CONST 9 ('calls')\n  204 LOAD_CONST 1 (1)\n  206 PRECALL 3\n"
    assert names_set(attribute) == {"calls": "1"}
    assert names_set(" 138 LOAD_CONST 1 (2)\n 140 STORE_GLOBAL 0 (counter)\n") == {"counter": "2"}
    assert names_set(" LOAD_CONST 9 ('calls')\n LOAD_SMALL_INT 3\n CALL 3\n") == {"calls": "3"}
    assert names_set(" LOAD_CONST 9 ('calls')\n LOAD_FAST 3 (x)\n CALL 3\n") == {}
