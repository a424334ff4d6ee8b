"""JSON Schema of records, made of their fields' types, so that it says what `records` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from inspect import getdoc
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from explorer.model.records import Record

Schema = dict[str, Any]
_LEAVES: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
}


class Definitions:
    """The schemas of the types that a schema refers to, each once: `named` is its "$defs"."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def of(self, hint: Any) -> Schema:
        """The schema of a field's type; TypeError for a type that no record may have."""
        if hint in _LEAVES:
            return dict(_LEAVES[hint])
        if hint is Any or hint is object:
            return {}
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return {"anyOf": [self.of(each) for each in arguments]}
        if origin is tuple and arguments[1:] == (...,):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is tuple:
            return self.row(arguments)
        if origin is Mapping:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if isinstance(hint, type):
            return self._reference(hint)
        raise TypeError(f"no field of a record may be of type {hint}")

    def row(self, hints: Any) -> Schema:
        """The schema of a list with a type for each place."""
        return {"type": "array", "prefixItems": [self.of(each) for each in hints], "items": False, "minItems": len(hints)}

    def _reference(self, kind: type) -> Schema:
        """A reference to the schema of a record, a dataclass or a named tuple, which is made when it is first met."""
        if kind not in self._names:
            taken = kind.__name__ in self.named
            self._names[kind] = name = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}" if taken else kind.__name__
            self.named[name] = {}  # the place is taken: a record may have one of its own kind in it
            made = self.row(get_type_hints(kind).values()) if issubclass(kind, tuple) else self.fields(kind)
            self.named[name].update({"description": (getdoc(kind) or "").partition("\n")[0], **made})
        return {"$ref": f"#/$defs/{self._names[kind]}"}

    def fields(self, kind: Any, **others: Schema) -> Schema:
        """The schema of an object with the fields of a record or dataclass; `others` replace the schemas of some fields."""
        hints = get_type_hints(kind)
        keys = {f.name: f.name.removesuffix("_") if issubclass(kind, Record) else f.name for f in fields(kind)}
        needed = [keys[f.name] for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
        properties = {key: others.get(key) or self.of(_given(hints[name], key in needed)) for name, key in keys.items()}
        made: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**made, "required": needed} if needed else made


def _given(hint: Any, needed: bool) -> Any:
    """The type of a field where it is there: one whose default is None is left out in its place."""
    members = [each for each in get_args(hint) if each is not NoneType]
    is_optional = get_origin(hint) in (Union, UnionType) and len(members) < len(get_args(hint))
    return hint if needed or not is_optional or len(members) != 1 else members[0]


def needs_data(kind: type[Record]) -> bool:
    """Whether a record of this kind always holds something."""
    return any(f.default is MISSING and f.default_factory is MISSING for f in fields(kind))  # type: ignore[arg-type]
