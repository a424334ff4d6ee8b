"""Debuggers that are not explorer's stop in the files: pdb in a process of its own, and debugpy in a notebook's kernel."""

from __future__ import annotations

import importlib.util
import os
import queue
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("ipykernel") is None:
    pytest.skip("ipykernel is not installed", allow_module_level=True)
pytest.importorskip("debugpy")
import pexpect
import torch
from jupyter_client.manager import start_new_kernel

pytestmark = pytest.mark.compile

PROGRAM = """
import torch, explorer

def f(x):
    return torch.sin(x) * 2 + 1

t = explorer.trace(f, torch.arange(4.0), {how})
"""
#: The most seconds that a kernel may take for one answer.
PATIENCE = 60.0


@pytest.mark.parametrize("under", [[], ["-m", "pdb", "-c", "continue"]], ids=["breakpoint()", "python -m pdb"])
def test_pdb_stops_at_a_breakpoint_by_file_and_line(under: list[str], tmp_path: Path) -> None:
    """In a terminal, pdb that is told to break at a line of a graph's file stops there and shows the values.

    `breakpoint()` starts pdb in a program, `python -m pdb` runs a whole program under it.
    """
    stops = "breakpoint()" if not under else "import sys; sys._getframe().f_trace.__self__.set_trace()"
    script = tmp_path / "script.py"
    program = PROGRAM.format(how='backend="aot_eager"')
    script.write_text(f'{program}s = t.live.as_files("graph")\n{stops}\ns.run()\nprint("done")\n')
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    terminal = pexpect.spawn(
        sys.executable, [*under, str(script)], env=env, timeout=PATIENCE, encoding="utf-8", dimensions=(50, 300)
    )
    try:
        terminal.expect(r"\(Pdb\) ")
        terminal.sendline("p s.file")
        terminal.expect(r"'(/\S+\.py)'\s+\(Pdb\) ")
        path = terminal.match[1]
        line = next(n for n, text in enumerate(Path(path).read_text().split("\n"), 1) if "add:" in text)
        terminal.sendline(f"break {path}:{line}")
        terminal.expect("Breakpoint 1 at")
        terminal.sendline("continue")
        terminal.expect_exact(f"{path}({line})forward()")
        terminal.sendline("p mul.tolist()")
        terminal.expect_exact(str((torch.sin(torch.arange(4.0)) * 2).tolist()))
        terminal.sendline("continue")
        terminal.expect("done")
    finally:
        terminal.close(force=True)


class Kernel:
    """A kernel of a notebook, and the debugger that its front end speaks to."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client
        self.number = 0

    def runs(self, code: str) -> str:
        """Run a cell to its end, and give what it printed."""
        printed: list[str] = []

        def hear(message: Any) -> None:
            printed.append(str(message["content"].get("text", "")))

        reply = self.client.execute_interactive(textwrap.dedent(code), timeout=PATIENCE, output_hook=hear)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed)

    def asks(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request of the debug protocol, as JupyterLab does, and give the answer's body."""
        self.number += 1
        content = {"type": "request", "seq": self.number, "command": command, "arguments": arguments}
        message = self.client.session.msg("debug_request", content)
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=PATIENCE)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                answer: dict[str, Any] = reply["content"]
                assert answer.get("success", True), answer
                return dict(answer.get("body") or {})

    def hears(self, event: str) -> dict[str, Any]:
        """Wait for an event of the debugger."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            if message["msg_type"] == "debug_event" and message["content"].get("event") == event:
                return dict(message["content"]["body"])
            assert message["msg_type"] != "error", "\n".join(message["content"]["traceback"])
        raise AssertionError(f"no {event} in {PATIENCE} s")


#: A stage, a part of the line in its file at which a breakpoint is set, and a variable that is a tensor there.
STOPS = (("graph", "add:", "mul"), ("wrapper", "args.clear()", "arg0_1"))


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    manager, client = start_new_kernel(env=env)
    try:
        made = Kernel(manager, client)
        made.runs(PROGRAM.format(how='target="h100"'))
        # before the debugger is attached: all that runs afterwards it slows down many times
        made.runs(f"s = {{stage: t.live.as_files(stage) for stage in {[stage for stage, *_ in STOPS]}}}")
        made.asks("initialize", clientID="test", adapterID="", pathFormat="path", linesStartAt1=True, columnsStartAt1=True)
        made.asks("attach")
        made.asks("configurationDone")
        yield made
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(("stage", "line", "variable"), STOPS)
def test_the_debugger_of_a_notebook_stops_in_the_file(kernel: Kernel, stage: str, line: str, variable: str) -> None:
    """A breakpoint set in the file by the debug protocol stops `run()`, at that line, with the tensors of that line."""
    path = kernel.runs(f'print(s["{stage}"].file)').strip()
    number = next(n for n, text in enumerate(Path(path).read_text().split("\n"), 1) if line in text)
    answer = kernel.asks("setBreakpoints", source={"path": path}, breakpoints=[{"line": number}], sourceModified=False)
    assert [each["verified"] for each in answer["breakpoints"]] == [True]
    kernel.client.execute(f'returned = s["{stage}"].run()')
    stopped = kernel.hears("stopped")
    assert stopped["reason"] == "breakpoint"
    frame = kernel.asks("stackTrace", threadId=stopped["threadId"])["stackFrames"][0]
    assert (frame["source"]["path"], frame["line"]) == (path, number)
    scope = kernel.asks("scopes", frameId=frame["id"])["scopes"][0]
    values = {
        each["name"]: each["value"]
        for each in kernel.asks("variables", variablesReference=scope["variablesReference"])["variables"]
    }
    assert values[variable].startswith("tensor([")
    kernel.asks("continue", threadId=stopped["threadId"])
    assert kernel.runs("print(torch.equal(returned, t.live.result))").strip() == "True"
    kernel.asks("setBreakpoints", source={"path": path}, breakpoints=[], sourceModified=False)
