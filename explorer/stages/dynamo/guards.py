"""The guards of a compiled frame: what must still hold at the next call for the compiled code to be used again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link, Plain, text_lines
from explorer.stages.gathering import number_of_rows

_ITEM = re.compile(r"^(?P<depth>(?:\| )*)\+- (?P<kind>[A-Za-z_]+)(?:: (?P<rest>.*))?$")
_SOURCE = re.compile(r"source=(?P<source>.*?), accessed_by=")
#: The end of a guard: the user's code, where it stands, and in parentheses torch's own place or a remark.
_USER_PLACE = re.compile(
    r"^(?:(?P<code>.*)\s# )?\s*(?P<file>[^#]+?):(?P<line>\d+) in (?P<function>\S+?)(?:\s+\((?P<rest>.*)\))?$"
)
_ONLY_REST = re.compile(r"^\((?P<rest>.*)\)$")
_PLACE = re.compile(r"^(?P<file>[^\s()]+):(?P<line>\d+) in (?P<function>\S+)$")
_HINT = re.compile(r"\s*\(HINT: (?P<hint>.*)\)$")
#: A value that a guard reads: a local or global variable, and the parts of it.
_VALUE = re.compile(r"[LG]\[(?:'[^']*'|\"[^\"]*\")\](?:\.\w+|\[[^\[\]]*\])*")
#: Guards of what holds for the whole program; every compiled frame has them.
AMBIENT = ("GLOBAL_STATE", "TORCH_FUNCTION_MODE_STACK", "DEFAULT_DEVICE", "DETERMINISTIC_ALGORITHMS", "GRAD_MODE")
#: What a row has besides its condition.
NOWHERE = {"code": "", "file": "", "line": 0, "function": "", "framework": "", "note": ""}


def guard_rows(tree: str) -> Iterator[dict[str, Plain]]:
    """One row a guard of Dynamo's printed guard tree: kind, source guarded, expression, and the user's line."""
    sources: dict[int, str] = {}
    for text in text_lines(tree):
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
    """The condition itself, the user's place that made it necessary, torch's own place, and what torch remarks on it."""
    hint = _HINT.search(rest)
    expression, *comments = re.split(r"\s+# ", rest[: hint.start()] if hint else rest, maxsplit=1)
    comment = comments[0].strip() if comments else ""
    only = _ONLY_REST.match(comment)
    found = _USER_PLACE.match(comment) if only is None else None
    row: dict[str, Plain] = {"expression": expression.strip(), **NOWHERE}
    if found is not None:
        row |= {key: found[key] or "" for key in ("code", "file", "function")}
        row |= {"code": str(row["code"]).strip(), "line": int(found["line"])}
    remark = (found["rest"] if found else only["rest"] if only else comment) or ""
    if place := _PLACE.match(remark):
        row["framework"] = remark
        if found is None:
            row |= {"file": place["file"], "line": int(place["line"]), "function": place["function"]}
    elif found is not None and not row["code"] and str(row["file"]).startswith("_"):
        row["framework"] = comment  # a place in torch: its packages that compile begin so, and it writes no code of theirs
    else:
        row["note"] = remark
    if hint:
        row["note"] = "; ".join(filter(None, (str(row["note"]), hint["hint"])))
    return row


def with_origins(rows: Iterable[dict[str, Plain]], made_at: Iterable[Mapping[str, Plain]] = ()) -> list[dict[str, Plain]]:
    """Each guard once, with its `origin`: the user's line, torch's own place, or the guards that it follows from.

    `made_at` are the places in torch, by kind and source, of guards whose text has none.
    """
    places = {(row["kind"], row["source"]): str(row["place"]) for row in made_at}
    distinct = {(row["kind"], row["expression"] or row["source"]): row for row in reversed(list(rows))}
    found = [dict(row) for row in reversed(distinct.values())]
    relational = {row["kind"] for row in found if len(values_in(str(row["expression"]))) > 1}
    # a guard on several values hangs under each of them in the tree, and has its text under the first only
    found = [row for row in found if row["expression"] or row["kind"] not in relational]
    stated = [row for row in found if row["code"]]
    return [{**row, **_origin(row, places, stated)} for row in found]


def _origin(
    row: Mapping[str, Plain], places: Mapping[tuple[Plain, Plain], str], stated: Sequence[Mapping[str, Plain]]
) -> dict[str, Plain]:
    """Where a guard is from in words, and the rows that it is derived from as (kind, source)."""
    framework = str(row["framework"]) or places.get((row["kind"], row["source"]), "")
    if row["code"] or (row["file"] and not framework):
        return {"origin": f"{row['file']}:{row['line']} in {row['function']}", "derived_from": ()}
    parents = _parents(row, stated)
    if parents:
        values = ", ".join(f"{p['kind']} of {p['source']}" for p in parents)
        first = {key: parents[0][key] for key in ("file", "line", "function")}
        at = f", first used at {first['file']}:{first['line']}"
        by = f"; torch: {framework}" if framework else ""
        derived = [(p["kind"], p["source"]) for p in parents]
        return {"origin": f"derived from {values}{at}{by}", "derived_from": tuple(derived), "framework": framework, **first}
    if framework:
        return {"origin": f"torch: {framework}", "derived_from": (), "framework": framework}
    if row["kind"] in AMBIENT:
        return {"origin": "torch: the state of the whole program, which every compiled frame depends on", "derived_from": ()}
    return {"origin": "torch does not say", "derived_from": ()}


def _parents(row: Mapping[str, Plain], stated: Sequence[Mapping[str, Plain]]) -> list[Mapping[str, Plain]]:
    """A guard with a line of the user's on each value that this one reads, or on what the value is a part of."""
    found: dict[Plain, Mapping[str, Plain]] = {}
    for value in (str(row["source"]), *values_in(str(row["expression"]))):
        owners = [other for other in stated if other["source"] and _is_part(value, str(other["source"]))]
        if owners:
            nearest = max(owners, key=lambda other: (len(str(other["source"])), other["kind"] == "TENSOR_MATCH"))
            found.setdefault(nearest["source"], nearest)
    return list(found.values())


def values_in(expression: str) -> list[str]:
    """The values that an expression reads, as Dynamo names them."""
    return list(dict.fromkeys(match[0] for match in _VALUE.finditer(expression)))


def _is_part(value: str, source: str) -> bool:
    return value == source or value.startswith((f"{source}.", f"{source}["))


def readable(row: Mapping[str, Plain]) -> str:
    """A guard as one line: what is guarded, how, and why."""
    why = f"  # {row['code'] or row['origin']}"
    return f"{row['source'] or '(global)':<24} {row['kind']:<24} {row['expression']}{why}".rstrip()


def render(event: Event, id: str) -> Artifact:
    """The guards, one a line; `data["rows"]` has them as mappings, `data["tree"]` Dynamo's own print."""
    tree = event.data["text"]
    rows = with_origins(guard_rows(tree), event.data.get("made_at", ()))
    data = {"rows": tuple(rows), "tree": tree}
    return text_artifact(event, id, "Guards", "guards", text="\n".join(map(readable, rows)), data=data)


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Each guard to the user's line that made it necessary."""
    for number, row in enumerate(artifact.data["rows"], 1):
        found = row["line"] and trace.source_line(row["file"], row["line"], frame=artifact.frame)
        if found:
            how = "derived guard" if row["derived_from"] else "guard comment"
            yield Link(artifact.id, (number,), found[0], (found[1],), how)


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many guards there are."""
    return f"{number_of_rows(artifacts)} guards"


STAGE = Stage(
    name="guards",
    title="Guards",
    language="guards",
    render=render,
    summary=summary,
    link=link,
    phases=("build_guards",),
    about="The conditions checked before each call; if one fails, Dynamo compiles the frame again.",
)
