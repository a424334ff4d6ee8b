"""`t.live`: what the process that made a trace can still do with it: run it, edit it, stop in it. It is false without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from explorer.capture.splice.edit import Edit
from explorer.errors import InputError, unknown_name
from explorer.lab.live.editing import TIMEOUT
from explorer.lab.live.protocol import live_of, needs_live
from explorer.model.values import Table
from explorer.tracing.traced.accessor import TraceAccessor
from explorer.tracing.traced.edits import Edits, edited_wrapper, edits_of_trace

if TYPE_CHECKING:
    from explorer.lab.stepping.session import Stepping


class LiveAccessor(TraceAccessor):
    """What the process that made the trace can do: run, debug, edit.

    It is false for a trace that was loaded or recorded; its verbs then raise LiveError.
    """

    path = "t.live"

    def __bool__(self) -> bool:
        return live_of(self._trace) is not None

    @property
    def result(self) -> Any:
        """What the traced call returned; LiveError for a loaded trace, CompileError where the compile failed.

        NoVerbError for a hand-written kernel, which `trace` does not run.
        """
        return needs_live(self._trace, "the result").result

    @property
    def gradients(self) -> Mapping[str, Any]:
        """With train=True, the gradient of the summed outputs for each input and parameter by name.

        LiveError for a loaded trace; NoVerbError without train=True, and for a hand-written kernel.
        """
        return needs_live(self._trace, "gradients").gradients

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function again, on copies of the arguments given here, or else of those of the trace.

        For a GPU you don't have, Dynamo's graphs run on the CPU; `t.check` runs what was generated. A hand-written kernel runs on
        copies of its arguments, interpreted if these are on the CPU; it returns the tensors that it wrote, by the names of its
        arguments. LiveError for a loaded trace, CompileError if the compile failed.
        """
        live = needs_live(self._trace, "running")
        with live.watchers.verb("live.run()"):
            return live.run(*args, **kwargs)

    def values(
        self,
        stage: str = "graph",
        *,
        frame: str | None = None,
        graph: str | None = None,
        max_launches: int | None = None,
        limit: float | None = None,
    ) -> Table:
        """Run a stage and return the values in it: one row per FX node, or for "kernel" one per argument of a launch.

        `stage` is "graph" (Dynamo's), "forward", "inductor_input", "backward" or "post_grad": its graphs run node by node. A row
        has the node's line, its result, and a small picture. Of a tensor there are shape, dtype and strides; `min`, `max` and
        `mean` are over its finite elements; `nan` and `inf` count the others. The picture has the last two dimensions: red above
        zero, blue below. `call` counts the calls of a graph that is called several times. The call is compiled once more.

        With "kernel" what was compiled runs: there is one row for each argument as it was `before` a launch of a kernel or a
        library call, and one for each that was written as it was "after". `argument` is the kernel's name for it, `variable` what
        the wrapper gives on `line`; `value` is a number's. `launch` counts all launches from 1, as `t.bisect` does; `run` counts
        one kernel's launches from 0, as `to_script(launch=…)` does; `max_launches` bounds those of each kernel. For a GPU you
        don't have the kernels are interpreted, and `limit` is as in `t.check`.

        LiveError for a loaded trace, InputError for a stage that the trace has no graph of. NoVerbError for launches of a
        hand-written kernel, and where no launch is made from Python, as in a CUDA graph.
        """
        from explorer.lab.stepping import session
        from explorer.lab.stepping.launch_values import launch_values

        if stage == "kernel":
            if (frame, graph) != (None, None):
                raise InputError('values("kernel") gives the launches of all graphs: filter them, .where(graph="backward")')
            live = needs_live(self._trace, "the arguments of launches")
            with live.watchers.verb("live.values()"):
                return launch_values(self._trace, live, None, max_launches, limit)
        if (max_launches, limit) != (None, None):
            raise InputError('max_launches and limit are for live.values("kernel"), whose rows are launches')
        live = needs_live(self._trace, "the values of nodes")
        with live.watchers.verb("live.values()"):
            return session.node_values(self._trace, live, stage, frame, graph)

    def profile(self, repeats: int = 30) -> Table:
        """Time each kernel and library call while the compiled function runs: the median seconds of one run, over all launches.

        `low` and `high` are the quartiles of the runs. On a GPU, explorer overwrites L2, then times each launch with device
        events; on the CPU it reads the clock around each call, and `idle` is the time since the call before. Calls of `torch.ops`
        are not timed. `t.attach` takes the rows. LiveError for a loaded trace; NoVerbError for a GPU you don't
        have, for a hand-written kernel, and where no launch is made from Python, as in a CUDA graph.
        """
        if not isinstance(repeats, int):
            raise InputError(f"repeats is a number of runs, not {repeats!r}")
        live = needs_live(self._trace, "timing")
        with live.watchers.verb("live.profile()"):
            return live.time_kernels(self._trace, repeats)

    def cost(self, repeats: int = 15) -> Table:
        """Time one warm call in parts, from the guards to the kernels, and the same call in eager mode: median seconds.

        `kind` is "call", "eager", "part" or "guard". The parts are in order and add up to the call; "not attributed" is what is
        left, below zero where the parts together take longer. "cache misses" are the guards of other cache entries, which are
        tried first. "Dynamo frames" are the entry, the lookup in the cache, and the program's Python around its graphs. Guards
        are timed with warm caches, those of the dearest sources each, with the line of the program. With train=True the forward
        is timed, without the backward. On a GPU "kernel calls" is the time of launching: the GPU's own work is not waited for.

        `t.attach` takes the rows: then `print(t)` and `t.advise()` judge the measured call. LiveError for a loaded trace;
        NoVerbError for a GPU you don't have and for a hand-written kernel.
        """
        if not isinstance(repeats, int):
            raise InputError(f"repeats is a number of rounds, not {repeats!r}")
        live = needs_live(self._trace, "timing")
        with live.watchers.verb("live.cost()"):
            return live.time_call(self._trace, repeats)

    def as_files(self, stage: str = "graph", *, frame: str | None = None, graph: str | None = None) -> Stepping:
        """Compile the call once more, with the code of one stage in real files that run, for the debugger of your choice.

        `stage` is "graph" (Dynamo's), "dynamo_bytecode", "decompiled" (what depyf writes, where it does the same), "forward",
        "inductor_input", "backward", "post_grad", or "wrapper" (Inductor's output code). Open a file of `.files` in VS Code, or
        in JupyterLab's debugger under "Kernel Sources" as "explorer_steps.…", set a breakpoint, and call `.run()`; or import pdb
        and `break FILE:LINE`. The files have the same lines as the text in the view. LiveError for a loaded trace, InputError for
        a stage without code, CompileError where it cannot run from a file.
        """
        from explorer.lab.stepping import session

        live = needs_live(self._trace, "stepping")
        with live.watchers.verb("live.as_files()"):
            return session.stepping(self._trace, live, stage, frame, graph)

    def debug(
        self,
        stage: str = "graph",
        breakpoint: int | Sequence[int] | None = None,
        *,
        frame: str | None = None,
        graph: str | None = None,
        commands: Sequence[str] | None = None,
    ) -> Any:
        """Run the function under pdb, with the code of one stage from real files: see `as_files` and `Stepping.debug`.

        `breakpoint` is a line of the stage's text, or several; without it pdb stops where the code begins. `commands` are given
        to pdb in place of a prompt, such as ["p x.shape", "continue"]. Return what the function returned; None after "quit".
        """
        with self.as_files(stage, frame=frame, graph=graph) as files:
            return files.debug(breakpoint, commands)

    def edit(
        self,
        kernel: str = "",
        /,
        *,
        wrapper: str | None = None,
        frame: str | None = None,
        graph: str | None = None,
        timeout: float = TIMEOUT,
        check: bool = True,
    ) -> Edit:
        """Replace a graph's output code: Inductor's wrapper, the whole text of its module.

        The text is tried as `Kernel.edit` tries one: explorer calls it in a separate process, for `timeout` seconds at most, then
        checks the whole function with it as `t.check` does, and times it beside the original. Kernels that the text defines as
        the original does are reused; all others are compiled. Only a correct edit stays in place, until `edits.reset()`; edits of
        the wrapper's single kernels are undone then. `frame` and `graph` ("backward") say which of several. For a GPU you don't
        have the text is interpreted, and its other kernels are compiled down to machine code; nothing is timed.

        LiveError for a loaded trace. InputError if the edit is not a text, if several graphs could be meant, and for the name of
        a kernel, which `t.kernels["name"].edit` replaces. NoVerbError if the wrapper is in C++ or replayed by CUDA graphs.
        """
        if kernel:
            names = [one.name for one in self._trace.kernels]
            if kernel not in names:
                raise unknown_name("kernel", kernel, names)
            raise InputError(f"live.edit replaces output code; t.kernels[{kernel!r}].edit(source=text) replaces this kernel")
        if wrapper is None:
            raise InputError("live.edit needs the text that replaces the output code: wrapper=t.text('output_code'), changed")
        live = needs_live(self._trace, "an edit")
        return edited_wrapper(self._trace, live, wrapper, (frame, graph), timeout=timeout, check=check)

    @property
    def edits(self) -> Edits:
        """All edits, of output code and then of each kernel: `edits.table`, `edits.current`, `edits.reset()`."""
        return edits_of_trace(self._trace)
