"""How explorer starts processes for work of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from explorer.process.start import PROGRAM

#: The folder that has explorer.
PACKAGE = str(Path(__file__).parents[2])
#: What a new process runs first.
START = Path(__file__).with_name("start.py")


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs one of explorer's modules as a process; start it in `environment()`."""
    return [sys.executable, "-P", "-W", "ignore", str(START), module, *arguments]


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which `command` finds the same modules as this process.

    A notebook adds folders to `sys.path`, and explorer may be imported from a checkout: neither is known to a new process.
    """
    return given([*(folder or os.getcwd() for folder in sys.path), PACKAGE], imported(), **more)


def given(path: Sequence[str], folders: dict[str, list[str]], **more: str) -> dict[str, str]:
    """Return this process's environment with folders for `sys.path`, and the packages that each folder is asked for first.

    PYTHONPATH would put its folders before the standard library while Python starts.
    """
    program = {"path": path, "imported": folders, "pythonpath": os.environ.get("PYTHONPATH")}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, **more, PROGRAM: json.dumps(program)}


def imported() -> dict[str, list[str]]:
    """Return the packages that this process has imported, by the folder where it found them."""
    folders: dict[str, list[str]] = {}
    for name, module in list(sys.modules.items()):
        folder = _folder(module) if "." not in name and name not in sys.stdlib_module_names else None
        if folder is not None:
            folders.setdefault(folder, []).append(name)
    return folders


def _folder(module: object) -> str | None:
    """The folder where a module was found; None for one without a file."""
    spec = vars(module).get("__spec__") if isinstance(module, ModuleType) else None
    origin = getattr(spec, "origin", None)
    if spec is None or not isinstance(origin, str) or not os.path.isabs(origin):
        return None
    folder = os.path.dirname(origin)
    return folder if spec.submodule_search_locations is None else os.path.dirname(folder)


__all__ = ["PACKAGE", "command", "environment", "given"]
