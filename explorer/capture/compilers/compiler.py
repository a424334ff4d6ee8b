"""Compiler: a compiler other than Inductor that explorer can hand graphs to itself, as a frozen value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.errors import DISTRIBUTION, is_installed
from explorer.model.stage import Emit, Watch, watch_nothing


@dataclass(frozen=True, slots=True)
class Compiler:
    """One compiler: how it is asked for, whether it is here, and how it compiles.

    `name` is what `trace(f, x, backend=name)` takes, and `extra` the extra of explorer that installs it, "" for a plug-in. It
    is here when all of its `modules` can be found. `backend(emit, options)` makes a backend for torch.compile, which emits
    events of these `kinds`. The compiler is imported only then. `options` maps the keys that `options=` may have to
    descriptions. `replaces_torchs` says that torch has a backend of that name that cannot work. `watch` is the probe for the
    compiler's own backends, which torch knows as `registered`: a recorded program may use them without explorer.
    """

    name: str
    title: str
    about: str
    extra: str
    modules: tuple[str, ...]
    backend: Callable[[Emit, Mapping[str, Any]], Callable[..., Any]]
    kinds: tuple[str, ...]
    options: Mapping[str, str]
    registered: tuple[str, ...] = ()
    replaces_torchs: bool = False
    watch: Watch = watch_nothing

    @property
    def missing(self) -> tuple[str, ...]:
        """Those of its modules that are not installed."""
        return tuple(module for module in self.modules if not is_installed(module))

    @property
    def remedy(self) -> str:
        """What to do to have it."""
        if not self.extra:
            return f"it needs {', '.join(self.missing)}"
        return f"pip install '{DISTRIBUTION}[{self.extra}]'"
