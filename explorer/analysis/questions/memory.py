"""The memory of a compiled graph: each buffer's birth, last use, size and reuse, and what backward keeps. Pure.

The output code says by name what is allocated, freed and reused. The scheduler's IR states each buffer's layout. Sizes are those
of the layout, without the allocator's rounding. A library call's scratch memory is what the same call took when it was measured.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from explorer.analysis.questions.modules import NOT_COMPUTED
from explorer.analysis.questions.rows import MomentRow, PeakRow, StorageRow, UncountedRow, UnreadRow
from explorer.analysis.questions.tables import symbols
from explorer.model.accessor import Accessor
from explorer.model.integers import evaluated
from explorer.model.records import typed
from explorer.model.shared import CallMemory, TensorLayout
from explorer.model.syntax import parsed, statements
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Table, once
from explorer.model.wording import readable_bytes
from explorer.stages.fx_graph import VIEWS, input_names, node_lines
from explorer.stages.inductor.output_code import calls_by_function, calls_in, kernel_called, library_calls
from explorer.stages.inductor.scheduler_ir import SchedulerGraph
from explorer.stages.inductor.verdicts import Fusion
from explorer.stages.torch_compile.compile_call import CompileCall

#: The number of bits in a dtype's name, and the bytes per element for names without one.
BITS = re.compile(r"(\d+)")
WORDS = {"bool": 1, "half": 2, "short": 2, "float": 4, "int": 4, "double": 8, "long": 8, "cfloat": 8, "cdouble": 16}

Shape = tuple[str, ...]
#: Why a graph's memory is unknown, and what to do.
IN_CPP = (
    "memory is unknown: the wrapper is in C++ (cpp_wrapper or AOTInductor), and explorer does not read its allocations. "
    "Trace without cpp_wrapper: the kernels and buffers are the same."
)
#: A message names at most this many storages of unknown size, and counts the others.
MAX_NAMED = 4
#: Calls that take no scratch memory on a GPU, as seen on an H100: cuBLAS keeps one workspace for all of them.
FREE_ON_GPU = ("extern_kernels.mm", "extern_kernels.addmm", "extern_kernels.bmm", "extern_kernels.baddbmm")
#: The namespace of torch's collectives, which take no memory of torch's allocator except for their results.
COLLECTIVES = "c10d_functional."
#: The kind of memory that a library call takes inside.
SCRATCH = "scratch"
NOT_MEASURED = "this call was not measured, so the scratch memory that it takes inside is unknown"


@dataclass(frozen=True)
class Layout:
    """The dtype, size and stride of a buffer, sizes as the compiler writes them, symbols included."""

    dtype: str
    size: Shape
    stride: Shape


@dataclass
class Storage:
    """One piece of memory of a graph: the names that hold it, and its lifetime in the code.

    `measured` is its size where no layout says it, `serves` names the buffers that a call's scratch memory is for. `is_kept`
    tells that the program holds it, so that it outlives the graph, which only lets go of it.
    """

    names: list[str]
    kind: str
    born: int
    layout: Layout | None
    steps: tuple[int, int | None]
    made_by: str = ""
    last_use: int = 0
    freed: int | None = None
    holders: set[str] = field(default_factory=set)
    measured: int | None = None
    serves: Shape = ()
    is_kept: bool = False

    def lives(self, step: int) -> bool:
        """Tell whether it is live after a statement; `_step` counts statements in the order in which they run."""
        return self.steps[0] <= step and (self.last_step is None or step < self.last_step)

    @property
    def last_step(self) -> int | None:
        """The statement that frees it; None for what outlives the graph."""
        return None if self.is_kept else self.steps[1]


class MemoryFigures(NamedTuple):
    """The largest bytes of a graph that live at once, and those saved for backward; None where a size is not known."""

    peak: int | None
    saved: int | None


class Memory(Accessor):
    """The memory of each compiled graph: each buffer's birth, last use and size."""

    path = "t.memory"

    def __init__(self, trace: TraceData) -> None:
        super().__init__(trace)
        self._graphs = [(a, tuple(_storages(trace, a))) for a in trace.find("output_code")]
        self._rows_by_id: dict[str, list[StorageRow]] = {}

    @property
    def table(self) -> Table:
        """One row per piece of memory of a graph.

        `names` are the buffers that use it one after the other; `kind` is "input", "temporary", "output", "saved for backward",
        "constant", or "scratch" for what a library call takes inside, as the same call took when it was measured; `born`,
        `last_use` and `freed` are lines of the output code, `freed` None for what is returned and for what the program holds;
        `bytes` is None where a size is not known. `made_by` is the kernel or call that first fills it, `nodes` the FX nodes of
        the post-grad graph it holds, `lines` the user's lines these come from, "file:line"; of a frame that is all a library's,
        the line that called it. `inputs` are the `names` that come from the program, as it calls them: "h.0.attn.weight" for a
        parameter, "x" for an argument.
        """
        rows = (dict(row) for artifact, storages in self._graphs for row in self._rows(artifact, storages))
        return Table(rows, StorageRow.__annotations__)

    @property
    def timeline(self) -> Table:
        """One row per line of the output code that changes the live bytes.

        `live` are the bytes after the line, and `allocated` those without inputs. `unsized` counts live storages of unknown
        size.
        """
        rows = (row for artifact, storages in self._graphs for row in _timeline(self._trace, artifact, storages))
        return Table(rows, MomentRow.__annotations__)

    @property
    def peak(self) -> Table:
        """The rows of `table` that are live at each graph's peak, largest first, with their `share`.

        Parameters and arguments count all the time, because the program holds them; backward frees what forward saved for it.
        """
        rows = (row for artifact, storages in self._graphs for row in self._peak(artifact, storages))
        return Table(rows, PeakRow.__annotations__)

    @property
    def saved(self) -> Table:
        """The rows of `table` that forward graphs save for their backward, inputs included."""
        return Table((row for row in self.table if row["saved"]), StorageRow.__annotations__)

    @property
    def uncounted(self) -> Table:
        """One row per library call of unknown scratch memory: `line` of the output code, `call`, and the reason, `why`.

        The graph of such a call takes at least the stated peak. On the CPU calls are measured, except very large ones and
        those that draw random numbers. On a GPU none is measured; matrix products take no scratch memory there.
        """
        rows = (row for artifact, _ in self._graphs for row in _uncounted(artifact))
        return Table(rows, UncountedRow.__annotations__)

    @property
    def unread(self) -> Table:
        """One row per graph of unknown memory, with the reason as `why`; other methods have no row for it."""
        cpp = (artifact for artifact, _ in self._graphs if artifact.language == "cpp")
        rows = (UnreadRow(frame=a.frame, graph=a.graph, artifact=a.id, why=IN_CPP) for a in cpp)
        return Table(rows, UnreadRow.__annotations__)

    def _rows(self, artifact: Artifact, storages: Sequence[Storage]) -> list[StorageRow]:
        """The rows of one graph, which parse its whole output code and are asked for several times."""
        if artifact.id not in self._rows_by_id:
            self._rows_by_id[artifact.id] = _rows(self._trace, artifact, storages)
        return self._rows_by_id[artifact.id]

    def _peak(self, artifact: Artifact, storages: tuple[Storage, ...]) -> list[PeakRow]:
        return _peak(_timeline(self._trace, artifact, storages), storages, self._rows(artifact, storages))

    def summary(self) -> str:
        """Say for each graph how much memory it takes at its peak, and what is not counted."""
        lines = [f"{row['frame']} {row['graph']}: {row['why']}" for row in self.unread]
        for artifact, storages in self._graphs:
            if artifact.language == "cpp":
                continue
            rows, table = self._peak(artifact, storages), self._rows(artifact, storages)
            peak = sum(row["bytes"] or 0 for row in rows)
            uncounted = _uncounted(artifact)
            unsized = [row for row in table if row["bytes"] is None]
            bound = "at least" if unsized or uncounted else "at most"
            head = f"{artifact.frame} {artifact.graph}: {readable_bytes(peak)} {bound}"
            where = f", line {rows[0]['peak_line']} of {artifact.id}" if rows else ""
            kept = sum(row["bytes"] or 0 for row in table if row["saved"])
            kept_text = f"; {readable_bytes(kept)} saved for backward" if kept else ""
            lines.append(head + where + kept_text + _left_out(unsized) + _unmeasured(uncounted))
        figures = memory_figures(self)
        if len(self._graphs) > 1 and not self.unread and figures.peak is not None:
            kept_text = f"; {readable_bytes(figures.saved)} saved for backward" if figures.saved else ""
            lines.append(f"all graphs: {readable_bytes(figures.peak)} at the largest peak{kept_text}")
        return "\n".join(lines) or "no output code, so nothing is known of memory"


def memory_figures(memory: Memory) -> MemoryFigures:
    """The largest peak of a graph and all that is saved for backward, without the nodes and lines that the rows name."""
    live: dict[tuple[str, str], int] = {}
    kept_bytes = 0
    for artifact, storages in memory._graphs:
        sizes = _sizes(memory._trace, artifact, storages)
        if None in sizes:
            return MemoryFigures(None, None)
        place = (artifact.frame, artifact.graph)
        moments = _timeline(memory._trace, artifact, storages)
        live[place] = live.get(place, 0) + max((row["live"] for row in moments), default=0)
        _, kept = _returned_names(memory._trace, artifact)
        saved = (size for storage, size in zip(storages, sizes, strict=True) if not kept.isdisjoint(storage.names))
        kept_bytes += sum(size or 0 for size in saved)
    return MemoryFigures(max(live.values(), default=0), kept_bytes)


def lifetimes(memory: Memory, frame: str, graph: str) -> list[tuple[StorageRow, int, int | None]]:
    """Return each row of one graph's table with the statements at which it begins and ends, None if it outlives the graph.

    Statements are numbered in the order in which they run; with partitions that is not the order of lines.
    """
    return [
        (row, *storage.steps)
        for artifact, storages in memory._graphs
        if (artifact.frame, artifact.graph) == (frame, graph)
        for storage, row in zip(storages, memory._rows(artifact, storages), strict=True)
    ]


def _left_out(rows: Sequence[Mapping[str, Plain]]) -> str:
    """Name the storages of unknown size; "" if there are none."""
    if not rows:
        return ""
    names = [f"{row['names'][0]} ({'×'.join(row['size']) or 'no layout'})" for row in rows]
    return f"; not counted, since only the run knows the size: {_first_of(names)}"


def _unmeasured(rows: Sequence[UncountedRow]) -> str:
    """Name the calls of unknown scratch memory; "" if there are none."""
    if not rows:
        return ""
    names = [f"{row['call']} in line {row['line']}" for row in rows]
    return f"; not counted, since it was not measured: the scratch memory of {_first_of(names)}"


def _first_of(names: Sequence[str]) -> str:
    """Join the first names, and count the others."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


# Rows ------------------------------------------------------------------------------------------------------------------


def _rows(trace: TraceData, artifact: Artifact, storages: Sequence[Storage]) -> list[StorageRow]:
    outputs, kept = _returned_names(trace, artifact)
    origins = _origins(trace, artifact)
    inputs = input_names(trace, artifact.frame, artifact.graph)
    rows: list[StorageRow] = []
    for storage, size in zip(storages, _sizes(trace, artifact, storages), strict=True):
        layout = storage.layout
        saved = not kept.isdisjoint(storage.names)
        nodes, lines = _nodes_and_lines(storage, origins)
        rows.append(
            {
                "frame": artifact.frame,
                "graph": artifact.graph,
                "artifact": artifact.id,
                "names": tuple(storage.names),
                "bytes": size,
                "dtype": layout.dtype.removeprefix("torch.") if layout else "",
                "size": layout.size if layout else (),
                "born": storage.born,
                "last_use": storage.last_use or storage.born,
                "freed": None if storage.is_kept else storage.freed,
                "reuses": len(storage.names) - 1,
                "made_by": storage.made_by,
                "kind": _kind(storage, saved=saved, returned=not outputs.isdisjoint(storage.names)),
                "saved": saved,
                "nodes": nodes,
                "lines": lines,
                "inputs": tuple(inputs[name] for name in storage.names if name in inputs),
            }
        )
    return rows


def _kind(storage: Storage, *, saved: bool, returned: bool) -> str:
    """Classify a storage: input, output, saved for backward, temporary or constant; an output may be saved too."""
    return "saved for backward" if saved and not returned and storage.kind == "output" else storage.kind


def _nodes_and_lines(storage: Storage, origins: Mapping[str, tuple[Shape, Shape]]) -> tuple[Shape, Shape]:
    """List the FX nodes that a storage holds, and the user's lines they come from."""
    held = [origins[name] for name in (*storage.names, *storage.serves) if name in origins]
    nodes, lines = (tuple(dict.fromkeys(one for pair in held for one in pair[n])) for n in (0, 1))
    return nodes, lines


def _timeline(trace: TraceData, artifact: Artifact, storages: tuple[Storage, ...]) -> list[MomentRow]:
    sized = list(zip(storages, _sizes(trace, artifact, storages), strict=True))
    sizes, unsized = [(s, n or 0) for s, n in sized], [s for s, n in sized if n is None]
    born = {s.steps[0]: s.born for s in storages}
    freed = {last: s.freed for s in storages if (last := s.last_step) is not None and s.freed is not None}
    return [
        {
            "frame": artifact.frame,
            "graph": artifact.graph,
            "artifact": artifact.id,
            "step": step,
            "line": line,
            "live": sum(n for s, n in sizes if s.lives(step)),
            "allocated": sum(n for s, n in sizes if s.lives(step) and s.kind != "input"),
            "unsized": sum(s.lives(step) for s in unsized),
        }
        for step, line in sorted({**freed, **born}.items(), key=itemgetter(0))
    ]


def _peak(moments: Sequence[MomentRow], storages: Sequence[Storage], rows: Sequence[StorageRow]) -> list[PeakRow]:
    if not moments:
        return []
    top = max(moments, key=lambda row: row["live"])
    pairs = zip(storages, rows, strict=True)
    live = sorted((row for s, row in pairs if s.lives(top["step"])), key=lambda row: -(row["bytes"] or 0))
    return [{**row, "peak_line": top["line"], "share": (row["bytes"] or 0) / max(1, top["live"])} for row in live]


def _measured_calls(artifact: Artifact) -> dict[int, CallMemory]:
    """What the library calls of a graph allocated when they were measured, by their lines of the output code."""
    return {call.line: call for call in (typed(CallMemory, one) for one in artifact.data.get("calls", ()))}


def _uncounted(artifact: Artifact) -> list[UncountedRow]:
    """The library calls of a graph whose scratch memory nobody measured."""
    if artifact.language == "cpp":
        return []
    measured = _measured_calls(artifact)
    on_gpu = "device='cuda" in artifact.text
    return [
        UncountedRow(
            frame=artifact.frame, graph=artifact.graph, artifact=artifact.id, line=line, call=place.name, why=NOT_MEASURED
        )
        for place in library_calls(artifact)
        for line in place.lines
        if line not in measured and COLLECTIVES not in place.name and not (on_gpu and place.name in FREE_ON_GPU)
    ]


def _returned_names(trace: TraceData, artifact: Artifact) -> tuple[set[str], set[str]]:
    """Return the names that a graph returns to the caller, and those that it returns for its backward.

    The latter are the last results of a forward graph, as many as its backward takes beside the tangents.
    """
    results = _ends(artifact).results
    backward = trace.find("output_code", artifact.frame, "backward") if artifact.graph == "forward" else ()
    taken = [name for name in _ends(backward[0]).arguments if not name.startswith("tangents")] if backward else []
    first = len(results) - len(taken)
    return {name for names in results[:first] for name in names}, {name for names in results[first:] for name in names}


def _origins(trace: TraceData, artifact: Artifact) -> dict[str, tuple[Shape, Shape]]:
    """Map each buffer to the FX nodes whose values it holds, and to their user lines."""
    graphs = trace.find("post_grad", artifact.frame, artifact.graph)
    called_from = _called_from(trace, artifact.frame)
    places = {n["name"]: place for g in graphs for n in g.nodes if (place := _place(n, called_from))}
    inputs = {n["name"] for g in graphs for n in g.nodes if n.get("op") == "placeholder"}
    views = {n["name"] for g in graphs for n in g.nodes if VIEWS.match(str(n.get("target")))}
    if artifact.graph == "backward":  # a saved tensor has in backward the name of its node in forward
        saved = (n for g in trace.find("forward", artifact.frame) for n in g.nodes if n["name"] in inputs)
        places = {**{n["name"]: place for n in saved if (place := _place(n, called_from))}, **places}
    order = {name: n for g in graphs for name, n in node_lines(g).items()}
    origins: dict[str, tuple[Shape, Shape]] = {name: ((name,), (places[name],) if name in places else ()) for name in inputs}
    for ir in trace.find("ir_pre_fusion", artifact.frame, artifact.graph):
        for node in ir.nodes:
            names = tuple(sorted(node["origins"], key=lambda name: order.get(name, 0)))
            computing = [name for name in names if name not in views]  # a view is of the line that made it, and shared
            lines = tuple(dict.fromkeys(places[name] for name in computing or names if name in places))
            origins.update(dict.fromkeys(node["writes"], (names, lines)))
    return origins


def _place(node: Mapping[str, Plain], called_from: str) -> str:
    """The user line of a node, "file:line"; "" where it has none."""
    if node.get("file"):
        return f"{node['file']}:{node['line']}"
    return "" if node.get("op") in NOT_COMPUTED else called_from


def _called_from(trace: TraceData, frame: str) -> str:
    """The line that called a frame without a user line inside, such as a compiled nn.TransformerEncoder; "" for others.

    Dynamo's graph states the library's own lines, which AOTAutograd leaves out.
    """
    graphs = (*trace.find("forward", frame), *trace.find("post_grad", frame))
    if any(node.get("file") for graph in graphs for node in graph.nodes):
        return ""
    calls = (typed(CompileCall, a.data) for a in trace.find("compile_call", frame))
    return next((f"{call.called_file}:{call.called_line}" for call in calls if call.called_line), "")


# Sizes -----------------------------------------------------------------------------------------------------------------


def _sizes(trace: TraceData, artifact: Artifact, storages: Iterable[Storage]) -> list[int | None]:
    """The bytes of each storage of a graph; None where its layout or the value of a symbol is not known."""
    values = symbol_values(trace, artifact.frame)
    return [size_in_bytes(storage.layout, values) if storage.layout else storage.measured for storage in storages]


def size_in_bytes(layout: Layout, values: Mapping[str, int]) -> int | None:
    """Count the bytes from a layout's first element to its last; None if a symbol's value is unknown."""
    size = [evaluated(text, values) for text in layout.size]
    stride = [evaluated(text, values) for text in layout.stride]
    if None in size or None in stride:
        return None
    if 0 in size:
        return 0
    span = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=False) if n is not None and s is not None)
    return span * element_size(layout.dtype)


def element_size(dtype: str) -> int:
    """Return the bytes per element of a dtype such as "torch.float32"."""
    name = dtype.rpartition(".")[2]
    if name in WORDS:
        return WORDS[name]
    bits = BITS.search(name)
    return max(1, int(bits[1]) // 8) if bits else 1


def symbol_values(trace: TraceData, frame: str) -> Mapping[str, int]:
    """Map each symbol of a frame to its value at the traced call."""
    return _symbol_values(trace).get(frame, {})


@once
def _symbol_values(trace: TraceData) -> Mapping[str, Mapping[str, int]]:
    """Return `symbol_values` of every frame: each graph of a trace asks for its own frame's."""
    values: dict[str, dict[str, int]] = {}
    for row in symbols(trace):
        if str(row["val"]).lstrip("-").isdigit():
            values.setdefault(row["frame"], {})[str(row["symbol"])] = int(row["val"])
    return values


# Reading the output code -----------------------------------------------------------------------------------------------


class _Ends(NamedTuple):
    """The names that the function "call" of the output code takes, and those in each of its results."""

    arguments: tuple[str, ...] = ()
    results: tuple[tuple[str, ...], ...] = ()


class _Code(NamedTuple):
    """The output code as read: its functions ("call" runs the graph, "partition_0" a part of it) and the inputs' layouts."""

    functions: Mapping[str, ast.FunctionDef]
    declared: Mapping[str, Layout]
    shared: Mapping[str, str]

    @staticmethod
    def of(artifact: Artifact) -> _Code:
        """Parse the output code; nothing of C++. Its trees are not kept: the trees of a thousand graphs take gigabytes."""
        try:
            tree = parsed(artifact.text)
        except SyntaxError:
            return _Code({}, {}, {})
        every = list(statements(tree))
        calls_by_function.answer(artifact, calls_in(every))
        functions = {node.name: node for node in every if isinstance(node, ast.FunctionDef)}
        return _Code(functions, _declared(every), _shared(every))


@once
def _ends(artifact: Artifact) -> _Ends:
    """The arguments and results of the output code."""
    return _ends_of(_Code.of(artifact))


def _ends_of(code: _Code) -> _Ends:
    call = code.functions.get("call")
    if call is None:
        return _Ends()
    return _Ends(_arguments(call)[1], tuple(tuple(_names(result)) for result in _results(call)))


def _storages(trace: TraceData, artifact: Artifact) -> list[Storage]:
    code = _Code.of(artifact)
    _ends.answer(artifact, _ends_of(code))
    call = code.functions.get("call")
    if call is None:
        return []
    results = _results_of_calls(trace, artifact)
    calls = _measured_calls(artifact)
    values = symbol_values(trace, artifact.frame)
    reader = _Reader({**code.declared, **_layouts(trace, artifact)}, code.functions, results, calls, values)
    line, names = _arguments(call)
    for name in names:
        reader.given(name, line, code.shared.get(name, name))
    reader.read(call.body)
    for storage in reader.storages:
        # of a backward's inputs the program holds those of its forward, which AOTAutograd calls primals
        storage.is_kept = storage.kind == "input" and (artifact.graph != "backward" or storage.names[0].startswith("primals"))
    return reader.storages


def _arguments(call: ast.FunctionDef) -> tuple[int, tuple[str, ...]]:
    """Find the line that takes the inputs out of `args`, and their names."""
    for statement in call.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name) and statement.value.id == "args":
            return statement.lineno, tuple(_names(statement.targets[0]))
    return call.lineno, ()


def _results(call: ast.FunctionDef) -> list[ast.expr]:
    last = call.body[-1]
    return list(last.value.elts) if isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple) else []


def _names(node: ast.AST) -> Iterator[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def _declared(nodes: Iterable[ast.AST]) -> dict[str, Layout]:
    """Read the layouts of inputs: `name = rand_strided(size, stride, device=…, dtype=…)` in the benchmark part of the code."""
    layouts: dict[str, Layout] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and _called(node.value) == "rand_strided" and isinstance(node.targets[0], ast.Name):
            layouts[node.targets[0].id] = _layout(node.value)
    return layouts


def _shared(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Map each input that is a view of a storage of several to that storage: `name = torch.as_strided(storage, size, stride)`."""
    return {
        node.targets[0].id: next(_names(node.value.args[0]))
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name)
        if _called(node.value) == "as_strided" and isinstance(node.value.args[0], ast.Name)
    }


def _layouts(trace: TraceData, artifact: Artifact) -> dict[str, Layout]:
    """The layouts of the buffers that the scheduler's nodes make."""
    graphs = (typed(SchedulerGraph, a.data) for a in trace.find("ir_post_fusion", artifact.frame, artifact.graph))
    stated = (pair for graph in graphs for node in graph.nodes for pair in (node.layouts or {}).items())
    return {name: Layout(layout.dtype, layout.size, layout.stride) for name, layout in stated}


def _results_of_calls(trace: TraceData, artifact: Artifact) -> dict[str, tuple[Layout | None, ...]]:
    """Map the result of each library call, by name, to the layouts of its tensors; None for a view or no tensor."""
    graphs = (typed(Fusion, a.data) for a in trace.find("fusion", artifact.frame, artifact.graph))
    calls = (call for graph in graphs for row in graph.final for call in row.calls or ())
    return {call.buffer or "": tuple(map(_result, call.results)) for call in calls if call.results}


def _result(tensor: TensorLayout) -> Layout | None:
    if tensor.dtype is None or tensor.alias:
        return None
    return Layout(tensor.dtype, tensor.size or (), tensor.stride or ())


def _takers(functions: Iterable[ast.FunctionDef]) -> dict[str, dict[str, str]]:
    """Map each name to the names that its parts get: {"buf3": {"buf3[0]": "buf4"}}; of `buf1 = buf0` the part is the whole."""
    takers: dict[str, dict[str, str]] = {}
    for statement in (n for function in functions for n in statements(function) if isinstance(n, ast.Assign)):
        value, target = statement.value, statement.targets[0]
        if isinstance(value, (ast.Subscript, ast.Name)) and isinstance(target, ast.Name):
            takers.setdefault(next(_names(value), ""), {}).setdefault(ast.unparse(value), target.id)
    return takers


def _written(statement: ast.Assign | ast.Expr) -> Iterator[str]:
    """The names that a statement binds, and those that its call writes to as `out`."""
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        yield from _names(target)
    for keyword in statement.value.keywords if isinstance(statement.value, ast.Call) else ():
        if keyword.arg == "out":
            yield from _names(keyword.value)


def _called(node: ast.AST) -> str:
    """The last part of the name of the function that an expression calls, "" where it calls none."""
    return ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def _layout(call: ast.expr) -> Layout:
    """The layout in a call of empty_strided and its like: size, stride, and the dtype last or by keyword."""
    assert isinstance(call, ast.Call)
    size, stride = (tuple(map(ast.unparse, a.elts)) if isinstance(a, ast.Tuple) else () for a in call.args[:2])
    named = [ast.unparse(k.value) for k in call.keywords if k.arg == "dtype"]
    return Layout((named or [ast.unparse(call.args[-1])])[0], size, stride)


class _Reader:
    """Walks the statements of the output code, and tracks which storage each name holds."""

    def __init__(
        self,
        layouts: Mapping[str, Layout],
        functions: Mapping[str, ast.FunctionDef],
        results: Mapping[str, Sequence[Layout | None]],
        calls: Mapping[int, CallMemory],
        values: Mapping[str, int],
    ) -> None:
        self.storages: list[Storage] = []
        self._held: dict[str, Storage] = {}
        self._layouts = layouts
        self._functions = functions
        self._results = results
        self._calls = calls
        self._values = values
        self._scratch: Storage | None = None
        self._takers = _takers(functions.values())
        self._parts: dict[str, dict[str, Storage]] = {}
        self._lists: dict[str, list[Storage | None]] = {}
        self._makers: dict[str, str] = {}
        self._step = 0

    def given(self, name: str, line: int, storage: str) -> None:
        """Begin an input's storage, or hold it once more where an earlier input is a view of the same."""
        if storage in self._held:
            self._renamed(name, self._held[storage], line)
            return
        self.born(name, "input", line, self._layouts.get(storage))
        if storage != name:
            self._held[storage] = self._held[name]

    def born(self, name: str, kind: str, line: int, layout: Layout | None = None, made_by: str = "") -> None:
        """Begin a storage with this name."""
        if name not in self._layouts and layout is None and kind == "input":
            return  # a number, such as a dynamic size
        storage = Storage([name], kind, line, layout or self._layouts.get(name), (self._step, None), made_by, holders={name})
        self.storages.append(storage)
        self._held[name] = storage

    def read(self, statements: Iterable[ast.stmt]) -> None:
        """Read statements in order, also inside `with`, `if` and `for`."""
        for statement in statements:
            self._step += 1
            self._end_scratch(statement.lineno)
            if isinstance(statement, (ast.With, ast.If, ast.For)):
                self.read(statement.body)
            elif isinstance(statement, ast.Delete):
                self._deleted(statement)
            elif isinstance(statement, ast.Return):
                self._returned(statement)
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
                self._unpacked(statement)
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                self._assigned(statement.targets[0].id, statement)
            elif isinstance(statement, ast.Expr):
                self._ran(statement)
            if isinstance(statement, (ast.Assign, ast.Expr)) and statement.lineno in self._calls:
                self._took(statement, self._calls[statement.lineno])

    def _took(self, statement: ast.Assign | ast.Expr, measured: CallMemory) -> None:
        """Begin what a library call allocates: results that no layout states, and its scratch memory until the next line."""
        line, who = statement.lineno, self._maker(statement.value)
        born = (storage.layout for storage in self.storages if storage.steps[0] == self._step)
        results = sum(size_in_bytes(layout, self._values) or 0 for layout in born if layout)
        if measured.kept > results and isinstance(statement, ast.Assign):
            self._unstated(ast.unparse(statement.targets[0]), line, measured.kept - results, who)
            results = measured.kept
        if measured.peak > results:
            names, size, serves = [f"scratch of line {line}"], measured.peak - results, tuple(_written(statement))
            self._scratch = Storage(names, SCRATCH, line, None, (self._step, None), who, measured=size, serves=serves)
            self.storages.append(self._scratch)

    def _unstated(self, name: str, line: int, size: int, who: str) -> None:
        """Begin the results of a call whose layouts are unknown, as one piece that lives until the last of their names goes."""
        rest = Storage([name], "temporary", line, None, (self._step, None), who, holders={name}, measured=size)
        self.storages.append(rest)
        parts = self._parts.setdefault(name, {})
        parts.update({taken: rest for taken in self._takers.get(name, {}) if taken not in parts})
        parts.setdefault(name, rest)

    def _end_scratch(self, line: int) -> None:
        """End the scratch memory of the call before."""
        if self._scratch is not None:
            self._ends(self._scratch, line)
            self._scratch = None

    def _assigned(self, name: str, statement: ast.Assign) -> None:
        value, line = statement.value, statement.lineno
        called = _called(value)
        if called.startswith("empty_strided"):
            self.born(name, "temporary", line, _layout(value))
        elif isinstance(value, ast.Name) and value.id in self._held:
            self._renamed(name, self._held[value.id], line)
        elif isinstance(value, ast.List):
            self._listed(name, value)
        elif called in ("reinterpret_tensor", "alloc_from_pool", "copy_if_misaligned") and self._first(value) in self._held:
            self._renamed(name, self._held[self._first(value)], line)
        elif (part := self._part(value)) is not None:
            self._renamed(name, part, line)
        elif name in self._layouts:
            self._used(value, line)
            self.born(name, "temporary", line, made_by=self._maker(value))
        else:
            used = self._used(value, line)
            self._makers[name] = self._maker(value)
            if isinstance(value, ast.Call):
                self._returns(name, value, used)

    def _part(self, value: ast.expr) -> Storage | None:
        """Find the storage that an expression takes out of a call's result; None if it takes none."""
        if not isinstance(value, (ast.Subscript, ast.Name)):
            return None
        return self._parts.get(next(_names(value), ""), {}).get(ast.unparse(value))

    def _returns(self, name: str, call: ast.Call, used: Sequence[Storage]) -> None:
        """Begin the storages that a library call returns, before its arguments are freed, also those without a name."""
        takers, stated = self._takers.get(name, {}), self._results.get(name, ())
        whole = list(takers) == [name] or len(stated) == 1
        expressions = {name if whole else f"{name}[{n}]": layout for n, layout in enumerate(stated)}
        parts: dict[str, Storage] = {}
        for expression in dict.fromkeys((*takers, *expressions)):
            taker = takers.get(expression, "")
            layout = self._layouts.get(taker) or expressions.get(expression)
            if expression in expressions and expressions[expression] is None:
                if used and taker:  # a view of an argument
                    used[0].holders.add(name)
                    parts[expression] = used[0]
            elif layout is not None:
                self.born(taker or expression, "temporary", call.lineno, layout, self._maker(call))
                storage = self._held.pop(taker or expression)
                storage.holders = {name}
                parts[expression] = storage
        self._parts[name] = parts

    def _unpacked(self, statement: ast.Assign) -> None:
        """Skip the inputs, which are known; read a partition's body in place of its call."""
        number = re.fullmatch(r"self\.partitions\[(\d+)\]\((\w+)\)", ast.unparse(statement.value))
        part = self._functions.get(f"partition_{number[1]}") if number else None
        if number is None or part is None:
            return
        given = self._lists.pop(number[2], [])
        for name, storage in zip(_arguments(part)[1], given, strict=False):
            if storage is not None:
                storage.holders.add(name)
                storage.holders.discard(number[2])
                self._held[name] = storage
        self.read(s for s in part.body if not isinstance(s, ast.Return))

    def _listed(self, name: str, value: ast.List) -> None:
        """Keep a partition's arguments alive: the list holds them until the partition takes them out."""
        self._lists[name] = [self._held.get(ast.unparse(element)) for element in value.elts]
        for storage in self._lists[name]:
            if storage is not None:
                storage.holders.add(name)

    def _first(self, value: ast.expr) -> str:
        """Return the first name in a call's first argument."""
        return next(_names(value.args[0]), "") if isinstance(value, ast.Call) and value.args else ""

    def _maker(self, value: ast.expr) -> str:
        """Name the call that makes an expression's value; for buf1[0] the call that made buf1."""
        if isinstance(value, ast.Call):
            return ast.unparse(value.func)
        return next((self._makers[name] for name in _names(value) if name in self._makers), "")

    def _renamed(self, name: str, storage: Storage, line: int) -> None:
        if name not in storage.names:
            storage.names.append(name)
        storage.holders.add(name)
        storage.last_use = line
        self._held[name] = storage

    def _ran(self, statement: ast.Expr) -> None:
        """Read a kernel or library call: it uses its arguments, and is the maker of those without one."""
        value = statement.value
        if not isinstance(value, ast.Call) or _called(value).startswith("assert_"):
            return
        who = kernel_called(ast.unparse(value.func))
        for storage in self._used(value, statement.lineno):
            if storage.kind != "input" and not storage.made_by:
                storage.made_by = who

    def _used(self, value: ast.AST, line: int) -> list[Storage]:
        used = [self._held[name] for name in _names(value) if name in self._held]
        for storage in used:
            storage.last_use = line
        return used

    def _deleted(self, statement: ast.Delete) -> None:
        for name in (n for target in statement.targets for n in _names(target)):
            held = self._held.pop(name, None)
            for storage in (*([held] if held else ()), *self._parts.pop(name, {}).values()):
                storage.holders.discard(name)
                if not storage.holders and storage.freed is None:
                    self._ends(storage, statement.lineno)

    def _ends(self, storage: Storage, line: int) -> None:
        storage.freed, storage.steps = line, (storage.steps[0], self._step)

    def _returned(self, statement: ast.Return) -> None:
        """Keep returned storages alive, and end all others."""
        returned = [] if statement.value is None else self._used(statement.value, statement.lineno)
        for storage in self.storages:
            if any(storage is one for one in returned):
                storage.kind = storage.kind if storage.kind == "input" else "output"
            elif storage.freed is None:
                self._ends(storage, statement.lineno)


@once
def memory_of(trace: TraceData) -> Memory:
    """Return the memory of a trace, read once."""
    return Memory(trace)
