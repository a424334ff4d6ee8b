"""Records: frozen dataclasses that read each field by its type, and are read-only mappings too.

    @record
    class Row(Record):
        name: str
        ms: float | None = None

    Row(name="mm").name == "mm"     # a wrong name is an error of mypy
    typed(Row, {"naem": "mm"})      # FieldError: Row has no field naem
    Row(name=1)                     # FieldError: name: str expected, not int

The constructor takes what torch gives and keeps what is plain: a symbolic size becomes its text, a list a tuple.

As a mapping a record has one key a field, in the order of the fields. A field whose default is None may be left out, and a
record leaves it out where it is None: `"ms" not in typed(Row, {"name": "mm"})`. Its JSON is that mapping. A name that ends with
"_" is the key without it, for Python's keywords: `from_` is "from".
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AnySet
from dataclasses import MISSING, dataclass, fields
from functools import cache
from inspect import get_annotations
from types import MappingProxyType, NoneType, UnionType
from typing import Any, ClassVar, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from explorer.model.values import Frozen, Plain, plain

R = TypeVar("R", bound="Record")
Read = Callable[[Any], Any]


class FieldError(ValueError):
    """A value that does not fit the field it is for: which field, what fits, and what came."""

    def __init__(self, why: str, where: str = "") -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.why, self.where = why, where

    def within(self, outer: str) -> FieldError:
        """Return the same error for a field inside another field."""
        joint = "" if not self.where or self.where.startswith("[") else "."
        return FieldError(self.why, f"{outer}{joint}{self.where}")


class Record(Frozen):
    """A frozen dataclass that is a read-only mapping too; see `record`."""

    __slots__ = ()
    #: Each field's attribute, its key, and whether it is left out where it is None.
    _layout: ClassVar[tuple[tuple[str, str, bool], ...]] = ()
    _attributes: ClassVar[Mapping[str, str]] = MappingProxyType({})
    #: The constructor without a look at the values.
    _set_fields: ClassVar[Callable[..., None]]

    def __getitem__(self, key: str) -> Plain:
        value = getattr(self, self._attributes[key])
        if value is None and self._may_lack(key):
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return (key for name, key, optional in self._layout if not optional or getattr(self, name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        name = self._attributes.get(key)  # type: ignore[call-overload]
        return name is not None and (getattr(self, name) is not None or not self._may_lack(key))

    def __eq__(self, other: object) -> bool:
        if type(other) is type(self):
            return all(getattr(self, name) == getattr(other, name) for name, _, _ in self._layout)
        return isinstance(other, Mapping) and self.mapping() == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def mapping(self) -> dict[str, Plain]:
        """The fields by their keys, without those that are left out."""
        pairs = ((key, getattr(self, name), optional) for name, key, optional in self._layout)
        return {key: value for key, value, optional in pairs if value is not None or not optional}

    def _check(self) -> None:
        """Raise FieldError for what fits the types of the fields, and yet cannot be; called for a record of a mapping."""

    @classmethod
    def _may_lack(cls, key: object) -> bool:
        return any(optional for _, own, optional in cls._layout if own == key)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def record(cls: type[R]) -> type[R]:
    """Make a class of annotated fields a Record: a frozen dataclass with slots, whose fields are given by name."""
    if taken := set(get_annotations(cls)) & set(dir(Record)):
        raise TypeError(f"{cls.__name__} cannot have the field {taken.pop()}: a mapping has a method of that name")
    made = dataclass(frozen=True, slots=True, kw_only=True, eq=False)(cls)
    made._set_fields = made.__init__
    made.__init__ = _reading(made._set_fields)  # type: ignore[method-assign]
    made._layout = tuple((f.name, f.name.removesuffix("_"), f.default is None) for f in fields(made))  # type: ignore[arg-type]
    made._attributes = {key: name for name, key, _ in made._layout}
    return made


def keys_of(kind: type[Record]) -> tuple[str, ...]:
    """The keys that a record of this kind may have, in order."""
    return tuple(key for _, key, _ in kind._layout)


def typed(kind: type[R], value: Mapping[str, Plain]) -> R:
    """The record of a mapping, such as one that JSON gave; a record of that type as it is.

    FieldError for a field that is missing, that the type does not have, or whose value is of another type.
    """
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise _unfit(kind.__name__, value)
    made = object.__new__(kind)
    kind._set_fields(made, **_read_fields(kind, _fields_by_key(kind), value))
    made._check()
    return made


def changed(record: R, **fields: Any) -> R:
    """The record with other values in these fields, as `dataclasses.replace` gives it; the other values are not read again."""
    kind = type(record)
    made = object.__new__(kind)
    values = {name: getattr(record, name) for name, _, _ in kind._layout}
    kind._set_fields(made, **values | _read_values(kind, _fields_by_name(kind), fields))
    return made


def _reading(set_fields: Callable[..., None]) -> Callable[..., None]:
    """The constructor of a record, around the one that sets its fields: it reads each by its type first."""

    def __init__(self: Record, **given: Any) -> None:
        set_fields(self, **_read_fields(type(self), _fields_by_name(type(self)), given))

    return __init__


def _read_fields(kind: type[Record], readers: Mapping[str, _Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a record, by attribute, from the given values; FieldError for one that does not fit or is missing."""
    values = _read_values(kind, readers, given)
    required = _required(kind)
    if not values.keys() >= required.keys():
        missing = [name for name in required if name not in values]
        raise FieldError(f"{kind.__name__} lacks {', '.join(missing)}")
    return values


def _read_values(kind: type[Record], readers: Mapping[str, _Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are given for some of a record's fields, by attribute; FieldError for one that does not fit."""
    values: dict[str, Any] = {}
    for key, value in given.items():
        field = readers.get(key)
        if field is None:
            raise FieldError(f"{kind.__name__} has no field {key!s}")
        name, same, read = field
        if type(value) is same:
            values[name] = value
            continue
        try:
            values[name] = read(value)
        except FieldError as error:
            raise error.within(str(key)) from None
    return values


def blank(kind: type[R], **facts: Plain) -> R:
    """The record of some facts, with "", 0, False or nothing in each other field that it must have: for examples and tests."""
    hints = _types(kind)
    return typed(kind, {**{name: _empty(hints[name]) for name in _required(kind)}, **facts})


def _empty(hint: Any) -> Plain:
    """The least that a field may hold."""
    if get_origin(hint) in (Union, UnionType):
        return None if NoneType in get_args(hint) else _empty(get_args(hint)[0])
    if isinstance(hint, type) and issubclass(hint, Record):
        return blank(hint)
    return (get_origin(hint) or hint)() if get_origin(hint) is not Mapping else {}


# Readers -----------------------------------------------------------------------------------------------------------------


@cache
def _reader(annotation: Any) -> Read:
    """Return the function that converts a given value to a field's type."""
    if annotation in _LEAVES:
        return _LEAVES[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _union(annotation, arguments)
    if origin is tuple:
        return _sequence(_reader(arguments[0])) if arguments[1:] == (...,) else _row([_reader(a) for a in arguments])
    if origin is Mapping:
        return _mapping(_reader(arguments[1]))
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return _record(annotation)
    if isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        row = _row([_reader(hint) for hint in get_type_hints(annotation).values()])
        return lambda value: annotation(*row(value))
    raise TypeError(f"no field of a record may be of type {annotation}")


#: A field's attribute, the type whose values are taken as they are, and the reader of other values.
_Field = tuple[str, type | None, Read]


@cache
def _hint(annotation: str, module: str) -> Any:
    """The type that a field's annotation names in a module. Most are the same few, and a process evaluates each once."""
    return eval(annotation, vars(sys.modules[module]))


def _hints(kind: type[Record]) -> dict[str, Any]:
    """The types of a record's fields by attribute, as `typing.get_type_hints` gives them, which evaluates each anew."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Record) and base is not Record:
            for name, annotation in get_annotations(base).items():
                hints[name] = _hint(annotation, base.__module__) if isinstance(annotation, str) else annotation
    return hints


@cache
def _types(kind: type[Record]) -> Mapping[str, Any]:
    """The types of a record's fields by attribute, worked out once a class."""
    # a class of the user's own may be written again in a notebook, under the name that another had
    return _hints(kind) if kind.__module__.startswith("explorer.") else get_type_hints(kind)


@cache
def _fields_by_key(kind: type[Record]) -> Mapping[str, _Field]:
    hints = _types(kind)
    return {key: (name, _taken_as_it_is(hints[name]), _reader(hints[name])) for name, key, _ in kind._layout}


@cache
def _fields_by_name(kind: type[Record]) -> Mapping[str, _Field]:
    return {field[0]: field for field in _fields_by_key(kind).values()}


def _taken_as_it_is(hint: Any) -> type | None:
    """The plain type of a field that holds one, which most do: asking for it first spares a call a value."""
    plain_types = [part for part in (get_args(hint) or (hint,)) if part in (str, int, bool)]
    return plain_types[0] if plain_types and get_origin(hint) in (None, Union, UnionType) else None


@cache
def _required(kind: type[Record]) -> Mapping[str, None]:
    return {f.name: None for f in fields(kind) if f.default is MISSING}  # type: ignore[arg-type]


def _record(kind: type[Record]) -> Read:
    return lambda value: typed(kind, value)


def _sequence(reader: Read) -> Read:
    def read(value: Any) -> tuple[Any, ...]:
        given = _items(value)
        try:
            return tuple([reader(each) for each in given])
        except FieldError:
            for number, each in enumerate(given):  # only where one does not fit: which
                try:
                    reader(each)
                except FieldError as error:
                    raise error.within(f"[{number}]") from None
            raise

    return read


def _row(readers: Sequence[Read]) -> Read:
    """A tuple of a fixed length, with a type for each place."""

    def read(value: Any) -> tuple[Any, ...]:
        given = _items(value)
        if len(given) != len(readers):
            raise FieldError(f"{len(readers)} values expected, not {len(given)}")
        values = []
        for number, (reader, each) in enumerate(zip(readers, given, strict=True)):
            try:
                values.append(reader(each))
            except FieldError as error:
                raise error.within(f"[{number}]") from None
        return tuple(values)

    return read


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, AnySet):
        return sorted(value, key=str)  # their own order differs from process to process
    raise _unfit("several values", value)


def _mapping(reader: Read) -> Read:
    def read(value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise _unfit("a mapping", value)
        values = {}
        for key, each in value.items():
            try:
                values[str(key)] = reader(each)
            except FieldError as error:
                raise error.within(f"[{str(key)!r}]") from None
        return MappingProxyType(values)

    return read


def _union(annotation: Any, members: Sequence[Any]) -> Read:
    """None, or one of several plain types, or one type with parts."""
    leaves = frozenset(m for m in members if m in (bool, int, float, str, NoneType))
    rest = [m for m in members if m not in leaves]
    others = [m for m in (float, int, str) if m in leaves]
    reader = _reader(rest[0]) if rest else _reader(others[0]) if len(others) == 1 else None
    if len(rest) > 1:
        raise TypeError(f"no field of a record may be of type {annotation}")

    def read(value: Any) -> Any:
        kind = type(value)
        if kind in leaves and (kind is not float or math.isfinite(value)):
            return value
        if reader is None:
            raise _unfit(" or ".join(sorted(m.__name__ for m in leaves)), value)
        return reader(value)

    return read


#: What JSON can say: text is made of no such value, only of what torch writes as text, such as a symbolic size.
_JSON = (NoneType, bool, int, float, list, tuple, Mapping, AnySet)


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, _JSON):
        raise _unfit("str", value)
    return str(value)


def _whole(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, bool):
        raise _unfit("int", value)
    try:
        return operator.index(value)
    except TypeError:
        raise _unfit("int", value) from None


def _number(value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, float):
        raise FieldError(f"a finite number expected, not {value}")
    try:
        whole = _whole(value)
    except FieldError:
        raise _unfit("float", value) from None
    if not -sys.float_info.max <= whole <= sys.float_info.max:  # it could not be added to a float
        raise FieldError("a number expected that a float can hold")
    return whole


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise _unfit("bool", value)


def _unfit(expected: str, value: Any) -> FieldError:
    return FieldError(f"{expected} expected, not {type(value).__name__}")


_LEAVES: Mapping[Any, Read] = MappingProxyType({str: _text, int: _whole, float: _number, bool: _truth, Any: plain, object: plain})
