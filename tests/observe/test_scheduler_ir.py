"""The text of the scheduler's nodes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch

import explorer
from explorer.observe import debug_calls
from explorer.observe.patch import replaced
from explorer.observe.scheduler_ir import ir_record

pytest.importorskip("triton")


def test_the_scheduler_s_text_is_inductor_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written once for nodes that share it is, letter by letter, what Inductor writes for each."""
    from torch._inductor.dependencies import MemoryDep
    from torch._inductor.loop_body import LoopBody, LoopBodyBlock

    body, block, dep = LoopBody.debug_str, LoopBodyBlock.debug_str, MemoryDep.__repr__
    texts: list[tuple[str, str]] = []

    def both(nodes: Any) -> Any:
        made = ir_record(nodes)
        with ExitStack() as stack:
            for owner, name, theirs in (
                (LoopBody, "debug_str", body),
                (LoopBodyBlock, "debug_str", block),
                (MemoryDep, "__repr__", dep),
            ):
                stack.enter_context(replaced(owner, name, lambda _, theirs=theirs: theirs))
            texts.append((made.text, ir_record(nodes).text))
        return made

    monkeypatch.setattr(debug_calls, "ir_record", both)

    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x[index] * torch.where(x > 0, x, 0.5), -1).cumsum(0)

    explorer.trace(function, torch.randn(8, 8), torch.arange(8), target="h100").raise_for_failures()
    assert len(texts) == 2
    for made, theirs in texts:
        assert "_loop_body:" in made
        assert made == theirs
