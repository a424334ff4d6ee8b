"""A job on two GPUs with NCCL: each rank is traced, equal ranks are equal though their devices differ, another shape is found."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import explorer
from explorer.traced.ranks import Ranks

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs 2 GPUs: torch.cuda.device_count() is less")

PROGRAM = """
import os
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")

@torch.compile
def same(x, w):
    total = functional.all_reduce(x.sin(), "sum", dist.group.WORLD)
    apart = (w @ w).relu()
    return total + apart

@torch.compile
def other(x):
    return x.cos() + 1

w = torch.ones(512, 512, device="cuda")
print(same(w, w).sum().item())
other(torch.ones(24 if rank == 1 else 16, device="cuda"))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """The two ranks of the program."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "program.py").write_text(PROGRAM)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    command = [*launch, sys.executable, "-m", "explorer", "trace", "-o", "out/", "program.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    loaded = explorer.load(folder / "out")
    assert isinstance(loaded, Ranks)
    return loaded


def test_only_the_function_with_another_shape_diverges(ranks: Ranks) -> None:
    """The first compile is equal on cuda:0 and cuda:1, kernels and guards included."""
    assert ranks.first is not None and ranks.first["code"] == "return x.cos() + 1"
    assert {row["frame"] for row in ranks.divergences} == {"1/0"} and not ranks.missing


def test_the_collective_is_listed_with_what_overlaps_it(ranks: Ranks) -> None:
    """Both ranks start the same all_reduce of 1 MB; what is between its start and its wait stands there in the wrapper."""
    for number in (0, 1):
        (row,) = ranks.collectives().where(rank=number)
        assert (row["operator"], row["ranks"], row["bytes"]) == ("all_reduce", (0, 1), 512 * 512 * 4)
        lines = ranks[number].artifact(row["wrapper"]).lines
        assert "all_reduce" in lines[row["started"] - 1] and "wait_tensor" in lines[row["waited"] - 1]
        inside = "\n".join(lines[row["started"] : row["waited"] - 1])
        assert all(name in inside for name in row["between"])


def test_times_are_per_rank(ranks: Ranks) -> None:
    """Each rank says what its compiles took."""
    assert [(row["rank"], row["compiles"]) for row in ranks.times()] == [(0, 2), (1, 2)]
    assert all(row["compile_seconds"] > 0 for row in ranks.times())
