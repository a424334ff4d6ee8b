"""Ranks of a distributed job, and child processes that a recording does not see."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Mapping
from os import PathLike
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


def overwrites_ranks(path: Path, environment: Mapping[str, str]) -> str:
    """Explain that other ranks may save the same file; "" where its path has this rank or process, or for rank 0 alone."""
    number = rank(environment)
    if not number or re.search(rf"(?<!\d)0*({number}|{os.getpid()})(?!\d)", f"{path.parent.name}/{path.name}"):
        return ""  # a program where rank 0 alone saves is right
    return (
        f"this is rank {number} of several processes. Where each of them saves {path.name}, the last overwrites what the others "
        f"saved: give each a file of its own, such as {path_of_rank(path, number).name}"
    )


def warn_if_it_overwrites(path: str | PathLike[str]) -> None:
    """Warn whoever called the function that calls this one, where other ranks may save the same file."""
    if message := overwrites_ranks(Path(path), os.environ):
        warnings.warn(f"explorer: {message}", stacklevel=3)


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
        "such as the __getitem__ of a DataLoader's Dataset, write `with explorer.record() as r:` around the calls, and then "
        "r.trace.save(f'out.{os.getpid()}.json.gz')"
    )


def how_to_trace_ranks(launcher: str) -> str:
    """Explain how to trace the processes that a launcher starts."""
    return (
        f"{launcher} runs the program in processes of its own, and none of them is recorded. Let it start explorer in each: "
        "`torchrun --nproc-per-node N --no-python explorer trace -o out.json.gz SCRIPT ARGS` writes out.rank0.json.gz, "
        "out.rank1.json.gz …"
    )
