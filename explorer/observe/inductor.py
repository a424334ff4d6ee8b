"""Watch Inductor: its FX passes and pattern matches, its IR before and after fusion, and the code it writes."""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from explorer.model.stage import Emit, Facts
from explorer.model.values import Plain, text_lines
from explorer.observe.dynamo import current_compile_id, emit_sources
from explorer.observe.failed import Noting, failed_graph
from explorer.observe.fx import graph_facts, target_name
from explorer.observe.kernel_lines import body_nodes
from explorer.observe.nested import REGION, Nesting, lowered_path
from explorer.observe.patch import guard_here, guarded, guarding, replaced
from explorer.observe.places import in_package
from explorer.observe.structured import listening, not_made


@contextmanager
def graph_names(emit: Emit) -> Iterator[None]:
    """Name the graph that Inductor compiles, for every event while it does."""
    from torch._inductor.compile_fx import _InProcessFxCompile

    def make(original: Any) -> Any:
        def codegen_and_compile(self: Any, gm: Any, inputs: Any, check: Any, kwargs: Any) -> Any:
            backward, inference = kwargs.get("is_backward"), kwargs.get("is_inference")
            with emit.during("backward" if backward else "inference" if inference else "forward"):
                return original(self, gm, inputs, check, kwargs)

        return codegen_and_compile

    with replaced(_InProcessFxCompile, "codegen_and_compile", make):
        yield


@contextmanager
def debug_calls(emit: Emit, listeners: Mapping[str, Callable[..., Facts]], kinds: Mapping[str, str]) -> Iterator[None]:
    """Answer `V.debug.NAME(...)`, the calls behind TORCH_COMPILE_DEBUG=1, and record what each listener returns."""
    from torch._inductor.debug import DebugContext

    def make(original: Any) -> Any:
        def __getattr__(self: Any, name: str) -> Any:
            theirs = original(self, name)
            listener = listeners.get(name)
            if listener is None:
                return theirs

            def make_call(theirs: Any) -> Any:
                def call(*args: Any, **kwargs: Any) -> Any:
                    emit(kinds[name], lambda: listener(*args))
                    return theirs(*args, **kwargs)

                return call

            with guarding(guard):
                return guarded(theirs, make_call, f"V.debug.{name}")

        return __getattr__

    guard = guard_here()

    with replaced(DebugContext, "__getattr__", make):
        yield


@contextmanager
def lowered_graph(emit: Emit) -> Iterator[None]:
    """Record the graph that Inductor is handed; in training it is AOTAutograd's forward or backward itself."""

    def make(original: Any) -> Any:
        def codegen_and_compile(self: Any, gm: Any, inputs: Any, check: Any, kwargs: Any) -> Any:
            kind = "backward" if kwargs.get("is_backward") else "forward"
            emit("inductor_input" if kwargs.get("is_inference") else kind, lambda: graph_facts(gm))
            return original(self, gm, inputs, check, kwargs)

        return codegen_and_compile

    from torch._inductor.compile_fx import _InProcessFxCompile

    with replaced(_InProcessFxCompile, "codegen_and_compile", make), graph_names(emit), compiles_without_dynamo(emit):
        yield


#: Graphs that Inductor would print for its log, and that the hooks below copy with their nodes.
COPIED_ANYWAY = (
    "before_pre_grad_graph",
    "after_pre_grad_graph",
    "before_joint_graph",
    "after_joint_graph",
    "before_post_grad_graph",
)


@contextmanager
def compiles_without_dynamo(emit: Emit) -> Iterator[None]:
    """Give each graph that Inductor is handed without Dynamo, as by AOTInductor, a frame of its own and its functions' source."""
    from torch._inductor import compile_fx as module

    begun: list[str] = []
    inside: list[str] = []

    def make(original: Any) -> Any:
        def compile_fx(graph: Any, *args: Any, **kwargs: Any) -> Any:
            if inside or current_compile_id():
                return original(graph, *args, **kwargs)
            frame = f"without Dynamo {len(begun)}/0"
            begun.append(frame)
            inside.append(frame)
            try:
                with emit.within(frame), Noting(lambda error: emit.compile_failed(error, failed_graph(error, "graph"))):
                    emit.attempt("source", "functions", lambda: emit_sources(emit, frame, graph))
                    return original(graph, *args, **kwargs)
            finally:
                inside.pop()

        return compile_fx

    with replaced(module, "compile_fx", make):
        yield


@contextmanager
def runnable(emit: Emit) -> Iterator[None]:
    """Record the graph as a file that runs on its own, which Inductor writes for its reproducers."""

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        emit("fx_graph_runnable", lambda: {"text": payload})

    from torch._inductor import compile_fx

    with listening(emit, {"fx_graph_runnable": heard}), not_made(compile_fx, COPIED_ANYWAY):
        yield


@contextmanager
def joint_graph(emit: Emit) -> Iterator[None]:
    """Record the joint graph, or in inference the forward graph, before Inductor's passes on it."""
    from torch._inductor import compile_fx

    nesting = Nesting()

    def make(original: Any) -> Any:
        def _recursive_joint_graph_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
            if nesting.path:
                return original(gm, *args, **kwargs)  # part of the text of the graph around it
            if _is_joint(gm):
                with emit.during("joint"):
                    emit("joint", lambda: graph_facts(gm))
                    return original(gm, *args, **kwargs)
            with emit.during("inference"):
                emit("forward", lambda: graph_facts(gm))
                return original(gm, *args, **kwargs)

        return _recursive_joint_graph_passes

    with replaced(compile_fx, "_recursive_joint_graph_passes", make), nesting.watching():
        yield


def _is_joint(gm: Any) -> bool:
    """True for AOTAutograd's joint graph: its inputs are the primals and the tangents."""
    return any(str(n.target).startswith("tangents") for n in gm.graph.nodes if n.op == "placeholder")


@contextmanager
def pre_grad(emit: Emit) -> Iterator[None]:
    """Record the graph after Inductor's passes on what Dynamo made, and first each graph inside it."""
    from torch._inductor import compile_fx

    nesting = Nesting()

    def make(original: Any) -> Any:
        def _recursive_pre_grad_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(gm, *args, **kwargs)
            emit("pre_grad", lambda: {**graph_facts(result), "of": nesting.path})
            return result

        return _recursive_pre_grad_passes

    with replaced(compile_fx, "_recursive_pre_grad_passes", make), nesting.watching():
        yield


@contextmanager
def post_grad(emit: Emit) -> Iterator[None]:
    """Record the graph after all pattern matching, as it is lowered to Inductor's IR."""
    listeners = {"fx_graph_transformed": lambda gm, *rest: graph_facts(gm)}
    with debug_calls(emit, listeners, {"fx_graph_transformed": "post_grad"}):
        yield


@contextmanager
def scheduler_ir(emit: Emit) -> Iterator[None]:
    """Record the scheduler's nodes before and after fusion."""
    with written_once() as forget:

        def after(nodes: Any) -> Facts:
            facts = ir_facts(nodes)
            forget()
            return facts

        listeners = {"ir_pre_fusion": ir_facts, "ir_post_fusion": after}
        with debug_calls(emit, listeners, {name: name for name in listeners}):
            yield


@contextmanager
def written_once() -> Iterator[Callable[[], None]]:
    """Inductor's texts of loop bodies and dependencies, which most nodes have in common before and after fusion, made once.

    A block's text is made as Inductor makes it, but that nothing is compiled for it. What is given forgets the texts.
    """
    from torch._inductor.dependencies import MemoryDep
    from torch._inductor.loop_body import LoopBodyBlock

    codes: dict[Any, str] = {}
    deps: dict[Any, str] = {}

    def of_block(_: Any) -> Any:
        def debug_str(self: Any, name: str = "block") -> str:
            if self.graph not in codes:  # a block and its clones share the graph, which is not changed once it is made
                codes[self.graph] = self.graph.python_code("self").src.strip()
            return re.sub(r";[^\n]*", "", codes[self.graph].replace("def forward(", f"def {name}("))

        return debug_str

    def of_dep(original: Any) -> Any:
        def __repr__(self: Any) -> str:
            if self not in deps:
                deps[self] = original(self)
            return deps[self]

        return __repr__

    def forget() -> None:
        codes.clear()
        deps.clear()

    with replaced(LoopBodyBlock, "debug_str", of_block), replaced(MemoryDep, "__repr__", of_dep):
        yield forget


def ir_facts(nodes: Any) -> Facts:
    """The text of scheduler nodes as TORCH_COMPILE_DEBUG=1 writes it, and one row of facts a node."""
    texts = [node.debug_str() for node in nodes]
    rows = [scheduler_row(node, text) for node, text in zip(nodes, texts, strict=True)]
    return {"text": "".join(f"{text}\n\n\n" for text in texts), "nodes": rows, **_graph_names()}


def _graph_names() -> dict[str, str]:
    """Inductor's name for the graph that is lowered, and its path; both "" for one that is not nested in another."""
    from torch._inductor.virtualized import V

    return {"of": str(getattr(V.graph, "name", None) or ""), "path": lowered_path(V.graph)}


def scheduler_row(node: Any, text: str) -> dict[str, Plain]:
    """One scheduler node: kind, device, sizes, what it reads and writes, the FX nodes it comes from."""
    parts = node.get_nodes()
    reads, writes = node.read_writes.reads, node.read_writes.writes
    return {
        "name": node.get_name(),
        "kind": type(node).__name__,
        "device": str(node.get_device()),
        "fused": [part.get_name() for part in parts] if len(parts) > 1 else [],
        "inputs": sorted({_producer(node, dep.name) for dep in reads} - {node.get_name()}),
        "reads": sorted(dep.name for dep in reads),
        "writes": sorted(dep.name for dep in writes),
        "sizes": _sizes(node),
        "origins": sorted({origin.name for part in parts for origin in _origins(part)}),
        "node": _last_origin(parts[0]) if len(parts) == 1 else "",
        "bodies": {part.get_name(): blocks for part in parts if (blocks := body_nodes(part))},
        "line_count": len(text_lines(text)),
    }


def _sizes(node: Any) -> list[list[str]]:
    """The iteration ranges of a node: parallel sizes, then reduced sizes; empty for extern kernels."""
    group = getattr(node, "group", None)
    sizes = group[1] if group else ()
    return [[str(size)] for size in sizes] if isinstance(sizes, tuple) else []


def _origins(part: Any) -> list[Any]:
    inner = getattr(part, "node", None)
    return list(inner.get_origins()) if inner is not None else []


def _last_origin(part: Any) -> str:
    """The FX node whose result a node writes, "" where Inductor does not know."""
    inner = getattr(part, "node", None)
    origin = inner.get_origin_node() if inner is not None else None
    return str(origin.name) if origin is not None else ""


def _producer(node: Any, buffer: str) -> str:
    """The scheduler node that writes a buffer; the buffer's own name for graph inputs."""
    known = node.scheduler.name_to_buf.get(buffer)
    if known is None:
        return buffer
    operation = known.defining_op_name()
    fused = node.scheduler.name_to_fused_node.get(operation)
    return str(fused.get_name() if fused is not None else operation)


@contextmanager
def output_code(emit: Emit) -> Iterator[None]:
    """Record the wrapper and the kernels it defines, as the file that is run."""

    def facts(path: str, *rest: Any) -> Facts:
        file = Path(path)  # AOTInductor's C++ is in a temporary file, whose name says nothing
        return {"text": file.read_text(encoding="utf-8"), "file": file.name if file.suffix == ".py" else ""}

    with debug_calls(emit, {"output_code": facts}, {"output_code": "output_code"}):
        yield


# Passes and patterns -------------------------------------------------------------------------------------------------


class PassWatch:
    """Sees each FX pass and says which changed the graph: nodes made and erased, text before and after.

    A graph is compared by identity of each node's target and arguments, 0.3 µs a node; only a pass that
    changed something is written down, and its text before is the text after the one before it. Of the others names and
    seconds are kept: `idle`, those that ran since the last change.
    """

    def __init__(self, emit: Emit, nesting: Nesting) -> None:
        self._emit = emit
        self._nesting = nesting
        self._section = ""
        self._depth = 0
        self._graph: Any = None
        self._state: list[tuple[Any, ...]] = []
        self._lines: list[str] = []
        self._replaced: dict[Any, list[Any]] = {}
        self._idle: list[tuple[str, float]] = []
        self._parts: set[Any] = set()

    def replaces(self, old: Any, new: Any) -> None:
        """Every use of a node becomes a use of another: what `replace_all_uses_with` says of where the other comes from."""
        if self._section:
            self._replaced.setdefault(new, []).append(old)

    def decomposes(self, old: Any, before: Any) -> None:
        """A node is about to be taken out, and what stands between `before` and it was made in its place."""
        new = old.prev
        while new is not before:
            self.replaces(old, new)
            self._parts.add(new)
            new = new.prev

    def _origins(self, node: Any, before: set[Any]) -> set[str]:
        """The names of the nodes of the graph before that a node took the place of, through those made in between."""
        names: set[str] = set()
        seen, queue = {node}, [node]
        while queue:
            for old in self._replaced.get(queue.pop(), ()):
                if old in before:
                    names.add(old.name)
                elif old not in seen:
                    seen.add(old)
                    queue.append(old)
        return names

    @contextmanager
    def section(self, name: str, gm: Any) -> Iterator[None]:
        """Watch one of Inductor's rounds of passes ("pre_grad", "joint", "post_grad") over `gm`."""
        outer = self._section, self._graph, self._state, self._lines, self._idle
        self._section, self._idle = name, []
        self._emit.attempt("fx_pass", name, lambda: self._remember(gm.graph))
        try:
            yield
            self._emit.attempt("fx_pass", name, lambda: self._compare(gm.graph, "(outside a named pass)", 0.0))
            if last := self._idle:
                self._emit("fx_pass_idle", lambda: {"section": name, "of": self._nesting.path, "idle": last})
        finally:
            self._section, self._graph, self._state, self._lines, self._idle = outer

    def entered(self, gm: Any) -> float:
        """A pass begins: what changed since the last one is written down under a name that says so."""
        self._depth += 1
        if self._depth == 1 and self._section:
            self._emit.attempt("fx_pass", "begin", lambda: self._compare(gm.graph, "(outside a named pass)", 0.0))
        return time.perf_counter()

    def left(self, gm: Any, name: str, started: float) -> None:
        """A pass ended."""
        self._depth -= 1
        seconds = time.perf_counter() - started
        if self._depth == 0 and self._section:
            self._emit.attempt("fx_pass", name, lambda: self._ended(gm.graph, name, seconds))

    def _ended(self, graph: Any, name: str, seconds: float) -> None:
        if not self._compare(graph, name, seconds):
            self._idle.append((name, seconds))

    def _remember(self, graph: Any) -> None:
        self._graph = graph
        self._replaced, self._parts = {}, set()
        self._state = _state(graph)
        self._lines = [line_of(node) for node in graph.nodes]

    def _compare(self, graph: Any, name: str, seconds: float) -> bool:
        """Write down what changed; False where nothing did."""
        if graph is not self._graph and _owner(graph) is not _owner(self._graph):
            return False  # a subgraph, or a pattern's own little graph: its round of passes is watched by itself
        state = _state(graph)
        if _same(state, self._state):
            return False
        before, old, names = self._lines, {row[0] for row in self._state}, {row[0].name for row in self._state}
        made = [row[0] for row in state if row[0] not in old]
        replaced = {node.name: sorted(origins) for node in made if (origins := self._origins(node, old))}
        parts = sorted(node.name for node in made if node in self._parts)
        self._remember(graph)
        after = {row[0].name for row in self._state}
        if before == self._lines:
            return False
        alone = self._nesting.path.startswith(REGION)  # its first graph is shown nowhere else
        facts = {
            "name": name,
            "section": self._section,
            "of": self._nesting.path,
            "seconds": seconds,
            "made": sorted(after - names),
            "erased": sorted(names - after),
            "before": "\n".join(before),
            "text": "\n".join(self._lines),
            "stacks": stacks_of(row[0] for row in self._state if alone or row[0].name not in names),
            "replaced": replaced,
            "idle": self._idle,
            **({"parts": parts} if parts else {}),
        }
        self._idle = []
        self._emit("fx_pass", lambda: facts)
        return True


def stacks_of(nodes: Iterable[Any]) -> dict[str, str]:
    """The user's stack of each node that has one, by name."""
    return {node.name: stack for node in nodes if (stack := node.meta.get("stack_trace"))}


def _owner(graph: Any) -> Any:
    """What a graph belongs to; itself where it belongs to no module."""
    return getattr(graph, "owning_module", None) or graph


def _state(graph: Any) -> list[tuple[Any, ...]]:
    return [(node, node.target, node.args, node.kwargs) for node in graph.nodes]


def _same(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    return len(one) == len(other) and all(
        a[0] is b[0] and a[1] is b[1] and a[2] is b[2] and a[3] is b[3] for a, b in zip(one, other, strict=True)
    )


def line_of(node: Any) -> str:
    """One node as a line: name = target(arguments)."""
    arguments = [str(a) for a in node.args] + [f"{k} = {v}" for k, v in node.kwargs.items()]
    kind = "" if node.op == "call_function" else f"{node.op} "
    return f"{node.name} = {kind}{target_name(node.target)}({', '.join(arguments)})"


#: Inductor's rounds of passes: the function in compile_fx, and its section.
ROUNDS = {
    "_recursive_pre_grad_passes": "pre_grad",
    "_recursive_joint_graph_passes": "joint",
    "_recursive_post_grad_passes": "post_grad",
}


@contextmanager
def passes(emit: Emit) -> Iterator[None]:
    """Record every FX pass that changed a graph, in order."""
    from torch._inductor import compile_fx
    from torch._inductor.fx_passes import reinplace
    from torch.fx import Node
    from torch.fx.passes.graph_transform_observer import GraphTransformObserver

    nesting = Nesting()
    watch = PassWatch(emit, nesting)
    started: list[float] = []

    def make_round(section: str) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            def run(gm: Any, *args: Any, **kwargs: Any) -> Any:
                with watch.section(section, gm):
                    return original(gm, *args, **kwargs)

            return run

        return make

    def make_enter(original: Any) -> Any:
        def __enter__(self: Any) -> Any:
            started.append(watch.entered(self.gm))
            return original(self)

        return __enter__

    def make_exit(original: Any) -> Any:
        def __exit__(self: Any, *details: Any) -> Any:
            watch.left(self.gm, self.passname, started.pop())
            return original(self, *details)

        return __exit__

    def make_replace(original: Any) -> Any:
        def replace_all_uses_with(self: Any, replace_with: Any, *args: Any, **kwargs: Any) -> Any:
            watch.replaces(self, replace_with)
            return original(self, replace_with, *args, **kwargs)

        return replace_all_uses_with

    def make_decompose(original: Any) -> Any:
        def _decompose_scatter_mutating(graph: Any, node: Any) -> Any:
            before = node.prev
            made = original(graph, node)
            watch.decomposes(node, before)
            return made

        return _decompose_scatter_mutating

    with ExitStack() as stack:
        stack.enter_context(replaced(reinplace, "_decompose_scatter_mutating", make_decompose))
        stack.enter_context(replaced(Node, "replace_all_uses_with", make_replace))
        stack.enter_context(replaced(GraphTransformObserver, "__enter__", make_enter))
        stack.enter_context(replaced(GraphTransformObserver, "__exit__", make_exit))
        for function, section in ROUNDS.items():
            stack.enter_context(replaced(compile_fx, function, make_round(section)))
        stack.enter_context(nesting.watching())
        yield


@contextmanager
def pattern_matches(emit: Emit) -> Iterator[None]:
    """Record every pattern that fired: its name, where it is defined, the nodes it matched and made."""
    from torch._inductor.pattern_matcher import PatternEntry

    nesting = Nesting()

    def make(original: Any) -> Any:
        def apply(self: Any, match: Any, graph: Any, node: Any) -> Any:
            matched: dict[str, str] = {}
            before: set[Any] = set()
            emit.attempt("pattern_match", "matched", lambda: matched.update({n.name: line_of(n) for n in match.nodes}))
            emit.attempt("pattern_match", "before", lambda: before.update(graph.nodes))
            result = original(self, match, graph, node)
            emit("pattern_match", lambda: _match_facts(self, matched, [n for n in graph.nodes if n not in before], nesting.path))
            return result

        return apply

    with ExitStack() as stack:
        for entry in _entries(PatternEntry):
            stack.enter_context(replaced(entry, "apply", make))
        stack.enter_context(nesting.watching())
        yield


def _entries(root: type) -> list[type]:
    """The kinds of pattern entries that apply themselves."""
    found: list[type] = []
    child: type
    for child in root.__subclasses__():
        found += [child, *_entries(child)]
    return [kind for kind in dict.fromkeys(found) if "apply" in vars(kind)]


def pattern_name(entry: Any) -> str:
    """What a pattern is called: as it was registered, or as the function that defines it."""
    fallback = getattr(pattern_function(entry), "__qualname__", type(entry).__name__)
    return str(getattr(entry, "pattern_name", None) or fallback)


def _match_facts(entry: Any, matched: Mapping[str, str], made: list[Any], path: str) -> Facts:
    code = getattr(pattern_function(entry), "__code__", None)
    new = [line_of(node) for node in made]
    return {
        "pattern": pattern_name(entry),
        "of": path,
        "kind": type(entry).__name__,
        "file": (in_package(code.co_filename) or code.co_filename) if code else "",
        "line": code.co_firstlineno if code else 0,
        "matched": list(matched),
        "made": [node.name for node in made],
        "stacks": stacks_of(made),
        "text": "\n".join(["matched", *(f"  {line}" for line in matched.values()), "made", *(f"  {line}" for line in new)]),
        "expression": str(entry.pattern),
    }


def pattern_function(entry: Any) -> Any:
    """The Python function that defines a pattern: its search function, or the handler that rewrites the match."""
    check: Any = getattr(entry, "extra_check", None)
    cells = getattr(check, "__closure__", None) or ()
    closure = dict(zip(check.__code__.co_freevars, cells, strict=True)) if cells else {}
    if "search_fn" in closure:
        return closure["search_fn"].cell_contents
    return getattr(entry, "handler", check)


# Timings -------------------------------------------------------------------------------------------------------------


@contextmanager
def algorithm_choices(emit: Emit) -> Iterator[None]:
    """Record the time of each way of doing an operation, where Inductor measured them, and the one that a fusion settles on."""
    from torch._inductor.ir import MultiTemplateBuffer
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    listed = Listed(emit)

    def make(original: Any) -> Any:
        def do_autotuning(self: Any, name: str, nodes: Any, *args: Any, **kwargs: Any) -> Any:
            timings = original(self, name, nodes, *args, **kwargs)
            if timings:  # none are known yet where they are measured in another process
                listed.add(name, nodes, timings, f"measured the fastest of {len(timings)}")
            return timings

        return do_autotuning

    def make_final(original: Any) -> Any:
        def finalize(self: Any, chosen: Any) -> Any:
            one: Any = chosen.get(None) if isinstance(chosen, Mapping) else chosen  # by hint of a dynamic size
            emit("autotune_taken", lambda: {"choice": one.name, "why": SETTLED})
            return original(self, chosen)

        return finalize

    with ExitStack() as stack:
        stack.enter_context(replaced(AlgorithmSelectorCache, "do_autotuning", make))
        for name in ("finalize_as_triton_caller", "finalize_as_triton_callers"):
            stack.enter_context(replaced(MultiTemplateBuffer, name, make_final))
        stack.enter_context(padded_products(emit))
        yield


#: Why a template was taken that is not the fastest by itself.
SETTLED = "with what is fused into it the fastest, as Inductor found"


class Listed:
    """Emits the choices that there were for an operation, and the source of each choice once in a recording."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._sources: set[str] = set()

    def add(self, name: str, nodes: Any, timings: Mapping[Any, float | None], why: str) -> None:
        """The choices for an operation, and why the fastest of them counts as that."""
        self._emit("autotune", lambda: choice_facts(name, nodes, timings, why))
        for choice in timings:
            self._emit.attempt("autotune", "source", lambda c=choice: self._source(c))  # type: ignore[misc]

    def _source(self, choice: Any) -> None:
        key = source_key(choice)
        if key and key not in self._sources:
            self._sources.add(key)
            self._emit("choice_source", lambda: choice_source(choice))


def choice_facts(name: str, nodes: Any, timings: Mapping[Any, float | None], why: str = "") -> Facts:
    """An operation, its inputs, and each choice with its time in ms; the first where nothing was timed."""
    inputs = [
        f"{str(node.get_dtype()).removeprefix('torch.')}{[str(n) for n in node.get_size()]}".replace("'", "") for node in nodes
    ]
    known = {choice: time for choice, time in timings.items() if time is not None and math.isfinite(time)}
    fastest = min(known, key=known.__getitem__) if known else next(iter(timings))
    rows = [
        {
            "choice": choice.name,
            "kind": type(inside(choice)).__name__,
            "config": getattr(choice, "description", "") or "",
            "ms": known.get(choice),
            "fastest": choice is fastest,
            "why": why if choice is fastest else "",
            "grid": choice_grid(choice),
            "source": source_key(choice),
        }
        for choice in timings
    ]
    return {"operation": name, "inputs": inputs, "choices": rows}


def request_of(choice: Any) -> Any:
    """What Inductor would time of a choice; of a subgraph, for which asking is an error until it is timed, nothing."""
    return vars(inside(choice)).get("bmreq")


def inside(choice: Any) -> Any:
    """The choice itself, where it is in a wrapper that packs its weights first, as C++ templates are."""
    return vars(choice).get("_wrapped", choice)


def source_key(choice: Any) -> str:
    """What the source of a choice is known by, the same for equal sources; "" for a call into a library."""
    request = request_of(choice)
    if getattr(request, "module_cache_key", None):
        return str(request.module_cache_key)
    text: Any = getattr(request, "source_code", None)
    if text is None and (graph := getattr(choice, "gm", None)) is not None and not hasattr(choice, "choice"):
        text = graph.code
    return hashlib.sha256(text.encode()).hexdigest()[:16] if isinstance(text, str) else ""


def choice_source(choice: Any) -> Facts:
    """The source of a choice as Inductor would time it, with nothing fused into it: Triton, C++, or an FX graph."""
    request, key = request_of(choice), source_key(choice)
    if getattr(request, "module_path", None):
        module = Path(request.module_path).read_text(encoding="utf-8").strip("\n")
        return {"source": key, "name": str(request.kernel_name), "language": "triton", "text": module}
    if isinstance(getattr(request, "source_code", None), str):
        return {"source": key, "name": str(request.kernel_name), "language": "cpp", "text": request.source_code}
    return {"source": key, "name": choice.name, "language": "fx", "text": choice.gm.print_readable(print_output=False).strip()}


def choice_grid(choice: Any) -> list[int]:
    """The launch grid of a Triton template for the sizes of this call, [] for other choices."""
    request = request_of(choice)
    arguments = list(getattr(request, "extra_args", ()) or ()) if getattr(request, "module_path", None) else []
    return [int(n) for n in arguments[-3:]]


@contextmanager
def padded_products(emit: Emit) -> Iterator[None]:
    """Record the times of a matrix product as it is and padded to aligned sizes, where Inductor measured both."""
    from torch._inductor.fx_passes import pad_mm

    asked: list[tuple[str, list[str]]] = []

    def make_pad(original: Any) -> Any:
        def _should_pad(match: Any, one: Any, other: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            asked.append((str(op), [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in (one, other)]))
            try:
                return original(match, one, other, op, *args, **kwargs)
            finally:
                asked.pop()

        return _should_pad

    def make_faster(original: Any) -> Any:
        def is_padded_faster(key: str, as_it_is: float, padded: float) -> Any:
            faster = original(key, as_it_is, padded)
            if asked:
                emit("autotune", lambda: padding_facts(*asked[-1], as_it_is, padded, bool(faster)))
            return faster

        return is_padded_faster

    with replaced(pad_mm, "_should_pad", make_pad), replaced(pad_mm, "is_padded_faster", make_faster):
        yield


def padding_facts(operation: str, inputs: list[str], as_it_is: float, padded: float, faster: bool) -> Facts:
    """A matrix product's two times in ms; padded counts as the faster one where Inductor takes it for that."""
    rest: dict[str, Plain] = {"grid": [], "source": ""}
    rows = [
        {"choice": "as it is", "kind": "pad_mm", "config": "", "ms": float(as_it_is), "fastest": not faster, **rest},
        {"choice": "padded", "kind": "pad_mm", "config": "", "ms": float(padded), "fastest": faster, **rest},
    ]
    return {"operation": operation, "inputs": inputs, "choices": rows}


def assembly_command(source: str, output: str) -> list[str]:
    """Inductor's own command to compile a C++ kernel, changed to write assembly with line numbers."""
    import shlex

    from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    options = CppTorchDeviceOptions(vec_isa=pick_vec_isa(), device_type="cpu", compile_only=True)
    builder = CppBuilder(name="kernel", sources=source, output_dir=str(Path(output).parent), BuildOption=options)
    command = shlex.split(builder.get_command_line())
    command = [part for part in command if part != "-c"]
    command[command.index("-o") + 1] = output
    return [*command, "-S", "-g1"]
