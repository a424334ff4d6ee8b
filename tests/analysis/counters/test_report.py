"""What is read of ncu's CSV: launches with their instructions, counts and metrics, from either page or both."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.analysis.counters.report import is_report, launches_of
from explorer.errors import FileError, NotInstalledError

SOURCE = """==PROF== Connected to process 7
"Kernel Name","triton_poi_fused_add_0"
"Address","Source","Warp Stall Sampling (All Samples)","L2 Theoretical Sectors Global","stall_mio","stall_mio (Not Issued)"
"0x7f0100","      LDC R1, c[0x0][0x28] ","0","-","0","0"
"0x7f0110","      @!P0 LDG.E R2, desc[UR4][R2.64] ","1,205","64","1,200","7"
"""
RAW = """"ID","Process ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread","sm__throughput.max"
"","","","us","register/thread","%"
"0","7","triton_poi_fused_add_0 (8, 1, 1)x(128, 1, 1)","4.5","32","9"
"""


def written(folder: Path, text: str) -> Path:
    """Write a report as CSV."""
    file = folder / "report.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_source_page_has_instructions_with_counts(tmp_path: Path) -> None:
    """Offsets count from the kernel's begin; zeros, and samples that were not issued, are left out."""
    (launch,) = launches_of(written(tmp_path, SOURCE))
    assert (launch.name, launch.metrics) == ("triton_poi_fused_add_0", {})
    first, second = launch.instructions
    assert (first.offset, first.text, first.counts) == (0, "LDC R1, c[0x0][0x28]", {})
    assert (second.offset, second.text) == (16, "@!P0 LDG.E R2, desc[UR4][R2.64]")
    assert second.counts == {"samples": 1205, "sectors": 64, "stall_mio": 1200}


def test_the_raw_page_has_metrics_in_seconds(tmp_path: Path) -> None:
    """A duration is converted by its unit; metrics that nothing reads are left out."""
    (launch,) = launches_of(written(tmp_path, RAW))
    assert launch.instructions == () and launch.metrics == pytest.approx({"seconds": 4.5e-6, "registers": 32})


@pytest.mark.parametrize("text", [SOURCE + RAW, RAW + SOURCE])
def test_both_pages_in_one_file_are_one_launch(text: str, tmp_path: Path) -> None:
    """The n-th launch of a kernel on either page is the same one."""
    (launch,) = launches_of(written(tmp_path, text))
    assert len(launch.instructions) == 2 and launch.metrics["registers"] == 32


def test_each_launch_of_a_kernel_is_one(tmp_path: Path) -> None:
    """The source page repeats its head for each."""
    assert len(launches_of(written(tmp_path, SOURCE + SOURCE))) == 2


def test_a_report_without_launches_says_what_to_print(tmp_path: Path) -> None:
    """The pages have a head and no rows."""
    head = RAW.partition("\n")[0] + "\n"
    with pytest.raises(FileError, match=r"no launch.*--page source"):
        launches_of(written(tmp_path, head))


def test_a_report_in_its_own_format_needs_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where ncu comes from, and what can be read without it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "report.ncu-rep"
    file.write_bytes(b"NVR\0")
    assert is_report(file)
    with pytest.raises(NotInstalledError, match=r"ncu is not on PATH.*--page source --csv"):
        launches_of(file)


@pytest.mark.parametrize("text", ["", "{}", '[{"frame": {}}]', "Address,Other\n1,2\n"])
def test_other_files_are_no_reports(text: str, tmp_path: Path) -> None:
    """A Chrome trace, a file of Proton and other CSV are left to others; so is a file that is not there."""
    assert not is_report(written(tmp_path, text)) and not is_report(tmp_path / "none.csv")
