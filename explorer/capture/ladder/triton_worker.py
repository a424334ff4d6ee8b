"""The worker process that compiles unoptimized TTIR to machine code; a crash here harms no other process.

    python -m explorer.capture.ladder.triton_worker

It reads pickled jobs from stdin and writes a pickled answer to each to its original stdout; everything else that is printed
goes to stderr. It imports triton only, never torch, and writes nothing to triton's cache.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
import tempfile
import time
from typing import Any


def main() -> None:
    """Answer jobs until stdin ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(ImportError):  # the first job reports it
        import triton.compiler  # noqa: F401
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(answer(job), answers)
        answers.flush()


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job: return its texts, binary and metadata, or the stage that failed and its output."""
    done: dict[str, Any] = {"texts": {}, "seconds": {}, "stage": "ttir"}
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            run(job, done)
    except BaseException as error:  # noqa: BLE001 the process that asked must get an answer
        done["error"] = f"{type(error).__name__}: {error}"
    done["printed"] = printed.getvalue()
    return done


def run(job: dict[str, Any], done: dict[str, Any]) -> None:
    """Run all stages of triton's backend for the job's target, in order, as triton.compile does."""
    from triton import knobs
    from triton.backends.compiler import Language
    from triton.compiler.compiler import make_backend

    knobs.nvidia.dump_ptxas_log = True
    target = gpu_target(job)
    backend = make_backend(target)
    options = backend.parse_options(dict(job["options"]))
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.TRITON)
    metadata: dict[str, Any] = {"target": target, **options.__dict__}
    if "ptx" in job:  # assemble this PTX of the same kernel, and nothing else
        stages, module = {backend.binary_ext: stages[backend.binary_ext]}, job["ptx"]
    else:
        module = parse_module(job["ttir"], backend)
    for name, lower in stages.items():
        done["stage"] = name
        sys.stderr.write(f"-- explorer stage {name}\n")
        sys.stderr.flush()
        began = time.perf_counter()
        module = lower(module, metadata)
        if name in job.get("override", ()):
            module = overridden(name, job["override"][name], backend)
        done["seconds"][name] = time.perf_counter() - began
        store_output(name, module, backend.binary_ext, done)
        if name == job.get("until"):
            break
    done["metadata"] = {k: v for k, v in metadata.items() if isinstance(v, (int, float, str, bool, type(None)))}


def overridden(name: str, text: str, backend: Any) -> Any:
    """Return the text that replaces a stage's output, in the form that the next stage takes."""
    return parse_module(text, backend) if name in ("ttir", "ttgir") else text


def store_output(name: str, module: Any, binary: str, done: dict[str, Any]) -> None:
    """Keep a stage's output: the binary's bytes, or a text."""
    if name == binary:
        done["binary"] = module
    else:
        done["texts"][name] = str(module)


def gpu_target(job: dict[str, Any]) -> Any:
    """The job's target as triton's GPUTarget."""
    from triton.backends.compiler import GPUTarget

    return GPUTarget(*job["triple"])


def parse_module(text: str, backend: Any) -> Any:
    """Parse MLIR text in a new context."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with tempfile.NamedTemporaryFile("w", suffix=".ttir", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    module.context = context
    return module


if __name__ == "__main__":
    main()
