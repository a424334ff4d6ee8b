"""The assembly of a C++ kernel, made by the compile command that Inductor would use."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from explorer.capture.observe.cpp_command import assembly_command
from explorer.errors import LiveError
from explorer.lab.live.inlining import calls_of
from explorer.model.values import Artifact
from explorer.process import scratch
from explorer.stages.cpp import assembly
from explorer.stages.records import event_data


def assemble(kernel: Artifact) -> Artifact:
    """Compile a C++ kernel to assembly with line numbers; LiveError with the compiler's words where it fails.

    Where the debug information cannot be read, the artifact's `unlinked` says why.
    """
    with scratch.folder() as folder:
        source, output = Path(folder) / "kernel.cpp", Path(folder) / "kernel.s"
        source.write_text(kernel.text, encoding="utf-8")
        command = assembly_command(str(source), str(output))
        process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if process.returncode:
            raise LiveError(f"the C++ compiler refused {kernel.kernel}:\n{process.stderr}")
        text = output.read_text(encoding="utf-8")
        inlined, unlinked = _inlined_calls(text, Path(folder), command)
    facts = {"name": kernel.kernel, "file": "kernel.cpp", "nested": assembly.nested_lines(kernel.text), "unlinked": unlinked}
    # the folder is gone by the time the text is read
    data = event_data("assembly", {**facts, "inlined": inlined, "text": text.replace(folder, ".")})
    return assembly.STAGE.artifact_of_kernel(kernel, data)


def _inlined_calls(text: str, folder: Path, command: Sequence[str]) -> tuple[list[tuple[int, assembly.Calls]], str]:
    """By which calls each instruction was inlined, by its line, and ""; or nothing, and why."""
    machine_flags = [part for part in command if part.startswith("-m")]
    try:
        return list(calls_of(text, folder, [command[0], *machine_flags]).items()), ""
    except LiveError as error:
        return [], str(error)
