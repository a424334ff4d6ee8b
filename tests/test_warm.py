"""Programs in processes that need not import torch run as Python would run them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.compile

#: Prints what a program can see of how it was started.
SEEN = """
import json, os, sys
print(json.dumps([sys.argv, __name__, os.getcwd(), os.environ.get("A"), sys.path[0], sys.stdin.read()]))
print("torch._inductor.compile_fx" in sys.modules, file=sys.stderr)
raise SystemExit(3)
"""


@pytest.fixture(scope="module")
def python(warm: str) -> str:
    """The program that stands for Python."""
    if warm == sys.executable:
        pytest.skip("this system has no pidfd, or torch is not installed")
    return warm


def answers(python: str, folder: Path, arguments: list[str]) -> tuple[int, str, str]:
    environment = {**os.environ, "A": "b", "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [python, *arguments], cwd=folder, env=environment, input="typed", capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["-c", SEEN, "a b"], ["seen.py", "c"], ["-m", "seen", "-d"], ["-W", "ignore", "-m", "seen"], ["-P", "seen.py"]],
    ids=["text", "file", "module", "warnings", "safe path"],
)
def test_a_program_sees_what_it_sees_under_python(python: str, tmp_path: Path, arguments: list[str]) -> None:
    """Arguments, folder, environment, path, stdin and status are the same; only torch is there already."""
    (tmp_path / "seen.py").write_text(SEEN, encoding="utf-8")
    status, out, err = answers(python, tmp_path, arguments)
    assert (status, out, "False\n") == answers(sys.executable, tmp_path, arguments)
    assert (status, err) == (3, "True\n")


def test_an_error_and_a_crash_end_a_program_as_under_python(python: str, tmp_path: Path) -> None:
    """A traceback is printed, and a signal is seen as one."""
    status, _, printed = answers(python, tmp_path, ["-c", "raise ValueError('no')"])
    assert status == 1 and printed.endswith("ValueError: no\n")
    for signal in (9, 11):
        assert answers(python, tmp_path, ["-c", f"import os; os.kill(os.getpid(), {signal})"])[0] == -signal


@pytest.mark.parametrize("number", [9, 15])
def test_a_program_ends_with_what_stands_for_it(python: str, number: int) -> None:
    """Whoever ends the process that he started ends the program."""
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(900)"
    started = subprocess.Popen([python, "-c", code], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    program = int(started.stdout.readline())
    assert program != started.pid
    started.send_signal(number)
    assert started.wait() == -number
    started.stdout.close()
    for _ in range(600):
        if not Path(f"/proc/{program}").exists():
            break
        time.sleep(0.05)
    else:
        pytest.fail("the program still runs")


def test_other_options_and_settings_are_left_to_python(python: str, tmp_path: Path) -> None:
    """Python itself runs what it must start for: nothing has imported torch there."""
    code = "import sys; print('torch' in sys.modules, sys.flags.isolated, sys.flags.hash_randomization)"
    run = [[python, "-I", "-c", code], ["env", "TORCH_LOGS=+dynamo", "PYTHONHASHSEED=0", python, "-c", code]]
    printed = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for command in run]
    assert printed == [["False", "1", "1"], ["False", "0", "0"]]


def test_explorer_and_pytest_are_found_first(python: str, tmp_path: Path) -> None:
    """Their names lead to the same as in an environment."""
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "test_it.py").write_text("def test_it(): import sys; assert 'torch' in sys.modules\n", encoding="utf-8")
    for command, wanted in (["explorer", "targets", "--json"], "h100"), (["pytest", "-q", "-p", "no:cacheprovider"], "1 passed"):
        done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and wanted in done.stdout, done.stdout + done.stderr


def test_where_lines_are_measured_python_runs_the_program(python: str, tmp_path: Path) -> None:
    """coverage.py begins with a process, and would miss one that is forked; what is too long to be sent runs too."""
    code = "import sys; print('torch' in sys.modules)"
    measured = os.environ | {"COVERAGE_PROCESS_START": str(tmp_path / "none.ini")}
    for environment, text in (measured, code), (dict(os.environ), code + " #" * 60_000):
        done = subprocess.run([python, "-c", text], env=environment, capture_output=True, text=True, check=False)
        assert done.stdout in ("False\n", ""), done.stdout  # coverage.py ends a process whose settings it cannot read
