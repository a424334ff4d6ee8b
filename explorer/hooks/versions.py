"""The only file that asks "which torch, which triton, which Python?": named booleans, one comment each."""

from __future__ import annotations

import importlib.metadata
import sys


def version_of(package: str) -> str:
    """The installed version of a distribution, "" where it is not installed; imports nothing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def python_version() -> str:
    """The running Python, as "3.11.7"."""
    return ".".join(map(str, sys.version_info[:3]))


def isolates_recompiles() -> bool:
    """True where torch.compile(isolate_recompiles=True) gives a callable its own cache: torch 2.13 and newer."""
    import inspect

    import torch

    return "isolate_recompiles" in inspect.signature(torch.compile).parameters
