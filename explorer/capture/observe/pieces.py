"""Observe the pieces into which a backend splits Dynamo's graph, each of which Inductor compiles by itself.

vLLM and SGLang split at attention and call `standalone_compile` or `compile_fx` for each piece, and again for some sizes. All
that happens inside one compile of Dynamo's, or after it. Each call gets a frame of its own here, or their texts would mix.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from explorer.capture.observe.aot import type_of
from explorer.capture.observe.compile_calls import innermost_backend
from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.fx_copy import graph_facts
from explorer.capture.observe.patch import followed, observed
from explorer.model.records import keys_of, typed
from explorer.model.stage import Emit
from explorer.stages.fx_graph import FxGraphText
from explorer.stages.torch_compile.piece import PieceText

#: The module of the backend that splits a graph into the buckets of DistributedDataParallel.
DDP_OPTIMIZER = "torch._dynamo.backends.distributed"


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the graph of a frame: the attribute that holds it, and the node of the whole graph that each node stands for."""

    frame: str
    name: str
    origins: Mapping[str, str]


class _UnderWay(threading.local):
    """What a thread is at: Dynamo's graph that a backend has, the frame of a piece, and the last cache key of its compile."""

    whole: Any = None
    frame = ""
    key = ""


class PieceWatch:
    """Knows the parts of split graphs and how often each was compiled."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._here = _UnderWay()
        self._parts: WeakKeyDictionary[Any, _Part] = WeakKeyDictionary()
        self._compiles: Counter[tuple[str, str]] = Counter()

    def handed(self, output: Any, graph: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Note the graph that Dynamo hands to a backend; not to DDPOptimizer, whose buckets are graphs of one frame."""
        backend = innermost_backend(output.compiler_fn)
        self._here.whole = None if getattr(backend, "__module__", "") == DDP_OPTIMIZER else graph
        try:
            yield
        finally:
            self._here.whole = None

    def made(self, _: None, module: Any, *args: Any, **kwargs: Any) -> None:
        """Note the parts that a graph holds which a backend made."""
        from torch.fx import GraphModule

        whole = self._here.whole
        if whole is None or module is whole:
            return
        for name, child in module.named_children():
            if isinstance(child, GraphModule) and child is not whole and child not in self._parts:
                self._parts[child] = _Part(current_compile_id(), name, origins(child.graph, whole.graph))

    def copied(self, copy: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        """Note a copy as what it is a copy of: Inductor changes the graph that it is handed, so backends hand it a copy."""
        if module in self._parts:
            self._parts[copy] = self._parts[module]

    def keyed(self, key: Any, *args: Any, **kwargs: Any) -> None:
        """Note the first key of a compile; for a GPU you don't have a second compile follows, for this machine."""
        if key and self._here.frame and not self._here.key:
            self._here.key = str(key[0])

    def compiled(self, graph: Any, inputs: Sequence[Any] = (), *args: Any, **kwargs: Any) -> Iterator[None]:
        """Count what happens while a part is compiled to a frame of its own, and record the part."""
        from torch.fx import GraphModule

        part = self._parts.get(graph) if isinstance(graph, GraphModule) else None
        if part is None or self._here.frame:
            yield
            return
        number = self._compiles[part.frame, part.name]
        self._compiles[part.frame, part.name] += 1
        self._here.frame, self._here.key = f"{part.frame} {part.name}/{number}", ""
        with self._emit.within(self._here.frame), ExitStack() as stack:
            describe = partial(self._described, graph, part, inputs)
            self._emit.attempt("piece", "record", lambda: stack.push(partial(self._ended, describe())))
            stack.callback(setattr, self._here, "frame", "")
            yield

    def _described(self, graph: Any, part: _Part, inputs: Sequence[Any]) -> Callable[[str, str], PieceText]:
        """Copy what the record of a piece needs, but for the key and what stopped its compile."""
        facts, types, spans = graph_facts(graph), tuple(map(input_type, inputs)), ranges(inputs)

        def piece(key: str, stopped: str) -> PieceText:
            made = typed(FxGraphText, facts() if callable(facts) else facts)
            return PieceText(
                **{name: getattr(made, name) for name in keys_of(FxGraphText)},
                name=part.name,
                of_frame=part.frame,
                origins=part.origins or None,
                inputs=types,
                ranges=spans,
                key=key,
                stopped=stopped,
            )

        return piece

    def _ended(self, piece: Callable[[str, str], PieceText], error: type[BaseException] | None, *_: object) -> None:
        """Record a piece whose compile ended, with an error or without."""
        key, stopped = self._here.key, error.__name__ if error is not None else ""
        self._emit("piece", lambda: lambda: piece(key, stopped))


@contextmanager
def pieces(emit: Emit) -> Iterator[None]:
    """Record each part of a split graph that Inductor is handed, and count what happens in its compile to a frame of its own."""
    from torch._dynamo.output_graph import OutputGraph
    from torch._functorch._aot_autograd import autograd_cache
    from torch._inductor import compile_fx
    from torch.fx import GraphModule

    watch = PieceWatch(emit)
    with ExitStack() as stack:
        stack.enter_context(observed(OutputGraph, "call_user_compiler", watch.handed))
        stack.enter_context(followed(GraphModule, "__init__", watch.made))
        stack.enter_context(followed(GraphModule, "__deepcopy__", watch.copied))
        stack.enter_context(followed(autograd_cache, "autograd_cache_key", watch.keyed))
        stack.enter_context(observed(compile_fx, "compile_fx", watch.compiled))
        yield


def origins(part: Any, whole: Any) -> dict[str, str]:
    """Map each node of a part to the node of the whole graph with its value: split_module gives it another name."""
    names: dict[int, str] = {}
    shared: set[int] = set()
    for node in whole.nodes:
        value = id(node.meta.get("example_value"))
        if value in names:
            shared.add(value)  # such as of an operator in place
        names[value] = node.name
    values = ((node.name, node.meta.get("example_value")) for node in part.nodes if node.op != "output")
    return {name: names[id(value)] for name, value in values if _is_own(value) and id(value) in names and id(value) not in shared}


def _is_own(value: Any) -> bool:
    """Whether one node alone can have made a value: a number or a text may be any node's."""
    return value is not None and not isinstance(value, (bool, int, float, str, bytes))


def input_type(value: Any) -> str:
    """Write a tensor's dtype and sizes, such as "float32[s72, 16]", and a number or a symbol as it is."""
    import torch

    return str(value) if isinstance(value, (int, torch.SymInt)) else type_of(value)


def ranges(inputs: Sequence[Any]) -> dict[str, tuple[str, str]]:
    """The least and the greatest value of each symbol in the sizes of some inputs, as the shape environment has them."""
    import torch

    spans: dict[str, tuple[str, str]] = {}
    for value in inputs:
        for size in value.shape if hasattr(value, "dtype") else (value,):
            if isinstance(size, torch.SymInt):
                for symbol in sorted(size.node.expr.free_symbols, key=str):
                    span = size.node.shape_env.var_to_range[symbol]
                    lower, upper = ("" if "oo" in str(bound) else str(bound) for bound in (span.lower, span.upper))
                    spans[str(symbol)] = lower, upper
    return spans
