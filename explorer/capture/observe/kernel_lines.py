"""Which FX nodes each line of a generated kernel computes: known while the line is written, kept until the kernel is defined.

    lowering:   a loop's inner_fn remembers the FX node under way        (`_Inner`)
    tracing:    each node of a LoopBody is made while an inner_fn runs   (its meta)
    generating: each line is written while a LoopBody node is run        (`Written`)
    reusing:    a value is returned again instead of written again       (`_reusing`)
    assembling: a buffer's text is taken, with its lines' places         (`_State.take`)
    defining:   the kernel's source is made of such texts                (`_State.placed`)

At any moment one FX node is under way, or none; `_State.node` is its name. An inlined producer's inner_fn runs inside
its consumer's and puts its own node there, so that every operation of a fused kernel has the one node it computes.
Inductor writes equal expressions once. The line then has the nodes of all that asked for it.
Nothing that is generated changes: a line that has a node is a `str` equal to the one that it stands for.
"""

from __future__ import annotations

import operator
import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.functions import emit_inlined
from explorer.capture.observe.nested import inner_graphs, lowered_path
from explorer.capture.observe.patch import added, beside, followed, observed, preceded, replaced
from explorer.capture.observe.scheduler_nodes import called_node, hint
from explorer.capture.observe.subclasses import defining_kernels, metal_templates, subclasses
from explorer.capture.observe.versions import (
    cpp_rewriters,
    cutlass_epilogues,
    has_function,
    has_halide,
    has_pallas,
    keeps_original_inner_fn,
    localizes_functions,
)
from explorer.capture.observe.views import Views, views
from explorer.model.shared import KernelLines, Names
from explorer.model.stage import Emit
from explorer.stages.inductor.cpp_wrapper import metal_kernel

#: Under this key the meta of a LoopBody's node has the name of the FX node it was made for.
KEY = "explorer_fx_node"
#: Under this key that of a load has the view operators that its index is of.
VIEWS = "explorer_views"
#: Under this name a variable of Inductor's CSE has the nodes of each line that computes it.
COMPUTED_BY = "explorer_fx_nodes"
#: The names of a line's FX nodes, in order. All copies of the line share them: a node may be added after a copy is made.
Nodes = dict[str, None]
#: A text taken of a buffer: for each line that has nodes, its place in the text, itself without indentation, the nodes.
Block = tuple[tuple[int, str, Nodes], ...]
#: A view that a wrapper makes of a buffer: the buffer, its size, its stride.
_VIEW = re.compile(r"reinterpret_tensor\((\w+), (\([^()]*\)), (\([^()]*\)), [^()]*\)")
#: What stands around a Metal kernel's source when the backend defines it.
METAL_BEGIN, METAL_END, METAL_IN_CPP = "compile_mps_shader('''", "''')", 'R"MTL('
#: CUTLASS makes an epilogue from Python; this line of it only names the accumulator again.
_ALIAS = re.compile(r"= accum$")
#: The types that CUTLASS makes of an operation of an epilogue: it is declared as ComputeN, and applied as EVTComputeN.
_COMPUTE, _COMPUTE_TYPE = re.compile(r"using Compute(\d+) ="), re.compile(r"using (?:EVT)?Compute(\d+) =")
#: Texts that are kept until a kernel is defined; those of loops that were generated to be timed are never asked for.
KEPT = 256


class Written(str):
    """A line of code that knows which FX nodes it computes."""

    __slots__ = ("nodes",)
    nodes: Nodes

    def __getitem__(self, index: Any) -> Written:
        return written(str.__getitem__(self, index), self.nodes)

    def __str__(self) -> Written:
        return self  # the Pallas backend writes str(line)

    def lstrip(self, chars: str | None = None, /) -> Written:
        """Strip as a str does, for the Pallas backend, which takes the indentation off again."""
        return written(str.lstrip(self, chars), self.nodes)


def written(line: str, nodes: Nodes) -> Written:
    """The line with its nodes."""
    made = Written(line)
    made.nodes = nodes
    return made


class _State(threading.local):
    """The FX node under way, and the texts taken of buffers since the last kernel was defined."""

    def __init__(self) -> None:
        self.node: str | None = None
        self.outer: str | None = None  # what was under way when the block of a LoopBody began to run
        self.views = Views()
        self.inner: str | None = None  # the node that is lowered of a graph inside a template, such as a score_mod
        self.blocks: deque[Block] = deque(maxlen=KEPT)
        self.epilogue: tuple[str, ...] = ()  # the FX node of each operation of the CUTLASS epilogue that was written last
        self.computing: list[list[Nodes]] = []  # the lines written so far for each value under way, innermost last

    def under_way(self) -> Nodes:
        """Return the names of the FX node under way and of the views of a load."""
        return dict.fromkeys(self.node.split()) if self.node else {}

    @contextmanager
    def during(self, node: str | None) -> Iterator[None]:
        """Inside the block `node` is under way."""
        outer, self.node = self.node, node or self.node
        try:
            yield
        finally:
            self.node = outer

    def take(self, lines: Iterable[Any]) -> None:
        """Keep the places of a buffer's lines that have nodes, as its text has them."""
        block: list[tuple[int, str, Nodes]] = []
        place = 0
        for line in lines:
            text = line if isinstance(line, str) else line() if callable(line) else None
            if text is None:  # a line context, or a line that was taken back
                continue
            parts, nodes = text.split("\n"), nodes_of(line)
            if nodes:
                block += ((place + n, part.strip(), nodes) for n, part in enumerate(parts) if part.strip())
            place += len(parts)
        if block:
            self.blocks.append(tuple(block))

    @property
    def newest(self) -> Block | None:
        """The text that was taken last."""
        return self.blocks[-1] if self.blocks else None

    def rewritten(self, text: str) -> None:
        """Take over what was changed inside the lines of the newest text."""
        lines = text.split("\n")
        self.blocks[-1] = tuple((place, lines[place].strip(), nodes) for place, _, nodes in self.blocks[-1])

    def placed(self, source: str) -> dict[int, str]:
        """The nodes of each line of a source, as its texts say. Lines count from 0; spaces stand between nodes."""
        lines = [line.strip() for line in source.strip().split("\n")]
        places: dict[str, list[int]] = {}
        for number, line in enumerate(lines):
            places.setdefault(line, []).append(number)
        nodes: dict[int, Nodes] = {}
        newest = list(reversed(self.blocks))
        used = [block for block in sorted(newest, key=len, reverse=True) if _fit(block, lines, places, nodes)]
        self.blocks = deque((block for block in self.blocks if block not in used), maxlen=KEPT)
        return {number: " ".join(names) for number, names in nodes.items()}


def _fit(block: Block, lines: Sequence[str], places: dict[str, list[int]], nodes: dict[int, Nodes]) -> bool:
    """Assign a text's nodes to the source lines that equal its lines and have no node yet; False if there are none."""
    rarest = min(block, key=lambda row: len(places.get(row[1], ())))
    for at in places.get(rarest[1], ()):
        start = at - rarest[0]
        if all(0 <= start + n < len(lines) and lines[start + n] == text and start + n not in nodes for n, text, _ in block):
            nodes.update((start + n, names) for n, _, names in block)
            return True
    return False


class _Inner:
    """A loop's inner_fn, during which the FX node that it was made for is under way."""

    __slots__ = ("_function", "_state", "node")

    def __init__(self, function: Callable[..., Any], node: str, state: _State) -> None:
        self._function, self.node, self._state = function, node, state

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = self._state
        outer, state.node = state.node, self.node
        try:
            return self._function(*args, **kwargs)
        finally:
            state.node = outer


@contextmanager
def kernel_lines(emit: Emit) -> Iterator[None]:
    """Record for each kernel that is defined its lines' FX nodes and the scheduler nodes it is made of."""
    state = _State()
    with ExitStack() as stack:
        for hooks in (_lowering, _tracing, _writing, _reusing, _defining):
            stack.enter_context(hooks(emit, state))
        yield


# Lowering: a loop knows its node ---------------------------------------------------------------------------------------


@contextmanager
def _lowering(emit: Emit, state: _State) -> Iterator[None]:
    """Each loop of Inductor's IR remembers the FX node that is lowered when it is made."""
    from torch._inductor import ir

    def made(_: None, loops: Any) -> None:
        remember(loops, state)

    def make_store(original: Callable[..., Any]) -> Callable[..., Any]:
        def store(self: Any, *args: Any, **kwargs: Any) -> Any:
            with state.during(own_node(self)):
                return original(self, *args, **kwargs)

        return store

    make_original = beside(lambda buffer: state.during(own_node(buffer.data)), "with_original_inner_fn")

    with ExitStack() as stack:
        stack.enter_context(followed(ir.Loops, "__post_init__", made))
        for kind in subclasses(ir.Loops):
            for name in {"store_output", "store_reduction"} & set(vars(kind)):
                stack.enter_context(replaced(kind, name, make_store))
        if keeps_original_inner_fn():  # a reduction that was split is put together again
            stack.enter_context(replaced(ir.ComputedBuffer, "with_original_inner_fn", make_original))
        stack.enter_context(_localized())
        stack.enter_context(_inside_templates(state))
        stack.enter_context(views(emit, state.views))
        yield


@contextmanager
def _localized() -> Iterator[None]:
    """A loop of the C++ backend that is rewritten to use a local buffer keeps its node."""
    from torch._inductor.codegen.cpp_utils import LocalBufferContext

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def localize_function(self: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(self, fn, *args, **kwargs)
            if isinstance(fn, _Inner):
                return _Inner(made, fn.node, fn._state)
            return made

        return localize_function

    if localizes_functions():
        with replaced(LocalBufferContext, "localize_function", make):
            yield
    else:
        yield


@contextmanager
def _inside_templates(state: _State) -> Iterator[None]:
    """The graphs that a template takes in, such as flex attention's score_mod, are lowered node by node as well.

    The C++ template of flex attention lowers a copy of the mask's graph, and then writes other sizes into the text of its loops.
    """
    from torch._inductor.codegen.cpp_flex_attention_template import CppFlexAttentionTemplate
    from torch._inductor.subgraph_lowering import PointwiseSubgraphLowering

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def run_node(self: Any, n: Any, *args: Any, **kwargs: Any) -> Any:
            name = _lowered_inside(self.module, n, inner_graphs(self.root_graph.module))
            path = ".".join(filter(None, (lowered_path(self.root_graph), name)))
            outer, state.inner = state.inner, f"{path}.{n.name}" if name else None
            try:
                return original(self, n, *args, **kwargs)
            finally:
                state.inner = outer

        return run_node

    def make_sizes(original: Callable[..., Any]) -> Callable[..., Any]:
        def modification(self: Any, *args: Any, **kwargs: Any) -> Any:
            before = state.newest
            text = original(self, *args, **kwargs)
            if state.newest is not before:
                state.rewritten(text)
            return text

        return modification

    with (
        replaced(PointwiseSubgraphLowering, "run_node", make),
        replaced(CppFlexAttentionTemplate, "modification", make_sizes),
    ):
        yield


def _lowered_inside(module: Any, node: Any, graphs: Iterable[tuple[str, Any]]) -> str:
    """The path of the graph that a node is lowered of: the graph itself, or the only one that it is a copy of; else ""."""
    graphs = list(graphs)
    if same := [path for path, graph in graphs if graph is module]:
        return same[0]
    targets = {each.name: each.target for each in module.graph.nodes}
    copied = []
    for path, graph in graphs:
        originals = [each for each in graph.graph.nodes if each.op == "call_function"]
        if originals and all(targets.get(each.name) is each.target for each in originals):
            copied.append((path, originals))
    if len(copied) == 1 and any(each.name == node.name for each in copied[0][1]):
        return copied[0][0]
    return ""


def remember(loops: Any, state: _State) -> None:
    """Give a new loop's functions the node that is lowered; a loop rewritten later keeps the node of the old one."""
    lowered = state.inner or lowered_node()
    node = lowered or state.node
    for name in ("inner_fn", "inner_fns"):
        value = getattr(loops, name, None)
        if node is None or value is None:
            continue
        functions = value if isinstance(value, tuple) else (value,)
        made = tuple(_Inner(f, node, state) if lowered or not isinstance(f, _Inner) else f for f in functions)
        object.__setattr__(loops, name, made if isinstance(value, tuple) else made[0])


def lowered_node() -> str | None:
    """Return the name of the FX node that Inductor is lowering, with the graph's path before it for a nested graph."""
    from torch._inductor.virtualized import V

    return named(getattr(V.graph, "current_node", None), V.graph)


def named(node: Any, graph: Any) -> str | None:
    """Return an FX node's name as it is recorded: with the graph's path before it for a nested graph."""
    if node is None:
        return None
    from torch._inductor.virtualized import V

    inside = lowered_path(V.graph if graph is None else graph)
    return f"{inside}.{node.name}" if inside else str(node.name)


def own_node(loops: Any) -> str | None:
    """The node that a loop was made for."""
    for name in ("inner_fn", "inner_fns"):
        value = getattr(loops, name, None)
        for function in value if isinstance(value, tuple) else (value,):
            if isinstance(function, _Inner):
                return function.node
    return None


# Tracing: each node of a LoopBody knows its FX node ----------------------------------------------------------------------


@contextmanager
def _tracing(emit: Emit, state: _State) -> Iterator[None]:
    """A LoopBody's node takes over the FX node under way when it is made, and is it while it is run."""
    from torch._inductor import loop_body

    def created(node: Any, *_: Any, **__: Any) -> None:
        if state.node is not None:
            node.meta[KEY] = state.node
        if state.views.nodes and node.target == "load":
            node.meta[VIEWS] = state.views.nodes

    def begun(_: Any, node: Any) -> None:
        state.node = with_views(node) or _neighbour(node) or state.outer

    with (
        followed(loop_body.LightTracer, "create_node", created),
        replaced(loop_body.InterpreterShim, "run", partial(_run, state)),
        preceded(loop_body.InterpreterShim, "run_node", begun),
    ):
        yield


def _run(state: _State, original: Callable[..., Any]) -> Callable[..., Any]:
    """Run a LoopBody's block; after it the node is under way again that was before, such as the one that masks the block."""

    def run(*args: Any, **kwargs: Any) -> Any:
        before = state.node, state.outer
        state.outer = state.node
        try:
            return original(*args, **kwargs)
        finally:
            state.node, state.outer = before

    return run


def with_views(node: Any) -> str:
    """The FX node of a LoopBody's node, and with a space before each the view operators that a load's index is of."""
    meta = node.meta
    own: str = meta.get(KEY, "")
    return " ".join(dict.fromkeys((own, *meta[VIEWS]))) if own and VIEWS in meta else own


def _neighbour(node: Any) -> str | None:
    """Return the FX node of a LoopBody node's input, or else of its user: a conversion added by a backend has none itself."""
    near = [other for other in (*node.all_input_nodes, *node.users) if KEY in other.meta and other.op != "placeholder"]
    return near[0].meta[KEY] if near else None


def body_nodes(part: Any) -> dict[str, dict[str, str]]:
    """The FX node of each node of a scheduler node's LoopBody, by block ("body", "masked_subblock1") and name.

    A load's FX node is followed by the view operators that changed its index, with a space before each.
    """
    body = getattr(part, "_body", None)
    if body is None:
        return {}
    blocks = {"body": body.root_block, **body.subblocks}
    return {name: {n.name: with_views(n) for n in block.graph.nodes if KEY in n.meta} for name, block in blocks.items()}


# Generating: each line knows its FX node ---------------------------------------------------------------------------------


@contextmanager
def _writing(emit: Emit, state: _State) -> Iterator[None]:
    """A line written while an FX node is under way keeps its name, also through other buffers."""
    from torch._inductor.codegen import cpp
    from torch._inductor.utils import IndentedBuffer

    def line_written(_: None, buffer: Any, line: Any) -> None:
        nodes = (None if type(line) is str else nodes_of(line)) or state.under_way()
        if nodes:
            mark(buffer._lines, nodes)
            for lines in state.computing:
                lines.append(nodes)

    def make_value(original: Callable[..., Any]) -> Callable[..., Any]:
        def getvaluewithlinemap(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            if any(type(line) is not str and nodes_of(line) for line in self._lines):
                emit.attempt("kernel", "text", lambda: state.take(self._lines))
            return result

        return getvaluewithlinemap

    def make_rewrite(original: Callable[..., Any]) -> Callable[..., Any]:
        def rewrite(buffer: Any, *args: Any) -> Any:
            before = [nodes_of(line) for line in buffer._lines]
            result = original(buffer, *args)
            emit.attempt("kernel", "rewrite", lambda: mark_again(buffer._lines, before))
            return result

        return rewrite

    def moved(result: Any, code: Any, *args: Any, **kwargs: Any) -> None:
        begin = 2  # the loop and its brace
        for number, line in enumerate(code._lines, begin):
            if nodes := nodes_of(line):
                mark_at(result._lines, number, nodes)

    with ExitStack() as stack:
        stack.enter_context(followed(cpp, "move_code_under_inner_loop", moved))
        stack.enter_context(_shared_bodies())
        stack.enter_context(_pallas_stores(state))
        stack.enter_context(_halide_indices())
        stack.enter_context(_cutlass_epilogues(state))
        stack.enter_context(followed(IndentedBuffer, "writeline", line_written))
        stack.enter_context(replaced(IndentedBuffer, "getvaluewithlinemap", make_value))
        for name in cpp_rewriters():
            stack.enter_context(replaced(cpp, name, make_rewrite))
        yield


def _shared_bodies() -> AbstractContextManager[None]:
    """Observe the one body that equal parts of a combo kernel share: torch 2.15 writes it anew, with other names."""
    from torch._inductor.codegen.triton_combo_kernel import ComboKernel

    def shared(result: Any, _: Any, parts: Any, *args: Any, **kwargs: Any) -> None:
        if result is not None:
            mark_shared(result.body._lines, [part.body._lines for part in parts])

    if has_function(ComboKernel, "_try_get_shared_body"):
        return followed(ComboKernel, "_try_get_shared_body", shared)
    return nullcontext()


@contextmanager
def _pallas_stores(state: _State) -> Iterator[None]:
    """Give the stores of a Pallas kernel their node: it keeps them beside the buffer that they are written to."""
    if not has_pallas():
        yield
        return
    from torch._inductor.codegen.pallas import PallasKernel

    def stored(kernel: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        stores = getattr(kernel, "store_with_output", [])  # not every torch keeps them
        before = len(stores)
        yield
        if nodes := state.under_way():
            stores[before:] = [(output, written(line, nodes)) for output, line in stores[before:]]

    with observed(PallasKernel, "store", stored):
        yield


class _Filled:
    """The pattern with which the Halide backend fills in the indices of a line, which keeps its node."""

    __slots__ = ("_pattern",)

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def sub(self, index: Callable[[re.Match[str]], str], line: str) -> str:
        filled, nodes = self._pattern.sub(index, line), nodes_of(line)
        return written(filled, nodes) if nodes else filled


def _halide_indices() -> AbstractContextManager[None]:
    """Keep the nodes of a Halide kernel's lines, which are written before the dimensions of their values are known."""
    if not has_halide():
        return nullcontext()
    from torch._inductor.codegen.halide import HalideCSEVariable

    return added(HalideCSEVariable, "undefined_re", _Filled(HalideCSEVariable.undefined_re))


def _cutlass_epilogues(state: _State) -> AbstractContextManager[None]:
    """Keep the nodes of the Python from which CUTLASS makes an epilogue; the C++ has other names for its lines."""
    codegen = cutlass_epilogues()
    if codegen is None:
        return nullcontext()

    def epilogue(_: Any, self: Any) -> None:
        lines = [line for line in self.body._lines if not _ALIAS.search(str(getattr(line, "line", line)))]
        state.epilogue = tuple(" ".join(nodes_of(line) or ()) for line in lines)

    return followed(codegen, "get_value", epilogue)


def epilogue_lines(source: str, nodes: Sequence[str]) -> dict[int, str]:
    """The node of each line of a CUTLASS template's epilogue, counted from 0; {} where it has not as many operations as nodes.

    CUTLASS counts the operations in the order of the Python that it reads (cutlass_cppgen/backend/evt/frontend).
    """
    lines = source.strip().split("\n")
    begins = {int(begin[1]): n for n, line in enumerate(lines) if (begin := _COMPUTE.match(line))}
    if sorted(begins) != list(range(len(nodes))) or not all(nodes):
        return {}
    found: dict[int, str] = {}
    for number, line in enumerate(lines):
        if operation := _COMPUTE_TYPE.match(line):
            end = next((n for n in range(number, len(lines)) if lines[n].rstrip().endswith(";")), number)
            found.update(dict.fromkeys(range(number, end + 1), nodes[int(operation[1])]))
    return found


def mark_shared(lines: list[Any], parts: Iterable[Sequence[Any]]) -> None:
    """Give each line that several parts share the nodes that it has in all of them."""
    kept = [[line for line in part if isinstance(line, str) or line() is not None] for part in parts]  # as torch keeps them
    for number, (_, *alike) in enumerate(zip(lines, *kept, strict=True)):
        if nodes := dict.fromkeys(name for line in alike for name in nodes_of(line) or ()):
            mark_at(lines, number, nodes)


def nodes_of(line: Any) -> Nodes | None:
    """The nodes of a line, or of the line that a deferred one may become."""
    nodes: Nodes | None = getattr(line, "nodes", None) or getattr(getattr(line, "line", None), "nodes", None)
    return nodes


def mark(lines: list[Any], nodes: Nodes) -> None:
    """Give the last line that was written its nodes."""
    mark_at(lines, -1, nodes)


def mark_again(lines: list[Any], before: Sequence[Nodes | None]) -> None:
    """Give lines that were rewritten in their places the nodes that they had."""
    for number, nodes in enumerate(before):
        if nodes and not nodes_of(lines[number]):
            mark_at(lines, number, nodes)


def mark_at(lines: list[Any], number: int, nodes: Nodes) -> None:
    """Give one line of a buffer its nodes."""
    line = lines[number]
    if isinstance(line, str):
        if line.strip():
            lines[number] = written(line, nodes)
    elif isinstance(getattr(line, "line", None), str):
        line.line = written(line.line, nodes)


# Reusing: a value that another node computed -------------------------------------------------------------------------------


@contextmanager
def _reusing(emit: Emit, state: _State) -> Iterator[None]:
    """Give the lines of a value also to each further FX node for which Inductor returns it instead of writing it again."""
    from torch._inductor.codegen.common import CSE, CSEProxy, CSEVariable

    def computed(_: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        lines: list[Nodes] = []
        state.computing.append(lines)
        try:
            result = yield
        finally:
            state.computing.pop()
        given = {id(getattr(argument, "value", argument)) for argument in args}  # such as an index, returned as it came
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if not isinstance(value, CSEVariable) or id(value) in given:
                continue
            if lines:
                setattr(value, COMPUTED_BY, lines)
                continue
            for nodes in getattr(value, COMPUTED_BY, ()):
                nodes.update(state.under_way())

    with observed(CSE, "generate", computed), observed(CSEProxy, "reduction", computed):  # reductions have a cache of their own
        yield


# Defining: a kernel's source is made of such lines ------------------------------------------------------------------------


@contextmanager
def _defining(emit: Emit, state: _State) -> Iterator[None]:
    """Record a kernel's lines and nodes when a backend defines it, and again each time it is used for other nodes.

    For a Triton kernel that the user wrote, the source is recorded: Inductor copies it into the output code.
    """
    from torch._inductor import ir
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    def defined(_: Any, src_code: Any, nodes: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        name = yield
        emit("kernel_lines", lambda: definition(str(name), without_includes(str(src_code)), nodes, state))

    def made(_: None, template: Any, wrapper: Any) -> None:
        name = wrapper.src_to_kernel[template.shader_source]
        emit("kernel_lines", lambda: KernelLines(name=name, lines=(), operations=(), template=template_nodes(template)))

    copies: dict[CodeType, str] = {}
    calls: list[Any] = []  # the user's kernel of Inductor's IR whose launch is written

    def called(call: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        calls.append(call)
        try:
            yield
        finally:
            calls.pop()

    def copied(defined: Any, wrapper: Any, kernel: Any, *args: Any, **kwargs: Any) -> None:
        for function in jit_functions(kernel):
            copies.setdefault(function.__code__, current_compile_id())
        if calls:
            emit("kernel_lines", lambda: launched(str(defined[0]), calls[-1]))

    with ExitStack() as stack:
        stack.enter_context(followed(PythonWrapperCodegen, "define_user_defined_triton_kernel", copied))
        stack.enter_context(observed(ir.UserDefinedTritonKernel, "codegen", called))
        stack.enter_context(helion_kernels(emit))
        for template in metal_templates():
            stack.enter_context(followed(template, "codegen", made))
        for kind in defining_kernels():
            stack.enter_context(observed(kind, "define_kernel", defined))
        yield
    for code, frame in copies.items():  # now, as the functions that call them come first
        with emit.within(frame):
            emit_inlined(emit, code)


def jit_functions(kernel: Any) -> list[FunctionType]:
    """The Python function of a Triton kernel, below its autotuner and heuristics, and those that it calls."""
    from triton.runtime.jit import JITFunction

    found: dict[FunctionType, None] = {}
    queue = [kernel]
    while queue:
        function = queue.pop(0)
        while not isinstance(function, JITFunction) and hasattr(function, "fn"):
            function = function.fn
        if isinstance(function, JITFunction) and function.fn not in found:
            found[function.fn] = None
            names = (function.fn.__globals__.get(name) for name in function.fn.__code__.co_names)
            queue += (value for value in names if isinstance(value, JITFunction))
    return list(found)


def without_includes(source: str) -> str:
    """Cut a Metal kernel out of what the backend generated, as `MetalScheduling.define_kernel` does; others stay as they are.

    For a wrapper in C++ the headers are copied before the kernel.
    """
    if METAL_IN_CPP in source:
        return metal_kernel(source.partition(METAL_IN_CPP)[2].rpartition(")MTL")[0])
    _, begin, rest = source.partition(METAL_BEGIN)
    if not begin:
        return source
    lines = rest.rpartition(METAL_END)[0].split("\n")
    return "\n".join(line for line in lines if not line.strip().startswith("#include"))


def definition(name: str, source: str, nodes: Any, state: _State) -> KernelLines:
    """A kernel that was defined: its lines' nodes, counted from 1, its scheduler nodes, and its template's FX node."""
    lines = epilogue_lines(source, state.epilogue) or state.placed(source)
    parts = [part for node in nodes if hasattr(node, "get_nodes") for part in node.get_nodes()]
    return KernelLines(
        name=name,
        lines=tuple((number + 1, node) for number, nodes in sorted(lines.items()) for node in nodes.split()),
        operations=tuple(part.get_name() for part in parts),
        template=tuple(node for part in parts if part.is_template() for node in template_nodes(part.node)),
    )


def launched(name: str, call: Any) -> KernelLines:
    """A kernel that the user wrote: the scheduler node that launches it, and the FX node of that launch."""
    node = called_node(call)
    return KernelLines(
        name=name,
        lines=(),
        operations=(call.get_operation_name(),),
        template=(),
        nodes=None if node is None else (str(node.name),),
    )


def helion_kernels(emit: Emit) -> AbstractContextManager[None]:
    """Record the call of each kernel that Helion writes, and the source of the function that Helion compiled."""
    from torch._inductor import select_algorithm

    external = getattr(select_algorithm, "ExternalTritonTemplateKernel", None)
    if external is None:  # before the torch that takes Helion's kernels
        return nullcontext()

    def written(_: Any, kernel: Any, wrapper: Any, source: Any, name: str, *args: Any, **kwargs: Any) -> None:
        function = getattr(getattr(kernel._template_buffer, "_helion_kernel", None), "fn", None)
        if function is not None:
            emit_inlined(emit, function.__code__)
            made = f"({''.join(f'{argument}, ' for argument in call_without_data(kernel._call_preamble, kernel._call_args))})"
            emit("kernel_lines", lambda: KernelLines(name=name, lines=(), operations=(), template=(), call=made))

    return followed(external, "emit_kernel_override", written)


def call_without_data(preamble: Sequence[str], arguments: Sequence[str]) -> Iterator[str]:
    """Write the arguments of a call in Python: a meta tensor for each buffer or view of one, else the argument as it is."""
    from torch._inductor.virtualized import V

    views = dict(line.split(" = ", 1) for line in preamble)
    for argument in arguments:
        view = _VIEW.fullmatch(views.get(argument, ""))
        buffer = V.graph.try_get_buffer(view[1] if view else argument)
        if buffer is None:
            yield argument
            continue
        size, stride = (
            (view[2], view[3]) if view else (tuple(map(hint, part)) for part in (buffer.get_size(), buffer.get_stride()))
        )
        yield f"torch.empty_strided({size}, {stride}, dtype={buffer.get_dtype()}, device='meta')"


def template_nodes(buffer: Any) -> Names:
    """The FX nodes that a template computes."""
    node = called_node(buffer)
    while node is not None and node.target is operator.getitem:  # one of the template's outputs
        node = node.args[0]
    return (node.name,) if node is not None else ()
