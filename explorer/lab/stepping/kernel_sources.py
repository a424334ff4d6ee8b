"""List files under "Kernel Sources" in JupyterLab's debugger, where alone it opens a file that is not the notebook's own.

The debugger lists the modules of the kernel that have a spec with an origin, and opens their files for breakpoints. A file that
runs in a graph's place is of no module, so it gets one, which is empty and which nothing imports.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

#: How the names begin under which the files are listed.
PREFIX = "explorer_steps."


def listed(paths: Sequence[str]) -> Callable[[], None]:
    """List the files, and return a function that removes them. Of two files with the same name, the later is listed."""
    modules = {path: _module(path) for path in paths}
    sys.modules.update({module.__name__: module for module in modules.values()})

    def remove() -> None:
        for module in modules.values():
            if sys.modules.get(module.__name__) is module:
                del sys.modules[module.__name__]

    return remove


def _module(path: str) -> types.ModuleType:
    """Make an empty module whose origin is a file. With a `__file__`, others would take it for the file's own module."""
    name = f"{PREFIX}{Path(path).stem}"
    module = types.ModuleType(name, "Where a debugger finds a file that explorer runs; it is empty.")
    module.__spec__ = ModuleSpec(name, None, origin=path)
    return module
