"""Does `explorer mcp` answer on, whatever path it is given? 32 paths × 2 tools: 64 requests, each with a question beside it.

    python benchmarks/mcp_paths.py [--paths pipe files …] [--tools load …] [--files 100000]

A path is a pipe that nobody writes to, a device, the whole machine, a file of 100 GB, a folder that leads back to itself and the
like; one server, started with `--root /`, is given each. While a request is under way, the server is asked which traces are open.
A row has the seconds until that was answered, the seconds of the request, the most memory of the server so far, and what it said.
The last row is all requests at once, with one question. A request without an answer after `DEADLINE` seconds hangs: the exit
status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mcp

#: A request or a question that takes longer is called a hang.
DEADLINE = 120.0
#: What the sparse files state as their size.
SPARSE = 100_000_000_000
#: A line as a log of TORCH_TRACE begins.
LOG_LINE = b'V1125 10:00:00.000000 1 torch/_logging/structured.py:1] {"artifact": {"name": "x", "encoding": "string"}}\n'
#: What is printed of a request that was answered with no error, and of one that was not answered.
ANSWERED, HANGS = "answered", "HANGS"


def sparse(path: Path, begin: bytes = b"") -> Path:
    """Make a file that holds nothing but its begin, and states 100 GB."""
    path.write_bytes(begin)
    os.truncate(path, SPARSE)
    return path


def holding(path: Path, content: bytes) -> Path:
    """Make a file."""
    path.write_bytes(content)
    return path


def pipe(path: Path) -> Path:
    """Make a pipe that nobody writes to."""
    os.mkfifo(path)
    return path


def bound(path: Path) -> Path:
    """Make a socket."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    return path


def unreadable(path: Path) -> Path:
    """Make a file that nobody may read; root reads it all the same."""
    path.write_bytes(b"hunter2 hunter2\n")
    path.chmod(0)
    return path


def link(path: Path, to: Path) -> Path:
    """Make a link."""
    path.symlink_to(to)
    return path


def folder(path: Path, make: Callable[[Path], object], names: Sequence[str]) -> Path:
    """Make a folder with entries of these names."""
    path.mkdir()
    for name in names:
        make(path / name)
    return path


def deep(path: Path) -> Path:
    """Make 500 folders, each in the one before."""
    (path / "/".join(["a"] * 500)).mkdir(parents=True)
    return path


def paths(room: Path, files: int) -> dict[str, Callable[[], Path]]:
    """How each path is made in a folder."""
    packed_log = gzip.compress(LOG_LINE)
    stored = b"\x1f\x8b\x08\x08" + bytes(6)  # the head of a member, which the name of a file follows
    return {
        "pipe": lambda: pipe(room / "pipe"),
        "socket": lambda: bound(room / "socket"),
        "zero": lambda: Path("/dev/zero"),
        "urandom": lambda: Path("/dev/urandom"),
        "full": lambda: Path("/dev/full"),
        "tty": lambda: Path("/dev/tty"),
        "its stdin": lambda: Path("/dev/stdin"),
        "its memory": lambda: Path("/proc/self/mem"),
        "its pages": lambda: Path("/proc/self/pagemap"),
        "kernel's log": lambda: Path("/proc/kmsg"),
        "/": lambda: Path("/"),
        "/proc": lambda: Path("/proc"),
        "/dev": lambda: Path("/dev"),
        "/sys": lambda: Path("/sys"),
        "link to /": lambda: link(room / "whole", Path("/")),
        "sparse": lambda: sparse(room / "sparse"),
        "sparse log": lambda: sparse(room / "log", LOG_LINE),
        "sparse program": lambda: sparse(room / "program.py", b"x = 1\n#"),
        "sparse gzip": lambda: sparse(room / "sparse.json.gz", gzip.compress(b'{"explorer":"trace",')),
        "sparse gzip of a log": lambda: sparse(room / "log.gz", packed_log),
        "bomb": lambda: holding(room / "bomb.json.gz", gzip.compress(bytes(100_000_000)) * 40),
        "bomb of a log": lambda: holding(room / "bomb.log.gz", packed_log + gzip.compress(b"\n" * 100_000_000) * 40),
        "gzip with a long name": lambda: holding(room / "name.gz", stored + b"x" * 100_000_000),
        "many files": lambda: folder(room / "files", Path.touch, [f"{number}.py" for number in range(files)]),
        "many folders": lambda: folder(room / "folders", Path.mkdir, [f"model__{number}" for number in range(files // 4)]),
        "ranks are pipes": lambda: folder(room / "pipes", pipe, [f"rank{number}.json.gz" for number in range(100)]),
        "ranks are sparse": lambda: folder(room / "sparses", sparse, [f"rank{number}.json.gz" for number in range(100)]),
        "link to itself": lambda: link(room / "itself", room / "itself"),
        "folders that lead back": lambda: folder(room / "back", lambda path: link(path, room), [f"a{n}" for n in range(100)]),
        "deep folders": lambda: deep(room / "deep"),
        "unreadable": lambda: unreadable(room / "unreadable"),
        "missing": lambda: room / "missing",
    }


#: The arguments with which each tool is given a path.
TOOLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "load": lambda path: {"path": path},
    "trace": lambda path: {"path": path, "call": "f()"},
}


async def timed(client: mcp.Client, tool: str, arguments: dict[str, Any]) -> tuple[float, str]:
    """Ask, and return the seconds and what was said."""
    start = time.perf_counter()
    try:
        async with asyncio.timeout(DEADLINE):
            result = await client.call_tool(tool, arguments)
    except TimeoutError:
        return DEADLINE, HANGS
    said = " ".join(getattr(part, "text", "") for part in result.content)
    return time.perf_counter() - start, said if result.is_error else ANSWERED


async def asked(client: mcp.Client, requests: Sequence[tuple[str, dict[str, Any]]]) -> tuple[float, float, list[str]]:
    """Send requests and a question after them: the seconds of the question, the most of a request, and all that was said."""
    sent = [asyncio.ensure_future(timed(client, tool, arguments)) for tool, arguments in requests]
    await asyncio.sleep(0)  # until they are sent
    question, answer = await timed(client, "list_traces", {})
    answers = await asyncio.gather(*sent)
    return question, max(seconds for seconds, _ in answers), [answer, *(said for _, said in answers)]


def server_of_this_process() -> int:
    """The number of the process that serves this one."""
    mine = Path(f"/proc/{os.getpid()}/task")
    children = [child for task in mine.iterdir() for child in (task / "children").read_text(encoding="utf-8").split()]
    (number,) = (int(child) for child in children if b"mcp" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"))
    return number


def peak(number: int) -> int:
    """The most memory that a process has had, in MB."""
    status = Path(f"/proc/{number}/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) // 1024


async def table(named: dict[str, Path], tools: Sequence[str]) -> bool:
    """Print a row per request and one for all at once; whether each was answered."""
    command = ["-W", "ignore", "-m", "explorer", "mcp", "--root", "/"]
    parameters = mcp.StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    requests = {(name, tool): (tool, TOOLS[tool](str(path))) for name, path in named.items() for tool in tools}
    said: list[str] = []
    longest = 0.0
    print("| path | tool | question, s | request, s | server's peak, MB | said |\n| --- | --- | ---: | ---: | ---: | --- |")
    async with mcp.Client(parameters) as client:
        number = server_of_this_process()
        together = {("all", f"{len(requests)} at once"): [*requests.values()]}
        for (name, tool), several in ({key: [one] for key, one in requests.items()} | together).items():
            question, seconds, answers = await asked(client, several)
            said += answers
            longest = max(longest, question)
            cells = (name, tool, f"{question:.2f}", f"{seconds:.2f}", f"{peak(number)}", short(answers[1:]))
            print(f"| {' | '.join(cells)} |", flush=True)
    hang = said.count(HANGS)
    print(f"\n{len(requests)} requests, each alone and all at once: {hang} hang; the longest question took {longest:.2f} s")
    return not hang


def short(answers: Sequence[str]) -> str:
    """What is printed of answers: the end of a single one, or how many were errors."""
    if len(answers) > 1:
        return f"{sum(answer not in (ANSWERED, HANGS) for answer in answers)} errors"
    return answers[0].replace("\n", " ").replace("|", "/")[-100:]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", nargs="*", choices=[*paths(Path(), 0)])
    parser.add_argument("--tools", nargs="*", choices=[*TOOLS], default=[*TOOLS])
    parser.add_argument("--files", type=int, default=100_000, help="the entries of the large folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as room:
        made = {name: make() for name, make in paths(Path(room), options.files).items() if name in (options.paths or [name])}
        answered = asyncio.run(table(made, options.tools))
    sys.exit(0 if answered else 1)


if __name__ == "__main__":
    main()
