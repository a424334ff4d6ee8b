"""Hold the times of DDP's and FSDP2's collectives to a count by hand, and plant a late rank and a bucket that nothing hides.

    python benchmarks/hooks.py
    python benchmarks/hooks.py --programs ddp "ddp, one bucket" --steps 8

Each program is a small GPT that torchrun trains on two ranks, with NCCL on two GPUs, with gloo on the CPU where there are fewer.
A row has explorer's rows and runs of collectives, the kernels of NCCL (spans of gloo) that the profile's JSON has, and the
exposed time by both: of each kernel the part during which no other kernel or copy ran, on the CPU the whole. Where a rank sleeps,
`last` has to name it; with one bucket for all gradients, the share of the all_reduce that is exposed has to be larger.

    python benchmarks/hooks.py --target h200

also estimates each program's step without a GPU, by a trace for two of that GPU, and prints the estimate beside what each rank
measured: the collectives of a step, what of them is exposed, and the peak memory beside that of torch's allocator.
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
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import explorer
from explorer.analysis.questions.hook_memory import peak_bytes_of_step
from explorer.analysis.questions.priced_collectives import exposed_in_step
from explorer.model.records import typed
from explorer.stages.torch_compile.run_times import RunTimes
from explorer.tracing.traced.ranks import Ranks


class Program(NamedTuple):
    """The megabytes of DDP's buckets, or None where FSDP2 shards, and the seconds that rank 1 sleeps in each step."""

    megabytes: float | None
    sleeps: float = 0.0
    reshards: bool = True


PROGRAMS: dict[str, Program] = {
    "ddp": Program(4),
    "ddp, 25 MiB": Program(25),
    "ddp, one bucket": Program(4096),
    "ddp, rank 1 late": Program(4, 0.05),
    "fsdp2": Program(None),
    "fsdp2, not resharded": Program(None, reshards=False),
    "fsdp2, rank 1 late": Program(None, 0.05),
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


def wrapped(program: Program, *, large: bool) -> nn.Module:
    """The GPT, on the CPU where it is not placed, in DDP or sharded by FSDP2."""
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = GPT(1024 if large else 128, 8 if large else 2)
    if program.megabytes is not None:
        return DistributedDataParallel(model, bucket_cap_mb=program.megabytes)
    for block in model.blocks:
        block.compile()
        fully_shard(block, reshard_after_forward=program.reshards)
    return fully_shard(model)


def batch(*, large: bool) -> torch.Tensor:
    """The tokens of a rank's step."""
    return torch.randint(VOCABULARY, (16 if large else 2, TOKENS))


def estimate(program: str, target: str, *, large: bool) -> None:
    """Print the estimate of a step on two of a GPU that is not here."""
    began = time.perf_counter()
    with explorer.Cluster(target, RANKS) as cluster:
        model, tokens = wrapped(PROGRAMS[program], large=large), batch(large=large)
        trace = explorer.trace(
            lambda tokens: cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()), tokens, target=cluster, train=True
        )
    print(f"{program:20} estimated for {target}: {of_step(trace)}; peak {in_mib(peak_bytes_of_step(trace))}")
    print(f"{program:20} traced in {time.perf_counter() - began:.0f} s; {[str(failure)[:120] for failure in trace.failures]}")


def of_step(trace: explorer.Trace) -> str:
    """What the hooks of a step exchange, and what of it is exposed."""
    rows = [row for row in trace.collectives.table if row["sent_by"] and row["exposed"] is not None]
    exposed = exposed_in_step(trace)
    whole = sum(row["seconds"] for row in rows)
    return f"{len(rows)} rows, {whole * 1e3:.3f} ms, exposed {'unknown' if exposed is None else f'{exposed * 1e3:.3f} ms'}"


def in_mib(size: int | None) -> str:
    """A size in MiB."""
    return "unknown" if size is None else f"{size / 2**20:.1f} MiB"


def train(program: str, steps: int, folder: Path) -> None:
    """Train on this rank, recorded and profiled, and write the trace, the profile and the allocator's peak."""
    on_gpu = torch.cuda.device_count() >= RANKS
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    with explorer.record() as recording, torch.profiler.profile(acc_events=True) as profiler:
        with device:
            model = wrapped(PROGRAMS[program], large=on_gpu)
            tokens = batch(large=on_gpu)
        step = torch.compile(model) if PROGRAMS[program].megabytes is not None else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        sleeps = PROGRAMS[program].sleeps
        for number in range(steps):
            if on_gpu:
                torch.cuda.synchronize()
                if number == steps - 1:
                    torch.cuda.reset_peak_memory_stats()
            time.sleep(sleeps if rank == 1 else 0.0)
            cross_entropy(step(tokens).flatten(0, 1), tokens.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
        if on_gpu:
            torch.cuda.synchronize()
    (folder / f"peak{rank}").write_text(str(torch.cuda.max_memory_allocated()) if on_gpu else "")
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
        allocated = (folder / f"peak{rank}").read_text()
        print(
            f"{program:20} rank {rank}: a step, measured: {of_step(trace)}; peak {in_mib(int(allocated) if allocated else None)}"
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
    parser.add_argument("--target", help="a GPU to estimate for, such as h200")
    parser.add_argument("--estimate", choices=("small", "large"), help="estimate alone, of a small model or of that of two GPUs")
    options = parser.parse_args()
    if "RANK" in os.environ:
        train(options.programs[0], options.steps, options.folder)
        return
    if options.estimate:
        for program in options.programs:
            estimate(program, options.target, large=options.estimate == "large")
        return
    print(f"torch {torch.__version__}, {torch.cuda.device_count()} GPUs")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), __file__]
    for program in options.programs:
        if options.target:
            size = "large" if torch.cuda.device_count() >= RANKS else "small"
            alone = [sys.executable, __file__, "--programs", program, "--target", options.target, "--estimate", size]
            without_gpus = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
            estimated = subprocess.run(alone, capture_output=True, text=True, check=False, env=without_gpus)
            print(estimated.stdout.rstrip() if not estimated.returncode else f"{program:20} failed: {estimated.stderr[-2000:]}")
        with tempfile.TemporaryDirectory() as name:
            command = [*launch, "--programs", program, "--steps", str(options.steps), "--folder", name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{program:20} failed: {done.stderr[-2000:]}")
            else:
                report(program, Path(name))


if __name__ == "__main__":
    main()
