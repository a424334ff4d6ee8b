"""What tracing needs of this machine: each thing looked for, with why it is missing and what to do."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from explorer.capture.ladder.triton_tools import missing_triton
from explorer.capture.observe.versions import NEWEST, PUBLISHED, python_version, version_of
from explorer.errors import DISTRIBUTION, is_installed

#: How to get a C++ compiler, Python's headers and dot, by sys.platform; "" is any other.
COMPILER = {"linux": "apt install g++", "darwin": "xcode-select --install", "win32": "install Visual Studio's C++ build tools"}
HEADERS = {"linux": "apt install python3-dev", "": "install Python from python.org, which has its headers"}
DOT = {"linux": "apt install graphviz", "darwin": "brew install graphviz", "win32": "winget install graphviz"}


OLDEST = next(iter(PUBLISHED))


@dataclass(frozen=True)
class Check:
    """A check for one thing, named `what`: `found` describes it; if it is missing, `why` and `remedy` say why and what to do.

    `use` says what it is needed for. An `optional` thing may be missing on a machine that is ready. A thing that is not
    `compiled_with` is not needed to compile.
    """

    what: str
    use: str
    found: str = ""
    why: str = ""
    remedy: str = ""
    optional: bool = False
    compiled_with: bool = True


def checks() -> Iterator[Check]:
    """Each check, done when it is asked for; those that ask torch are left out where torch is missing."""
    yield Check("Python", "everything", python_version())
    torch = _torch()
    yield torch
    yield _notebook()
    yield _dot()
    yield _headers()
    yield _setuptools()
    if torch.why:
        return
    triton = _triton()
    yield triton
    if not triton.why:
        yield _cache("triton's cache", _triton_cache())
    inductor_cache = _cache("Inductor's cache", _inductor_cache())
    yield inductor_cache
    if not inductor_cache.why:  # Inductor cannot be imported without it, and so not be asked for its compiler
        yield _compiler()


def _torch() -> Check:
    use = "tracing"
    remedy = f"pip install '{DISTRIBUTION}[full]', or only read traces that were saved"
    if not is_installed("torch"):
        return Check("torch", use, why="torch is not installed", remedy=remedy)
    try:
        import torch.fx  # noqa: F401
    except (ImportError, OSError) as error:
        return Check("torch", use, why=f"torch {version_of('torch')} cannot be imported: {error}", remedy=remedy)
    release = ".".join(version_of("torch").split(".")[:2])
    if release not in PUBLISHED:
        why = f"torch {version_of('torch')} is not one of the releases {OLDEST} to {NEWEST} that explorer works with"
        return Check("torch", use, why=why, remedy=remedy.partition(",")[0])
    return Check("torch", use, version_of("torch"))


def _setuptools() -> Check:
    """Inductor's C++ builder asks it where Python's headers are, and Python has it no more from 3.12 on."""
    use = "torch.compile for the CPU"
    if not is_installed("setuptools"):
        return Check("setuptools", use, why="setuptools is not installed", remedy="pip install setuptools")
    return Check("setuptools", use, version_of("setuptools"))


def _notebook() -> Check:
    packages = ("jupyterlab", "ipywidgets", "anywidget", "pandas", "graphviz")
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        why = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        return Check("notebook", "the view", why=why, remedy=f"pip install '{DISTRIBUTION}[view]'", compiled_with=False)
    return Check("notebook", "the view", f"jupyterlab {version_of('jupyterlab')}, anywidget {version_of('anywidget')}")


def _dot() -> Check:
    dot = shutil.which("dot")
    if dot is None:
        why = "graphviz's dot is not on the PATH"
        return Check("dot", "diagrams", why=why, remedy=_for_platform(DOT), optional=True, compiled_with=False)
    return Check("dot", "diagrams", dot)


def _headers() -> Check:
    use = "torch.compile for the CPU"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        return Check("Python.h", use, why=f"Python's header {header} is missing", remedy=_for_platform(HEADERS))
    return Check("Python.h", use, str(header))


def _compiler() -> Check:
    """The C++ compiler that Inductor would take, after its own search."""
    from torch._inductor import cpp_builder, exc

    use = "torch.compile for the CPU"
    try:
        return Check("C++ compiler", use, cpp_builder.get_cpp_compiler())
    except (exc.InvalidCxxCompiler, OSError):
        why = "there is no C++ compiler that works (g++, or what CXX names)"
        return Check("C++ compiler", use, why=why, remedy=_for_platform(COMPILER))


def _triton() -> Check:
    use = "GPU kernels, also of GPUs you don't have"
    if why := missing_triton().removeprefix("needs "):
        other = "nothing here: triton has packages for Linux only; the CPU works, and traces made elsewhere can be read"
        remedy = f"pip install '{DISTRIBUTION}[full]'" if sys.platform == "linux" else other
        return Check("triton", use, why=why, remedy=remedy, optional=sys.platform != "linux")
    return Check("triton", use, version_of("triton"))


def _inductor_cache() -> Path:
    """Inductor's folder; torch's own function would set the environment variable, and its import fails without the folder."""
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if named:
        return Path(named).absolute()
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return Path(default_cache_dir())


def _triton_cache() -> Path:
    from triton import knobs

    return Path(knobs.cache.dir).absolute()


def _cache(what: str, folder: Path) -> Check:
    """Check that a file can be made in a cache folder."""
    use = "everything that is compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        variable = "TORCHINDUCTOR_CACHE_DIR" if what.startswith("Inductor") else "TRITON_CACHE_DIR"
        why = f"{what} {folder} cannot be written: {error.strerror or error}"
        return Check(what, use, why=why, remedy=f"set {variable} to a folder of yours")
    return Check(what, use, str(folder))


def _for_platform(remedies: dict[str, str]) -> str:
    return remedies.get(sys.platform) or remedies.get("") or remedies["linux"]
