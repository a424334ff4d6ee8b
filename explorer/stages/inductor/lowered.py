"""What lowering made of an FX node, in plain words: its kind, and why a library is called. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from explorer.model.records import Record, record
from explorer.model.shared import Names


@record
class LoweredResult(Record):
    """A result of lowering an FX node: the boxes and views on the way, the class inside, and its buffer, "" for none.

    `classes` has the class of the IR node and after it those that it is derived from in Inductor.
    """

    views: Names
    classes: Names
    buffer: str


@record
class LoweredNode(Record):
    """An FX node as Inductor lowered it: the function that is registered for its target, and what came out.

    `function`, `file` and `line` are "", "" and 0 for a node without a lowering, such as a constant or an entry of a tuple.
    """

    node: str
    op: str
    target: str
    function: str
    file: str
    line: int
    device: str
    results: tuple[LoweredResult, ...]


@record
class Decision(Record):
    """A place in Inductor's code, and the conditions that it tested on the way there, as its source writes them.

    `conditions` are those around the line, "not (…)" for an else branch; `passed` those before it that would have returned, and
    were false; `tested` has what the names in `conditions` were.
    """

    file: str
    line: int
    function: str
    conditions: Names
    passed: Names
    tested: Mapping[str, str]


@record
class FallbackReason(Record):
    """How Inductor came to call an operator of ATen instead of generating code: what it tested, innermost decision first.

    `registered` says that the operator's own lowering is the call; `listed` is "file:line" of the statement that makes it so;
    `unregistered` that no lowering was found and the call was made in its place. `asked` has questions to the backend with
    their answers, `refused` where a function that makes loops gave none, `unsupported` tensors that Inductor does not take.
    """

    operator: str
    decisions: tuple[Decision, ...]
    registered: bool
    unregistered: bool
    listed: str
    asked: tuple[tuple[str, str], ...]
    refused: Decision | None = None
    unsupported: Names


@record
class LoweredOperation(Record):
    """An operation of the graph: a loop nest put in memory, a template, or a call, and the FX node that it is of.

    `lowering` is the FX node under way when it was made, which for a loop nest may be a later one. `loops` has the class of the
    loop nest and those that it is derived from, () for what is none. `call` is what the wrapper calls.
    """

    operation: str
    buffers: Names
    node: str
    lowering: str
    classes: Names
    loops: Names
    call: str
    reason: FallbackReason | None = None


@record
class ReductionSplit(Record):
    """The number of parts in which Inductor does a reduction: "1" for all at once, "-1" for the parts of its input.

    `rows` are the sizes that stay, `reduced` how many elements each result is made of, `hint` Inductor's ReductionHint.
    """

    node: str
    reduction: str
    rows: Names
    reduced: str
    hint: str
    parts: str
    asked: tuple[tuple[str, str], ...]


@record
class LoopOrder(Record):
    """A new order of the loops of an operation: places in `sizes`, outermost first; `to_match` a buffer, "" for its strides."""

    operation: str
    order: tuple[int, ...]
    sizes: Names
    to_match: str


@record
class CandidateTiling(Record):
    """A tiling that the heuristic on strides proposed, by its loop variables, and its score."""

    tiling: Mapping[str, str]
    score: str


@record
class Tiling(Record):
    """How the loops of a kernel are tiled, by loop variable: of Triton the sizes, of C++ the dimension and the vector's length.

    `scores` is Inductor's analysis of coalesced accesses, empty where it decided by `candidates`. `kernel` is "" in C++.
    """

    kernel: str
    operations: Names
    tiling: Mapping[str, str]
    candidates: tuple[CandidateTiling, ...]
    scores: Mapping[str, str]


@record
class Lowering(Record):
    """How each FX node of one graph was lowered, and Inductor's decisions on its loops; see `capture/observe/lowering.py`."""

    of: str
    path: str
    lowered: tuple[LoweredNode, ...]
    operations: tuple[LoweredOperation, ...]
    splits: tuple[ReductionSplit, ...]
    orders: tuple[LoopOrder, ...]
    tilings: tuple[Tiling, ...]


#: A class of Inductor's IR → the kind of an operation that has it among its classes, or among those of its loops.
CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "_CollectiveKernel": "collective",
        "_WaitKernel": "collective",
        "FallbackKernel": "fallback",
        "UserDefinedTritonKernel": "user's kernel",
        "TemplateBuffer": "template",
        "MultiOutput": "output of a call",
        "NopKernel": "nothing computed",
        "Sort": "sort",
        "Scan": "scan",
        "Reduction": "reduction",
        "Scatter": "scatter",
        "Pointwise": "pointwise",
        "ExternKernel": "extern call",
    }
)
#: Kinds in the order in which one stands for all of a node's operations.
ORDER = (
    "fallback",
    "template",
    "user's kernel",
    "collective",
    "extern call",
    "sort",
    "scan",
    "reduction",
    "scatter",
    "pointwise",
    "nothing computed",
    "output of a call",
)
#: What computes nothing of its own: no buffer is made for it, and nothing is computed where it is read.
IDLE = ("view", "entry of a tuple", "constant", "same buffer", "size", "nothing")
#: Boxes around a result, which are no views.
BOXES = ("TensorBox", "StorageBox", "MutableBox")


def kind_of_operation(operation: LoweredOperation) -> str:
    """The kind of an operation, such as "reduction", "extern call" or "fallback"; a class that has no name here as it is."""
    classes = (*operation.loops, *operation.classes)
    if "_CollectiveKernel" not in classes and any(name.endswith("Fallback") for name in classes):
        return "fallback"
    return next((kind for name, kind in CLASSES.items() if name in classes), str(classes[0]))


def kinds_of_node(node: LoweredNode, operations: Sequence[LoweredOperation]) -> tuple[str, ...]:
    """The kinds of what a node was lowered to, the one that stands for all first."""
    found = {kind_of_operation(operation) for operation in operations}
    found |= {kind for result in node.results if (kind := _kind_of_result(node, result)) not in IDLE or not found}
    ranked = sorted(found, key=lambda kind: ORDER.index(kind) if kind in ORDER else len(ORDER))
    return tuple(kind for kind in ranked if kind != "output of a call" or len(ranked) == 1)


def _kind_of_result(node: LoweredNode, result: LoweredResult) -> str:
    """What a result is that has no operation of its own."""
    if node.target == "_operator.getitem":
        return "entry of a tuple"
    if set(result.views) - set(BOXES):
        return "view"
    name = result.classes[0]
    if name == "NoneType":
        return "nothing"
    if result.buffer:
        return "constant" if node.op == "get_attr" else "same buffer"
    kind = next((kind for known, kind in CLASSES.items() if known in result.classes), "")
    return kind or ("size" if not result.views else str(name))


# Why a library is called -------------------------------------------------------------------------------------------------


def why_fallback(reason: FallbackReason) -> str:
    """Why an operator is called, by the conditions that Inductor tested; says so where they were not seen."""
    decisions = reason.decisions
    inner = decisions[0] if decisions else None
    if inner is not None and inner.function == "GraphLowering.run_node" and reason.unsupported:
        return f"it takes or gives a tensor that Inductor writes no code for, {', '.join(reason.unsupported)} ({place(inner)})"
    if reason.unregistered:
        return "Inductor has no lowering for it, so it calls the operator itself"
    if reason.registered:
        listed = reason.listed
        if listed:
            return f"Inductor has it among the operators that it calls: make_fallback in {listed}"
        return "its lowering is a call, registered before the recording: by which statement was not seen"
    said = [_tested(one, reason.asked) for one in decisions if one.conditions]
    if refused := reason.refused:
        said.insert(0, f"{refused.function} made no loops of it, for {_tested(refused, reason.asked)}")
    if said:
        return "; ".join(said)
    if inner is None:
        return "the calls that led to it were not seen"
    before = " and ".join(f"`not ({test})`" for test in inner.passed)
    passed = f", after {before}" if before else ""
    return f"{inner.function} calls it without a test around the call ({place(inner)}){passed}"


def _tested(decision: Decision, asked: Sequence[tuple[str, str]]) -> str:
    """The conditions that held at a place, and what the names in them were."""
    tests = " and ".join(f"`{test}`" for test in decision.conditions)
    known = [f"{name} = {value}" for name, value in decision.tested.items()]
    known += [f"{question} = {answer}" for question, answer in asked if _is_about(question, decision.conditions)]
    given = f" with {', '.join(known)}" if known else ""
    return f"{tests} held{given} in {place(decision)}"


def _is_about(question: str, conditions: Sequence[str]) -> bool:
    """Whether a question to the backend is one that the conditions name: has_feature(cpu, SCAN)."""
    name, _, arguments = question.partition("(")
    last = arguments.rstrip(")").rpartition(", ")[2]
    return any(f"{name}(" in test and last in test for test in conditions)


def place(decision: Decision) -> str:
    """ "cumsum, FILE:7510"."""
    return f"{decision.function}, {decision.file}:{decision.line}"


# Decisions on loops ------------------------------------------------------------------------------------------------------


def said_of_split(split: ReductionSplit) -> str:
    """In how many parts a reduction is done, and what Inductor asked to know it."""
    rows = " × ".join(split.rows) or "1"
    parts = split.parts
    how = {"1": "in one part", "-1": "with the loops of its input"}.get(parts, f"in {parts} parts")
    asked = "; ".join(f"{question} = {answer}" for question, answer in split.asked)
    because = f" ({asked})" if asked else " (Inductor asked nothing to decide it)"
    return f"{split.reduction} of {split.reduced} elements to each of {rows}: {how}, ReductionHint.{split.hint}{because}"


def said_of_order(order: LoopOrder) -> str:
    """The order that the loops of an operation were put in."""
    sizes = order.sizes
    new = " × ".join(sizes[n] for n in order.order if n < len(sizes))
    to_match = f"so that it reads {order.to_match} as another kernel does"
    why = to_match if order.to_match else "by the strides of what it reads and writes"
    return f"{order.operation}: loops {' × '.join(sizes)} became {new}, {why}"


def said_of_tiling(tiling: Tiling) -> str:
    """How a kernel's loops are tiled, and by what it was decided."""
    named = _pairs(tiling.tiling)
    if not tiling.kernel:
        of = "_".join(tiling.operations)
        by = ", ".join(f"dimension {dimension} by {size}" for dimension, size in tiling.tiling.items())
        return f"{of}: {f'vectors along {by}' if by else 'no vectors'}"
    said = f"{tiling.kernel}: {named}"
    if tiling.scores:
        return f"{said}, scores of coalesced accesses {_pairs(tiling.scores)}"
    if tiling.candidates:
        candidates = "; ".join(f"{_pairs(one.tiling)} (score {one.score})" for one in tiling.candidates)
        return f"{said}, of the candidates {candidates}"
    return said


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def said_of_loops(data: Lowering) -> Iterator[tuple[str, Sequence[tuple[str, str]]]]:
    """The decisions on loops under their headings, each with the FX node that it is about, "" for none."""
    node_of = {operation.operation: operation.node for operation in data.operations}
    if data.splits:
        yield "reductions", [(one.node, said_of_split(one)) for one in data.splits]
    if data.orders:
        yield "order of loops", [(node_of.get(one.operation, ""), said_of_order(one)) for one in data.orders]
    if data.tilings:
        yield "tiling", [("", said_of_tiling(one)) for one in data.tilings]
