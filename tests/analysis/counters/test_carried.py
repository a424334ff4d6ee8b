"""A report of an H200 joined with the trace of the same program: its counts, carried from SASS to the lines of the program.

`data/counters` has two kernels written by hand, a load of every 32nd float and a product of matrices, compiled by torch 2.11.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import explorer
from explorer.errors import InputError
from explorer.tracing.traced import Trace
from tests.facts import untold

RECORDED = Path(__file__).parents[2] / "data" / "counters" / "planted"
REPORT = RECORDED.with_suffix(".csv")
RUNGS = ("instructions", "ptx_lines", "kernel_lines", "nodes", "modules", "lines")


@pytest.fixture(scope="module")
def bare() -> Trace:
    """The trace before a report is read in."""
    trace = explorer.load(RECORDED.with_suffix(".trace"))
    assert isinstance(trace, Trace)
    return trace


@pytest.fixture(scope="module")
def counted(bare: Trace) -> Trace:
    """The trace with the report."""
    return bare.attach(REPORT)


def totals() -> Mapping[str, float]:
    """What Nsight Compute itself sums up on the raw page of the report."""
    with REPORT.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    head = next(number for number, row in enumerate(rows) if row[0] == "ID")
    return {name: sum(float(row[n].replace(",", "")) for row in rows[head + 2 :]) for n, name in enumerate(rows[head]) if n > 1}


def reworded(tmp_path: Path, change: Callable[[str], str]) -> Path:
    """Write the report with a change."""
    file = tmp_path / "report.csv"
    file.write_text(change(REPORT.read_text(encoding="utf-8")), encoding="utf-8")
    return file


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize(
    ("count", "total"),
    [
        ("samples", "smsp__pcsamp_sample_count"),
        ("executed", "smsp__inst_executed.sum"),
        ("wavefronts", "memory_l1_wavefronts_shared"),
        ("excess_wavefronts", "derived__memory_l1_wavefronts_shared_excessive"),
    ],
)
def test_every_rung_adds_up_to_the_report(counted: Trace, rung: str, count: str, total: str) -> None:
    """The rows that are carried and those that are not are the total that Nsight Compute states for the kernels."""
    rows = getattr(counted.profile.counters, rung)
    assert sum(row[count] for row in rows) == pytest.approx(totals()[total])
    assert all(row["why"] or row[rows.columns[0]] for row in rows)


def test_all_instructions_are_joined_and_most_samples_reach_a_line(counted: Trace) -> None:
    """The two tools write hints of reuse, jumps and copies differently; the rest is what ends a kernel."""
    shares = {row["rung"]: row for row in counted.profile.counters.shares}
    assert shares["instructions"]["share"] == 1 and shares["lines"]["share"] > 0.9
    assert set(shares["lines"]["others"]) == {"what ends the kernel and fills the rest is nobody's line"}


def test_the_strided_load_is_on_its_own_line(counted: Trace) -> None:
    """Of a kernel written by hand the line inside it is meant, not that of the launch."""
    excess = {row["code"]: row["excess_sectors"] for row in counted.profile.counters.lines if row["excess_sectors"]}
    assert excess == {"value = tl.load(x + i * STRIDE, i < n)": 57344}
    (row,) = counted.profile.counters.kernel_lines.where(code="value = tl.load(x + i * STRIDE, i < n)")
    assert (row["kernel"], row["excess_sectors"]) == ("strided_0", 57344)


def test_a_kernel_has_its_metrics_and_its_time(counted: Trace) -> None:
    """The report's duration is that of the kernel in every table of times, where no other profile has one."""
    (strided,) = counted.profile.counters.kernels.where(kernel="strided_0")
    assert strided["occupancy"] == pytest.approx(5.561982) and strided["seconds"] == pytest.approx(3.584e-6)
    (row,) = (row for row in counted.kernels.table if row["kernel"] == "strided_0")
    assert row["timed"] == "measured" and row["seconds"] == pytest.approx(3.584e-6)


def test_follow_leads_from_a_line_of_the_program_to_its_counters(counted: Trace) -> None:
    """The counters are a text with links, which the view shows beside the others."""
    rows = counted.follow("prog.py", 79, into="counters")
    assert "28672" in "".join(str(row["text"]) for row in rows) or any("LDG" in row["text"] for row in rows)


def test_a_second_report_takes_the_place_of_the_first(counted: Trace) -> None:
    """Reading it in again changes nothing; a saved trace has it."""
    assert counted.attach(REPORT) == counted


def test_launches_of_a_kernel_are_added_up(bare: Trace, tmp_path: Path) -> None:
    """Counts are sums, metrics means."""
    twice = bare.attach(reworded(tmp_path, lambda text: text + text))
    (strided,) = twice.profile.counters.kernels.where(kernel="strided_0")
    assert (strided["launches"], strided["samples"], strided["registers"]) == (2, 212, 18)


def test_a_kernel_that_the_trace_lacks_is_named(bare: Trace, tmp_path: Path) -> None:
    """Its counts have rows that say so, and the sums stay those of the report."""
    other = bare.attach(reworded(tmp_path, lambda text: text.replace('"lonely"', '"other"')))
    (row,) = other.profile.counters.kernels.where(kernel="other")
    assert not untold(row["why"], "no kernel", "name")
    assert sum(row["samples"] for row in other.profile.counters.lines) == 153


def test_other_code_is_not_taken_for_a_kernel(bare: Trace, tmp_path: Path) -> None:
    """One opcode that differs is another kernel, such as one of another config."""
    other = bare.attach(reworded(tmp_path, lambda text: text.replace("ISETP.GE.AND P1", "FSETP.GE.AND P1", 1)))
    (row,) = other.profile.counters.kernels.where(kernel="strided")
    assert not untold(row["why"], "other code")


def test_an_instruction_with_other_operands_is_not_joined(bare: Trace, tmp_path: Path) -> None:
    """The kernel is, since all opcodes agree; that row says why it is carried nowhere."""
    other = bare.attach(reworded(tmp_path, lambda text: text.replace("ISETP.GE.AND P1", "ISETP.GE.AND P6", 1)))
    lost = [row["why"] for row in other.profile.counters.instructions if row["why"]]
    assert len(lost) == 1 and not untold(lost[0], "another text", "offset")


def test_a_report_of_another_program_is_refused(bare: Trace, tmp_path: Path) -> None:
    """The error names what the report has and what the trace has, and says what to do."""
    other = reworded(tmp_path, lambda text: text.replace('"strided"', '"one"').replace('"lonely"', '"two"'))
    with pytest.raises(InputError) as caught:
        bare.attach(other)
    assert not untold(str(caught.value), "one: the trace has no kernel", "strided_0", "explorer trace --ncu")


def test_without_a_report_the_tables_say_how_to_get_one(bare: Trace) -> None:
    """They have columns and no rows."""
    table = bare.profile.counters.lines
    assert not table and table.columns and re.search(r"explorer trace --ncu.*t\.attach", table.why_empty)
