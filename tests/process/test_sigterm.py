"""SIGTERM sent to ranks: what each leaves, also one that waits in torch's C++ and does not come back to Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import explorer
from explorer.process.sigterm import ends_on_sigterm, place_of
from explorer.traced.ranks import Ranks

#: Each rank waits for the other in another group's collective, for ever.
HANGING = """
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
rank = dist.get_rank()
A, B = dist.new_group([0, 1]), dist.new_group([0, 1])

@torch.compile
def step(x):
    if rank == 0:
        return functional.all_reduce(x, "sum", A) * 2
    return functional.all_gather_tensor(x, 0, B) + 1

x = torch.ones(8)
if rank == 0:  # once each has what it waits for, so that it is compiled
    step(x)
    functional.all_gather_tensor(x, 0, B) + 1
else:
    functional.all_reduce(x, "sum", A) + 1
    step(x)
dist.barrier()
open(f"ready{rank}", "w").close()
step(x)
"""


def compiled(folder: Path) -> bool:
    """Whether both ranks have compiled, and wait or are about to."""
    return all((folder / f"ready{rank}").exists() for rank in (0, 1))


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs torch with gloo")
def test_ranks_that_hang_in_a_collective_leave_their_traces(tmp_path: Path) -> None:
    """A job that is ended while its ranks wait in C++: both traces are there, with what diverges and where each rank waits."""
    (tmp_path / "program.py").write_text(HANGING)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    command = [*launch, sys.executable, "-m", "explorer", "trace", "-o", "out/", "program.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as job:
        while not compiled(tmp_path) and job.poll() is None:
            time.sleep(0.1)
        job.send_signal(signal.SIGTERM)
        _, said = job.communicate(timeout=120)
    ranks = explorer.load(tmp_path / "out")
    assert isinstance(ranks, Ranks) and list(ranks) == [0, 1], said[-4000:]
    assert all(ranks[rank].meta["ended_at"]["file"].endswith("program.py") for rank in ranks), said[-4000:]
    assert "ended by SIGTERM: rank 1 at" in str(ranks) and "waited outside of Python" in said
    assert ranks.first is not None and ranks.first["kind"] == "graph"
    assert ranks.first["code"] in (
        'return functional.all_reduce(x, "sum", A) * 2',
        "return functional.all_gather_tensor(x, 0, B) + 1",
    )
    assert "collective order" in {row["kind"] for row in ranks.divergences}


#: A program that waits in C++ for a lock that nobody lets go, as for a collective: Python's handlers do not run in it.
STUCK = """
import ctypes, os, signal, threading
import torch

torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))

def stuck():
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(256)
    libc.pthread_mutex_lock(mutex)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    libc.pthread_mutex_lock(mutex)  # a second time: for ever

stuck()
"""


def test_a_rank_that_waits_in_c_leaves_its_trace_with_the_line(tmp_path: Path) -> None:
    """It ends with the signal's status, and the trace says in which line it waited."""
    (tmp_path / "program.py").write_text(STUCK)
    environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2"}
    command = [sys.executable, "-m", "explorer", "trace", "-o", "out/", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert "waited outside of Python" in done.stderr
    trace = explorer.load(tmp_path / "out" / "trace.rank1.json.gz")
    assert isinstance(trace, explorer.Trace) and trace.find("dynamo")
    place = trace.meta["ended_at"]
    assert place["code"].startswith("libc.pthread_mutex_lock(mutex)  # a second time") and place["function"] == "stuck"


@pytest.mark.parametrize("breaks", ["", "raise ValueError('inside')", "raise explorer.FileError('no place')"])
def test_a_rank_that_waits_in_c_says_what_its_trace_lacks(tmp_path: Path, breaks: str) -> None:
    """The times, whose profiler could not be stopped; where no trace can be written, the error."""
    program = STUCK
    if breaks:
        program = f"import explorer\ndef broken(*_):\n    {breaks}\nexplorer.Trace.save = broken\n{STUCK}"
    (tmp_path / "program.py").write_text(program)
    environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2"}
    command = [sys.executable, "-m", "explorer", "trace", "--profile", "-o", "out/", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    if breaks:
        assert (
            "ValueError: inside" if "ValueError" in breaks else "explorer: cannot write out/trace.rank1.json.gz: no place\n"
        ) in done.stderr
        assert ("Traceback" in done.stderr) == ("ValueError" in breaks)
        return
    trace = explorer.load(tmp_path / "out" / "trace.rank1.json.gz")
    assert isinstance(trace, explorer.Trace) and not trace.find("run_times")
    (failure,) = (one for one in trace.failures if one.stage == "run_times")
    assert failure.message == "SIGTERM ended the program before the profiler was stopped"


def test_a_program_that_is_not_ended_finds_signals_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler, the file descriptor that Python writes signals to, and the threads; what the program returns goes through."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    ran = []
    with ends_on_sigterm() as ending:
        ending.run(lambda: ran.append(threading.active_count()), lambda: ran.append(-1))
        assert ending.place is None
    assert ran == [threading.active_count() + 1]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1


def test_the_signal_of_a_forked_child_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that the program ends by SIGTERM, as multiprocessing does, leaves the program running."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("explorer.process.sigterm.GRACE", 0.05)
    statuses, left = [], []

    def program() -> None:
        child = os.fork()
        if not child:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os._exit(7)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        assert not listener().join(0.5) and listener().is_alive()

    with ends_on_sigterm() as ending:
        ending.run(program, lambda: left.append(1))
    assert statuses == [7] and not left


def listener() -> threading.Thread:
    """The thread that hears of signals."""
    (found,) = (thread for thread in threading.enumerate() if thread.name == "explorer-sigterm")
    return found


def test_a_place_is_the_programs_own_line() -> None:
    """The innermost line outside of Python's own library, where there is one."""
    pool = ThreadPoolExecutor(1)  # whose call of its function is a line of Python's own
    place = pool.submit(lambda: place_of(sys._getframe().f_back)).result()
    pool.shutdown()
    assert place is None, "a stack of Python's own lines"
    place = place_of(sys._getframe())
    assert (
        place is not None and place["file"] == __file__ and place["code"] == place["call"] == "place = place_of(sys._getframe())"
    )
    assert place_of(None) is None
