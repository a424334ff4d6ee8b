"""A process that explorer starts finds the modules that this one finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import explorer
from explorer.process.children import environment

pytestmark = pytest.mark.compile


def test_a_child_finds_what_this_process_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of a folder that was added to sys.path, and this explorer, before another of that name there."""
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "explorer").mkdir()
    (tmp_path / "explorer" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OF_THIS_PROCESS", "kept")
    code = "import os, beside, explorer; print(explorer.__file__, os.environ['OF_THIS_PROCESS'], os.environ['GIVEN'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(GIVEN="too"),
        cwd=tmp_path.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [explorer.__file__, "kept", "too"]
