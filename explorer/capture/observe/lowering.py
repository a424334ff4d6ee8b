"""Observe how Inductor lowers each FX node: by which function, to what, and why it calls a library.

One event per graph. A node's row has the function that lowered it and what came out; an operation is what Inductor registered
of it: a loop nest that is put in memory, a template, or a call. Where it is a call of the operator itself, a fallback, the
operation has the conditions of Inductor's own code that led there, with the values that they had. Inductor's decisions on
splitting reductions, on the order of loops and on tiling are rows beside them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from explorer.capture.observe import versions
from explorer.capture.observe.conditions import callers, decision
from explorer.capture.observe.fx import target_name
from explorer.capture.observe.nested import lowered_path
from explorer.capture.observe.patch import Guard, followed, guard_here, guarded, guarding, observed
from explorer.capture.observe.places import in_package
from explorer.capture.observe.subclasses import defining_kernels
from explorer.model.stage import Emit, Facts
from explorer.stages.inductor.lowered import (
    CandidateTiling,
    Decision,
    FallbackReason,
    LoopOrder,
    LoweredNode,
    LoweredOperation,
    LoweredResult,
    Lowering,
    ReductionSplit,
    Tiling,
)

#: The function in which Inductor lowers one node.
LOWERING_OF_A_NODE = "GraphLowering.run_node"
#: Where the general steps of lowering stand: they are a reason only where nothing inside them is.
GRAPH = "torch/_inductor/graph.py"
#: Functions that only hand on what another decided: they are no part of a reason.
HANDING_ON = (
    "GraphLowering.register_operation",
    "Interpreter.run_node",
    "_register_lowering.<locals>.wrapped",
    "fallback_handler.<locals>.handler",
    "make_fallback.<locals>.register_fallback",
)
#: Of the IR: what computes its sizes and layout on the way to its registration. torch 2.15 has functions inside them.
CONSTRUCTORS = ("__init__", "create", "__post_init__", "create_inplace", "create_out_of_place")
#: Classes of the IR that many others are derived from.
GENERAL = ("OperationBuffer", "Buffer", "InputsKernel", "IRNode", "CodegenSymbol", "Operation", "Loops")
#: What Inductor asks of a tensor to know whether it can read or write it, and the answers that refuse it.
PROPERTIES = ("is_complex", "is_meta", "is_sparse")
_LISTED = r"make_fallback\(\s*(?:torch\.ops\.)?{}\b(?!\.)"


@contextmanager
def lowerings(emit: Emit) -> Iterator[None]:
    """Record how each FX node of each graph was lowered, and what Inductor decided about its loops."""
    logs = _Logs(emit)
    with ExitStack() as stack:
        for observing in (*_of_nodes(logs), *_of_refusals(logs), *_of_reductions(logs), *_of_loops(logs), *_of_kernels(logs)):
            stack.enter_context(observing)
        yield


class _Logs:
    """The log of each graph under way; a nested graph has its own."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self._logs: dict[int, _Log] = {}

    def of(self, graph: Any) -> _Log:
        """The log of a GraphLowering."""
        if id(graph) not in self._logs:
            self._logs[id(graph)] = _Log(graph)
        return self._logs[id(graph)]

    def now(self) -> _Log:
        """The log of the graph under way."""
        from torch._inductor.virtualized import V

        return self.of(V.graph)

    def close(self, graph: Any) -> None:
        """Emit the log of a graph that is done, or that failed."""
        log = self._logs.pop(id(graph), None)
        if log is not None and log.nodes:
            self.emit("lowering", log.facts)

    def attempt(self, step: str, action: Callable[[], object]) -> None:
        """The explorer's own work, which must not break the compile."""
        self.emit.attempt("lowering", step, action)


class _Log:
    """The log of one graph's lowering; `facts` returns it as a record."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph  # held, so that its identity stays its own
        self.nodes: list[LoweredNode] = []
        self.operations: list[_Operation] = []
        self.splits: list[ReductionSplit] = []
        self.orders: list[LoopOrder] = []
        self.tilings: list[Tiling] = []
        self.ordering = ""  # the operation whose loops are being put in order
        self.loops_of: tuple[str, ...] = ()  # the scheduler nodes whose C++ loops are being written
        self._asked: list[list[tuple[str, str]]] = []  # of each node under way, innermost last
        self._operations_before: list[int] = []  # of each node under way, how many operations there were
        self._refused: list[Decision] = []
        self._unsupported: list[str] = []
        self._unregistered: set[str] = set()

    # Nodes ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A node is about to be lowered."""
        self._asked.append([])
        self._operations_before.append(len(self.operations))
        self._refused, self._unsupported = [], []

    def end(self, node: Any, result: Any) -> None:
        """A node was lowered."""
        self._asked.pop()
        operations = self.operations[self._operations_before.pop() :]
        if node.op in ("call_function", "get_attr"):
            called_directly = any(_is_called_directly(one.reason) for one in operations if one.node == node.name)
            self.nodes.append(_lowered_node(node, called_directly, result))

    def failed(self) -> None:
        """Lowering a node raised an error."""
        self._asked.pop()
        self._operations_before.pop()

    def asks(self, question: str, answer: object) -> None:
        """Inductor asked something of a backend, or of its choices, while it lowers a node."""
        if self._asked:
            self._asked[-1].append((question, str(answer)))

    def asked(self, since: int = 0) -> list[tuple[str, str]]:
        """Return the questions asked so far while lowering the current node."""
        return self._asked[-1][since:] if self._asked else []

    def refuses(self, place: Decision) -> None:
        """A function that makes loops gave None in their place."""
        self._refused.append(place)

    def cannot_take(self, tensor: Any) -> None:
        """Inductor does not read or write a tensor of this kind."""
        is_so = [name for name in PROPERTIES if _holds(tensor, name)]
        said = f"{str(tensor.dtype).removeprefix('torch.')} on {tensor.device.type}"
        self._unsupported.append(f"{said} ({', '.join(is_so)})" if is_so else said)

    def unregistered(self, target: Any) -> None:
        """Inductor found no lowering of an operator, and made a fallback for it."""
        self._unregistered.add(target_name(target))

    # Operations ----------------------------------------------------------------------------------------------------

    def registered(self, operation: Any, frame: FrameType) -> None:
        """An operation of the graph was made: a loop nest put in memory, a template, a call."""
        lowered = getattr(self.graph, "current_node", None)
        stated = getattr(getattr(operation, "data", operation), "get_origin_node", lambda: None)()
        classes = _classes(operation)
        fallback = _is_fallback(classes)
        self.operations.append(
            _Operation(
                operation,
                node=str(getattr(stated or lowered, "name", "")),
                lowering=str(getattr(lowered, "name", "")),
                classes=classes,
                loops=_classes(operation.data) if hasattr(operation, "data") else (),
                reason=self._reason(getattr(operation, "op_overload", None), lowered, frame) if fallback else None,
            )
        )

    def _reason(self, operator: Any, lowered: Any, frame: FrameType) -> FallbackReason:
        """How the code came to call a library."""
        frames = [one for one in callers(frame, (LOWERING_OF_A_NODE,)) if not _hands_on(one.f_code)]
        inner = [one for one in frames if in_package(one.f_code.co_filename) != GRAPH] or frames[:1]
        by_table = bool(inner) and inner[0].f_code.co_qualname == "GraphLowering.call_function" and _is_handler(lowered)
        name = target_name(operator) if operator is not None else ""
        unregistered = name in self._unregistered
        return FallbackReason(
            operator=name,
            decisions=tuple(decision(one) for one in inner),
            registered=by_table,
            unregistered=unregistered,
            listed=listed_at(name) if by_table and not unregistered else "",
            asked=tuple(dict.fromkeys(self.asked())),
            refused=self._refused[-1] if self._refused and not by_table else None,
            unsupported=tuple(dict.fromkeys(self._unsupported)),
        )

    # Decisions -----------------------------------------------------------------------------------------------------

    def split(self, kind: str, rows: Any, reduced: Any, answer: Any, since: int) -> None:
        """Inductor decided in how many parts a reduction is done."""
        hint, parts = answer
        node = getattr(self.graph, "current_node", None)
        self.splits.append(
            ReductionSplit(
                node=str(getattr(node, "name", "")),
                reduction=str(kind),
                rows=tuple(str(size) for size in rows),
                reduced=str(reduced),
                hint=str(getattr(hint, "name", hint)),
                parts=str(parts),
                asked=tuple(self.asked(since)),
            )
        )

    def ordered(self, order: Sequence[int], sizes: Iterable[Any]) -> None:
        """Inductor put the loops of an operation in the order of its strides; as they were is no decision."""
        new = list(reversed(order))
        if self.ordering and new != list(range(len(new))):
            row = _loop_order(self.ordering, new, sizes, "")
            if row not in self.orders:
                self.orders.append(row)

    def reordered(self, node: Any, order: Sequence[int], sizes: Iterable[Any], to_match: str) -> None:
        """Note that the scheduler reordered a node's loops so that it can be fused with `to_match`."""
        self.orders.append(_loop_order(node.get_name(), order, sizes, to_match))

    def tiled(self, tiling: Tiling) -> None:
        """A kernel's loops were tiled."""
        if tiling not in self.tilings:
            self.tilings.append(tiling)

    # Facts ---------------------------------------------------------------------------------------------------------

    def facts(self) -> Facts:
        """Everything seen; operations have the names that they have at the end."""
        return Lowering(
            of=str(getattr(self.graph, "name", None) or ""),
            path=lowered_path(self.graph),
            lowered=tuple(self.nodes),
            operations=tuple(operation.named() for operation in self.operations),
            splits=tuple(self.splits),
            orders=tuple(self.orders),
            tilings=tuple(self.tilings),
        )


# What a node and an operation are ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Operation:
    """An operation that was registered; it gets its names later."""

    operation: Any
    node: str
    lowering: str
    classes: tuple[str, ...]
    loops: tuple[str, ...]
    reason: FallbackReason | None

    def named(self) -> LoweredOperation:
        """Describe the operation: its name, its buffers' names, and the function that the wrapper calls for it."""
        operation = self.operation
        outputs = operation.get_outputs() if hasattr(operation, "get_outputs") else ()
        called = getattr(operation, "python_kernel_name", None) or getattr(operation, "op_overload", None)
        return LoweredOperation(
            operation=str(getattr(operation, "operation_name", "") or ""),
            buffers=tuple(buffer.get_name() for buffer in outputs),
            node=self.node,
            lowering=self.lowering,
            classes=self.classes,
            loops=self.loops,
            call=str(called or ""),
            reason=self.reason,
        )


def _lowered_node(node: Any, called_directly: bool, result: Any) -> LoweredNode:
    """An FX node with its results, and the function that lowered it: the registered one, or the handler of fallbacks."""
    from torch._inductor.lowering import fallback_handler

    registered = _lowering_function(node) if node.op == "call_function" else None
    found = fallback_handler if called_directly else registered
    code = _code(found)
    value = node.meta.get("val")
    return LoweredNode(
        node=node.name,
        op=node.op,
        target=target_name(node.target),
        function=code.co_qualname if code else "",
        file=(in_package(code.co_filename) or code.co_filename) if code else "",
        line=code.co_firstlineno if code else 0,
        device=str(getattr(value, "device", "")),
        results=tuple(map(_result, _leaves(result))),
    )


def _is_called_directly(reason: FallbackReason | None) -> bool:
    """Whether the general steps of lowering called an operator directly, without its registered lowering."""
    if reason is None or not reason.decisions:
        return False
    return reason.decisions[0].file == GRAPH and not reason.registered


def _lowering_function(node: Any) -> Any:
    """What GraphLowering.call_function calls for a node, without the wrapper that torch puts around each lowering."""
    from torch._inductor import lowering

    target = node.target
    user = versions.user_lowerings().get(target)
    if user is not None:
        return inspect.unwrap(user)
    if target in lowering.lowerings:
        return inspect.unwrap(lowering.lowerings[target])
    return target if hasattr(target, "_inductor_lowering_function") else None


def _code(function: Any) -> CodeType | None:
    """The code of a function, of one inside functools.partial too."""
    while hasattr(function, "func"):
        function = function.func
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _leaves(result: Any) -> list[Any]:
    """Flatten a node's result: one value, or the values of a list or tuple."""
    return [one for part in result for one in _leaves(part)] if isinstance(result, (list, tuple)) else [result]


def _result(value: Any) -> LoweredResult:
    """Describe a result of lowering: the views around it, and the classes of what they wrap."""
    chain: list[str] = []
    while value is not None and hasattr(value, "data") and _is_box(value):
        chain.append(type(value).__name__)
        value = value.data
    name = getattr(value, "name", None)
    return LoweredResult(views=tuple(chain), classes=_classes(value), buffer=name if isinstance(name, str) else "")


def _is_box(value: Any) -> bool:
    from torch._inductor import ir

    return isinstance(value, (ir.MutableBox, ir.BaseView))


def _classes(value: Any) -> tuple[str, ...]:
    """The class of an IR node, and those that it is derived from in Inductor, without those that say nothing of it."""
    kind: Any = type(value)
    return _names(kind)


@lru_cache(maxsize=1024)
def _names(own: type) -> tuple[str, ...]:
    names = [kind.__name__ for kind in own.__mro__ if kind.__module__.startswith("torch._inductor")]
    return tuple(name for name in names if name == names[0] or name not in GENERAL) or (own.__name__,)


def _is_fallback(classes: Sequence[str]) -> bool:
    """Whether an operation calls an ATen operator for want of anything better; torch names these classes so."""
    return any(name == "FallbackKernel" or name.endswith("Fallback") for name in classes) and "_CollectiveKernel" not in classes


def _loop_order(operation: str, order: Sequence[int], sizes: Iterable[Any], to_match: str) -> LoopOrder:
    return LoopOrder(operation=operation, order=tuple(order), sizes=tuple(str(size) for size in sizes), to_match=to_match)


# Why a library is called -------------------------------------------------------------------------------------------------


def _hands_on(code: CodeType) -> bool:
    """Whether a function only makes what another decided on: constructors of the IR, wrappers, tree_map."""
    file = in_package(code.co_filename)
    name = code.co_qualname
    if not file.startswith("torch/_inductor/") or name in HANDING_ON:
        return True
    constructs = not set(name.split(".")).isdisjoint(CONSTRUCTORS) or code.co_name.startswith("<")
    return file == "torch/_inductor/ir.py" and constructs


def _is_handler(node: Any) -> bool:
    """Whether the lowering registered for a node is a fallback handler, which calls the operator itself."""
    function = _lowering_function(node) if node is not None and node.op == "call_function" else None
    return bool(getattr(function, "_is_fallback_handler", False))


@lru_cache(maxsize=256)
def listed_at(operator: str) -> str:
    """Find the statement in torch that makes an operator a fallback, as "file:line"; "" if there is none."""
    from torch._inductor import lowering, quantized_lowerings

    for module in (lowering, quantized_lowerings):
        text = inspect.getsource(module)
        for name in dict.fromkeys((operator, operator.rpartition(".")[0])):
            if name and (found := re.search(_LISTED.format(re.escape(name)), text)):
                return f"{in_package(module.__file__)}:{text.count(chr(10), 0, found.start()) + 1}"
    return ""


def _holds(tensor: Any, name: str) -> bool:
    value = getattr(tensor, name)
    return bool(value() if callable(value) else value)


class _Return:
    """Where a function returned: the last line that it came to, with the conditions on the way."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.refusal: Decision | None = None

    @contextmanager
    def watched(self, guard: Guard) -> Iterator[None]:
        """Watch the function where the block calls it; another profiler is not disturbed, and then the line is not known."""
        if sys.getprofile() is not None:
            yield
            return
        with guarding(guard):  # Python would raise an error of the profiler's in the function that it watches
            profile = guarded(lambda frame, event, value: None, lambda _: self._returned, "refusal")
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _returned(self, frame: FrameType, event: str, value: Any) -> None:
        if event == "return" and frame.f_code is self.code:
            refused = isinstance(value, (list, tuple)) and bool(value) and all(one is None for one in value)
            self.refusal = decision(frame) if refused else None


# What is observed --------------------------------------------------------------------------------------------------------

Observing = AbstractContextManager[None]


def _observed_if_any(owner: Any, name: str, observer: Callable[..., Any]) -> Observing:
    """Observe a function that not every torch has in that place: without it the rows that it tells of are not there."""
    return observed(owner, name, observer) if versions.has_function(owner, name) else nullcontext()


def _followed_if_any(owner: Any, name: str, after: Callable[..., object]) -> Observing:
    """Follow a function where this torch has it: Inductor calls it thousands of times, and only its result is needed."""
    return followed(owner, name, after) if versions.has_function(owner, name) else nullcontext()


def _of_nodes(logs: _Logs) -> Iterator[Observing]:
    """Each node as it is lowered, the operations that are registered, and the end of each graph."""
    from torch._inductor import graph

    def node_lowered(self: Any, node: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        log = logs.of(self)
        log.begin()
        lowered = False
        try:
            result = yield
            lowered = True
        finally:
            if lowered:
                log.end(node, result)
            else:
                log.failed()

    def registered(self: Any, operation: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        yield
        logs.of(self).registered(operation, sys._getframe(1))

    def lowered_all(self: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        lowered = False
        try:
            yield
            lowered = True
        finally:
            if not lowered:
                logs.attempt("graph", lambda: logs.close(self))

    def generated(self: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        try:
            yield
        finally:
            logs.attempt("graph", lambda: logs.close(self))

    kind = graph.GraphLowering
    yield observed(kind, "run_node", node_lowered)
    yield observed(kind, "register_operation", registered)
    yield observed(kind, "run", lowered_all)
    for name in versions.graph_generators():
        yield observed(kind, name, generated)


def _of_refusals(logs: _Logs) -> Iterator[Observing]:
    """What Inductor asks before it lowers a node to loops, and where the answer was no."""
    from torch._inductor import graph, ir, lowering

    guard = guard_here()

    def has_feature(answer: Any, self: Any, device: Any, feature: Any, *args: Any, **kwargs: Any) -> None:
        kind = getattr(device, "type", None) or str(getattr(device, "get_device", lambda: device)())
        logs.of(self).asks(f"has_feature({kind}, {getattr(feature, 'name', feature)})", answer)

    def taken(answer: Any, tensor: Any, *args: Any, **kwargs: Any) -> None:
        if answer:
            logs.now().cannot_take(tensor)

    def made_fallback(target: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        logs.now().unregistered(target)
        yield

    def refusing(code: CodeType) -> Callable[..., Generator[None, Any, None]]:
        def made(*args: Any, **kwargs: Any) -> Generator[None, Any, None]:
            place = _Return(code)
            with place.watched(guard):
                yield
            if place.refusal is not None:
                logs.now().refuses(place.refusal)

        return made

    yield _followed_if_any(graph.GraphLowering, "has_feature", has_feature)
    yield _observed_if_any(graph, "make_fallback", made_fallback)
    for name in ("unsupported_input_tensor", "unsupported_output_tensor"):
        yield _followed_if_any(lowering, name, taken)
    for kind in (ir.Scan, ir.Sort):
        yield observed(kind, "create", refusing(inspect.unwrap(kind.create).__code__))


def _of_reductions(logs: _Logs) -> Iterator[Observing]:
    """In how many parts each reduction is done."""
    from torch._inductor import choices, ir

    signature = inspect.signature(ir.Reduction.num_splits)

    def num_splits(*args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        log = logs.now()
        given = signature.bind(*args, **kwargs).arguments
        before = len(log.asked())
        answer = yield
        log.split(given["reduction_type"], given["ranges"], given["reduction_numel"], answer, before)

    def factor(*args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        answer = yield
        _, reduced, rows, *_ = args
        inner = kwargs.get("inner_reduction", args[3] if len(args) > 3 else None)
        logs.now().asks(f"reduction_split_factor(reduced {reduced}, rows {rows}, inner_reduction={inner})", answer)

    yield observed(ir.Reduction, "num_splits", num_splits)
    yield _observed_if_any(choices.InductorChoices, "reduction_split_factor", factor)


def _of_loops(logs: _Logs) -> Iterator[Observing]:
    """The order of loops: by strides when they are first made, and changed for a fusion."""
    from torch._inductor import ir, scheduler

    def simplified(self: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        log = logs.now()
        outer, log.ordering = log.ordering, str(getattr(self, "operation_name", "") or "")
        try:
            yield
        finally:
            log.ordering = outer

    def picked(order: Any, strides: Any, sizes: Any, *args: Any, **kwargs: Any) -> None:
        logs.now().ordered(order, sizes)

    def matched(self: Any, own: Any, other: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        before = list(self._sizes[0])
        order = own.decide_loop_order_to_match(other) if len(before) == own.num_vars == other.num_vars else None
        if (yield):
            logs.now().reordered(self, order or (), before, str(other.name))

    yield _observed_if_any(ir.ComputedBuffer, "simplify_and_reorder", simplified)
    yield _followed_if_any(scheduler, "pick_loop_order", picked)
    yield _observed_if_any(scheduler.SchedulerNode, "reorder_loops_by_dep_pair", matched)


def _of_kernels(logs: _Logs) -> Iterator[Observing]:
    """How the loops of each kernel are tiled."""
    from torch._inductor.codegen import cpp

    def defined(_: Any, source: Any, nodes: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        name = yield
        kernel = kwargs.get("kernel", args[0] if args else None)
        if isinstance(getattr(kernel, "numels", None), dict):
            logs.now().tiled(_triton_tiling(str(name), kernel, nodes))

    def written_loops(self: Any, nodes: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        log = logs.now()
        outer, log.loops_of = log.loops_of, tuple(node.get_name() for node in nodes)
        try:
            yield
        finally:
            log.loops_of = outer

    def selected(self: Any, functions: Any, sizes: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        factors, dimensions, *_ = yield
        log = logs.now()
        by_dimension = {str(dimension): str(by) for dimension, by in zip(dimensions, factors, strict=True)}
        log.tiled(Tiling(kernel="", operations=log.loops_of, tiling=by_dimension, candidates=(), scores={}))

    for kind in defining_kernels():
        yield observed(kind, "define_kernel", defined)
    yield _observed_if_any(cpp.CppKernelProxy, "codegen_nodes", written_loops)
    yield _observed_if_any(getattr(cpp, "TilingSelect", None), "select_tiling", selected)


def _triton_tiling(name: str, kernel: Any, nodes: Any) -> Tiling:
    """A Triton kernel's tiling, the candidates that its nodes give, and the scores of Inductor's analysis of coalescing."""
    parts = [node for node in nodes if hasattr(node, "get_nodes")]
    return Tiling(
        kernel=name,
        operations=tuple(dict.fromkeys(part.get_name() for node in parts for part in node.get_nodes())),
        tiling={prefix: str(size) for prefix, size in kernel.numels.items()},
        candidates=tuple(_candidates(kernel, parts)),
        scores={prefix: str(score) for prefix, score in (getattr(kernel, "tiling_scores", None) or {}).items()},
    )


def _candidates(kernel: Any, nodes: Iterable[Any]) -> Iterator[CandidateTiling]:
    """The tilings that Inductor's heuristic on strides makes of each node: Inductor's cached answers."""
    from torch._inductor.codegen.simd import SIMDScheduling

    features = getattr(kernel, "features", None)
    numel, reduced = getattr(features, "numel", None), getattr(features, "reduction_numel", None)
    if numel is None or getattr(kernel, "tiling_scores", None):
        return
    seen: list[CandidateTiling] = []
    for node in nodes:
        if getattr(node, "_body", None) is None:  # a template's node, which has no loops of its own
            continue
        for one in SIMDScheduling.candidate_tilings(node, numel, reduced):
            row = CandidateTiling(tiling={prefix: str(size) for prefix, size in one.tiling.items()}, score=str(one.score))
            if row not in seen:
                seen.append(row)
                yield row
