"""`t.collectives`: what ranks exchange, and what runs beside it."""

from __future__ import annotations

from explorer.analysis.questions.priced_collectives import overlap, priced_collectives
from explorer.model.values import Table
from explorer.tracing.traced.accessor import TraceAccessor


class CollectivesAccessor(TraceAccessor):
    """What the ranks of a job exchange, and when."""

    path = "t.collectives"

    @property
    def table(self) -> Table:
        """One row per collective, in the order they start: operator, group, ranks, bytes, the user's line, start and wait.

        Collectives that DDP, FSDP2 or Python sent outside of the graphs follow: `sent_by` says who sent one, `after` and `before`
        between which graphs. `between` then names the kernels of the last step that can run beside it.

        `between` names the kernels and library calls between `started` and `waited`, lines of the output code. For a GPU you
        don't have, `seconds` are an estimate from NCCL's latencies and the GPU's interconnect. `seconds_known` is its source;
        `exposed` is the part that nothing hides.
        """
        return priced_collectives(self._trace)

    @property
    def timeline(self) -> Table:
        """One row per kernel, library call, collective and wait of each graph with collectives: when it begins, and its seconds.

        The GPU has one stream that computes and one per process group, each in the order of the output code. A wait holds the
        computing stream until its collective has ended; its seconds say how long. For a GPU you don't have, seconds are
        estimates, as in `table`, and None if unknown. Launches are assumed to cost nothing.
        """
        return overlap(self._trace)
