"""Torch's own settings, changed for a while: those of Dynamo, and switches such as that for TF32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Any

from explorer.errors import InputError

#: Settings that torch changes with another one, of the same object. The older switch for TF32 is the one to change: once the
#: newer one is set, torch refuses to read the older, and Inductor reads both.
DERIVED: Mapping[str, tuple[str, ...]] = MappingProxyType({"torch.backends.cuda.matmul.allow_tf32": ("fp32_precision",)})


@contextmanager
def changed_settings(settings: Mapping[str, object]) -> Iterator[None]:
    """Inside the block each setting, named with its module, has the value given, and afterwards the one that it had.

    InputError, before anything is changed, for a name that is no setting of torch's.
    """
    owners = {name: _owner(name) for name in settings}
    with ExitStack() as stack:
        for name, (owner, attribute) in owners.items():
            stack.callback(_put_back, owner, [(each, getattr(owner, each)) for each in (attribute, *DERIVED.get(name, ()))])
            _set(name, owner, attribute, settings[name])
        yield


def _put_back(owner: Any, before: Sequence[tuple[str, object]]) -> None:
    for attribute, value in before:
        setattr(owner, attribute, value)


def _set(name: str, owner: Any, attribute: str, value: object) -> None:
    """Give a setting a value; InputError, in torch's words, for one that torch does not take."""
    try:
        setattr(owner, attribute, value)
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        raise InputError(f"torch does not take {value!r} for {name}: {error}") from error


def _owner(name: object) -> tuple[Any, str]:
    """Find the module or object that has a setting, and the setting's name in it."""
    path, _, attribute = str(name).rpartition(".")
    if not isinstance(name, str) or path.partition(".")[0] != "torch":
        raise InputError(f"settings are named with their module, 'torch.backends.cuda.matmul.allow_tf32', not {name!r}")
    parts = path.split(".")
    owner: Any = import_module("torch")
    for number, part in enumerate(parts[1:], 2):
        if not hasattr(owner, part):
            try:
                import_module(".".join(parts[:number]))
            except ImportError:
                raise InputError(f"torch has no setting {name!r}: there is no {'.'.join(parts[:number])}") from None
        owner = getattr(owner, part)
    if not hasattr(owner, attribute):
        raise InputError(f"torch has no setting {name!r}: {path} has no {attribute!r}")
    return owner, attribute
