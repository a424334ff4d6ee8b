"""`t.profile.counters`: what Nsight Compute counted, on each rung from SASS to the lines of the program."""

from __future__ import annotations

from explorer.analysis.counters import carried
from explorer.model.values import Table
from explorer.tracing.traced.accessor import TraceAccessor

NO_REPORT = "no report of Nsight Compute: explorer trace --ncu takes one of a program, t.attach('report.ncu-rep') reads one"


class CountersAccessor(TraceAccessor):
    """What Nsight Compute counted: stalls, sectors, bank conflicts, by line.

    `samples` count how often a warp was found at an instruction, `stall` is what most of them waited for, `stalls` has all
    reasons. `executed` counts instructions of warps, `thread_executed` those of threads whose predicate was on. `sectors` are
    the 32 bytes that L2 is asked for at a time, `excess_sectors` those that contiguous accesses would not need, `local_sectors`
    those of local memory, such as spilled registers. `wavefronts` are passes over shared memory, `excess_wavefronts` those that
    bank conflicts add. All are sums over the launches. An instruction of several lines counts for each with an equal part.
    Counts that no link carries have rows that say `why`, so each table adds up to the report.
    """

    path = "t.profile.counters"

    @property
    def kernels(self) -> Table:
        """One row per kernel of the report: metrics as means of its launches, and the sums of its instructions.

        `compute`, `memory`, `dram`, `l2` and `l1` are per cent of their peaks, `occupancy` per cent of the warps that fit and
        `possible_occupancy` what the blocks allow, limited by the least of `blocks_by_registers`, `blocks_by_shared` and
        `blocks_by_warps`. `why` says why a kernel is none of this trace.
        """
        return _or_why_not(carried.kernels(self._trace))

    @property
    def instructions(self) -> Table:
        """One row per SASS instruction with counts: `line` in the trace's SASS, bytes from the kernel's begin, text."""
        return _or_why_not(carried.table(self._trace, carried.INSTRUCTIONS))

    @property
    def ptx_lines(self) -> Table:
        """One row per line of PTX that instructions were assembled from."""
        return _or_why_not(carried.table(self._trace, carried.PTX_LINES))

    @property
    def kernel_lines(self) -> Table:
        """One row per line of a Triton kernel."""
        return _or_why_not(carried.table(self._trace, carried.KERNEL_LINES))

    @property
    def nodes(self) -> Table:
        """One row per FX node of the post-grad graphs."""
        return _or_why_not(carried.table(self._trace, carried.NODES))

    @property
    def modules(self) -> Table:
        """One row per nn.Module whose nodes are computed."""
        return _or_why_not(carried.table(self._trace, carried.MODULES))

    @property
    def lines(self) -> Table:
        """One row per line of the program."""
        return _or_why_not(carried.table(self._trace, carried.LINES))

    @property
    def shares(self) -> Table:
        """One row per rung: the samples that are carried there, their share, and the others by reason."""
        return _or_why_not(carried.shares(self._trace))

    def summary(self) -> str:
        """Say that no report was read, where none was."""
        return self.kernels.why_empty


def _or_why_not(rows: Table) -> Table:
    return Table(rows, rows.columns, NO_REPORT)
