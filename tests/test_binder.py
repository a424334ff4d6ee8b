"""binder/: the configuration is in order, and the check finds what is not."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

import pytest

from tests.facts import untold

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def check(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """binder/check.py as a module."""
    return module_at(ROOT / "binder" / "check.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of binder/ beside copies of the two files that it is compared with."""
    for name in ("constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return Path(shutil.copytree(ROOT / "binder", tmp_path / "binder", ignore=shutil.ignore_patterns("__pycache__")))


def test_the_configuration_is_in_order() -> None:
    """`python binder/check.py` ends with 0 and names the files it checked."""
    done = subprocess.run([sys.executable, str(ROOT / "binder" / "check.py")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not untold(done.stdout, "apt.txt", "postBuild", "requirements.txt", "runtime.txt", "start")


def test_a_mistake_ends_with_status_1_and_a_line_each(
    check: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two mistakes give two lines on stderr, each with its file, and status 1."""
    (folder / "apt.txt").write_text("graphviz\nG++ compiler\n")
    (folder / "postbuild").touch()
    assert check.main(folder) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    unknown, package = printed.err.splitlines()
    assert not untold(unknown, "repo2docker", "postbuild")
    assert not untold(package, "apt.txt", "'G++ compiler'", "Debian package")


@pytest.mark.parametrize(
    ("file", "old", "new", "facts"),
    [
        ("requirements.txt", "triton==", "triton==9.", ("triton==9.", "constraints.txt")),
        ("requirements.txt", "torch==", "torch>=", ("torch>=", "NAME==VERSION")),
        ("requirements.txt", "-e .[full]", "", ("'-e .[full]'",)),
        ("requirements.txt", "torch==", "nosuch==", ("nosuch==", "constraints.txt", "nothing")),
        ("runtime.txt", "python-3.11", "python-3.10", ("'python-3.10'", ">=3.11")),
        ("runtime.txt", "python-3.11", "3.11", ("'3.11'", "python-3.7", "python-3.14")),
        ("start", 'exec "$@"', "echo ready", ('exec "$@"',)),
        ("start", "#!/bin/bash", "", ("first line", "shell")),
        ("postBuild", "set -euo pipefail", "if", ("bash", "syntax error")),
    ],
)
def test_each_kind_of_mistake_is_found(
    check: ModuleType, folder: Path, file: str, old: str, new: str, facts: tuple[str, ...]
) -> None:
    """A version that differs, a line that is missing, a runtime that is not there, a script that cannot run: each is said."""
    path = folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    (found,) = check.mistakes(folder)
    assert not untold(found, file, *facts)


def test_a_missing_file_and_a_script_that_is_not_executable_are_found(check: ModuleType, folder: Path) -> None:
    """What repo2docker would silently do without is a mistake here."""
    (folder / "apt.txt").unlink()
    (folder / "postBuild").chmod(0o644)
    missing, script = sorted(check.mistakes(folder))
    assert not untold(missing, "apt.txt", "missing") and not untold(script, "postBuild", "executable")


def test_the_server_opens_the_first_notebook(tmp_path: Path) -> None:
    """`start` tells each of Jupyter's servers the first notebook by name, keeps other settings' folders, and runs its command."""
    told = 'cat "${JUPYTER_CONFIG_PATH%%:*}/jupyter_server_config.json"; echo "$JUPYTER_CONFIG_PATH"'
    environment = {**os.environ, "TMPDIR": str(tmp_path), "JUPYTER_CONFIG_PATH": "/others"}
    command = [str(ROOT / "binder" / "start"), "bash", "-c", told]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    settings, path = done.stdout.strip().split("\n")
    first = min((ROOT / "notebooks").glob("*.ipynb")).relative_to(ROOT).as_posix()
    assert path.endswith(":/others")
    servers = ("LabApp", "JupyterNotebookApp", "ServerApp")
    assert json.loads(settings) == {server: {"default_url": f"/lab/tree/{first}"} for server in servers}


def test_the_devcontainer_opens_the_first_notebook_and_installs_what_binder_does() -> None:
    """devcontainer.json is JSON; what it runs opens the first notebook by name, and installs binder's requirements."""
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    opened = container["postAttachCommand"].replace("code ", "echo ", 1)
    done = subprocess.run(["bash", "-c", opened], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ROOT / done.stdout.strip() == min((ROOT / "notebooks").glob("*.ipynb"))
    assert "-r binder/requirements.txt" in container["onCreateCommand"]
    assert all(name in container["onCreateCommand"] for name in (ROOT / "binder" / "apt.txt").read_text().split())
    assert (
        container["image"]
        .partition(":")[2]
        .startswith((ROOT / "binder" / "runtime.txt").read_text().strip().removeprefix("python-"))
    )


def test_names_are_compared_as_pip_compares_them(check: ModuleType, tmp_path: Path) -> None:
    """Case, underscores and dots do not make another package."""
    (tmp_path / "constraints.txt").write_text("Foo_Bar==1.0  # the one\n\nbaz.qux==2\n")
    assert check.versions(tmp_path / "constraints.txt") == {"foo-bar": "1.0", "baz-qux": "2"}


def test_binder_installs_all_that_the_notebooks_import() -> None:
    """Each module that a cell imports is Python's own, explorer's, or of a package that the extra `full` asks for."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    asked = {re.split(r"[<>=;\[ ]", line)[0] for extra in ("view", "torch") for line in extras[extra]}
    homes = packages_distributions()
    imported = {name for path in (ROOT / "notebooks").glob("*.ipynb") for name in imports(path)} - {
        "explorer",
        *sys.stdlib_module_names,
    }
    assert "torch" in imported and "-e .[full]" in (ROOT / "binder" / "requirements.txt").read_text()
    assert [name for name in sorted(imported) if not asked & set(homes.get(name, ()))] == []


def imports(notebook: Path) -> set[str]:
    """The top-level modules that a notebook's code cells import, at any depth."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    python = "\n".join(re.sub(r"^[%!].*", "", text, flags=re.MULTILINE) for text in code)
    found: set[str] = set()
    for node in ast.walk(ast.parse(python)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found
