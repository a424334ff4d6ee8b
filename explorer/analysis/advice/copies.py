"""Verdicts on kernels that compute nothing: copies into another layout, casts to another dtype. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from explorer.analysis.advice.accesses import across, loop_calls, mutated, node_texts
from explorer.analysis.advice.call_cost import Launch, TracedCall, reads_of
from explorer.analysis.advice.dtypes import Cast, casts_of
from explorer.analysis.advice.verdicts import Cost, Verdict
from explorer.analysis.questions.costs import copied
from explorer.analysis.questions.memory import element_size
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.values import Plain
from explorer.model.wording import quantity
from explorer.stages.fx_graph import VIEWS

#: The operations of a loop that copies, and of one that changes a dtype.
COPY = frozenset({"load", "store"})
CAST = COPY | {"to_dtype"}
#: The part of its time that a kernel loses for reading across rows, by bytes an element: 1.03 to 1.1 and 1.1 to 1.3 times as
#: long, measured on an H100 with torch 2.11 for relu of a transposed matrix and for permutations of three dimensions.
ACROSS = {4: 0.07, 2: 0.16, 1: 0.16}
#: The operator of `.clone()`, `.contiguous()` and a reshape that has to copy.
CLONE = re.compile(r"^aten\.clone\.")
#: How the pass `pad_mm` names its nodes; those of the program's own padding have no "default".
PADDING = "constant_pad_nd_default"


def layouts(traced: TracedCall) -> Iterator[Verdict]:
    """Yield verdicts on copies into another layout: by kernels that do nothing else, by others, and by convolutions."""
    copying = [one for one in _only(traced, COPY, "load") if one.row["read"] and not _is_changed(traced, one)]
    reasons = {id(one): _why_copied(traced, one) for one in copying}
    launches = [one for one in copying if reasons[id(one)] == "clone"]
    if launches:
        yield _computing_nothing(
            traced,
            launches,
            "layout copied",
            f"{quantity(len(launches), 'launch')} of kernels that copy a tensor and compute nothing",
            "leave out .contiguous(), .clone() and reshapes of transposed tensors where what follows takes strides",
            "the lines have to change",
        )
    if operands := [one for one in copying if reasons[id(one)] == "convolution"]:
        yield _computing_nothing(
            traced,
            operands,
            "layout copied",
            f"{quantity(len(operands), 'launch')} of kernels that copy what a convolution reads into channels_last",
            "put model and input into memory_format=torch.channels_last",
            "the input's layout has to change",
        )
    if padded := [one for one in traced.launches if _pads_a_product(traced, one)]:
        yield _computing_nothing(
            traced,
            padded,
            "layout copied",
            f"{quantity(len(padded), 'launch')} of kernels that pad the operands of a product to aligned sizes",
            "pad the tensors once to a multiple of 8 elements, as a vocabulary of 50,257 to 50,304",
            "the shapes have to change",
            doing="Inductor pads at each call, because products of unaligned rows are slower",
        )
    fused = {id(one): (one, share) for one in traced.launches if (share := _relayout(traced, one))}
    if fused:
        yield Verdict(
            "layout copied",
            f"{quantity(len(fused), 'kernel')} that read a tensor across its rows",
            Cost(
                sum(one.seconds * share for one, share in fused.values()),
                next(iter(fused.values()))[0].known,
                "the part of these kernels that one in order would save, as measured on an H100",
            ),
            f"{', '.join(dict.fromkeys(one.name for one, _ in fused.values()))}: elements that are adjacent in the result "
            "are apart in the tensor that is read",
            "leave out .contiguous() and .clone() of a permuted tensor where what follows takes strides, or hold the tensor "
            "in the order of the result",
            traced.lines_of([one for one, _ in fused.values()]),
            traced.places_of([one for one, _ in fused.values()]),
            why_unproved="the lines have to change: trace the changed program, and explorer.compare() shows both",
        )
    convolutions = [one for one in traced.launches if copied(one.row) and one.row["call"]]
    if convolutions and traced.target:
        extra = sum(copied(one.row) for one in convolutions)
        yield Verdict(
            "layout copied",
            f"{quantity(len(convolutions), 'convolution')} whose channels do not lie side by side",
            Cost(traced.seconds_of(extra), "estimated", f"cuDNN copies what goes in and comes out, {traced.bandwidth}", extra),
            f"the strides of the input of {convolutions[0].name} are {_strides(convolutions[0])}",
            "put model and input into memory_format=torch.channels_last",
            traced.lines_of(convolutions),
            traced.places_of(convolutions),
            why_unproved="the input's layout has to change: trace with x.to(memory_format=torch.channels_last)",
        )


def _why_copied(traced: TracedCall, launch: Launch) -> str:
    """Say for what a kernel copies: "clone" in the program, "convolution" for one that is called, else ""."""
    nodes = [node for node in traced.nodes_of(launch) if node.get("op") == "call_function"]
    # a copy is also a part of the call that reads it
    called = {call.node for one in traced.launches for call in one.row["calls"] or () if one is not launch}
    targets = [str(node["target"]) for node in nodes if node["name"] not in called and not VIEWS.match(str(node["target"]))]
    if targets:
        return "clone" if all(map(CLONE.match, targets)) else ""
    return "convolution" if any("convolution" in str(node["target"]) for node in nodes) else ""


def _is_changed(traced: TracedCall, launch: Launch) -> bool:
    """Tell whether the copy that a launch makes is then written in place: the program needs such a copy."""
    changed = {name for one in traced.launches if one.graph is launch.graph for name in mutated(traced, one)}
    return bool(changed.intersection(launch.row["buffers"]))


def _pads_a_product(traced: TracedCall, launch: Launch) -> bool:
    """Tell whether a kernel does nothing but a padding that Inductor's pass for products put in, which names its nodes so."""
    nodes = [node for node in traced.nodes_of(launch) if not VIEWS.match(str(node.get("target")))]
    return bool(launch.row["kernels"] and nodes) and all(str(node["name"]).startswith(PADDING) for node in nodes)


def _relayout(traced: TracedCall, launch: Launch) -> float:
    """Return the part of its time that a kernel loses because the program's clone made it read across rows; 0 for none."""
    targets = [str(node["target"]) for node in traced.nodes_of(launch)]
    if traced.target is None or not launch.row["kernels"] or not any(map(CLONE.match, targets)):
        return 0.0
    texts = node_texts(traced, launch)
    if all(loop_calls(text) <= COPY for text in texts):
        return 0.0
    return max((ACROSS.get(element_size(dtype), 0.0) for text in texts for dtype in across(text)), default=0.0)


def _strides(launch: Launch) -> Plain:
    return next((call.strides[0] for call in launch.row["calls"] or () if call.strides), "not known")


def casts(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for the kernels that only change a tensor's dtype: one for the program's own casts, one for others."""
    launches = _only(traced, CAST, "to_dtype")
    written = {id(one): casts_of(traced, one.graph.artifact.frame, traced.nodes_of(one)) for one in launches}
    own = [one for one in launches if written[id(one)]]
    if own:
        yield _own_casts(traced, own, tuple(dict.fromkeys(cast for one in own for cast in written[id(one)])))
    others = [one for one in launches if not written[id(one)]]
    if others:
        yield _computing_nothing(
            traced,
            others,
            "dtype cast",
            f"{quantity(len(others), 'launch')} of kernels that only change a dtype{_of_inputs(traced, others)}",
            "hold it in the dtype that it is used in: for inference model.to(torch.bfloat16) in place of autocast",
            "the program's dtypes have to change",
        )


def _own_casts(traced: TracedCall, launches: Sequence[Launch], found: Sequence[Cast]) -> Verdict:
    """Say what casts cost that the program writes, and name their lines alone."""
    first = found[0]
    held = _of_inputs(traced, launches).removeprefix(", of ")
    keep = f"hold {held} in {first.after}, or " if held else ""
    return _computing_nothing(
        traced,
        launches,
        "dtype cast",
        f"{quantity(len(launches), 'launch')} of kernels that only change a dtype: {first}"
        + (f", and {quantity(len(found) - 1, 'other cast')}" if found[1:] else ""),
        f"{keep}leave .{first.method}() out if its consumer accepts {first.before}; a cast that is needed "
        "costs nothing in the kernel of the next operator, if that is generated and not a call",
        "the line has to change",
        tuple(one.line for one in found),
    )


def _of_inputs(traced: TracedCall, launches: Sequence[Launch]) -> str:
    """Name the program's inputs that some launches read, as ", of x, y"."""
    inputs = list(dict.fromkeys(name for one in launches for name in _inputs(traced, one)))
    return f", of {', '.join(inputs[:3])}{' …' if len(inputs) > 3 else ''}" if inputs else ""


def _computing_nothing(
    traced: TracedCall,
    launches: Sequence[Launch],
    kind: str,
    title: str,
    remedy: str,
    why: str,
    lines: tuple[UserLine, ...] = (),
    doing: str = "their loops load and store, nothing else",
) -> Verdict:
    """Make a verdict on launches that could be left out: they cost what they take."""
    moved = sum(one.row["read"] + one.row["written"] for one in launches)
    return Verdict(
        kind,
        title,
        Cost(sum(one.seconds for one in launches), launches[0].known, "what these launches take", moved),
        f"{_kernels_and_targets(traced, launches)}: {doing}",
        remedy,
        lines or traced.lines_of(launches),
        traced.places_of(launches),
        why_unproved=f"{why}: trace the changed program, and explorer.compare() shows both",
    )


def _only(traced: TracedCall, allowed: frozenset[str], needed: str) -> list[Launch]:
    """List the launches whose loops do nothing but some operations, among them one that is needed."""
    found = []
    for launch in traced.launches:
        texts = node_texts(traced, launch) if launch.row["kernels"] and launch.row["kind"] != "user's kernel" else []
        called = {operation for text in texts for operation in loop_calls(text)}
        if called <= allowed and needed in called:
            found.append(launch)
    return found


def _inputs(traced: TracedCall, launch: Launch) -> Iterator[str]:
    """Yield what the program calls the inputs that a launch reads."""
    names = traced.inputs_of(launch)
    yield from (names[used] for used in reads_of(launch) if used in names)


def _kernels_and_targets(traced: TracedCall, launches: Sequence[Launch]) -> str:
    names = list(dict.fromkeys(one.name for one in launches))
    targets = dict.fromkeys(
        str(node["target"]) for one in launches for node in traced.nodes_of(one) if node.get("op") == "call_function"
    )
    computing = [target for target in targets if not VIEWS.match(target)] or list(targets)
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more} of {', '.join(computing[:4])}"


__all__ = ["casts", "layouts"]
