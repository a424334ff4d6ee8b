"""A launch that is off, alone: all that it is given, launched again with these numbers or with others, beside its eager nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from explorer.analysis.questions.subgraph import Port, Subgraph, narrowed
from explorer.capture.absent.cuda_on_cpu import on_the_cpu
from explorer.capture.absent.generated import Code, interpreted
from explorer.capture.observe.tensors import same_bits
from explorer.capture.splice.launches import RecordedLaunch, copied
from explorer.capture.splice.trial_process import launcher
from explorer.capture.splice.wrappers import LoadedWrapper
from explorer.lab.bisecting.judged import Places, eager_function
from explorer.lab.live.protocol import Live
from explorer.lab.scripts import parts
from explorer.model.records import typed
from explorer.model.shared import OutputCode
from explorer.model.trace_data import TraceData, artifact_of

#: Launch a kernel by its name in the wrapper, or call a library: what it returns.
Launch = Callable[[str, Sequence[Any], Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Slots:
    """The positions of one launch's arguments among the values of a case, and the position for its result, None for nowhere."""

    arguments: tuple[int, ...]
    keywords: Mapping[str, int]
    result: int | None = None


@dataclass(frozen=True)
class Place:
    """Where a node's tensor is: the number of the value, and how its memory is that tensor, None where it is as it is.

    `layout` is shape, strides, and how many elements before the value's first it begins. `after` the launch it is there.
    """

    name: str
    value: int
    layout: tuple[tuple[int, ...], tuple[int, ...], int] | None = None
    after: bool = False

    def of(self, values: Sequence[Any]) -> Any:
        """The node's tensor."""
        value = values[self.value]
        if self.layout is None:
            return value
        shape, stride, base = self.layout
        return value.as_strided(shape, stride, value.storage_offset() - base)


@dataclass(frozen=True)
class Case:
    """A launch that is off, or several that pass each other memory, and the eager nodes that lead to the wrong outputs.

    `values` are the arguments of all launches, in order. Values that share memory in the program also share it here.
    """

    part: Subgraph
    values: tuple[Any, ...] = field(repr=False)
    slots: tuple[Slots, ...]
    inputs: tuple[Place, ...]
    sizes: tuple[int, ...]
    outputs: tuple[Place, ...]

    def launched(self, values: Sequence[Any], launch: Launch) -> Compared:
        """Launch with some values, which are left as they are, and compute the eager nodes on the same."""
        import torch

        before, after = list(copied(tuple(values))), list(copied(tuple(values)))
        with torch.no_grad():
            for site, slots in zip(self.part.steps, self.slots, strict=True):
                returned = launch(
                    site.name, [after[n] for n in slots.arguments], {k: after[n] for k, n in slots.keywords.items()}
                )
                if slots.result is not None:
                    after[slots.result] = returned
            inputs = self.inputs_of(before, after)
            return Compared(inputs, [place.of(after) for place in self.outputs])

    def inputs_of(self, before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
        """The inputs of the eager code: tensors, and sizes after them."""
        return [*(place.of(after if place.after else before) for place in self.inputs), *self.sizes]


@dataclass(frozen=True)
class Compared:
    """The inputs of the eager nodes, and what the launch wrote in their place."""

    inputs: list[Any]
    given: list[Any]

    def off(self, eager: Callable[..., Any]) -> list[Any]:
        """For each output which elements are off, as the script judges it; None where shape or type are others."""
        import torch

        judge = judging()
        with torch.no_grad():
            right = eager(*copied(tuple(self.inputs)))
            exact = judge["in_float64"](lambda wide: eager(*wide), self.inputs)
        masks = []
        for number, (one, other) in enumerate(zip(self.given, right, strict=True)):
            same = one.shape == other.shape and one.dtype == other.dtype
            masks.append(judge["elements_off"](one, other, exact[0][number] if exact else None)[0] if same else None)
        return masks


def judging() -> dict[str, Any]:
    """The functions of the scripts' harness, to judge here as a script does."""
    import statistics
    import time

    import torch

    space: dict[str, Any] = {
        "torch": torch,
        "math": math,
        "statistics": statistics,
        "time": time,
        "Any": Any,
        "Callable": Callable,
    }
    exec(compile(parts.harness("inputs", "check"), "<harness of scripts>", "exec"), space)
    return space


# Making it ---------------------------------------------------------------------------------------------------------------


def case_of(trace: TraceData, part: Subgraph, launches: Sequence[RecordedLaunch], nodes: Sequence[str]) -> Case:
    """The case of recorded launches, with no more of the eager nodes than leads to `nodes`, which are off."""
    values: list[Any] = []
    slots: list[Slots] = []
    for launch in launches:
        begin = len(values)
        values += launch.before
        keywords = {name: len(values) + n for n, name in enumerate(launch.keywords) if name != "stream"}
        values += [value for name, value in launch.keywords.items() if name != "stream"]
        result = None
        if launch.result is not None:
            result = len(values)
            values.append(None)
        slots.append(Slots(tuple(range(begin, begin + len(launch.before))), keywords, result))
    small, places = narrowed(trace, part, nodes), Places(part, launches)

    def place(port: Port, *, after: bool) -> Place:
        of = slots[port.step]
        named = f"{port.parameter} ({port.node})"
        if port.argument is not None:
            return Place(named, of.arguments[port.argument], places.layout(port), after)
        where = of.keywords["out"] if port.parameter == "out" else of.result
        assert where is not None
        return Place(named, where, places.layout(port), after)

    return Case(
        small,
        tuple(_sharing(part, launches, slots, values)),
        tuple(slots),
        tuple(place(port, after=port.after) for port in small.inputs),
        tuple(places.size(size) for size in small.sizes),
        tuple(place(port, after=True) for port in small.outputs if not port.why_not),
    )


def _sharing(part: Subgraph, launches: Sequence[RecordedLaunch], slots: Sequence[Slots], values: list[Any]) -> list[Any]:
    """The values, where a later launch has the memory of an earlier one, as that left it, on the earlier one's memory."""
    import torch

    left: dict[str, tuple[Any, Any]] = {}
    shared = list(values)
    for site, launch, of in zip(part.steps, launches, slots, strict=True):
        for number, (text, value) in enumerate(zip(site.arguments, launch.before, strict=False)):
            name = next(reversed(site.names_of(text)), "")
            if not isinstance(value, torch.Tensor) or not name:
                continue
            mine, was = left.get(name, (None, None))
            if mine is not None and same_bits(_bytes(was), _bytes(value)):
                here = torch.empty(0, dtype=value.dtype, device=value.device)
                shared[of.arguments[number]] = here.set_(
                    mine.untyped_storage(), value.storage_offset(), value.shape, value.stride()
                )
        for number, text in enumerate(site.arguments):
            name = next(reversed(site.names_of(text)), "")
            if name and number < len(launch.after) and isinstance(launch.after[number], torch.Tensor):
                left[name] = shared[of.arguments[number]], launch.after[number]
    return shared


def _bytes(tensor: Any) -> Any:
    """All bytes of a tensor's memory."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


# Launching it ------------------------------------------------------------------------------------------------------------


@contextmanager
def launching(trace: TraceData, live: Live, part: Subgraph) -> Iterator[Launch]:
    """Yield a function that launches the kernels of a part's wrapper, with the edits that are in place now."""
    file = typed(OutputCode, artifact_of(trace, part.wrapper).data).file
    wrapper = next(each for each in live.wrappers if each.file == file)
    if isinstance(wrapper, Code):
        with interpreted() as wrappers:
            yield _launching(wrappers.space(wrapper), wrapper.target.device)
        return
    assert isinstance(wrapper, LoadedWrapper)
    yield _launching(vars(wrapper.module))


def _launching(space: Mapping[str, Any], absent: str = "") -> Launch:
    """What launches by the names of a wrapper; with the device of a GPU you don't have libraries run on the CPU."""

    def launch(name: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        root, *path = name.split(".")
        function = space[root]
        for attribute in path:
            function = getattr(function, attribute)
        with on_the_cpu(absent) if absent and path else nullcontext():
            return launcher(function)(*args, **keywords)

    return launch


def eager_of(case: Case, live: Live) -> Callable[..., Any]:
    """The eager nodes of a case as a function."""
    return eager_function(case.part.code, "" if live.absent is None else live.absent.device)
