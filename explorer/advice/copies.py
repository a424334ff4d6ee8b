"""Verdicts on kernels that compute nothing: copies into another layout, casts to another dtype. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.advice.accesses import loop_calls, node_texts
from explorer.advice.dtypes import Cast, casts_of
from explorer.advice.verdicts import Cost, Verdict
from explorer.advice.whole import Launch, Whole, counted, reads_of
from explorer.model.values import Plain
from explorer.questions.costs import copied
from explorer.questions.kernel_bytes import VIEWS
from explorer.questions.user_lines import UserLine

#: The operations of a loop that copies, and of one that changes a dtype.
COPY = frozenset({"load", "store"})
CAST = COPY | {"to_dtype"}


def layouts(whole: Whole) -> Iterator[Verdict]:
    """Yield a verdict for the kernels that only copy a tensor into another layout, and for convolutions that copy theirs."""
    launches = [one for one in _only(whole, COPY, "load") if one.row["read"]]
    if launches:
        yield _computing_nothing(
            whole,
            launches,
            "layout copied",
            f"{counted(len(launches), 'launch')} of kernels that copy a tensor and compute nothing",
            "leave out .contiguous(), .clone() and reshapes of transposed tensors where what follows takes strides",
            "the lines have to change",
        )
    convolutions = [one for one in whole.launches if copied(one.row) and one.row["call"]]
    if convolutions and whole.target:
        extra = sum(copied(one.row) for one in convolutions)
        yield Verdict(
            "layout copied",
            f"{counted(len(convolutions), 'convolution')} whose channels do not lie side by side",
            Cost(whole.seconds_of(extra), "estimated", f"cuDNN copies what goes in and comes out, {whole.bandwidth}", extra),
            f"the strides of the input of {convolutions[0].name} are {_strides(convolutions[0])}",
            "put model and input into memory_format=torch.channels_last",
            whole.lines_of(convolutions),
            whole.places_of(convolutions),
            why_unproved="the input's layout has to change: trace with x.to(memory_format=torch.channels_last)",
        )


def _strides(launch: Launch) -> Plain:
    return next((call.strides[0] for call in launch.row["calls"] or () if call.strides), "not known")


def casts(whole: Whole) -> Iterator[Verdict]:
    """Yield a verdict for the kernels that only change a tensor's dtype: one for the program's own casts, one for others."""
    launches = _only(whole, CAST, "to_dtype")
    written = {id(one): casts_of(whole, one.graph.artifact.frame, whole.nodes_of(one)) for one in launches}
    own = [one for one in launches if written[id(one)]]
    if own:
        yield _own_casts(whole, own, tuple(dict.fromkeys(cast for one in own for cast in written[id(one)])))
    others = [one for one in launches if not written[id(one)]]
    if others:
        yield _computing_nothing(
            whole,
            others,
            "dtype cast",
            f"{counted(len(others), 'launch')} of kernels that only change a dtype{_of_inputs(whole, others)}",
            "hold it in the dtype that it is used in: for inference model.to(torch.bfloat16) in place of autocast",
            "the program's dtypes have to change",
        )


def _own_casts(whole: Whole, launches: Sequence[Launch], found: Sequence[Cast]) -> Verdict:
    """Say what casts cost that the program writes, and name their lines alone."""
    first = found[0]
    held = _of_inputs(whole, launches).removeprefix(", of ")
    keep = f"hold {held} in {first.after}, or " if held else ""
    return _computing_nothing(
        whole,
        launches,
        "dtype cast",
        f"{counted(len(launches), 'launch')} of kernels that only change a dtype: {first}"
        + (f", and {counted(len(found) - 1, 'other cast')}" if found[1:] else ""),
        f"{keep}leave .{first.method}() out where what reads its result takes {first.before}; a cast that is needed "
        "costs nothing in the kernel of the next operator, if that is generated and not a call",
        "the line has to change",
        tuple(one.line for one in found),
    )


def _of_inputs(whole: Whole, launches: Sequence[Launch]) -> str:
    """Name the program's inputs that some launches read, as ", of x, y"."""
    inputs = list(dict.fromkeys(name for one in launches for name in _inputs(whole, one)))
    return f", of {', '.join(inputs[:3])}{' …' if len(inputs) > 3 else ''}" if inputs else ""


def _computing_nothing(
    whole: Whole,
    launches: Sequence[Launch],
    kind: str,
    title: str,
    remedy: str,
    why: str,
    lines: tuple[UserLine, ...] = (),
) -> Verdict:
    """Make a verdict on launches that could be left out: they cost what they take."""
    moved = sum(one.row["read"] + one.row["written"] for one in launches)
    return Verdict(
        kind,
        title,
        Cost(sum(one.seconds for one in launches), launches[0].known, "what these launches take", moved),
        _kernels_and_targets(whole, launches),
        remedy,
        lines or whole.lines_of(launches),
        whole.places_of(launches),
        why_unproved=f"{why}: trace the changed program, and explorer.compare() shows both",
    )


def _only(whole: Whole, allowed: frozenset[str], needed: str) -> list[Launch]:
    """List the launches whose loops do nothing but some operations, among them one that is needed."""
    found = []
    for launch in whole.launches:
        texts = node_texts(whole, launch) if launch.row["kernels"] and launch.row["kind"] != "user's kernel" else []
        called = {operation for text in texts for operation in loop_calls(text)}
        if called <= allowed and needed in called:
            found.append(launch)
    return found


def _inputs(whole: Whole, launch: Launch) -> Iterator[str]:
    """Yield what the program calls the inputs that a launch reads."""
    names = whole.inputs_of(launch)
    yield from (names[used] for used in reads_of(launch) if used in names)


def _kernels_and_targets(whole: Whole, launches: Sequence[Launch]) -> str:
    names = list(dict.fromkeys(one.name for one in launches))
    targets = dict.fromkeys(
        str(node["target"]) for one in launches for node in whole.nodes_of(one) if node.get("op") == "call_function"
    )
    computing = [target for target in targets if not VIEWS.match(target)] or list(targets)
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more} of {', '.join(computing[:4])}: their loops load and store, nothing else"


__all__ = ["casts", "layouts"]
