"""Read MLIR's text of an attribute, such as `#ttg.blocked<{order = [1, 0]}>`, as a tree. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: A location that a line of MLIR states, with brackets up to three deep in it.
LOCATION = re.compile(r'\s?\bloc\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*")*\))*\))*\)')
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|#[A-Za-z_][\w$.]*|[-+]?\d+|[A-Za-z_][\w.]*|[<>{}\[\]=,:+()])')
_ALIAS = re.compile(r"^#(?P<name>[A-Za-z_][\w$]*) = (?P<attribute>#(?:ttg|ttng|triton_gpu|triton_nvidia_gpu)\..*)$", re.MULTILINE)


class AttributeTextError(ValueError):
    """A text that is no attribute, or one with an unknown alias."""


@dataclass(frozen=True)
class Attribute:
    """An attribute: its name ("ttg.blocked"), its named parameters, and what stands in it without a name."""

    name: str
    named: Mapping[str, object] = field(default_factory=dict)
    listed: tuple[object, ...] = ()

    @property
    def kind(self) -> str:
        """The name without its dialect, such as "blocked"."""
        return self.name.rpartition(".")[2]

    def numbers(self, name: str) -> tuple[int, ...]:
        """A parameter that is a list of numbers; () if there is none."""
        value = self.named.get(name, ())
        return tuple(n for n in value if isinstance(n, int)) if isinstance(value, tuple) else ()

    def number(self, name: str, default: int = 0) -> int:
        """A parameter that is a number or true or false."""
        value = self.named.get(name, default)
        return int(value) if isinstance(value, (int, bool)) else default

    def bases(self, name: str) -> tuple[tuple[int, ...], ...]:
        """A parameter that is a list of vectors; () if there is none."""
        value = self.named.get(name, ())
        return (
            tuple(tuple(n for n in v if isinstance(n, int)) for v in value if isinstance(v, tuple))
            if isinstance(value, tuple)
            else ()
        )

    def attribute(self, name: str) -> Attribute:
        """A parameter that is an attribute."""
        value = self.named.get(name)
        if not isinstance(value, Attribute):
            raise AttributeTextError(f"#{self.name} has no attribute {name!r}")
        return value


def aliases_of(text: str) -> dict[str, str]:
    """Map each alias of a layout in a module's text ("blocked") to the attribute that it stands for."""
    return {m["name"]: m["attribute"].strip() for m in _ALIAS.finditer(text)}


def parse_attribute(text: str, aliases: Mapping[str, str]) -> Attribute:
    """Read an attribute; AttributeTextError if the text is not an attribute."""
    reader = _Reader(text, aliases)
    value = reader.value()
    if not isinstance(value, Attribute):
        raise AttributeTextError(f"no attribute: {text}")
    return value


class _Reader:
    """The tokens of an attribute's text, and where the reader is in them."""

    def __init__(self, text: str, aliases: Mapping[str, str]) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        self.aliases = aliases
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise AttributeTextError(f"{expected or 'more'} expected in {self.text}")
        self.at += 1
        return token

    def value(self) -> object:
        """A number with its type, a list, a mapping, a word, or an attribute."""
        token = self.take()
        if token[0] == "#":
            return self.attribute(token[1:])
        if token == "[":
            return self.items("]")
        if token == "{":
            return self.mapping()
        if token.lstrip("+-").isdigit():
            return self.number(int(token))
        return {"true": True, "false": False}.get(token, token.strip('"'))

    def number(self, value: int) -> object:
        """A number; without its type (`1 : i32`), and with a second number after a colon as a pair (`128:+8`)."""
        if self.peek() != ":":
            return value
        self.take()
        if self.peek() == "+":
            self.take()
        second = self.take()
        return (value, int(second)) if second.lstrip("+-").isdigit() else value

    def items(self, end: str) -> tuple[object, ...]:
        values = []
        while self.peek() != end:
            values.append(self.value())
            if self.peek() == ",":
                self.take()
        self.take(end)
        return tuple(values)

    def mapping(self) -> dict[str, object]:
        named: dict[str, object] = {}
        while self.peek() != "}":
            self.entry(named)
        self.take("}")
        return named

    def entry(self, named: dict[str, object]) -> None:
        name = self.take()
        self.take("=")
        named[name] = self.value()
        if self.peek() == ",":
            self.take()

    def attribute(self, name: str) -> Attribute:
        """An attribute or an alias of one, whose name was read."""
        if self.peek() != "<":
            if name in self.aliases:
                others = {key: text for key, text in self.aliases.items() if key != name}
                return parse_attribute(self.aliases[name], others)
            return Attribute(name)
        self.take("<")
        named: dict[str, object] = {}
        listed: list[object] = []
        while self.peek() != ">":
            if self.at + 1 < len(self.tokens) and self.tokens[self.at + 1] == "=":
                self.entry(named)
                continue
            value = self.value()
            if isinstance(value, dict):
                named.update(value)
            else:
                listed.append(value)
            if self.peek() == ",":
                self.take()
        self.take(">")
        return Attribute(name, named, tuple(listed))
