"""What a teacher does the day before a class, as one command: `explorer doctor --class FOLDER`.

It looks for all that tracing needs, compiles what the first cell would wait for, runs every notebook of the workshop, and writes
the class pack.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from explorer.entry.doctor import Diagnosis, diagnosis
from explorer.errors import ExplorerError
from explorer.model.values import Plain
from explorer.model.wording import quantity
from explorer.process.progress import progress
from explorer.workshop.classpack.notebooks import workshop_notebooks
from explorer.workshop.classpack.pack import Copy, make


@dataclass(frozen=True)
class ClassDay:
    """Whether a class can begin on this machine; `str` is the line that `explorer doctor --class` prints."""

    machine: Diagnosis
    folder: Path
    copies: tuple[Copy, ...] = ()
    #: Why the class pack could not be finished, "" otherwise.
    why: str = ""

    @property
    def ready(self) -> bool:
        """Whether the machine compiles, every notebook ran, and the pack is written."""
        return self.machine.ready and bool(self.copies) and not self.why

    @property
    def line(self) -> str:
        """The one line of result."""
        if not self.machine.ready:
            return self.machine.line.replace("not ready", "not ready for a class", 1)
        if self.why:
            return f"not ready for a class: {self.why}"
        size = sum(copy.size for copy in self.copies) / 1e6
        ran = quantity(len(self.copies), "notebook")
        return f"ready for a class: this machine compiles, {ran} ran, their copies are in {self.folder} ({size:.1f} MB)"

    def plain(self) -> dict[str, Plain]:
        """The same for JSON."""
        pack = {"folder": str(self.folder), "why": self.why, "copies": [copy.plain() for copy in self.copies]}
        return {"ready": self.ready, "line": self.line, "machine": self.machine.plain(), "pack": pack}

    def __str__(self) -> str:
        return self.line


def class_day(folder: Path) -> ClassDay:
    """Prepare a class on this machine, and write the class pack to a folder; it takes minutes."""
    machine = diagnosis(warm=True)
    if not machine.ready:
        return ClassDay(machine, folder)
    copies: list[Copy] = []
    try:
        notebooks = workshop_notebooks()
        with progress("the workshop", "running") as show:
            copying = make(notebooks, folder)
            for notebook in notebooks:
                if show is not None:
                    show(notebook.name)
                copies.append(next(copying))
    except ExplorerError as error:
        return ClassDay(machine, folder, tuple(copies), str(error))
    return ClassDay(machine, folder, tuple(copies))
