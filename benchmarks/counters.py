"""Carry reports of Nsight Compute to the lines of programs, and compare the sums with what the reports state themselves.

    python benchmarks/counters.py FOLDER

The folder has for each program NAME.trace, which explorer saved, and NAME.csv, the pages "source" and "raw" of its report. The
totals of the report are those of its raw page, which explorer does not read them from. Of a program "planted", whose kernels have
one fault each (`PLANTED`), the verdicts are printed with their first line.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import explorer
from explorer.analysis.advice.call_cost import TracedCall
from explorer.analysis.advice.counted import counted
from explorer.analysis.advice.verdicts import Verdict

#: The counts that are compared, and the metric that a report's raw page has for their sum.
TOTALS = {
    "samples": "smsp__pcsamp_sample_count",
    "executed": "inst_executed",
    "thread_executed": "thread_inst_executed_true",
    "wavefronts": "memory_l1_wavefronts_shared",
    "excess_wavefronts": "derived__memory_l1_wavefronts_shared_excessive",
}


class Planted(NamedTuple):
    """A fault of a kernel: the kind of its verdict, and what the line has that it is on."""

    kind: str
    code: str


#: The kernels with a fault each; that of `conflicts` is none in the report, since triton chose a layout without conflicts.
PLANTED = {
    "strided_0": Planted("uncoalesced", "tl.load(x + i * STRIDE"),
    "spilling_2": Planted("spills", "y = e / total"),
    "divergent_3": Planted("uncoalesced", "tl.load(x + i, few)"),
    "tail_4": Planted("tail", "tl.sin(value)"),
    "lonely_5": Planted("low occupancy", "for at in range"),
}


def totals(report: Path) -> Mapping[str, float]:
    """Sum the metrics of a report's raw page over its launches."""
    with report.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    begin = next(number for number, row in enumerate(rows) if row[:1] == ["ID"])
    head, launches = rows[begin], [row for row in rows[begin + 2 :] if len(row) == len(rows[begin])]
    columns = {name: head.index(metric) for name, metric in TOTALS.items() if metric in head}
    return {name: sum(float(row[n].replace(",", "") or 0) for row in launches) for name, n in columns.items()}


def table(head: list[str], rows: list[list[str]]) -> None:
    """Print a table in Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(row) + " |")
    print()


def named(verdicts: list[Verdict]) -> Iterator[list[str]]:
    """Yield a row per planted fault: whether its line is the first of the verdict."""
    for kernel, planted in PLANTED.items():
        found = [one for one in verdicts if one.title.startswith(f"{kernel} ") and one.kind == planted.kind]
        lines = [line for one in found for line in one.lines[:1]]
        hit = "yes" if any(planted.code in line.code for line in lines) else "no"
        yield [kernel, planted.kind, hit, *([f"{lines[0].number}: {lines[0].code}", found[0].evidence] if lines else ["", ""])]


def main() -> None:
    """Print the sums beside the report's, the share that each rung has, and the planted faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    sums: list[list[str]] = []
    shares: list[list[str]] = []
    faults: list[list[str]] = []
    rungs: list[str] = []
    for report in sorted(parser.parse_args().folder.glob("*.csv")):
        trace = explorer.load(report.with_suffix(".trace"))
        assert isinstance(trace, explorer.Trace)
        trace = trace.attach(report)
        lines = trace.profile.counters.lines
        for name, stated in totals(report).items():
            carried = sum(row[name] for row in lines)
            sums.append(
                [
                    report.stem,
                    name,
                    f"{stated:.0f}",
                    f"{carried:.6f}",
                    "yes" if abs(carried - stated) < 1e-6 * stated + 1e-9 else "no",
                ]
            )
        rungs = [row["rung"] for row in trace.profile.counters.shares]
        shares.append([report.stem, *(f"{row['share']:.1%}" for row in trace.profile.counters.shares)])
        (last,) = trace.profile.counters.shares.where(rung="lines")
        shares[-1].append("; ".join(f"{why}: {samples:.0f}" for why, samples in last["others"].items()))
        if report.stem == "planted":
            faults += named(list(counted(TracedCall(trace))))
    table(["program", "count", "report", "sum over user lines", "equal"], sums)
    table(["program", *rungs, "not on a user line, in samples"], shares)
    if faults:
        table(["kernel", "verdict", "first line is the planted one", "line", "evidence"], faults)


if __name__ == "__main__":
    main()
