"""The passes that a user names, with wildcards, to see whole what they left."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


class PassError(RuntimeError):
    """Passes could not be shown; the message says which and why."""


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns is of this name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def check_names(patterns: Sequence[str], names: Sequence[str], table: str) -> None:
    """Raise PassError if a pattern matches none of `names`, the names of the passes that changed something."""
    if unknown := [pattern for pattern in patterns if not any(matches(name, (pattern,)) for name in names)]:
        raise PassError(f"no pass of that name changed the module: {', '.join(unknown)}; t.table({table!r}) lists those that did")
