"""The program's names for what Dynamo reaches by a variable: modules, their parameters, arguments. Pure.

A child of a module has the name that `named_modules` gives it, "h.0.attn". An entry of a list or dict of the program's own keeps
its brackets, as it is written there: "blocks[0].up". So `d[1]` and `d['1']` are two names, and a parameter's name begins with
that of its module.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: The names of the modules from the outermost to the innermost: "blocks[0].up" is ("blocks", "[0]", "up").
Path = tuple[str, ...]
#: What Dynamo calls the module that was compiled; "fn" where torch wraps a module of its own.
COMPILED_MODULE = ("L['self']", "L['fn']")
#: A part of a module in Dynamo's name for a value, such as `._modules['0']`.
_CHILD = re.compile(r"\._(?:modules|parameters|buffers)\[(['\"])(.*?)\1\]")
#: An attribute of an object whose attributes the program sets: Dynamo then reads its `__dict__`.
_IN_DICT = re.compile(r"\.__dict__\[(['\"])(\w+)\1\]")
#: An attribute whose name is no identifier, such as `getattr(L['self'], 'x-y')`.
_GETATTR = re.compile(r"getattr\(([^()]*), (['\"])(.*?)\2\)")
_ROOT = re.compile(r"^[LG]\['([^']*)'\]")
#: A part of a name: an entry in brackets, whose key may be a text with brackets and dots in it, or an attribute.
_PART = re.compile(r"""\[(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\]'"])*\]|[^.\[]+""")


@lru_cache(maxsize=8192)
def program_name(source: str) -> str:
    """The program's name for a value: "0.weight" for "L['self']._modules['0']._parameters['weight']"."""
    name = _CHILD.sub(r".\2", _IN_DICT.sub(r".\2", source))
    while (plain := _GETATTR.sub(r"\1.\3", name)) != name:  # the innermost first
        name = plain
    root = _ROOT.match(name)
    if root is None:
        return name
    rest = name[root.end() :]
    return rest[1:] if root[0] in COMPILED_MODULE and rest.startswith(".") else root[1] + rest


def module_name(source: str) -> str:
    """The program's name for a module: "model.h.0" for "L['model'].h.0"; "" for the module that was compiled."""
    return "" if source in COMPILED_MODULE else program_name(source)


def split_name(name: str) -> Path:
    """The parts of a program's name for a module, the same in `view/widget/src/modules.js`."""
    return tuple(_PART.findall(name))


def is_inside(name: str, outer: str) -> bool:
    """Whether a module is another one, a list or dict of modules, or is inside one of them."""
    parts = split_name(outer)
    return split_name(name)[: len(parts)] == parts


def joined_name(path: Path) -> str:
    """The name whose parts these are."""
    return "".join(part if part.startswith("[") else f".{part}" for part in path).removeprefix(".")


__all__ = ["Path", "is_inside", "joined_name", "module_name", "program_name", "split_name"]
