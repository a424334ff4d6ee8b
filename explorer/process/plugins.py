"""Plug-ins: what other packages bring through entry points. One that cannot be used is a named failure.

    [project.entry-points."explorer.stages"]
    mine = "my_package.stages:STAGE"

Entry points are those of the packages that are installed when they are first asked for; each is loaded once in a process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from explorer.model.values import Failure

#: The groups of entry points: stages of a compiler, compilers other than Inductor, and checks of `Trace.advise`.
STAGES, COMPILERS, CHECKS = "explorer.stages", "explorer.compilers", "explorer.checks"

T = TypeVar("T")


@dataclass(frozen=True)
class Brought(Generic[T]):
    """What plug-ins bring: `values` in the order of their entry points' names, and the packages that bring them.

    `failures` names each plug-in that cannot be used.
    """

    values: tuple[T, ...] = ()
    packages: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()


@cache
def brought(group: str, kind: type[T], taken: frozenset[str] = frozenset()) -> Brought[T]:
    """Load the plug-ins of a group: each is a value of `kind` with a `name` that is not `taken`, or a sequence of such values."""
    values: list[T] = []
    packages: list[str] = []
    failures: list[Failure] = []
    names = set(taken)
    for point in _entry_points(group):
        package = point.dist.name if point.dist is not None else point.value
        try:
            for value in _several(point.load(), kind):
                name = str(getattr(value, "name", point.name))
                if name in names:
                    raise ValueError(f"the name {name!r} is taken; give it another")
                names.add(name)
                values.append(value)
                packages.append(package)
        except Exception as error:  # noqa: BLE001 rule 5: code of others, without which all the rest works
            why = f"{type(error).__name__}: {error}"
            failures.append(Failure("plugin", "load", f"{point.name!r} of {package} in {group} is left out: {why}"))
    return Brought(tuple(values), tuple(packages), tuple(failures))


def package_of(group: str, name: str) -> str:
    """The package of an entry point, which is not loaded; "" where there is none of that name."""
    points = (point for point in _entry_points(group) if point.name == name and point.dist is not None)
    return next((str(point.dist.name) for point in points), "")


def _entry_points(group: str) -> list[Any]:
    from importlib.metadata import entry_points  # takes 20 ms, which a process that makes no trace need not pay

    return sorted(entry_points(group=group), key=lambda point: point.name)


def _several(value: Any, kind: type[T]) -> Iterable[T]:
    """The values that an entry point names; TypeError where one is of another type."""
    values = [value] if isinstance(value, kind) or not isinstance(value, (tuple, list)) else value
    for each in values:
        if not isinstance(each, kind):
            raise TypeError(f"it is a {type(each).__name__}, not a {kind.__name__}")
    return values
