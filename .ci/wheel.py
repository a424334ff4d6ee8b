"""Build the wheel into dist/ and try it in environments that have nothing else: `make wheel`.

- The wheel is pure Python, and holds what the package needs besides its modules.
- `WHEEL[view]` resolves for macOS and Windows too, with wheels only, where the index has them.
- In an empty environment with `WHEEL[view]`, without torch, `reader.py` reads, follows, compares and shows recorded traces, and
  `classroom.py` runs a class pack of two notebooks, which is made here.
- In another, which borrows torch and all that it needs from the environment that runs this, the wheel traces a function.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
#: Two recordings that have every stage down to a kernel.
RECORDINGS = ("sin_cos-torch2.13-cpu.events.json.gz", "sin_cos-torch2.15-cpu.events.json.gz")
#: The notebooks of which a class pack is made: the first with tables and timings, and one with breaks and recompiles.
PACKED = ("00_why_compile.ipynb", "06_graph_breaks_guards_dynamic_shapes.ipynb")
#: The platforms that a reader of traces is installed on besides this one, as pip names them.
PLATFORMS = ("macosx_11_0_arm64", "win_amd64")
#: pip warns of each index that lacks a package; what it says of an error stays.
PIP = ("-m", "pip", "--disable-pip-version-check", "-q")
TRACED = """
import explorer, torch
t = explorer.trace(lambda x: x.sin() + 1, torch.randn(64), stages=explorer.types.STAGES)
assert "site-packages" in explorer.__file__, explorer.__file__
assert t.live.result is not None and "sin" in t.text("post_grad"), t
print("the wheel traces with torch", torch.__version__)
"""
NOTEBOOKS = """
from explorer.workshop.classpack.notebooks import workshop_notebooks
found = workshop_notebooks()
assert found and all("share/torch-compile-explorer" in path.as_posix() for path in found), found
print("the wheel has", len(found), "notebooks, for a class pack without a clone")
"""


def main() -> None:
    """Build and try."""
    wheel = built()
    check_contents(wheel)
    with tempfile.TemporaryDirectory() as folder:
        without_torch(wheel, Path(folder))
        with_torch(wheel, Path(folder))
        elsewhere(wheel, Path(folder))


def built() -> Path:
    """The wheel, alone in dist/."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    # setuptools takes up what an earlier build left there, also modules that are no more
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    run(sys.executable, *PIP, "wheel", "--no-deps", "-w", str(ROOT / "dist"), str(ROOT))
    (wheel,) = (ROOT / "dist").iterdir()
    return wheel


def check_contents(wheel: Path) -> None:
    """Every module and data file of the package is in the wheel and nothing else; its version is the package's."""
    source = (ROOT / "explorer" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    assert wheel.name == f"torch_compile_explorer-{version}-py3-none-any.whl", f"{wheel.name} is not pure Python of {version}"
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8") or "## [Unreleased]" in (
        ROOT / "CHANGELOG.md"
    ).read_text(encoding="utf-8"), f"CHANGELOG.md says nothing of {version}"
    with zipfile.ZipFile(wheel) as archive:
        listed = {name for name in archive.namelist() if ".dist-info/" not in name}
    names = {name.partition("/data/share/torch-compile-explorer/")[2] or name for name in listed}
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "explorer", "notebooks").split()
    needed = {name for name in tracked if "/widget/src/" not in name and name != "explorer/view/widget/build.js"}
    needed |= {"docs/backends.md", "docs/glossary.md"}  # what the notebooks link to
    assert names == needed, f"in one of wheel and package only: {sorted(names ^ needed)}"
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def without_torch(wheel: Path, folder: Path) -> None:
    """Install the wheel with `view` in an empty environment and run reader.py there."""
    python = environment(folder / "reader")
    install(python, "-c", str(ROOT / "constraints.txt"), f"{wheel}[view]")
    recordings = [str(DATA / name) for name in RECORDINGS]
    print(run(python, "-I", str(ROOT / ".ci" / "reader.py"), *recordings, str(folder)).strip())
    notebooks = [str(ROOT / "notebooks" / name) for name in PACKED]
    run(sys.executable, "-m", "explorer", "classpack", *notebooks, "-o", str(folder / "pack"))
    print(run(python, "-I", str(ROOT / ".ci" / "classroom.py"), str(folder / "pack")).strip())


def with_torch(wheel: Path, folder: Path) -> None:
    """Install the wheel alone, put this environment's packages behind it on the path, and trace."""
    python = environment(folder / "full")
    install(python, "--no-deps", "--no-index", str(wheel))
    (packages,) = (folder / "full").glob("lib/python*/site-packages")
    torch = str(Path(importlib.metadata.distribution("torch").locate_file("")).resolve())
    (packages / "borrowed.pth").write_text(f"{torch}\n", encoding="utf-8")
    print(run(python, "-I", "-c", TRACED).strip())
    print(run(python, "-I", "-c", NOTEBOOKS).strip())


def elsewhere(wheel: Path, folder: Path) -> None:
    """Let pip resolve `WHEEL[view]` for other platforms; say so where the index has no wheels for one."""
    for platform in PLATFORMS:
        where = ("--platform", platform, "--python-version", "3.12", "--only-binary=:all:", "--target", str(folder / platform))
        command = (sys.executable, *PIP, "install", "--dry-run", "--ignore-installed", *where, f"{wheel}[view]")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        why = "" if done.returncode == 0 else f": {done.stderr.strip().splitlines()[-1]}"
        print(f"{platform}: {'the wheel with [view] resolves' if not why else 'not tried, the index lacks wheels'}{why}")


def environment(folder: Path) -> str:
    """Make an empty environment, without pip even; the path of its Python."""
    venv.create(folder, with_pip=False)
    return str(folder / "bin" / "python")


def install(python: str, *what: str) -> None:
    """Install in an environment, by this one's pip; what is imported once need not be compiled to bytecode before."""
    run(sys.executable, *PIP, "--python", python, "install", "--no-compile", *what)


def run(*command: str) -> str:
    """Run a command to its end and return what it printed; its error ends this script."""
    # with a checkout on PYTHONPATH pip takes explorer for installed
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"wheel: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
