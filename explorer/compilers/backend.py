"""Backends of torch.compile: which there are, and which work here."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from explorer.compilers.torch_compile import registered_backends
from explorer.errors import InputError, unknown_name
from explorer.model.values import Rows, text_lines

#: The trial of a backend. It runs in a separate process, because a backend may end the process it runs in.
TRIAL = """
import json, sys, torch
name = sys.argv[1]
try:
    torch.manual_seed(0)
    f, x = (lambda x: torch.relu(x) * 2 + 1), torch.randn(8)
    got = torch.compile(f, backend=name)(x)
    ok = torch.allclose(got, f(x))
    print("\\n" + json.dumps([bool(ok), "" if ok else "the result differs from eager"]))
except BaseException as error:
    lines = [line.strip() for line in str(error).split("\\n") if line.strip()]
    print("\\n" + json.dumps([False, f"{type(error).__name__}: {' '.join(lines[:2])}"]))
"""


def registered() -> tuple[str, ...]:
    """The names of all registered backends, including those for debugging."""
    return registered_backends()


def backends(names: list[str] | None = None, timeout: float = 180.0) -> Rows:
    """Try each backend on a small function: one row each, with whether it works here and why not.

    Each trial is a separate process and takes about 3 seconds. `names` limits the trial; `timeout` is in seconds.
    """
    return Rows({"backend": name, **_tried(name, timeout)} for name in names or registered())


def _tried(name: str, timeout: float) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-c", TRIAL, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"works": False, "why": f"no answer in {timeout:g} s"}
    last = (text_lines(done.stdout.strip()) or [""])[-1]
    try:
        works, why = json.loads(last)
    except ValueError:
        works, why = False, f"ended the process with status {done.returncode}"
    return {"works": works, "why": why}


def resolve(backend: object) -> Any:
    """Check a backend for torch.compile; InputError, with the nearest names, if it is not registered."""
    if callable(backend):
        return backend
    if not isinstance(backend, str):
        raise InputError(f"backend is a name or a callable, not {type(backend).__name__}")
    if backend not in registered():
        raise unknown_name("backend", backend, registered())
    return backend


def is_module_compiler(backend: object) -> bool:
    """Whether this is a `compiler(module) -> module`, which calls torch.compile itself; a backend takes (graph, inputs)."""
    if isinstance(backend, str) or not callable(backend):
        return False
    try:
        parameters = inspect.signature(backend).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(required) == 1 and not any(p.kind is p.VAR_POSITIONAL for p in parameters)


Backend = str | Callable[..., Any]
