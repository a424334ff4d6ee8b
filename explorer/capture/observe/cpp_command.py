"""The command by which Inductor compiles a C++ kernel."""

from __future__ import annotations

import shlex
from pathlib import Path


def assembly_command(source: str, output: str) -> list[str]:
    """Inductor's own command to compile a C++ kernel, changed to write assembly with line numbers."""

    from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    options = CppTorchDeviceOptions(vec_isa=pick_vec_isa(), device_type="cpu", compile_only=True)
    builder = CppBuilder(name="kernel", sources=source, output_dir=str(Path(output).parent), BuildOption=options)
    command = shlex.split(builder.get_command_line())
    command = [part for part in command if part != "-c"]
    command[command.index("-o") + 1] = output
    return [*command, "-S", "-g1"]
