"""Find the kernels that compute something else than the graph says: each is judged alone, on the inputs that it was given.

A kernel's launch is recorded with its arguments from before and after. The eager subgraph that it computes runs on those from
before, and what the kernel wrote is judged by it as a check judges. So an error of an earlier kernel is not held against a later
one, and rounding does not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from explorer.analysis.questions.subgraph import NAMES, Port, Size, Subgraph, all_wrappers, regions
from explorer.capture.absent.cuda_on_cpu import on_the_cpu
from explorer.capture.splice.launches import RecordedLaunch
from explorer.lab.live.call import Call
from explorer.lab.live.check_rows import CheckRow, compared
from explorer.lab.live.float64_reference import IMPOSSIBLE
from explorer.lab.live.outcome import Outcome, Part, outcome_of
from explorer.lab.live.protocol import Live, check_unedited
from explorer.model.integers import value_of as number_of
from explorer.model.records import typed
from explorer.model.shared import OutputCode
from explorer.model.syntax import parsed_expression
from explorer.model.trace_data import TraceData
from explorer.process.under_way import step as under_way

#: Why an output of a launch was not compared.
NOT_RUN = "not launched in the traced call"


@dataclass(frozen=True)
class JudgedOutput:
    """One buffer, written by a launch or by several that belong together, and the judgement of its value.

    `number` is the launch's number in the call, from 1, in order. `port` is None if nothing could be matched. `launches` are
    the recorded launches.
    """

    number: int
    part: Subgraph
    port: Port | None
    row: CheckRow
    launches: Sequence[RecordedLaunch] = field(default=(), repr=False, compare=False)


def judged_launches(trace: TraceData, live: Live, limit: float | None = None) -> list[JudgedOutput]:
    """Run the traced call once, and judge all that its kernels and library calls write, in the order of their launch."""
    judged: list[JudgedOutput] = []
    for calls in recorded_parts(trace, live, limit, "bisect"):
        for number, part, recorded in calls:
            under_way(f"judging {part.name}")
            judged += _Judging(number, part, recorded, device_of(live)).outputs()
    return sorted(judged, key=lambda output: output.number)


def recorded_parts(trace: TraceData, live: Live, limit: float | None, verb: str) -> Iterator[Calls]:
    """Run the traced call once, and yield the launches of each call of a wrapper, by the part that they belong to."""
    check_unedited(live, all_wrappers(trace), verb)
    parts = {typed(OutputCode, wrapper.data).file: regions(trace, wrapper) for wrapper in all_wrappers(trace)}
    by_file = {wrapper.file for wrapper in live.wrappers}
    names = {(file, site.name) for file, found in parts.items() if file in by_file for part in found for site in part.steps}
    yield from _calls(live.launches(sorted(names), limit=limit), parts)


def device_of(live: Live) -> str:
    """The device of the code's operators that are to run on the CPU, "" where they run as they are."""
    return "" if live.absent is None else live.absent.device


#: A number in the order of launches, what is launched, and each launch of it.
Calls = list[tuple[int, Subgraph, Sequence[RecordedLaunch]]]


def _calls(launches: Sequence[RecordedLaunch], parts: Mapping[str, Sequence[Subgraph]]) -> Iterator[Calls]:
    """Group the launches by the call of their wrapper, and there by the part that they belong to."""
    counts = {(file, site.name): 0 for file, found in parts.items() for part in found for site in part.steps}
    for file, found in parts.items():
        for part in found:
            for site in part.steps:
                counts[file, site.name] += 1
    seen: dict[tuple[str, str], int] = {}
    places: dict[tuple[str, int, str, int], tuple[int, RecordedLaunch]] = {}
    rounds: dict[str, int] = {}
    for number, launch in enumerate(launches, 1):
        key = launch.file, launch.kernel
        count = seen.get(key, 0)
        seen[key] = count + 1
        nth, occurrence = divmod(count, counts[key])
        places[launch.file, nth, launch.kernel, occurrence] = number, launch
        rounds[launch.file] = max(rounds.get(launch.file, 0), nth + 1)
    for file, found in parts.items():
        for nth in range(rounds.get(file, 0)):
            yield [_of_part(part, file, nth, places) for part in found]


def _of_part(
    part: Subgraph, file: str, nth: int, places: Mapping[tuple[str, int, str, int], tuple[int, RecordedLaunch]]
) -> tuple[int, Subgraph, Sequence[RecordedLaunch]]:
    """The launches of a part in one call of its wrapper; () where not all of them ran."""
    keys = [(file, nth, site.name, site.occurrence) for site in part.steps]
    recorded = [places[key] for key in keys if key in places]
    number = min((number for number, _ in recorded), default=0)
    return number, part, [launch for _, launch in recorded] if len(recorded) == len(keys) else ()


class _Judging:
    """The judging of one part by its recorded launches."""

    def __init__(self, number: int, part: Subgraph, launches: Sequence[RecordedLaunch], device: str) -> None:
        self._number, self._part, self._launches, self._device = number, part, launches, device

    def outputs(self) -> list[JudgedOutput]:
        """Each output with its row; one row that says why where nothing can be compared."""
        part = self._part
        why = "; ".join(part.unmatched) or ", ".join(f"{buffer} has no FX node's value" for buffer in part.unnamed)
        compared_ports = [port for port in part.outputs if not port.why_not]
        skipped = [self._not_compared(port, port.why_not) for port in part.outputs if port.why_not]
        if not self._launches:
            return [self._not_compared(None, NOT_RUN)]
        if part.unmatched or not part.code:
            return skipped or [self._not_compared(None, why or "nothing that it writes has an FX node's value")]
        try:
            rows = self._rows(compared_ports)
        except IMPOSSIBLE as error:
            message = f"its eager code does not run: {type(error).__name__}: {error}".split("\n")[0]
            return [*skipped, *(self._not_compared(port, message) for port in compared_ports)]
        judged = [
            JudgedOutput(self._number, part, port, row, self._launches) for port, row in zip(compared_ports, rows, strict=True)
        ]
        unnamed = [self._not_compared(None, why)] if part.unnamed else []
        return [*judged, *skipped, *unnamed]

    def _not_compared(self, port: Port | None, why: str) -> JudgedOutput:
        return JudgedOutput(self._number, self._part, port, CheckRow(_output_name(port), None, note=f"not compared: {why}"))

    @cached_property
    def _places(self) -> Places:
        return Places(self._part, self._launches)

    def _rows(self, ports: Sequence[Port]) -> list[CheckRow]:
        """Judge the compared outputs, in order."""
        import torch

        inputs = self._places.arguments()
        with torch.no_grad():
            written = [self._places.tensor(port, after=True) for port in ports]
        call = Call(eager_function(self._part.code, self._device), inputs, {})
        expected = outcome_of(call.function, call)
        names = list(expected.returned)
        given = Outcome({name: Part(value) for name, value in zip(names, written, strict=True)}, {})
        only_returned = Outcome({name: Part(part.value) for name, part in expected.returned.items()}, {})
        rows = {row.output: row for row in compared(call, only_returned, given, strides="the kernel's memory is compared")}
        return [rows[name] for name in names]


class Places:
    """Where the values of a part's nodes are in the memory of its launches, with its symbols as numbers."""

    def __init__(self, part: Subgraph, launches: Sequence[RecordedLaunch]) -> None:
        self._part, self._launches = part, launches
        self._symbols = {size.symbol: self.size(size) for size in part.sizes if size.symbol}
        self._symbols |= self._symbols_of_shapes()

    def _symbols_of_shapes(self) -> dict[str, int]:
        """The symbols that are the whole of a length of an input."""
        symbols: dict[str, int] = {}
        for port in self._part.inputs:
            if port.argument is None:
                continue
            tensor = self._launches[port.step].before[port.argument]
            if tensor.dim() == len(port.shape):
                symbols |= {text: length for text, length in zip(port.shape, tensor.shape, strict=True) if text.isidentifier()}
        return symbols

    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the part's eager code: tensors, and sizes after them."""
        tensors = (self.tensor(port, after=port.after) for port in self._part.inputs)
        return (*tensors, *map(self.size, self._part.sizes))

    def tensor(self, port: Port, *, after: bool) -> Any:
        """The node's tensor in the memory of a launch."""
        launch = self._launches[port.step]
        if port.argument is None:
            value = launch.keywords["out"] if port.parameter == "out" else launch.result
        else:
            value = (launch.after if after else launch.before)[port.argument]
        layout = self.layout(port)
        if layout is None:
            return value
        shape, stride, base = layout
        return value.as_strided(shape, stride, value.storage_offset() - base)

    def size(self, size: Size) -> int:
        """A number of the graph, from where the launches have it."""
        step, argument, dimension = size.sources[0]
        value = self._launches[step].before[argument]
        return int(value if dimension is None else value.shape[dimension])

    def layout(self, port: Port) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
        """The shape and the strides of a node's tensor, and how many elements before the argument's first it begins.

        None where a symbol of them is not known.
        """
        site = self._part.steps[port.step]
        base = _offset_of_view(site.arguments[port.argument]) if port.argument is not None else 0
        shape, stride = (tuple(self._length(text) for text in texts) for texts in (port.shape, port.stride))
        if None in shape or None in stride:
            return None
        return tuple(n for n in shape if n is not None), tuple(n for n in stride if n is not None), base

    def _length(self, text: str) -> int | None:
        """A length or stride as a number; None where a symbol of it is not known."""
        return int(text) if text.isdigit() else number_of(parsed_expression(text).body, self._symbols)


def _offset_of_view(argument: str) -> int:
    """How many elements after its memory's first a `reinterpret_tensor` begins; 0 for another argument, or a symbol."""
    last = argument.rpartition(",")[2].strip(" )")
    return int(last) if argument.startswith("reinterpret_tensor(") and last.isdigit() else 0


def _output_name(port: Port | None) -> str:
    return "" if port is None else port.node


def eager_function(code: str, device: str) -> Callable[..., Any]:
    """The function that a subgraph's code defines; with `device` its operators run on the CPU in that device's place."""
    space: dict[str, Any] = {}
    exec(compile(f"{NAMES}{code}", "<eager subgraph>", "exec"), space)
    eager = space["eager"]

    def function(*args: Any) -> Any:
        with on_the_cpu(device) if device else nullcontext():
            return eager(*args)

    return function


__all__ = ["JudgedOutput", "Places", "device_of", "eager_function", "judged_launches", "recorded_parts"]
