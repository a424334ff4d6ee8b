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
    from explorer.capture.absent.cluster import Cluster as Cluster
    from explorer.capture.absent.target import targets as targets
    from explorer.capture.compilers.backend import backends as backends
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
    from explorer.model.stage import Stage as Stage
    from explorer.model.values import Artifact as Artifact
    from explorer.model.values import Event as Event
    from explorer.model.values import Failure as Failure
    from explorer.model.values import Force as Force
    from explorer.model.values import Link as Link
    from explorer.model.values import Veto as Veto
    from explorer.reference.gpus.figures import Target as Target
    from explorer.reference.help.words import explain as explain
    from explorer.stages import STAGES as STAGES
    from explorer.studies.fitting.answer import Fit as Fit
    from explorer.studies.fitting.fit import fit as fit
    from explorer.studies.probing.modes import Modes as Modes
    from explorer.studies.probing.modes import compare_modes as compare_modes
    from explorer.studies.probing.probe import Probe as Probe
    from explorer.studies.probing.probe import probe as probe
    from explorer.studies.probing.vary import Vary as Vary
    from explorer.studies.sweeping.sweep import Sweep as Sweep
    from explorer.studies.sweeping.sweep import sweep as sweep
    from explorer.tracing.recording.display import show as show
    from explorer.tracing.recording.handwritten import trace_kernel as trace_kernel
    from explorer.tracing.recording.record import record as record
    from explorer.tracing.recording.trace import trace as trace
    from explorer.tracing.traced import Kernel as Kernel
    from explorer.tracing.traced import Trace as Trace
    from explorer.tracing.traced.choice import Choice as Choice
    from explorer.tracing.traced.comparison import compare as compare
    from explorer.tracing.traced.ranks import Ranks as Ranks
    from explorer.tracing.traced.ranks import load as load
    from explorer.workshop.quiz.quiz import Quiz as Quiz

__version__ = "0.1.0"

#: Where each public name is defined, "" for a room itself; it is imported when first asked for.
_HOMES = {
    "Artifact": "model.values",
    "BusyError": "errors",
    "Choice": "tracing.traced.choice",
    "Cluster": "capture.absent.cluster",
    "CompileError": "errors",
    "Event": "model.values",
    "ExplorerError": "errors",
    "Failure": "model.values",
    "FileError": "errors",
    "Fit": "studies.fitting.answer",
    "Force": "model.values",
    "InputError": "errors",
    "InterpretError": "errors",
    "Kernel": "tracing.traced",
    "Link": "model.values",
    "LiveError": "errors",
    "Modes": "studies.probing.modes",
    "NoKernelError": "errors",
    "NoVerbError": "errors",
    "NotInstalledError": "errors",
    "Probe": "studies.probing.probe",
    "Quiz": "workshop.quiz.quiz",
    "Ranks": "tracing.traced.ranks",
    "STAGES": "stages",
    "Stage": "model.stage",
    "Sweep": "studies.sweeping.sweep",
    "Target": "reference.gpus.figures",
    "Trace": "tracing.traced",
    "Vary": "studies.probing.vary",
    "Veto": "model.values",
    "backends": "capture.compilers.backend",
    "compare": "tracing.traced.comparison",
    "compare_modes": "studies.probing.modes",
    "explain": "reference.help.words",
    "fit": "studies.fitting.fit",
    "load": "tracing.traced.ranks",
    "probe": "studies.probing.probe",
    "quiz": "",
    "record": "tracing.recording.record",
    "show": "tracing.recording.display",
    "sweep": "studies.sweeping.sweep",
    "targets": "capture.absent.target",
    "trace": "tracing.recording.trace",
    "trace_kernel": "tracing.recording.handwritten",
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
    from explorer.entry import magics

    magics.register(shell)
