"""Calls of compiled frames in a profile, and their collectives: profiles whose times are known, since each test writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.distributed import _functional_collectives as functional
from torch.testing._internal.distributed.fake_pg import FakeStore

import explorer
from explorer.analysis.timing.run_times import run_times
from explorer.analysis.timing.timeline import Span, Timeline
from explorer.tracing.traced import Trace
from tests.facts import untold

pytestmark = [
    pytest.mark.compile,
    pytest.mark.filterwarnings("ignore:.*deprecated.*:FutureWarning"),
]
REDUCE, GATHER, WAIT = (f"_c10d_functional::{name}" for name in ("all_reduce_", "all_gather_into_tensor", "wait_tensor"))


def exchanging(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A sum over all ranks beside a product, and then a whole of all ranks' parts."""
    total = functional.all_reduce(x.sin(), "sum", "0")
    apart = (w @ w).relu()
    return functional.all_gather_tensor(total + apart, 0, "0") * 2


@pytest.fixture(scope="module")
def trace() -> Iterator[Trace]:
    """The function above as one of two ranks sees it."""
    distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield explorer.trace(exchanging, torch.ones(64, 64), torch.ones(64, 64), target="h100")
    distributed.destroy_process_group()


def a_run(start: float, waits: tuple[float, float], label: str = "0/0") -> list[Span]:
    """A call on the CPU, which waits for each of the two collectives as long as a test says."""
    first, second = waits
    return [
        Span(f"Torch-Compiled Region: {label}", start, 1.0 + first + second, 1),
        Span(REDUCE, start + 0.1, 0.1, 1),
        Span("PythonDispatchMode", start + 0.11, 0.08, 1),
        Span(REDUCE, start + 0.12, 0.05, 1),  # as in a first run, where it calls itself
        Span(WAIT, start + 0.3, first, 1),
        Span(GATHER, start + 0.4 + first, 0.1, 1),
        Span(WAIT, start + 0.6 + first, second, 1),
    ]


def test_each_collective_of_each_call_has_the_time_that_it_was_waited_for(trace: Trace) -> None:
    """On the CPU, by the order of the waits in the wrapper; what the program does outside of its compiled frames is not there."""
    outside = [Span(WAIT, 50.0, 7.0, 1), Span("aten::mm", 60.0, 1.0, 1)]
    times = run_times(trace, Timeline("torch.profiler", "", (*a_run(0.0, (0.5, 0.25)), *a_run(10.0, (0.125, 2.0)), *outside), ()))
    assert [(call.frame, call.outer, call.seconds, call.device) for call in times.calls] == [
        ("0/0", True, 1.75, None),
        ("0/0", True, 3.125, None),
    ]
    assert [(one.node, one.run, one.seconds) for one in times.exchanges] == [
        ("all_reduce", 0, 0.5),
        ("all_gather_into_tensor", 0, 0.25),
        ("all_reduce", 1, 0.125),
        ("all_gather_into_tensor", 1, 2.0),
    ]


def test_on_a_gpu_it_is_the_time_of_its_kernel(trace: Trace) -> None:
    """NCCL's kernel has it, and what ran beside it on another stream overlaps; the GPU's time counts both once."""
    cpu = [
        Span("Torch-Compiled Region: 0/0", 0.0, 1.0, 1),
        Span(REDUCE, 0.1, 0.2, 1),
        Span("cudaLaunchKernelExC", 0.15, 0.01, 1, correlation=1),
        Span("cuLaunchKernel", 0.35, 0.01, 1, correlation=2),
        Span(WAIT, 0.4, 0.01, 1),
        Span(GATHER, 0.5, 0.2, 1),
        Span("cudaLaunchKernelExC", 0.55, 0.01, 1, correlation=3),
        Span(WAIT, 0.8, 0.01, 1),
    ]
    gpu = [
        Span("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1.0, 4.0, (0, 20), correlation=1),
        Span("triton_poi_fused_add_0", 2.0, 1.5, (0, 7), correlation=2),
        Span("ncclDevKernel_AllGather_RING_LL", 6.0, 2.0, (0, 20), correlation=3),
    ]
    times = run_times(trace, Timeline("torch.profiler", "H100", tuple(cpu), tuple(gpu)))
    assert [(one.node, one.seconds, one.overlapped) for one in times.exchanges] == [
        ("all_reduce", 4.0, 1.5),
        ("all_gather_into_tensor", 2.0, 0.0),
    ]
    assert times.calls[0].device == 4.0 + 2.0


def test_a_run_of_another_graph_is_joined_to_no_node(trace: Trace) -> None:
    """Its operators are others, or their order; it has a row that names the operator alone."""
    spans = (Span("Torch-Compiled Region: 0/0", 0.0, 1.0, 1), Span(GATHER, 0.1, 0.1, 1), Span(WAIT, 0.3, 0.5, 1))
    (one,) = run_times(trace, Timeline("torch.profiler", "", spans, ())).exchanges
    assert (one.node, one.artifact, one.operator, one.seconds) == ("", "", "all_gather_into_tensor", None)


def test_a_call_inside_another_is_told_apart(trace: Trace) -> None:
    """As a resume function's after a graph break, whose seconds are part of the outer call's."""
    spans = (Span("Torch-Compiled Region: 0/0", 0.0, 2.0, 1), Span("Torch-Compiled Region: 1/0", 0.5, 1.0, 1))
    assert [call.outer for call in run_times(trace, Timeline("torch.profiler", "", spans, ())).calls] == [True, False]


def test_a_profile_with_collectives_alone_is_joined(trace: Trace, tmp_path: Path) -> None:
    """Its run times are a text of their own, in a saved trace too, and those of the next profile take their place."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": s.name, "ts": s.start * 1e6, "dur": s.seconds * 1e6, "pid": 1, "tid": 1}
        for s in a_run(1.0, (0.5, 0.25))
    ]
    (tmp_path / "profile.json").write_text(json.dumps({"traceEvents": events}))
    with_times = trace.attach(tmp_path / "profile.json").attach(tmp_path / "profile.json")
    (artifact,) = with_times.find("run_times")
    assert not untold(artifact.text, "1 call", "1750 ms", "750 ms", "collectives")
    with_times.save(tmp_path / "trace.json.gz")
    assert explorer.load(tmp_path / "trace.json.gz") == with_times
