"""What one call of the program takes, on one scale: the seconds that every verdict is a share of. Pure.

A call takes as long as its kernels and library calls, or as their launches from Python where these take longer. The seconds of
a kernel are those of an attached profile, or that autotuning measured, else the estimate of `costs.estimate`. For the CPU, whose
figures are not known, bytes count at a bandwidth that is assumed; so does Python's time for a launch. What is assumed is here and
in the page's head.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from explorer.analysis.questions.costs import (
    SHARES,
    estimate,
    exchanges,
    is_call,
    kernel_rows,
    own_group,
    runs_of,
    unknown_call,
)
from explorer.analysis.questions.figures import without_unknown
from explorer.analysis.questions.fusion import NO_VERDICTS, Graph, fusion_of
from explorer.analysis.questions.group_costs import group_costs
from explorer.analysis.questions.kernels import KernelData, kernels_of, kernels_of_graph
from explorer.analysis.questions.memory import element_size
from explorer.analysis.questions.priced_collectives import priced_collectives
from explorer.analysis.questions.rows import GroupCost, GroupRow, KernelRow
from explorer.analysis.questions.tables import table
from explorer.analysis.questions.target import compiled_for, gpu_of
from explorer.analysis.questions.user_lines import UserLine, compilers_of
from explorer.model.records import typed
from explorer.model.shared import PatternMatch
from explorer.model.trace_data import TraceData
from explorer.model.values import EMPTY, Artifact, Plain
from explorer.model.wording import quantity
from explorer.reference.gpus.figures import Target
from explorer.stages.fx_graph import input_names, node_lines
from explorer.stages.inductor import cuda_graph
from explorer.stages.torch_compile.piece import Piece
from explorer.stages.torch_compile.run_times import CALL, EAGER, PART, CallPart, RunTimes

#: Assumed of every CPU, whose figures nothing tells: bytes, and multiplications and additions, a second.
CPU_BANDWIDTH, CPU_OPERATIONS = 25e9, 500e9
#: Assumed: seconds that Python takes for a launch from Inductor's wrapper.
LAUNCH = 5e-6
#: Seconds that a graph break adds to a call: measured between two small linear layers, on one CPU with torch 2.13, with the
#: backend "eager", so that nothing but Dynamo's part is in it: 8.3 to 8.8 µs.
BREAK = 9e-6
#: The shares below which a verdict is not worth a line, and the seconds: a twentieth of a call, and two launches' worth.
MIN_SHARE, MIN_SECONDS = 0.05, 2e-6
#: What a trace's `backend` says where Inductor compiled.
INDUCTOR = (None, "", "inductor")
#: The operators that a pattern joins with an addition into one call.
PRODUCTS = ("aten.mm.default", "aten.bmm.default")
_LINE = "\n"


@dataclass(frozen=True)
class Launch:
    """A node of the scheduler after fusion that runs something: its graph, its row, and its seconds.

    `unknown` names an operator that nothing is known of, whose seconds are 0.
    """

    graph: Graph = field(repr=False)
    row: GroupRow
    seconds: float
    measured: bool = False
    unknown: str = ""

    @property
    def known(self) -> str:
        """How its seconds are known; "" if they are not."""
        return "" if self.unknown else "measured" if self.measured else "estimated"

    @property
    def name(self) -> str:
        """The kernels or the call, by name."""
        return ", ".join(self.row["kernels"]) or self.row["call"]


@dataclass(frozen=True)
class TracedCall:
    """One call of a traced program: its launches and their seconds."""

    trace: TraceData = field(repr=False)

    @cached_property
    def target(self) -> Target | None:
        """The GPU; None where its figures are not known, as for the CPU."""
        return gpu_of(self.trace)

    @property
    def is_cpu(self) -> bool:
        """Whether what was generated runs on the CPU."""
        return self.target is None and not any(kernel.language == "triton" for kernel in self.kernels)

    @cached_property
    def frames(self) -> frozenset[str]:
        """The frames of one call: of each function its last compile, of each piece of a graph its first, for any size."""
        of_call: dict[str, str] = {}
        for graph in fusion_of(self.trace).graphs:
            frame = graph.artifact.frame
            number = frame.partition("/")[0]
            of_call[number] = of_call.get(number, frame) if self.trace.find("piece", frame) else frame
        return frozenset(of_call.values())

    @cached_property
    def calls_of_frame(self) -> Counter[str]:
        """How many more pieces run what was compiled for a piece: those alike that have no kernels themselves."""
        pieces = ((a.frame, typed(Piece, a.data)) for a in self.trace.find("piece"))
        return Counter(p.same_as for frame, p in pieces if p.same_as and not self.trace.find("ir_post_fusion", frame))

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        """The scheduler's graphs of a call, each as often as the call runs it."""
        of_call = (graph for graph in fusion_of(self.trace).graphs if graph.artifact.frame in self.frames)
        return tuple(graph for graph in of_call for _ in range(1 + self.calls_of_frame[graph.artifact.frame]))

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """What runs in a call; of a trace of a hand-written kernel its launch."""
        return self.own or tuple(
            self._launch(graph, row, cost)
            for graph in self.graphs
            for row, cost in zip(graph.groups(), group_costs(self.trace, graph), strict=True)
            if row["kernels"] or (is_call(row) and row["call"] and not is_view(row))
            for _ in range(runs_of(self.trace, graph))
        )

    @cached_property
    def own(self) -> tuple[Launch, ...]:
        """The launch of the hand-written kernel that was traced alone; () for a trace of a function."""
        alone = [kernel for kernel in self.kernels if not kernel.artifact.frame]  # Dynamo numbers the frame of any other
        if not alone:
            return ()
        listed = {row["kernel"]: row for row in kernel_rows(self.trace)}
        return tuple(
            self._launch(Graph(kernel.artifact, NO_VERDICTS, EMPTY), group, listed[kernel.name])
            for kernel in alone
            for group in own_group(kernel.artifact)
        )

    @cached_property
    def launch_count(self) -> int:
        """How often something is launched or called; a C++ kernel may hold the loops of several of the `launches`."""
        calls = sum(not launch.row["kernels"] for launch in self.launches)
        generated = sum(len(graph.verdicts.data.kernels) * runs_of(self.trace, graph) for graph in self.graphs)
        return calls + generated + len(self.own)

    def _launch(self, graph: Graph, row: GroupRow, cost: GroupCost | KernelRow) -> Launch:
        if cost["seconds"] is not None and cost["timed"] == "measured":
            return Launch(graph, row, cost["seconds"], measured=True)
        if self.target is not None:
            return Launch(graph, row, estimate(self.target, row).seconds or 0.0, unknown=unknown_call(row))
        operations = sum(call.operations or 0 for call in row["calls"] or ())
        return Launch(graph, row, max(self.seconds_of(row["read"] + row["written"]), operations / CPU_OPERATIONS))

    @cached_property
    def kernels(self) -> tuple[KernelData, ...]:
        """The generated kernels."""
        return kernels_of(self.trace)

    def kernels_of(self, launch: Launch) -> Iterator[KernelData]:
        """Yield the kernels of a launch."""
        graph = launch.graph.artifact
        for kernel in kernels_of_graph(self.trace, graph.frame, graph.graph):
            if kernel.name in launch.row["kernels"]:
                yield kernel

    # Seconds -------------------------------------------------------------------------------------------------------

    def seconds_of(self, moved: float) -> float:
        """Convert bytes to seconds: at the share of the GPU's bandwidth that kernels reach, or at what is assumed of a CPU."""
        return moved / (self.target.bandwidth * SHARES["memory"] if self.target else CPU_BANDWIDTH)

    @property
    def bandwidth(self) -> str:
        """Say at what bandwidth bytes are converted."""
        if self.target is None:
            return f"at {CPU_BANDWIDTH / 1e9:.0f} GB/s, assumed"
        return f"at {SHARES['memory']:.0%} of the {self.target.bandwidth / 1e12:.3g} TB/s of {self.target.title}"

    @cached_property
    def device(self) -> float:
        """Seconds of all kernels and calls, and of the collectives where nothing hides them."""
        return sum(launch.seconds for launch in self.launches) + self.exchanging

    @cached_property
    def exchanging(self) -> float:
        """Sum the seconds of collectives that nothing hides; a collective counts in full if it is unknown what runs meanwhile."""
        if not any(exchanges(launch.row) for launch in self.launches):
            return 0.0
        rows = [row for row in priced_collectives(self.trace) if row["frame"] in self.frames]
        return float(sum(row["seconds"] or 0.0 if row["exposed"] is None else row["exposed"] for row in rows))

    @property
    def without(self) -> str:
        """Say which launches the seconds leave out because nothing is known of them; "" if they leave out none."""
        return without_unknown([launch.unknown for launch in self.launches if launch.unknown])

    @cached_property
    def host(self) -> float:
        """Seconds that Python takes to launch them; 0 on the CPU, where CUDA graphs launch them, and for a kernel alone."""
        if self.is_cpu or self.captured or self.own:
            return 0.0
        return LAUNCH * len(self.launches)

    @cached_property
    def captured(self) -> bool:
        """Whether every graph is launched as a CUDA graph."""
        of_call = (a for a in self.trace.find(cuda_graph.STAGE.name) if a.frame in self.frames)
        decisions = {row["decision"] for a in of_call for row in a.data["rows"]}
        return bool(decisions) and decisions <= {cuda_graph.CAPTURED, *cuda_graph.IN_A_GRAPH}

    @cached_property
    def breaks(self) -> int:
        """How many graph breaks a call comes by."""
        return len({a.text for a in self.trace.find("graph_break")})

    @cached_property
    def rows(self) -> tuple[CallPart, ...]:
        """The rows of `t.live.cost()` that the trace has; () where no call was measured."""
        times = [typed(RunTimes, a.data) for a in self.trace.find("run_times")]
        return next((each.parts for each in reversed(times) if each.parts), ())

    @property
    def parts(self) -> tuple[CallPart, ...]:
        """The parts of the measured call, in order, and what of it is not attributed."""
        return tuple(row for row in self.rows if row.kind == PART)

    @property
    def measured(self) -> float | None:
        """The seconds of the measured call, without a backward; None where no call was measured."""
        return next((row.seconds for row in self.rows if row.kind == CALL), None)

    @property
    def eager(self) -> float | None:
        """The seconds of the same call in eager mode; None where no call was measured."""
        return next((row.seconds for row in self.rows if row.kind == EAGER), None)

    @cached_property
    def seconds(self) -> float:
        """Seconds of a call: measured, with the estimate of its backward, else estimated."""
        if self.measured is not None:
            return self.measured + sum(each.seconds for each in self.launches if each.graph.artifact.graph == "backward")
        return max(self.device, self.host) + self.breaking

    @property
    def breaking(self) -> float:
        """Seconds that the graph breaks add, by the estimate."""
        return self.breaks * BREAK

    @property
    def has_cuda_graphs(self) -> bool:
        """Whether Inductor could make CUDA graphs for this GPU; of a GPU that is not named it is taken to."""
        return self.target is None or self.target.vendor == "nvidia"

    def hides_work(self, beyond: float = 0.0) -> bool:
        """Whether the launches take longer than the work, `beyond` included: less work alone then saves no time."""
        return self.host > self.device + beyond

    @cached_property
    def unread(self) -> str:
        """Say why the kernels of a call, or of some of its graphs, cannot be judged; "" where all of them can."""
        others = [name for name in compilers_of(self.trace) or (self.trace.meta.get("backend"),) if name not in INDUCTOR]
        if others:
            return (
                f"The kernels of {', '.join(map(str, others))} cannot be judged, because verdicts are read from Inductor's "
                "scheduler: only what Dynamo did is judged. t.benchmark() times the function, and explorer.compare() shows it "
                "beside a trace by Inductor."
            )
        cached = dict.fromkeys(str(row["frame"]) for row in table(self.trace, "cache") if "ir_pre_fusion" in row["not_seen"])
        if cached:
            return (
                f"{quantity(len(cached), 'frame')} came from a cache without being compiled, so their kernels were not read: "
                "record(fresh=True), or explorer.trace(), compiles them."
            )
        if failures := [failure for failure in self.trace.failures if failure.fatal]:
            message = failures[0].message.partition(_LINE)[0]
            return f"The compile ended with an error, so what came after it is not judged: {message}"
        if not (self.own or self.trace.find("ir_post_fusion")):  # it is there, and empty, for a graph of views alone
            return f"No kernel was recorded: {self._why_nothing}."
        return ""

    @property
    def _why_nothing(self) -> str:
        """Say why a trace has no graph of the scheduler."""
        if self.trace.failures:
            return self.trace.failures[0].message.partition(_LINE)[0].rstrip(".")
        if self.trace.find("dynamo"):
            return "the trace has Dynamo's graphs, but no text of Inductor's scheduler"
        return "torch.compile compiled nothing while this trace was recorded"

    def about(self, beyond: float = 0.0) -> str:
        """Say what a call takes and how that is known, with the seconds that verdicts add to the estimate."""
        timed = sum(launch.measured for launch in self.launches)
        estimated = "estimated" if not timed else f"{timed} of {len(self.launches)} launches measured, the others estimated"
        where = "the CPU" if self.is_cpu else self.target.title if self.target else "this device"
        from_python = f", {LAUNCH * 1e6:.0f} µs assumed for a launch from Python" if not (self.is_cpu or self.captured) else ""
        exchanging = f", {_words(self.exchanging)} of it collectives that nothing hides" if self.exchanging else ""
        graphs = ", unless CUDA graphs launch it" if self.has_cuda_graphs else ""
        bound = (
            f"The launches take longer than the work: less work alone saves no time{graphs}. " if self.hides_work(beyond) else ""
        )
        added = f", {_words(beyond)} more by the verdicts below" if beyond else ""
        split = "Of each piece the first compile is counted. What the backend runs between the pieces is not included. "
        pieces = split if self.trace.find("piece") else ""
        if self.measured is not None and self.eager is not None:
            backward = (
                f", with {_words(self.seconds - self.measured)} of a backward, estimated" if self.seconds > self.measured else ""
            )
            parts = ", ".join(f"{part.part} {_words(part.seconds)}" for part in self.parts if part.seconds > 0)
            return (
                f"A call takes {_words(self.seconds)} on {where}, measured by t.live.cost(){backward}: {parts}. Eager mode takes "
                f"{_words(self.eager)}. The work of the kernels is {_words(self.device)}, {estimated}{self.without}. {pieces}"
                f"What costs less than {MIN_SHARE:.0%} of the call is not mentioned."
            )
        if self.own:
            return (
                f"A launch takes {_words(self.seconds + beyond)} on {where} ({estimated}{added}; bytes {self.bandwidth}). "
                f"What costs less than {MIN_SHARE:.0%} of it is not mentioned."
            )
        here = not compiled_for(self.trace).is_absent_gpu
        measurable = ": t.attach(t.live.cost()) measures a whole call" if here else ""
        return (
            f"A call takes {_words(self.seconds + beyond)} on {where} ({estimated}: {quantity(self.launch_count, 'launch')}, "
            f"{_words(self.device)} of work{self.without}{exchanging}{from_python}{added}; bytes {self.bandwidth}). "
            f"{bound}{pieces}The time of guards and of the Python around the graphs is not included{measurable}. "
            f"What costs less than {MIN_SHARE:.0%} of it is not mentioned."
        )

    # Lines ---------------------------------------------------------------------------------------------------------

    def user_lines(self, nodes: Iterable[Mapping[str, Plain]]) -> tuple[UserLine, ...]:
        """List the user lines of some FX nodes, each once."""
        lines = (UserLine(str(n["file"]), int(n["line"]), str(n.get("code") or "")) for n in nodes if n.get("file"))
        return tuple(dict.fromkeys(lines))

    def nodes_of(self, launch: Launch) -> list[Mapping[str, Plain]]:
        """List the FX nodes that a launch computes."""
        # of a call its own node; its other origins are what it reads, such as a transposed weight
        of_calls = {call.node for call in launch.row["calls"] or () if call.node}
        names = of_calls or set(launch.row["fx_nodes"])
        return [node for node in launch.graph.graph_nodes if node["name"] in names]

    def lined_nodes(self, launch: Launch) -> list[Mapping[str, Plain]]:
        """List the FX nodes whose user lines a launch computes.

        These are the nodes of `nodes_of`. An addmm that a pattern made of a product and an addition has the addition's line: the
        product stands in its place, which is nearly all of the work.
        """
        place = launch.graph.artifact.frame, launch.graph.artifact.graph
        return [self._products.get((*place, str(node["name"])), node) for node in self.nodes_of(launch)]

    @cached_property
    def _products(self) -> dict[tuple[str, str, str], Mapping[str, Plain]]:
        """The product that a pattern put each node in the place of, by frame, graph and name of that node."""
        found: dict[tuple[str, str, str], Mapping[str, Plain]] = {}
        for a in self.trace.find("pattern_match"):
            match = typed(PatternMatch, a.data)
            pairs = zip(match.matched, match.matched_targets or (), strict=False)  # the targets may not be recorded
            products = {name for name, target in pairs if target in PRODUCTS}
            if not products:
                continue
            graphs = self.trace.find("backward" if a.graph == "backward" else "forward", a.frame, a.graph)
            nodes = (node for graph in graphs for node in graph.nodes)
            product = next((node for node in nodes if node["name"] in products and node.get("file")), None)
            found |= {(a.frame, a.graph, name): product for name in match.made if product is not None}
        return found

    def lines_of(self, launches: Iterable[Launch]) -> tuple[UserLine, ...]:
        """List the user lines of some launches, the longest launch first."""
        longest = sorted(launches, key=lambda launch: -launch.seconds)
        return tuple(dict.fromkeys(line for launch in longest for line in self.user_lines(self.lined_nodes(launch))))

    def inputs_of(self, launch: Launch) -> dict[str, str]:
        """Map the inputs of a launch's graph to what the program calls them."""
        return input_names(self.trace, launch.graph.artifact.frame, launch.graph.artifact.graph)

    def places_of(self, launches: Iterable[Launch]) -> tuple[tuple[str, int], ...]:
        """List where some launches are: each kernel's text, or the FX node of a call."""
        return tuple(dict.fromkeys(place for launch in launches for place in self._places(launch)))

    def _places(self, launch: Launch) -> Iterator[tuple[str, int]]:
        kernels = [(kernel.artifact.id, first_line(kernel)) for kernel in self.kernels_of(launch)]
        yield from kernels or self.places_of_nodes(launch.graph.artifact, launch.row["fx_nodes"])

    def places_of_nodes(self, near: Artifact, names: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield the lines of some FX nodes in the graph that Inductor lowered."""
        for graph in self.trace.find("post_grad", near.frame, near.graph):
            lines = node_lines(graph)
            yield from ((graph.id, lines[name]) for name in names if name in lines)


def is_view(row: GroupRow) -> bool:
    """Tell whether a node of the scheduler only calls an operator that gives a view, by the operator's schema."""
    calls = row["calls"] or ()
    return bool(calls) and all(call.view for call in calls)


def reads_of(launch: Launch) -> Iterator[str]:
    """Yield the FX nodes that a launch reads."""
    nodes = {node["name"]: node for node in launch.graph.graph_nodes}
    for name in launch.row["fx_nodes"]:
        yield from nodes.get(name, {}).get("inputs", ())


def bytes_of(node: Mapping[str, Plain] | None) -> int:
    """Count the bytes of a node's result; 0 where that is not known."""
    if node is None or node.get("shape") is None or not all(str(length).isdigit() for length in node["shape"]):
        return 0
    return math.prod(int(length) for length in node["shape"]) * element_size(str(node.get("dtype")))


def first_line(kernel: KernelData) -> int:
    """The line on which a kernel's function begins, behind its imports; 1 where the text does not say."""
    heads = (number for number, line in enumerate(kernel.artifact.lines, 1) if line.startswith(("def ", 'extern "C"')))
    return next(heads, 1)


def _words(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs" if abs(seconds) < 1e-3 else f"{seconds * 1e3:.3g} ms"


__all__ = [
    "BREAK",
    "LAUNCH",
    "MIN_SECONDS",
    "MIN_SHARE",
    "Launch",
    "TracedCall",
    "bytes_of",
    "first_line",
    "is_view",
    "reads_of",
]
