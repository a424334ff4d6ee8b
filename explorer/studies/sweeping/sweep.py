"""Trace each of several models for each of several targets, with each of several settings, and put the figures in a table."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

from explorer.errors import FileError, InputError
from explorer.model.values import Plain, Table, plain
from explorer.studies.sweeping.cell import NAMES, Cell, Model, run
from explorer.tracing.recording.trace import trace
from explorer.tracing.traced.trace import Trace, load

#: How many processes a sweep has of its own: each imports torch, which takes a gigabyte.
WORKERS = 2
#: What no file has in its name.
_UNFIT = re.compile(r"[^\w.+=-]+")
#: The settings that the cells of a sweep may not have: they are given otherwise.
_OWN = frozenset(("fn", "args", "kwargs", "target", "stages", "unknown"))
#: Those that they may.
SETTINGS = frozenset(signature(trace).parameters) - _OWN


class Sweep:
    """The cells of a sweep, a row each in `table`, and their traces, which are read from their files when asked for."""

    def __init__(self, rows: Iterable[Mapping[str, Plain]]) -> None:
        self.table = Table(plain(tuple(rows)))

    @property
    def failed(self) -> Table:
        """The rows of the cells that failed; `why` says how."""
        return self.table.where(state="failed")

    def trace(self, **which: str) -> Trace:
        """Load the trace of one cell, by the columns that tell it from others, such as model="mlp", target="h100".

        InputError where no cell or several are meant, or where the cell left no trace.
        """
        rows = self.table.where(**which)
        if len(rows) != 1:
            cells = "; ".join(", ".join(f"{name}={row[name]!r}" for name in NAMES if row[name]) for row in self.table[:6])
            raise InputError(f"{len(rows)} cells are {which}; the cells are {cells}{'; …' if len(self.table) > 6 else ''}")
        if "file" not in rows[0]:
            raise InputError(f"this cell has no trace: {rows[0]['why']}")
        return load(rows[0]["file"])

    def plain(self) -> list[dict[str, Plain]]:
        """The same as values: one dict a row."""
        return [dict(row) for row in self.table]

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"<Sweep of {len(self)} cells{failed}>\n{self.table!r}"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def sweep(
    models: Mapping[str, str | Model] | Sequence[str],
    targets: Sequence[str] = ("auto",),
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    folder: str | PathLike[str],
    pythons: Mapping[str, str] | None = None,
    executor: Any = None,
    workers: int = WORKERS,
) -> Sweep:
    """Trace each model for each target, with each variant's settings and each Python, and give a table with a row for each.

    A model is a function without parameters that returns what to trace, as `(model, x)`; or its name, "FILE.py:NAME" or
    "MODULE:NAME". `variants` are settings of `explorer.trace` by a name of yours: `{"": {}, "tuned": {"mode": "max-autotune"}}`.
    `pythons` are interpreters of environments with other versions of torch, by name; explorer's own code runs in them. The traces
    are written into `folder`, and read when they are asked for.

    The cells run on an `executor` with the interface of `concurrent.futures`, such as loky's or what Dask's
    `client.get_executor()` gives; threads take turns. Without one, `workers` new processes run them: in a script call it under
    `if __name__ == "__main__":`. A cell that fails is a row that says why, also where its process died; an executor of yours may
    fail the other cells with it.
    InputError for what cannot be, FileError for a folder that cannot be written.
    """
    cells = _cells(models, targets, variants or {"": {}}, _folder(folder), pythons or {"": ""})
    if executor is not None:
        return Sweep(_failed_if_died(cell, row) for cell, row in zip(cells, _rows(cells, executor), strict=True))
    _check_processes(cells, workers)
    with _processes(min(workers, len(cells))) as own:
        rows = _rows(cells, own)
    return Sweep(_alone(cell) if row["state"] == "died" else row for cell, row in zip(cells, rows, strict=True))


def _cells(
    models: Mapping[str, str | Model] | Sequence[str],
    targets: Sequence[str],
    variants: Mapping[str, Mapping[str, Any]],
    folder: Path,
    pythons: Mapping[str, str],
) -> list[Cell]:
    """Every cell, with a file of its own. InputError for a wrong model or setting."""
    if isinstance(models, str) or isinstance(targets, str):
        raise InputError("a sweep takes several models and targets, each in a list: sweep(['models.py:mlp'], ['h100'], …)")
    named = dict(models) if isinstance(models, Mapping) else {_short(source): source for source in models}
    if len(named) < len(models) or not named or not targets:
        raise InputError("a sweep has models and targets, each model by a name of its own: {'mlp': 'models.py:mlp'}")
    for source in named.values():
        _check_model(source, pythons)
    for name, settings in variants.items():
        if wrong := [key for key in settings if key not in SETTINGS]:
            raise InputError(
                f"the variant {name!r} has {wrong[0]!r}, which explorer.trace does not take: {', '.join(sorted(SETTINGS))}"
            )
    cells = []
    for number, ((model, source), target, variant, python) in enumerate(
        itertools.product(named.items(), targets, variants.items(), pythons.items())
    ):
        parts = (_UNFIT.sub("_", part) for part in (model, target, variant[0], python[0]) if part)
        file = str(folder / f"{number:03}.{'.'.join(parts)}.json.gz")
        cells.append(Cell(model, target, variant[0], python[0], source, file, dict(variant[1]), python[1]))
    return cells


def _short(source: object) -> str:
    return str(source).rpartition(":")[2]


def _check_model(source: object, pythons: Mapping[str, str]) -> None:
    """Raise InputError for anything but a model, and for a function that another interpreter would have to import."""
    if isinstance(source, str):
        place, _, name = source.rpartition(":")
        if not place or not name.isidentifier():
            raise InputError(
                f"{source!r} names no model: give FILE.py:NAME or MODULE:NAME of a function that returns (function, *args)"
            )
        if place.endswith(".py") and not Path(place).is_file():
            raise InputError(f"there is no file {place}")
    elif not callable(source):
        raise InputError(f"a model is a function that returns (function, *arguments), or its name, not {type(source).__name__}")
    elif any(pythons.values()):
        raise InputError("another Python imports the model itself: give it as FILE.py:NAME")


def _folder(folder: str | PathLike[str]) -> Path:
    try:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write {folder}: {error.strerror or error}") from error
    return path.resolve()


# Running -----------------------------------------------------------------------------------------------------------------


def _rows(cells: Sequence[Cell], executor: Any) -> list[dict[str, Any]]:
    """The row of each cell; state "died" where the executor broke before it had one."""
    submitted: list[Any] = []
    try:
        for cell in cells:
            submitted.append(_submitted(executor, cell))
        return [_row(cell, future) for cell, future in zip(cells, submitted, strict=True)]
    finally:  # also where the user stops it: what did not begin is not begun; of a cell that is done this changes nothing
        for future in submitted:
            getattr(future, "cancel", lambda: None)()


def _submitted(executor: Any, cell: Cell) -> Any:
    try:
        return executor.submit(run, cell)
    except BrokenExecutor as error:
        return error


def _row(cell: Cell, future: Any) -> dict[str, Any]:
    """The row that a future gives; one that says what became of it where it gives none."""
    try:
        error = future if isinstance(future, BrokenExecutor) else future.exception()
    except CancelledError as cancelled:
        error = cancelled
    if error is None:
        row: dict[str, Any] = future.result()
        return row
    state = "died" if isinstance(error, BrokenExecutor) else "failed"
    return cell.row(state, f"{type(error).__name__}: {error}")


def _failed_if_died(cell: Cell, row: dict[str, Any]) -> dict[str, Any]:
    """The row of a cell on the caller's executor, which is not run again by itself: which cell broke the executor is unknown."""
    if row["state"] != "died":
        return row
    return cell.row("failed", f"the executor broke: this cell or another ended its process ({row['why']})")


def _alone(cell: Cell) -> dict[str, Any]:
    """Return the row of a cell whose pool lost a process: the cell runs again alone, so only the culprit's row says so."""
    with _processes(1) as own:
        (row,) = _rows([cell], own)
    return cell.row("failed", "its process died; what it printed last may say why") if row["state"] == "died" else row


def _processes(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def _check_processes(cells: Sequence[Cell], workers: object) -> None:
    """Raise InputError for what new processes cannot run."""
    if not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers is the number of processes, not {workers!r}")
    if getattr(multiprocessing.process.current_process(), "_inheriting", False):
        raise InputError("a sweep starts processes that import this script: call explorer.sweep under if __name__ == '__main__':")
    for cell in cells:
        try:
            pickle.dumps(cell)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"{cell.name} cannot be sent to another process ({error}): give the model as FILE.py:NAME, or an executor that "
                "can, such as a ThreadPoolExecutor or loky's"
            ) from None
    _check_main(cells)


def _check_main(cells: Sequence[Cell]) -> None:
    """Raise InputError for a function of a notebook or a prompt, which a new process does not find."""
    import __main__

    for cell in cells:
        if getattr(cell.source, "__module__", "") == "__main__" and not hasattr(__main__, "__file__"):
            raise InputError(
                f"{cell.name} is a function of this notebook, which a new process does not have: write it to a file and give "
                "FILE.py:NAME, or give executor=ThreadPoolExecutor(1)"
            )


__all__ = ["Sweep", "sweep"]
