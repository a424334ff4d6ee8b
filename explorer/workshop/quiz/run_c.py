"""Run C that a learner's compiler wrote, in a process of its own: what it breaks there breaks nothing here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from explorer.errors import CompileError
from explorer.process.scratch import folder

#: Reads the inputs from standard input, calls `run`, and writes the outputs to standard output.
MAIN = """
#include <stdio.h>
static const long in_sizes[] = {%(inputs)s}, out_sizes[] = {%(outputs)s};
static float *filled(long size) {
    return calloc(size, sizeof(float));
}
int main(void) {
    float *in[%(input_count)d], *out[%(output_count)d];
    for (int n = 0; n < %(input_count)d; n++) {
        in[n] = filled(in_sizes[n]);
        if (fread(in[n], sizeof(float), in_sizes[n], stdin) != (size_t)in_sizes[n]) return 1;
    }
    for (int n = 0; n < %(output_count)d; n++) out[n] = filled(out_sizes[n]);
    run(in, out);
    for (int n = 0; n < %(output_count)d; n++) fwrite(out[n], sizeof(float), out_sizes[n], stdout);
    return 0;
}
"""


def run_c(c: str, inputs: list[Any], expected: tuple[Any, ...], patience: float = 20) -> tuple[Any, ...]:
    """Run the `run(float **in, float **out)` of a C text on float32 tensors, for `patience` seconds at most.

    The results have the shapes of `expected`. CompileError where the text does not compile, or its run fails.
    """
    import torch

    sizes = [value.numel() for value in expected]
    given = b"".join(value.numpy().tobytes() for value in inputs)
    data = _ran(c, [value.numel() for value in inputs], sizes, given, patience)
    if len(data) != 4 * sum(sizes):
        raise CompileError(f"the C wrote {len(data)} bytes, and not {4 * sum(sizes)}: does it print?")
    parts = torch.frombuffer(bytearray(data), dtype=torch.float32).split(sizes)
    return tuple(part.reshape(value.shape) for part, value in zip(parts, expected, strict=True))


def _ran(c: str, inputs: list[int], outputs: list[int], data: bytes, patience: float) -> bytes:
    """Compile C with a `main`, and return what it writes for the data."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise CompileError("there is no C compiler (cc, or what CC names): install gcc or clang")
    sizes = {"inputs": ", ".join(map(str, inputs)), "outputs": ", ".join(map(str, outputs))}
    main = MAIN % {**sizes, "input_count": len(inputs), "output_count": len(outputs)}
    with folder() as name:
        Path(name, "toy.c").write_text(f"#include <stdlib.h>\n{c}\n{main}", encoding="utf-8")
        command = [compiler, "-O1", "toy.c", "-o", "toy", "-lm"]
        built = subprocess.run(command, cwd=name, capture_output=True, text=True, check=False)
        if built.returncode:
            errors = [line for line in built.stderr.split("\n") if "error" in line] or [f"{compiler} failed"]
            raise CompileError(f"the C does not compile: {errors[0]}")
        try:
            done = subprocess.run([Path(name, "toy")], input=data, capture_output=True, timeout=patience, check=False)
        except subprocess.TimeoutExpired:
            raise CompileError(f"the C ran for more than {patience} s: does a loop end?") from None
    if done.returncode:
        raise CompileError(f"the C ended with status {done.returncode}: does it write outside of its memory?")
    return done.stdout
