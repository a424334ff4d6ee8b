"""A browser test that fails is run once more, and the end of the run names it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.compile

ROOT = Path(__file__).parents[1]
#: The tiers beside the option that the conftest of the tests adds.
CONFTEST = """
import sys
sys.path.insert(0, {root!r})
from tests import tiers

def pytest_addoption(parser):
    parser.addoption("--times")

def pytest_configure(config):
    config.pluginmanager.register(tiers, "tiers")
"""
TESTS = """
import pathlib, pytest

def once(name):
    file = pathlib.Path(name)
    if not file.exists():
        file.touch()
        raise ValueError(f"the first time of {name}")

@pytest.mark.browser
def test_once(): once("page")

@pytest.mark.browser
def test_always(): raise ValueError("each time")

@pytest.mark.browser
def test_never(): pass

@pytest.mark.compile
def test_of_another_tier(): once("other")
"""


def test_a_browser_test_that_fails_is_run_again_and_named(tmp_path: Path) -> None:
    """The summary names each browser test that failed, why, and how its second run ended; other tiers have one run."""
    pytest.importorskip("pytest_rerunfailures", reason="pytest-rerunfailures is not installed")
    (tmp_path / "conftest.py").write_text(CONFTEST.format(root=str(ROOT)), encoding="utf-8")
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    said = done.stdout
    assert "2 failed, 2 passed, 2 rerun" in said, said + done.stderr
    assert sorted(re.findall(r"^UNSTABLE (\S+) (.*)$", said, re.M)) == [
        ("test_it.py::test_always", "failed again: ValueError: each time"),
        ("test_it.py::test_once", "then passed: ValueError: the first time of page"),
    ]
