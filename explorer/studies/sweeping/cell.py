"""One cell of a sweep: trace a model for a target, write the trace, and give a row of figures.

Another environment's interpreter runs `python -m explorer.studies.sweeping.cell`: a cell as JSON on stdin, its row on stdout.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.analysis.questions.comparison import figures
from explorer.errors import InputError
from explorer.model.values import jsonable, plain, text_lines
from explorer.process.children import PACKAGE, command, given
from explorer.tracing.recording.trace import trace

#: A function without arguments that gives what is traced: the function, and behind it its arguments.
Model = Callable[[], tuple[Any, ...]]
#: What a row says first; the figures of the trace follow.
NAMES = ("model", "target", "variant", "python")
#: The lines of a traceback that a row quotes.
LAST_LINES = 6
#: A process has one recording at a time: the threads of an executor take turns.
_TURN = threading.Lock()


@dataclass(frozen=True)
class Cell:
    """A model, a target, settings of `explorer.trace` and an interpreter, each by its name, and the file for the trace.

    `source` is the model: "FILE:NAME" or "MODULE:NAME" of a function that gives it, or that function. `interpreter` is the path
    of another Python, "" for the one that runs the cell.
    """

    model: str
    target: str
    variant: str
    python: str
    source: str | Model
    file: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    interpreter: str = ""

    @property
    def name(self) -> str:
        """The cell for people."""
        return ", ".join(part for part in (self.model, self.target, self.variant, self.python) if part)

    def row(self, state: str, why: str = "", **figures: Any) -> dict[str, Any]:
        """A row about the cell."""
        return {**{name: getattr(self, name) for name in NAMES}, "state": state, "why": why, **figures}


def run(cell: Cell) -> dict[str, Any]:
    """Trace a cell and give its row, "ok" or "failed" and why; it raises nothing that the model or the compile raise."""
    try:
        if cell.interpreter:
            return _elsewhere(cell)
        with _TURN, made(cell.source) as (function, *args):
            return _traced(cell, function, args)
    except Exception as error:  # noqa: BLE001 a cell that fails is a row, and no end of the sweep
        lines = text_lines("".join(traceback.format_exception(error)).rstrip())
        return cell.row("failed", "\n".join(lines[-LAST_LINES:]))


def _traced(cell: Cell, function: Any, args: list[Any]) -> dict[str, Any]:
    began = time.perf_counter()
    found = trace(function, *args, target=cell.target, **cell.settings)
    seconds = round(time.perf_counter() - began, 3)
    found.save(cell.file)
    fatal = [str(failure) for failure in found.failures if failure.fatal]
    state, why = ("failed", fatal[0]) if fatal else ("ok", "")
    numbers = {"torch": found.meta.get("torch"), "seconds": seconds, "failures": len(found.failures), **figures(found)}
    return cell.row(state, why, file=cell.file, **numbers)


@contextmanager
def made(source: str | Model) -> Iterator[tuple[Any, ...]]:
    """The function and the arguments of a model, whose file is imported inside. InputError for what is no model."""
    if not isinstance(source, str):
        yield _given(source, getattr(source, "__name__", str(source)))
        return
    place, _, name = source.rpartition(":")
    with _imported(place) as module:
        if not callable(make := getattr(module, name, None)):
            raise InputError(f"{place} has no function {name}: name one that takes nothing and gives (function, *arguments)")
        yield _given(make, source)


def _given(make: Model, name: str) -> tuple[Any, ...]:
    given = make()
    if not isinstance(given, tuple) or not given or not callable(given[0]):
        raise InputError(f"{name} must return (function, *arguments), not {type(given).__name__}, as in: return model, x")
    return given


@contextmanager
def _imported(place: str) -> Iterator[Any]:
    """A module by its name, or a file as one, with its folder on sys.path; both are taken back afterwards."""
    if not place.endswith(".py"):
        yield importlib.import_module(place)
        return
    path = Path(place).resolve()
    if not path.is_file():
        raise InputError(f"there is no file {place}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    modules, folders = dict(sys.modules), list(sys.path)
    sys.path.insert(0, str(path.parent))
    sys.modules[path.stem] = module  # torch.compile imports the module of a function by its name
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path[:] = folders
        _forget(path, modules)


def _forget(path: Path, before: Mapping[str, Any]) -> None:
    """Take the modules of the file's folder out of sys.modules again: another file may have their names."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if before.get(name) is not module and file and Path(file).parent == path.parent:
            sys.modules.pop(name)
            if name in before:
                sys.modules[name] = before[name]


def _elsewhere(cell: Cell) -> dict[str, Any]:
    """The row of a cell that another interpreter runs, with explorer's own code and that environment's torch."""
    asked = {**{key: getattr(cell, key) for key in (*NAMES, "source", "file")}, "settings": dict(cell.settings)}
    _, *arguments = command("explorer.studies.sweeping.cell")
    try:
        done = subprocess.run(
            [cell.interpreter, *arguments],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
            env=given([os.getcwd()], {PACKAGE: ["explorer"]}),  # none of this process's folders: they have its torch
        )
    except OSError as error:
        return cell.row("failed", f"{cell.interpreter} cannot be started: {error.strerror or error}")
    if done.returncode != 0 or not done.stdout.strip():
        said = "\n".join(text_lines(done.stderr.rstrip())[-LAST_LINES:])
        return cell.row("failed", f"{cell.interpreter} ended with status {done.returncode}: {said}")
    row: dict[str, Any] = json.loads(text_lines(done.stdout)[-1])
    return row


def main() -> None:
    """Run the cell on stdin; what the model prints goes to stderr, because stdout is the row's."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answers.write(json.dumps(jsonable(plain(run(Cell(**json.load(sys.stdin)))))) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
