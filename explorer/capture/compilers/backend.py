"""Backends of torch.compile: which there are, and which work here."""

from __future__ import annotations

import inspect
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, overload

from explorer.capture.compilers import own, trials
from explorer.capture.compilers.catalogue import DEBUGGING, KNOWN, KnownBackend, known_backend, why_not_here
from explorer.capture.compilers.compiler import Compiler
from explorer.capture.compilers.compilers import compiler_named, compilers
from explorer.capture.compilers.torch_compile import registered_backends
from explorer.capture.compilers.torch_compile import valid_options as options_of_inductor
from explorer.errors import InputError, require_installed, unknown_name
from explorer.model.stage import Emit
from explorer.model.values import Plain, Table
from explorer.process import user_cache


def registered() -> tuple[str, ...]:
    """The names of all backends that can be asked for, including those for debugging."""
    return tuple(sorted({*registered_backends(), *(compiler.name for compiler in compilers())}))


class Backends(Sequence[Mapping[str, Plain]]):
    """The table of the backends, which shows itself at once and is filled in as each backend is tried.

    `rows` has the results so far. `works` is None for a backend that is not tried yet. Used as a sequence, the table waits
    until all backends have been tried.
    """

    def __init__(self, names: Sequence[str] | None, timeout: float, fresh: bool) -> None:
        self._asked = tuple(names) if names is not None else None
        self._timeout = timeout
        self._file = user_cache.directory() / f"backends-{trials.key()}.json"
        self._known: dict[str, dict[str, Any]] = {} if fresh else trials.remembered(self._file)
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._fill_in, daemon=True, name="explorer-backends")
        self._thread.start()

    @property
    def rows(self) -> Table:
        """One row per backend, with its result so far."""
        return Table(_row(name, self._known.get(name), self._registered) for name in self._names())

    @property
    def complete(self) -> bool:
        """Whether every backend has been tried."""
        return not self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> Backends:
        """Wait until every backend has been tried, or so many seconds."""
        self._thread.join(seconds)
        return self

    def as_tried(self) -> Iterator[Mapping[str, Plain]]:
        """Yield each row as soon as its backend has been tried, in the order of the trials."""
        given: set[str] = set()
        while True:
            with self._changed:
                while not (fresh := [n for n in self._names() if n in self._known and n not in given]) and not self.complete:
                    self._changed.wait(0.1)
            for name in fresh:
                given.add(name)
                yield _row(name, self._known[name], self._registered)
            if not fresh:
                return

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Plain]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Plain]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Plain] | Sequence[Mapping[str, Plain]]:
        return self.wait().rows[index]

    def __len__(self) -> int:
        return len(self.wait().rows)

    def where(self, **conditions: object) -> Table:
        """The rows whose named fields equal the given values, when all have been tried."""
        return self.wait().rows.where(**conditions)

    @property
    def frame(self) -> Any:
        """The rows as a `pandas.DataFrame`, when all have been tried."""
        return self.wait().rows.to_pandas()

    def __repr__(self) -> str:
        return f"{self.rows!r}{self._under_way()}"

    def _repr_html_(self) -> str:
        return f"{self.rows._repr_html_()}<p>{self._under_way().strip()}</p>"

    def _ipython_display_(self) -> None:
        """Show the table at once, and in its place the table again as it fills in."""
        from IPython.display import HTML, display

        shown = display(HTML(self._repr_html_()), display_id=True)
        if not self.complete:
            threading.Thread(target=self._show_again, args=(shown,), daemon=True).start()

    def _show_again(self, shown: Any) -> None:
        from IPython.display import HTML

        while not self.complete:
            with self._changed:
                self._changed.wait(1.0)
            shown.update(HTML(self._repr_html_()))
        shown.update(HTML(self._repr_html_()))

    def _under_way(self) -> str:
        left = [row["backend"] for row in self.rows if row["works"] is None]
        return f"\n{len(left)} are being tried: {', '.join(left)}" if left and not self.complete else ""

    def _names(self) -> tuple[str, ...]:
        """Those that were asked for, or all that are known of, those in explorer's table first."""
        if self._asked is not None:
            return self._asked
        return tuple(dict.fromkeys((*(known.name for known in KNOWN), *(self._registered or ()))))

    @property
    def _registered(self) -> tuple[str, ...] | None:
        """The names that torch registers. None until they are known: torch must be imported to list them."""
        found = self._known.get("", {}).get("registered")
        return tuple(found) if found is not None else None

    def _fill_in(self) -> None:
        """Try the backends without a result: first those of the table, then torch's others, in the time that is left."""
        names, until = self._names(), time.monotonic() + self._timeout
        self._try([name for name in names if name not in self._known and not why_not_here(name)], self._timeout)
        rest = [name for name in self._names() if name not in self._known]
        self._try([name for name in rest if not why_not_here(name)], max(1.0, until - time.monotonic()))
        for name in rest:
            if name not in self._known:
                self._known[name] = {"works": False, "why": why_not_here(name), "when": trials.now()}
        with self._changed:
            self._changed.notify_all()

    def _try(self, names: Sequence[str], seconds: float) -> None:
        if not names and self._registered is not None:
            return
        for answer in trials.tried(names, seconds):
            name = str(answer.pop("backend", ""))
            facts = {**answer, "when": trials.now()}
            with self._changed:
                self._known[name] = facts
                self._changed.notify_all()
            if not str(facts.get("why", "")).startswith("no answer in"):
                trials.remember(self._file, {name: facts})


def _row(name: str, facts: Mapping[str, Any] | None, names: Sequence[str] | None) -> dict[str, Plain]:
    """Return the row of a backend; whether it works, or torch registers it, may not be known yet."""
    known = known_backend(name) or KnownBackend(name, DEBUGGING)
    missing = why_not_here(name)
    return {
        "backend": name,
        "works": (facts or {}).get("works", False if missing else None),
        "why": missing or (facts or {}).get("why", ""),
        "registered": None if names is None else name in names,
        "installed": known.installed,
        "package": f"{known.package} {known.version}".strip() or "torch",
        "install": known.install,
        "what": known.what,
        "tried": (facts or {}).get("when", ""),
    }


def backends(names: list[str] | None = None, timeout: float = 50.0, fresh: bool = False) -> Backends:
    """Try each backend on a small function: one row each, with whether it works here and why not.

    The table shows at once and fills in: each is tried in a process of its own, all of them within `timeout` seconds. `names`
    limits the trial. What came of it is remembered until a package, Python, the C++ compiler or the driver is another; a
    backend that gave no answer is tried again next time, and with `fresh` all are.
    """
    require_installed("torch", "explorer.backends", "full")
    return Backends(names, timeout, fresh)


# Asked for ---------------------------------------------------------------------------------------------------------------


def resolve(backend: object) -> Any:
    """Check a backend; InputError for one that is not here, with what to install, and for an unknown one the nearest names."""
    if callable(backend):
        return backend
    if not isinstance(backend, str):
        raise InputError(f"backend is a name or a callable, not {type(backend).__name__}")
    compiler = compiler_named(backend)
    names = registered()
    if backend not in names or (compiler is not None and compiler.missing):
        if why := why_not_here(backend):
            raise InputError(f"backend {backend!r}: {why}")
        if (known := known_backend(backend)) is not None:
            note = f" {known.note}." if known.note else ""
            raise InputError(f"backend {backend!r}: {known.what}. Its package is installed, and registers no such backend.{note}")
        raise unknown_name("backend", backend, names)
    return backend


def valid_options(backend: object) -> tuple[str, ...]:
    """The names that a backend takes in `options=`; none where they are not known."""
    compiler = compiler_named(backend)
    return tuple(compiler.options) if compiler is not None else options_of_inductor(backend)


def given_to_torch(backend: Any, emit: Emit, chosen: Mapping[str, Any], *, absent: bool = False) -> tuple[Any, Mapping[str, Any]]:
    """Return the backend and the options to call torch.compile with, for those that the user asked for.

    One of `compilers()` becomes a callable that emits its events and already has the user's options. Inductor has its own
    probes, and so have the registered backends that compile for an absent GPU. Any other backend is observed.
    """
    compiler = compiler_named(backend)
    if compiler is None:
        return _observed(backend, emit, absent=absent), chosen
    made = compiler.backend(emit, chosen.get("options") or {})
    return _with_name(made, compiler.name), {**chosen, "options": None}


def _observed(backend: Any, emit: Emit, *, absent: bool) -> Any:
    """Return an observed version of a backend that is not explorer's own; the backend itself if a probe observes it already."""
    if callable(backend):
        return own.observed(backend, str(getattr(backend, "__name__", "") or type(backend).__name__), emit, own=True)
    watched = any(backend in compiler.registered and not compiler.missing for compiler in compilers())
    if backend == "inductor" or absent or watched:
        return backend
    import torch

    return own.observed(torch._dynamo.lookup_backend(backend), backend, emit, own=False)


@contextmanager
def offered(emit: Emit) -> Iterator[None]:
    """Let torch.compile take the names of `compilers()` too inside the block. Their compiles are emitted.

    A name that torch registers itself stays torch's, unless torch's backend cannot work.
    """
    from torch._dynamo.backends import registry

    registered_backends()  # torch fills its table when first asked
    names = registry._BACKENDS
    offered_here = [c for c in compilers() if not c.missing and (c.replaces_torchs or c.name not in names)]
    with _without(registry._BACKENDS, offered_here), _without(registry._COMPILER_FNS, offered_here):
        for compiler in offered_here:
            registry.register_backend(_offer(compiler, emit), name=compiler.name)
        yield


@contextmanager
def _without(table: dict[str, Any], compilers: Sequence[Compiler]) -> Iterator[None]:
    """Remove these compilers' names from one of torch's tables inside the block, and restore the table after it."""
    before = {compiler.name: table.pop(compiler.name) for compiler in compilers if compiler.name in table}
    try:
        yield
    finally:
        for compiler in compilers:
            table.pop(compiler.name, None)
        table.update(before)


def _offer(compiler: Compiler, emit: Emit) -> Callable[..., Any]:
    """A backend as torch registers one: the compiler is imported when a graph comes."""

    def backend(gm: Any, inputs: Any, options: Mapping[str, Any] | None = None) -> Any:
        return compiler.backend(emit, options or {})(gm, inputs)

    backend.__name__ = backend.__qualname__ = compiler.name
    return backend


def _with_name(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A backend under the name that it was asked for by, which torch writes into its messages."""

    def backend(gm: Any, inputs: Any) -> Any:
        return function(gm, inputs)

    backend.__name__ = backend.__qualname__ = name
    return backend


def compiler_of(backend: object) -> Compiler | None:
    """The compiler other than Inductor that compiles for a backend, also for one that it registers with torch itself."""
    return next((compiler for compiler in compilers() if backend in (compiler.name, *compiler.registered)), None)


def engine_that_raised(backend: object, error: BaseException) -> str:
    """Return the title of the compiler other than Inductor that raised an error when it ran what it compiled; "" for none.

    An operator that the engine leaves to PyTorch is the program's own: its error is raised below a graph's code. Torch
    may leave only the call of the GraphModule in the traceback.
    """
    compiler = compiler_of(backend)
    if compiler is None:
        return ""
    folders = (*compiler.modules, compiler.backend.__module__.rpartition(".")[0] or compiler.backend.__module__)
    title = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_filename.startswith("<eval_with_key>") or module == "torch.fx.graph_module":
            title = ""
        elif f"{module}.".startswith(tuple(f"{folder}." for folder in folders)):
            title = compiler.title
    return title


def is_module_compiler(backend: object) -> bool:
    """Whether this is a `compiler(module) -> module`, which calls torch.compile itself; a backend takes (graph, inputs)."""
    if isinstance(backend, str) or not callable(backend):
        return False
    try:
        parameters = inspect.signature(backend).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(required) == 1 and not any(p.kind is p.VAR_POSITIONAL for p in parameters)


Backend = str | Callable[..., Any]
