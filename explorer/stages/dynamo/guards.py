"""The guards of a compiled frame: what must still hold at the next call for the compiled code to be used again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from explorer.model.records import Record, changed, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import Artifact, Event, Link, text_lines
from explorer.stages.dynamo.same_text import same_text
from explorer.stages.gathering import counted


@record
class GuardPlace(Record):
    """The place in torch that made a guard: "guards.py:12 in f", by the kind that Dynamo asked for and its source.

    `user` is the user's line (file, line, code) that called a library, where the guard names a line of that library.
    Older files lack it, and the oldest have only the places of guards without a line of the user's.
    """

    kind: str
    source: str
    place: str
    user: tuple[str, int, str] | None = None


@record
class Guard(Record):
    """A guard: its condition, the value that it reads, and where it is from.

    `code`, `file`, `line` and `function` are the user's line, `framework` torch's own place, `note` what torch remarks.
    `origin` says in words where it is from, `derived_from` names by kind and source the guards that it follows from.
    Where `file` is a library's, `user` is the line (file, line, code) of the program that called it, if known.
    """

    kind: str
    source: str
    expression: str
    code: str
    file: str
    line: int
    function: str | None = None
    framework: str | None = None
    note: str | None = None
    origin: str | None = None
    derived_from: tuple[tuple[str, str], ...] | None = None
    user: tuple[str, int, str] | None = None


@record
class Guards(Record):
    """The guards of one compile, and Dynamo's own print of them."""

    rows: tuple[Guard, ...]
    tree: str | None = None


@record
class GuardTree(Record):
    """Dynamo's print of its guard tree, and where in torch the guards were made."""

    text: str
    made_at: tuple[GuardPlace, ...] | None = None


_ITEM = re.compile(r"^(?P<depth>(?:\| )*)\+- (?P<kind>[A-Za-z_]+)(?:: (?P<rest>.*))?$")
_SOURCE = re.compile(r"source=(?P<source>.*?), accessed_by=")
#: The end of a guard: the user's code, where it stands, and in parentheses torch's own place or a remark.
_USER_PLACE = re.compile(
    r"^(?:(?P<code>.*?)\s# )?\s*(?P<file>[^#]+?):(?P<line>\d+) in (?P<function>\S+?)(?:\s+\((?P<rest>.*)\))?$"
)
_ONLY_REST = re.compile(r"^\((?P<rest>.*)\)$")
_PLACE = re.compile(r"^(?P<file>[^\s()]+):(?P<line>\d+) in (?P<function>\S+)$")
_HINT = re.compile(r"\s*\(HINT: (?P<hint>.*)\)$")
#: A value that a guard reads: a local or global variable, and the parts of it.
_VALUE = re.compile(r"[LG]\[(?:'[^']*'|\"[^\"]*\")\](?:\.\w+|\[[^\[\]]*\])*")
#: The kinds that Dynamo asks for, by the kind that the guard then is.
ASKED_AS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "EQUALS_MATCH": ("CONSTANT_MATCH",),
        "ID_MATCH": ("CONSTANT_MATCH", "MODULE_MATCH", "BUILTIN_MATCH", "FUNCTION_MATCH", "CLOSURE_MATCH", "CLASS_MATCH"),
        "TRUE_MATCH": ("CONSTANT_MATCH",),
        "FALSE_MATCH": ("CONSTANT_MATCH",),
        "NONE_MATCH": ("CONSTANT_MATCH",),
        "TYPE_MATCH": ("CONSTANT_MATCH", "SEQUENCE_LENGTH"),
        "DIMENSION_DYNAMIC_MARKING_GUARD": ("TENSOR_MATCH",),
        "LENGTH_CHECK": ("SEQUENCE_LENGTH", "LIST_LENGTH", "TUPLE_LENGTH"),
    }
)
#: Guards of what holds for the whole program; every compiled frame has them.
AMBIENT = ("GLOBAL_STATE", "TORCH_FUNCTION_MODE_STACK", "DEFAULT_DEVICE", "DETERMINISTIC_ALGORITHMS", "GRAD_MODE")


def guard_rows(tree: str) -> Iterator[Guard]:
    """One row per guard of Dynamo's printed guard tree: kind, source guarded, expression, and the user's line."""
    sources: dict[int, str] = {}
    for text in text_lines(tree):
        item = _ITEM.match(text)
        if item is None:
            continue
        depth, rest = len(item["depth"]) // 2, item["rest"] or ""
        if item["kind"].endswith("Manager"):
            source_match = _SOURCE.search(rest)
            sources = {d: s for d, s in sources.items() if d < depth} | {depth: source_match["source"] if source_match else ""}
            continue
        source = next((sources[d] for d in range(depth - 1, -1, -1) if sources.get(d)), "")
        yield _guard(item["kind"], source, rest)


def _guard(kind: str, source: str, rest: str) -> Guard:
    """A guard of the tree: its condition, the user's place that made it necessary, torch's own place, and torch's remark."""
    hint = _HINT.search(rest)
    expression, *comments = re.split(r"\s+# ", rest[: hint.start()] if hint else rest, maxsplit=1)
    comment = comments[0].strip() if comments else ""
    only = _ONLY_REST.match(comment)
    at = _USER_PLACE.match(comment) if only is None else None
    remark = (at["rest"] if at else only["rest"] if only else comment) or ""
    framework_place = _PLACE.match(remark)
    place = at or framework_place
    code = (at["code"] or "").strip() if at else ""
    if framework_place:
        framework, note = remark, ""
    elif at is not None and not code and at["file"].startswith("_"):
        framework, note = comment, ""  # a place in torch: its packages that compile begin so, and it writes no code of theirs
    else:
        framework, note = "", remark
    return Guard(
        kind=kind,
        source=source,
        expression=expression.strip(),
        code=code,
        file=place["file"] if place else "",
        line=int(place["line"]) if place else 0,
        function=place["function"] if place else "",
        framework=framework,
        note="; ".join(filter(None, (note, hint["hint"]))) if hint else note,
    )


def with_origins(rows: Iterable[Guard], made_at: Iterable[GuardPlace] = ()) -> list[Guard]:
    """Each guard once, with its `origin`: the user's line, torch's own place, or the guards that it follows from.

    `made_at` has the place in torch, by kind and source, of guards whose text states none.
    """
    made_at = list(made_at)
    places = {(row.kind, row.source): row.place for row in made_at if row.place}
    users = {(row.kind, row.source): row.user for row in made_at if row.user}
    last_first = {(row.kind, row.expression or row.source): row for row in reversed(list(rows))}
    distinct = list(reversed(last_first.values()))
    relational = {row.kind for row in distinct if len(values_in(row.expression)) > 1}
    # a guard on several values hangs under each of them in the tree, and has its text under the first only
    guards = [row for row in distinct if row.expression or row.kind not in relational]
    with_code = _by_source(row for row in guards if row.code)
    return [changed(_with_origin(row, places, with_code), user=_user_of(row, users)) for row in guards]


def _by_source(guards: Iterable[Guard]) -> Mapping[str, Guard]:
    """Return the first guard on each value, or the first that checks it as a tensor."""
    by_source: dict[str, Guard] = {}
    for row in guards:
        known = by_source.setdefault(row.source, row)
        if row.kind == "TENSOR_MATCH" and known.kind != "TENSOR_MATCH":
            by_source[row.source] = row
    by_source.pop("", None)
    return by_source


def _with_origin(row: Guard, places: Mapping[tuple[str, str], str], with_code: Mapping[str, Guard]) -> Guard:
    """The guard with where it is from in words, and the guards that it is derived from as (kind, source)."""
    framework = row.framework or _place_of(row, places)
    if row.code or (row.file and not row.framework):
        return changed(row, origin=f"{row.file}:{row.line} in {row.function}", derived_from=(), framework=framework)
    if parents := _parents(row, with_code):
        return _derived(changed(row, framework=framework), parents)
    if framework:
        origin = f"torch: {framework}"
    elif row.kind in AMBIENT:
        origin = "torch: the state of the whole program, which every compiled frame depends on"
    else:
        origin = "torch does not say"
    return changed(row, origin=origin, derived_from=(), framework=framework)


def _user_of(row: Guard, users: Mapping[tuple[str, str], tuple[str, int, str]]) -> tuple[str, int, str] | None:
    """Return the user's line that led to a guard in torch's own module; None if that is not known."""
    asked = (row.kind, *ASKED_AS.get(row.kind, ()))
    return next((users[kind, row.source] for kind in asked if (kind, row.source) in users), None) if row.code else None


def _place_of(row: Guard, places: Mapping[tuple[str, str], str]) -> str:
    """Return the place in torch that made a guard; "" if none is known, or several are and none has its kind."""
    asked = (row.kind, *ASKED_AS.get(row.kind, ()))
    known = [places[kind, row.source] for kind in asked if (kind, row.source) in places]
    return known[0] if known else ""


def _derived(row: Guard, parents: Sequence[Guard]) -> Guard:
    """The guard at the place of the first of those that it is derived from."""
    first = parents[0]
    values = ", ".join(f"{parent.kind} of {parent.source}" for parent in parents)
    by = f"; torch: {row.framework}" if row.framework else ""
    return changed(
        row,
        origin=f"derived from {values}, first used at {first.file}:{first.line}{by}",
        derived_from=tuple((parent.kind, parent.source) for parent in parents),
        file=first.file,
        line=first.line,
        function=first.function,
    )


def _parents(row: Guard, with_code: Mapping[str, Guard]) -> list[Guard]:
    """A guard with a line of the user's on each value that this one reads, or on what the value is a part of."""
    nearest = [found for value in (row.source, *values_in(row.expression)) if (found := _nearest(value, with_code))]
    return list({parent.source: parent for parent in nearest}.values())


def _nearest(value: str, by_source: Mapping[str, Guard]) -> Guard | None:
    """Return the guard on a value; without one, the guard on the smallest value that it is a part of."""
    ends = [*(place for place, character in enumerate(value) if character in ".["), len(value)]
    return next((by_source[value[:end]] for end in reversed(ends) if value[:end] in by_source), None)


def values_in(expression: str) -> list[str]:
    """The values that an expression reads, as Dynamo names them."""
    return list(dict.fromkeys(match[0] for match in _VALUE.finditer(expression)))


def readable(row: Guard) -> str:
    """A guard as one line: what is guarded, how, and why."""
    why = f"  # {row.user[2] if row.user else row.code or row.origin}"
    return f"{row.source or '(global)':<24} {row.kind:<24} {row.expression}{why}".rstrip()


def render(event: Event, id: str) -> Artifact:
    """Render one line per guard. `data` has them as rows, without the ids of objects, and Dynamo's print, which has the ids."""
    recorded = typed(GuardTree, event.data)
    rows = with_origins(guard_rows(recorded.text), recorded.made_at or ())
    data = Guards(rows=tuple(changed(row, expression=same_text(row.expression)) for row in rows), tree=recorded.text)
    return text_artifact(event, id, "Guards", "guards", text="\n".join(map(readable, data.rows)), data=data)


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link each guard to the user's line that made it necessary."""
    for number, row in enumerate(typed(Guards, artifact.data).rows, 1):
        file, line, _ = row.user or (row.file, row.line, "")
        place = source_line(trace, file, line, frame=artifact.frame) if line else None
        if place:
            how = "derived guard" if row.derived_from else "guard comment"
            yield Link(artifact.id, (number,), place[0], (place[1],), how)


STAGE = Stage(
    name="guards",
    title="Guards",
    language="guards",
    event=GuardTree,
    artifact=Guards,
    render=render,
    summary=counted("guard"),
    link=link,
    phases=("build_guards",),
    about="The conditions checked before each call; if one fails, Dynamo compiles the frame again.",
)
