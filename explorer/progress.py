"""Progress while compiling or checking: which phase is under way; silent where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
    from tqdm.auto import tqdm

    with tqdm(desc=f"{verb} {label}", bar_format="{desc} [{elapsed}]", leave=False) as bar:

        def show(phase: str) -> None:
            bar.set_description_str(f"{verb} {label}: {phase}", refresh=False)
            bar.update()

        yield show


def in_notebook() -> bool:
    """True where a cell's output can show HTML."""
    return "ipykernel" in sys.modules
