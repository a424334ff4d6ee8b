"""Observe IREE Turbine's own backends, `turbine_cpu` and `iree_turbine`, which torch registers and IREE runs.

They are left as they are: what is shown is the module that Turbine hands to IREE, compiled once more beside it for the texts of
its phases. Turbine decomposes the graph once more before it imports it, and its module states no locations, so that nothing of
it is linked to the graph.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from explorer.capture.observe.aot import aot_graph_of, emit_aot_graph
from explorer.capture.observe.patch import followed
from explorer.model.stage import Emit

if TYPE_CHECKING:  # IREE's modules are imported when Turbine compiles: every trace with IREE installed imports this one
    from explorer.capture.compilers.iree.importing import Imported

#: The names of the backends, and the module that has them; it is imported when torch first looks one of them up.
REGISTERED = ("turbine_cpu", "iree_turbine")
MODULE = "iree.turbine.dynamo.backends.base"
#: The device that these backends run on here.
DEVICE = "cpu"


@contextmanager
def turbine(emit: Emit) -> Iterator[None]:
    """Record what Turbine's backends hand to IREE, and how often IREE ran it; Turbine is not imported for that."""
    from torch._dynamo.backends import registry

    with ExitStack() as stack:
        watch = _Watch(emit, stack)

        def looked_up(backend: Any, name: Any) -> None:
            if name in REGISTERED:
                watch.begin()

        stack.enter_context(followed(registry, "lookup_backend", looked_up))
        watch.begin()
        yield


class _Watch:
    """The observation of Turbine, from its import until the stack ends."""

    def __init__(self, emit: Emit, stack: ExitStack) -> None:
        self._emit = emit
        self._stack = stack
        self._begun = False
        self._graph = ""
        self._calls: dict[int, int] = {}
        self._launchables: list[Any] = []  # held, so that the identity of each stays its own

    def begin(self) -> None:
        """Observe Turbine, if it is imported and not observed yet."""
        if self._begun or MODULE not in sys.modules:
            return
        from iree.turbine.runtime.launch import Launchable

        def jit_compiled(launchable: Any, source: Any, **options: Any) -> None:
            self._compiled(launchable, source)

        self._begun = True
        base = sys.modules[MODULE]
        self._stack.enter_context(followed(base, "turbine_cpu_pass_pipeline", self._handed))
        self._stack.enter_context(followed(Launchable, "jit_compile", jit_compiled))
        self._stack.enter_context(followed(Launchable, "__call__", self._called))

    def _handed(self, decomposed: Any, gm: Any, inputs: Any) -> None:
        """AOTAutograd handed a graph over."""
        self._graph = aot_graph_of(gm)
        with self._emit.during(self._graph):
            emit_aot_graph(self._emit, gm, self._graph)

    def _compiled(self, launchable: Any, source: Any) -> None:
        """Turbine made a module of it, and will have IREE compile that for its device."""
        graph, self._graph = self._graph, ""
        if not graph:
            return  # not of these backends
        from explorer.capture.compilers.graph_copy import Results
        from explorer.capture.compilers.iree.importing import Imported

        self._launchables.append(launchable)
        self._calls[id(launchable)] = 0
        with self._emit.during(graph):
            module = Imported(text=str(source), nodes=(), results=Results.of(()))
            self._emit("iree_torch", lambda: {"text": module.text, "fx_nodes": module.nodes})
            self._emit.attempt("iree_vmfb", "phases", partial(_emit_phases, self._emit, module))
            self._emit.later("execution", lambda: self._row(graph, launchable))

    def _called(self, result: Any, launchable: Any, *inputs: Any, **options: Any) -> None:
        """IREE ran a module."""
        if id(launchable) in self._calls:
            self._calls[id(launchable)] += 1

    def _row(self, graph: str, launchable: Any) -> dict[str, Any]:
        calls = self._calls[id(launchable)]
        return {"graph": graph, "engine": "IREE", "device": DEVICE, "what": "the whole graph", "calls": calls, "why": ""}


def _emit_phases(emit: Emit, module: Imported) -> None:
    """Compile Turbine's module as Turbine does, for the texts; IreeError, with IREE's words, where it cannot be."""
    import torch
    from iree.turbine.runtime.device import get_device_from_torch

    from explorer.capture.compilers.iree.backend import IreeError, emit_texts
    from explorer.capture.compilers.iree.compile import compiled

    made = compiled(module.text, target=get_device_from_torch(torch.device(DEVICE)).compile_target_flags)
    emit_texts(emit, module, made)
    if made.error:
        raise IreeError(made.error)
