"""Compare live traces: what `questions.comparison` says of their data, their view, and how long their calls take."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from explorer.analysis.findings import first_difference
from explorer.analysis.findings.finding import Finding
from explorer.analysis.findings.report import NAMES, findings, in_words
from explorer.analysis.questions import comparison
from explorer.analysis.questions.target import compiled_for
from explorer.errors import InputError
from explorer.lab.live.protocol import needs_live
from explorer.model.values import Table
from explorer.process.progress import in_notebook
from explorer.tracing.traced.trace import Trace, trace_of
from explorer.view import compared, page


class Comparison(comparison.Comparison):
    """A comparison of traces, whose calls can be timed in the process that made them."""

    traces: tuple[Trace, ...]

    @property
    def findings(self) -> Table:
        """One row per thing that the second of two traces compiled otherwise, the worse first, as `explorer compare` prints them.

        `rule` is what `--fail-on` takes: "not-fused", "graph-break", "pattern" and the like. `expected` is what the first trace
        has, `actual` the second's; `why` is the compiler's reason and `look` where to read on. `is_gain` marks what is better,
        `judged` is False where a trace does not say.
        """
        if len(self.traces) != len(NAMES):
            return Table((), Finding.columns(), f"findings are of two traces, before and after, not of {len(self.traces)}")
        return Table((finding.plain() for finding in findings(*self.traces)), Finding.columns())

    @property
    def first_difference(self) -> Table:
        """Where two traces differ first, in the order in which torch compiles, and the settings and versions that differ.

        The first row is that place, unless its `stage` is "": an FX pass, a pattern, a decomposition, a lowering, a fusion or a
        kernel, by its name. The other rows are what was set otherwise. The columns of the traces say what each has. `why` is the
        compiler's reason. It says which setting the reason names, or that one thing alone was set otherwise.
        """
        return first_difference.first_difference(self)

    @property
    def launches(self) -> Table:
        """One row per kind of launch of a line of the program: its seconds in each trace, and how many launches that are.

        `what` says what is computed, as in `t.profile.launches`; `change` is the last trace's seconds less the first's, the
        largest first. None stands where a trace launches nothing of that kind for the line, such as what it fused otherwise, and
        for an operator that nothing is known of.
        """
        from explorer.analysis.overview.changed import changed_launches

        return changed_launches(self.traces, self.names)

    def __repr__(self) -> str:
        from explorer.analysis.overview import changed  # the advice is not imported before it is asked for

        figures = super().__repr__()
        judged = len(self.traces) == len(NAMES) and len({compiled_for(trace).name for trace in self.traces}) == 1
        if judged and (told := "\n".join(first_difference.in_words(self))):
            head, _, rest = figures.partition("\n")
            figures = f"{head}\n{told}\n{rest}"
        if len(self.traces) == len(NAMES) and (taken := changed.in_words(self.traces, self.names)):
            figures = f"{figures}\n{taken}"
        return f"{figures}\n\n{in_words(findings(*self.traces))}" if judged else figures

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write two or three traces side by side as one HTML file, as `Trace.to_html` does one.

        InputError for more than three traces, and for traces that have no line of the program in common.
        """
        page.save(self, path)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The view in a notebook; the tables there for traces that no view can show, and elsewhere the repr."""
        if not in_notebook():
            return {}
        try:
            data, metadata = view_of(self)._repr_mimebundle_(**kwargs)
        except InputError as error:
            return {"text/html": self._repr_html_(), "text/plain": f"{self!r}\n{error}"}
        return {**data, "text/plain": repr(self)}, metadata

    def benchmark(self, repeats: int = 30) -> Table:
        """Time the function, not compiled, and what each trace compiled, in turn: median seconds, and the ratio to eager.

        `processor_seconds` is the time of all threads together: about `seconds` for one thread, more for several. `cores` is
        how many the process may use, which each engine sees alike; `os.sched_setaffinity` before anything is compiled limits
        all of them to some. Each call is on copies of its trace's arguments; eager is the function of the first.

        LiveError for a loaded trace; NoVerbError for a GPU you don't have; CompileError for a compile that failed.
        """
        if not isinstance(repeats, int):
            raise InputError(f"repeats is a number of calls, not {repeats!r}")
        first, *others = (needs_live(trace, "timing") for trace in self.traces)
        with first.watchers.verb("benchmark()"):
            rows = first.benchmark(repeats, others)
        names = ("not compiled", *self.names)
        return Table({**row, "what": name, "cores": _cores()} for name, row in zip(names, rows, strict=True))


def view_of(shown: Comparison) -> Any:
    """Make the widget that shows two or three traces side by side, as `explorer.show` does; errors as `Comparison.to_html`."""
    from explorer.view.widget import Explorer

    return Explorer(trace_of(compared.joined(shown)), shown)


def _cores() -> int | None:
    """How many cores this process may use; None where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def compare(*traces: Trace, names: Iterable[str] = ()) -> Comparison:
    """Compare two or more traces; `names` labels them, else target, backend, mode or "trace 1".

    InputError for fewer than two traces, or if there are not as many names as traces.
    """
    data = comparison.compare(*traces, names=names)
    return Comparison(data.traces, data.names)
