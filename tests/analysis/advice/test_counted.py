"""Verdicts on what Nsight Compute counted: each names the planted line, with the report's figures."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import explorer
from explorer.analysis.advice.call_cost import TracedCall
from explorer.analysis.advice.counted import counted
from explorer.analysis.advice.verdicts import Verdict
from explorer.tracing.traced import Trace
from tests.facts import untold

RECORDED = Path(__file__).parents[2] / "data" / "counters" / "planted"


def verdicts(report: Path) -> list[Verdict]:
    """The verdicts on a report of the two recorded kernels."""
    trace = explorer.load(RECORDED.with_suffix(".trace"))
    assert isinstance(trace, Trace)
    return list(counted(TracedCall(trace.attach(report))))


@pytest.fixture(scope="module")
def found() -> list[Verdict]:
    """The verdicts on the recorded report."""
    return verdicts(RECORDED.with_suffix(".csv"))


@pytest.mark.parametrize(
    ("kernel", "kind", "code", "figures"),
    [
        ("strided_0", "uncoalesced", "value = tl.load(x + i * STRIDE, i < n)", ("57,344", "73,728", "LDG.E")),
        ("lonely_5", "bank conflicts", "left = tl.load(a + (row + i)[:, None] * K + (at + k)[None, :])", ("8,320", "LDGSTS")),
        ("lonely_5", "low occupancy", "for at in range(0, K, 32):", ("2 blocks", "132 multiprocessors")),
    ],
)
def test_what_is_planted_is_named_at_its_line(
    found: list[Verdict], kernel: str, kind: str, code: str, figures: tuple[str, ...]
) -> None:
    """The first line has most of what the verdict is about."""
    (verdict,) = [one for one in found if one.kind == kind and one.title.startswith(kernel)]
    assert verdict.lines[0].code == code and not untold(verdict.evidence, "Nsight Compute", *figures)
    assert 0 < verdict.cost.seconds <= 28.3e-6 and verdict.cost.known == "measured"


@pytest.mark.parametrize(
    ("blocks", "kind", "said"), [("133", "tail", "133 blocks for 132 multiprocessors"), ("9999", "stall", "stall_long_sb")]
)
def test_without_another_cause_an_uneven_load_or_the_main_stall_is_named(
    tmp_path: Path, blocks: str, kind: str, said: str
) -> None:
    """A kernel of many warps and blocks that moves no excess sectors still waits for something."""
    rows = list(csv.reader(RECORDED.with_suffix(".csv").read_text(encoding="utf-8").split("\n")))
    excess = rows[1].index("L2 Theoretical Sectors Global Excessive")
    metrics = next(row for row in rows if row[:1] == ["ID"])
    for row in rows:
        if row[:1] == ["0"]:
            row[metrics.index("launch__grid_size")] = blocks
            row[metrics.index("sm__warps_active.avg.pct_of_peak_sustained_active")] = "90"
        if row and row[0].startswith("0x"):
            row[excess] = "0"
    with (tmp_path / "report.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    (verdict,) = [one for one in verdicts(tmp_path / "report.csv") if one.title.startswith("strided_0")]
    assert verdict.kind == kind and said in verdict.evidence
