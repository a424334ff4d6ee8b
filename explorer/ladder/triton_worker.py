"""A process of its own that takes unoptimized TTIR down the ladder: what aborts here takes nothing else with it.

    python -m explorer.ladder.triton_worker

It reads pickled jobs from stdin and writes one pickled answer each to its original stdout; all else that is printed
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
    with contextlib.suppress(ImportError):  # it is said where a job needs it
        import triton.compiler  # noqa: F401
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(answer(job), answers)
        answers.flush()


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """The texts, binary and metadata of a job, or the stage that failed and what it said."""
    done: dict[str, Any] = {"texts": {}, "seconds": {}, "stage": "ttir"}
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            run(job, done)
    except BaseException as error:  # noqa: BLE001 whatever it is, the asking process is told
        done["error"] = f"{type(error).__name__}: {error}"
    done["said"] = said.getvalue()
    return done


def run(job: dict[str, Any], done: dict[str, Any]) -> None:
    """All stages of triton's backend for the job's target, in order, as triton.compile runs them."""
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
    if "ptx" in job:  # another PTX of the same kernel, which is only assembled
        stages, module = {backend.binary_ext: stages[backend.binary_ext]}, job["ptx"]
    else:
        module = parsed(job["ttir"], backend)
    for name, lower in stages.items():
        done["stage"] = name
        sys.stderr.write(f"-- explorer stage {name}\n")
        sys.stderr.flush()
        began = time.perf_counter()
        module = lower(module, metadata)
        done["seconds"][name] = time.perf_counter() - began
        keep(name, module, backend.binary_ext, done)
        if name == job.get("until"):
            break
    done["metadata"] = {k: v for k, v in metadata.items() if isinstance(v, (int, float, str, bool, type(None)))}


def keep(name: str, module: Any, binary: str, done: dict[str, Any]) -> None:
    """Copy what a stage made: bytes, or a text."""
    if name == binary:
        done["binary"] = module
    else:
        done["texts"][name] = str(module)


def gpu_target(job: dict[str, Any]) -> Any:
    """Triton's GPUTarget of a job."""
    from triton.backends.compiler import GPUTarget

    return GPUTarget(*job["triple"])


def parsed(text: str, backend: Any) -> Any:
    """The MLIR module of a text, in a context of its own."""
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
