"""explorer: a Compiler Explorer for torch.compile that lives in the notebook.

    import explorer
    t = explorer.trace(f, x)      # every stage of the compile, from bytecode to generated code
    t                             # in a notebook the view, in a terminal what takes the time of a call
    t.text("post_grad")           # any stage's text

Importing explorer imports neither torch nor triton.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer import errors as errors
    from explorer import quiz as quiz
    from explorer import types as types
    from explorer.capture.absent.cluster import Cluster as Cluster
    from explorer.capture.absent.target import targets as targets
    from explorer.capture.compilers.backend import backends as backends
    from explorer.errors import ExplorerError as ExplorerError
    from explorer.reference.gpus.figures import Target as Target
    from explorer.reference.help.words import glossary as glossary
    from explorer.studies.fitting.fits import fits as fits
    from explorer.studies.sweeping.sweep import sweep as sweep
    from explorer.studies.varying.called import vary as vary
    from explorer.studies.varying.modes import compare_modes as compare_modes
    from explorer.studies.varying.vary import Vary as Vary
    from explorer.tracing.recording.display import show as show
    from explorer.tracing.recording.record import record as record
    from explorer.tracing.recording.trace import trace as trace
    from explorer.tracing.traced import Kernel as Kernel
    from explorer.tracing.traced import Trace as Trace
    from explorer.tracing.traced.comparison import compare as compare
    from explorer.tracing.traced.ranks import load as load

__version__ = "0.1.0"

#: Where each public name is defined, "" for a module itself; it is imported when first asked for.
_HOMES = {
    "Cluster": "capture.absent.cluster",
    "ExplorerError": "errors",
    "Kernel": "tracing.traced",
    "Target": "reference.gpus.figures",
    "Trace": "tracing.traced",
    "Vary": "studies.varying.vary",
    "backends": "capture.compilers.backend",
    "compare": "tracing.traced.comparison",
    "compare_modes": "studies.varying.modes",
    "errors": "",
    "fits": "studies.fitting.fits",
    "glossary": "reference.help.words",
    "load": "tracing.traced.ranks",
    "quiz": "",
    "record": "tracing.recording.record",
    "show": "tracing.recording.display",
    "sweep": "studies.sweeping.sweep",
    "targets": "capture.absent.target",
    "trace": "tracing.recording.trace",
    "types": "",
    "vary": "studies.varying.called",
}
__all__ = [*sorted(_HOMES), "__version__"]

#: What people type who know other tools, and what explorer calls it.
_HABITS = {
    "explain": "explorer.glossary(word) explains a word, t.advise() a program",
    "fit": "explorer.fits",
    "probe": "explorer.vary",
    "trace_kernel": "explorer.trace(kernel, *args, grid=…)",
    "compile": "explorer.trace(f, x), explorer.record()",
    "diff": "explorer.compare",
    "open": "explorer.load",
    "view": "explorer.show",
    "display": "explorer.show",
    "profile": "t.attach(profile), t.live.profile()",
    "Quiz": "explorer.quiz.Quiz",
    "Veto": 'explorer.trace(f, x, keep_apart=("op3", "op7"))',
    "Force": 'explorer.trace(f, x, fuse=("sin", "mul"))',
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        home = _HOMES[name]
        return getattr(importlib.import_module(f"explorer.{home}"), name) if home else importlib.import_module(f"explorer.{name}")
    raise AttributeError(f"module 'explorer' has no attribute {name!r}{_right_name(name)}")


def _right_name(name: str) -> str:
    """Say what a name is called that is not here; "" where nothing is known."""
    if name.startswith("_"):
        return ""
    for module in ("errors", "types"):
        held = importlib.import_module(f"explorer.{module}")
        if name in (getattr(held, "__all__", None) or vars(held)):
            return f": it is explorer.{module}.{name}"
    return f": {_HABITS[name]}" if name in _HABITS else ""


def __dir__() -> list[str]:
    return __all__


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext explorer`: the %%explore magic."""
    from explorer.entry import magics

    magics.register(shell)
