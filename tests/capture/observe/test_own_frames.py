"""Torch does not see explorer's own functions where it looks at frames and stacks."""

from __future__ import annotations

import pytest
import torch

import explorer

pytestmark = pytest.mark.compile


def test_the_stack_is_as_without_explorer() -> None:
    """Torch's own check of the stack, which refuses a line that is there twice, passes in a recording too."""
    from torch._inductor import config, scheduler

    before = scheduler.traceback
    with config.patch(check_stack_no_cycles_TESTING_ONLY=True), explorer.record("h100") as recording:
        assert torch.equal(torch.compile(lambda x: x * 3)(torch.ones(4)), torch.full((4,), 3.0))
    assert len(recording.trace.kernels) == 1 and recording.trace.failures == ()
    assert scheduler.traceback is before


def test_a_line_of_the_programs_own_that_is_twice_is_refused_as_without_explorer() -> None:
    """The check still sees the program's frames."""
    from torch._inductor import config
    from torch._inductor.scheduler import Scheduler

    codegen = Scheduler._codegen

    def twice(self: Scheduler, nodes: list[object], times: int = 1) -> object:
        return twice(self, nodes, times - 1) if times else codegen(self, nodes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scheduler, "_codegen", twice)
        with pytest.raises(Exception, match="Duplicate stack frame"), config.patch(check_stack_no_cycles_TESTING_ONLY=True):
            with explorer.record():
                torch.compile(lambda x: x * 5)(torch.ones(4))
