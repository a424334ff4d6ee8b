"""Try backends, each in a process forked for it: what `trials` starts, with the backends' names as arguments.

Each answer is one line of JSON. The first has the names that torch registers. A backend may end the process that it runs in,
or never answer, so that each is tried in a child; torch is imported once for all of them.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from explorer.process.undebugged import undebugged


def main(arguments: list[str]) -> None:
    """Try the backends of these names, all of them within so many seconds as the first argument says."""
    limit, *names = arguments
    until = time.monotonic() + float(limit)
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a backend prints is no answer

    def say(**facts: object) -> None:
        answer.write(json.dumps(facts) + "\n")
        answer.flush()

    from explorer.capture.compilers.torch_compile import registered_backends

    say(registered=sorted(registered_backends()))
    if names:
        _warm_up()
    for name in names:
        began = time.monotonic()
        works, why = _apart(name, max(1.0, until - began))
        say(backend=name, works=works, why=why, seconds=round(time.monotonic() - began, 2))


def _warm_up() -> None:
    """Import what Dynamo and AOTAutograd import when they first compile: each forked process then has it already."""
    import torch

    if hasattr(os, "fork"):
        torch.compile(lambda x: torch.relu(x) * 2 + 1, backend="aot_eager")(torch.ones(8))
        torch.compiler.reset()


def _apart(name: str, limit: float) -> tuple[bool, str]:
    """Try one backend in a forked process, or in a spawned one if the platform has no fork."""
    if not hasattr(os, "fork"):
        return _spawned(name, limit)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)  # the compilers that it starts end with it
        os.write(writing, json.dumps(tried(name)).encode())
        os._exit(0)
    os.close(writing)
    said = b"".join(_read(reading, time.monotonic() + limit))
    os.close(reading)
    if said.endswith(b"]"):
        os.waitpid(child, 0)
        works, why = json.loads(said)
        return works, why
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        return False, _ended(os.waitstatus_to_exitcode(status))
    os.killpg(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return False, f"no answer in {limit:.0f} s"


def _read(reading: int, until: float) -> Iterator[bytes]:
    """What comes through a pipe until it is closed or the time is over."""
    while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(reading, 65536)
        if not part:
            time.sleep(0.05)  # the process that closed it ends now
            return
        yield part


def _spawned(name: str, limit: float) -> tuple[bool, str]:
    code = "import json, sys; from explorer.capture.compilers.trial_process import tried; print(json.dumps(tried(sys.argv[1])))"
    try:
        with undebugged():
            done = subprocess.run(
                [sys.executable, "-P", "-c", code, name],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # its first folders are the standard library's
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return False, f"no answer in {limit:g} s"
    if done.returncode:
        return False, _ended(done.returncode)
    works, why = json.loads(done.stdout.strip().rpartition("\n")[2])
    return works, why


def _ended(status: int) -> str:
    return f"it ended the process with signal {-status}" if status < 0 else f"it ended the process with status {status}"


def tried(name: str) -> tuple[bool, str]:
    """Whether a backend compiles a small function to what eager gives, and why not."""
    try:
        return _compiled(name)
    except BaseException as error:  # noqa: BLE001 a process of its own: what fails is its answer
        lines = [line.strip() for line in str(error).split("\n") if line.strip()]
        return False, f"{type(error).__name__}: {' '.join(lines[:2])}"


def _compiled(name: str) -> tuple[bool, str]:
    import torch

    from explorer.capture.compilers.compilers import compiler_named

    compiler = compiler_named(name)
    backend: Any = compiler.backend(Ignored(), {}) if compiler is not None else name
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    x = torch.randn(8, device="cpu" if compiler is not None else device)

    def f(x: Any) -> Any:
        return torch.relu(x) * 2 + 1

    with _skipped_captures() as skipped:
        result = torch.compile(f, backend=backend)(x)
    if not torch.allclose(result, f(x)):
        return False, "the result differs from eager"
    if skipped:
        return False, f"it ran the graph, and captured none: {skipped[0]}"
    return True, ""


@contextmanager
def _skipped_captures() -> Iterator[list[str]]:
    """Give a list of torch's reason for each CUDA graph that is not captured inside the block."""
    from torch._dynamo.backends import cudagraphs

    from explorer.capture.observe.patch import followed

    skipped: list[str] = []
    with followed(cudagraphs, "log_cudagraph_skip_and_bump_counter", lambda _, reason: skipped.append(reason)):
        yield skipped


class Ignored:
    """An emit that records nothing."""

    def __getattr__(self, name: str) -> Any:
        """Each way to record, which does nothing and is a context that does nothing."""
        from contextlib import nullcontext

        return lambda *args, **kwargs: nullcontext()

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Record nothing."""


if __name__ == "__main__":
    main(sys.argv[1:])
