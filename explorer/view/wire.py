"""The shapes of what Python and the front end tell each other: the payload, and the traits and messages of the widget.

`payload.py` and `widget/` write them, and mypy holds both to them. `widget/src/wire.d.ts` is the same for the front end, written
by `make types`. Texts, nodes and artifacts are referred to by index; lines count from 1.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from explorer.analysis.questions.guard_facts import GuardFact
from explorer.analysis.questions.priced_collectives import OverlapRow, PricedRow
from explorer.analysis.questions.rows import (
    BufferRow,
    Cost,
    GroupCost,
    GroupRow,
    InlinedRow,
    MomentRow,
    PairVerdict,
    StorageRow,
    UncountedRow,
    UnreadRow,
)
from explorer.model.shared import FxPass, PatternMatch, Setting, Source
from explorer.stages.dynamo.graph_break import GraphBreak
from explorer.stages.dynamo.recompile import Recompile
from explorer.stages.dynamo.symbol import Symbol
from explorer.stages.inductor.choice import ChoiceForm
from explorer.stages.torch_compile.bisection import JudgedValue
from explorer.stages.torch_compile.phase import Phase

Names = list[str]
#: Facts that the front end shows as they are, whatever their names.
Facts = dict[str, Any]
#: A user line: the index of its source and the line in it, -1 and 0 where the trace has no such source; its place in words, and
#: its code, "" for none.
UserPlace = tuple[int, int, str, str]


class PassesInfo(TypedDict):
    """Which compiler's passes a stage shows, a text for each, and the stage of the whole texts behind them, "" for none."""

    compiler: str
    whole: str


class PassFacts(TypedDict, total=False):
    """What is read of the data of a pass, as far as its compiler has it, and the "number" of the whole text behind it.

    "before" and "after" are the lines of the module before and after the pass.
    """

    number: int
    name: str
    before: int
    after: int


class StageInfo(TypedDict):
    """A stage that the trace has texts of.

    A view opens on the stage with the highest "opens_at", and compares a stage first with one in "made_from".
    A "secondary" stage stands under More.
    """

    name: str
    title: str
    about: str
    language: str
    opens_at: int
    made_from: Names
    passes: NotRequired[PassesInfo]
    secondary: NotRequired[bool]


class StageOnDemand(TypedDict):
    """A stage whose text of a kernel is made when it is asked for, "of" a text in that stage or a source in that language."""

    stage: str
    title: str
    of: str


class LoweredNodes(TypedDict):
    """How Inductor lowered the nodes of a graph, as columns of the length of theirs.

    "kind", "by" and "why" are indexes of "strings", of "" for nodes that it did not lower. "kernels" has the kernels and calls
    that compute a node.
    """

    kind: list[int]
    by: list[int]
    why: list[int]
    kernels: list[Names]


class Nodes(TypedDict):
    """The nodes of a graph as columns of equal length.

    "line" is 0 where the text does not show a node; "inputs" are indexes of nodes; "op" to "args" are indexes of "strings".
    The scheduler's nodes have also "fused", names of scheduler nodes, and "origins", names of FX nodes; the post-grad graph's
    have "lowered".
    """

    name: Names
    line: list[int]
    inputs: list[list[int]]
    op: list[int]
    target: list[int]
    type: list[int]
    module: list[int]
    place: list[int]
    code: list[int]
    args: list[int]
    fused: NotRequired[list[Names]]
    origins: NotRequired[list[Names]]
    lowered: NotRequired[LoweredNodes]


class LayoutInfo(TypedDict):
    """Where the elements of a value of one type are: see `explorer.reference.layouts.layout.Layout`.

    "bases" has of each bit of "register", "lane", "warp" and "block", or of "offset" (elements of shared memory), the
    coordinates that it adds; "padding" are (interval, padding) in elements.
    """

    type: str
    facts: str
    memory: str
    shape: list[int]
    bits: int
    bases: dict[str, list[list[int]]]
    padding: list[tuple[int, int]]


class AccessInfo(TypedDict):
    """An access to shared memory: what it costs, in words, and the byte of each lane of the first warp, "width" bytes each."""

    about: str
    addresses: list[int]
    width: int


class LayoutsInfo(TypedDict):
    """The layouts of a text: "values" are (line, name, index of "types", indexes of "accesses")."""

    types: list[LayoutInfo]
    accesses: list[AccessInfo]
    values: list[tuple[int, str, int, list[int]]]


class ArtifactInfo(TypedDict):
    """A text of the trace.

    "seconds" is what the compiler took for it, "time" when it was recorded, in seconds, "note" what changed in it, "made_by"
    the function of the compiler that made it. "operators" is how many operators a graph calls. "rows" is the table of a stage
    that has one; of guards it is their facts. "layouts" are those of a TTGIR's values. "before" is the text before a pass, or the
    index of the artifact with that text; "idle" and "idle_after" are (name, seconds) of the passes before and after it that
    changed nothing.
    A text that is the same in several traces travels once: "same_text" is the index of the artifact that has it, and "text" is ""
    then. "arguments" are the lines of a source that belong to the call on another line, each with that line.
    """

    id: str
    stage: str
    frame: str
    graph: str
    kernel: str
    title: str
    language: str
    text: str
    same_text: NotRequired[int]
    lines: int
    seconds: float | None
    time: float
    note: str
    made_by: str
    data: Facts
    nodes: NotRequired[Nodes]
    operators: NotRequired[int]
    rows: NotRequired[list[Facts]]
    arguments: NotRequired[list[tuple[int, int]]]
    layouts: NotRequired[LayoutsInfo]
    before: NotRequired[str | int]
    idle: NotRequired[list[tuple[str, float | None]]]
    idle_after: NotRequired[list[tuple[str, float | None]]]


class Occupancy(TypedDict):
    """How many blocks and warps of a kernel fit on one multiprocessor, the share of its warps, and what limits them."""

    blocks: int
    warps: int
    fraction: float
    limited_by: str
    limits: dict[str, int]


class Resources(TypedDict, total=False):
    """What a kernel takes of the GPU, of triton's metadata: "shared" bytes a block, the others a thread, spills in bytes.

    A file may have anything where triton has a number.
    """

    registers: Setting
    shared: Setting
    stack: Setting
    spill_stores: Setting
    spill_loads: Setting
    occupancy: Occupancy | None


class LaunchInfo(TypedDict):
    """One launch of a kernel, by the line of the output code; a size of the grid that is no number is an expression."""

    line: int
    grid: list[int | str]
    arguments: NotRequired[Facts]
    times: NotRequired[int]
    place: NotRequired[Facts]


class KernelInfo(TypedDict):
    """A generated kernel: its artifact, its texts by stage, what it computes, takes and costs.

    "title" says what it computes in a call, "" where no call launches it, and "user" is the line that most of that comes from.
    "advised" are the numbers of the verdicts of the advice that name it.
    """

    artifact: int
    name: str
    title: str
    user: UserPlace
    advised: list[int]
    language: str
    frame: str
    graph: str
    forms: dict[str, int]
    operators: Names
    resources: Resources
    launches: list[LaunchInfo]
    candidates: list[Facts]
    config: Facts
    chosen: str
    cost: Cost


class CallInfo(TypedDict):
    """A library call: its scheduler node, operator and cost, and its line in a text; -1 and 0 where these are not known.

    "title" and "user" are as in `KernelInfo`.
    """

    artifact: int
    line: int
    node: str
    name: str
    title: str
    user: UserPlace
    advised: list[int]
    frame: str
    graph: str
    operator: str
    dtype: str
    operations: int | None
    cost: Cost


class VerdictInfo(PairVerdict):
    """A verdict on two nodes, a row of `Fusion.table`, with their numbers and those of the fused groups they were in.

    "for_speed" says that the scheduler refused for speed alone, which `fuse=` overrides.
    """

    score: Facts
    rounds: list[int]
    pair: tuple[int, int]
    after: list[int]
    for_speed: NotRequired[bool]


class OperatorPlaceInfo(TypedDict):
    """A place where the program uses an operator: the FX node of its result, its user line, and its scheduler nodes' numbers."""

    node: str
    code: str
    numbers: list[int]


class FusionInfo(TypedDict):
    """The scheduler's verdicts on one graph, and what answers `Trace.why` for any two of its nodes.

    Nodes are numbers: "names" are those of the single ones, "modules" their modules' ("" for no one module), "members" the single
    nodes of each that was made of several, "known" all other names, "operators" the places of operators, whose names are no
    node's. "touched", "kept_inputs" (the reductions and calls that it reads), "inputs" (the nodes that it needs), "steps" (kind,
    text and FX node of what runs between two others), "devices", "apart" (why the scheduler never asks) and "epilogues" (what a
    template of a library's product could compute with it) are by single node. "fx_inputs" are by FX node. "final" are the numbers
    of "groups", "costs" what these take. "nodes" is the index of the artifact with the nodes, -1 for none.
    """

    frame: str
    graph: str
    of: str
    nodes: int
    groups: list[GroupRow]
    costs: list[GroupCost]
    made: list[BufferRow]
    inlined: list[InlinedRow]
    verdicts: list[VerdictInfo]
    names: Names
    modules: Names
    members: list[list[int]]
    known: dict[str, list[int]]
    operators: dict[str, list[OperatorPlaceInfo]]
    touched: list[Names]
    kept_inputs: list[list[int]]
    inputs: list[list[int]]
    steps: list[tuple[str, str, str]]
    fx_inputs: dict[str, list[str]]
    devices: list[str | None]
    apart: Names
    epilogues: list[list[int]]
    kernels: list[tuple[str, list[int]]]
    final: list[int]
    attempts: int | None


class ChoiceInfo(TypedDict):
    """One way of doing an operation, a row of `t.inductor.choices`, and its line in a text; "ms" is None where it was not timed.

    "settings" is "config" by name. "forms" are the stages that it can have a text in, from its source down; where there are none
    "no_source" says why. The trace has its texts as artifacts of the stage "choice".
    """

    frame: str
    graph: str
    operation: str
    inputs: Names
    choice: str
    kind: str
    config: str
    settings: Facts
    forms: Names
    no_source: str
    ms: float | None
    fastest: bool
    taken: NotRequired[bool]
    why: NotRequired[str]
    grid: NotRequired[list[int | str]]
    artifact: int
    line: int


class MemoryInfo(TypedDict, total=False):
    """What is live in each compiled graph; {} where there is no output code."""

    table: list[StorageRow]
    timeline: list[MomentRow]
    unread: list[UnreadRow]
    uncounted: list[UncountedRow]


class CollectiveInfo(PricedRow):
    """A row of `t.collectives.table`; "started" and "waited" are lines of "text", "place" is the user's line for people."""

    text: int
    place: str


class OverlapInfo(OverlapRow):
    """A row of `t.collectives.timeline`; "line" is one of "text"."""

    text: int


class CollectivesInfo(TypedDict, total=False):
    """What ranks exchange, and what of it is hidden; {} where there is no collective."""

    table: list[CollectiveInfo]
    overlap: list[OverlapInfo]


class FailureInfo(TypedDict):
    """Something that went wrong: its stage, also as people call it, and the step, also in words."""

    stage: str
    title: str
    what: str
    step: str
    message: str
    fatal: bool


#: (source, target, how, runs) by index into "artifacts" and "hows". `runs` are four numbers a run: source line, count, target
#: line, count. A run links each source line with each target line; a target count of 0 means source + k with target + k.
LinkGroup = tuple[int, int, int, list[int]]


class TraceInfo(TypedDict):
    """One of several traces in a payload: its name, its facts, and how many texts it has; they follow those of the one before."""

    name: str
    meta: Facts
    counts: str
    texts: int


class FigureInfo(TypedDict):
    """A figure of each trace, None where it is not known; "unit" is "bytes", "seconds" or "" for a count."""

    figure: str
    unit: Literal["", "bytes", "seconds"]
    values: list[float | None]


class FactInfo(TypedDict):
    """A fact of the GPU of each trace, in words; "" where it is not known."""

    fact: str
    values: list[str]


class KernelPlace(TypedDict):
    """A kernel, dispatch or library call and its line in a text, 0 for the whole of it."""

    name: str
    artifact: int
    line: int


class MatchInfo(TypedDict):
    """Kernels of each trace that compute the same, with the bytes and seconds of these in each trace; see `KernelMatch`.

    "what" says how alike they are, "differs" what differs below their source, or why it is not known what matches.
    """

    graph: str
    what: str
    differs: str
    code: Names
    kernels: list[list[KernelPlace]]
    bytes: list[int | None]
    seconds: list[float | None]


class LineInfo(TypedDict):
    """A line of the program in one graph, and the kernels of each trace that compute it.

    "place" is the file and "line" in words; "artifact" and "at" are its source and its line there, -1 and 0 if no source has it.
    """

    graph: str
    place: str
    line: int
    code: str
    artifact: int
    at: int
    kernels: list[list[KernelPlace]]


class DifferenceInfo(TypedDict):
    """What differs in one of the "kernels" of a comparison, by its number "match", and why, in sentences."""

    what: str
    why: str
    match: int


class ComparisonInfo(TypedDict):
    """What several traces differ in. A row of "texts" is one text in each trace, by index, -1 where a trace has none.

    Ids of texts and frames begin with the name of their trace. "summary" counts the matches of "kernels", in sentences. "gpus" is
    empty where all traces are for one GPU. "work" says what a call takes in each, "" where it is not known. "hottest" are the
    kernels and library calls that differ, the largest difference first.
    """

    traces: list[TraceInfo]
    texts: list[list[int]]
    gpus: list[FactInfo]
    figures: list[FigureInfo]
    summary: list[str]
    work: str
    kernels: list[MatchInfo]
    hottest: list[DifferenceInfo]


class CauseInfo(TypedDict):
    """One thing that makes the program slow: see `advice.verdicts.Verdict`.

    "cost" and "how" are in words, "share" is that of a call, and "shared" writes it. A place is (index of a text, line).
    "call" is the `what_if` that proves it.
    """

    kind: str
    title: str
    cost: str
    how: str
    share: float
    shared: str
    evidence: str
    remedy: str
    call: str
    why_unproved: str
    lines: list[UserPlace]
    places: list[tuple[int, int]]


class AdviceInfo(TypedDict):
    """Why the program is slow: the verdicts, the costliest first, a headline, and what a call takes."""

    about: str
    headline: str
    verdicts: list[CauseInfo]


class StepInfo(TypedDict):
    """How many of something there are between the program and what is launched; the last steps are launches."""

    count: int
    noun: str
    is_launch: bool


class WorkInfo(TypedDict):
    """Launches of one kind, such as "kernels", with their seconds."""

    what: str
    count: int
    seconds: float


class KindInfo(TypedDict):
    """The bytes of one kind of memory, such as "input"."""

    kind: str
    bytes: int


class InputInfo(TypedDict):
    """A tensor that the call was compiled with: see `input_sizes.InputSize`; "artifact" and "line" are its fact in the guards."""

    name: str
    dtype: str
    does: str
    place: str
    code: str
    artifact: int
    line: int


class HotInfo(TypedDict):
    """Launches that are alike, with their kind as in `WorkInfo`, their seconds and share of the work.

    "artifact" and "line" are the kernel or call of the longest, -1 for none. "source" and "at" are its user line in a source, -1
    where the trace has no such source; "place" and "code" say it in words, "" for none. "others" counts further lines.
    """

    title: str
    kind: str
    seconds: float
    share: float
    kernel: str
    launches: int
    artifact: int
    line: int
    source: int
    at: int
    place: str
    code: str
    others: int


class OverviewInfo(TypedDict):
    """What a trace came to: see `overview.Overview`.

    "trace" is its name among several, "" alone. "seconds" are those of a call, "device" of its work, "host" of its launches from
    Python and "breaking" of its graph breaks, as "about" says; "unread" says why they are not known. Where a call was measured,
    "work" has its parts and "device" is the whole call. "ranked" counts what "hottest" is the beginning of: where one C++ kernel
    has the loops of several groups it is more than "launches". "memory" are the kinds of what is live at the peak of the graph
    that takes most, with their bytes; "peak" names this graph, and "bound" is "at least" where a size or the scratch memory of a
    call of this graph is not known. "saved" are the bytes that forward graphs save for their backward, None where a size is not
    known, "saved_inputs" those of inputs and parameters. "longest" names the longest single launch, "" if "hottest" begins with
    it. "inputs" are the tensors of the call that guards are on.
    """

    trace: str
    where: str
    compile_seconds: float
    lacks_backward: bool
    flow: list[StepInfo]
    seconds: float
    device: float
    host: float
    breaks: int
    breaking: float
    known: str
    about: str
    launches: int
    ranked: int
    unread: str
    work: list[WorkInfo]
    hottest: list[HotInfo]
    longest: str
    peak: str
    bound: Literal["at least", "at most"]
    memory: list[KindInfo]
    saved: int | None
    saved_inputs: int
    inputs: list[InputInfo]


class ViewInfo(TypedDict):
    """A view that the trace has something for; "about" is the tooltip of its tab."""

    name: str
    title: str
    about: str


class Payload(TypedDict):
    """A trace for the front end, or several with what they differ in.

    "notice" says which frames came from a cache, "" where all were compiled. "stages" are in the compiler's order, "hows" are
    the kinds of links. "on_demand" are the stages that a live trace can make. "views" are in the order of their tabs.
    """

    format: int
    meta: Facts
    counts: str
    notice: str
    stages: list[StageInfo]
    on_demand: list[StageOnDemand]
    artifacts: list[ArtifactInfo]
    strings: Names
    kernels: list[KernelInfo]
    calls: list[CallInfo]
    lines: list[LineInfo]
    fusion: list[FusionInfo]
    choices: list[ChoiceInfo]
    memory: MemoryInfo
    collectives: CollectivesInfo
    advice: AdviceInfo
    overview: list[OverviewInfo]
    hows: Names
    links: list[LinkGroup]
    failures: list[FailureInfo]
    views: list[ViewInfo]
    comparison: NotRequired[ComparisonInfo]


#: Where the objects are whose fields a part of the payload has.
HeldIn = Literal["artifacts", "fusion", "memory"]
#: (where, index, fields) of one object; the index is 0 in "memory", which is one.
Held = tuple[HeldIn, int, Names]


class Opening(TypedDict):
    """The first part of a packed payload: all but the fields that "parts" names, a list for each further part."""

    payload: Payload
    parts: list[list[Held]]


class Addition(TypedDict):
    """Texts made on demand; "forms" are (index of the kernel, stage, index of its new text) for the payload's "kernels"."""

    artifacts: list[ArtifactInfo]
    stages: list[StageInfo]
    hows: Names
    links: list[LinkGroup]
    forms: list[tuple[int, str, int]]


# The widget's traits and messages ----------------------------------------------------------------------------------------


class Selected(TypedDict, total=False):
    """The selected line; {} for none."""

    artifact: str
    stage: str
    frame: str
    graph: str
    kernel: str
    line: int
    node: str
    text: str


class OpenCommand(TypedDict):
    """Show a text; "line" is 0 for none, "pane" "" for where it fits."""

    kind: Literal["open"]
    artifact: str
    line: int
    pane: str
    number: int


class DiffCommand(TypedDict):
    """Show the difference of two texts."""

    kind: Literal["diff"]
    a: str
    b: str
    number: int


class ViewCommand(TypedDict):
    """Show a view by name."""

    kind: Literal["view"]
    name: str
    number: int


class SelectCommand(TypedDict):
    """Show a line that is selected already."""

    kind: Literal["select"]
    artifact: str
    line: int
    number: int


class GoCommand(TypedDict):
    """Show what a link says: the view, the text in each pane, the selected line."""

    kind: Literal["go"]
    place: str
    number: int


#: What Python asks of every view, numbered so that the same may be asked twice.
Command = OpenCommand | DiffCommand | ViewCommand | SelectCommand | GoCommand


class Progress(TypedDict, total=False):
    """What the live process is doing, `done` of `of` steps, and in the end "rows" or "error"; {} where nothing was asked.

    "artifact" is the id of the text that an edit, a reset or a comparison of configs is of.
    """

    what: str
    artifact: str
    phase: str
    done: int
    of: int
    rows: list[Facts]
    error: str
    stopped: bool


class Called(TypedDict, total=False):
    """A verb of the trace that the program itself called, as in a cell, while it works; {} where there is none.

    "seconds" is how long it has worked by now, "stopping" that it was asked to end.
    """

    what: str
    phase: str
    done: int
    of: int
    stopping: bool
    seconds: float


class MlirPass(TypedDict):
    """A pass of triton over one kernel, its texts by index; "changed" is None where the pass did not end."""

    stage: str
    name: str
    argument: str
    changed: bool | None
    error: str
    before: int
    after: int


class MlirPasses(TypedDict):
    """The passes of one kernel, by the id of its artifact."""

    artifact: str
    texts: Names
    rows: list[MlirPass]


class EditInfo(TypedDict):
    """An edit: "kernel" is the id of a kernel's source or of output code, "artifact" that of the text that was edited.

    "stands" says that it is what runs now, "unchecked" that it was put in place without a check, "meaning" what its status says
    beyond its name, "line" the line of the compiler's
    "message", 0 for none. "launch" and "call" are seconds of a launch and of a call of the whole function, "cost" what the
    compiled kernel takes: each with the edit's and the original's, None where it is not known. "timed" says how "launch" is
    known: "measured", or "predicted" for a GPU you don't have.
    """

    number: int
    kernel: str
    artifact: str
    text: str
    status: str
    meaning: str
    message: str
    line: int
    stands: bool
    unchecked: bool
    interpreted: bool
    timed: str
    launch: tuple[float | None, float | None]
    call: tuple[float | None, float | None]
    cost: dict[str, tuple[float | None, float | None]]


class MakeQuestion(TypedDict):
    """Make a text of a kernel."""

    ask: Literal["make"]
    artifact: str
    stage: str


class ChoiceQuestion(TypedDict):
    """Make the texts of choices in one stage; "rows" are their numbers in the payload's "choices"."""

    ask: Literal["choice"]
    rows: list[int]
    stage: str


class PassesQuestion(TypedDict):
    """Say what the passes of a kernel do."""

    ask: Literal["passes"]
    artifact: str


class WhatIfQuestion(TypedDict):
    """Compile again with a change, and show the changed trace beside the old one.

    "fusion" is "keep_apart" or "fuse" for the nodes "first" and "second" of a graph; the others name what is left out.
    """

    ask: Literal["what_if"]
    fusion: NotRequired[Literal["", "keep_apart", "fuse"]]
    first: NotRequired[str]
    second: NotRequired[str]
    frame: NotRequired[str]
    graph: NotRequired[str]
    without_pattern: NotRequired[str]
    without_pass: NotRequired[str]


class EditQuestion(TypedDict):
    """Put this text in the place of a kernel, whose source or form "artifact" is, or of output code; "unchecked" right or not."""

    ask: Literal["edit"]
    artifact: str
    text: str
    unchecked: bool


class ResetQuestion(TypedDict):
    """Put the original of a kernel back, whose source or form "artifact" is, or of output code."""

    ask: Literal["reset"]
    artifact: str


class TuneQuestion(TypedDict):
    """Compare configs of a kernel, whose source or form "artifact" is."""

    ask: Literal["tune"]
    artifact: str


class Action(TypedDict):
    """Do something with the compiled function, or stop that; "interrupt" stops what a cell has called."""

    ask: Literal["run", "check", "benchmark", "time_kernels", "roofline", "stop", "interrupt"]


#: What the front end asks of the live process.
Question = MakeQuestion | ChoiceQuestion | PassesQuestion | WhatIfQuestion | EditQuestion | ResetQuestion | TuneQuestion | Action

#: Shapes that may have keys beyond those that they name.
OPEN = (Resources,)
#: What the front end reads of the data of these stages, as far as it travels, and of their rows.
DATA = {
    "source": Source,
    "graph_break": GraphBreak,
    "pattern_match": PatternMatch,
    "fx_pass": FxPass,
    "choice": ChoiceForm,
}
#: What it reads of the data of a stage that says whose passes it shows.
OF_PASSES = PassFacts
ROWS = {"phase": Phase, "guards": GuardFact, "recompile": Recompile, "symbol": Symbol, "bisection": JudgedValue}
#: All that travels.
MESSAGES = (Payload, Opening, Addition, Selected, Command, Progress, Called, MlirPasses, EditInfo, Question)
