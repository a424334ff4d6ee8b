"""Show progress while compiling or checking, in a terminal, a notebook, and the open views of the trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from explorer.process.under_way import under_way


def interactive() -> bool:
    """Whether this process runs in a terminal or a notebook."""
    return in_notebook() or bool(getattr(sys.stderr, "isatty", lambda: False)())


@contextmanager
def progress(label: str, verb: str = "compiling") -> Iterator[Callable[[str], None] | None]:
    """Give a function to call with each phase's name; None if nobody watches."""
    work, view = f"{verb} {label}", under_way()
    if view is not None:
        view.show(work)
    if not interactive():
        yield None if view is None else lambda phase: view.show(f"{work}: {phase}")
        return
    with _bar(work) as bar:

        def show(phase: str) -> None:
            bar.set_description_str(f"{work}: {phase}", refresh=False)
            bar.update()
            if view is not None:
                view.show(f"{work}: {phase}")

        yield show


@contextmanager
def _bar(description: str) -> Iterator[Any]:
    """Show a tqdm bar that disappears at the end.

    In a notebook tqdm itself leaves an output that refers to a closed widget. A saved notebook, and a page of Voila, would
    show "Loading widget..." there. So the bar is displayed as an output that is emptied at the end.
    """
    from tqdm.auto import tqdm

    settings: dict[str, Any] = {"desc": description, "bar_format": "{desc} [{elapsed}]", "leave": False}
    if not any(kind.__module__ == "tqdm.notebook" for kind in tqdm.__mro__):
        with tqdm(**settings) as bar:
            yield bar
        return
    from IPython.display import display

    with tqdm(**settings, display=False) as bar:
        output = display(bar.container, display_id=True)
        try:
            yield bar
        finally:
            if output is not None:
                output.update({"text/html": "", "text/plain": ""}, raw=True)


def in_notebook() -> bool:
    """Whether this process runs the cells of a notebook, whose outputs can show HTML.

    IPython's shell has a `kernel` there and none in a terminal. That ipykernel is imported says less: a program that starts
    kernels for others imports it too.
    """
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
