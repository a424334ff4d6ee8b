"""Trace a program on several ranks as torchrun does, but in processes that one process forks: torch is imported once for all.

    python forked_ranks.py RANKS ARGUMENTS_OF_EXPLORER_TRACE

SIGTERM is passed on to the ranks. The status is the largest of theirs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from types import FrameType

import torch
import torch._inductor.compile_fx
import torch.distributed

from explorer import cli

#: The digits of a port.
DIGITS = 5
#: prctl's option that names the signal which a process is sent when its parent ends.
PR_SET_PDEATHSIG = 1


def run_rank(number: int, count: int, told: int, arguments: list[str]) -> None:
    """In the child: wait for the port of the store, and trace the program as one rank."""
    with contextlib.suppress(AttributeError):  # Linux has prctl: ranks that hang end with whoever gives up on the job
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    port = os.read(told, DIGITS).decode()
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    torch.set_num_threads(1)
    status: object = 1
    try:
        status = cli.main(["trace", *arguments])
    except SystemExit as ended:
        status = ended.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)


def main(count: int, arguments: list[str]) -> int:
    """Fork the ranks, tell them the store where they meet, and wait for them."""
    reading, writing = os.pipe()
    children = []
    for number in range(count):
        child = os.fork()
        if not child:
            run_rank(number, count, reading, arguments)
        children.append(child)

    def pass_on(sent: int, frame: FrameType | None) -> None:
        for child in children:
            os.kill(child, sent)

    signal.signal(signal.SIGTERM, pass_on)
    # after the forks, since it starts a thread
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    os.write(writing, f"{store.port:0{DIGITS}}".encode() * count)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), sys.argv[2:]))
