"""Torch's own settings, changed for a while: those of Dynamo, and switches such as that for TF32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import MappingProxyType, ModuleType
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
            stack.callback(_put_back, owner, [(each, _read(name, owner, each)) for each in (attribute, *DERIVED.get(name, ()))])
            _set(name, owner, attribute, settings[name])
        yield


def _put_back(owner: Any, before: Sequence[tuple[str, object]]) -> None:
    for attribute, value in before:
        setattr(owner, attribute, value)


def _read(name: str, owner: Any, attribute: str) -> Any:
    """The value of a setting; InputError, in torch's words, where torch refuses to read it, and AttributeError for none."""
    try:
        return getattr(owner, attribute)
    except RuntimeError as error:
        advice = "a switch and the newer fp32_precision are not mixed: change the one that the program has set"
        raise InputError(f"torch does not let {name} be read now ({error}); {advice}") from error


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
    try:
        value = _read(name, owner, attribute)
    except AttributeError:
        raise InputError(f"torch has no setting {name!r}: {path} has no {attribute!r}") from None
    _must_be_value(name, owner, attribute, value)
    return owner, attribute


def _must_be_value(name: str, owner: Any, attribute: str, value: object) -> None:
    """InputError for a function or a module, in whose place a value would change nothing, or break torch."""
    if isinstance(value, ModuleType) or (callable(value) and attribute not in getattr(owner, "_config", ())):
        kind = "a module" if isinstance(value, ModuleType) else "a function or class"
        raise InputError(
            f"{name!r} is {kind} of torch's, not a setting: name the value that it holds or sets, such as "
            "'torch.backends.cuda.matmul.allow_tf32' or 'torch._dynamo.config.capture_scalar_outputs'"
        )
