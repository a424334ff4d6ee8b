"""A Stage: one step of the compiler, as a frozen value with all that is shown of it.

A new stage is one file in `stages/` (or the caller's own, passed as `trace(f, x, stages=(*STAGES, mine))`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from explorer.model.context import Context
from explorer.model.events import CompileError
from explorer.model.records import Record, typed
from explorer.model.values import Artifact, Event, Failure, Link, Plain
from explorer.model.wording import quantity

if TYPE_CHECKING:
    from explorer.model.trace_data import TraceData

Facts = Mapping[str, Plain]
#: Facts that are made of copies when the recording is first read.
Unmade = Callable[[], Facts]


class Emit(Protocol):
    """What a probe calls to record an event; it never raises and never slows the compile for long."""

    def __call__(self, kind: str, facts: Callable[[], Facts | Unmade], *, time: float | None = None) -> None:
        """Record an event of `kind` now; `facts` is called at once, and an error in it becomes a Failure.

        It may copy what it needs and return a function that makes the facts from the copies. That is called when the recording is
        first read, which may be never: it holds nothing that changes, and nothing that ran.
        """

    def later(self, kind: str, facts: Callable[[], Facts]) -> None:
        """Record an event of `kind` when the recording ends, for facts that are not known earlier."""

    def during(self, graph: str) -> AbstractContextManager[None]:
        """Name the graph ("forward", "backward", "inference", "joint") that events inside belong to."""

    def within(self, frame: str) -> AbstractContextManager[None]:
        """Count events inside to a frame whose compile is over."""

    def muted(self) -> AbstractContextManager[None]:
        """Record nothing of what this thread does inside."""

    def at(self, section: str, path: str) -> AbstractContextManager[None]:
        """Name the round of passes ("pre_grad", "joint", "post_grad") and the graph in it that is under way inside."""

    def here(self) -> Context:
        """Where the compile of this thread is."""

    def place(self) -> tuple[str, str]:
        """The frame and graph under way, by the names that the trace will have for them."""

    def doing(self, what: str) -> AbstractContextManager[None]:
        """Name what the phase under way works on inside, such as a kernel, to who asks what compiles now."""

    def attempt(self, kind: str, step: str, action: Callable[[], object]) -> None:
        """Run `action`, the explorer's own work inside a probe; an error in it becomes a Failure of `kind`."""

    def compile_failed(self, error: BaseException, failed: CompileError) -> None:
        """Record an error of a compile. If it reaches the program, explorer can then tell it from the program's own errors.

        The record gets the error's number here.
        """


#: What observes the compiler: `watch(emit)` gives a context manager, inside which it emits what it sees.
Watch = Callable[[Emit], AbstractContextManager[object]]


def watch_nothing(emit: Emit) -> AbstractContextManager[object]:
    """Observe nothing: the watch of a stage whose events explorer's own probes emit."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Frames:
    """The compiles of a recording: `names` has the trace's compile id for each of the compiler's own.

    `fresh` is True where all that earlier compiles left was set aside.
    """

    names: Mapping[str, str]
    fresh: bool = False


def as_recorded(events: Sequence[Event], frames: Frames) -> Iterable[Event]:
    """One artifact per event."""
    return events


def link_nothing(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """The link of a stage whose text states no origin."""
    return ()


def nothing_unlinked(artifact: Artifact) -> Iterable[Failure]:
    """The unlinked of a stage that links all lines whose origin is stated."""
    return ()


def rows_in_data(artifact: Artifact, trace: TraceData) -> Iterable[Mapping[str, Plain]]:
    """The rows that the artifact holds; none where it holds no table."""
    rows: Iterable[Mapping[str, Plain]] = artifact.data.get("rows", ())
    return rows


class KernelPlace(NamedTuple):
    """A kernel: its name, its lines in the text that has it, and how often the text calls it, where it has the calls too."""

    name: str
    lines: Sequence[int]
    calls: int = 1


def no_kernels(artifact: Artifact) -> Iterable[KernelPlace]:
    """Return no kernels, for a stage that has none or only shows another stage's again."""
    return ()


class Passes(NamedTuple):
    """Describe a stage whose texts are diffs, one per pass of a compiler, for the view of passes.

    `compiler` is the compiler's name for people. `whole` is the stage that has the whole text after each pass, "" if none has;
    its artifacts keep the text before the pass in their data as `before`. The data of a pass may have its `name`, its `number`,
    which its whole text has too, and the line counts of the module `before` and `after` the pass.
    """

    compiler: str
    whole: str = ""


def kernel_names(artifacts: Sequence[Artifact]) -> str:
    """Name the kernels that texts are of; "" where they are of none."""
    return ", ".join(a.kernel for a in artifacts if a.kernel)


def node_count(artifacts: Sequence[Artifact]) -> str:
    """Count the nodes of graphs: "7 nodes"; "" where there are none."""
    count = sum(len(a.nodes) for a in artifacts)
    return quantity(count, "node") if count else ""


def line_count(artifacts: Sequence[Artifact]) -> str:
    """Count the lines of texts: "212 lines"."""
    return f"{sum(len(a.lines) for a in artifacts)} lines"


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the compiler, with everything that is shown of it.

    `name` is the compiler's own name for it and the kind of its events; `title` is for people; `language`
    names the syntax of its text; `about` is one sentence on what the stage does and why it exists.

    `event` is the record of its events' data, `artifact` the record of its artifacts' data; None for any read-only mapping.

    `gather(events, frames)` makes one event per artifact. It is given the recorded events of the stage's own kind and of the
    kinds that it `consumes`, which maps each kind to its record. `render(event, id)` makes one Artifact of one event.
    `link(artifact, trace)` gives the links that the artifact's text itself states. `summary(artifacts)` says in a few words what
    the stage did in one graph. `rows(artifact, trace)` gives the rows of `Trace.table`; `columns` are their keys, where they
    differ from the keys of the rows in the artifact. `kinds(artifact)` says of each line which kind it is, "" for those that
    compute, for `Trace.coverage`; without it no line is made of a user's line.

    `kernels(artifact)` names what the compiler launches or calls one by one, each with its lines in the text, for
    `explorer.compare` of several compilers: one of a compiler's stages has them.

    `phases` names the compiler's timed phases that make up this stage's seconds. `per_kernel` says that each artifact is of one
    kernel, whose name is in the artifact's id. `over_wholes` says that a line counts as linked also where only a whole leads to
    it, as a launch's line to all nodes of its kernel. `unlinked(artifact)` gives a Failure for each reason why some of its lines
    are not linked. `backend` is the backend of torch.compile that alone has the stage, "" where every one may. `why_absent` says
    why a sound compile may lack the stage, and what to do to get it. A view opens on the first text of the stage that has the
    highest `opens_at`, 0 for a stage on which it does not open of itself, and compares a text first with one of a stage that it
    is `made_from`, in the same language. `secondary` says that few readers ask for the stage, which the view lists under More. A
    text of the stage is made when it is asked for, where the process that compiled is there, of a kernel with a text
    `on_demand_of`, a stage or a language of the kernel's source. `passes` says of a stage whose texts are a pass each which
    compiler's they are: see `Passes`. `watch(emit)` is the probe of a stage of your own: a context manager that observes the
    compiler. Explorer's stages need none, since explorer's probes are always on.
    """

    name: str
    title: str
    language: str
    about: str
    render: Callable[[Event, str], Artifact]
    event: type[Record] | None = None
    artifact: type[Record] | None = None
    watch: Watch = watch_nothing
    link: Callable[[Artifact, TraceData], Iterable[Link]] = link_nothing
    phases: tuple[str, ...] = ()
    consumes: Mapping[str, type[Record] | None] = field(default_factory=dict, hash=False)
    gather: Callable[[Sequence[Event], Frames], Iterable[Event]] = as_recorded
    summary: Callable[[Sequence[Artifact]], str] = kernel_names
    rows: Callable[[Artifact, TraceData], Iterable[Mapping[str, Plain]]] = rows_in_data
    columns: tuple[str, ...] = ()
    kinds: Callable[[Artifact], Sequence[str]] | None = None
    kernels: Callable[[Artifact], Iterable[KernelPlace]] = no_kernels
    per_kernel: bool = False
    over_wholes: bool = False
    unlinked: Callable[[Artifact], Iterable[Failure]] = nothing_unlinked
    backend: str = ""
    why_absent: str = ""
    opens_at: int = 0
    secondary: bool = False
    made_from: tuple[str, ...] = ()
    on_demand_of: str = ""
    passes: Passes | None = None

    def artifact_of(self, event: Event, id: str) -> Artifact:
        """Render one event, and read the artifact's data as the stage's record; FieldError where it does not fit."""
        made = self.render(event, id)
        return made if self.artifact is None else replace(made, data=typed(self.artifact, made.data))

    def artifact_of_kernel(self, kernel: Artifact, data: Mapping[str, Plain]) -> Artifact:
        """Render a text of a kernel that is made after the compile, with the kernel's time and place."""
        event = Event(self.name, kernel.time, kernel.frame, kernel.graph, data, kernel.path)
        return self.artifact_of(event, kernel.id.replace(":kernel:", f":{self.name}:"))


def text_artifact(event: Event, id: str, title: str, language: str, **changes: Plain) -> Artifact:
    """Return the Artifact of an event whose data has a "text"; the rest of the data is kept as `data`."""
    rest = {k: v for k, v in event.data.items() if k not in ("text", "title")}
    fields = {"text": str(event.data.get("text", "")), "data": rest, **changes}
    return Artifact(
        id=id,
        stage=event.kind,
        frame=event.frame,
        graph=event.graph,
        title=title,
        language=language,
        time=event.time,
        path=event.path,
        **fields,
    )
