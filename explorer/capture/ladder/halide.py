"""Have Halide write the forms of a kernel: by the command with which Inductor compiles it, with other outputs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from explorer.errors import LiveError
from explorer.process import scratch

#: What Halide's generator calls its outputs, and how the files that it writes end.
OUTPUTS = {"schedule": ".schedule.h", "stmt": ".stmt", "llvm_assembly": ".ll", "assembly": ".s"}
_PLUGIN = re.compile(r"^    hl\.load_plugin\((.+)\)$", re.MULTILINE)
_TARGET = re.compile(r"^    target = hl\.Target\((.+)\)$", re.MULTILINE)
_SCHEDULER = re.compile(r"^    autoscheduler = hl\.AutoschedulerParams(\(.+\))$", re.MULTILINE)


def written_forms(name: str, source: str) -> dict[str, str]:
    """The text of each of Halide's outputs for a kernel; LiveError with Halide's words where it fails.

    The source itself says for which target and with which autoscheduler Inductor compiles it, as HalideCodeCache does.
    """
    with scratch.folder() as folder:
        file = Path(folder) / "generate_kernel.py"
        file.write_text(source, encoding="utf-8")
        command = [sys.executable, str(file), "-g", "kernel", "-o", folder, "-f", "halide_kernel", "-e", ",".join(OUTPUTS)]
        process = subprocess.run([*command, *arguments(source)], capture_output=True, text=True, check=False, cwd=folder)
        if process.returncode:
            raise LiveError(f"Halide refused {name}:\n{process.stderr}")
        files = {output: Path(folder) / f"halide_kernel{end}" for output, end in OUTPUTS.items()}
        return {output: path.read_text(encoding="utf-8").replace(folder, ".") for output, path in files.items()}


def arguments(source: str) -> list[str]:
    """The generator's further arguments: the autoscheduler's plugin, the target, and the autoscheduler's parameters."""
    return list(_arguments(source))


def _arguments(source: str) -> Iterator[str]:
    if plugin := _PLUGIN.search(source):
        yield from ("-p", ast.literal_eval(plugin[1]))
    if target := _TARGET.search(source):
        yield f"target={ast.literal_eval(target[1])}"
    if scheduler := _SCHEDULER.search(source):
        name, parameters = ast.literal_eval(scheduler[1])
        yield f"autoscheduler={name}"
        yield from (f"autoscheduler.{key}={value}" for key, value in parameters.items())
