"""The text of the scheduler's nodes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch

import explorer
from explorer.observe import scheduler_ir
from explorer.observe.patch import replaced
from explorer.observe.scheduler_ir import ir_record

pytest.importorskip("triton")


def test_the_scheduler_s_text_is_inductor_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written once for nodes that share it is, letter by letter, what Inductor writes for each."""
    from sympy.printing.defaults import Printable
    from torch._inductor import ir, scheduler
    from torch._inductor.dependencies import MemoryDep
    from torch._inductor.loop_body import LoopBodyBlock

    places = [
        (Printable, "__str__"),
        (Printable, "__repr__"),
        (MemoryDep, "__repr__"),
        (ir.Layout, "__str__"),
        (scheduler, "pformat"),
        (LoopBodyBlock, "debug_str"),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name in places]
    texts: list[tuple[str, str]] = []

    def both(nodes: Any) -> Any:
        assert all(getattr(owner, name) is not theirs for owner, name, theirs in originals)
        made = ir_record(nodes)
        with ExitStack() as stack:
            for owner, name, theirs in originals:
                stack.enter_context(replaced(owner, name, lambda _, theirs=theirs: theirs))
            texts.append((made.text, ir_record(nodes).text))
        return made

    monkeypatch.setattr(scheduler_ir, "ir_record", both)

    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x[index] * torch.where(x > 0, x, 0.5), -1).cumsum(0)

    explorer.trace(function, torch.randn(8, 8), torch.arange(8), target="h100").raise_for_failures()
    assert len(texts) == 2
    assert all(getattr(owner, name) is theirs for owner, name, theirs in originals)
    for made, theirs in texts:
        assert "_loop_body:" in made
        assert made == theirs
