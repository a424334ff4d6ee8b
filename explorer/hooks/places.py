"""Where code of torch or triton stands, in a form that is the same on every machine."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def in_package(file: str) -> str:
    """Such as "torch/_dynamo/output_graph.py" for a file of an installed torch or triton, "" for any other."""
    for package in ("packages/torch/", "packages/triton/"):
        at = file.rfind(package)
        if at >= 0:
            return file[at + len("packages/") :]
    return ""
