"""Progress while compiling or checking: which phase is under way; silent where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def interactive() -> bool:
    """True in a terminal and in a notebook."""
    if "ipykernel" in sys.modules:
        return True
    return bool(getattr(sys.stderr, "isatty", lambda: False)())


@contextmanager
def progress(label: str, verb: str = "compiling") -> Iterator[Callable[[str], None] | None]:
    """A function to call with each phase's name, or None where nobody watches."""
    if not interactive():
        yield None
        return
    with _bar(f"{verb} {label}") as bar:

        def show(phase: str) -> None:
            bar.set_description_str(f"{verb} {label}: {phase}", refresh=False)
            bar.update()

        yield show


@contextmanager
def _bar(description: str) -> Iterator[Any]:
    """A tqdm that is gone at the end.

    In a notebook tqdm itself would leave an output that names a widget which is closed: a saved notebook, and a page of
    Voila, would show "Loading widget..." there. So it is shown as an output that is emptied at the end.
    """
    from tqdm.auto import tqdm

    settings: dict[str, Any] = {"desc": description, "bar_format": "{desc} [{elapsed}]", "leave": False}
    if not any(kind.__module__ == "tqdm.notebook" for kind in tqdm.__mro__):
        with tqdm(**settings) as bar:
            yield bar
        return
    from IPython.display import display

    with tqdm(**settings, display=False) as bar:
        shown = display(bar.container, display_id=True)
        try:
            yield bar
        finally:
            if shown is not None:
                shown.update({"text/html": "", "text/plain": ""}, raw=True)


def in_notebook() -> bool:
    """True where a cell's output can show HTML."""
    return "ipykernel" in sys.modules
