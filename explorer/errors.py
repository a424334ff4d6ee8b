"""The errors that explorer raises on purpose.

    ExplorerError
    ├── InputError      an argument is wrong; the message says what to do       (also a ValueError)
    ├── NoKernelError   a kernel asked for by number is not in the trace        (also an IndexError)
    ├── BusyError       another recording that changes torch, or a trace of torch.fx, is under way (also a RuntimeError)
    ├── LiveError       asked of a saved trace what only a live process can do  (also a RuntimeError)
    │   └── NoVerbError     what was traced does not have this verb; the message says what to do instead  (also an InputError)
    ├── NotInstalledError  a package that this needs is not installed; the message says how to get it  (also an ImportError)
    ├── FileError       a trace file is damaged, altered or too new             (also an OSError)
    ├── InterpretError  a Triton kernel of the program itself cannot be run here  (also a RuntimeError)
    └── CompileError    the compiler failed and the caller asked for the exception

What goes wrong inside a hook is never raised: it becomes a `Failure` in the trace.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable, Iterator, Sequence

#: What explorer is installed as, for `pip install`.
DISTRIBUTION = "torch-compile-explorer"

#: Of more valid names than these a message lists only the nearest; where none is near, at most the second number.
MAX_NAMES, MAX_LISTED = 40, 80


class ExplorerError(Exception):
    """The root of all errors that explorer raises on purpose."""


class InputError(ExplorerError, ValueError):
    """An argument is wrong; the message names a valid one."""


class NoKernelError(ExplorerError, IndexError):
    """The trace has no such kernel; the message says why, and how to get one."""


class BusyError(ExplorerError, RuntimeError):
    """A recording that changes torch, or a trace of torch.fx, is under way, and cannot be combined with this call."""


class LiveError(ExplorerError, RuntimeError):
    """A verb needs the process that made the trace."""


class NoVerbError(LiveError, InputError):
    """This kind of trace does not support the verb; the message says why, and what to do instead.

    It is an InputError too, which is what most of these verbs raised before.
    """


class NotInstalledError(ExplorerError, ImportError):
    """A package that this needs is not installed; the message says how to get it."""


class FileError(ExplorerError, OSError):
    """A trace file cannot be read: damaged, altered, not a trace, or from a newer format."""


class InterpretError(ExplorerError, RuntimeError):
    """Triton's interpreter cannot run a Triton kernel that the traced program launches itself."""


class CompileError(ExplorerError):
    """The compiler failed; raised by `raise_for_failures`, and on access to a result that a failed compile lacks."""


def is_installed(module: str) -> bool:
    """Whether a module can be found, without importing it; of "a.b" `a` is imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # ValueError: sys.modules holds None for it, which forbids the import
        return False


def require_installed(module: str, what: str, extra: str) -> None:
    """Raise NotInstalledError unless a module is there; `what` needs it, and explorer's extra `extra` brings it."""
    if is_installed(module):
        return
    saved = "; traces that were saved can be loaded, read and compared without it" if module == "torch" else ""
    install = f"pip install '{DISTRIBUTION}[{extra}]'"
    raise NotInstalledError(f"{what} needs {module}, which is not installed here: {install}{saved}", name=module)


def unknown_name(what: str, given: object, valid: Iterable[str], right: str = "") -> InputError:
    """Build the error for a name that is not in `valid`; it offers the nearest names, or all if they are few or none is near.

    `right` is what this name is called here, where that is known. It is offered first if it is valid. What was given is never
    offered: a caller may know the name in another place, where it is of no use here.
    """
    names = sorted(set(valid) - ({given} if isinstance(given, str) else set()))
    if not names:
        return InputError(f"unknown {what} {given!r}: there is none here")
    if right in names:
        return InputError(f"unknown {what} {given!r}: did you mean {right!r}? valid are {_listed(names)}")
    if len(names) > MAX_NAMES and (near := difflib.get_close_matches(str(given), names, n=5, cutoff=0.5)):
        return InputError(f"unknown {what} {given!r}: the nearest of {len(names)} are {', '.join(map(repr, near))}")
    if len(names) > MAX_LISTED:
        return InputError(f"unknown {what} {given!r}: valid are {_listed(names)}")
    near = difflib.get_close_matches(str(given), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return InputError(f"unknown {what} {given!r}: {hint}valid are {_listed(names)}")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(map(repr, names[:MAX_LISTED])) + more


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, its cause or the error that was being handled when it was raised, and so on, each once."""
    seen: set[int] = set()
    # `raise a from b` makes a circle where `b` was raised while `a` was handled
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
