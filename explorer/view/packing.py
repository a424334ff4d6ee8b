"""Pack a payload for a browser: what a first screen shows, and the rest in parts that are unpacked when one is asked for. Pure.

The packed bytes are a line with the sizes of the parts, as JSON, and after it the parts, each gzipped JSON. The first part is a
`wire.Opening`: the payload without the values that the other parts have. Each of those is a list of lists of values, in the
order in which the opening names their fields. To inflate and parse all of a large trace takes a browser a third of the time until
its first screen. Links travel as steps, see `_steps`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from explorer.view import wire

#: The fields that are large, by the list of the payload whose entries have them; "memory" is one object.
LARGE: Mapping[wire.HeldIn, tuple[str, ...]] = {
    "artifacts": ("text", "nodes", "rows", "layouts", "before"),
    "fusion": (
        "groups",
        "costs",
        "made",
        "inlined",
        "verdicts",
        "members",
        "known",
        "operators",
        "touched",
        "kept_inputs",
        "apart",
        "kernels",
    ),
    "memory": ("table", "timeline"),
}
#: What the first screen needs of a stage's artifacts, beside the text that it opens with: the program in the order of its calls,
#: and how long the compiler took.
FIRST: Mapping[str, tuple[str, ...]] = {"source": ("text",), "dynamo": ("nodes",), "phase": ("rows",)}
#: The stages whose rows one view reads of all compiles at once: their rows have parts of their own, so that the view does not
#: wait for all texts of the trace.
TOGETHER = ("guards", "recompile", "symbol")
#: The characters of JSON after which a part ends: a text asked for before the browser had time to unpack is there in a frame.
PART = 500_000


def pack(payload: wire.Payload) -> bytes:
    """Return the bytes that the page, the widget and a notebook hold of a payload."""
    parts: list[list[wire.Held]] = []
    packed: list[bytes] = []
    for part, values in _parts(payload):
        parts.append(part)
        packed.append(_packed(values))
    left = _without(payload, [held for part in parts for held in part])
    left["links"] = [(source, target, how, _steps(runs)) for source, target, how, runs in left["links"]]
    opening: wire.Opening = {"payload": left, "parts": parts}
    packed.insert(0, _packed(_json(opening)))
    return b"".join([json.dumps([len(part) for part in packed]).encode(), b"\n", *packed])


def unpack(packed: bytes) -> wire.Payload:
    """Return the payload that was packed."""
    line, _, rest = packed.partition(b"\n")
    parts: list[Any] = []
    for size in json.loads(line):
        parts.append(json.loads(gzip.decompress(rest[:size])))
        rest = rest[size:]
    opening = cast("wire.Opening", parts[0])
    for helds, values in zip(opening["parts"], parts[1:], strict=True):
        for (key, index, names), own in zip(helds, values, strict=True):
            _object(opening["payload"], key, index).update(zip(names, own, strict=True))
    for *_, steps in opening["payload"]["links"]:
        steps[:] = _runs(steps)
    return opening["payload"]


def _steps(runs: Sequence[int]) -> list[int]:
    """Return a link group's runs with each line as a step from the end of the run before.

    Lines of two texts are linked in order, so most steps are equal: the links of a GPT-2 pack to a sixth.
    """
    steps: list[int] = []
    source = target = 0
    for at in range(0, len(runs), 4):
        first, count, other, others = runs[at : at + 4]
        steps += [first - source, count, other - target, others]
        source, target = first + count, other + (others or count)
    return steps


def _runs(steps: Sequence[int]) -> list[int]:
    """Return the runs that `_steps` was given."""
    runs: list[int] = []
    source = target = 0
    for at in range(0, len(steps), 4):
        by, count, to, others = steps[at : at + 4]
        runs += [source + by, count, target + to, others]
        source, target = source + by + count, target + to + (others or count)
    return runs


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _parts(payload: wire.Payload) -> Iterator[tuple[list[wire.Held], str]]:
    """Yield the fields of each part after the first, and the JSON of their values: a list for each object that has some."""
    part: list[wire.Held] = []
    objects: list[str] = []
    size = 0
    for key, index, names in _held(payload):
        part.append((key, index, names))
        # written once: the same texts are measured and packed
        values = [_json(_object(payload, key, index)[name]) for name in names]
        objects.append(f"[{','.join(values)}]")
        size += sum(map(len, values))
        if size > PART:
            yield part, f"[{','.join(objects)}]"
            part, objects, size = [], [], 0
    if part:
        yield part, f"[{','.join(objects)}]"


def _held(payload: wire.Payload) -> Iterator[wire.Held]:
    """Yield the large fields that have something in them and that the first screen does not need; those read together first."""
    opened = set(_opened(payload))
    for index, artifact in enumerate(payload["artifacts"]):
        if _is_read_together(artifact) and index not in opened:
            yield "artifacts", index, ["rows"]
    for key, names in LARGE.items():
        for index in range(1 if key == "memory" else len(payload[key])):
            entry = _object(payload, key, index)
            large = [name for name in names if isinstance(entry.get(name), str | list | dict) and entry[name]]
            if key == "artifacts":
                first = names if index in opened else FIRST.get(entry["stage"], ())
                together = ("rows",) if _is_read_together(entry) else ()
                large = [name for name in large if name not in first and name not in together]
            if large:
                yield key, index, large


def _is_read_together(entry: Mapping[str, Any]) -> bool:
    return entry.get("stage") in TOGETHER and bool(entry.get("rows"))


def _opened(payload: wire.Payload) -> Iterator[int]:
    """Yield the artifact that a view of each trace opens with, as `view/widget/src/opening.js` chooses it."""
    opens_at = {stage["name"]: stage["opens_at"] for stage in payload["stages"]}
    artifacts = payload["artifacts"]
    at = 0
    for count in [trace["texts"] for trace in payload["comparison"]["traces"]] if "comparison" in payload else [len(artifacts)]:
        ranks = [opens_at.get(a["stage"], 0) for a in artifacts[at : at + count]]
        if ranks:
            opened = at + (ranks.index(max(ranks)) if max(ranks) else count - 1)
            yield artifacts[opened].get("same_text", opened)
            yield opened
        at += count


def _object(payload: Mapping[str, Any], key: str, index: int) -> dict[str, Any]:
    found: dict[str, Any] = payload[key] if key == "memory" else payload[key][index]
    return found


def _without(payload: wire.Payload, helds: Iterable[wire.Held]) -> wire.Payload:
    """Return the payload without these fields; the given one stays as it is."""
    left: dict[str, Any] = {**payload}
    for key in LARGE:
        left[key] = dict(payload["memory"]) if key == "memory" else [dict(entry) for entry in cast("list[Any]", payload[key])]
    for key, index, names in helds:
        for name in names:
            del _object(left, key, index)[name]
    return cast("wire.Payload", left)
