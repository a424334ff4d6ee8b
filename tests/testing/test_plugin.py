"""The pytest plugin, in projects of its own: what it stores, what it says when a fusion is lost, and that it is light."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import explorer

MODEL = """
import torch


def block(x, w):
    h = torch.nn.functional.silu(x @ w)
    h = h * 2
    return h.sum(-1)


def scaled(x):
    h = x.exp() * 3
    return h.sum(0)


def same(x):
    return x.sin() + x.cos()
"""
TESTS = """
import pytest
import torch
import model

@pytest.mark.parametrize("name", ["block", "scaled", "same"])
def test_model(name, compiled):
    inputs = (torch.ones(64, 128), torch.ones(128, 256))[: 2 if name == "block" else 1]
    compiled.check(compiled(getattr(model, name), *inputs, target="h100"))
"""
#: What loses the fusion of each function, and what the failure then says: a graph break, and a scan between.
LOST = {
    "block": (
        "h = h * 2",
        "torch._dynamo.graph_break()\n    h = h * 2",
        ("neg, exp, add, div, mul, sum in one kernel", "each graph is compiled by itself", "graph_break()"),
    ),
    "scaled": (
        "h = x.exp() * 3",
        "h = (x.exp() * 3).cumsum(1)",
        ("exp, mul, sum in one kernel", "triton_per_fused", "t.why("),
    ),
}
PLUGIN = ("-p", "explorer.testing.plugin")


class Project:
    """A project in a folder of its own, with its own pytest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        (folder / "test_model.py").write_text(TESTS, encoding="utf-8")

    def edit(self, old: str, new: str) -> None:
        """Change the one file that has the text."""
        file = next(f for f in self.folder.glob("*.py") if old in f.read_text(encoding="utf-8"))
        file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    def pytest(self, *arguments: str) -> tuple[int, str]:
        """Run pytest as a user of the project does: its exit status, and what it printed."""
        root = str(Path(explorer.__file__).parents[1])
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")} | {"PYTHONPATH": root}
        command = [sys.executable, "-m", "pytest", *PLUGIN, "-q", "-p", "no:cacheprovider", "-W", "ignore", *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, env=environment)
        return done.returncode, done.stdout + done.stderr


@pytest.mark.usefixtures("warm_python")
@pytest.mark.compile
def test_a_lost_fusion_fails_by_name(tmp_path: Path) -> None:
    """A project stores what is compiled; then each way to lose a fusion fails, and what only moved down its file passes.

    The failure has the operators that were one kernel, the kernels that they are in now, their lines and the reason.
    """
    pytest.importorskip("torch", reason="torch is not installed: the project compiles with it")
    pytest.importorskip("triton", reason="triton is not installed: kernels for a GPU you don't have need it")
    project = Project(tmp_path)
    status, text = project.pytest("--explorer-update")
    files = sorted((tmp_path / "__explorer__").glob("test_model.test_model*.json"))
    assert status == 0 and len(files) == 3 and all(f"explorer: stored {file}" in text for file in files), text
    project.edit("import torch\n\n\ndef block", "# a comment, so that all lines move\n\nimport torch\n\n\ndef block")
    for old, new, _ in LOST.values():
        project.edit(old, new)
    status, text = project.pytest()
    assert status == 1 and "2 failed, 1 passed" in text and "torch.__trace" not in text, text
    for name, (_, _, said) in LOST.items():
        failure = text.partition(f"_ test_model[{name}] _")[2].partition("\n____")[0]
        assert [part for part in ("fusion lost", ".py:", "explorer-update", *said) if part not in failure] == [], failure


# The plugin --------------------------------------------------------------------------------------------------------------


@pytest.mark.compile
def test_the_plugin_imports_pytest_alone() -> None:
    """Loading it brings neither torch nor pandas, nor explorer's other rooms, into a project that has explorer installed."""
    code = (
        "import sys, explorer.testing.plugin; "
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in ('torch', 'triton', 'pandas', 'explorer')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['explorer', 'explorer.testing', 'explorer.testing.plugin']"


@pytest.mark.compile
def test_the_plugin_may_be_loaded_twice(tmp_path: Path) -> None:
    """`-p` beside the entry point, or twice, is no error; a project that does not use it has its fixture and option."""
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["explorer.testing.plugin"]\n', encoding="utf-8")
    command = [sys.executable, "-m", "pytest", *PLUGIN, *PLUGIN, "-q", "-p", "no:cacheprovider", "--fixtures", "--help"]
    environment = os.environ | {"PYTHONPATH": str(Path(explorer.__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0 and "--explorer-update" in done.stdout, done.stdout + done.stderr


def test_the_entry_point_is_named_as_its_module() -> None:
    """So pytest knows that `-p explorer.testing.plugin` is the same plugin."""
    text = (Path(explorer.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\n"explorer.testing.plugin" = "explorer.testing.plugin"\n' in text
