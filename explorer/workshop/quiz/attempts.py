"""Run what may raise anything: a learner's code, and a truth that is asked of another trace than its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from explorer.errors import ExplorerError, NotInstalledError, require_installed

Value = TypeVar("Value")


def attempted(call: Callable[[], Value]) -> tuple[Value | None, str]:
    """What a call gives, and ""; or None, and in words what it raised. An interrupt goes through."""
    try:
        return call(), ""
    except Exception as error:  # noqa: BLE001 what a learner's code raises is a miss, and no error of the cell
        return None, in_words(error)


def in_words(error: Exception) -> str:
    """An error's type and message; of explorer's own errors, which are sentences, the message alone.

    An import of torch that fails gets explorer's own sentence, which says what to install.
    """
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        try:
            require_installed("torch", "this", "full")
        except NotInstalledError as missing:
            return str(missing)
    message = str(error).strip()
    name = type(error).__name__
    if isinstance(error, ExplorerError) and message:
        return message
    return f"{name}: {message}" if message else name
