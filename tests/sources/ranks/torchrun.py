"""Programs traced on several ranks, as a user does: by torchrun."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def command(python: str, ranks: int, *options: str) -> list[str]:
    """The command that traces the program of the current folder on some ranks, into the folder `out`."""
    launch = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "--no-python"]
    return [*launch, python, "-m", "explorer", "trace", "-o", "out/", *options, "program.py"]


def environment() -> dict[str, str]:
    """The environment of a job: one thread for each rank, whatever the machine has."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def traced(python: str, ranks: int, program: str, folder: Path, *options: str) -> Path:
    """Trace a program on some ranks in a folder, and return the folder of the traces."""
    (folder / "program.py").write_text(program)
    job = command(python, ranks, *options)
    done = subprocess.run(job, cwd=folder, env=environment(), capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "out"
