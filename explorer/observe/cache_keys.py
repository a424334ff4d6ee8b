"""Keep the keys that the caches of graphs were asked for, to say in what a key that missed differs from the nearest one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explorer.observe.patch import followed
from explorer.observe.versions import has_function
from explorer.stages.torch_compile.cache_keys import KeyParts, changed_parts, differences, key_parts, nearest, whole_parts

#: How many entries of Inductor's cache on disk a key that missed is compared with, the newest first, and how large each may be.
ENTRIES, BYTES = 100, 2**25
#: A part of a key in the pickle of a graph: strings stand there as they are, after their length.
_PART = re.compile(rb"\[[a-z2-7]{51}\] \w")


@dataclass(frozen=True)
class Compared:
    """What is known of a key: its parts that differ from those of `relative_to`, and from the nearest key before it."""

    parts: KeyParts = field(default_factory=dict)
    relative_to: str = ""
    nearest: str = ""
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotedKey:
    """A key that was asked for, which is compared when the recording is read.

    `told()` is what is known of it; `compare(folder, at)` also finds the nearest key of those before it and of those that a
    cache's folder had at a time, where one is given.
    """

    told: Callable[[], Compared]
    compare: Callable[[Path | None, float], Compared]


class _Log:
    """The keys that one cache was asked for: the first one's lines, and of each what is in only one of the two."""

    def __init__(self, key: str, lines: frozenset[str]) -> None:
        self.first, self.lines = key, lines
        self.keys: list[tuple[str, frozenset[str], frozenset[str]]] = []

    def base(self) -> KeyParts:
        return key_parts(self.lines)

    def changed(self, base: KeyParts, number: int) -> KeyParts:
        """The parts of a key that differ from the first one's."""
        _, new, gone = self.keys[number]
        return changed_parts(key_parts(new), {name: base[name] for name in key_parts(new | gone) if name in base})


class KeyLog:
    """The keys of one recording, by the cache that was asked; little is done while the program compiles."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._stored: dict[Path, list[tuple[float, str, KeyParts]]] = {}

    def add(self, cache: str, key: str, lines: Sequence[str]) -> NotedKey:
        """Note a key with torch's list of its parts."""
        if not lines or not key:
            return NotedKey(Compared, lambda *_: Compared())
        all_lines = frozenset(lines)
        log = self._logs.setdefault(cache, _Log(key, all_lines))
        number = len(log.keys)
        log.keys.append((key, all_lines - log.lines, log.lines - all_lines))

        def told() -> Compared:
            base = log.base()
            return Compared(log.changed(base, number), log.first) if number else Compared(base)

        def compare(folder: Path | None, at: float) -> Compared:
            base = log.base()
            changed = log.changed(base, number)
            parts = whole_parts(changed, base)
            before = [(log.keys[n][0], log.changed(base, n)) for n in range(number) if log.keys[n][0] != key]
            closest = nearest(changed, before)
            earlier = [(closest[0], whole_parts(closest[1], base))] if closest else []
            stored = [(name, each) for time, name, each in self._entries(folder) if time < at and name != key]
            found = nearest(parts, [*stored, *earlier])
            return replace(told(), nearest=found[0], differs=differences(parts, found[1])) if found else told()

        return NotedKey(told, compare)

    def _entries(self, folder: Path | None) -> list[tuple[float, str, KeyParts]]:
        if folder is None:
            return []
        if folder not in self._stored:
            self._stored[folder] = list(stored_keys(folder))
        return self._stored[folder]


def stored_keys(folder: Path) -> Iterator[tuple[float, str, KeyParts]]:
    """When each of the newest entries of a cache of graphs was written, its key, and the key's parts, of which it keeps a list.

    The pickle is searched, not loaded.
    """
    files = [(path.stat().st_mtime, path) for path in folder.glob("*/*/*") if path.is_file()]
    for time, path in sorted(files, reverse=True)[:ENTRIES]:
        if path.stat().st_size <= BYTES and (parts := key_parts(pickled_parts(path.read_bytes()))):
            yield time, path.parent.name, parts


def pickled_parts(data: bytes) -> Iterator[str]:
    """The strings in a pickle that are parts of a key."""
    for match in _PART.finditer(data):
        at = match.start()
        if data[at - 2] == 0x8C:  # SHORT_BINUNICODE
            length = data[at - 1]
        elif data[at - 5] == 0x58:  # BINUNICODE
            length = int.from_bytes(data[at - 4 : at], "little")
        else:
            continue
        yield data[at : at + length].decode("utf-8", errors="replace")


class AutogradKeys:
    """The parts of the key that AOTAutograd's cache was asked for last, which torch lists only where its log is on."""

    def __init__(self) -> None:
        self._last: tuple[str, Any, Any] | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what each key is made of inside the block."""
        from torch._functorch._aot_autograd import autograd_cache

        def made(lines: Sequence[str], pickler: Any, details: Any, key: str) -> None:
            self._last = None if lines else (key, pickler, details)

        if not has_function(autograd_cache, "_get_debug_lines_for_cache_key"):  # torch 2.11 always lists them
            yield
            return
        with followed(autograd_cache, "_get_debug_lines_for_cache_key", made):
            yield

    def lines(self, info: Mapping[str, Any]) -> Sequence[str]:
        """torch's list of the parts of the key of a lookup that missed; it is made now, before the graph changes."""
        from torch._functorch._aot_autograd.autograd_cache import sanitize_gm_for_cache

        last, self._last = self._last, None
        listed: Sequence[str] = info.get("components") or ()
        if listed or last is None or last[0] != info.get("key") or info.get("cache_state") != "miss":
            return listed
        _, pickler, details = last
        with sanitize_gm_for_cache(details.gm):
            lines: Sequence[str] = pickler.debug_lines(details)
        return lines
