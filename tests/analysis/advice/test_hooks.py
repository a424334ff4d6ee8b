"""Verdicts on collectives of hooks: a planted fault of each kind, in programs that are traced for a GPU you don't have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

import explorer
from explorer.analysis.advice.advise import advise
from explorer.analysis.advice.hooks import KIND
from explorer.analysis.advice.verdicts import Verdict
from explorer.analysis.questions.hook_overlap import last_step
from explorer.analysis.questions.priced_collectives import priced_rows
from explorer.model.records import changed, typed
from explorer.model.trace_data import TraceData
from explorer.stages.torch_compile.eager_collective import EagerCollectives
from tests.one_rank import TRAINING, group_of_one_rank
from tests.sharded_models import LAYERS, ONE_LAYER, Layers, batch, sharded

pytestmark = TRAINING


@pytest.fixture
def alone() -> Iterator[None]:
    with group_of_one_rank():
        yield


@pytest.fixture
def fake() -> Iterator[None]:
    distributed.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    yield
    distributed.destroy_process_group()


def of_two_ranks(trace: explorer.Trace) -> TraceData:
    """The trace as if the group had two ranks, which a process alone cannot have."""

    def with_ranks(artifact: Any) -> Any:
        if artifact.stage != "eager_collective":
            return artifact
        sent = typed(EagerCollectives, artifact.data)
        return replace(artifact, data=changed(sent, rows=tuple(changed(row, ranks=(0, 1)) for row in sent.rows)))

    return TraceData(trace.meta, tuple(map(with_ranks, trace.artifacts)), trace.links, trace.failures)


def steps_of_ddp(model: nn.Module, **options: Any) -> Verdict:
    """What is said of three steps of a model in DDP."""
    torch._dynamo.reset()  # what an earlier test compiled is not recorded
    wrapped = torch.compile(DistributedDataParallel(model, **options))
    with explorer.record("h100") as recording:
        for _ in range(3):
            wrapped(batch()).sum().backward()
    (verdict,) = (each for each in advise(of_two_ranks(recording.trace)) if each.kind == KIND)
    return verdict


def test_gradients_in_one_bucket_are_exposed_and_the_bucket_is_named(alone: None) -> None:
    """The bucket has all parameters; the remedy is bucket_cap_mb, and buckets of one layer hide most of theirs."""
    planted = steps_of_ddp(Layers(), bucket_cap_mb=500)
    assert "bucket 0 (6 parameters" in planted.evidence and "bucket_cap_mb" in planted.remedy and "100%" in planted.remedy
    assert planted.cost.known == "estimated" and planted.cost.beyond and planted.lines
    assert planted.call == "t.what_if(settings={'torch.nn.parallel.DistributedDataParallel.bucket_cap_mb': 1.0})"
    mended = steps_of_ddp(Layers(), bucket_cap_mb=ONE_LAYER)
    assert mended.cost.seconds < planted.cost.seconds and "bucket_cap_mb" not in mended.remedy
    assert f"bucket {LAYERS - 1} (2 parameters, layers.0.linear.bias to layers.0.linear.weight)" in mended.evidence


def test_buckets_in_the_wrong_order_are_named(alone: None) -> None:
    """With find_unused_parameters DDP keeps the order of registration: here that in which gradients come last."""
    planted = steps_of_ddp(Layers(reverse=True), bucket_cap_mb=ONE_LAYER, find_unused_parameters=True)
    assert "find_unused_parameters" in planted.remedy


def test_a_backward_that_is_one_graph_is_named(alone: None) -> None:
    """Dynamo cuts the graph at the buckets unless that is switched off."""
    with torch._dynamo.config.patch(optimize_ddp=False):
        planted = steps_of_ddp(Layers(), bucket_cap_mb=ONE_LAYER)
    assert "optimize_ddp" in planted.remedy


def test_what_reshard_after_forward_would_leave_is_what_is_left_without_it(fake: None) -> None:
    """The estimate that the remedy has is that of the program that does so."""

    def steps(*, reshard: bool) -> Verdict:
        torch._dynamo.reset()
        model = sharded(reshard=reshard)
        with explorer.record("h100") as recording:
            for _ in range(2):
                model(batch()).sum().backward()
        (verdict,) = (each for each in recording.trace.advise() if each.kind == KIND)
        return verdict

    before, after = steps(reshard=True), steps(reshard=False)
    assert before.call == "t.what_if(settings={'torch.distributed.fsdp.fully_shard.reshard_after_forward': False})"
    assert after.why_unproved and not after.call
    assert "reshard_after_forward=False" in before.remedy and "reshard_after_forward" not in after.remedy
    held = after.title.rpartition("nothing hides ")[2].partition(" of it")[0]
    assert f": {held} would be exposed" in before.remedy


def test_the_seconds_are_those_of_the_table(alone: None) -> None:
    """A verdict adds up `exposed` of the last step's rows: not of the first step, in which DDP has other buckets."""
    torch._dynamo.reset()
    wrapped = torch.compile(DistributedDataParallel(Layers(), bucket_cap_mb=ONE_LAYER))
    with explorer.record("h100") as recording:
        for _ in range(3):
            wrapped(batch()).sum().backward()
    trace = of_two_ranks(recording.trace)
    (verdict,) = (each for each in advise(trace) if each.kind == KIND)
    rows = [row for row in priced_rows(trace) if row["exposed"] is not None]
    assert len(rows) == LAYERS and verdict.cost.seconds == pytest.approx(sum(row["exposed"] or 0.0 for row in rows))
    (artifact,) = trace.find("eager_collective")
    step = last_step(typed(EagerCollectives, artifact.data))
    assert sum(each >= 0 for each in step) == LAYERS
