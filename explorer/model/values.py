"""The plain values that flow through the explorer: events, artifacts, links, failures, and tables of them.

    fn + inputs → record: Event … → replay: Artifact, Link, Failure → Trace

Everything here is frozen and JSON-able: strings, numbers, tuples and read-only mappings. No tensor, module
or graph node is ever held. Nothing is imported but the standard library, and pandas to show a table.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, update_wrapper
from shutil import get_terminal_size
from types import MappingProxyType
from typing import Any, Generic, SupportsIndex, TypeVar, overload

from explorer.errors import is_installed, require_installed
from explorer.model.deferred import deferrable
from explorer.model.guessed import NamesGuessed, guess
from explorer.model.table_text import encodable, table_text

#: What an `Event` or `Artifact` may carry, after `plain`.
Plain = Any
#: One call in a call path: file (relative to its package), line, function.
Call = tuple[str, int, str]

#: Where an artifact of a file keeps its number of lines, until its text is read.
LINE_COUNT = "_line_count"

EMPTY: Mapping[str, Plain] = MappingProxyType({})


class Frozen(Mapping[str, Plain]):
    """A mapping that cannot be changed and holds plain values only; see `records`."""

    __slots__ = ()

    def mapping(self) -> dict[str, Plain]:
        """The same keys and values as a dict."""
        return dict(self)


#: A line with its end, and a last one that has none.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")

#: What JSON has as it is.
_SCALARS = frozenset((str, int, float, bool, type(None)))

T = TypeVar("T")
R = TypeVar("R")


def plain(value: object) -> Plain:
    """`value` as frozen JSON-able data: lists become tuples, dicts read-only, anything unknown its `str`."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (MappingProxyType, Frozen)):
        return value  # frozen here before; graphs of thousands of nodes come by more than once
    if isinstance(value, Mapping):
        return MappingProxyType({str(k): plain(v) for k, v in value.items()})
    if isinstance(value, (set, frozenset)):
        return tuple(plain(v) for v in sorted(value, key=str))  # their own order differs from process to process
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    return str(value)


def jsonable(value: Plain) -> Any:
    """The inverse view of `plain` for the json module: read-only mappings become dicts."""
    kind = type(value)
    if kind in _SCALARS:  # asked first, and of the parts here: a trace of a thousand kernels has seven million values
        return value
    if isinstance(value, tuple):
        return [v if type(v) in _SCALARS else jsonable(v) for v in value]
    if isinstance(value, Frozen):
        return {k: v if type(v) in _SCALARS else jsonable(v) for k, v in value.mapping().items()}
    if isinstance(value, Mapping):
        return {k: v if type(v) in _SCALARS else jsonable(v) for k, v in value.items()}
    return value


def text_lines(text: str, *, ends: bool = False) -> list[str]:
    """The lines of a text, with their ends where `ends` is True; only \\n, \\r and \\r\\n end a line.

    As CPython, the compilers and linecache count them. `str.splitlines` also breaks at a form feed, at \\x1c and at U+2028, which
    may stand inside a string or a comment, and each shifts the numbers of all lines below it.
    """
    if ends:
        return _LINE.findall(text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


class once(Generic[T, R]):
    """Cache a function's result on the frozen value it is called with, as cached_property does."""

    def __init__(self, function: Callable[[T], R]) -> None:
        self._function = function
        self._key = f"_{function.__module__}.{function.__qualname__}"
        update_wrapper(self, function)

    def __call__(self, value: T) -> R:
        """The function's result for a value, worked out once."""
        answers = vars(value)
        if self._key not in answers:
            answers[self._key] = self._function(value)
        answer: R = answers[self._key]
        return answer

    def answer(self, value: T, answer: R) -> None:
        """Let this be the function's result for a value, where it is known already."""
        vars(value).setdefault(self._key, answer)

    def answered(self, value: T) -> bool:
        """Whether the result for a value is known."""
        return self._key in vars(value)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a probe saw, copied at that instant.

    `time` is in seconds since the recording began. `frame` is the compiler's own compile id, such as "0/1"
    (frame 0, its second compile), "" where there is none. `graph` is the part of the frame under way:
    "forward", "backward", "inference", "joint" or "". `path` holds the calls that led to the hook, outermost first.
    """

    kind: str
    time: float
    frame: str = ""
    graph: str = ""
    data: Mapping[str, Plain] = field(default_factory=lambda: EMPTY)
    path: tuple[Call, ...] = ()


@deferrable("text", "data", "path")
@dataclass(frozen=True)
class Artifact:
    """One text of one stage, and the facts about it.

    `id` is unique in its trace and readable, such as "0/0:post_grad:inference". `language` names the syntax
    of `text`. `seconds` is how long the compiler spent on it, None where that is not known. `data` holds
    the stage's own facts, for FX graphs `nodes`. `path` is the call path inside PyTorch that made it.
    """

    id: str
    stage: str
    frame: str
    graph: str
    title: str
    language: str
    text: str
    kernel: str = ""
    seconds: float | None = None
    time: float = 0.0
    data: Mapping[str, Plain] = field(default_factory=lambda: EMPTY)
    path: tuple[Call, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.data, (MappingProxyType, Frozen)):  # a stage may give any mapping; a trace holds frozen ones
            object.__setattr__(self, "data", plain(self.data))

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines of the text, without their ends."""
        return tuple(text_lines(self.text))

    @property
    def line_count(self) -> int:
        """The number of `lines`; for a large file it is known before the text is read."""
        counted: int | None = vars(self).get(LINE_COUNT)
        return len(self.lines) if counted is None else counted

    @property
    def nodes(self) -> tuple[Mapping[str, Plain], ...]:
        """The nodes of an FX graph or of the scheduler, as mappings; empty for stages without nodes."""
        nodes: tuple[Mapping[str, Plain], ...] = self.data.get("nodes", ())
        return nodes

    @property
    def inner(self) -> tuple[Mapping[str, Plain], ...]:
        """The nodes of the graphs inside an FX graph, such as the branches of a cond, each named `graph.node`."""
        inner: tuple[Mapping[str, Plain], ...] = self.data.get("inner", ())
        return inner

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """The (producer, consumer) pairs among `nodes` and `inner`."""
        return tuple((source, node["name"]) for node in (*self.nodes, *self.inner) for source in node.get("inputs", ()))

    @property
    def graph_text(self) -> str:
        """The graph as `print(gm.graph)` writes it ("graph():", a line a node, "%name"); "" for stages without one."""
        return str(self.data.get("graph_text", ""))

    @property
    def tabular(self) -> str:
        """The graph as a table of opcode, name, target, args and kwargs; "" for stages without nodes."""
        columns = ("op", "name", "target", "args", "kwargs")
        rows = [columns, *(tuple(str(n.get(c, "")) for c in columns) for n in (*self.nodes, *self.inner))]
        if len(rows) == 1:
            return ""
        widths = [max(len(row[i]) for row in rows) for i in range(len(columns) - 1)]
        return "\n".join("  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows)

    def __repr__(self) -> str:
        return f"<Artifact {self.id!r} {self.language} {len(self.lines)} lines>"

    def _repr_html_(self) -> str:
        head = f"<b>{html.escape(self.title)}</b> <small>{html.escape(self.id)}</small>"
        return f"{head}<pre style='max-height:30em;overflow:auto'>{html.escape(self.text)}</pre>"


@dataclass(frozen=True, slots=True)
class Link:
    """Lines of one artifact that state they come from lines of another, and how that is known.

    Lines count from 1. `how` names the text that says so: "bytecode line table", "File comment", ".loc" … It is `coarse` where
    it leads to the line of a call only, such as that of a scan, and not to the line of the called function.
    """

    source: str
    source_lines: tuple[int, ...]
    target: str
    target_lines: tuple[int, ...]
    how: str

    @property
    def coarse(self) -> bool:
        """True for a link to the line of a call, where which line inside it is meant is not stated."""
        return self.how in COARSE


#: What it means that a step of explorer's own work failed. All other steps are names: of an error, a tool.
_STEPS = {
    "record": "not recorded",
    "copy": "not recorded",
    "read": "not recorded",
    "text": "text not recorded",
    "texts": "texts not recorded",
    "source": "source not recorded",
    "error": "error not recorded",
    "call": "call not recorded",
    "decision": "decision not recorded",
    "origins": "origins not recorded",
    "changed": "changes not recorded",
    "functions": "functions not recorded",
    "inlined functions": "inlined functions not recorded",
    "matched": "matches not recorded",
    "gather": "not shown",
    "render": "not shown",
    "replay": "not shown",
    "link": "lines not linked",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that went wrong, as a value: the stage, the step and the message.

    `fatal` is True where the compile itself stopped, False where only the explorer lost a view. `kernel` names the Triton kernel
    that has no forms or cannot be launched.
    """

    stage: str
    step: str
    message: str
    fatal: bool = False
    kernel: str = ""

    @property
    def what(self) -> str:
        """The kernel, else the step in words, such as "not recorded"; of other steps their name."""
        return self.kernel or _STEPS.get(self.step, self.step)

    def __str__(self) -> str:
        return f"{self.stage}, {self.what}: {self.message}"


@dataclass(frozen=True, slots=True)
class KeepApart:
    """A pair of `keep_apart=`: two names of scheduler nodes that should not become one kernel.

    A node is named as the scheduler names it, by a buffer it writes, or by an FX node it computes. `graph` and `frame`
    say which graph is meant; without them every graph that has both.
    """

    first: str
    second: str
    graph: str = ""
    frame: str = ""


@dataclass(frozen=True, slots=True)
class Fuse:
    """A pair of `fuse=`: two names of scheduler nodes that should become one kernel, named as for `KeepApart`.

    If the scheduler refuses the fusion only because it expects no gain, it is done anyway, before any other fusion. If the fusion
    would be wrong, or the backend cannot write it, it stays refused, and a Failure says why.
    """

    first: str
    second: str
    graph: str = ""
    frame: str = ""


#: Two nodes of the scheduler by name, with the graph and the compile id where these matter, or several such pairs.
NodePairs = Sequence[str] | Sequence[Sequence[str]]

#: How a line is linked to the user's lines further out on its stack: the calls that led to the one that made it.
CALLED_FROM = "called from"
#: Links between a whole and its parts: a scheduler node and all the FX nodes in it, a kernel and the nodes it computes,
#: a pass and what it made of a graph. Two parts of a whole are not related by it: a walk goes from a chosen whole down to
#: its parts, and from a part up to the wholes it is in, and never on from there.
ORIGINS, FUSED, DEFINED, LAUNCH, BUFFER, REWRITE = "origins", "fused", "define_kernel", "launch", "buffer name", "pass"
WHOLES = frozenset({ORIGINS, FUSED, DEFINED, LAUNCH, BUFFER, REWRITE})

#: Links to the line of a call, where no text says which line inside the call is meant: a node's stack or origin is that of a
#: call that stands for a whole graph (a scan, flex attention, a gradient), or a pass made a whole graph of one node.
CALL_STACK, CALL_NODE, MADE_WITHIN = "stack_trace of the call", "from_node of the call", "made by, within a graph"
COARSE = frozenset({CALLED_FROM, CALL_STACK, CALL_NODE, MADE_WITHIN})

Value = TypeVar("Value", "Event", "Artifact", "Link", "Failure")


class Table(NamesGuessed, tuple[Mapping[str, Plain], ...]):
    """A tuple of mappings that shows itself as a table; `.to_pandas()` is the pandas DataFrame.

    A table without rows has the `columns` that it would have with some, as far as whoever made it said so, and `why_empty` says
    why there is no row, where that is known.
    """

    _columns: tuple[str, ...] = ()
    why_empty: str = ""

    def __new__(cls, rows: Iterable[Mapping[str, Plain]] = (), columns: Iterable[str] = (), why_empty: str = "") -> Table:
        """Make a table of rows; `columns` are its keys, which are only needed where there is no row, as is `why_empty`."""
        made = super().__new__(cls, rows)
        made._columns = tuple(columns)
        made.why_empty = "" if made else why_empty
        return made

    def _guess(self, name: str) -> str:
        right = {"rows": "a table is the tuple of its rows", "head": "table[:5]", "filter": "table.where(…)"}.get(name, "")
        if name in self.columns:
            right = f"[row[{name!r}] for row in table], table.to_pandas()[{name!r}]"
        elif name in ("df", "frame", "dataframe", "pandas", "to_df"):
            right = "table.to_pandas()"
        elif not right and is_installed("pandas"):
            import pandas

            right = f"table.to_pandas().{name}" if hasattr(pandas.DataFrame, name) else ""
        return guess("Table", name, right)

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys of the rows, each once, in order."""
        return tuple(dict.fromkeys(key for row in self for key in row)) or self._columns

    def to_pandas(self) -> Any:
        """Return the rows as a `pandas.DataFrame`, one column per key; NotInstalledError without pandas."""
        require_installed("pandas", "a table", "view")
        import pandas

        if not self:
            return pandas.DataFrame(columns=list(self._columns))
        return pandas.DataFrame([{_encodable(key): _encodable(value) for key, value in row.items()} for row in self])

    @overload
    def __getitem__(self, key: SupportsIndex) -> Mapping[str, Plain]: ...
    @overload
    def __getitem__(self, key: slice) -> Table: ...
    def __getitem__(self, key: SupportsIndex | slice) -> Mapping[str, Plain] | Table:
        """One row by its number, or a table of some. TypeError for a column, which says how to read one."""
        if isinstance(key, slice):
            return Table(super().__getitem__(key), self.columns, self.why_empty)
        if self.why_empty:
            raise IndexError(f"the table has no rows: {self.why_empty}")
        if isinstance(key, str):
            raise TypeError(f"a table is a tuple of rows: [row[{key!r}] for row in table], or table.to_pandas()[{key!r}]")
        return super().__getitem__(key)

    def where(self, **conditions: object) -> Table:
        """The rows whose named fields equal the given values."""
        return Table((row for row in self if all(row.get(k) == v for k, v in conditions.items())), self.columns)

    def __repr__(self) -> str:
        if self.why_empty:
            return f"<0 rows: {self.why_empty}>"
        if not self:
            return f"<0 rows of {', '.join(self._columns)}>" if self._columns else "<0 rows>"
        return table_text(self, self.columns, get_terminal_size((120, 24)).columns)

    def _repr_html_(self) -> str:
        if self and not is_installed("pandas"):
            return f"<pre>{html.escape(repr(self))}</pre>"
        if not self and (self.why_empty or not self._columns):
            return f"<i>{html.escape(self.why_empty or 'none')}</i>"
        require_installed("pandas", "a table", "view")
        import pandas

        with pandas.option_context("display.max_colwidth", None):  # else it cuts a cell after 50 characters
            return str(self.to_pandas()._repr_html_())


def _encodable(value: Any) -> Any:
    """A cell for pandas: with pyarrow installed it keeps text in UTF-8, and refuses any other."""
    return encodable(value) if isinstance(value, str) else value


def record_to_json(value: Event | Artifact | Link | Failure) -> dict[str, Any]:
    """A record as a JSON object; fields that hold their default are left out."""
    pairs = ((f, getattr(value, f.name)) for f in fields(value))
    return {f.name: jsonable(v) for f, v in pairs if v != f.default and not (f.name == "data" and v == EMPTY)}


def record_from_json(kind: type[Value], value: Mapping[str, Any]) -> Value:
    """The record of type `kind` that `record_to_json` wrote; TypeError for fields it does not have, or of another type."""
    record = kind(**{k: plain(v) for k, v in value.items()})
    for each in fields(record):
        content = getattr(record, each.name)
        if not isinstance(content, _TYPES[str(each.type)]) or (isinstance(content, bool) and each.type != "bool"):
            raise TypeError(f"the field {each.name} of {kind.__name__} is {each.type}, not {type(content).__name__}")
        if isinstance(content, (int, float)) and not isinstance(content, bool) and not abs(content) <= MAX_SECONDS:
            raise ValueError(f"the field {each.name} of {kind.__name__} is no time that a compile can take")
    return record


#: The most seconds that a record may say, 300 years: with more, nanoseconds are no finite number.
MAX_SECONDS = 1e10
#: What may be in a field of a record, by its annotation.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "Mapping[str, Plain]": (Mapping,),
    "tuple[Call, ...]": (tuple,),
}


def calls(path: Iterable[Iterable[Any]]) -> tuple[Call, ...]:
    """A call path from JSON-like lists."""
    return tuple((str(f), int(n), str(name)) for f, n, name in path)
