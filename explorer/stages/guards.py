"""The guards of a compiled frame: what must still hold at the next call for the compiled code to be used again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from explorer.hooks import dynamo
from explorer.model import Artifact, Event, Link, Plain
from explorer.stage import Stage, text_artifact

if TYPE_CHECKING:
    from explorer.traced import Trace

_ITEM = re.compile(r"^(?P<depth>(?:\| )*)\+- (?P<kind>[A-Za-z_]+)(?:: (?P<rest>.*))?$")
_SOURCE = re.compile(r"source=(?P<source>.*?), accessed_by=")
_PLACE = re.compile(r"#\s*(?P<code>.*?)\s*# (?P<file>[^#]+?):(?P<line>\d+) in (?P<function>\S+)\s*$")
_PLAIN_PLACE = re.compile(r"\s+# (?P<file>[^#]+?):(?P<line>\d+) in (?P<function>\S+)\s*$")


def guard_rows(tree: str) -> Iterator[dict[str, Plain]]:
    """One row a guard of Dynamo's printed guard tree: kind, source guarded, expression, and the user's line."""
    sources: dict[int, str] = {}
    for text in tree.splitlines():
        item = _ITEM.match(text)
        if item is None:
            continue
        depth, rest = len(item["depth"]) // 2, item["rest"] or ""
        if item["kind"].endswith("Manager"):
            found = _SOURCE.search(rest)
            sources = {d: s for d, s in sources.items() if d < depth} | {depth: found["source"] if found else ""}
            continue
        source = next((sources[d] for d in range(depth - 1, -1, -1) if sources.get(d)), "")
        yield {"kind": item["kind"], "source": source, **_expression(rest)}


def _expression(rest: str) -> dict[str, Plain]:
    """The condition itself, and the place in the user's code that made it necessary."""
    place = _PLACE.search(rest) or _PLAIN_PLACE.search(rest)
    if place is None:
        return {"expression": rest.strip(), "code": "", "file": "", "line": 0}
    groups = place.groupdict()
    expression = rest[: place.start()].strip()
    return {"expression": expression, "code": groups.get("code", ""), "file": place["file"], "line": int(place["line"])}


def readable(row: dict[str, Plain]) -> str:
    """A guard as one line: what is guarded, how, and why."""
    why = f"  # {row['code']}" if row["code"] else ""
    return f"{row['source'] or '(global)':<24} {row['kind']:<24} {row['expression']}{why}".rstrip()


def render(event: Event, id: str) -> Artifact:
    """The guards, one a line; `data["rows"]` has them as mappings, `data["tree"]` Dynamo's own print."""
    tree = event.data["text"]
    rows = list(guard_rows(tree))
    data = {"rows": tuple(rows), "tree": tree}
    return text_artifact(event, id, "Guards", "guards", text="\n".join(map(readable, rows)), data=data)


def link(artifact: Artifact, trace: Trace) -> Iterable[Link]:
    """Each guard to the user's line that made it necessary."""
    for number, row in enumerate(artifact.data["rows"], 1):
        found = row["line"] and trace.source_line(row["file"], row["line"], frame=artifact.frame)
        if found:
            yield Link(artifact.id, (number,), found[0], (found[1],), "guard comment")


STAGE = Stage(
    name="guards", title="Guards", language="guards", render=render, link=link,
    watch=partial(dynamo.logged, kind="guards", name="dynamo_cpp_guards_str"), phases=("build_guards",),
    about="The conditions checked before each call; if one fails, Dynamo compiles the frame again.",
)  # fmt: skip
