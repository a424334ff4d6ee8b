"""A job of two ranks on GPUs: equal ranks are equal though their devices differ, another shape and a late rank are found.

With NCCL where there are two GPUs. NCCL refuses two ranks on one, so that with one GPU gloo exchanges its tensors.
"""

from __future__ import annotations

import sys

import pytest
import torch

import explorer
from explorer.model.trace_data import artifact_of
from explorer.tracing.traced.ranks import Ranks
from tests.sources.ranks.torchrun import traced

GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0
NCCL = GPUS > 1 and torch.distributed.is_nccl_available()
pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(GPUS == 0, reason="needs a GPU: torch.cuda.device_count() is 0"),
    pytest.mark.skipif(
        GPUS > 0 and (not NCCL) and (not torch.distributed.is_gloo_available()),
        reason="needs torch with NCCL and two GPUs, or torch with gloo",
    ),
]

PROGRAM = f"""
import os
import time
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank % torch.cuda.device_count())
dist.init_process_group("{"nccl" if NCCL else "gloo"}")

overlapping = {{"reorder_for_compute_comm_overlap": True, "reorder_for_compute_comm_overlap_passes": ["sink_waits"]}}

@torch.compile(options=overlapping)
def same(x, w):
    total = functional.all_reduce(x.sin(), "sum", dist.group.WORLD)
    apart = (w @ w).relu()
    return total + apart

@torch.compile
def other(x):
    return x.cos() + 1

w = torch.ones(512, 512, device="cuda")
store = dist.distributed_c10d._get_default_store()
for step in range(5):
    torch.cuda.synchronize()
    if rank == 0:
        store.set(f"rank 0 is at {{step}}", "")
    else:
        store.wait([f"rank 0 is at {{step}}"])
        time.sleep(0.05)
    total = same(w, w)
print(total.sum().item())
other(torch.ones(24 if rank == 1 else 16, device="cuda"))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """The two ranks of the program."""
    loaded = explorer.load(traced(sys.executable, 2, PROGRAM, tmp_path_factory.mktemp("job"), "--profile"))
    assert isinstance(loaded, Ranks)
    print(f"{GPUS} GPUs, {'NCCL' if NCCL else 'gloo'}", loaded, loaded.times, loaded.waits, sep="\n")
    return loaded


def test_only_the_function_with_another_shape_diverges(ranks: Ranks) -> None:
    """The first compile is equal on both ranks, kernels and guards included, also where one has cuda:0 and the other cuda:1."""
    assert ranks.divergences[0]["code"] == "return x.cos() + 1"
    assert {row["frame"] for row in ranks.divergences} == {"1/0"} and not ranks.not_compared


def test_the_collective_is_listed_with_what_overlaps_it(ranks: Ranks) -> None:
    """Both ranks start the same all_reduce of 1 MB; what is between its start and its wait stands there in the wrapper."""
    for number in (0, 1):
        (row,) = ranks.collectives.where(rank=number)
        assert (row["operator"], row["ranks"], row["bytes"]) == ("all_reduce", (0, 1), 512 * 512 * 4)
        lines = artifact_of(ranks[number], row["wrapper"]).lines
        assert "all_reduce" in lines[row["started"] - 1] and "wait_tensor" in lines[row["waited"] - 1]
        inside = "\n".join(lines[row["started"] : row["waited"] - 1])
        assert row["between"] and all(name in inside for name in row["between"])


def test_times_are_per_rank(ranks: Ranks) -> None:
    """Each rank says what its compiles took, and the four calls of `same` after the first, with the one of `other`."""
    times = ranks.times
    assert [(row["rank"], row["compiles"], row["calls"]) for row in times] == [(0, 2, 5), (1, 2, 5)]
    assert all(row["compile_seconds"] > 0 and row["run_seconds"] > 0 for row in times)


def test_the_rank_that_comes_late_is_named(ranks: Ranks) -> None:
    """Rank 1 sleeps 50 ms once rank 0 is at a call: rank 0 is as much longer in the all_reduce, kernel or wait."""
    (row,) = ranks.waits
    assert (row["operator"], row["late"], row["runs"], row["late_runs"]) == ("all_reduce", 1, 4, 4)
    assert row["waited"] > 4 * 0.04 and row["seconds"]["0"] > 4 * 0.04 > row["seconds"]["1"]
    assert row["code"] == 'total = functional.all_reduce(x.sin(), "sum", dist.group.WORLD)'


@pytest.mark.skipif(not NCCL, reason="gloo's exchange has no kernel on the GPU beside which others could run")
def test_what_runs_beside_the_collective_is_measured(ranks: Ranks) -> None:
    """Rank 0's product runs while NCCL's kernel waits for rank 1; it is less than the whole."""
    row = ranks.times[0]
    assert 0 < row["overlapped"] < row["collective_seconds"]
