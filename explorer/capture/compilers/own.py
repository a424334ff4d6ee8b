"""A backend of one's own, a callable `(gm, example_inputs)`: the graphs it is handed, the graph it gives back, what ran.

It may take Dynamo's graph, or hand it to AOTAutograd with compilers of its own: then each of these is observed. What Inductor
compiles for it is Inductor's, whose stages say all.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, MappingProxyType, MethodType
from typing import Any

from explorer.capture.compilers.torch_compile import registered_backends
from explorer.capture.observe.aot import emit_aot_graph, is_inductors
from explorer.capture.observe.compile_calls import innermost_backend
from explorer.capture.observe.failed import Noting, failed_graph
from explorer.capture.observe.fx_copy import graph_facts
from explorer.capture.observe.patch import Guard, guard_here, guarded, guarding, replaced, shielded
from explorer.capture.observe.patch import observed as observed_in_torch
from explorer.capture.observe.places import in_package
from explorer.capture.observe.versions import compiles_in_stages
from explorer.model.stage import Emit

#: The graph that each of AOTAutograd's compilers is given.
GRAPHS: Mapping[str, str] = MappingProxyType(
    {"fw_compiler": "forward", "bw_compiler": "backward", "inference_compiler": "inference"}
)
#: What Dynamo's graph is called where a backend runs it without AOTAutograd.
DYNAMO = "dynamo"
PYTORCH = "PyTorch"
#: How deep a callable is searched for the graphs that it keeps.
DEPTH = 3


def observed(backend: Callable[..., Any], name: str, emit: Emit, *, own: bool) -> Callable[..., Any]:
    """Wrap a backend so that the graphs it gets are emitted, and which engine ran its result how often.

    With `own` the backend is the user's, and the graph that it returns is emitted too. PyTorch's own backends return the graph
    that they got.
    """

    def compile_graph(gm: Any, inputs: Sequence[Any], **options: Any) -> Any:
        observer = _Observer(emit, guard_here(), own=own)
        with shielded(observer.compilers, observer.guard, "aot_stage2_compile"):
            compiled = backend(gm, inputs, **options)
        return compiled if observer.aot_autograd else observer.given_back(compiled, DYNAMO, inputs)

    functools.update_wrapper(compile_graph, backend, ("__module__", "__doc__"))
    compile_graph.__name__ = compile_graph.__qualname__ = name
    return compile_graph


@contextmanager
def recorded(emit: Emit) -> Iterator[None]:
    """Observe the backends that a recorded program brings itself: the graphs that each one gets and returns.

    The calls of the returned functions are not counted: the program keeps these functions after the recording.
    """
    from torch._dynamo.output_graph import OutputGraph

    guard = guard_here()  # in another thread, which may compile too, there is none

    def called(output: Any, gm: Any, inputs: Any, *rest: Any, **named: Any) -> Generator[None, Any, None]:
        if not _is_programs_own(output.compiler_fn):
            yield
            return
        observer = _Observer(emit, guard, own=True, counts=False)
        with shielded(observer.compilers, guard, "aot_stage2_compile"):
            compiled = yield
        if not observer.aot_autograd:
            observer.given_back(compiled, DYNAMO, inputs)

    with observed_in_torch(OutputGraph, "call_user_compiler", called):
        yield


def _is_programs_own(backend: Any) -> bool:
    """Whether a backend is the program's own: torch has none registered by its name."""
    backend = innermost_backend(backend)
    code = getattr(backend, "__code__", None)
    if code is not None and in_package(code.co_filename):
        return False  # what takes the graph for `aot_compile` and torch.export, and gives it back as it is
    name = getattr(backend, "compiler_name", None) or getattr(backend, "__name__", "")
    return name not in registered_backends()


class _Observer:
    """One call of a backend; `aot_autograd` is set when it hands the graph to AOTAutograd.

    With `counts` the returned function is wrapped, so that its calls are counted.
    """

    def __init__(self, emit: Emit, guard: Guard, *, own: bool, counts: bool = True) -> None:
        self.aot_autograd = False
        self.guard = guard
        self._counts = counts
        self._emit = emit
        self._own = own

    @contextmanager
    def compilers(self) -> Iterator[None]:
        """Observe the compilers that AOTAutograd is given inside the block, whenever it calls them."""
        from torch._functorch import aot_autograd

        if not compiles_in_stages():
            yield
            return

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            signature = inspect.signature(original)

            def aot_stage2_compile(*args: Any, **kwargs: Any) -> Any:
                self.aot_autograd = True
                given = signature.bind(*args, **kwargs)
                compilers = {name: given.arguments.get(name) or given.arguments["fw_compiler"] for name in GRAPHS}
                given.arguments.update({name: self._observed(compiler, GRAPHS[name]) for name, compiler in compilers.items()})
                return original(*given.args, **given.kwargs)

            return aot_stage2_compile

        with guarding(self.guard), replaced(aot_autograd, "aot_stage2_compile", make):
            yield

    def _observed(self, compiler: Any, graph: str) -> Any:
        """A compiler of AOTAutograd's, which emits its graph; Inductor's is left as it is, and has probes of its own."""
        if is_inductors(compiler):
            return compiler

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def compile_graph(gm: Any, inputs: Sequence[Any]) -> Any:
                with self._emit.during(graph):
                    emit_aot_graph(self._emit, gm, graph)
                    return self.given_back(original(gm, inputs), graph, inputs)

            return compile_graph

        with guarding(self.guard):
            return guarded(compiler, make, f"the backend's {graph} compiler")

    def given_back(self, compiled: Any, graph: str, inputs: Sequence[Any]) -> Any:
        """Return the compiler's result, wrapped to count its calls. The graphs that a user's own compiler keeps are emitted."""
        counted = [compiled]
        self._emit.attempt("execution", "given_back", lambda: counted.append(self._counted(compiled, graph, devices_of(inputs))))
        return counted[-1]

    def _counted(self, compiled: Any, graph: str, device: str) -> Any:
        if not callable(compiled) or _is_inductors(compiled) or (graph == DYNAMO and _is_aot_autograds(compiled)):
            return compiled
        for kept in dict.fromkeys(graphs_in(compiled)) if self._own else ():
            self._emit("compiled_fn", lambda gm=kept: graph_facts(gm))  # type: ignore[misc]
        if not self._counts:
            return compiled
        run = _Run(compiled, graph, self._emit)
        for engine, what in parts_of(compiled):
            facts = {"graph": graph, "engine": engine, "device": device, "what": what}
            self._emit.later("execution", lambda f=facts: {**f, "calls": run.calls, "why": run.why})  # type: ignore[misc]
        return run.function()


class _Run:
    """What a compiler gave back, how often it ran, and why it ended with an error."""

    def __init__(self, compiled: Callable[..., Any], graph: str, emit: Emit) -> None:
        self.calls = 0
        self.why = ""
        self._compiled = compiled
        self._graph = graph
        self._emit = emit

    def function(self) -> Callable[..., Any]:
        """A function that calls it, and takes its inputs as it does."""

        def run(*args: Any, **kwargs: Any) -> Any:
            with Noting(lambda error: self._emit.attempt("execution", "raised", lambda: self._note(error))):
                result = self._compiled(*args, **kwargs)
            self.calls += 1
            return result

        if getattr(self._compiled, "_boxed_call", False):
            run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _note(self, error: Exception) -> None:
        """Tell an error of the backend's from one of the program's, which PyTorch raises as it runs the program's operators."""
        engine = engine_of(self._compiled)
        self.why = f"it raised {type(error).__name__}: {error}".strip()
        if engine != PYTORCH:
            error.add_note(f"explorer: {engine}, which the backend gave back for the {self._graph} graph, raised it when called")
            self._emit.compile_failed(error, failed_graph(error, self._graph))


def engine_of(compiled: Callable[..., Any]) -> str:
    """What runs a graph: PyTorch, where that is the graph's own code or torch's, else the function or class, and its place."""
    function = _not_torchs(compiled, DEPTH)
    if function is None:
        return PYTORCH
    name = str(getattr(function, "__qualname__", None) or type(function).__qualname__).rpartition("<locals>.")[2]
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})" if code is not None else name


def _not_torchs(compiled: Any, depth: int) -> Any:
    """The function or object that runs a graph, inside what torch puts around it; None where the graph or torch does."""
    function = _innermost(compiled)
    if _is_graph(getattr(function, "__self__", function)) or not callable(function) or isinstance(function, type):
        return None
    if str(getattr(function, "__module__", "")).partition(".")[0] not in ("torch", "functorch"):
        return function
    inner = (_not_torchs(part, depth - 1) for part in _parts(function)) if depth else ()
    return next((found for found in inner if found is not None), None)


def parts_of(compiled: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """What runs each part of a graph: where PyTorch does, the functions that the graph calls and that are not torch's."""
    engine = engine_of(compiled)
    graph = next(graphs_in(compiled), None) if engine == PYTORCH else None
    nodes = [node for node in graph.graph.nodes if node.op == "call_function" and _is_users(node.target)] if graph else []
    yield engine, f"all but {', '.join(node.name for node in nodes)}" if nodes else "the whole graph"
    for node in nodes:
        yield engine_of(node.target), node.name


def _is_users(target: Any) -> bool:
    """Whether a node calls a function of the user's in Python: no operator, no function of torch's or of Python's."""
    function = inspect.unwrap(target)
    if not isinstance(function, FunctionType) or engine_of(function) == PYTORCH:
        return False
    return function.__module__ not in sys.stdlib_module_names


def graphs_in(value: Any, depth: int = DEPTH) -> Iterator[Any]:
    """The GraphModules that a callable keeps: it is one or a method of one, or its closure, arguments or fields have one."""
    value = _innermost(value)
    if _is_graph(value):
        yield value
    elif depth:
        for part in _parts(value):
            yield from graphs_in(part, depth - 1)


def _parts(value: Any) -> Sequence[Any]:
    """What a callable is made of, of those things that may keep a graph."""
    if isinstance(value, MethodType):
        return (value.__self__,)
    if isinstance(value, functools.partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    return list(vars(value).values()) if callable(value) and hasattr(value, "__dict__") and not isinstance(value, type) else ()


def _is_filled(cell: Any) -> bool:
    """Whether a variable of a closure has a value already."""
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _innermost(value: Any) -> Any:
    """A callable without what torch._dynamo.disable puts around it."""
    while (inner := getattr(value, "__dict__", {}).get("_torchdynamo_orig_callable")) is not None:
        value = inner
    return value


def _is_graph(value: Any) -> bool:
    import torch

    return isinstance(value, torch.fx.GraphModule)


def _is_inductors(compiled: Any) -> bool:
    """Whether this is what Inductor gives back for a graph; AOTAutograd asks it for more than a call."""
    from torch._inductor.output_code import OutputCode

    return isinstance(compiled, OutputCode)


def _is_aot_autograds(compiled: Any) -> bool:
    """Whether this is AOTAutograd's own function, whose inside is not known here."""
    return str(getattr(_innermost(compiled), "__module__", "")).startswith("torch._functorch")


def devices_of(inputs: Sequence[Any]) -> str:
    """The devices of a graph's inputs."""
    return ", ".join(sorted({str(value.device) for value in inputs if hasattr(value, "device")})) or "cpu"
