"""What a trace was compiled for is read once from what it says."""

from __future__ import annotations

import pytest

from explorer.analysis.questions.target import compiled_for, gpu_of
from explorer.model.trace_data import TraceData

#: For each target whether it is the CPU, an attached GPU, an absent one, and how it is called.
TARGETS = {
    "cpu": (True, False, False, "cpu"),
    "cuda": (False, True, False, "cuda"),
    "xpu": (False, True, False, "xpu"),
    "auto": (False, False, False, "the device of each call"),
    "h100": (False, False, True, "h100"),
    "a GPU of mine": (False, False, True, "a GPU of mine"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_is_one_kind_of_device(name: str) -> None:
    """The CPU, an attached GPU or an absent one; a recording that left the device to each call is none of them."""
    target = compiled_for(TraceData({"target": name}))
    assert (target.is_cpu, target.is_attached_gpu, target.is_absent_gpu, str(target)) == TARGETS[name]


def test_a_trace_without_a_target_is_for_no_device() -> None:
    """An empty one, or one of a log that names none."""
    target = compiled_for(TraceData())
    assert (target.is_cpu, target.is_attached_gpu, target.is_absent_gpu, str(target)) == (False, False, False, "")


def test_only_a_named_gpu_has_figures_in_a_file() -> None:
    """Those of an attached GPU are known to the process that made the trace alone."""
    h100 = gpu_of(TraceData({"target": "h100"}))
    assert h100 is not None and h100.name == "h100"
    assert gpu_of(TraceData({"target": "cuda"})) is None and gpu_of(TraceData({"target": "cpu"})) is None
