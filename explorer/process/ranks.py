"""Ranks of a distributed job, and child processes that a recording does not see."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from explorer.errors import InputError

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


#: The name of a trace in a folder.
IN_FOLDER = "trace.json.gz"


def rank(environment: Mapping[str, str]) -> int | None:
    """This process's rank in a distributed job; None for a single process."""
    place = rank_and_world(environment)
    return place[0] if place else None


def rank_and_world(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """This process's rank and the number of ranks; None for a single process."""
    for rank_variable, size_variable in RANKS:
        number, size = environment.get(rank_variable, ""), environment.get(size_variable, "")
        if number.isdigit() and size.isdigit() and int(size) > 1:
            return int(number), int(size)
    return None


def asks_for_rank(asked: str, environment: Mapping[str, str]) -> bool:
    """Whether `asked`, "all" or numbers such as "0,3", has this process's rank; InputError for any other value.

    A single process is rank 0 of one.
    """
    own, world = rank_and_world(environment) or (0, 1)
    if asked == "all":
        return True
    numbers = [part.strip() for part in asked.split(",")]
    if not all(part.isdecimal() for part in numbers):
        raise InputError(f"--ranks takes all, or numbers such as 0,3, not {asked!r}")
    if beyond := [part for part in numbers if int(part) >= world]:
        raise InputError(f"--ranks asks for rank {beyond[0]}, and the job's ranks are 0 to {world - 1}")
    return own in map(int, numbers)


def path_in_folder(path: str | PathLike[str], number: int | None) -> Path:
    """Return the path of a trace; for a folder, or a path that ends in "/", each rank's own name in it."""
    if os.fspath(path).endswith(("/", os.sep)) or Path(path).is_dir():
        return path_of_rank(Path(path) / IN_FOLDER, number)
    return Path(path)


def path_of_rank(path: Path, number: int | None) -> Path:
    """Insert a rank into a file name: out.json.gz becomes out.rank0.json.gz. Without a rank the path stays."""
    if number is None:
        return path
    match = _ENDING.search(path.name)
    ending = match[0] if match else ""
    return path.with_name(f"{path.name.removesuffix(ending)}.rank{number}{ending}")


def make_folder(folder: Path) -> None:
    """Make a folder unless it is there, as another rank may have made it; InputError where it cannot be made."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}") from error


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
