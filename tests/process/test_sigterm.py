"""SIGTERM sent to ranks: what each leaves, also one that waits in torch's C++ and does not come back to Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import explorer
from explorer.process.sigterm import ends_on_sigterm, place_of
from explorer.tracing.traced.ranks import Ranks
from tests.facts import in_a_line, untold
from tests.sources.ranks import torchrun

#: Each rank waits for the other in another group's collective, for ever. Explorer takes it to wait in C++ after half a second.
HANGING = """
import explorer.process.sigterm
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

explorer.process.sigterm.GRACE = 0.5
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


def waited_in_c(printed: str) -> bool:
    """Whether a line of explorer's says that the program did not come back to Python."""
    return in_a_line(printed, "explorer", "SIGTERM", "Python")


@pytest.mark.compile
@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs torch with gloo")
def test_ranks_that_hang_in_a_collective_leave_their_traces(tmp_path: Path, warm: str) -> None:
    """A job that is ended while its ranks wait in C++: both traces are there, with what diverges and where each rank waits."""
    (tmp_path / "program.py").write_text(HANGING)
    job = torchrun.command(warm, 2)
    with subprocess.Popen(job, cwd=tmp_path, env=torchrun.environment(), stderr=subprocess.PIPE, text=True) as running:
        while not compiled(tmp_path) and running.poll() is None:
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=120)
    ranks = explorer.load(tmp_path / "out")
    assert isinstance(ranks, Ranks) and list(ranks) == [0, 1], said[-4000:]
    assert all(ranks[rank].meta["ended_at"]["file"].endswith("program.py") for rank in ranks), said[-4000:]
    assert in_a_line(ranks, "SIGTERM", "rank 1", "program.py")
    assert waited_in_c(said)
    first = ranks.divergences[0]
    assert first["kind"] == "graph"
    assert first["code"] in (
        'return functional.all_reduce(x, "sum", A) * 2',
        "return functional.all_gather_tensor(x, 0, B) + 1",
    )
    assert "collective order" in {row["kind"] for row in ranks.divergences}


#: A program that waits in C++ for a lock that nobody lets go, as for a collective: Python's handlers do not run in it.
STUCK = """
import ctypes, os, signal, threading
import explorer.process.sigterm
import torch

explorer.process.sigterm.GRACE = 0.5
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))

def stuck():
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(256)
    libc.pthread_mutex_lock(mutex)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    libc.pthread_mutex_lock(mutex)  # a second time: for ever

stuck()
"""
#: What is raised when the trace is to be saved → what a printed line tells.
BREAKS = {
    "": (),
    "raise ValueError('inside')": ("ValueError: inside",),
    "raise explorer.errors.FileError('no place')": ("explorer", "out/trace.rank1.json.gz", "no place"),
}


#: A program that Python ends by the signal itself.
ENDED = """
import os, signal, time
import torch

torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory, warm: str) -> Callable[[str], Path]:
    """Give the folder of a rank that waited in C, by the error that was raised when its trace was to be saved, or of `ENDED`."""
    folders = {breaks: tmp_path_factory.mktemp("stuck") for breaks in (*BREAKS, ENDED)}
    running = {}
    for breaks, folder in folders.items():
        broken = f"import explorer\ndef broken(*_):\n    {breaks}\nexplorer.Trace.save = broken\n" if breaks else ""
        (folder / "program.py").write_text(ENDED if breaks == ENDED else broken + STUCK)
        with (folder / "stderr").open("w") as stderr:
            command = [warm, "-m", "explorer", "trace", "--profile", "-o", "out/", "program.py"]
            rank = {**os.environ, "RANK": "1", "WORLD_SIZE": "2"}
            running[breaks] = subprocess.Popen(command, cwd=folder, env=rank, stdout=subprocess.DEVNULL, stderr=stderr)
    statuses = {breaks: process.wait(timeout=120) for breaks, process in running.items()}
    said = {breaks: (folder / "stderr").read_text() for breaks, folder in folders.items()}
    assert set(statuses.values()) == {128 + signal.SIGTERM}, (statuses, said)
    return folders.__getitem__


@pytest.mark.compile
def test_a_rank_that_waits_in_c_leaves_its_trace_with_the_line(stuck: Callable[[str], Path]) -> None:
    """It ends with the signal's status, and the trace says in which line it waited; times are lacking, and that is said."""
    assert waited_in_c((stuck("") / "stderr").read_text())
    trace = explorer.load(stuck("") / "out" / "trace.rank1.json.gz")
    assert isinstance(trace, explorer.Trace) and trace.find("dynamo") and not trace.find("run_times")
    place = trace.meta["ended_at"]
    assert place["code"].startswith("libc.pthread_mutex_lock(mutex)  # a second time") and place["function"] == "stuck"
    (failure,) = (one for one in trace.failures if one.stage == "run_times")
    assert not untold(failure.message, "SIGTERM", "profiler")


@pytest.mark.compile
def test_a_rank_that_the_launcher_ends_writes_its_trace(stuck: Callable[[str], Path]) -> None:
    """SIGTERM, which torchrun sends to all others when one rank fails, ends the program; what it compiled is written."""
    assert not waited_in_c((stuck(ENDED) / "stderr").read_text())
    assert explorer.load(stuck(ENDED) / "out" / "trace.rank1.json.gz").find("dynamo")


@pytest.mark.compile
@pytest.mark.parametrize(("breaks", "facts"), [(breaks, facts) for breaks, facts in BREAKS.items() if breaks])
def test_a_rank_that_waits_in_c_says_why_it_leaves_no_trace(
    stuck: Callable[[str], Path], breaks: str, facts: tuple[str, ...]
) -> None:
    """An error of explorer's own is printed with its traceback, a file that cannot be written is one line."""
    printed = (stuck(breaks) / "stderr").read_text()
    assert in_a_line(printed, *facts)
    assert ("Traceback" in printed) == ("ValueError" in breaks)
    assert not (stuck(breaks) / "out" / "trace.rank1.json.gz").exists()


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
