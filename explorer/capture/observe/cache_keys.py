"""Keep the keys that the caches of graphs were asked for, to say in what a key that missed differs from the nearest one."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Any

from explorer.capture.observe.patch import followed
from explorer.capture.observe.versions import has_function
from explorer.stages.torch_compile.cache_keys import KeyParts, changed_parts, differences, key_parts, nearest, whole_parts

#: How many entries of Inductor's cache on disk a key that missed is compared with, the newest first, and how large each may be.
ENTRIES, BYTES = 100, 2**25
#: A part of a key in the pickle of a graph: strings stand there as they are, after their length.
_PART = re.compile(rb"\[[a-z2-7]{51}\] \w")


@dataclass(frozen=True)
class Compared:
    """A compared key: its parts that differ from those of `relative_to`, and from the nearest earlier key."""

    parts: KeyParts = field(default_factory=dict)
    relative_to: str = ""
    nearest: str = ""
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotedKey:
    """A key that was looked up, to be compared when the recording is read.

    `told()` returns the key's parts that differ from the first key's. `compare(folder, at)` also finds the nearest earlier
    key. With a folder, it also searches the keys that this cache folder had at the time `at`.
    """

    told: Callable[[], Compared]
    compare: Callable[[Path | None, float], Compared]


class _Log:
    """The keys looked up in one cache: the first key's lines, and for each later key its difference from the first."""

    def __init__(self, key: str, lines: frozenset[str]) -> None:
        self.first, self.lines = key, lines
        self.keys: list[tuple[str, frozenset[str], frozenset[str]]] = []
        self._changed: dict[int, KeyParts] = {}

    @cached_property
    def base(self) -> KeyParts:
        """The parts of the first key."""
        return key_parts(self.lines)

    def changed(self, number: int) -> KeyParts:
        """The parts of a key that differ from the first one's; kept, since every later key is compared with them."""
        if number not in self._changed:
            _, new, gone = self.keys[number]
            of_first = {name: self.base[name] for name in key_parts(new | gone) if name in self.base}
            self._changed[number] = changed_parts(key_parts(new), of_first)
        return self._changed[number]


class KeyLog:
    """The keys of one recording, by the cache that was asked; little is done while the program compiles."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._stored: dict[Path, StoredKeys] = {}

    def add(self, cache: str, key: str, lines: Sequence[str]) -> NotedKey:
        """Note a key with torch's list of its parts."""
        if not lines or not key:
            return NotedKey(Compared, lambda *_: Compared())
        all_lines = frozenset(lines)
        log = self._logs.setdefault(cache, _Log(key, all_lines))
        number = len(log.keys)
        log.keys.append((key, all_lines - log.lines, log.lines - all_lines))

        def told() -> Compared:
            return Compared(log.changed(number), log.first) if number else Compared(log.base)

        def compare(folder: Path | None, at: float) -> Compared:
            changed = log.changed(number)
            parts = whole_parts(changed, log.base)
            before = [(log.keys[n][0], log.changed(n)) for n in range(number) if log.keys[n][0] != key]
            closest = nearest(changed, before)
            earlier = [(closest[0], whole_parts(closest[1], log.base))] if closest else []
            stored = [entry for entry in self._entries(folder, at) if entry[0] != key]
            found = nearest(parts, [*stored, *earlier])
            return replace(told(), nearest=found[0], differs=differences(parts, found[1])) if found else told()

        return NotedKey(told, compare)

    def _entries(self, folder: Path | None, at: float) -> Iterator[tuple[str, KeyParts]]:
        if folder is None:
            return iter(())
        if folder not in self._stored:
            self._stored[folder] = StoredKeys(folder)
        return self._stored[folder].before(at)


class StoredKeys:
    """The keys of the entries of a cache of graphs on disk. The folder is listed once, and each entry is read once.

    Another process may remove an entry at any time: it is left out.
    """

    def __init__(self, folder: Path) -> None:
        self._files: list[tuple[float, Path]] = []
        self._parts: dict[Path, KeyParts] = {}
        for name in glob("*/*/*", root_dir=folder):  # unlike Path.glob, it passes over a folder that was just removed
            path = folder / name
            with suppress(OSError):
                if path.is_file():
                    self._files.append((path.stat().st_mtime, path))
        self._files.sort()

    def before(self, at: float) -> Iterator[tuple[str, KeyParts]]:
        """The keys of the newest entries written before a time, the newest last, with the list of parts that each keeps."""
        end = bisect_left(self._files, at, key=lambda entry: entry[0])
        for _, path in self._files[max(0, end - ENTRIES) : end]:
            if path not in self._parts:
                self._parts[path] = _stored_parts(path)
            if parts := self._parts[path]:
                yield path.parent.name, parts


def _stored_parts(path: Path) -> KeyParts:
    """The parts of a key from the pickle of its graph, which is searched, not loaded; {} where it cannot be read."""
    with suppress(OSError):
        if path.stat().st_size <= BYTES:
            return key_parts(pickled_parts(path.read_bytes()))
    return {}


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
        """Note the parts of each key that is computed inside the block."""
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
