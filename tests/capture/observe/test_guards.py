"""Where torch made a guard: the innermost function of the stack that torch itself keeps while it logs guards."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.guards import CheckFunctionManager

import explorer
from explorer.capture.observe.guards import HANDED_ON
from explorer.capture.observe.places import in_package

pytestmark = pytest.mark.compile

SCALE = 2.0


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.eps = 0.5

    def forward(self, x: torch.Tensor, n: int, *more: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) * n + self.eps + SCALE + sum(more)


@pytest.fixture
def stacks_kept() -> Iterator[None]:
    """Let torch keep the stack of every guard, as with TORCH_LOGS=guards, and write nothing."""
    logger = logging.getLogger("torch._dynamo.guards.__guards")
    before = (logger.level, logger.propagate, list(logger.handlers))
    logger.setLevel(logging.DEBUG)
    logger.propagate, logger.handlers = False, [logging.NullHandler()]
    yield
    logger.setLevel(before[0])
    logger.propagate, logger.handlers = before[1], before[2]


def without_numbers(source: str) -> str:
    """A source without the number that Dynamo gives a dict of builtins anew in each compile."""
    return re.sub(r"___\d+", "", source)


def places_by_torch(function: Callable[..., Any], *args: Any) -> dict[str, set[str]]:
    """The innermost places of the stacks that torch keeps of its guards, by source."""
    found: dict[str, set[str]] = {}
    original = CheckFunctionManager.__init__

    def read(self: Any, code: Any, output_graph: Any, *more: Any, **named: Any) -> None:
        for guard in output_graph.guards:
            stack = [f for f in guard.stack.summary() if f.name not in HANDED_ON]
            place = f"{in_package(stack[-1].filename).removeprefix('torch/')}:{stack[-1].lineno} in {stack[-1].name}"
            found.setdefault(without_numbers(str(guard.name)), set()).add(place)
        original(self, code, output_graph, *more, **named)

    CheckFunctionManager.__init__ = read
    try:
        torch._dynamo.reset()
        torch.compile(function, backend="eager")(*args)
    finally:
        CheckFunctionManager.__init__ = original
        torch._dynamo.reset()
    return found


@pytest.mark.usefixtures("stacks_kept")
def test_the_place_in_torch_is_that_of_torchs_own_stack() -> None:
    """Each guard with a user line has the function of torch that made it; nearly all guards with a source have one."""
    module, args = Scaled(), (torch.randn(8, 4), 2, torch.ones(4))
    by_torch = places_by_torch(module, *args)
    rows = [row for row in explorer.trace(module, *args, backend="eager").dynamo.guards if row["code"]]
    placed = [row for row in rows if row["framework"]]
    assert all(row["framework"] in by_torch[without_numbers(row["source"])] for row in placed)
    assert len(placed) > 0.9 * len(rows) > 10


def test_torchs_own_print_of_the_guards_is_as_without_explorer() -> None:
    """The place that torch itself writes behind a guard of its own is torch's, with no frame of explorer's."""
    trace = explorer.trace(Scaled(), torch.randn(8, 4), 2, backend="eager")
    assert not trace.failures
    tree = trace.find("guards")[0].data["tree"]
    assert "init_ambient_guards" in tree and "explorer" not in tree
