"""Vary: what one call of a probe has otherwise than the first, as a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from explorer.errors import InputError, unknown_name

#: How a tensor may lie in memory.
LAYOUTS = ("contiguous", "transposed", "expanded", "offset", "channels_last")
#: The least number of dimensions that a tensor has to lie so, where it is not 0.
MIN_DIMENSIONS = MappingProxyType({"transposed": 2, "expanded": 1, "channels_last": 4})
#: The stances of torch.compiler.set_stance, as torch's documentation lists them.
STANCES = (
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
)
#: What varies a tensor among the arguments.
OF_TENSORS = (
    "size",
    "dtype",
    "stride",
    "requires_grad",
    "device",
    "mark_dynamic",
    "mark_unbacked",
    "mark_static",
)
#: What is not of an argument: how torch.compile is called, and the state of the program around the call.
OF_COMPILE = ("mode", "dynamic")
OF_PROGRAM = ("stance", "grad", "autocast")
_UNSET: Any = object()


@dataclass(frozen=True)
class Change:
    """One change: its kind, the argument, global or attribute ("" for none), and the value."""

    what: str
    where: str
    value: Any

    def __str__(self) -> str:
        shown = _shown(self.value)
        if self.what == "value":
            return f"{self.where} = {shown}"
        if self.what == "size":
            return ", ".join(f"{self.where}.size({dim}) = {size}" for dim, size in self.value)
        if self.what == "stride":
            return f"{self.where} {self.value}"
        if self.what.startswith("mark_"):
            return f"{self.what}({self.where}, {shown})"
        if self.what == "grad":
            return "grad enabled" if self.value else "no grad"
        return f"{self.where}.{self.what} = {shown}" if self.where else f"{self.what} = {shown}"


@dataclass(frozen=True, init=False)
class Vary:
    """How a call of a probe differs from the probe's first call; `a & b` has both.

    `argument` is the name of a parameter ("x"), a part of one ("batch['ids']", "args[1]"), an attribute ("self.eps"), or
    a global that the function reads ("scale"). It may be written as a guard writes it ("L['x']").

        Vary("x", size={0: 9})            Vary("x", size=(9, None))       another size of some dimensions
        Vary("x", dtype=torch.bfloat16)   Vary("x", requires_grad=True)   Vary("x", device="meta")
        Vary("x", stride="transposed")    or "contiguous", "expanded", "offset", "channels_last"
        Vary("n", value=3)                Vary("self.training", value=False)
        Vary("x", mark_dynamic=0)         Vary("x", mark_unbacked=0)      Vary("x", mark_static=0)
        Vary(mode="reduce-overhead")      Vary(dynamic=True)              another torch.compile of the function
        Vary(stance="eager_on_recompile") Vary(grad=False)                Vary(autocast=torch.bfloat16)

    InputError for what cannot be varied.
    """

    changes: tuple[Change, ...]

    def __init__(
        self,
        argument: str = "",
        *,
        size: Mapping[int, int] | Sequence[int | None] | None = None,
        dtype: Any = None,
        stride: str | None = None,
        requires_grad: bool | None = None,
        device: str | None = None,
        value: Any = _UNSET,
        mark_dynamic: int | None = None,
        mark_unbacked: int | None = None,
        mark_static: int | None = None,
        mode: str | None = None,
        dynamic: bool | None = None,
        stance: str | None = None,
        grad: bool | None = None,
        autocast: Any = None,
    ) -> None:
        if not isinstance(argument, str):
            raise InputError(f"Vary takes the name of an argument first, such as Vary('x', …), not {argument!r}")
        of_tensors = (_sizes(size), dtype, _one_of("stride", stride, LAYOUTS), requires_grad, device)
        marks = (mark_dynamic, mark_unbacked, mark_static)
        of_program = (_one_of("stance", stance, STANCES), grad, autocast)
        named = [*zip(OF_TENSORS, (*of_tensors, *marks), strict=True)]
        around = [*zip((*OF_COMPILE, *OF_PROGRAM), (mode, dynamic, *of_program), strict=True)]
        changes = [Change(what, argument, given) for what, given in named if given is not None]
        if value is not _UNSET:
            changes.append(Change("value", argument, value))
        _check_named(argument, changes)
        changes += [Change(what, "", given) for what, given in around if given is not None]
        if not changes:
            raise InputError("nothing is varied: say what the call has otherwise, such as Vary('x', size={0: 9})")
        object.__setattr__(self, "changes", tuple(changes))

    def __and__(self, other: Vary) -> Vary:
        if not isinstance(other, Vary):
            return NotImplemented
        return _both((*self.changes, *other.changes))

    def of(self, *whats: str) -> Iterator[Change]:
        """Yield the changes of these kinds."""
        return (change for change in self.changes if change.what in whats)

    def __str__(self) -> str:
        return ", ".join(map(str, self.changes))

    def __repr__(self) -> str:
        return f"<Vary {self}>"


def _both(changes: tuple[Change, ...]) -> Vary:
    """Make a Vary of changes that were checked before."""
    made = object.__new__(Vary)
    object.__setattr__(made, "changes", changes)
    return made


#: The call of a probe as it was given.
UNCHANGED = _both(())


def _check_named(argument: str, changes: Sequence[Change]) -> None:
    """InputError for a change of an argument that has no name, and for a name without a change."""
    if changes and not argument:
        raise InputError(f"{changes[0].what} of which argument? Name it first: Vary('x', {changes[0].what}=…)")
    if argument and not changes:
        raise InputError(f"what of {argument!r} is varied? Say so: Vary({argument!r}, value=…), or size=, dtype=, stride= …")


def _sizes(given: Mapping[int, int] | Sequence[int | None] | None) -> tuple[tuple[int, int], ...] | None:
    """The (dimension, size) pairs of the dimensions that change."""
    if given is None:
        return None
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given) if isinstance(given, Sequence) else ()
    sizes = tuple((dim, size) for dim, size in pairs if size is not None)
    if not sizes or not all(isinstance(dim, int) and type(size) is int and size >= 0 for dim, size in sizes):
        raise InputError(
            f"size is a size for each dimension that changes, such as size={{0: 9}} or size=(9, None), not {given!r}"
        )
    return sizes


def _one_of(what: str, given: str | None, valid: Sequence[str]) -> str | None:
    if given is not None and given not in valid:
        raise unknown_name(what, given, valid)
    return given


def _shown(value: Any) -> str:
    """A value as short text: a dtype without its module, anything long by its type."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return "a tensor of other values"
    text = str(value).removeprefix("torch.") if type(value).__module__ == "torch" else repr(value)
    return text if len(text) <= 40 and "\n" not in text else f"a {type(value).__name__}"
