"""Compare explorer's prices of collectives with NCCL's kernels on the attached GPUs.

    torchrun --nproc-per-node 2 benchmarks/collectives.py

Each collective is queued many times behind a kernel that keeps the GPU busy, so that the ranks do not wait for their hosts. A
call takes as long as the kernel of the rank that came last, the shortest of its kernels; the figure is the median of the calls.
"link" is a ring at the full rate of the link, which is what a price without latency and protocol says. The constants of the
prices were fitted to some of the rows, which are marked.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable

import torch
import torch.distributed as dist

from explorer.reference.gpus.interconnect import INTERCONNECTS, seconds_of_collective, sent_by_each

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
#: Bytes of the whole tensor. The constants were fitted to `FITTED` of these in float32.
SIZES = (1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 21, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30)
FITTED = (1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 26, 1 << 30)
IN_BF16 = (1 << 16, 1 << 22, 1 << 26, 1 << 30)


def call_of(kind: str, count: int, dtype: torch.dtype) -> Callable[[], object]:
    """Return what starts a collective on `count` elements."""
    whole = torch.ones(count, dtype=dtype, device="cuda")
    part = torch.ones(count // dist.get_world_size(), dtype=dtype, device="cuda")
    if kind == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if kind == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, part)
    if kind == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(part, whole)
    if kind == "all_to_all":
        result = torch.empty_like(whole)
        return lambda: dist.all_to_all_single(result, whole)
    return lambda: dist.broadcast(whole, 0)


def measured(kind: str, bytes: int, dtype: torch.dtype, repeats: int) -> float:
    """The median seconds of a collective, see the module's docstring."""
    from torch.profiler import ProfilerActivity, profile

    ranks = dist.get_world_size()
    call = call_of(kind, bytes // dtype.itemsize // ranks * ranks, dtype)
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        dist.barrier()
        torch.cuda.synchronize()
        torch.cuda._sleep(20_000_000)  # about 10 ms
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
    on_gpu = torch.autograd.DeviceType.CUDA
    kernels = [event for event in profiled.events() if event.device_type == on_gpu and "nccl" in event.name]
    own = [event.time_range.elapsed_us() / 1e6 for event in sorted(kernels, key=lambda event: event.time_range.start)][-repeats:]
    every: list[list[float]] = [[] for _ in range(ranks)]
    dist.all_gather_object(every, own)
    return statistics.median(min(column) for column in zip(*every, strict=True))


def main() -> None:
    """Print a row for each collective."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--gpu", default="h100", help="the name of the GPU whose link is priced")
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    link, ranks = INTERCONNECTS[options.gpu], dist.get_world_size()
    ratios: dict[bool, list[float]] = {True: [], False: []}
    if dist.get_rank() == 0:
        print(f"{ranks} of {torch.cuda.get_device_name()}, NCCL {torch.cuda.nccl.version()}, torch {torch.__version__}")
        print("| collective | type | bytes | measured µs | link / measured | price / measured | fitted |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
    for kind in KINDS:
        for dtype, sizes in ((torch.float32, SIZES), (torch.bfloat16, IN_BF16)):
            for bytes in sizes:
                seconds = measured(kind, bytes, dtype, options.repeats)
                price = seconds_of_collective(link, kind, ranks, bytes)
                sent = sent_by_each(kind, ranks, bytes)
                if dist.get_rank() or price is None or sent is None:
                    continue
                fitted = dtype is torch.float32 and bytes in FITTED
                ratios[fitted].append(price / seconds)
                at_full_rate = sent / link.rate(ranks)
                words = f"| {kind} | {str(dtype).removeprefix('torch.')} | {bytes} | {seconds * 1e6:.1f} "
                print(f"{words}| {at_full_rate / seconds:.2f} | {price / seconds:.2f} | {'yes' if fitted else ''} |", flush=True)
    for fitted, shares in ratios.items():
        if shares:
            near = sum(0.8 <= share <= 1.25 for share in shares)
            print(f"{'fitted' if fitted else 'not fitted'}: {near} of {len(shares)} within 25 %", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
