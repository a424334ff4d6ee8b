"""The memory of a sequence of compiled regions: one after the other forward, then in reverse backward. Pure.

Every piece of memory counts once, from when it is allocated to when the last that holds it lets go: the caller, which holds the
hidden states and what blocks share; autograd, which holds what a region saved until its backward has used it; and gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.errors import CompileError
from explorer.studies.fitting.graphs import Graph, Piece, Region

#: What the region after the blocks is called, which is not given what blocks share.
AFTER = "the part after the blocks"
SAVED, GRADIENT, ACTIVATION, GIVEN = "saved for backward", "gradients", "activations", "inputs"
#: Bytes by what they are, and the module's path.
Parts = Mapping[tuple[str, str], int]


@dataclass(eq=False)
class Held:
    """A piece of memory outside of a graph: what it is, whose, and how many hold it. A parameter is held forever."""

    bytes: int
    what: str
    module: str
    holders: int = 1
    key: int | None = None

    @property
    def is_parameter(self) -> bool:
        """Whether it is a parameter or buffer, which counts with the weights."""
        return self.key is not None


@dataclass(frozen=True)
class Call:
    """A region as it is called: its path, and a number for each parameter by the region's own name for it."""

    path: str
    region: Region
    parameters: Mapping[str, int]


@dataclass(frozen=True)
class Moment:
    """The peak of live memory while one region runs, and the live memory after it, in bytes, without the weights."""

    region: str
    direction: str
    peak: int
    after: int


@dataclass
class Walk:
    """Goes through the calls of regions and keeps the most that was live: `parts`, in the call that `at` names."""

    calls: Sequence[Call]
    extras: Sequence[int]
    inputs: Sequence[int]
    live: dict[Held, None] = field(default_factory=dict)
    total: int = 0
    best: int = -1
    parts: Parts = field(default_factory=dict)
    at: str = ""
    moments: list[Moment] = field(default_factory=list)
    gradients: dict[int, Held] = field(default_factory=dict)
    _parameters: dict[int, Held] = field(default_factory=dict)

    def run(self) -> Walk:
        """Run all regions forward, and backward where they have one."""
        given = [self._begin(Held(size, GIVEN, "")) for size in self.inputs]
        extras = [self._begin(Held(size, ACTIVATION, "")) for size in self.extras]
        hidden = given[0] if given else None  # of a model that is blocks from its first input on
        self._hold([hidden])
        kept: list[tuple[Call, list[Held | None]]] = []
        for call in self.calls:
            if call.path == AFTER:
                self._let_go(extras)
            outputs, saved = self._forward(call, given, extras, hidden)
            kept.append((call, saved))
            self._let_go([hidden])
            hidden = outputs[0] if outputs else None
            self.moments[-1] = replace(self.moments[-1], after=self.total)
        result = hidden
        tangent = None
        if result is not None and kept[-1][0].region.backward is not None:
            tangent = self._begin(Held(result.bytes, GRADIENT, "", 2))  # Tensor.backward holds it too, to its end
        while kept and kept[-1][0].region.backward is not None:
            call, saved = kept.pop()
            tangent = self._backward(call, saved, tangent)
            self.moments[-1] = replace(self.moments[-1], after=self.total)
        return self

    # Regions ------------------------------------------------------------------------------------------------------------

    def _forward(
        self, call: Call, given: Sequence[Held], extras: Sequence[Held], hidden: Held | None
    ) -> tuple[list[Held | None], list[Held | None]]:
        """Run a forward; what it gives, and what autograd keeps of it in the order of the backward's inputs."""
        graph = call.region.forward
        named: dict[str, Held | None] = {"hidden": hidden}
        named |= {f"inputs[{n}]": held for n, held in enumerate(given)} | {f"extras[{n}]": held for n, held in enumerate(extras)}
        inside = {n: self._held_for_input(call, graph.pieces[n].name, named) for n in graph.inputs if n is not None}
        saved = {n for n in call.region.saved if n is not None}
        kinds = {n: SAVED if n in saved else ACTIVATION for n in range(len(graph.pieces)) if n not in inside}
        own = {n: Held(p.bytes, kinds[n], _below(call, p), 0) for n, p in enumerate(graph.pieces) if n not in inside}
        self._peak(call, "forward", graph, own, {})
        by_number = {**inside, **own}
        outputs = [by_number[n] if n is not None else None for n in graph.results[: call.region.outputs]]
        keeps = [by_number[n] if n is not None else None for n in call.region.saved]
        self._hold(outputs[:1])
        self._hold(keeps)
        return outputs, keeps

    def _backward(self, call: Call, saved: Sequence[Held | None], tangent: Held | None) -> Held | None:
        """Run a backward, which frees its saved values as it goes, and return the gradient of the region's input."""
        assert call.region.backward is not None
        graph, forward = call.region.backward, call.region.forward
        inside = {n: held for n, held in zip(graph.inputs, saved, strict=True) if n is not None and held is not None}
        inside |= {n: tangent for n in graph.tangents if n is not None and tangent is not None}
        ends = self._ends(graph, inside)
        gradients = zip(graph.results, forward.inputs, strict=False)
        wanted = {n: forward.pieces[given].name for n, given in gradients if n is not None and given is not None}
        own = {}
        for place, piece in enumerate(graph.pieces):
            if place not in inside:
                name = wanted.get(place, "")
                what = GRADIENT if name in call.parameters else ACTIVATION
                own[place] = Held(piece.bytes, what, _owner(call, name) or _below(call, piece), 0)
        self._peak(call, "backward", graph, own, ends)
        by_number = {**inside, **own}
        before: Held | None = None
        for number, name in wanted.items():
            if name == "hidden":
                before = by_number[number]
                self._hold([before])
            elif name in call.parameters and call.parameters[name] not in self.gradients:
                self.gradients[call.parameters[name]] = by_number[number]
                self._hold([by_number[number]])
        self._let_go(saved, tangent)
        return before

    def _ends(self, graph: Graph, inside: Mapping[int, Held]) -> dict[Held, int]:
        """Return the statement that frees each piece that only the backward holds; its views are freed with the last."""
        ends: dict[Held, int] = {}
        for number, held in inside.items():
            if held.is_parameter or held.holders != 1:
                continue
            last = graph.pieces[number].last
            ends[held] = max(ends.get(held, 0), last if last is not None else _NEVER)
        return ends

    def _peak(self, call: Call, direction: str, graph: Graph, own: Mapping[int, Held], ends: Mapping[Held, int]) -> None:
        """Find the statement with the most live bytes; keep its parts if none had more before."""
        pieces = [(held, graph.pieces[n].first, graph.pieces[n].last) for n, held in own.items()]
        spans = [*pieces, *((held, 0, last) for held, last in ends.items())]
        base = self.total - sum(held.bytes for held in ends)
        steps = {0, *(first for _, first, _ in spans)}
        peak, at = max((sum(held.bytes for held, *span in spans if _lives(span, step)), -step) for step in steps)
        self.moments.append(Moment(call.path, direction, base + peak, 0))
        if base + peak > self.best:
            self.best, self.at = base + peak, f"the {direction} of {call.path}"
            outside = (held for held in self.live if held not in ends)
            self.parts = _parts([*outside, *(h for h, *span in spans if _lives(span, -at))])

    # Holders ------------------------------------------------------------------------------------------------------------

    def _begin(self, held: Held) -> Held:
        self.live[held] = None
        self.total += held.bytes
        return held

    def _hold(self, pieces: Sequence[Held | None]) -> None:
        """Let one more hold these pieces, each once."""
        for held in dict.fromkeys(pieces):
            if held is None or held.is_parameter:
                continue
            if held not in self.live:
                self._begin(held)
            held.holders += 1

    def _let_go(self, pieces: Sequence[Held | None], *others: Held | None) -> None:
        """Let one less hold these pieces, each once; the last frees it."""
        for held in (*dict.fromkeys(pieces), *others):
            if held is None or held.is_parameter:
                continue
            held.holders -= 1
            if held.holders == 0:
                del self.live[held]
                self.total -= held.bytes

    def _held_for_input(self, call: Call, name: str, named: Mapping[str, Held | None]) -> Held:
        """What an input of a region is by the region's name for it."""
        if name in call.parameters:
            key = call.parameters[name]
            return self._parameters.setdefault(key, Held(0, "weights", "", key=key))
        held = named.get(name)
        if held is None:
            raise CompileError(
                f"{call.path} is given {name or 'a tensor without a name'}, and explorer cannot tell what that input is"
            )
        return held


_NEVER = 1 << 60


def _lives(span: Sequence[int | None], step: int) -> bool:
    first, last = span
    return first is not None and first <= step and (last is None or step < last)


def _owner(call: Call, name: str) -> str:
    """The path of the module that has a parameter."""
    return _join(call.path, name.rpartition(".")[0]) if name in call.parameters else ""


def _below(call: Call, piece: Piece) -> str:
    return _join(call.path, piece.module)


def _join(path: str, name: str) -> str:
    """A module's path in the model, of its name in a region, which has the region's module first."""
    inner = name.partition(".")[2]
    return f"{path}.{inner}" if inner and not path.startswith("(") else inner or path


def _parts(pieces: Sequence[Held]) -> Parts:
    parts: dict[tuple[str, str], int] = {}
    for held in pieces:
        parts[held.what, held.module] = parts.get((held.what, held.module), 0) + held.bytes
    return parts


__all__ = ["ACTIVATION", "AFTER", "GIVEN", "GRADIENT", "SAVED", "Call", "Moment", "Parts", "Walk"]
