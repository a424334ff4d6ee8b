"""The tools that are served, by the Model Context Protocol's own SDK; their docstrings are what an agent reads of them."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from explorer.entry.mcp.answer import Answer, as_text
from explorer.entry.mcp.desk import PATIENCE, Cancelling, Desk
from explorer.errors import ExplorerError, InputError
from explorer.process import regular_files

INSTRUCTIONS = """explorer shows what torch.compile makes of a PyTorch program: every stage from the source line to machine
code, linked line by line, with the reasons for what was and was not fused.

Begin with trace (a program, or code, and a call of it; for a GPU that is not here give its name as target, such as
h100) or load (a file of explorer's, or a log of TORCH_TRACE, TORCH_COMPILE_DEBUG=1 or tritonparse). Both give a name,
such as t1, and the stages. Then ask: advise says why it is slow, why says why two operators are one kernel or not, follow leads
from a line to what it became, what_if changes one thing and compares, check compares with eager. Nodes are named as the
scheduler does (op3), by buffer, by FX node (mul_2), by operator (softmax) or by kernel.

Each answer is small: answer is in words, evidence has the rows it rests on, left_out says what has no room here and how to
get it, next names what to ask next. What is estimated says so; what was not compared is not equal."""

#: How many requests run at once, by what they do: opening a file may take up to the memory of its limit.
OPENING, READING, RUNNING = 2, 32, 8
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


@contextmanager
def _told() -> Iterator[None]:
    """What explorer raises on purpose is the agent's to read; nothing else is."""
    try:
        yield
    except ExplorerError as error:
        raise ToolError(str(error)) from error


def _result(answer: Mapping[str, Any], **named: str) -> CallToolResult:
    """An answer as text, for the agent to read, and as values, for its program."""
    sent = {**named, **answer}
    return CallToolResult(content=[TextContent(text=as_text(sent))], structured_content=sent)


def server(desk: Desk, *, runs_code: bool = True) -> MCPServer[Any]:
    """Make a server of the traces on a desk; without `runs_code` it has only what reads traces, and runs nothing."""
    from explorer import __version__

    made: MCPServer[Any] = MCPServer("explorer", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    opening, reading, running = map(anyio.CapacityLimiter, (OPENING, READING, RUNNING))
    made.add_tool(_apart(_opening(desk), opening), annotations=READS)
    for tool in _reading(desk):
        made.add_tool(_apart(tool, reading), annotations=READS)
    if runs_code:
        made.add_tool(_tracing(desk, running), annotations=RUNS)
        for tool in _running(desk):
            made.add_tool(_apart(tool, running), annotations=RUNS)
    return made


Tool = Callable[..., CallToolResult]
T = TypeVar("T")


async def _in_thread(work: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
    """Do work in a thread; a request that is cancelled does not wait for it."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)


def _apart(tool: Tool, limiter: anyio.CapacityLimiter) -> Callable[..., Awaitable[CallToolResult]]:
    """Make a tool that runs in a thread, so that the server answers others meanwhile."""

    @wraps(tool)
    async def apart(**arguments: Any) -> CallToolResult:
        return await _in_thread(partial(tool, **arguments), limiter)

    return apart


def _opening(desk: Desk) -> Tool:
    """The tool that opens files."""

    def load(path: str) -> CallToolResult:
        """Open a trace file of explorer's, or a log (a file or folder of TORCH_TRACE, TORCH_COMPILE_DEBUG=1 or tritonparse)."""
        with _told():
            name, answer = desk.open(path)
        return _result(answer, trace=name)

    return load


def _reading(desk: Desk) -> tuple[Tool, ...]:
    """The tools that read the data of a trace."""

    def traces() -> CallToolResult:
        """List the open traces: name, what each is of, whether it is live (can be run and changed) or a file."""
        return _result(Answer("open traces", desk.listed()).sent())

    def close(trace: str) -> CallToolResult:
        """Close a trace and free what it holds."""
        with _told():
            return _result(Answer(desk.close(trace)).sent())

    def stages(trace: str, offset: int = 0) -> CallToolResult:
        """List the stages of a trace: frame, graph, number of texts and lines, what changed there, what failed."""
        with _told():
            return _result(desk.ask(trace, "stages", offset=offset))

    def text(
        trace: str, stage: str, kernel: str = "", frame: str = "", graph: str = "", start: int = 1, find: str = ""
    ) -> CallToolResult:
        """Read the text of a stage, numbered, some 80 lines at a time.

        stage is a stage such as post_grad, output_code, ir_post_fusion, or the id of one text. For one kernel's form give kernel
        and a stage of kernel, ttir, ttgir, llir, ptx, amdgcn, sass, assembly, pallas_jaxpr or halide_stmt. find keeps the lines
        that have it.
        """
        with _told():
            return _result(desk.ask(trace, "text", stage=stage, kernel=kernel, frame=frame, graph=graph, start=start, find=find))

    def follow(trace: str, where: str, line: int, into: str = "", offset: int = 0) -> CallToolResult:
        """Say what a line became or came from. where is a stage, the id of one text, or the user's file; into keeps one stage."""
        with _told():
            return _result(desk.ask(trace, "follow", where=where, line=line, into=into, offset=offset))

    def why(trace: str, first: str, second: str = "", graph: str = "", frame: str = "") -> CallToolResult:
        """Say why two nodes or operators are one kernel or not, by the scheduler's own verdict.

        Of first alone, which may be a kernel, say how it was lowered, and why: loops, template, library call, view.
        """
        with _told():
            return _result(desk.ask(trace, "why", first=first, second=second, graph=graph, frame=frame))

    def advise(trace: str, offset: int = 0) -> CallToolResult:
        """Say why the program is slow: verdicts, the costliest first, each with its cost, evidence and remedy; none if none."""
        with _told():
            return _result(desk.ask(trace, "advise", offset=offset))

    def table(trace: str, name: str, offset: int = 0) -> CallToolResult:
        """Read a table: kernels, dynamo.graph_breaks, dynamo.recompiles, memory.peak, inductor.extern_calls, fusion.table, …

        dynamo, inductor, fusion, memory, profile, collectives and compiler alone list what is in them. An unknown name is
        answered with those there are. offset is the first row, from 0.
        """
        with _told():
            return _result(desk.ask(trace, "table", name=name, offset=offset))

    def compare(traces: list[str], offset: int = 0) -> CallToolResult:
        """Compare two or more open traces: the figures that differ, and the lines of the program that became other kernels."""
        with _told():
            return _result(desk.compare(traces, offset))

    return traces, close, stages, text, follow, why, advise, table, compare


def _tracing(desk: Desk, limiter: anyio.CapacityLimiter) -> Callable[..., Awaitable[CallToolResult]]:
    """The tool that starts a program; the program ends when the request is cancelled."""

    async def trace(
        call: str,
        code: str = "",
        path: str = "",
        target: str = "auto",
        train: bool = False,
        options: dict[str, Any] | None = None,
        seconds: float = PATIENCE,
    ) -> CallToolResult:
        """Compile a call of a program with torch.compile and record every stage. RUNS the program, in a process of its own.

        The program is code, or the file at path; it defines what call names, such as "model(x)". target is "auto" (the device of
        the arguments), "cpu", "cuda", or a GPU that need not be here, such as "h100" or "mi300x". train also records the
        backward. options are Inductor's. seconds is the most time that it may take.
        """
        cancelling = Cancelling()
        settings = {"target": target, "train": train, "options": options}
        try:
            with _told():
                name, answer = await _in_thread(partial(desk.trace, code, path, call, seconds, cancelling, **settings), limiter)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(cancelling.cancel)
            raise
        return _result(answer, trace=name)

    return trace


def _running(desk: Desk) -> tuple[Tool, ...]:
    """The tools that run or change a program that was traced."""

    def what_if(
        trace: str,
        fuse: Sequence[Sequence[str]] = (),
        keep_apart: Sequence[Sequence[str]] = (),
        without_pass: Sequence[str] = (),
        without_pattern: Sequence[str] = (),
        options: dict[str, Any] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> CallToolResult:
        """Trace the same call with something changed and compare kernels, bytes, time and result; the new trace is open too.

        fuse and keep_apart have pairs of nodes. options are Inductor's, settings torch's by full name.
        """
        with _told():
            changes: dict[str, Any] = {"fuse": fuse, "keep_apart": keep_apart, "options": options, "settings": settings}
            name, answer = desk.what_if(trace, **changes, without_pass=without_pass, without_pattern=without_pattern)
        return _result(answer, trace=name)

    def check(trace: str, limit: float | None = None) -> CallToolResult:
        """Compare the compiled function with eager, output by output; for a GPU that is not here by interpreting its kernels.

        limit is the most seconds that interpreting may be estimated to take.
        """
        with _told():
            return _result(desk.ask(trace, "check", limit=limit))

    def bisect(trace: str, limit: float | None = None) -> CallToolResult:
        """Find the first kernel whose result is off, with its line, and which pass, lowering or decomposition causes it."""
        with _told():
            return _result(desk.ask(trace, "bisect", limit=limit))

    def edit(trace: str, kernel: str, source: str, form: str = "source", seconds: float = 120.0) -> CallToolResult:
        """Put another text in the place of a kernel: compiled, run in a process of its own, checked, timed; kept only if right.

        form is source, or ttir, ttgir, llir or ptx of a Triton kernel. The text is whole: text(trace, "kernel", kernel) has it.
        """
        with _told():
            return _result(desk.ask(trace, "edit", kernel=kernel, source=source, form=form, timeout=seconds))

    def reset(trace: str) -> CallToolResult:
        """Put the original kernels back."""
        with _told():
            return _result(desk.ask(trace, "reset"))

    return what_if, check, bisect, edit, reset


def _end(number: int, frame: object) -> None:
    """End as at the end of stdin, so that the processes of the traces end too."""
    raise SystemExit(128 + number)


def serve(paths: Sequence[str], *, root: Path, runs_code: bool = True) -> None:
    """Serve over stdin and stdout until the client ends it, with traces of these paths open from the beginning.

    The client may have these read, and what is below the folder `root`.
    """
    if not regular_files.is_folder(root):
        raise InputError(f"--root {root} is not a folder")
    signal.signal(signal.SIGTERM, _end)
    with Desk([root, *map(Path, paths)]) as desk:
        for path in paths:
            desk.open(path)
        server(desk, runs_code=runs_code).run("stdio")


__all__ = ["INSTRUCTIONS", "serve", "server"]
