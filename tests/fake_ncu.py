"""A program that stands for Nsight Compute's `ncu`: it runs what it is given, and its report has one sample per instruction."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import explorer
from explorer.lab.live.forms import assembled_here

INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
HEAD = '"Address","Source","Warp Stall Sampling (All Samples)","stall_wait"'


def source_page(trace: str) -> str:
    """The source page of a report on the kernels of a saved trace."""
    loaded = explorer.load(trace)
    assert isinstance(loaded, explorer.Trace)
    lines = []
    for sass in assembled_here(loaded, loaded.find("kernel")):
        lines += [f'"Kernel Name","{sass.kernel}"', HEAD]
        lines += [f'"0x{0x7F00 + int(offset, 16):x}"," {text} ","1","1"' for offset, text in INSTRUCTION.findall(sass.text)]
    return "\n".join(lines)


def installed(folder: Path) -> Path:
    """Write an executable `ncu` that runs this file into a folder."""
    file = folder / "ncu"
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n', encoding="utf-8")
    file.chmod(0o755)
    return file


def main(arguments: list[str]) -> int:
    """Run the program behind `--export REPORT`, or print a page of the report that was imported."""
    if "--import" in arguments:
        imported = Path(arguments[arguments.index("--import") + 1])
        page = arguments[arguments.index("--page") + 1]
        sys.stdout.write(imported.read_text(encoding="utf-8").removeprefix("NVR") if page == "source" else "")
        return 0
    report, *program = arguments[arguments.index("--export") + 1 :]
    status = subprocess.run(program, check=False).returncode
    Path(report).write_text(f"NVR{source_page(program[-1])}", encoding="utf-8")
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
