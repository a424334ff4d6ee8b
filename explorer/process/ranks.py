"""Other processes: which of several this one is, and that the program has started some, which nothing here records."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

#: Where launchers of several processes write which one a process is, and how many there are.
RANKS = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))
#: Programs that do nothing but start others, by module or by file.
LAUNCHERS = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "torchrun",
    "accelerate",
    "accelerate.commands.launch",
    "deepspeed",
)
#: The endings of a trace's files; a rank is written before them.
_ENDING = re.compile(r"(\.events)?\.(json\.gz|json|html?)$|\.[^.]*$|$", re.IGNORECASE)


def rank(environment: Mapping[str, str]) -> int | None:
    """The number of this process among those that a launcher started together; None where there is one alone."""
    for own, size in RANKS:
        if environment.get(own, "").isdigit() and environment.get(size, "").isdigit() and int(environment[size]) > 1:
            return int(environment[own])
    return None


def of_rank(path: Path, number: int | None) -> Path:
    """The file of one rank: out.json.gz becomes out.rank0.json.gz; the path itself where there are no ranks."""
    if number is None:
        return path
    found = _ENDING.search(path.name)
    ending = found[0] if found else ""
    return path.with_name(f"{path.name.removesuffix(ending)}.rank{number}{ending}")


def started() -> int:
    """How many processes Python's multiprocessing has started from this one, as for a DataLoader's workers."""
    module = sys.modules.get("multiprocessing.process")
    counted = re.fullmatch(r"count\((\d+)\)", repr(getattr(module, "_process_counter", None)))
    return int(counted[1]) - 1 if counted else 0


def record_them(number: int) -> str:
    """How to record what other processes compile."""
    several = "1 other process was" if number == 1 else f"{number} other processes were"
    return (
        f"{several} started, and what a process compiles is recorded only in itself: in the function that it runs, such as a "
        "DataLoader's worker_init_fn, write `with explorer.record() as r:` around the calls, and then "
        "r.trace.save(f'out.{os.getpid()}.json.gz')"
    )


def launch_inside(launcher: str) -> str:
    """How to trace what a launcher of several processes starts."""
    return (
        f"{launcher} runs the program in processes of its own, and none of them is recorded: let it start explorer in each, "
        "`torchrun --nproc-per-node N --no-python explorer trace -o out.json.gz SCRIPT ARGS`, which writes out.rank0.json.gz, "
        "out.rank1.json.gz …"
    )
