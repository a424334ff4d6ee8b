"""Hold the times of DDP's and FSDP2's collectives to a count by hand, and plant a late rank and a bucket that nothing hides.

    python benchmarks/hooks.py
    python benchmarks/hooks.py --programs ddp "ddp, one bucket" --steps 8

Each program is a small GPT that torchrun trains on two ranks, with NCCL on two GPUs, with gloo on the CPU where there are fewer.
A row has explorer's rows and runs of collectives, the kernels of NCCL (spans of gloo) that the profile's JSON has, and the
exposed time by both: of each kernel the part during which no other kernel or copy ran, on the CPU the whole. Where a rank sleeps,
`last` has to name it; with one bucket for all gradients, the share of the all_reduce that is exposed has to be larger.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import explorer
from explorer.model.records import typed
from explorer.stages.torch_compile.run_times import RunTimes
from explorer.tracing.traced.ranks import Ranks

#: Each program: whether FSDP2 shards it, the megabytes of DDP's buckets, and the seconds that rank 1 sleeps in each step.
PROGRAMS: dict[str, tuple[bool, float, float]] = {
    "ddp": (False, 4, 0.0),
    "ddp, one bucket": (False, 4096, 0.0),
    "ddp, rank 1 late": (False, 4, 0.05),
    "fsdp2": (True, 0, 0.0),
    "fsdp2, rank 1 late": (True, 0, 0.05),
}
RANKS, TOKENS, VOCABULARY = 2, 128, 512


class Block(nn.Module):
    """A layer of a GPT."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads, self.merged = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend, and then compute for each token."""
        batch, tokens, width = x.shape
        q, k, v = (each.view(batch, tokens, -1, 64).transpose(1, 2) for each in self.heads(self.first(x)).chunk(3, -1))
        attended = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.merged(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(torch.relu(self.up(self.second(x))))


class GPT(nn.Module):
    """A small GPT."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The scores of the next tokens."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(program: str, steps: int, folder: Path) -> None:
    """Train on this rank, recorded and profiled, and write the trace and the profile."""
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    sharded, megabytes, sleeps = PROGRAMS[program]
    on_gpu = torch.cuda.device_count() >= RANKS
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(0)
    with explorer.record() as recording, torch.profiler.profile(acc_events=True) as profiler:
        model: nn.Module = GPT(1024 if on_gpu else 128, 8 if on_gpu else 2).to(device)
        if sharded:
            for block in model.blocks:
                block.compile()
                fully_shard(block)
            fully_shard(model)
            step = model
        else:
            model = DistributedDataParallel(model, bucket_cap_mb=megabytes)
            step = torch.compile(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        tokens = torch.randint(VOCABULARY, (16 if on_gpu else 2, TOKENS), device=device)
        for _ in range(steps):
            if on_gpu:
                torch.cuda.synchronize()
            time.sleep(sleeps if rank == 1 else 0.0)
            cross_entropy(step(tokens).flatten(0, 1), tokens.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
        if on_gpu:
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(folder / f"profile{rank}.json"))
    recording.trace.attach(profiler).save(folder / f"trace.rank{rank}.json.gz")
    dist.destroy_process_group()


def by_hand(path: Path) -> tuple[int, float]:
    """How many kernels of NCCL a profile's JSON has (spans of gloo without a GPU), and their exposed seconds."""
    spans = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]
    device = [event for event in spans if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    if not device:
        gloo = [event["dur"] for event in spans if event["name"].startswith("gloo:")]
        return len(gloo), sum(gloo) / 1e6
    edges = []  # 1 begins or -1 ends another kernel; 2 and -2 the same of NCCL's
    kernels = 0
    for event in device:
        weight = 2 if event["name"].startswith("nccl") else 1
        kernels += weight == 2
        edges += [(event["ts"], weight), (event["ts"] + event["dur"], -weight)]
    exposed, last, others, exchanging = 0.0, 0.0, 0, 0
    for at, weight in sorted(edges):
        if not others:
            exposed += exchanging * (at - last)
        last = at
        if abs(weight) == 2:
            exchanging += weight // 2
        else:
            others += weight
    return kernels, exposed / 1e6


def report(program: str, folder: Path) -> None:
    """Print what explorer and the count by hand say of each rank, and which rank came last."""
    ranks = explorer.load(folder)
    assert isinstance(ranks, Ranks)
    for rank, trace in ranks.items():
        kernels, exposed = by_hand(folder / f"profile{rank}.json")
        times = typed(RunTimes, trace.find("run_times")[0].data)
        every = [one for one in times.exchanges if one.line is not None]
        runs = [(one.seconds, one.overlapped or 0.0) for one in every if one.seconds is not None]
        told = sum(seconds - overlapped for seconds, overlapped in runs)
        table = [row for row in trace.collectives.table if row["sent_by"] and row["seconds"] and row["exposed"] is not None]
        hidden = [row for row in table if row["operator"] == "all_reduce"] or table
        whole = sum(row["seconds"] * row["runs"] for row in hidden)
        share = f"{sum(row['exposed'] * row['runs'] for row in hidden) / whole:.0%}" if whole else "unknown"
        rows = len(trace.collectives.table.where(graph=""))
        print(
            f"{program:20} rank {rank}: {rows} rows, {len(runs)} of {len(every)} runs with times, {kernels} kernels, "
            f"{'equal' if len(runs) == kernels else 'NOT EQUAL'}; exposed {told * 1e3:.3f} ms, by hand {exposed * 1e3:.3f} ms, "
            f"ratio {told / exposed if exposed else float('nan'):.4f}; exposed of a run of its collectives: {share}"
        )
    for line in str(ranks).split("\n"):
        if line.startswith(("last", "exposed")):
            print(f"{program:20} {line}")


def main() -> None:
    """Train each program by torchrun and report on it; each rank trains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--folder", type=Path, help="where a rank that trains writes its files")
    options = parser.parse_args()
    if "RANK" in os.environ:
        train(options.programs[0], options.steps, options.folder)
        return
    print(f"torch {torch.__version__}, {torch.cuda.device_count()} GPUs")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), __file__]
    for program in options.programs:
        with tempfile.TemporaryDirectory() as name:
            command = [*launch, "--programs", program, "--steps", str(options.steps), "--folder", name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{program:20} failed: {done.stderr[-2000:]}")
            else:
                report(program, Path(name))


if __name__ == "__main__":
    main()
