"""Read the records of a `TORCH_TRACE` log. Pure.

A record is a line, and its payload, where it has one, the lines below that begin with a tab:

    V1123 10:50:01.667000 9739 torch/…/output_graph.py:2841] {"dynamo_output_graph": {…}, "frame_id": 0, "has_payload": md5}
        class GraphModule(torch.nn.Module):

`has_payload` is the MD5 checksum of the payload (`trace_structured` in torch's `_logging/_internal.py`), by which a payload
that was cut off, or that another writer's lines came between, is known.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

#: How a record begins: level, month and day, time, thread, file and line in torch. Launchers put the rank before it.
HEADER = re.compile(
    r"(?:\[\w+\]:)?[VIWEC](?P<month>\d\d)(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\.(?P<micro>\d{6}) "
    r"\d+ [^\]]*:\d+\] (?=\{)"
)
#: What stands beside a record's own name in its line.
_BESIDE = frozenset(
    ("rank", "frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "has_payload", "stack", "process", "thread")
)
_DAYS = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record: its name, what it says beside its payload, and where it stands.

    `name` is the record's name; for an artifact, the artifact's own. `frame` is the compile id, such as "0/1", or "". `time` is
    in seconds since the first record; `line` is the record's line in the log, counted from 1.
    """

    name: str
    facts: Any
    payload: str
    time: float
    frame: str
    rank: int | None
    line: int


class Damage(NamedTuple):
    """A part of a log that could not be read: the line, and why."""

    line: int
    why: str


class _Header(NamedTuple):
    """The line of a record."""

    line: int
    time: float
    data: dict[str, Any]


NO_RECORD = "no record of the structured log"
NO_JSON = "a record that is not JSON"
MALFORMED = "a string or a date that is none"
MISSING = "a record whose payload is missing"
CHANGED = "a payload that is not as it was written: cut off, edited, or mixed with another process's"


class Log:
    """The records of a log, and what could not be read of it; `strings` are those that records refer to by number."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.damage: list[Damage] = []
        self.strings: dict[int, str] = {}
        self.records = tuple(self._records(lines))

    def string(self, index: object) -> str:
        """The string of a number, such as a file's name; "" where the log has none."""
        return self.strings.get(index, "") if isinstance(index, int) else str(index or "")

    def _records(self, lines: Iterable[str]) -> Iterator[LogRecord]:
        """Each record, in the order of the log."""
        waiting: list[_Header] = []
        payload: list[str] = []
        first: float | None = None
        for number, line in enumerate(lines, 1):
            text = line[:-1] if line.endswith("\n") else line
            if text.startswith("\t"):
                payload.append(text[1:])
                continue
            header = self._header(number, text)
            if header is None:
                continue
            first = header.time if first is None else first
            if waiting and (payload or "has_payload" not in waiting[-1].data):
                yield from self._whole(waiting, payload)
                waiting, payload = [], []
            waiting.append(header._replace(time=max(0.0, header.time - first)))
        yield from self._whole(waiting, payload)

    def _header(self, number: int, text: str) -> _Header | None:
        """The line of a record; None for another line, which is noted unless it is empty."""
        start = HEADER.match(text)
        if start is None:
            if text.strip():
                self.damage.append(Damage(number, NO_RECORD))
            return None
        try:
            data = json.loads(text[start.end() :])
        except (ValueError, RecursionError):
            self.damage.append(Damage(number, NO_JSON))
            return None
        month = int(start["month"])
        if not 1 <= month <= len(_DAYS):
            self.damage.append(Damage(number, MALFORMED))
            return None
        hours = (_DAYS[month - 1] + int(start["day"])) * 24 + int(start["hour"])
        time = hours * 3600 + int(start["minute"]) * 60 + int(start["second"]) + int(start["micro"]) / 1e6
        return _Header(number, time, data)

    def _whole(self, waiting: Sequence[_Header], payload: Sequence[str]) -> Iterator[LogRecord]:
        """The records whose lines follow one another, with their payloads below them.

        Two processes that write one log may both write their lines before their payloads: the checksums tell those apart.
        """
        checksums = [str(header.data.get("has_payload") or "") for header in waiting]
        payloads, rest = _shared_out(checksums, payload)
        for header, checksum, text in zip(waiting, checksums, payloads, strict=True):
            if checksum and text is None:
                last = header is waiting[-1] and bool(rest)
                self.damage.append(Damage(header.line, CHANGED if last else MISSING))
                text = "\n".join(rest) if last else ""
            yield from self._record(header, text or "")

    def _record(self, header: _Header, payload: str) -> Iterator[LogRecord]:
        """The record of a line and its payload; none for one that gives a string its number."""
        data = header.data
        if "str" in data:
            match data["str"]:
                case [str(text), int(number)]:
                    self.strings[number] = text
                case _:
                    self.damage.append(Damage(header.line, MALFORMED))
            return
        name = next((key for key in data if key not in _BESIDE), "")
        facts = data.get(name)
        if name == "artifact" and isinstance(facts, dict):
            name = str(facts.get("name", name))
        rank = data.get("rank")
        yield LogRecord(
            name, facts, payload, header.time, _compile_id(data), rank if isinstance(rank, int) else None, header.line
        )


def _compile_id(data: Mapping[str, Any]) -> str:
    """The compile id as torch writes it: "0/1", "!2/0/1" within compiled autograd; "" outside of a compile."""
    parts = [str(data[key]) for key in ("frame_id", "frame_compile_id") if data.get(key) is not None]
    autograd = data.get("compiled_autograd_id")
    return "/".join([*([f"!{autograd}"] if autograd is not None else []), *parts])


def _shared_out(checksums: Sequence[str], lines: Sequence[str]) -> tuple[list[str | None], list[str]]:
    """The payload of each record whose checksum some run of the lines has, None for the others; and the lines that are left."""
    payloads: list[str | None] = [None] * len(checksums)
    wanted: dict[str, list[int]] = {}  # equal payloads, such as two ranks' guards, have one checksum
    for number, checksum in enumerate(checksums):
        if checksum:
            wanted.setdefault(checksum, []).append(number)
    whole = "\n".join(lines)
    if len(checksums) == 1 and _checksum(whole) in wanted:
        return [whole], []
    rest = list(lines)
    while any(wanted.values()) and (length := _run(rest, lambda checksum: bool(wanted.get(checksum)))):
        text = "\n".join(rest[:length])
        payloads[wanted[_checksum(text)].pop(0)] = text
        rest = rest[length:]
    return payloads, rest


def _run(lines: Sequence[str], is_wanted: Callable[[str], bool]) -> int:
    """Return the number of first lines whose checksum is wanted; 0 if none is."""
    so_far = hashlib.md5(usedforsecurity=False)
    for number, line in enumerate(lines):
        so_far.update((("\n" if number else "") + line).encode(errors="surrogateescape"))
        if is_wanted(so_far.hexdigest()):
            return number + 1
    return 0


def _checksum(text: str) -> str:
    return hashlib.md5(text.encode(errors="surrogateescape"), usedforsecurity=False).hexdigest()
