"""The notebook that this process runs the cells of, where it does."""

from __future__ import annotations

import os
import sys
import tokenize


def cell_of(file: str) -> str:
    """Name the cell that a code object's file stands for, such as "In[5]", as IPython does; "" for every other file."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_ipython() if get_ipython is not None else None
    format_name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = format_name(file) if format_name is not None else None
    return str(named[1]) if named else ""


def main_sources() -> list[tuple[str, str]]:
    """Return what defines `__main__`, as file and source: a script, or the cells that ran, without their magics."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        cells = enumerate(shell.user_ns.get("In", ()))
        return [(f"In[{number}]", shell.transform_cell(cell)) for number, cell in cells]
    file = getattr(sys.modules["__main__"], "__file__", None)
    if not file or not os.path.isfile(file):
        return []
    with tokenize.open(file) as script:
        return [(file, script.read())]
