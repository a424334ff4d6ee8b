"""Python programs in processes forked from one that has imported torch already: that import takes four seconds of a core.

`Warm.python` stands for `sys.executable`. The folder `Warm.bin` may come first in PATH: it has `python`, `explorer` and `pytest`.
The folder `Warm.kernels` may be in JUPYTER_PATH: it has the kernel `python3`. Each is a stand-in (`stand_in.py`), which hands its
arguments, folder, environment and streams to the process that forks, and ends as the program ends.

Real Python runs folders, options other than -c, -m, -W and -P, and programs whose startup variables differ. What a forked program
cannot show: a missing import of torch or triton, another hash seed, a crash while Python takes torch's modules apart, and a child
that outlives it, since the program's whole group is killed with its stand-in. A test of these starts real Python.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import multiprocessing.process
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import types
import warnings
from pathlib import Path
from typing import Any

#: What the process that forks has imported.
IMPORTED = ("torch._inductor.compile_fx", "torch.distributed", "triton", "explorer.entry.cli")
#: The kernel, as Jupyter describes one, without the program that it starts.
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "metadata": {"debugger": True}}


class Warm:
    """The process that forks, and the programs that ask it."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.kernels = folder / "bin", folder / "jupyter"
        self.bin.mkdir(parents=True)
        address = str(folder / "asked")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.bind(address)
            server.listen(64)
            # a session of its own: Ctrl-C is for the tests, whose end this process hears of on its stdin
            self.forking = subprocess.Popen(
                [sys.executable, __file__, str(server.fileno()), self.python],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[server.fileno()],
                start_new_session=True,
            )
        facts = {"python": sys.executable, "address": address, "environment": dict(os.environ)}
        (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
        command = shlex.join([sys.executable, "-IS", str(Path(__file__).with_name("stand_in.py")), str(folder / "facts.json")])
        self._write("python", command)
        for name in ("explorer", "pytest"):
            script = Path(sysconfig.get_path("scripts")) / name
            if script.exists():
                self._write(name, f"{command} {shlex.quote(str(script))}")
        kernel = KERNEL | {"argv": [self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
        (self.kernels / "kernels" / "python3").mkdir(parents=True)
        (self.kernels / "kernels" / "python3" / "kernel.json").write_text(json.dumps(kernel), encoding="utf-8")

    def _write(self, name: str, command: str) -> None:
        (self.bin / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        (self.bin / name).chmod(0o755)

    @property
    def python(self) -> str:
        """The program that stands for `sys.executable`."""
        return str(self.bin / "python")

    def close(self) -> None:
        """End the process that forks, and the programs that still run."""
        assert self.forking.stdin is not None
        self.forking.stdin.close()
        try:
            self.forking.wait(60)
        except subprocess.TimeoutExpired:
            self.forking.kill()
            self.forking.wait()


# The process that forks --------------------------------------------------------------------------------------------------


def wait_for_requests(server: socket.socket) -> dict[str, Any] | None:
    """Fork a watcher for each request, until stdin ends. Return the request in the forked program, None elsewhere."""
    for module in IMPORTED:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no watcher becomes a zombie
    while True:
        ready, _, _ = select.select([0, server], [], [])
        if 0 in ready:
            return None
        client, _ = server.accept()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server.close()
            return fork_and_watch(client)
        client.close()


def fork_and_watch(client: socket.socket) -> dict[str, Any] | None:
    """Fork a program and tell its stand-in how it ends. Return the request in the program, None in this process, its watcher."""
    text, streams, _, _ = socket.recv_fds(client, 1 << 20, 3)  # bytes: more than any request holds
    if len(streams) < 3:  # the stand-in was killed before it asked
        return None
    program = os.fork()
    if not program:
        client.close()
        os.setpgid(0, 0)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        request: dict[str, Any] = json.loads(text)
        return request
    for stream in streams:
        os.close(stream)
    with contextlib.suppress(OSError):  # the program does so itself; whoever is first
        os.setpgid(program, program)
    with contextlib.suppress(BrokenPipeError):
        client.send(str(program).encode())
    end = os.pidfd_open(program)
    ready, _, _ = select.select([end, client, 0], [], [])
    if end not in ready:  # the stand-in was killed, or the tests have ended
        os.killpg(program, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        client.send(str(status).encode())
    return None


# The program -------------------------------------------------------------------------------------------------------------


def run(request: dict[str, Any], python: str) -> None:
    """Run a program as `python` would: after -c a text, after -m a module, else a file."""
    import torch

    first, *rest = request["arguments"]
    os.chdir(request["folder"])
    multiprocessing.process.ORIGINAL_DIR = request["folder"]  # where a process that it spawns finds its script
    paths = [os.environ.get("PYTHONPATH", ""), request["environment"].get("PYTHONPATH", "")]
    before, added = ([path for path in text.split(os.pathsep) if path] for text in paths)
    libraries = [*added, *(path for path in sys.path[1:] if path not in before)]
    os.environ.clear()
    os.environ.update(request["environment"])
    if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdigit():
        torch.set_num_threads(int(threads))  # OpenMP has read its own at the import
    for flag in request["flags"]:
        if flag[0] == "-W":
            warnings._setoption(flag[1])  # type: ignore[attr-defined]
    beside = {"-c": "", "-m": os.getcwd()}.get(first, os.path.dirname(os.path.realpath(first)))
    sys.path[:] = libraries if ["-P"] in request["flags"] else [beside, *libraries]
    sys.executable = python
    sys.argv = [first, *rest[1:]] if first in ("-c", "-m") else [first, *rest]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if first == "-m":
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
    elif first == "-c":
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        main.__file__ = first
        exec(compile(Path(first).read_bytes(), first, "exec"), main.__dict__)


def status_of(request: dict[str, Any], python: str) -> int:
    """Run a program and what it registered for its end; its status."""
    status = 0
    try:
        run(request, python)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if not isinstance(ended.code, (int, type(None))):
            print(ended.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 it is the program's, and Python prints it
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    asked = wait_for_requests(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        os._exit(status_of(asked, sys.argv[2]))
    os._exit(0)
