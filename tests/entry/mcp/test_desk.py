"""The open traces and their processes: one that hangs is ended and says so ever after, and none outlives its server."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.entry.mcp.desk import Desk
from explorer.errors import FileError, InputError, LiveError
from explorer.model.values import plain
from explorer.tracing.traced import Trace
from tests.facts import says

HANGS = "import time\n\nwhile True:\n    time.sleep(1)\n"


@pytest.fixture(scope="module")
def trace(replayed: Callable[[str], Trace]) -> Trace:
    return replayed("sin_cos-torch2.13-cpu")


@pytest.mark.compile
def test_a_process_that_gave_no_answer_says_so_to_every_question() -> None:
    """It was ended with the question that it did not answer; the trace is named, and what to do."""
    with Desk() as desk:
        name, _ = desk.trace("import torch\n\ndef f(x): return x + 1\n\nx = torch.ones(4)\n", "", "f(x)", 120, target="h100")
        with pytest.raises(LiveError, match=says("answer", "0.0001 s")):
            desk.ask(name, "check", seconds=0.0001)
        with pytest.raises(LiveError, match=says("process", "answer", "trace")):
            desk.ask(name, "stages")


@pytest.mark.compile
@pytest.mark.skipif(sys.platform == "win32", reason="a group of processes is Unix's")
def test_a_process_ends_with_its_server_whatever_it_is_at(tmp_path: Path) -> None:
    """Its program never returns; once the server's end of the pipe is closed, as when it is killed, the process is gone."""
    program = tmp_path / "hangs.py"
    program.write_text(f"from pathlib import Path\nPath({str(tmp_path / 'began')!r}).touch()\n{HANGS}")
    worker = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "explorer.entry.mcp.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=dict(os.environ),
    )
    request = {"question": "trace", "trace": "t1", "arguments": {"path": str(program), "call": "f()"}}
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(request).encode() + b"\n")
    worker.stdin.flush()
    while not (tmp_path / "began").exists():
        assert worker.poll() is None
    worker.stdin.close()
    assert worker.wait(60) != 0


def test_each_rank_of_a_job_is_a_trace(trace: Trace, tmp_path: Path) -> None:
    """A folder of several ranks opens as several traces, which compare like others."""
    for rank in (0, 1):
        given = replace(trace, meta=plain({**trace.meta, "rank": rank, "world": 2}))
        given.save(tmp_path / f"trace.rank{rank}.json.gz")
    with Desk() as desk:
        name, answer = desk.open(str(tmp_path))
        assert name == "t1" and [row["trace"] for row in answer["evidence"]] == ["t1", "t2"]
        assert "rank 0-1" in answer["answer"] and "no divergence" in answer["answer"]
        assert desk.compare(["t1", "t2"])["answer"].startswith("0 figures differ")


def test_a_job_of_which_no_rank_can_be_read_is_an_error(tmp_path: Path) -> None:
    """It says why, and opens nothing."""
    for rank in (0, 1):
        (tmp_path / f"trace.rank{rank}.json.gz").write_text("no trace")
    with Desk() as desk:
        with pytest.raises(FileError, match=says("rank 0", "trace.rank0.json.gz")):
            desk.open(str(tmp_path))
        assert desk.listed() == []


def test_what_a_file_cannot_be_asked_is_not_offered(trace: Trace, tmp_path: Path) -> None:
    """Of a trace from a file no question is named that needs the process which compiled it."""
    trace.save(tmp_path / "f.json.gz")
    with Desk() as desk:
        name, _ = desk.open(str(tmp_path / "f.json.gz"))
        offered = desk.ask(name, "why", first="sin", second="cos")["next"]
        assert offered and not [asking for asking in offered if asking.startswith("what_if")]
        with pytest.raises(InputError, match=says("offset", "0", "-1")):
            desk.ask(name, "stages", offset=-1)


def test_few_of_many_ranks_are_in_memory(trace: Trace, tmp_path: Path) -> None:
    """Of a job with many ranks each can be asked, and at most two are held at a time."""
    for rank in range(5):
        trace.save(tmp_path / f"trace.rank{rank}.json.gz")
    with Desk() as desk:
        _, answer = desk.open(str(tmp_path))
        traces = []
        for row in answer["evidence"]:
            assert desk.ask(row["trace"], "stages")["evidence"]
            traces.append(weakref.ref(desk._data(row["trace"])))
        gc.collect()
        assert len(traces) == 5 and sum(each() is not None for each in traces) <= 2
        assert {row["kind"] for row in desk.listed()} == {"file"}
