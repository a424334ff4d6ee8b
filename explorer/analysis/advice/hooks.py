"""Verdicts on the collectives of DDP's and FSDP2's hooks: which bucket or module is waited for, and what would hide it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.analysis.advice.call_cost import TracedCall
from explorer.analysis.advice.verdicts import Cost, Verdict, duration, size
from explorer.analysis.questions.hook_overlap import exposed_seconds, last_step, seconds_of_graphs
from explorer.analysis.questions.priced_collectives import PricedRow, estimated_hooks, priced_rows
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain
from explorer.model.wording import quantity
from explorer.stages.torch_compile.eager_collective import (
    BUCKET_SIZE,
    DDP,
    FSDP2,
    RESHARDING,
    EagerCollective,
    EagerCollectives,
    line_of,
    name_of,
)

KIND = "exposed collectives"
#: The last bucket of a backward is always exposed; if this part of all gradients is sent last, too little is left to overlap.
MOST = 0.5
#: Why no what_if proves it.
WRAPPED = "it is decided where the program wraps or calls its modules: change that, and trace the program again"
#: The number of buckets that the proposed size makes of all gradients, and the least size that torch.compile takes, in MiB.
BUCKETS, LEAST_BUCKET = 4, 1.0
#: How the seconds are known.
PROFILED = "the profile has no other kernel meanwhile"
LAID_OUT = (
    "the graphs and collectives of the last step on a GPU's streams, where the CPU runs ahead of the GPU; eager operators "
    "between the graphs count as nothing"
)
#: What helps where the order is right.
SEND_LESS = "give each rank a larger batch, or send less: accumulate gradients over several batches, or {halve}"
IN_BF16 = {
    DDP: "halve the bytes with torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook",
    FSDP2: "halve the bytes with MixedPrecisionPolicy(param_dtype=torch.bfloat16)",
}
ORDER = (
    "let DDP fill its first bucket with the gradients that are there first: here most are sent when the backward has ended. "
    "DDP does so after its first step, but not with find_unused_parameters=True: leave that out, or register the modules in the "
    "order in which they run"
)
ONE_GRAPH = (
    "leave torch._dynamo.config.optimize_ddp on, and call the wrapped model in what is compiled: the backward is one graph, so "
    "that no bucket is sent before it has ended"
)


def exposed(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict on DDP's and on FSDP2's collectives of the last step, with the one that is longest exposed."""
    for artifact in traced.trace.find("eager_collective"):
        data = typed(EagerCollectives, artifact.data)
        rows = {row["started"]: row for row in priced_rows(traced.trace) if row["artifact"] == artifact.id}
        step = last_step(data)
        for sender in (DDP, FSDP2):
            of_step = {each for each in step if each >= 0 and data.rows[each].sender == sender}
            known = {number: row for number in sorted(of_step) if (row := rows[line_of(number)])["exposed"] is not None}
            if known:
                yield _Step(traced.trace, artifact, data, step, sender, known).verdict()


@dataclass(frozen=True)
class _Step:
    """What one sender exchanges in the last step of `data`: `rows` has the priced rows by their number there."""

    trace: TraceData
    artifact: Artifact
    data: EagerCollectives
    step: Sequence[int]
    sender: str
    rows: dict[int, PricedRow]

    def verdict(self) -> Verdict:
        """Say what is exposed of all, and what of the one that is exposed longest."""
        held = sum(row["exposed"] or 0.0 for row in self.rows.values())
        whole = sum(row["seconds"] or 0.0 for row in self.rows.values())
        number = max(self.rows, key=lambda each: self.rows[each]["exposed"] or 0.0)
        worst = self.rows[number]
        measured = all(row["seconds_known"].startswith("measured") for row in self.rows.values())
        remedy, settings = self._remedy_of_ddp() if self.sender == DDP else self._remedy_of_fsdp2()
        part = f"{duration(worst['exposed'] or 0.0)} of {duration(worst['seconds'] or 0.0)}"
        return Verdict(
            KIND,
            f"{self.sender}'s collectives take {duration(whole)} a step, and nothing hides {duration(held)} of it",
            Cost(held, *(("measured", PROFILED) if measured else ("estimated", LAID_OUT)), beyond=True),
            f"longest exposed, {part}: {_named(self.data.rows[number])}, {size(worst['bytes'] or 0)}, sent {_place(worst)}",
            remedy,
            (UserLine(worst["file"], worst["line"], worst["code"]),) if worst["file"] else (),
            places=((self.artifact.id, worst["started"] or 1),),
            what_if={"settings": settings} if settings else {},
            why_unproved="" if settings else WRAPPED,
        )

    def _remedy_of_ddp(self) -> tuple[str, dict[str, Plain]]:
        buckets = {number: row for number, row in self.rows.items() if row["operator"] == "all_reduce"}
        graphs = [self.data.graphs[-1 - each] for each in self.step if each < 0]
        last = name_of(graphs[-1])
        at_end = {number: row["bytes"] or 0 for number, row in buckets.items() if row["after"] == last}
        whole = sum(row["bytes"] or 0 for row in buckets.values())
        if sum(at_end.values()) < MOST * whole:
            return SEND_LESS.format(halve=IN_BF16[DDP]), {}
        largest = max(at_end.values())
        if largest >= MOST * whole:
            said = f"lower bucket_cap_mb, 25 by default: {largest / whole:.0%} of the gradients are in the last bucket"
            smaller = max(LEAST_BUCKET, round(whole / BUCKETS / 2**20, 1))
            return said, {BUCKET_SIZE: smaller} if smaller < largest / 2**20 else {}
        return ORDER if sum(graph.graph == "backward" for graph in graphs) > 1 else ONE_GRAPH, {}

    def _remedy_of_fsdp2(self) -> tuple[str, dict[str, Plain]]:
        again = [number for number in self.rows if self.data.rows[number].hook == "pre_backward"]
        if not again:
            return SEND_LESS.format(halve=IN_BF16[FSDP2]), {}
        estimated = (row for row in estimated_hooks(self.trace) if row["artifact"] == self.artifact.id)
        prices = {number: row["seconds"] for number, row in enumerate(estimated)}
        without = exposed_seconds(self.data, seconds_of_graphs(self.trace), prices, left_out=again)
        left = sum(without.get(number) or 0.0 for number in self.rows)
        kept = size(sum(self.data.rows[number].bytes for number in again))
        said = (
            f"keep the parameters for the backward with reshard_after_forward=False: {duration(left)} would be exposed, "
            f"estimated, and up to {kept} more stay in memory"
        )
        return said, {RESHARDING: False}


def _named(row: EagerCollective) -> str:
    """Name a bucket by its first and last parameter, and FSDP2's collective by its hook and module."""
    if row.sender == FSDP2:
        return f"{row.operator} in {row.hook} of {row.module or 'the outermost module'}"
    name = f"bucket {row.bucket}" if row.bucket is not None else row.operator
    if not row.parameters:
        return name
    ends = " to ".join(dict.fromkeys((row.parameters[0], row.parameters[-1])))
    return f"{name} ({quantity(len(row.parameters), 'parameter')}, {ends})"


def _place(row: PricedRow) -> str:
    sides = [f"{word} {name}" for word, name in (("after", row["after"]), ("before", row["before"])) if name]
    return " and ".join(sides) or "where no compiled graph ran"


__all__ = ["KIND", "exposed"]
