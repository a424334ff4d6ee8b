"""Compile StableHLO by XLA for this machine's CPU: what runs, and each text that XLA dumps on the way.

The module that is shown is the one that runs: the dump is asked for by options of that one compile. A flag of the user's may
end the process, so a compile with flags runs in a child process first.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.capture.compilers import child
from explorer.capture.compilers.line_differences import unified
from explorer.capture.compilers.xla import flags_process
from explorer.capture.compilers.xla.client import compile_options, load
from explorer.model.stage import Emit
from explorer.model.values import text_lines
from explorer.process import scratch
from explorer.process.children import command, environment

#: Seconds until a compile in a child process is given up.
LIMIT = 600.0
#: How XLA names the file of a module behind a pass: its number, the pipeline, the pass.
_PASS = re.compile(r"\.(?P<number>\d{4})\.(?P<pipeline>.+?)\.after_(?P<name>.+?)(?:\.before_.+)?\.txt$")
#: The head of a kernel in LLVM IR: what XLA calls is what is not internal.
_KERNEL = re.compile(r'^define (?!internal\b|private\b)[^@]*@"?([\w.$-]+)"?\(', re.MULTILINE)
#: Where a text says which calls led to an instruction: the same for each instruction of a node, whose name it has already.
_FRAMES = re.compile(r"^FileNames\n.*?(?=^[%E])", re.MULTILINE | re.DOTALL)
_STACK_FRAME = re.compile(r" stack_frame_id=\d+")


class XlaError(RuntimeError):
    """XLA could not compile a graph; the message is its own."""


@dataclass
class Compile:
    """One compile by XLA: what runs, and the texts so far, by what XLA calls them."""

    source: str
    flags: Sequence[str] = ()
    executable: Any = None
    before: str = ""
    optimized: str = ""
    buffers: str = ""
    passes: list[dict[str, Any]] = field(default_factory=list)
    kernels: dict[str, str] = field(default_factory=dict)
    assembly: str = ""

    def run(self, emit: Emit) -> None:
        """Compile; an error is XLA's own, and the texts are those that it had dumped by then.

        A text that cannot be read is a Failure, and the graph runs.
        """
        if self.flags:
            try_flags(self.source, self.flags)
        with scratch.folder() as name:
            folder = Path(name)
            options = compile_options(self.flags)
            debug = options.executable_build_options.debug_options
            debug.xla_dump_to, debug.xla_dump_hlo_as_text, debug.xla_dump_hlo_pass_re = name, True, ".*"
            try:
                self.executable = load(self.source, options)
            finally:
                emit.attempt("xla_optimized", "read the dumps", lambda: self._read(folder))
                emit.attempt("xla_assembly", "objdump", lambda: self._disassemble(folder))

    def _disassemble(self, folder: Path) -> None:
        self.assembly = disassembled(folder)

    def _read(self, folder: Path) -> None:
        self.before = _text(folder, "*.before_optimizations.txt")
        self.optimized = _text(folder, "*.cpu_after_optimizations.txt")
        self.buffers = _text(folder, "*-buffer-assignment.txt").rstrip()
        self.passes = list(_changing_passes(folder))
        for file in sorted(folder.glob("*.ir-with-opt.ll")):
            text = file.read_text(encoding="utf-8", errors="replace")
            if found := _KERNEL.search(text):
                self.kernels[found[1]] = text

    def figures(self) -> Iterator[tuple[str, float]]:
        """XLA's own estimate of the work, and the bytes that it allocates for it."""
        costs: Mapping[str, float] = self.executable.cost_analysis()
        yield from ((name, value) for name, value in costs.items() if name in ("flops", "transcendentals", "bytes accessed"))
        memory = self.executable.get_compiled_memory_stats()
        for name in ("argument", "output", "alias", "temp"):
            yield f"{name} bytes", float(getattr(memory, f"{name}_size_in_bytes"))


def _text(folder: Path, name: str) -> str:
    """The dumped text of this name, without the tables of its stack frames; "" where XLA came to none."""
    file = next(iter(sorted(folder.glob(name))), None)
    return _shown(file.read_text(encoding="utf-8", errors="replace")) if file is not None else ""


def _shown(text: str) -> str:
    return _STACK_FRAME.sub("", _FRAMES.sub("", text)).strip()


def _changing_passes(folder: Path) -> Iterator[dict[str, Any]]:
    """Each pass that changed the module: the difference of the texts before and after it."""
    dumped = [(int(found["number"]), found, file) for file in folder.iterdir() if (found := _PASS.search(file.name))]
    files = sorted(dumped, key=lambda row: (row[0], row[2]))
    before = text_lines(_text(folder, "*.before_optimizations.txt"))
    for number, found, file in files:
        after = text_lines(_shown(file.read_text(encoding="utf-8", errors="replace")))
        if found["name"] != "pipeline-start" and before != after:
            facts = {"number": number, "pipeline": found["pipeline"], "name": found["name"]}
            difference = unified(before, after, "before", "after", around=1)
            yield {**facts, "before": len(before), "after": len(after), "text": "\n".join(difference)}
        before = after


def disassembled(folder: Path) -> str:
    """The instructions of the object files that XLA linked, as objdump lists them; "" where there is no objdump."""
    tool, objects = shutil.which("objdump"), sorted(file.name for file in folder.glob("*.o"))
    if tool is None or not objects:
        return ""
    command = [tool, "-d", "-r", "--no-show-raw-insn", "--no-addresses", *objects]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=LIMIT)
    return "" if done.returncode else done.stdout


def try_flags(source: str, flags: Sequence[str]) -> None:
    """Compile a module with flags in a child process; XlaError, with XLA's words, where it cannot, or crashes."""
    with scratch.folder() as name:
        folder = Path(name)
        (folder / "module.mlir").write_text(source, encoding="utf-8")
        compiling = command(flags_process.__name__, "module.mlir", *flags)
        if error := child.run(compiling, folder, "XLA", LIMIT, environment()):
            raise XlaError(last_words(error))


def last_words(error: str) -> str:
    """The message of an error, without the stack above it; a crash as it is."""
    found = re.search(r"^(?:[\w.]*\.)?\w*Error: ", error, re.MULTILINE)
    return error[found.start() :].strip() if found else error
