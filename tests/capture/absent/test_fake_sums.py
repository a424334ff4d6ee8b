"""Sums of torch's fake process group: DDP trains in it, and torch's dispatcher is left as it was."""

from __future__ import annotations

import pytest
import torch
from torch import distributed

import explorer
from tests.one_rank import group_of_one_rank
from tests.sharded_models import WORLD, batch, in_ddp

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*:FutureWarning")


def dispatched() -> str:
    return str(torch._C._dispatch_dump("c10d::allreduce_"))


def test_ddp_trains_inside_a_cluster() -> None:
    """Each gradient is an eighth of eager's, since no other rank adds its own; afterwards torch dispatches as before."""
    before = dispatched()
    with explorer.Cluster("h100", WORLD):
        assert dispatched() != before
        model = in_ddp()
        model(batch()).sum().backward()
        found = [parameter.grad for parameter in model.parameters()]
        plain = in_ddp().module
        plain(batch()).sum().backward()
    assert dispatched() == before
    for gradient, parameter in zip(found, plain.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad / WORLD)


def test_blocks_in_blocks_undo_only_their_own() -> None:
    """A trace inside the block of a cluster leaves the block's sums."""
    with explorer.Cluster("h100", WORLD) as cluster:
        before = dispatched()
        with cluster:
            assert dispatched() != before
        assert dispatched() == before
        work = distributed.all_reduce(torch.ones(3), async_op=True)
        assert work is not None and [part.tolist() for part in work.get_future().value()] == [[1.0] * 3]


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="needs torch with gloo")
def test_the_sums_of_a_real_group_are_its_own() -> None:
    """A group of gloo keeps its work."""
    from explorer.capture.absent.fake_sums import sums_with_results

    with group_of_one_rank():
        plain = type(distributed.all_reduce(torch.ones(3), async_op=True))
        with sums_with_results():
            work = distributed.all_reduce(torch.ones(3), async_op=True)
        assert work is not None and type(work) is plain
        work.wait()
