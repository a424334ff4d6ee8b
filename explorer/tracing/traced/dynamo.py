"""`t.dynamo`: the functions that Dynamo compiled, their guards, graph breaks and recompiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.analysis.questions import tables
from explorer.lab.live.protocol import needs_live
from explorer.model.values import Table
from explorer.tracing.traced.accessor import TraceAccessor

if TYPE_CHECKING:
    from explorer.lab.stepping.symbolic import SymbolicSteps


class DynamoAccessor(TraceAccessor):
    """What Dynamo captured, and what it guards."""

    path = "t.dynamo"

    @property
    def functions(self) -> Table:
        """One row per function that Dynamo compiled, resume functions included: name, whether it ran, and who compiled it.

        `compile_file`, `compile_line` and `compile_code` name the torch.compile call, with its `backend`, `options` and
        `dynamic`; `called_file`, `called_line` and `called_code` name the program's line that called the compiled function. A
        torch.compile call from before the recording has no file. A file that is a cell of a notebook has its name, "In[5]".
        """
        return tables.functions(self._trace)

    @property
    def guards(self) -> Table:
        """One row per guard: frame, kind, the source that it guards, its expression, and where it comes from.

        `code`, `file` and `line` are of the user's program, `framework` is the line of torch that made the guard. `origin` puts
        it in words, also for one of torch's own, and for one `derived_from` others, each a (kind, source). `note` is torch's own.
        """
        return tables.table(self._trace, "guards")

    @property
    def graph_breaks(self) -> Table:
        """One row per graph break: the first frame it ended, reason, explanation, hints, the user's file and line, all frames.

        A break in a function ends each frame that calls it: `frames` has them all. A file that is a cell of a notebook has its
        name, "In[5]".
        """
        return tables.graph_breaks(self._trace)

    @property
    def recompiles(self) -> Table:
        """One row per failed guard: the frame compiled again, the earlier compile, and the guard in Dynamo's words."""
        return tables.recompiles(self._trace)

    @property
    def symbols(self) -> Table:
        """One row per dynamic size: symbol, source, range ("vr"), value at this call, and the user's line.

        An unbacked symbol, such as the size of what `nonzero` returns, has no value: "" in `val`.
        """
        return tables.symbols(self._trace)

    def steps(self) -> SymbolicSteps:
        """Trace the call once more, and give one row per step of Dynamo's symbolic execution; `.text` writes them out.

        A step is an instruction of the user's bytecode: `offset`, `opname` and `argument`, with the user's `file` and `line`, and
        the symbolic `stack` and `locals` after it; `changed` names the locals that it changed. `nodes` and `guards` are those
        that it added itself; `depth` counts inlined calls, whose steps follow the step of the call. If Dynamo starts again, as
        for a graph break, `attempt` counts on; the graph comes from the `last_attempt`. `raised` is what ended a step.
        `t.attach(t.dynamo.steps())` shows and saves them with the trace. LiveError for a loaded trace, CompileError where the
        call cannot be compiled again.
        """
        from explorer.lab.stepping import symbolic

        live = needs_live(self._trace, "symbolic steps")
        with live.watchers.verb("dynamo.steps()"):
            return symbolic.symbolic_steps(live)
