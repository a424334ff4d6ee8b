"""explorer: a Compiler Explorer for torch.compile that lives in the notebook.

    import explorer
    t = explorer.trace(f, x)      # every stage of the compile, from bytecode to generated code
    t                             # in a notebook the view, in a terminal the stage table
    t.text("post_grad")           # any stage's text

Importing explorer imports neither torch nor triton.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer import quiz as quiz
    from explorer.absent.cluster import Cluster as Cluster
    from explorer.absent.target import targets as targets
    from explorer.compilers.backend import backends as backends
    from explorer.errors import BusyError as BusyError
    from explorer.errors import CompileError as CompileError
    from explorer.errors import ExplorerError as ExplorerError
    from explorer.errors import FileError as FileError
    from explorer.errors import InputError as InputError
    from explorer.errors import InterpretError as InterpretError
    from explorer.errors import LiveError as LiveError
    from explorer.errors import NoKernelError as NoKernelError
    from explorer.errors import NotInstalledError as NotInstalledError
    from explorer.errors import NoVerbError as NoVerbError
    from explorer.files.schema import schema as schema
    from explorer.fitting.answer import Fit as Fit
    from explorer.fitting.fit import fit as fit
    from explorer.gpus.figures import Target as Target
    from explorer.help.words import explain as explain
    from explorer.model.stage import Stage as Stage
    from explorer.model.values import Artifact as Artifact
    from explorer.model.values import Event as Event
    from explorer.model.values import Failure as Failure
    from explorer.model.values import Force as Force
    from explorer.model.values import Link as Link
    from explorer.model.values import Veto as Veto
    from explorer.probing.modes import Modes as Modes
    from explorer.probing.modes import compare_modes as compare_modes
    from explorer.probing.probe import Probe as Probe
    from explorer.probing.probe import probe as probe
    from explorer.probing.vary import Vary as Vary
    from explorer.quiz.quiz import Quiz as Quiz
    from explorer.recording.display import explore as explore
    from explorer.recording.display import show as show
    from explorer.recording.handwritten import trace_kernel as trace_kernel
    from explorer.recording.record import record as record
    from explorer.recording.trace import trace as trace
    from explorer.stages import STAGES as STAGES
    from explorer.sweeping.sweep import Sweep as Sweep
    from explorer.sweeping.sweep import sweep as sweep
    from explorer.traced import Kernel as Kernel
    from explorer.traced import Trace as Trace
    from explorer.traced.choice import Choice as Choice
    from explorer.traced.comparison import compare as compare
    from explorer.traced.ranks import Ranks as Ranks
    from explorer.traced.ranks import load as load

__version__ = "0.1.0"

#: Where each public name is defined, "" for a room itself; it is imported when first asked for.
_HOMES = {
    "Artifact": "model.values",
    "BusyError": "errors",
    "Choice": "traced.choice",
    "Cluster": "absent.cluster",
    "CompileError": "errors",
    "Event": "model.values",
    "ExplorerError": "errors",
    "Failure": "model.values",
    "FileError": "errors",
    "Fit": "fitting.answer",
    "Force": "model.values",
    "InputError": "errors",
    "InterpretError": "errors",
    "Kernel": "traced",
    "Link": "model.values",
    "LiveError": "errors",
    "Modes": "probing.modes",
    "NoKernelError": "errors",
    "NoVerbError": "errors",
    "NotInstalledError": "errors",
    "Probe": "probing.probe",
    "Quiz": "quiz.quiz",
    "Ranks": "traced.ranks",
    "STAGES": "stages",
    "Stage": "model.stage",
    "Sweep": "sweeping.sweep",
    "Target": "gpus.figures",
    "Trace": "traced",
    "Vary": "probing.vary",
    "Veto": "model.values",
    "backends": "compilers.backend",
    "compare": "traced.comparison",
    "compare_modes": "probing.modes",
    "explain": "help.words",
    "explore": "recording.display",
    "fit": "fitting.fit",
    "load": "traced.ranks",
    "probe": "probing.probe",
    "quiz": "",
    "record": "recording.record",
    "schema": "files.schema",
    "show": "recording.display",
    "sweep": "sweeping.sweep",
    "targets": "absent.target",
    "trace": "recording.trace",
    "trace_kernel": "recording.handwritten",
}
__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        home = _HOMES[name]
        return getattr(importlib.import_module(f"explorer.{home}"), name) if home else importlib.import_module(f"explorer.{name}")
    raise AttributeError(f"module 'explorer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext explorer`: the %%explore magic."""
    from explorer import magics

    magics.register(shell)
