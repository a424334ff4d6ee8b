"""Scratch folders go with their process; a killed process's folders go when the next one starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.process import scratch

CODE = """
import pathlib, sys
from explorer.process import scratch
folder = scratch.folder()
pathlib.Path(folder.name, "kernel.cpp").write_text("x")
print(folder.name, flush=True)
sys.stdin.read()
"""


def started(where: Path) -> subprocess.Popen[str]:
    """Start a process that makes a folder and waits."""
    environment = {**os.environ, "TMPDIR": str(where)}
    return subprocess.Popen(
        [sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def folder_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


@pytest.mark.compile
def test_a_process_that_ends_leaves_no_folder(tmp_path: Path) -> None:
    """At the end of the process its folder is gone with what is in it."""
    process = started(tmp_path)
    made = folder_of(process)
    assert (made / "kernel.cpp").exists()
    process.communicate()
    assert not made.parent.exists()


@pytest.mark.compile
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="killing a process so is Unix's")
def test_what_a_killed_process_left_goes_at_the_next_start(tmp_path: Path) -> None:
    """The next process that needs a folder removes those of dead ones, and of no other."""
    killed, alive = started(tmp_path), started(tmp_path)
    left, kept = folder_of(killed), folder_of(alive)
    killed.kill()
    killed.communicate()
    assert left.exists()
    following = started(tmp_path)
    folder_of(following)
    assert not left.parent.exists()
    assert kept.exists()
    for process in (alive, following):
        process.communicate()


@pytest.mark.compile
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the owner of a file is Unix's")
def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    """Anybody can make a folder of that name where temporary files are: it is used only if nobody else can write it."""
    trap = tmp_path / f"explorer-{os.getuid()}"
    trap.mkdir()
    trap.chmod(0o777)
    process = started(tmp_path)
    assert trap not in folder_of(process).parents
    process.communicate()


def test_this_process_has_one_home() -> None:
    """All folders of a process are in one folder of its own, which exists."""
    with scratch.folder() as one, scratch.folder() as other:
        assert Path(one).parent == Path(other).parent == scratch.home()
    assert not Path(one).exists()
