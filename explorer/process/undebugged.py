"""Start a child process without the debugger that is on in this one."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext


def undebugged() -> AbstractContextManager[None]:
    """Inside the block debugpy leaves the processes alone that this thread starts.

    It makes every Python process that is started wait for a front end to attach to it. JupyterLab's does not: a kernel under its
    debugger would wait forever for an answer of explorer's own processes.
    """
    monkey = sys.modules.get("_pydev_bundle.pydev_monkey")  # which is there once a debugger is on
    skip = getattr(monkey, "skip_subprocess_arg_patch", None)
    context: AbstractContextManager[None] = skip() if skip is not None else nullcontext()
    return context
