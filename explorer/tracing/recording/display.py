"""Show a trace, or several side by side, in a notebook's view or in a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from explorer.errors import InputError
from explorer.process.progress import in_notebook
from explorer.tracing.traced import Trace
from explorer.tracing.traced.comparison import Comparison, compare, view_of
from explorer.view.compared import check_comparable


def show(trace: Trace | Comparison, *others: Trace, names: Iterable[str] = ()) -> Any:
    """Show a trace, or two or three side by side: in a notebook the view, in a terminal the tables.

    Several traces are given as they are or as `explorer.compare` returns them; `names` labels them as there. A click on a line
    of the program lights what each trace made of it.

    Returns the view's widget, whose `selected`, `select`, `open` and `compare` lead it and follow it; None in a terminal.
    InputError if an argument is not a trace, for more than three traces, for traces that have no line of the program in
    common, and for names where no traces are compared.
    """
    names = tuple(names)
    shown = compare(trace, *others, names=names) if others and isinstance(trace, Trace) else trace
    if not isinstance(shown, (Trace, Comparison)) or (others and shown is trace):
        given = f"{type(trace).__name__}{' and more' * bool(others)}"
        raise InputError(
            "show takes a Trace, such as explorer.trace(f, x) gives, or two or three, show(t, other), or what "
            f"explorer.compare(t, other) gives, not {given}"
        )
    if names and shown is trace:
        raise InputError(
            "names are for several traces, show(t, other, names=…); explorer.compare(…, names=…) names those of a comparison"
        )
    if isinstance(shown, Comparison):
        check_comparable(shown)
    if not in_notebook():
        print(shown)
        return None
    from IPython.display import display

    from explorer.view.widget import Explorer

    view = view_of(shown) if isinstance(shown, Comparison) else Explorer(shown)
    display(view)
    return view.shown(_cell_number())


def _cell_number() -> object:
    """Return the execution count of the notebook's cell that runs now."""
    from IPython.core.getipython import get_ipython

    return get_ipython().execution_count
