"""The server, asked by the SDK's own client: what it answers is what the trace itself says."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.entry.mcp.answer import MAX_CHARACTERS
from explorer.tracing.traced import Trace
from tests.facts import untold
from tests.processes import is_running

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")

pytestmark = pytest.mark.compile

PROGRAM = """
import torch

print("what a program prints is not an answer")

def fn(x, y):
    a = torch.softmax(x @ y, -1)
    return a.sum(0), (x.relu() + 1).t().contiguous()

x, y = torch.randn(16, 16), torch.randn(16, 16)
"""


def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a = torch.softmax(x @ y, -1)
    return a.sum(0), (x.relu() + 1).t().contiguous()


class Asking:
    """A client that is connected to a server: what it is told, and what is an error."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in (await self._client.list_tools()).tools}

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        assert not result.is_error, result.content[0].text
        assert len(json.dumps(result.structured_content)) < MAX_CHARACTERS + 300
        return dict(result.structured_content)

    async def error(self, tool: str, **arguments: Any) -> str:
        result = await self._client.call_tool(tool, arguments)
        assert result.is_error
        return str(result.content[0].text)


#: Asks a server, in the loop in which its client runs.
Ask = Callable[[Callable[[Asking], Awaitable[None]]], None]


@contextmanager
def serving(*arguments: str, python: str = sys.executable) -> Iterator[Ask]:
    """Start a server as a client of the protocol does, to be asked inside the block."""
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, Asking]] = Future()

    async def serve() -> None:
        command = [python, "-W", "ignore", "-m", "explorer", "mcp", *arguments]
        server = mcp.StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
        async with mcp.Client(server) as client:
            over = asyncio.Event()
            begun.set_result((asyncio.get_running_loop(), over, Asking(client)))
            await over.wait()

    # in a thread of its own: where a test before has opened a browser, Playwright's loop runs in this one
    with ThreadPoolExecutor(1) as thread:
        served = thread.submit(asyncio.run, serve())
        wait([begun, served], return_when=FIRST_COMPLETED)
        if served.done():
            served.result()  # the error with which it ended
        loop, over, asking = begun.result()
        try:
            yield lambda questions: asyncio.run_coroutine_threadsafe(questions(asking), loop).result()  # type: ignore[arg-type]
        finally:
            loop.call_soon_threadsafe(over.set)
            served.result()


@pytest.fixture(scope="module")
def trace() -> Trace:
    torch.manual_seed(0)
    return explorer.trace(fn, torch.randn(64, 64), torch.randn(64, 64), target="h100")


@pytest.fixture(scope="module")
def saved(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("mcp") / "fn.json.gz"
    trace.save(path)
    return str(path)


@pytest.fixture(scope="module")
def ask(saved: str, warm: str) -> Iterator[Ask]:
    """Ask one server, in which the saved trace is open as t1."""
    with serving(saved, "--root", tempfile.gettempdir(), python=warm) as asking:
        yield asking


def test_a_client_asks_why_two_operators_are_not_fused(trace: Trace, ask: Ask) -> None:
    """The answer is that of t.why, with the scheduler's rule and its verdicts."""
    why = trace.why("_softmax", "relu")
    assert not why.fused

    async def questions(server: Asking) -> None:
        answer = await server("why", trace="t1", first="_softmax", second="relu")
        assert why.sentence in answer["answer"] and why.rule in answer["answer"]
        assert [row["rule"] for row in answer["evidence"]] == [row["rule"] for row in why.verdicts]
        assert "'_softmax'" in await server.error("why", trace="t1", first="sofmax", second="relu")

    ask(questions)


def test_a_file_answers_every_question_of_its_data(trace: Trace, ask: Ask) -> None:
    """Stages, texts, links, tables and advice are those of the trace; what needs a process says so."""

    async def questions(server: Asking) -> None:
        stages = await server("stages", trace="t1")
        assert {row["stage"] for row in stages["evidence"]} <= {artifact.stage for artifact in trace.artifacts}
        text = await server("text", trace="t1", stage="post_grad", find="aten.relu")
        (line,) = [int(row.split()[0]) for row in text["answer"].splitlines()[1:]]
        (post_grad,) = trace.find("post_grad")
        assert "aten.relu" in post_grad.lines[line - 1]
        followed = await server("follow", trace="t1", where="post_grad", line=line, into="source")
        assert [row["lines"] for row in followed["evidence"]] == [[3]] and "x.relu()" in followed["evidence"][0]["text"][0]
        kernels = await server("table", trace="t1", name="kernels")
        assert [row["kernel"] for row in kernels["evidence"]] == [kernel.name for kernel in trace.kernels]
        ptx = await server("text", trace="t1", stage="ptx", kernel=trace.kernels[0].name, find=".entry")
        assert trace.kernels[0].name in ptx["answer"]
        assert (await server("advise", trace="t1"))["answer"] == repr(trace.advise())
        assert (await server("why", trace="t1", first="relu"))["answer"] == str(trace.why("relu"))
        assert "trace" in await server.error("check", trace="t1")
        assert "graph_breaks" in await server.error("table", trace="t1", name="graph_break_reasons")
        assert not untold(await server.error("follow", trace="t1", where="post_grad", line=999), "lines", "1", "999")
        assert "'t1'" in await server.error("stages", trace="t99")
        nowhere = f"{tempfile.gettempdir()}/nowhere/at/all"
        assert "no such" in (await server.error("load", path=nowhere)).lower()

    ask(questions)


def test_a_program_is_traced_changed_checked_and_edited(ask: Ask, tmp_path: Path) -> None:
    """The program runs in a process of its own; what changes one thing gives a trace of its own, compared by line."""
    (tmp_path / "program.py").write_text(PROGRAM)

    async def questions(server: Asking) -> None:
        made = await server("trace", path=str(tmp_path / "program.py"), call="fn(x, y=y)", target="h100")
        first = made["trace"]
        assert "3 kernels" in made["answer"]
        changed = await server("what_if", trace=first, keep_apart=[["op1", "op2"]])
        second = changed["trace"]
        figures = {row["figure"]: row for row in changed["evidence"]}
        assert (figures["kernels"]["before"], figures["kernels"]["after"]) == (3, 4)
        why = await server("why", trace=first, first="op1", second="op2")
        assert why["next"][0].startswith("what_if(trace, keep_apart=")
        compared = await server("compare", traces=[first, second])
        assert any(row.get("figure") == "kernels" and row[first] == 3 and row[second] == 4 for row in compared["evidence"])
        checked = await server("check", trace=first)
        assert [row["equal"] for row in checked["evidence"]] == [True, True]
        kernels = await server("table", trace=first, name="kernels")
        name = kernels["evidence"][-1]["kernel"]
        text = await server("text", trace=first, stage="kernel", kernel=name)
        source = "\n".join(line[6:] for line in text["answer"].splitlines()[1:])
        wrong = await server("edit", trace=first, kernel=name, source=source.replace("1.0", "2.0"))
        assert not untold(wrong["answer"], "wrong", "original")
        assert [row["equal"] for row in (await server("check", trace=first))["evidence"]] == [True, True]
        kinds = {row["trace"]: row["kind"] for row in (await server("traces"))["evidence"]}
        assert kinds[first] == kinds[second] == "live" and kinds["t1"] == "file"
        await server("close", trace=first)
        assert f"'{second}'" in await server.error("stages", trace=first)
        assert "4 kernels" in (await server("stages", trace=second))["answer"]

    ask(questions)


def test_a_program_that_fails_crashes_or_hangs_is_named_and_the_others_live(ask: Ask, tmp_path: Path) -> None:
    """Each has a process of its own; the server answers on."""
    program = tmp_path / "program.py"
    program.write_text("def f(): return 1\n")

    async def questions(server: Asking) -> None:
        assert "division by zero" in await server.error("trace", code="def f(): return 1 / 0", call="f()")
        assert "was never closed" in await server.error("trace", code="", path=str(program), call="f(")
        assert "by signal 6" in await server.error("trace", code="import os; os.abort()", call="f()")
        hangs = await server.error("trace", code="import time; time.sleep(600)", call="f()", seconds=0.5)
        assert not untold(hangs, "answer", "0.5 s")
        assert not untold(await server.error("trace", call="f()"), "code", "path")
        assert (await server("stages", trace="t1"))["evidence"]

    ask(questions)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
def test_a_cancelled_program_ends_at_once_with_what_it_started(ask: Ask, tmp_path: Path) -> None:
    """Its child in a session of its own ends too, though the program never answers; the server answers on."""
    code = f"""
import os, subprocess, sys, time
from pathlib import Path
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
Path({str(tmp_path / "numbers.part")!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
Path({str(tmp_path / "numbers.part")!r}).rename({str(tmp_path / "numbers")!r})
time.sleep(600)
"""

    async def questions(server: Asking) -> None:
        asked = asyncio.ensure_future(server("trace", code=code, call="f()"))
        while not (tmp_path / "numbers").exists():
            assert not asked.done()
            await asyncio.sleep(0.01)
        numbers = [int(number) for number in (tmp_path / "numbers").read_text().split()]
        assert all(map(is_running, numbers))
        asked.cancel()
        async with asyncio.timeout(60):
            while any(map(is_running, numbers)):
                await asyncio.sleep(0.01)
        assert "f()" not in str((await server("traces"))["evidence"])

    ask(questions)


def test_what_is_outside_of_the_root_is_not_read(saved: str, tmp_path: Path) -> None:
    """Neither a trace nor a program; the error says how to allow it. What the server was started with is read."""
    program = tmp_path / "program.py"
    program.write_text("secret = hunter2 hunter2\n")

    async def questions(server: Asking) -> None:
        for tool, arguments in (("load", {}), ("trace", {"call": "f()"})):
            told = await server.error(tool, path=str(program), **arguments)
            assert not untold(told, str(program), "--root") and "hunter" not in told
        assert (await server("load", path=saved))["evidence"]

    with serving(saved, "--root", str(Path(__file__).parent)) as ask:
        ask(questions)


def test_a_file_that_is_no_program_is_not_quoted(ask: Ask, tmp_path: Path) -> None:
    """The error has its line's number; of a pipe it says what it is."""
    for name, content in (("text", b"x = 1\nhunter2 hunter2\n"), ("bytes", b"hunter2 \xff"), ("zero", b"hunter2\0")):
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe")

    async def questions(server: Asking) -> None:
        for name, fact in (("text", "2"), ("bytes", "bytes"), ("zero", "zero"), ("pipe", "pipe")):
            told = await server.error("trace", path=str(tmp_path / name), call="f()")
            assert not untold(told, fact) and "hunter" not in told

    ask(questions)


def test_a_server_that_only_reads_runs_nothing(saved: str) -> None:
    """With --read-only there is no tool that runs a program, and those that are there say that they only read."""

    async def questions(server: Asking) -> None:
        tools = await server.tools()
        assert {"load", "why", "follow"} <= set(tools) and not {"trace", "edit", "what_if", "check"} & set(tools)
        assert all(tool.annotations.read_only_hint for tool in tools.values())
        assert all(len(tool.description) > 30 for tool in tools.values())

    with serving("--read-only", saved) as ask:
        ask(questions)
