"""Start one of explorer's processes, for which the program's folders shadow neither the standard library nor its packages.

    python -P explorer/process/start.py MODULE ARGUMENTS

`children.py` writes the environment variable with what the program has imported, and from where. This file runs before `explorer`
can be imported, so it imports the standard library alone.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from itertools import takewhile

#: The environment variable that has the program's path and imports, as JSON.
PROGRAM = "EXPLORER_PROGRAM"
#: The names of folders of installed packages, which `site` adds after the standard library's folders.
INSTALLED = ("site-packages", "dist-packages")


class Imported:
    """A finder of the packages that the program has imported, where it found them."""

    def __init__(self, folders: Mapping[str, str], standard: Sequence[str]) -> None:
        self._folders = folders
        self._standard = list(standard)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of an imported package; ModuleNotFoundError for a standard module that this system lacks.

        The standard library tries to import some of those, such as `nt`, and would run a user's file of that name.
        """
        if name in self._folders:
            return PathFinder.find_spec(name, [self._folders[name]])
        if name in sys.stdlib_module_names and PathFinder.find_spec(name, self._standard) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def main() -> None:
    """Take over the program's path and imports, and run the module."""
    program = json.loads(os.environ.pop(PROGRAM))
    if program["pythonpath"] is not None:  # this process was started without it; those that it starts have it
        os.environ["PYTHONPATH"] = program["pythonpath"]
    standard = list(takewhile(lambda folder: os.path.basename(folder) not in INSTALLED, sys.path))
    sys.path[:] = dict.fromkeys([*standard, *program["path"], *sys.path])
    folders = {name: folder for folder, names in program["imported"].items() for name in names}
    place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
    sys.meta_path.insert(place, Imported(folders, standard))
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
