"""The only file that asks "which torch, which triton, which Python?": named booleans, one comment each."""

from __future__ import annotations

import importlib.metadata
import sys
from dataclasses import dataclass


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


@dataclass(frozen=True)
class Libraries:
    """The CUDA, ROCm and SYCL versions of a torch release's GPU wheels, and cuDNN as 91900 for 9.19.0."""

    cuda: str
    hip: str
    xpu: str
    cudnn: int


def release_of_libraries() -> Libraries:
    """What the CUDA build of the torch at hand comes with, or would: its own pinned requirement (nvidia-cudnn-cu13==…).

    A CPU-only build does not say; then it is the requirement of that release's CUDA build, as published.
    """
    published = {"2.11": "9.19.0", "2.12": "9.20.0", "2.13": "9.20.0", "2.14": "9.24.0"}
    release = ".".join(version_of("torch").split(".")[:2])
    cudnn = version_of("nvidia-cudnn-cu13") or version_of("nvidia-cudnn-cu12") or published.get(release, "9.26.0")
    major, minor, patch = (int(part) for part in cudnn.split(".")[:3])
    return Libraries(cuda="13.0", hip="7.0.51831", xpu="20250301", cudnn=10000 * major + 100 * minor + patch)
