"""What each pass of IREE's did: iree-compile prints the module behind every pass that changed it, here in a compile of its own.

It prints the whole module, so that one pass begins with the text that the pass before it left; therefore it runs one pass at a
time. A module that is printed is megabytes: it is read while iree-compile writes, and only the one before it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.capture.compilers.child import run_reading
from explorer.capture.compilers.iree.compile import HOST, LIMIT, PRINTING, READABLE_FILE, tool
from explorer.capture.compilers.iree.differences import Module, difference
from explorer.capture.compilers.pass_names import matches
from explorer.model.shared import Names
from explorer.process import scratch
from explorer.stages.iree.passes import IreeAfterPassText, IreePassText

PRINTED = (
    "--mlir-print-ir-after-all",
    "--mlir-print-ir-after-change",
    "--mlir-print-ir-module-scope",
    "--mlir-print-local-scope",
    "--mlir-disable-threading",
)
#: Characters of whole texts that one compile keeps, before and after each.
MAX_TEXT = 50_000_000
#: The line above a module: the pass as its C++ class, as its name in a pipeline with its options, and what it ran on.
_HEAD = re.compile(
    r"^// -----// IR Dump After (?:[^:]|::)*: ([\w.-]+)(\{.*\})? \('([\w.]+)' operation(?:: (@.+))?\)( Failed)? //"
)


@dataclass(frozen=True)
class Dump:
    """A module that iree-compile printed after a pass."""

    name: str
    options: str
    operation: str
    lines: tuple[str, ...]


@dataclass
class Passes:
    """The passes of one compile, of a module in the torch dialect.

    `wanted` has the names of those whose whole texts are kept, with wildcards. `vmfb` is the file that the compile made.
    """

    text: str
    fx_nodes: Names
    wanted: Sequence[str] = ()
    vmfb: bytes = b""
    error: str = ""
    left_out: int = 0

    def run(self, flags: Sequence[str], difference_is: Callable[[IreePassText], None], whole_is: Callable[[Any], None]) -> None:
        """Compile, and hand on each pass that changed the module; an error of the compiler is `error`."""
        with scratch.folder() as name:
            folder = Path(name)
            (folder / "module.mlir").write_text(self.text, encoding="utf-8")
            command = [
                tool("iree-compile"),
                "module.mlir",
                *PRINTING,
                READABLE_FILE,
                *HOST,
                *flags,
                *PRINTED,
                "-o",
                "module.vmfb",
            ]

            def read(lines: Iterable[str]) -> None:
                for change, whole in self.changes(lines):
                    difference_is(change)
                    if whole is not None:
                        whole_is(whole)

            self.error = run_reading(command, folder, "iree-compile", LIMIT, read)
            if not self.error:
                self.vmfb = (folder / "module.vmfb").read_bytes()

    def changes(self, lines: Iterable[str]) -> Iterator[tuple[IreePassText, IreeAfterPassText | None]]:
        """Each pass that changed the module's text, and that text, where it is wanted.

        A pass that runs others gives the module as the last of them left it: no change of its own.
        """
        before, kept = Module.of(self.text), 0
        for number, dump in enumerate(dumps(lines)):
            text = "\n".join(dump.lines)
            after = Module.of(text)
            shown, places = difference(before, after)
            if shown:
                whole = IreeAfterPassText(number=number, name=dump.name, before=before.text, fx_nodes=self.fx_nodes, text=text)
                wanted = matches(dump.name, self.wanted)
                kept += (len(text) + len(before.text)) * wanted
                self.left_out += wanted and kept > MAX_TEXT
                yield self._pass(number, dump, before, after, shown, places), whole if wanted and kept <= MAX_TEXT else None
            before = after

    def _pass(self, number: int, dump: Dump, before: Module, after: Module, shown: str, places: Any) -> IreePassText:
        return IreePassText(
            number=number,
            name=dump.name,
            options=dump.options,
            operation=dump.operation,
            before=len(before.lines),
            after=len(after.lines),
            fx_nodes=self.fx_nodes,
            places=places,
            text=shown,
        )


def dumps(lines: Iterable[str]) -> Iterator[Dump]:
    """Yield each module that iree-compile prints. Lines after a module's last brace are messages, and are left out."""
    head: re.Match[str] | None = None
    module: list[str] = []
    for line in lines:
        if found := _HEAD.match(line):
            head, module = found, []
        elif head is not None:
            module.append(line.rstrip("\n"))
            if line.startswith("}"):
                operation = f"{head[3]} {head[4] or ''}".strip()
                yield Dump(head[1], " ".join((head[2] or "").split()), operation, tuple(module))
                head = None
