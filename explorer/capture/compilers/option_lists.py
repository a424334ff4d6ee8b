"""The options of a compiler that are lists of texts, such as flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from explorer.errors import InputError


def texts_of(options: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts of an option, none where it is not given; InputError for one text alone, whose characters would be taken."""
    value = options.get(name, ())
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InputError(f"option {name!r} takes a list, not {value!r}: write [{value!r}]")
    return tuple(map(str, value))
