"""What `python`, `explorer` and `pytest` are in `Warm.bin`: hand a program to the process that forks, and end as it ends.

    python -IS stand_in.py FACTS [arguments of Python]

FACTS is the JSON file that `warm.py` writes. Nothing that is not needed is imported, so this starts in some 20 ms.
"""

import array
import json
import os
import signal
import socket
import sys

#: Prefixes of environment variables that Python, torch or triton read at startup.
AT_START = ("TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "TRITON_", "PYTORCH_", "PYTHON")
#: Those among them that are read later, or that `warm.run` heeds.
LATER = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_NCCL_", "PYTHONPATH")
#: The most bytes that a request holds: Linux sends 200 kB at once.
LONGEST = 100_000


def startup(environment):
    """The variables that a program reads at startup: a process that has started cannot heed others."""
    return {name: value for name, value in environment.items() if name.startswith(AT_START) and not name.startswith(LATER)}


with open(sys.argv[1], encoding="utf-8") as file:
    facts = json.load(file)
arguments = sys.argv[2:]
program, flags = list(arguments), []
while program[:1] in (["-W"], ["-P"]):
    flags.append([program.pop(0), program.pop(0)] if program[0] == "-W" else [program.pop(0)])

understood = bool(program) and (program[0] in ("-c", "-m") or not (program[0].startswith("-") or os.path.isdir(program[0])))
request = {"flags": flags, "arguments": program, "folder": os.getcwd(), "environment": dict(os.environ)}
message = json.dumps(request).encode()
if not understood or startup(os.environ) != startup(facts["environment"]) or len(message) > LONGEST:
    os.execv(facts["python"], [facts["python"], *arguments])

server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect(facts["address"])
server.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
process = int(server.recv(20) or 0)
if not process:
    sys.exit("the process that forks has ended")
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(process, number))
status = int(server.recv(20) or 1)
if status < 0:
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
