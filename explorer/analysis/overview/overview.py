"""Overview: what a compile came to, as a value that a terminal and the view show. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from explorer.analysis.advice.advise import advise_on
from explorer.analysis.advice.call_cost import Launch, TracedCall
from explorer.analysis.advice.verdicts import Advice
from explorer.analysis.overview.launches import Alike, alike, ranked
from explorer.analysis.questions.comparison import figures
from explorer.analysis.questions.costs import exchanges
from explorer.analysis.questions.input_sizes import InputSize, input_sizes
from explorer.analysis.questions.target import compiled_for, gpu_of
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain
from explorer.stages import stage_of

#: The steps from graph to kernels, and what a call runs: a name of `comparison.figures`, its noun, and whether it is a launch.
STEPS = (
    ("FX nodes", "FX node", False),
    ("scheduler nodes", "scheduler node", False),
    ("fused groups", "fused group", False),
    ("kernel launches", "kernel launch", True),
    ("library calls", "library call", True),
)


@dataclass(frozen=True)
class Step:
    """How many of something there are between the program and what is launched; the last steps are launches, side by side."""

    count: int
    noun: str
    is_launch: bool = False


@dataclass(frozen=True)
class Work:
    """A kind of launches of a call: how many there are, and their seconds."""

    what: str
    count: int
    seconds: float


@dataclass(frozen=True)
class Overview:
    """What a trace came to: the flow from graph to kernels, the time of a call, the memory, and what is worth a look."""

    trace: TraceData = field(repr=False)

    @cached_property
    def call(self) -> TracedCall:
        """The call whose time is told."""
        return TracedCall(self.trace)

    @cached_property
    def _figures(self) -> dict[str, Plain]:
        return dict(figures(self.trace))

    @cached_property
    def flow(self) -> tuple[Step, ...]:
        """The steps from Dynamo's graphs to the launches, without those that the trace has none of."""
        graphs = Step(len(self.trace.find("dynamo")), "graph")
        steps = (Step(int(str(self._figures.get(name) or 0)), noun, last) for name, noun, last in STEPS)
        pieces = Step(len({a.frame.partition("/")[0] for a in self.trace.find("piece")}), "piece")
        return tuple(step for step in (graphs, pieces, *steps) if step.count)

    @property
    def compile_seconds(self) -> float:
        """The seconds of the compile; 0 where they were not recorded."""
        return float(str(self._figures["compile seconds"] or 0))

    @property
    def peak_memory(self) -> int | None:
        """The bytes at the peak of the graph that takes most; None where that is not known."""
        return self._figures.get("peak memory (bytes)")

    @property
    def saved_for_backward(self) -> int | None:
        """The bytes that forward graphs save for their backward; None where that is not known."""
        return self._figures.get("saved for backward (bytes)")

    @cached_property
    def inputs(self) -> tuple[InputSize, ...]:
        """The tensors of the call that guards are on, and what another size of each does."""
        return tuple(input_sizes(self.trace))

    @property
    def sent_outside(self) -> str:
        """How many collectives were sent outside of the graphs, and by whom; "" where none was."""
        return "; ".join(stage_of(self.trace, a.stage).summary([a]) for a in self.trace.find("eager_collective"))

    @property
    def lacks_backward(self) -> bool:
        """Whether the trace has no backward, because it was not asked for one."""
        return self.trace.meta.get("train") is False and not any(a.graph == "backward" for a in self.trace.artifacts)

    @property
    def where(self) -> str:
        """What a call runs on, in words."""
        target = gpu_of(self.trace)
        return target.title if target else "the CPU" if self.call.is_cpu else str(compiled_for(self.trace))

    @property
    def known(self) -> str:
        """How the time of a call is known."""
        return (
            "measured" if self.call.measured is not None or all(launch.measured for launch in self.call.launches) else "estimated"
        )

    @cached_property
    def groups(self) -> tuple[Alike, ...]:
        """The launches of a call, those that are alike together, the longest first."""
        return tuple(alike(ranked(self.call)))

    @property
    def parts(self) -> tuple[Work, ...]:
        """The parts of a measured call, in order; () where none was measured."""
        return tuple(Work(part.part, part.count, max(0.0, part.seconds)) for part in self.call.parts)

    @cached_property
    def work(self) -> tuple[Work, ...]:
        """The launches of a call by their kind, the longest first; a C++ kernel with the loops of several groups is one."""
        seconds: dict[str, list[float]] = {}
        for launch in self.call.launches:
            seconds.setdefault(kind(launch), []).append(launch.seconds)
        counts = {what: len(of) for what, of in seconds.items()}
        if "kernels" in counts:
            counts["kernels"] -= len(self.call.launches) - self.call.launch_count
        works = (Work(what, counts[what], sum(of)) for what, of in seconds.items())
        return tuple(sorted(works, key=lambda work: -work.seconds))

    @cached_property
    def advice(self) -> Advice:
        """What makes the program slow."""
        return advise_on(self.call)


def kind(launch: Launch) -> str:
    """Say what a launch is: of "kernels", that were generated, of "library calls", or of "collectives"."""
    if launch.row["kernels"]:
        return "kernels"
    return "collectives" if exchanges(launch.row) else "library calls"


__all__ = ["Overview", "Step", "Work", "kind"]
