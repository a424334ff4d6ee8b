"""Check this folder as far as that goes without docker: `make binder`, or `python binder/check.py [FOLDER]`.

Prints one line a mistake and ends with status 1, or says what was checked and ends with 0. Standard library only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

#: The files that repo2docker 2026.4 reads from a binder/ folder, after its documentation, "Configuration Files".
KNOWN = {
    "DESCRIPTION",
    "Dockerfile",
    "Pipfile",
    "Pipfile.lock",
    "Project.toml",
    "REQUIRE",
    "apt.txt",
    "default.nix",
    "environment.yml",
    "install.R",
    "postBuild",
    "requirements.txt",
    "runtime.txt",
    "setup.py",
    "start",
}
#: What lies here for people and CI; repo2docker leaves it alone.
OURS = {"README.md", "check.py"}
SCRIPTS = ("start", "postBuild")
#: Debian policy 5.6.1: lower case letters, digits, plus, minus and full stop, at least two of them.
APT_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
RUNTIME = re.compile(r"python-(3)\.(\d+)")
#: repo2docker 2026.4 has environments for these minor versions of Python 3.
MINORS = range(7, 15)
PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!_]+)")


def main(folder: Path) -> int:
    """Check a binder folder beside its project's constraints.txt and pyproject.toml; the exit status."""
    found = list(mistakes(folder))
    for mistake in found:
        print(f"binder: {mistake}", file=sys.stderr)
    if not found:
        print(f"binder: {', '.join(sorted(path.name for path in folder.iterdir() if path.name in KNOWN))} are in order")
    return 1 if found else 0


def mistakes(folder: Path) -> Iterator[str]:
    """One sentence a mistake."""
    for path in sorted(folder.iterdir()):
        if path.name not in KNOWN | OURS and path.name != "__pycache__":
            yield f"repo2docker knows no file {path.name}"
    for name in (*SCRIPTS, "apt.txt", "requirements.txt", "runtime.txt"):
        if not (folder / name).is_file():
            yield f"{name} is missing"
            continue
        check = CHECKS.get(name, script_mistakes)
        yield from (f"{name}: {mistake}" for mistake in check(folder / name))


def requirement_mistakes(path: Path) -> Iterator[str]:
    """Each line is a comment, the constraints, the project itself, or a version that the constraints have too."""
    pins = versions(path.parent.parent / "constraints.txt")
    lines = entries(path)
    for line in lines:
        pin = PIN.fullmatch(line)
        if pin is None:
            if line not in ("-c ../constraints.txt", "-e .[full]"):
                yield f"{line!r} is not pinned as NAME==VERSION"
        elif pins.get(normal(pin[1])) != pin[2]:
            yield f"{line} is not what constraints.txt has ({pins.get(normal(pin[1]), 'nothing')})"
    for needed in ("-c ../constraints.txt", "-e .[full]"):
        if needed not in lines:
            yield f"the line {needed!r} is missing"


def versions(constraints: Path) -> dict[str, str]:
    """The pinned version of each package in a constraints file, by its normalised name."""
    return {normal(pin[1]): pin[2] for pin in map(PIN.fullmatch, entries(constraints)) if pin is not None}


def normal(name: str) -> str:
    """A package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(path: Path) -> list[str]:
    """The lines of a file, without comments and empty lines."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def apt_mistakes(path: Path) -> Iterator[str]:
    """Each line is the name of a Debian package."""
    for line in entries(path):
        if not APT_NAME.fullmatch(line):
            yield f"{line!r} is not the name of a Debian package"


def runtime_mistakes(path: Path) -> Iterator[str]:
    """The runtime is a Python that repo2docker has and that the project allows."""
    text = path.read_text(encoding="utf-8").strip()
    found = RUNTIME.fullmatch(text)
    if found is None or int(found[2]) not in MINORS:
        yield f"{text!r} is not python-3.{MINORS.start} to python-3.{MINORS.stop - 1}"
        return
    project = tomllib.loads((path.parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    least = re.fullmatch(r">=3\.(\d+)", project["requires-python"])
    if least is None or int(found[2]) < int(least[1]):
        yield f"{text!r}, but the project needs Python {project['requires-python']}"


def script_mistakes(path: Path) -> Iterator[str]:
    """The script is executable, names its shell, and bash can parse it; `start` hands over to the notebook server."""
    text = path.read_text(encoding="utf-8")
    if not os.access(path, os.X_OK):
        yield "it is not executable"
    if not text.startswith("#!"):
        yield "its first line names no shell"
    parsed = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
    if parsed.returncode:
        yield f"bash cannot parse it: {parsed.stderr.strip()}"
    if path.name == "start" and text.rstrip().splitlines()[-1].strip() != 'exec "$@"':
        yield 'its last line is not exec "$@", so the notebook server would not start'


CHECKS = {"requirements.txt": requirement_mistakes, "apt.txt": apt_mistakes, "runtime.txt": runtime_mistakes}

if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent))
