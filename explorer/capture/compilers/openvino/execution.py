"""Run a graph that OpenVINO's backend partitioned; note what OpenVINO compiles of it, and which parts PyTorch runs in its place.

The backend compiles a part when it is first called. Where that fails, or a call of it, the part's GraphModule runs instead, then
and from then on. A hook of that GraphModule counts such calls, and finds OpenVINO's error under way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from explorer.capture.compilers.openvino.models import executed_facts, ir_facts
from explorer.capture.compilers.openvino.partition import Part, Partition
from explorer.capture.observe.patch import guard_here, observed, shielded
from explorer.model.stage import Emit
from explorer.stages.torch_compile.execution import ExecutedPart

#: How many operators of a part are named in a row.
NAMED = 6


class PartError(RuntimeError):
    """OpenVINO could not compile or run a part; the message is its own."""


class PartitionedGraph:
    """A graph as OpenVINO's backend calls it. Called with the graph's inputs, it returns the graph's results.

    `frame` is the compile id of the graph's frame: events of the graph's first calls are recorded under it.
    """

    def __init__(self, call: Callable[..., Any], partition: Partition, emit: Emit, frame: str, graph: str, device: str) -> None:
        self.calls = 0
        self._call, self._partition, self._emit = call, partition, emit
        self._frame, self._graph, self._device = frame, graph, device
        self._guard = guard_here()
        for part in partition.parts:
            part.module.register_forward_pre_hook(partial(_runs_on_pytorch, part, emit))

    def function(self) -> Callable[..., Any]:
        """Return a function that is called like the one from OpenVINO's backend.

        AOTAutograd reads from its attributes how the inputs are given.
        """

        def call(*inputs: Any) -> Any:
            return self(*inputs)

        vars(call).update(vars(self._call))
        return call

    def __call__(self, *inputs: Any) -> Any:
        """The results of the graph, in OpenVINO's buffers."""
        unsettled = [part for part in self._partition.parts if not part.settled]
        if unsettled:
            with self._emit.within(self._frame), self._emit.during(self._graph):
                with shielded(partial(self._compiles_observed, unsettled), self._guard, "openvino_compile"):
                    results = self._call(*inputs)
            self._emit_executed(unsettled)
        else:
            results = self._call(*inputs)
        self.calls += 1
        return results

    def rows(self) -> Iterator[Callable[[], ExecutedPart]]:
        """Yield functions that make the rows when the recording ends: of each part, and of operators left to PyTorch."""
        yield from (partial(self._row, part) for part in self._partition.parts)
        yield from (partial(self._row_left, names, why) for why, names in self._partition.left.items())
        if not self._partition.parts and not self._partition.left:
            yield partial(self._row_left, (), "the graph has no operators")

    # What OpenVINO compiles ----------------------------------------------------------------------------------------------

    @contextmanager
    def _compiles_observed(self, parts: Sequence[Part]) -> Iterator[None]:
        """Note the model of each part that is compiled inside the block, as it is handed to OpenVINO, and what comes back."""
        from openvino import Core
        from openvino.frontend.pytorch.torchdynamo import execute

        under_way: list[Part] = []

        def compiles(gm: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
            under_way[:] = [part for part in parts if part.module is gm]
            compiled = yield
            for part in under_way:
                part.compiled = compiled

        def handed(core: Any, model: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
            for part in under_way:
                self._emit("openvino_ir", partial(ir_facts, part.name, model))
            yield

        with ExitStack() as stack:
            stack.enter_context(observed(execute, "openvino_compile", compiles))
            stack.enter_context(observed(Core, "compile_model", handed))
            yield

    def _emit_executed(self, parts: Sequence[Part]) -> None:
        """Emit the graph that OpenVINO executed of each part, which has all kernels only after a call."""
        with self._emit.within(self._frame), self._emit.during(self._graph):
            for part in parts:
                if part.compiled is not None:
                    self._emit("openvino_executed", partial(executed_facts, part.name, part.compiled))

    # What PyTorch runs ---------------------------------------------------------------------------------------------------

    def _row(self, part: Part) -> ExecutedPart:
        """What ran a part, and how often."""
        engine = "OpenVINO"
        why = part.error
        if part.pytorch_calls:
            engine = "PyTorch" if part.pytorch_calls == self.calls else "OpenVINO and PyTorch"
            why = f"OpenVINO raised {part.error}" if engine == "PyTorch" else f"{part.pytorch_calls} on PyTorch: {part.error}"
        device = self._device if engine == "OpenVINO" else "cpu"
        what = f"{part.name} ({named(part.operators)})"
        return ExecutedPart(graph=self._graph, engine=engine, device=device, what=what, calls=self.calls, why=why)

    def _row_left(self, names: Sequence[str], why: str) -> ExecutedPart:
        """The operators that PyTorch ran, because no part has them."""
        what = named(names) or "the whole graph"
        return ExecutedPart(graph=self._graph, engine="PyTorch", device="cpu", what=what, calls=self.calls, why=why)


def named(names: Sequence[str]) -> str:
    """Operators by name, of many the first and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _runs_on_pytorch(part: Part, emit: Emit, module: Any, arguments: Any) -> None:
    """Count a call of a part that PyTorch runs, and keep the error why, which is being handled in the first of them."""
    part.pytorch_calls += 1
    error = sys.exception()
    if not part.error and error is not None:
        emit.attempt("openvino_ir", part.name, partial(_fail, part, error))


def _fail(part: Part, error: BaseException) -> None:
    part.error = type(error).__name__
    part.error = " ".join(f"{part.error}: {error}".split())
    raise PartError(f"PyTorch runs {part.name}, because OpenVINO could not: {part.error}")
