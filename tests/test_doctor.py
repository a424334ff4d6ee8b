"""doctor: each thing that tracing needs is taken away in turn, and the first line names it with its remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from explorer.capture.compilers import readiness
from explorer.capture.compilers.readiness import Check
from explorer.entry.cli import main
from explorer.entry.doctor import Diagnosis, Warmed
from tests.facts import untold
from tests.test_without_torch import BLOCKED

#: Runs the command in a process that lacks the modules named first.
DOCTOR = BLOCKED + "from explorer.entry.cli import main\nsys.exit(main(['doctor', *sys.argv[2:]]))"


def doctor(*options: str, without: str = "-", **environment: str) -> tuple[int, str]:
    """The status and the first line of `explorer doctor` in a process of its own."""
    command = [sys.executable, "-c", DOCTOR, without, *options]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.partition("\n")[0]


def test_a_machine_with_nothing_missing_is_ready(capsys: pytest.CaptureFixture[str]) -> None:
    """The first line is the word "ready", the status 0; the lines after it name what was found."""
    assert main(["doctor"]) == 0
    first, *details = capsys.readouterr().out.split("\n")
    assert first == "ready"
    names = [
        "Python",
        "torch",
        "notebook",
        "dot",
        "Python.h",
        "setuptools",
        "triton",
        "triton's cache",
        "Inductor's cache",
        "C++ compiler",
    ]
    assert [line.strip().split("  ")[0] for line in details if line] == names


@pytest.mark.compile
def test_a_missing_compiler_is_named() -> None:
    """With an empty PATH neither g++ nor dot is found: the line says what to install for g++; diagrams are optional."""
    status, line = doctor(PATH="/nonexistent")
    assert status == 1
    assert not untold(line, "not ready", "C++ compiler", "CXX", "apt install g++")


@pytest.mark.compile
@pytest.mark.parametrize(
    ("modules", "facts"),
    [
        ("triton", (f"triton {version('triton')}" if find_spec("triton") else "triton",)),
        ("torch,triton", ("torch is", "not installed", "pip install 'torch-compile-explorer[full]'")),
        ("anywidget", ("anywidget", "pip install 'torch-compile-explorer[view]'")),
    ],
)
def test_a_missing_package_is_named(modules: str, facts: tuple[str, ...]) -> None:
    """Without triton, torch or the widget the line says so, and which extra brings it."""
    status, printed = doctor(without=modules)
    assert status == 1 and not untold(printed, "not ready", "torch-compile-explorer[", *facts), printed


@pytest.mark.parametrize("variable", ["TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"])
def test_a_cache_that_cannot_be_written_is_named(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cache's folder in which no file can be made, also by root, is named with the variable that moves it."""
    monkeypatch.setenv(variable, "/proc/no/such")
    assert main(["doctor"]) == 1
    line = capsys.readouterr().out.partition("\n")[0]
    assert not untold(line, "not ready", "/proc/no/such", variable)


def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where Python's own header is missing the check says where it should be."""
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    check = next(check for check in readiness.checks() if check.what == "Python.h")
    assert not untold(check.why, "header", str(tmp_path / "Python.h")) and check.remedy


@pytest.mark.compile
def test_json_has_the_line_and_the_checks() -> None:
    """`--json` prints one object: ready, the line, and a row a check."""
    command = [sys.executable, "-c", DOCTOR, "torch", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert (done.returncode, found["ready"]) == (1, False)
    assert not untold(found["line"], "not ready", "torch is", "not installed", "pip install")
    (torch,) = (check for check in found["checks"] if check["what"] == "torch")
    assert not untold(torch["why"], "torch", "not installed") and torch["use"] == "tracing"


@pytest.mark.compile
def test_warm_compiles_for_the_cpu_and_a_gpu_and_says_how_long_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    """After the checks come two compiles, each with its seconds."""
    assert main(["doctor", "--warm", "--json"]) == 0
    warmed = json.loads(capsys.readouterr().out)["warmed"]
    cpu, gpu = (one["what"] for one in warmed)
    assert not untold(cpu, "C++", "CPU") and not untold(gpu, "triton", "H100")
    assert all(one["seconds"] > 0 and one["why"] == "" for one in warmed)


def test_a_compile_that_fails_is_not_ready() -> None:
    """What failed while warming is the reason in the line."""
    found = Diagnosis((Check("Python", "everything", "3.12"),), (Warmed("a kernel", 1.0, "g++: no such header"),))
    line, python, kernel = str(found).splitlines()
    assert not untold(line, "not ready", "a kernel", "g++: no such header")
    assert python.split() == ["Python", "3.12"] and not untold(kernel, "a kernel", "failed")


def test_what_is_optional_does_not_make_a_machine_unready() -> None:
    """A machine without dot is ready; the row says what is missing and how to get it."""
    dot = Check("dot", "diagrams", why="graphviz's dot is not on the PATH", remedy="apt install graphviz", optional=True)
    found = Diagnosis((Check("Python", "everything", "3.12"), dot))
    line, python, optional = str(found).splitlines()
    assert found.ready and line == "ready" and python.split() == ["Python", "3.12"]
    assert not untold(optional, "dot", "missing", "diagrams", "apt install graphviz")


def test_a_release_of_torch_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explorer works with some releases of torch; another is not ready."""
    monkeypatch.setattr(readiness, "version_of", lambda name: "2.5.1")
    check = next(check for check in readiness.checks() if check.what == "torch")
    assert not untold(check.why, "torch 2.5.1", "2.11", "2.15") and check.remedy


@pytest.mark.compile
def test_where_something_is_missing_nothing_is_compiled() -> None:
    """`--warm` on a machine that cannot compile says so, and why."""
    command = [sys.executable, "-c", DOCTOR, "torch", "--warm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and not untold(done.stdout.splitlines()[-1], "nothing", "compiled", "torch", "not installed")
