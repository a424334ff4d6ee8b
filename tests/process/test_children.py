"""A process that explorer starts finds the modules that this one finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import explorer
from explorer.process.children import command, environment

pytestmark = pytest.mark.compile

#: A module that says where it found others, and what it was given.
ASKED = """
import json, os, subprocess, sys
import beside, explorer
inner = subprocess.run([sys.executable, "-c", "import os; print(os.environ.get('PYTHONPATH'))"], capture_output=True, text=True)
names = ("OF_THIS_PROCESS", "GIVEN", "EXPLORER_PROGRAM")
given = [os.environ.get(name) for name in names]
print(json.dumps([sys.argv[1:], beside.__file__, explorer.__file__, given, inner.stdout.strip()]))
"""
#: Names of the standard library on this system and on Windows, of what torch and triton import, and of theirs.
SHADOWS = ("nt", "winreg", "token", "random", "runpy", "json", "numpy", "sympy", "triton", "torch", "typing_extensions")


def test_a_child_finds_what_this_process_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds a module of a folder on sys.path, this explorer before another of that name there, and no other PYTHONPATH."""
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "asked.py").write_text(ASKED)
    (tmp_path / "explorer").mkdir()
    (tmp_path / "explorer" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OF_THIS_PROCESS", "kept")
    monkeypatch.setenv("PYTHONPATH", "/of/the/program")
    done = subprocess.run(
        command("asked", "a b"), env=environment(GIVEN="too"), cwd=tmp_path.parent, capture_output=True, text=True, check=True
    )
    beside = str(tmp_path / "beside.py")
    assert json.loads(done.stdout) == [["a b"], beside, explorer.__file__, ["kept", "too", None], "/of/the/program"]


def test_a_child_finds_what_is_imported_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty entry of sys.path, as a notebook has, is the folder that this process is in, wherever the child runs."""
    (tmp_path / "asked.py").write_text("print('found')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    done = subprocess.run(command("asked"), env=environment(), cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout == "found\n"


def test_no_file_of_the_program_runs_in_place_of_a_module_that_a_worker_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is put before all others when torch is imported already, as in a notebook: the trace is whole."""
    for name in SHADOWS:
        text = f"import os\nif os.getpid() != {os.getpid()}: open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\nimport torch\n"
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    trace = explorer.trace(lambda x: torch.sin(x) * 3, torch.ones(64), target="h100")
    assert {"ttir", "ttgir", "llir", "ptx"} <= {artifact.stage for artifact in trace.artifacts}
    assert not trace.failures
    assert not (tmp_path / "ran").exists()
