"""The parts of a key of torch's caches of graphs, and what differs between two keys.

torch makes a key of many parts: the graph, each input's metadata, each setting. For people it lists them with a hash each
(`FxGraphCachePickler.debug_lines`). Two keys differ where the hashes of a part do; the text says in what.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from explorer.model.values import text_lines
from explorer.model.wording import quantity

#: What each part of a key is, by its name: its hash, a space, and its text.
KeyParts = Mapping[str, str]

#: A part as torch lists it: its hash, its name, its text.
_LINE = re.compile(r"\[(?P<hash>[a-z2-7]{16,})\] (?P<name>\w+(?:\[.*?\])?): (?P<text>.*)", re.DOTALL)
#: How much of a hash and of a text is kept.
_HASH, _TEXT, _GRAPH = 16, 400, 20_000
#: How many changed lines of a graph are listed, and how long a listed value may be.
_LINES, _VALUE = 3, 160
_CALL = re.compile(r"(?P<name>[\w.]+)\((?P<fields>.*)\)", re.DOTALL)


def key_parts(lines: Iterable[str]) -> dict[str, str]:
    """The parts of a key, from torch's list of them."""
    matches = (match for line in lines if (match := _LINE.match(line)))
    return {m["name"]: f"{m['hash'][:_HASH]} {m['text'][: _GRAPH if m['name'] == 'gm' else _TEXT]}" for m in matches}


def changed_parts(parts: KeyParts, base: KeyParts) -> dict[str, str]:
    """The parts that are others than in `base`; "" for one that only `base` has."""
    new = {name: part for name, part in parts.items() if _hash(part) != _hash(base.get(name, ""))}
    return {**new, **{name: "" for name in base if name not in parts}}


def whole_parts(changed: KeyParts, base: KeyParts) -> dict[str, str]:
    """Return all parts of a key, given the parts in which it differs from `base`."""
    return {name: part for name, part in {**base, **changed}.items() if part}


def nearest(parts: KeyParts, keys: Sequence[tuple[str, KeyParts]]) -> tuple[str, KeyParts] | None:
    """The key that differs in the fewest parts, the last of several; None where there is none.

    Each may be given by its differences from one and the same key.
    """
    return min(reversed(keys), key=lambda each: len(changed_parts(parts, each[1])), default=None)


def differences(parts: KeyParts, earlier: KeyParts) -> tuple[str, ...]:
    """Say of each part that is another one than in an earlier key what it was and what it is."""
    names = changed_parts(parts, earlier)
    return tuple(_difference(name, _text(earlier.get(name, "")), _text(parts.get(name, ""))) for name in names)


def _hash(part: str) -> str:
    return part.partition(" ")[0]


def _text(part: str) -> str:
    return part.partition(" ")[2]


def _difference(name: str, old: str, new: str) -> str:
    if name == "gm":
        return f"graph: {'; '.join(_changed_lines(old, new)) or 'what its lines do not show, such as the value of a constant'}"
    if not (old + new).isprintable():  # such as the hash of torch's own sources
        return f"{name}: another one"
    was, now = _changed_fields(old, new)
    return f"{name}: {_short(was)} → {_short(now)}"


def _short(text: str) -> str:
    return (text if len(text) <= _VALUE else f"{text[:_VALUE]}…") or "not there"


def _changed_lines(old: str, new: str) -> Iterator[str]:
    """The first lines that one graph has and the other has not, marked with − and +, and how many more there are."""
    lines = list(difflib.ndiff(_code(old), _code(new)))
    marked = [f"{'−' if line[0] == '-' else '+'} {_short(line[2:])}" for line in lines if line[0] in "+-"]
    yield from marked[:_LINES]
    if len(marked) > _LINES:
        rest = len(marked) - _LINES
        yield f"and {quantity(rest, 'more line')}"


def _code(graph: str) -> list[str]:
    lines = (line.strip() for line in text_lines(graph))
    return [line.partition(";")[0] for line in lines if line and not line.startswith(("#", "<lambda>"))]


def _changed_fields(old: str, new: str) -> tuple[str, str]:
    """Of two calls of one name, such as TensorMetadata(…), the fields that differ; else the whole texts."""
    calls = _CALL.fullmatch(old), _CALL.fullmatch(new)
    if calls[0] is None or calls[1] is None or calls[0]["name"] != calls[1]["name"]:
        return old, new
    fields = [list(_fields(call["fields"])) for call in calls if call is not None]
    was = ", ".join(field for field in fields[0] if field not in fields[1])
    now = ", ".join(field for field in fields[1] if field not in fields[0])
    return (was, now) if was and now else (old, new)


def _fields(text: str) -> Iterator[str]:
    """Return the parts between the commas that are not inside brackets."""
    depth, start = 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
