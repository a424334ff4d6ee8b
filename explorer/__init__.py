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
    from explorer.backend import backends as backends
    from explorer.choices import Choice as Choice
    from explorer.comparison import compare as compare
    from explorer.errors import BusyError as BusyError
    from explorer.errors import CompileError as CompileError
    from explorer.errors import ExplorerError as ExplorerError
    from explorer.errors import FileError as FileError
    from explorer.errors import InputError as InputError
    from explorer.errors import InterpretError as InterpretError
    from explorer.errors import LiveError as LiveError
    from explorer.errors import NoKernelError as NoKernelError
    from explorer.files import load as load
    from explorer.gpus import Target as Target
    from explorer.handwritten import trace_kernel as trace_kernel
    from explorer.model import Artifact as Artifact
    from explorer.model import Event as Event
    from explorer.model import Failure as Failure
    from explorer.model import Force as Force
    from explorer.model import Link as Link
    from explorer.model import Veto as Veto
    from explorer.session import explore as explore
    from explorer.session import record as record
    from explorer.session import show as show
    from explorer.session import trace as trace
    from explorer.stage import Stage as Stage
    from explorer.stages import STAGES as STAGES
    from explorer.target import targets as targets
    from explorer.traced import Kernel as Kernel
    from explorer.traced import Trace as Trace

__version__ = "0.1.0"

#: Where each public name is defined; it is imported when first asked for.
_HOMES = {
    "Artifact": "model", "BusyError": "errors", "Choice": "choices", "CompileError": "errors", "Event": "model",
    "ExplorerError": "errors",
    "Failure": "model", "FileError": "errors", "Force": "model", "InputError": "errors", "InterpretError": "errors",
    "Kernel": "traced", "Link": "model", "LiveError": "errors", "NoKernelError": "errors",
    "STAGES": "stages", "Stage": "stage", "Target": "gpus",
    "Trace": "traced", "Veto": "model", "backends": "backend", "compare": "comparison", "explore": "session",
    "load": "files", "record": "session", "show": "session",
    "targets": "target", "trace": "session", "trace_kernel": "handwritten",
}  # fmt: skip
__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"explorer.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'explorer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext explorer`: the %%explore magic."""
    from explorer import magics

    magics.register(shell)
