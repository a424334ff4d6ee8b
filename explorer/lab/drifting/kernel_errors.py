"""How far what a compiled program writes is from float64: each value of a launch that an FX node names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from explorer.analysis.questions.subgraph import LaunchedGraph, Port, Subgraph, graph_of
from explorer.capture.interpret.rounding import widened
from explorer.capture.interpret.shadows import NOWHERE, Place, distance_of, has_error, relative_error
from explorer.capture.observe.tensors import same_bits, wide_type
from explorer.capture.splice.launches import RecordedLaunch
from explorer.lab.bisecting.judged import Places, device_of, eager_function, recorded_parts
from explorer.lab.live.float64_reference import IMPOSSIBLE
from explorer.lab.live.protocol import Live
from explorer.model.shared import FxNode
from explorer.model.trace_data import TraceData, artifact_of
from explorer.process.under_way import step
from explorer.stages.fx_graph import NOWHERE as NO_STACK
from explorer.stages.fx_graph import places_of, stack_of


@dataclass(frozen=True)
class KernelValue:
    """A value that a launch wrote, and its error; None where it has no float64 value, and `note` says why.

    `node` is the FX node of the post-grad graph, and `place` the program's line that it comes from.
    """

    launch: int
    kernel: str
    node: str
    place: Place
    dtype: str
    error: float | None
    note: str = ""
    value: Any = field(default=None, compare=False, repr=False)


def kernel_values(trace: TraceData, live: Live, limit: float | None) -> list[KernelValue]:
    """Run what was compiled once, and compare each value that an FX node names with the node's value in float64.

    The graph between is computed in float64 from the inputs of the call, so errors add up as they do in the program.
    """
    calls = sorted(recorded_parts(trace, live, limit, "drift"), key=lambda parts: min((n for n, _, _ in parts if n), default=0))
    exact = _Exact(trace, device_of(live))
    return [value for parts in calls for value in exact.values_of(sorted(parts, key=lambda part: part[0]))]


class _Exact:
    """The float64 values of the graphs' nodes, from call to call."""

    def __init__(self, trace: TraceData, device: str) -> None:
        self._trace, self._device = trace, device
        #: What launches wrote, with its float64 value: a later graph may be given it.
        self._written: list[tuple[Any, Any]] = []

    def values_of(self, parts: list[tuple[int, Subgraph, Any]]) -> Iterator[KernelValue]:
        """The values of one call of a wrapper."""
        of_nodes: dict[str, Any] = {}
        for number, part, launches in parts:
            if launches:
                step(f"comparing {part.name} with float64")
                yield from self._of_part(number, part, launches, of_nodes)

    def _of_part(
        self, number: int, part: Subgraph, launches: list[RecordedLaunch], of_nodes: dict[str, Any]
    ) -> Iterator[KernelValue]:
        graph, places = graph_of(self._trace, artifact_of(self._trace, part.wrapper)), Places(part, launches)
        ports = [port for port in part.outputs if not port.why_not]
        outputs, note = None, "; ".join(part.unmatched)
        if part.code and not part.unmatched:
            try:
                outputs = self._computed(part, places, of_nodes)
            except IMPOSSIBLE as refused:
                note = f"{type(refused).__name__}: {refused}".partition("\n")[0]
        for place, port in enumerate(ports):
            value = places.tensor(port, after=True)
            error = None
            if outputs is not None and has_error(value) and outputs[place].shape == value.shape:
                of_nodes[port.node] = outputs[place]
                self._written.append((value, outputs[place]))
                error = relative_error(value, outputs[place].to(wide_type(value.dtype)))
            node = graph.nodes.get(port.node)
            dtype = port.dtype.removeprefix("torch.")
            yield KernelValue(number, part.steps[port.step].name, port.node, _place(graph, node), dtype, error, note, value)

    def _computed(self, part: Subgraph, places: Places, of_nodes: dict[str, Any]) -> Any:
        """Compute a part's nodes in float64."""
        import torch

        arguments = places.arguments()
        tensors = [self._exact_of(port, value, of_nodes) for port, value in zip(part.inputs, arguments, strict=False)]
        with torch.no_grad(), widened(()):
            return eager_function(part.code, self._device)(*tensors, *arguments[len(tensors) :])

    def _exact_of(self, port: Port, value: Any, of_nodes: dict[str, Any]) -> Any:
        """The float64 value of an input; where nothing is known of it, the value itself."""
        exact = of_nodes.get(port.node)
        if exact is not None and exact.shape == value.shape:
            return exact.clone()
        if not has_error(value):
            return value.clone()
        for written, known in reversed(self._written):
            if written.dtype == value.dtype and written.shape == value.shape and same_bits(written, value):
                return known.clone()
        return value.to(wide_type(value.dtype), copy=True)


def _place(graph: LaunchedGraph, node: FxNode | None) -> Place:
    """The program's innermost line that a node comes from; without a stack, as in a bare torch.nn module, the module alone."""
    if node is None or graph.fx is None:
        return NOWHERE
    places = [place for place in reversed(places_of(stack_of(graph.fx, node.stack))) if distance_of(place.file) < 2]
    place = min(places, key=lambda place: distance_of(place.file), default=NO_STACK)
    return Place(place.file, place.line, place.code, node.module or "", graph.fx.graph == "backward")


__all__ = ["KernelValue", "kernel_values"]
