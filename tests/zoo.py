"""The zoo: traces that tests only read. Each is compiled once, kept in `.cache/zoo/`, and loaded by all workers and later runs.

`zoo_programs.py` has the table. The folder of the traces is named by a hash of what they depend on: the modules of explorer that
make a trace, the programs, this checkout's path, and the versions of Python and of the packages. A trace has no `live` part: a
test that runs, checks, times or edits what was compiled compiles for itself.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from filelock import FileLock

from explorer.errors import FileError
from explorer.sources.files import trace_file
from explorer.tracing.traced import Trace, loads

CHECKOUT = Path(__file__).resolve().parent.parent
#: The modules that begin to make a trace; the last one in the process that compiles Triton kernels.
STARTS = (
    *(f"explorer.tracing.recording.{name}" for name in ("trace", "record", "handwritten")),
    "explorer.stages.replay",
    "explorer.capture.ladder.triton_worker",
)
#: The verbs of a trace. Modules that only they import read traces.
READERS = "explorer.tracing.traced"
#: Files of the checkout that traces depend on too.
PROGRAMS = ("tests/zoo_programs.py", "tests/programs.py", "benchmarks/advice*.py", "explorer/**/*.cpp")
PACKAGES = ("torch", "triton", "transformers")
#: How many folders are kept: two versions of torch, say, before and after a change.
MAX_FOLDERS = 4

#: The imports of a file. A docstring that looks like one counts too, which does no harm; `ast` takes 100 times as long.
IMPORT = re.compile(r"^[ \t]*(?:from|import) (explorer\b[\w.]*)(?: import (\([^)]*\)|.*))?$", re.MULTILINE)

Table = Mapping[str, Callable[[], Trace]]


class Zoo:
    """The traces of a table. `fingerprint` gives the name of the folder that they are kept in.

    `compiles` is the list in which `tiers.py` notes what the current test compiles. The zoo's own compiles are removed from it:
    a fast test that reads a trace is fast, though it may be the first.
    """

    def __init__(self, folder: Path, table: Table, fingerprint: Callable[[], str], compiles: list[str]) -> None:
        self.folder = folder
        self.table = table
        self.fingerprint = fingerprint
        self.compiles = compiles
        self.loaded: dict[str, Trace] = {}

    @cached_property
    def current(self) -> Path:
        """The folder of this run's traces."""
        return self.folder / self.fingerprint()

    def __call__(self, name: str) -> Trace:
        """Return a trace by its name. The first call compiles it, while other processes that ask for it wait."""
        if name not in self.loaded:
            self.loaded[name] = self._kept(name)
        return self.loaded[name]

    def _kept(self, name: str) -> Trace:
        make = self.table[name]
        file = self.current / file_name(name)
        self._make_folder()
        with FileLock(f"{file}.lock"):
            found = _read(file)
            if found is not None:
                return found
            made = self._made(make)
            made.raise_for_failures()  # such as a compile that was ended under load, which must not be kept
            self._make_folder()
            trace_file.save(made, file)
            trace = loads(file.read_bytes())
            if self.fingerprint() != self.current.name:
                file.unlink()  # a source changed meanwhile: it may have been imported before or after
            return trace

    def _made(self, make: Callable[[], Trace]) -> Trace:
        before = len(self.compiles)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's, which are errors in a test
                return make()
        finally:
            del self.compiles[before:]

    def _make_folder(self) -> None:
        """Make this run's folder the newest, and remove the oldest ones."""
        self.current.mkdir(parents=True, exist_ok=True)
        os.utime(self.current)
        for old in sorted(self.folder.iterdir(), key=_modified, reverse=True)[MAX_FOLDERS:]:
            shutil.rmtree(old, ignore_errors=True)


def file_name(name: str) -> str:
    """Return the name of a trace's file."""
    return f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.json.gz"


def _modified(path: Path) -> float:
    """When a folder changed last; 0 where another process has removed it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _read(file: Path) -> Trace | None:
    """Read a kept trace; None where there is none, or a damaged one."""
    try:
        return loads(file.read_bytes())
    except (FileNotFoundError, FileError):
        return None


def zoo_of_checkout(compiles: list[str]) -> Zoo:
    """Return the zoo of this checkout."""
    from tests.zoo_programs import ZOO

    return Zoo(CHECKOUT / ".cache" / "zoo", ZOO, partial(fingerprint, CHECKOUT, sources(CHECKOUT)), compiles)


# What a trace depends on -------------------------------------------------------------------------------------------------


def sources(checkout: Path) -> list[Path]:
    """List the files that the traces of a checkout depend on."""
    modules = imported_modules(checkout, STARTS, READERS)
    return sorted({*modules.values(), *(file for pattern in PROGRAMS for file in checkout.glob(pattern))})


def fingerprint(checkout: Path, files: Iterable[Path]) -> str:
    """Hash the files as they are now, and the versions of what else a trace depends on."""
    digest = hashlib.sha256(f"{checkout} {platform.python_version()} {platform.machine()}\n".encode())
    for name in PACKAGES:
        digest.update(f"{name} {_version(name)}\n".encode())
    for file in files:
        digest.update(f"{file.relative_to(checkout)}\n".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _version(package: str) -> str:
    """The version of an installed package, or nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def imported_modules(checkout: Path, starts: Iterable[str], without: str) -> dict[str, Path]:
    """Find the modules of a checkout that some modules import, each with its file, and what these import in turn.

    Imports inside functions count. The package `without` is left out with all that it alone imports.
    """
    found: dict[str, Path] = {}
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        file = _file_of(checkout, name)
        if file is None or name in found or name == without or name.startswith(f"{without}."):
            continue
        found[name] = file
        waiting += _imports(file)
        if name.count(".") > 1:  # a package that Python imports first; `explorer` itself imports names when they are asked for
            waiting.append(name.rpartition(".")[0])
    return found


def _file_of(checkout: Path, module: str) -> Path | None:
    """The file of a module; None for a name that is no module of the checkout."""
    place = checkout.joinpath(*module.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def _imports(file: Path) -> Iterator[str]:
    """Yield the names of explorer's that a file imports anywhere, some of them names inside a module."""
    for module, names in IMPORT.findall(file.read_text(encoding="utf-8")):
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))
