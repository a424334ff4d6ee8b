"""`t.inductor`: its passes and patterns, how it lowered each node, what it chose and what it calls."""

from __future__ import annotations

from explorer.analysis.questions import lowering, tables
from explorer.analysis.questions.costs import call_table
from explorer.model.values import Table
from explorer.tracing.traced.accessor import TraceAccessor
from explorer.tracing.traced.choice import Choices


class InductorAccessor(TraceAccessor):
    """What Inductor changed, lowered and chose."""

    path = "t.inductor"

    @property
    def passes(self) -> Table:
        """One row per FX pass: section, name, `changed`, seconds, nodes made and erased, texts before and after.

        A pass that changed nothing is recorded in a round that changed something; its `changed` is False.
        """
        return tables.passes(self._trace)

    @property
    def matches(self) -> Table:
        """One row per pattern that matched: its name, the file and line that define it, the nodes matched, and those put in."""
        return tables.table(self._trace, "pattern_match")

    @property
    def decompositions(self) -> Table:
        """One row per operator that was decomposed in a graph: the operator, the nodes that it became, and the decomposition.

        `site` is "file:line function" of the Python decomposition, "" for operators that ATen itself decomposes.
        """
        return tables.decompositions(self._trace)

    @property
    def lowerings(self) -> Table:
        """One row per FX node that computes, fetches or views something: how Inductor lowered it, and the kernel it ended in.

        `kind` is "pointwise", "reduction", "scan", "sort", "scatter", "template", "extern call", "fallback", "view" and the
        like, `kinds` all that the node became. `function` and `lowered_at` are Inductor's, `file`, `line` and `code` the user's.
        `why` says why an operator is called, by the conditions that Inductor tested, or why its result is in memory.
        `realized` is None for a node that computes nothing. `kernels` and `calls` compute the node, together `with` these nodes.
        """
        return lowering.lowerings(self._trace)

    @property
    def choices(self) -> Choices:
        """The implementations of operators that Inductor chose among: `choices["triton_mm_7"]`, `choices[3]`, `choices.table`."""
        return Choices(self._trace)

    @property
    def extern_calls(self) -> Table:
        """One row per library call: operator, dtype of its operands, operations, bytes read and written, estimated seconds.

        `operations` are multiplications and additions, None if their number is unknown. The rest is as in `t.kernels.table`.
        """
        return call_table(self._trace)

    @property
    def assumptions(self) -> Table:
        """One row per decision that Inductor would take by timing on a GPU you don't have: frame, graph, where, assumed, why."""
        return tables.table(self._trace, "assumption")

    @property
    def cuda_graphs(self) -> Table:
        """One row per decision on CUDA graphs, if they are asked for: frame, graph, what, decision, reason, the user's line.

        `decision` is "captured", "captured in parts" or "skipped", "not captured" for a node outside the parts, and "skipped
        when called" if it depends on the tensors of a call. Calls that were recorded add "warmed up", "recorded", "recorded
        again" and "replayed", a row for each `reason`: `count` is how often, `seconds` is how long Python took for all of them.
        """
        return tables.table(self._trace, "cuda_graph")

    @property
    def perf_hints(self) -> Table:
        """One row per performance hint of Inductor's: frame, graph, hint, the FX nodes that it concerns, the user's line."""
        return tables.table(self._trace, "perf_hint")

    def summary(self) -> str:
        """Say that another compiler compiled the trace, and where its own tables are."""
        backend = str(self._trace.meta.get("backend") or "inductor")
        if backend == "inductor":
            return ""
        own = [stage for stage in dict.fromkeys(a.stage for a in self._trace.artifacts) if stage.startswith(backend)]
        return f"Inductor did not run (backend={backend!r}){': ' if own else ''}{', '.join(f't.table({s!r})' for s in own)}"
