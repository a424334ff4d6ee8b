"""A test that checks one property of many things and lists all that lack it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any


def each(names: Iterable[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test once for each name, given as `name`, and raise the errors of all names together, each with its name."""
    chosen = tuple(names)
    assert chosen, "a test of nothing proves nothing"

    def looped(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            errors = []
            for name in chosen:
                try:
                    test(name=name, **fixtures)
                except Exception as error:  # noqa: BLE001 one name that fails must not hide the others
                    error.add_note(f"of {name}")
                    errors.append(error)
            if errors:
                raise ExceptionGroup(f"{len(errors)} of {len(chosen)} fail", errors)

        signature = inspect.signature(test)
        fixtures = [parameter for parameter in signature.parameters.values() if parameter.name != "name"]
        # pytest reads here which fixtures the test needs
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return looped
