"""The notebook that this process runs the cells of, where it does."""

from __future__ import annotations

import sys


def cell_of(file: str) -> str:
    """Name the cell that a code object's file stands for, such as "In[5]", as IPython does; "" for every other file."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_ipython() if get_ipython is not None else None
    format_name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = format_name(file) if format_name is not None else None
    return str(named[1]) if named else ""
