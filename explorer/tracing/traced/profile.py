"""`t.profile`: where the time of a call goes, as estimated, or as a profile measured it."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from explorer.analysis.questions.profile import line_times, node_times, profile_table
from explorer.analysis.questions.target import compiled_for
from explorer.lab.live.protocol import live_of
from explorer.model.values import Table
from explorer.process.ranks import warn_if_it_overwrites
from explorer.tracing.traced.accessor import TraceAccessor
from explorer.tracing.traced.counters import CountersAccessor

if TYPE_CHECKING:
    from explorer.analysis.timing.roofline import Roofline


NO_PROFILE = "no profile: t.attach(profile) for measured times; t.profile.launches has estimates"


class ProfileAccessor(TraceAccessor):
    """Where the time of a call goes: kernels, nodes and lines of the program."""

    path = "t.profile"

    @property
    def table(self) -> Table:
        """One row per kernel, library call or other event of the profile: seconds of all launches; all rows make up its time.

        `kind` is "kernel", "library call" or "not joined", and `why` says why. `kernel` is the kernel, the scheduler's node of a
        call, or the profile's own name for what was not joined; `events` are the profile's own names. `idle` are the seconds
        that the device waited before these launches. There are no rows before `t.attach(profile)`.
        """
        return _or_why_not(profile_table(self._trace))

    @property
    def launches(self) -> Table:
        """One row per kernel and library call that a call runs, the longest first.

        `what` names it by its product's sizes (rows × columns × inner size) or its operators; `seconds` are measured or
        estimated, which `known` says, and None for an operator that nothing is known of. `share` is their part of the work.
        `line` is the line of the program that most of its FX nodes come from, `code` its text, and `other_lines` counts the
        others. `read` and `written` are bytes; `kernel` is the kernel or the function of the library.
        """
        from explorer.analysis.advice.call_cost import TracedCall
        from explorer.analysis.overview.launches import launches

        return launches(TracedCall(self._trace))

    @property
    def nodes(self) -> Table:
        """One row per FX node that a profile has a time for, in seconds of one run; the longest first.

        The time of a kernel is shared evenly among the nodes that it computes; `whole` is all of its kernels' time. There
        are no rows before `t.attach(profile)`.
        """
        return _or_why_not(node_times(self._trace))

    @property
    def lines(self) -> Table:
        """One row per line of the program, with its part of the measured time in seconds of one run; the longest first.

        A kernel's time is shared evenly among the FX nodes that it computes, and a node's goes to the innermost line that called
        it. The time of a node that a pass made is shared evenly among the lines that its links lead to. The rows add up to the
        time of all kernels and library calls. `whole` is the full time of every kernel that computes part of this line. Time
        without a line has a row without a file. There are no rows before `t.attach(profile)`.
        """
        return _or_why_not(line_times(self._trace))

    @property
    def counters(self) -> CountersAccessor:
        """What Nsight Compute counted: kernels, instructions, ptx_lines, kernel_lines, nodes, modules, lines, shares."""
        return CountersAccessor(self._trace)

    def roofline(self) -> Roofline:
        """Place each kernel and library call by operations a byte and operations a second, below the peaks of its device.

        Times come from a profile, or are estimates; each row says which. The peaks are measured now on the attached GPU or
        on this CPU (about 2 s): a copy for the memory, a product for each dtype. They stand beside the GPU's figures, which are
        the only ones for an absent GPU or a loaded trace. A notebook shows the picture; `.table` and `.peaks` have the numbers.
        """
        from explorer.analysis.timing.roofline import roofline_of
        from explorer.lab.live.peaks import attained_peaks, device_title

        live = live_of(self._trace)
        if live is None or live.absent is not None:
            return roofline_of(self._trace)
        device = "cuda" if compiled_for(self._trace).is_attached_gpu else "cpu"
        with live.watchers.verb("profile.roofline()"):
            return roofline_of(self._trace, attained_peaks(device), device_title(device))

    def to_perfetto(self, path: str | PathLike[str]) -> None:
        """Write the compile's phases and passes, and one run's kernels and library calls, as a trace for ui.perfetto.dev.

        It is Chrome's trace format, gzipped where the path ends in ".gz". Each frame's phases have a track, and so have its
        passes; each graph has one with its launches in order, one after the other, each with its user lines, operators and bytes.
        A launch is as long as measured or estimated, and says which; a launch without a time is an instant.
        """
        from explorer.analysis.timing import perfetto

        perfetto.save(self._trace, path)
        warn_if_it_overwrites(path)

    def summary(self) -> str:
        """Say that nothing was measured, where nothing was."""
        return self.table.why_empty


def _or_why_not(rows: Table) -> Table:
    return Table(rows, rows.columns, NO_PROFILE)
