"""`t.compiler`: what the compile took, with which settings, and which caches it asked."""

from __future__ import annotations

from explorer.analysis.questions import compile_seconds, tables
from explorer.model.values import Table
from explorer.tracing.traced.accessor import TraceAccessor


class CompilerAccessor(TraceAccessor):
    """What the compile itself took, its settings and its caches."""

    path = "t.compiler"

    @property
    def parts(self) -> Table:
        """One row per part of each graph's compile, the longest first: frame, graph, part, seconds, and how many phases it had.

        Each second counts once, for the innermost part around it, so all rows add up to the compiles. "other" is what no
        part names. What explorer's own recording took is within them: `summary()` says how much.
        """
        return compile_seconds.parts(self._trace)

    @property
    def kernels(self) -> Table:
        """One row per kernel whose compile was timed, the longest first: frame, graph, kernel, seconds, compiled_by.

        For a GPU you don't have, explorer compiles the kernels in processes of its own, beside the compile. Else it is
        Inductor, whose worker processes time Triton kernels. torch keeps the times of the longest.
        """
        return compile_seconds.kernels(self._trace)

    @property
    def blocks(self) -> Table:
        """One row per group of identical blocks: frame, function, modules, nodes of one block, of_nodes of the graph, seconds.

        They are modules beside each other with the same operators on the same shapes. `seconds` estimates what the copies
        after the first take, by their part of the operators: as much as regional compilation can save.
        """
        return compile_seconds.blocks(self._trace)

    def summary(self) -> str:
        """Where the seconds went, in a few lines; "" where nothing was timed."""
        return compile_seconds.in_words(self._trace)

    @property
    def phases(self) -> Table:
        """One row per phase that the compiler timed: name, function, graph, start and seconds, nesting depth."""
        return tables.table(self._trace, "phase")

    @property
    def metrics(self) -> Table:
        """One row per compile as torch counts it: frame, `of` ("forward", "backward", …), and torch's figures by their names.

        They are the fields of torch's CompilationMetrics that were filled in, such as graph_op_count, guard_count, cache_size,
        restart_reasons, dynamo_time_before_restart_s and inductor_compile_time_s; seconds end in _s, microseconds in _us.
        """
        return tables.table(self._trace, "compilation_metrics")

    @property
    def settings(self) -> Table:
        """One row per setting not at its default: frame, `of` (dynamo, inductor, functorch), name, value, default, set_by.

        `set_by` is "the program", "torch.compile" for what a mode, options or torch itself set for the compile, or "explorer".
        """
        return tables.table(self._trace, "setting")

    @property
    def caches(self) -> Table:
        """One row per lookup in a cache: the cache, its `state`, graph or kernel, key and reason.

        The state is "hit", "miss" or "bypass", and "unknown" for a kernel whose files are not where Triton's cache is now.
        For a graph that missed, `differs` says how the `nearest` key differs: an input's size, a setting, a line of the graph.
        Keys that the recording met before are compared, and the newest in Inductor's cache on disk; for another run's see
        `explorer.compare(earlier, t).cache_misses`.

        The caches are "AOTAutograd" and "FX graph", "Triton" and "autotune" (a kernel's binary and config), "choices" (the times
        of an operator's implementations), "standalone artifact" (`standalone_compile`, whose artifacts are "saved" too),
        "Dynamo sizes" and "Dynamo package", and with ", remote" those that several machines share. `not_seen` names the
        stages that did not run because of a hit, and whose texts the cache does not keep. `seconds_saved` is torch's own figure.
        """
        return tables.table(self._trace, "cache")

    @property
    def files(self) -> Table:
        """One row per file that Inductor or triton wrote for a frame: frame, by, path, kind, bytes.

        Files that triton wrote in Inductor's worker processes are listed; files of explorer's own workers are not. `bytes` is
        None for a file that is gone.
        """
        return tables.table(self._trace, "written_file")
