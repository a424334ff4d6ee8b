"""Ranks of a distributed job, and child processes that a recording does not see."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

#: The environment variables in which launchers state a process's rank and the number of processes.
RANKS = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))
#: Programs that only start other processes, by module or by file name.
LAUNCHERS = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "torchrun",
    "accelerate",
    "accelerate.commands.launch",
    "deepspeed",
)
#: The file endings before which a rank is inserted.
_ENDING = re.compile(r"(\.events)?\.(json\.gz|json|html?)$|\.[^.]*$|$", re.IGNORECASE)


def rank(environment: Mapping[str, str]) -> int | None:
    """This process's rank in a distributed job; None for a single process."""
    for rank_variable, size_variable in RANKS:
        number, size = environment.get(rank_variable, ""), environment.get(size_variable, "")
        if number.isdigit() and size.isdigit() and int(size) > 1:
            return int(number)
    return None


def path_of_rank(path: Path, number: int | None) -> Path:
    """Insert a rank into a file name: out.json.gz becomes out.rank0.json.gz. Without a rank the path stays."""
    if number is None:
        return path
    match = _ENDING.search(path.name)
    ending = match[0] if match else ""
    return path.with_name(f"{path.name.removesuffix(ending)}.rank{number}{ending}")


def count_started_processes() -> int:
    """Count the processes that Python's multiprocessing started from this one, such as DataLoader workers."""
    module = sys.modules.get("multiprocessing.process")
    counter = re.fullmatch(r"count\((\d+)\)", repr(getattr(module, "_process_counter", None)))
    return int(counter[1]) - 1 if counter else 0


def how_to_record_other_processes(number: int) -> str:
    """Explain how to record what other processes compile."""
    several = "1 other process was" if number == 1 else f"{number} other processes were"
    return (
        f"{several} started. A recording sees only what its own process compiles. In the function that the other process runs, "
        "such as a DataLoader's worker_init_fn, write `with explorer.record() as r:` around the calls, and then "
        "r.trace.save(f'out.{os.getpid()}.json.gz')"
    )


def how_to_trace_ranks(launcher: str) -> str:
    """Explain how to trace the processes that a launcher starts."""
    return (
        f"{launcher} runs the program in processes of its own, and none of them is recorded. Let it start explorer in each: "
        "`torchrun --nproc-per-node N --no-python explorer trace -o out.json.gz SCRIPT ARGS` writes out.rank0.json.gz, "
        "out.rank1.json.gz …"
    )
