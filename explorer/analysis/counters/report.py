"""Read what `ncu --import report.ncu-rep --csv` prints of its pages "source" and "raw", one or both. Pure but for the file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

from explorer.errors import FileError
from explorer.model.values import EMPTY
from explorer.process import nsight_compute, regular_files
from explorer.stages.triton.counters import STALL

#: The columns of the source page that add up over instructions, and their names here.
COUNTS: Mapping[str, str] = {
    "Warp Stall Sampling (All Samples)": "samples",
    "Instructions Executed": "executed",
    "Predicated-On Thread Instructions Executed": "thread_executed",
    "L2 Theoretical Sectors Global": "sectors",
    "L2 Theoretical Sectors Global Excessive": "excess_sectors",
    "L2 Theoretical Sectors Local": "local_sectors",
    "L1 Wavefronts Shared": "wavefronts",
    "L1 Wavefronts Shared Excessive": "excess_wavefronts",
}
#: The metrics of the raw page that are kept, and their names here; down to `possible_occupancy` they are per cent.
METRICS: Mapping[str, str] = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "dram",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "l2",
    "l1tex__throughput.avg.pct_of_peak_sustained_active": "l1",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
    "sm__maximum_warps_per_active_cycle_pct": "possible_occupancy",
    "gpu__time_duration.sum": "seconds",
    "launch__registers_per_thread": "registers",
    "launch__waves_per_multiprocessor": "waves",
    "launch__occupancy_limit_registers": "blocks_by_registers",
    "launch__occupancy_limit_shared_mem": "blocks_by_shared",
    "launch__occupancy_limit_warps": "blocks_by_warps",
    "launch__grid_size": "blocks",
    "launch__sm_count": "multiprocessors",
    "launch__block_size": "threads",
}
#: The units of a duration, in seconds; ncu writes the longer names in its older versions.
SECONDS = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1.0, "second": 1.0}
#: How a report of Nsight Compute begins, and how its pages begin as CSV.
BINARY = b"NVR"
NAME, ADDRESS, SOURCE, ID = "Kernel Name", "Address", "Source", "ID"
HOW = "ncu --import report.ncu-rep --page source --csv > report.csv"


@dataclass(frozen=True)
class Instruction:
    """One row of the source page: the bytes from the kernel's begin, the SASS, and the counts that are not 0."""

    offset: int
    text: str
    counts: Mapping[str, float]


@dataclass(frozen=True)
class ReportedLaunch:
    """One profiled launch: its kernel, its instructions and its metrics; what its pages lack is empty."""

    name: str
    instructions: tuple[Instruction, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=lambda: EMPTY)


def is_report(path: str | PathLike[str]) -> bool:
    """Whether a file is one of Nsight Compute's: its own format, or a page of it as CSV."""
    try:
        with regular_files.opened(path) as file:
            begin = file.read(regular_files.CHUNK)
        return begin.startswith(BINARY) or any(map(_is_head, _rows(begin.decode(errors="replace"))))
    except FileError:  # who reads it as a profile says what is wrong
        return False


def launches_of(path: str | PathLike[str]) -> list[ReportedLaunch]:
    """Read the launches of a report; FileError where it has none.

    A report in ncu's own format is printed by ncu: NotInstalledError where that is not there.
    """
    with regular_files.opened(path) as file:
        is_binary = file.read(len(BINARY)) == BINARY
    text = nsight_compute.exported(path) if is_binary else regular_files.read_text(path, math.inf, "replace")
    launches = _launches(text)
    if not launches:
        raise FileError(f"{path} has no launch that ncu profiled: did --kernel-name leave all out? Print its source page: {HOW}")
    return launches


def _launches(text: str) -> list[ReportedLaunch]:
    """Read the pages of a report, and put the two pages of each launch together: the n-th of its kernel on either page."""
    sources: dict[str, list[tuple[Instruction, ...]]] = {}
    metrics: dict[str, list[Mapping[str, float]]] = {}
    for page in _pages(text):
        if ADDRESS in page.head:
            sources.setdefault(page.kernel, []).append(tuple(_instructions(page)))
        else:
            for name, values in _metrics(page):
                metrics.setdefault(name, []).append(values)
    launches: list[ReportedLaunch] = []
    for name in dict.fromkeys((*sources, *metrics)):
        by_launch, measured = sources.get(name, []), metrics.get(name, [])
        for number in range(max(len(by_launch), len(measured))):
            rows = by_launch[number] if number < len(by_launch) else ()
            launches.append(ReportedLaunch(name, rows, measured[number] if number < len(measured) else EMPTY))
    return launches


# CSV ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Page:
    """The rows below one head: of one launch on the source page, of all launches on the raw page."""

    kernel: str
    head: Sequence[str]
    rows: list[list[str]]


def _rows(text: str) -> Iterator[list[str]]:
    """Yield the rows of CSV, without what ncu itself says in between."""
    try:
        yield from csv.reader(line for line in io.StringIO(text) if not line.startswith("=="))
    except csv.Error as error:
        raise FileError(f"the report cannot be read as CSV: {error}; print it again: {HOW}") from error


def _is_head(row: Sequence[str]) -> bool:
    return {ADDRESS, SOURCE} <= set(row) or (row[:1] == [ID] and NAME in row)


def _pages(text: str) -> list[_Page]:
    pages: list[_Page] = []
    kernel = ""
    for row in _rows(text):
        if row[:1] == [NAME] and len(row) > 1 and not _is_head(row):
            kernel = _plain_name(row[1])
        elif _is_head(row):
            pages.append(_Page(kernel, row, []))
        elif pages and len(row) == len(pages[-1].head):
            pages[-1].rows.append(row)
    return pages


def _plain_name(name: str) -> str:
    """A kernel's name without the sizes of its launch: "triton_poi_fused_0 (64, 1, 1)x(128, 1, 1)"."""
    return name.partition("(")[0].strip()


def _instructions(page: _Page) -> Iterator[Instruction]:
    """Yield the rows of the source page that are SASS; lines of CUDA or PTX have no address."""
    columns = {name: number for number, name in reversed(list(enumerate(page.head)))}
    counted = {columns[column]: name for column, name in COUNTS.items() if column in columns}
    counted |= {number: name for name, number in columns.items() if name.startswith(STALL) and "(" not in name}
    begin: int | None = None
    for row in page.rows:
        if not row[columns[ADDRESS]].startswith("0x"):
            continue
        address = int(row[columns[ADDRESS]], 16)
        begin = address if begin is None else begin
        counts = {name: value for number, name in counted.items() if (value := _number(row[number]))}
        yield Instruction(address - begin, " ".join(row[columns[SOURCE]].split()), counts)


def _metrics(page: _Page) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield each launch of the raw page: its kernel, and the metrics that are kept. The first row has the units."""
    name_column, units = page.head.index(NAME), next((row for row in page.rows if not row[0]), [])
    kept = [(number, METRICS[column]) for number, column in enumerate(page.head) if column in METRICS]
    for row in page.rows:
        if row[0]:
            values = {name: value for number, name in kept if (value := _number(row[number])) is not None}
            if "seconds" in values:
                column = next(number for number, name in kept if name == "seconds")
                values["seconds"] *= SECONDS.get(units[column] if units else "ns", 1e-9)
            yield _plain_name(row[name_column]), values


def _number(cell: str) -> float | None:
    """The number of a cell, "1,234.5"; None for another."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


__all__ = ["Instruction", "ReportedLaunch", "is_report", "launches_of"]
