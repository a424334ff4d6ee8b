"""A trace of one kernel and texts below it, to test what a stage links."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from explorer.model.records import blank
from explorer.model.shared import KernelText
from explorer.model.values import Event
from explorer.stages.triton.origins import KernelFormText
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events

SOURCE = """@triton.jit
def kern(a, b, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(a + i, i < n)
    s = tl.sum(x, 0)
    tl.store(b + i, tl.exp(x) * s, i < n)"""


def trace_of(*, first_line: int = 1, **texts: str) -> Trace:
    """The trace of the kernel above with these stages' texts."""
    place = {"name": "kern", "file": "kern.py", "first_line": first_line}
    kernel = Event("kernel", 0.0, "0/0", "inference", blank(KernelText, **place, language="triton", text=SOURCE))
    forms = [Event(s, 0.0, "0/0", "inference", blank(KernelFormText, **place, text=t)) for s, t in texts.items()]
    return trace_of_events([kernel, *forms])


@pytest.fixture
def linked() -> Callable[..., dict[int, int]]:
    """Give a function that links a stage's text, the first of the given ones, to the kernel's source."""
    return lambda stage, **texts: _linked(trace_of(**texts), stage)


@pytest.fixture
def ladder_trace() -> Callable[..., Trace]:
    """Give a function that makes the trace of the kernel with texts by stage."""
    return trace_of


def _linked(trace: Trace, stage: str) -> dict[int, int]:
    """Map each line of the stage's text to its line of the kernel's source."""
    (artifact,) = trace.find(stage)
    assert not trace.failures
    return {line: link.target_lines[0] for link in trace.links if link.source == artifact.id for line in link.source_lines}
