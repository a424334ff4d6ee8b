"""Run Nsight Compute, `ncu`: profile a program with it, and have it print a report."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from os import PathLike, fspath

from explorer.errors import FileError, NotInstalledError

#: The pages of a report that explorer reads: one row per launch with its metrics, one row per SASS instruction.
PAGES = ("raw", "source")
#: The sections of a report that explorer reads; `ncu --list-sections` lists all.
SECTIONS = ("SpeedOfLight", "LaunchStats", "Occupancy", "SourceCounters")


def found() -> str:
    """Return the path of ncu; NotInstalledError, which says what to do, where there is none."""
    if path := shutil.which("ncu"):
        return path
    raise NotInstalledError(
        "ncu is not on PATH: it comes with the CUDA toolkit, in the folder of Nsight Compute; install it or add its folder to "
        "PATH. Without it, t.attach() reads what `ncu --import report.ncu-rep --page source --csv` printed elsewhere"
    )


def profiling(report: str | PathLike[str], program: Sequence[str]) -> list[str]:
    """Return the command that runs a program, profiles its Triton kernels, and writes the report.

    `regex:triton` are the kernels that Inductor names; a launch takes as many passes as its counters need.
    """
    sections = (part for section in SECTIONS for part in ("--section", section))
    chosen = ("--import-source", "yes", "--target-processes", "all", "--kernel-name", "regex:triton")
    return [found(), *sections, *chosen, "--force-overwrite", "--export", fspath(report), *program]


def exported(report: str | PathLike[str]) -> str:
    """Print the pages of a report as CSV, one after the other; FileError, with ncu's words, where it refuses."""
    return "\n".join(_page(found(), fspath(report), page) for page in PAGES)


def _page(ncu: str, report: str, page: str) -> str:
    process = subprocess.run(
        [ncu, "--import", report, "--page", page, "--csv"], capture_output=True, text=True, errors="replace", check=False
    )
    if process.returncode:
        words = (process.stderr or process.stdout).strip()
        raise FileError(f"ncu cannot print {report}: {words}; a newer ncu reads the reports of older ones, not the other way")
    return process.stdout


__all__ = ["PAGES", "SECTIONS", "exported", "found", "profiling"]
