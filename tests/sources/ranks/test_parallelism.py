"""Tensor parallelism, DistributedDataParallel, FSDP2 and a pipeline on two ranks: what of each is compiled, and is compared."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.tracing.traced.ranks import Ranks
from tests.sources.ranks.torchrun import traced

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs torch with gloo"),
]

#: The number of layers that DistributedDataParallel cuts, each as large as a bucket.
LAYERS = 2
PROGRAM = f"""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, mesh = dist.get_rank(), init_device_mesh("cpu", (2,))
torch.manual_seed(0)

class TensorParallel(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

class DataParallel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range({LAYERS}))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))

class Sharded(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

class First(nn.Module):
    def forward(self, x):
        return x.sin() * 2

class Second(nn.Module):
    def forward(self, x):
        return x.cos() + 1

tensor = parallelize_module(TensorParallel(), mesh, {{"up": ColwiseParallel(), "down": RowwiseParallel()}})
torch.compile(tensor)(torch.ones(4, 64)).sum().backward()

data = DistributedDataParallel(DataParallel(), bucket_cap_mb=1)
torch.compile(data)(torch.ones(4, 512)).sum().backward()

sharded = Sharded()
for block in sharded.blocks:
    block.compile(backend="aot_eager")
    fully_shard(block, mesh=mesh)
fully_shard(sharded, mesh=mesh)
sharded(torch.ones(4, 64)).sum().backward()

stage = PipelineStage(torch.compile(First() if rank == 0 else Second(), backend="aot_eager"), rank, 2, torch.device("cpu"))
ScheduleGPipe(stage, 2).step(*([torch.ones(8, 64)] if rank == 0 else []))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory, warm: str) -> Ranks:
    """The two ranks of the program."""
    loaded = explorer.load(traced(warm, 2, PROGRAM, tmp_path_factory.mktemp("job")))
    assert isinstance(loaded, Ranks)
    return loaded


def frames_of(trace: explorer.Trace, function: str) -> list[str]:
    """The compiles of a function that have a graph."""
    own = [a.frame for a in trace.find("source") if a.data["qualname"] == function and a.data["compiled"]]
    return [frame for frame in dict.fromkeys(own) if trace.find("dynamo", frame)]


def test_tensor_parallelism_has_its_collective_in_the_graph(ranks: Ranks) -> None:
    """The sum over the parts of the second layer: in both ranks, of the whole batch, with the line that calls the layer."""
    for rank in ranks:
        (frame,) = frames_of(ranks[rank], "TensorParallel.forward")
        rows = [row for row in ranks.collectives.where(rank=rank, frame=frame) if row["graph"] == "forward"]
        assert [(row["operator"], row["ranks"], row["bytes"]) for row in rows] == [("all_reduce", (0, 1), 4 * 64 * 4)]
        assert rows[0]["code"] == "return self.down(torch.relu(self.up(x)))"


def test_each_bucket_of_ddp_is_a_graph_of_one_frame(ranks: Ranks) -> None:
    """Every layer fills a bucket, so DDPOptimizer cuts the graph behind each; all parts of both ranks are equal."""
    for rank in ranks:
        (frame,) = frames_of(ranks[rank], "DataParallel.forward")
        assert len(ranks[rank].find("post_grad", frame, "forward")) == LAYERS
        assert not ranks.divergences.where(frame=frame)


def test_what_hooks_send_between_the_graphs_has_rows(ranks: Ranks) -> None:
    """DDP's reducer and FSDP2's hooks, on both ranks: the bytes of all gradients, and of the block's parameters."""
    for rank in ranks:
        rows = [row for row in ranks.collectives.where(rank=rank) if row["sent_by"]]
        (reduced,) = [row for row in rows if row["operator"] == "all_reduce"]
        assert reduced["sent_by"].startswith("DDP bucket 0: 4 parameters") and reduced["ranks"] == (0, 1)
        assert reduced["bytes"] == LAYERS * (512 * 512 + 512) * 4
        gathered = [row for row in rows if row["operator"] == "all_gather_into_tensor"]
        assert {row["module"] for row in gathered} == {"blocks.0"}
        assert {row["bytes"] for row in gathered} == {(64 * 128 + 128 + 128 * 64 + 64) * 4}
    assert not ranks.exchanges_unseen


def test_a_block_that_fsdp2_shards_is_compiled_without_its_hooks(ranks: Ranks) -> None:
    """`block.compile()` before `fully_shard`: the hooks exchange parameters in Python, and the graph has no collective."""
    for rank in ranks:
        (frame, *others) = frames_of(ranks[rank], "Block.forward")
        assert ranks[rank].find("forward", frame, "forward") and ranks[rank].find("backward", frame, "backward")
        assert not ranks.collectives.where(rank=rank, frame=frame)
        assert not [row for one in (frame, *others) for row in ranks.divergences.where(frame=one)]


def test_the_stages_of_a_pipeline_are_named_as_other_functions(ranks: Ranks) -> None:
    """It is the first divergence of the job: each rank compiles the stage that it has."""
    first = ranks.divergences[0]
    assert first["kind"] in ("function", "graph")
    assert {first["here"].partition(".")[0], first["there"].partition(".")[0]} == {"First", "Second"}
