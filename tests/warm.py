"""Python programs in processes forked from one that has imported torch already: that import takes four seconds of a core.

`Warm.python` stands for `sys.executable`, and the folder `Warm.bin` may come first in PATH: it has `python`, `explorer` and
`pytest`. Each hands its arguments, folder, environment and streams to the process that forks, and ends as the program ends; a
program whose stand-in is killed is killed too. Python itself runs a program, as ever, where it is a folder or is given other
options than -c, -m, -W and -P, where a setting differs that Python or torch reads at its start, and where coverage is measured.

Notebooks run so too: `Warm.kernels` is a folder for JUPYTER_PATH, with a kernel `python3`.
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
import signal
import socket
import subprocess
import sys
import threading
import types
import warnings
from pathlib import Path
from typing import Any

#: How settings begin that Python, torch or triton read at their start.
AT_START = ("TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "TRITON_", "PYTORCH_", "PYTHON")
#: Those among them that are read later, or that `run` heeds.
LATER = (
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "TORCH_NCCL_",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
)
#: What the process that forks has imported.
IMPORTED = ("torch._inductor.compile_fx", "torch.distributed", "triton", "explorer.cli")
#: The most that a request holds, in bytes: Linux sends 200 kB at once. Python itself runs what is asked with more.
REQUEST = 100_000
#: The programs of `Warm.bin`, each with the arguments of Python that it stands for.
PROGRAMS = {"python": [], "explorer": ["-m", "explorer"], "pytest": ["-m", "pytest"]}

#: The text of a stand-in. It imports only what it needs, and so starts in some 20 ms.
STAND_IN = """\
#!{python} -IS
import array, json, os, signal, socket, sys
arguments = {first!r} + sys.argv[1:]
rest, flags = list(arguments), []
while rest[:1] in (["-W"], ["-P"]):
    flags.append([rest.pop(0), rest.pop(0)] if rest[0] == "-W" else [rest.pop(0)])
now = {{k: v for k, v in os.environ.items() if k.startswith({at_start!r}) and not k.startswith({later!r})}}
other = not rest or (rest[0][:1] == "-" and rest[0] not in ("-c", "-m")) or os.path.isdir(rest[0]) or now != {settings!r}
asked = {{"python": {stand_in!r}, "flags": flags, "arguments": rest, "folder": os.getcwd(), "environment": dict(os.environ)}}
asked = json.dumps(asked).encode()
if other or "COVERAGE_PROCESS_START" in os.environ or len(asked) > {size}:
    os.execv({python!r}, [{python!r}, *arguments])
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({address!r})
server.sendmsg([asked], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
program = int(server.recv(20) or 0)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(program, number))
status = int(server.recv(20) or 1)
if status < 0:
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


#: The kernel, as Jupyter describes one.
KERNEL = {
    "display_name": "Python 3 (ipykernel)",
    "language": "python",
    "metadata": {"debugger": True},
    "argv": ["-m", "ipykernel_launcher", "-f", "{connection_file}"],
}


class Warm:
    """The process that forks, and the programs that ask it."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.kernels = folder / "bin", folder / "jupyter"
        self.bin.mkdir(parents=True)
        (self.kernels / "kernels" / "python3").mkdir(parents=True)
        kernel = KERNEL | {"argv": [self.python, *KERNEL["argv"]]}
        (self.kernels / "kernels" / "python3" / "kernel.json").write_text(json.dumps(kernel), encoding="utf-8")
        address = str(folder / "asked")
        settings = {k: v for k, v in os.environ.items() if k.startswith(AT_START) and not k.startswith(LATER)}
        for name, first in PROGRAMS.items():
            facts = {"python": sys.executable, "stand_in": self.python, "first": first, "settings": settings, "address": address}
            text = STAND_IN.format(**facts, at_start=AT_START, later=LATER, size=REQUEST)
            (self.bin / name).write_text(text, encoding="utf-8")
            (self.bin / name).chmod(0o755)
        command = [sys.executable, __file__, address]
        self.forking = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.forking.stdout is not None
        assert self.forking.stdout.readline() == b"listening\n"

    @property
    def python(self) -> str:
        """The program that stands for `sys.executable`."""
        return str(self.bin / "python")

    def close(self) -> None:
        """End the process that forks."""
        self.forking.communicate()


# The process that forks --------------------------------------------------------------------------------------------------


def fork_and_watch(client: socket.socket) -> dict[str, Any] | None:
    """Fork a program and tell its stand-in the status with which it ends; what it is asked, in the program's own process."""
    text, streams, _, _ = socket.recv_fds(client, REQUEST, 3)
    program = os.fork()
    if not program:
        client.close()
        os.setpgid(0, 0)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        asked: dict[str, Any] = json.loads(text)
        return asked
    for stream in streams:
        os.close(stream)
    client.send(str(program).encode())
    end = os.pidfd_open(program)
    ready, _, _ = select.select([end, client], [], [])
    if client in ready:  # the stand-in was killed
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        client.send(str(status).encode())
    return None


def wait_for_programs(address: str) -> dict[str, Any] | None:
    """Fork a process for each program that is asked for, until stdin ends; what it is asked, in the program's own process."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no child of this process becomes a zombie
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address)
        server.listen(64)
        print("listening", flush=True)
        for module in IMPORTED:
            importlib.import_module(module)
        while True:
            ready, _, _ = select.select([0, server], [], [])
            if 0 in ready:
                return None
            client, _ = server.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                asked = fork_and_watch(client)
                if asked is None:
                    os._exit(0)
                return asked
            client.close()


def run(asked: dict[str, Any]) -> None:
    """Run a program as `python` would: after -c a text, after -m a module, else a file."""
    first, *rest = asked["arguments"]
    os.chdir(asked["folder"])
    multiprocessing.process.ORIGINAL_DIR = asked["folder"]  # where a process that it spawns finds its script
    paths = [os.environ.get("PYTHONPATH", ""), asked["environment"].get("PYTHONPATH", "")]
    before, now = ([path for path in text.split(os.pathsep) if path] for text in paths)
    own = [*now, *(path for path in sys.path[1:] if path not in before)]
    os.environ.clear()
    os.environ.update(asked["environment"])
    for flag in asked["flags"]:
        if flag[0] == "-W":
            warnings._setoption(flag[1])  # type: ignore[attr-defined]
    beside = {"-c": "", "-m": os.getcwd()}.get(first, os.path.dirname(os.path.abspath(first)))
    sys.path[:] = own if ["-P"] in asked["flags"] else [beside, *own]
    sys.executable = asked["python"]
    sys.argv = [first, *rest[1:]] if first in ("-c", "-m") else [first, *rest]
    if first == "-c":
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    elif first == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(first, run_name="__main__")


def status_of(asked: dict[str, Any]) -> int:
    """Run a program to its end, and end as Python does, but for taking torch's modules apart: its status."""
    status = 0
    try:
        run(asked)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if not isinstance(ended.code, (int, type(None))):
            print(ended.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 it is the program's, and Python prints it
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    program = wait_for_programs(sys.argv[1])
    if program is not None:
        os._exit(status_of(program))
