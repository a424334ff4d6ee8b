"""explore and show: a trace in a notebook's view or in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.errors import InputError
from explorer.process.progress import in_notebook
from explorer.recording.trace import trace
from explorer.traced import Trace


def explore(fn: Callable[..., Any], *args: Any, **options: Any) -> Trace:
    """Trace and show: `explorer.trace` with its arguments, displayed in a notebook, printed in a terminal."""
    traced = trace(fn, *args, **options)
    if show(traced) is not None and traced.live is not None:
        traced.live.shown_in = _cell_number()
    return traced


def show(trace: Trace) -> Any:
    """Show a trace: in a notebook its view, in a terminal its stage table.

    Returns the view's widget, whose `selected`, `select`, `open` and `compare` lead it and follow it; None in a terminal.
    """
    if not isinstance(trace, Trace):
        raise InputError(f"show takes a Trace, such as explorer.trace(f, x) gives, not {type(trace).__name__}")
    if not in_notebook():
        print(trace)
        return None
    from IPython.display import display

    from explorer.widget import Explorer

    view = Explorer(trace)
    display(view)
    return view.shown(_cell_number())


def _cell_number() -> object:
    """Return the execution count of the notebook's cell that runs now."""
    from IPython.core.getipython import get_ipython

    return get_ipython().execution_count
