"""Write the shapes of `explorer/view/wire.py` for the front end, and check that a value has one.

python tests/wire_types.py      writes explorer/view/widget/src/wire.d.ts; `make types` does the same
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

import explorer
from explorer.model.records import Record
from explorer.view import wire

TARGET = Path(explorer.__file__).parent / "view" / "widget" / "src" / "wire.d.ts"
HEAD = "// The shapes of explorer/view/wire.py. Written by `make types`: change them there.\n"
WIDTH = 110
#: Shapes that are no class, by the name that they have for the front end.
ALIASES = {"LinkGroup": wire.LinkGroup, "Command": wire.Command, "Question": wire.Question, "UserPlace": wire.UserPlace}
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown"}


def typescript() -> str:
    """Write all shapes as TypeScript declarations."""
    shapes = dict.fromkeys(
        s for root in (*wire.MESSAGES, *wire.DATA.values(), wire.OF_PASSES, *wire.ROWS.values()) for s in reachable(root)
    )
    return "\n".join([HEAD, *map(interface, shapes), *(alias(name, shape) for name, shape in ALIASES.items())])


def alias(name: str, shape: Any) -> str:
    """Write a shape that is no class, in lines that fit a screen."""
    line = f"export type {name} = {written(shape)};\n"
    if len(line) <= WIDTH + 1:
        return line
    broken = line.replace(" = ", " =\n  ", 1)
    if max(map(len, broken.splitlines())) <= WIDTH:
        return broken
    return line.replace(" | ", "\n  | ").replace(" = ", " =\n  | ", 1)


def interface(shape: Any) -> str:
    """Write a TypedDict or a record as an interface."""
    lines = [f"  {key}{'?' if key in optional(shape) else ''}: {written(hint)};" for key, hint in fields(shape).items()]
    if shape in wire.OPEN:
        lines.append("  [key: string]: unknown;")
    return "\n".join([*comment(shape), f"export interface {shape.__name__} {{", *lines, "}\n"])


def comment(shape: type) -> list[str]:
    """Write a TypedDict's docstring as a comment, in lines that fit a screen."""
    parts = inspect.cleandoc(shape.__doc__ or "").split("\n\n")
    lines = [line for part in parts for line in ("", *textwrap.wrap(part, WIDTH - len(" * ")))][1:]
    if len(lines) == 1 and len(lines[0]) + len("/**  */") <= WIDTH:
        return [f"/** {lines[0]} */"]
    return ["/**", *(f" * {line}".rstrip() for line in lines), " */"]


def written(shape: Any) -> str:
    """Write a type as TypeScript does."""
    origin, inside = get_origin(shape), get_args(shape)
    if shape in PLAIN:
        return PLAIN[shape]
    if has_keys(shape):
        return str(shape.__name__)
    if origin is list or inside[1:] == (...,):
        item = written(inside[0])
        return f"({item})[]" if get_origin(inside[0]) in (Union, types.UnionType, Literal) else f"{item}[]"
    if origin in (dict, Mapping):
        return f"{{ [key: string]: {written(inside[1])} }}"
    if origin is tuple:
        return f"[{', '.join(map(written, inside))}]"
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in inside)
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(written, inside)))
    raise TypeError(f"{shape} has no form in TypeScript here")


def reachable(shape: Any) -> Iterator[type]:
    """The TypedDicts and records that a shape is made of, each after those that it needs."""
    inside = fields(shape).values() if has_keys(shape) else get_args(shape)
    for each in inside:
        yield from reachable(each)
    if has_keys(shape):
        yield shape


def has_keys(shape: Any) -> bool:
    """Whether a shape is a TypedDict or a record."""
    return is_typeddict(shape) or (isinstance(shape, type) and issubclass(shape, Record))


def optional(shape: Any) -> set[str]:
    """The keys that may be left out: those of a record whose default is None."""
    if is_typeddict(shape):
        return {key for key, hint in marked(shape).items() if get_origin(hint) is NotRequired or not shape.__total__}
    return {field.name for field in dataclasses.fields(shape) if field.default is None}


def fields(shape: Any) -> dict[str, Any]:
    """The keys of a TypedDict or a record with their types, without whether a key is required."""
    if not is_typeddict(shape):
        hints = get_type_hints(shape)
        given = {field.name: hints[field.name] for field in dataclasses.fields(shape)}
        return {key: without_none(hint) if key in optional(shape) else hint for key, hint in given.items()}
    return {key: get_args(hint)[0] if get_origin(hint) is NotRequired else hint for key, hint in marked(shape).items()}


def without_none(hint: Any) -> Any:
    """The type of a key where it is not left out."""
    return Union[tuple(part for part in get_args(hint) if part is not type(None))]  # noqa: UP007 of parts known only here


def marked(shape: Any) -> dict[str, Any]:
    """The keys of a TypedDict with their types as they are written; `__required_keys__` does not see through their quotes."""
    return get_type_hints(shape, include_extras=True)


def partial(shape: Any) -> Any:
    """Make a TypedDict or a record's shape with no key required."""
    return TypedDict(shape.__name__, fields(shape), total=False)  # type: ignore[operator]


def check(value: Any, shape: Any) -> None:
    """Raise ValidationError for a value without the shape, and AssertionError for one with keys that the shape lacks."""
    msgspec.convert(value, shape)
    assert not (unknown := sorted(set(undeclared(value, shape)))), f"{shape.__name__} does not name {', '.join(unknown)}"


def undeclared(value: Any, shape: Any, path: str = "") -> Iterator[str]:
    """The paths of keys that a shape does not name."""
    origin, inside = get_origin(shape), get_args(shape)
    if has_keys(shape):
        known = fields(shape)
        for key in value:
            if key in known:
                yield from undeclared(value[key], known[key], f"{path}.{key}")
            elif shape not in wire.OPEN:
                yield f"{path}.{key}"
    elif origin is list or inside[1:] == (...,):
        for each in value:
            yield from undeclared(each, inside[0], f"{path}[]")
    elif origin in (dict, Mapping):
        for each in value.values():
            yield from undeclared(each, inside[1], f"{path}.*")
    elif origin in (Union, types.UnionType) and value is not None:
        for each in inside:
            if has_keys(each) or get_origin(each):
                yield from undeclared(value, each, path)


if __name__ == "__main__":
    TARGET.write_text(typescript(), encoding="utf-8")
