"""The environment of the processes that explorer starts for work of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment, in which Python finds the modules that it finds here, explorer's own first.

    A notebook adds folders to `sys.path`, and explorer may be imported from a checkout: neither is known to a new process.
    """
    package = str(Path(__file__).parents[2])
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join([package, *filter(None, sys.path)])}


__all__ = ["environment"]
