"""Programs in processes that need not import torch run as Python would run them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.warm import Warm

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
        pytest.skip("this system has no pidfd, torch is not installed, or coverage is measured")
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
    for number in (9, 11):
        assert answers(python, tmp_path, ["-c", f"import os; os.kill(os.getpid(), {number})"])[0] == -number


def ended(process: int) -> bool:
    """Whether a process ends within half a minute."""
    for _ in range(600):
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.05)
    return False


#: A program that does not end by itself.
HANGS = "import os, time; print(os.getpid(), flush=True); time.sleep(900)"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_ends_with_its_stand_in(python: str, number: signal.Signals) -> None:
    """A signal to the process that was started ends the program too."""
    started = subprocess.Popen([python, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert started.stdout is not None
    program = int(started.stdout.readline())
    assert program != started.pid
    started.send_signal(number)
    assert started.wait() == -number
    started.stdout.close()
    assert ended(program)


def test_a_stand_in_may_be_killed_before_its_program_runs(tmp_path: Path) -> None:
    """The process that forks still imports torch then: it goes on, and no program is left with the streams."""
    forking = Warm(tmp_path)
    hangs = subprocess.Popen([forking.python, "-c", HANGS], stdout=subprocess.PIPE, text=True)
    hangs.kill()
    assert hangs.communicate(timeout=300)[0].split()[1:] == []  # its output ends: nobody has the stream any more
    done = subprocess.run([forking.python, "-c", "print(1)"], capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stderr
    running = subprocess.Popen([forking.python, "-c", HANGS], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    program = int(running.stdout.readline())
    forking.close()
    assert ended(program), "what still runs ends with the process that forks"
    assert running.wait(30) == -signal.SIGKILL
    running.stdout.close()


def test_other_options_and_settings_are_left_to_python(python: str) -> None:
    """Real Python runs what must start for them: nothing has imported torch there. So with what is too long to be sent."""
    code = "import sys; print('torch' in sys.modules, sys.flags.isolated, sys.flags.hash_randomization)"
    isolated, set_so = [python, "-I", "-c", code], ["env", "TORCH_LOGS=+dynamo", "PYTHONHASHSEED=0", python, "-c", code]
    run = [isolated, set_so, [python, "-c", code + " #" * 60_000]]
    printed = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for command in run]
    assert printed == [["False", "1", "1"], ["False", "0", "0"], ["False", "0", "1"]]


def test_threads_are_those_that_the_environment_says(python: str) -> None:
    """OpenMP reads its variable when torch is imported, which was before."""
    code = "import torch; print(torch.get_num_threads())"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_explorer_and_pytest_run_as_from_an_environment(python: str, tmp_path: Path) -> None:
    """They are the scripts that were installed: the current folder is not on their path."""
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "test_it.py").write_text("def test_it(): import sys; assert 'torch' in sys.modules\n", encoding="utf-8")
    for command, wanted in (["explorer", "targets", "--json"], "h100"), (["pytest", "-q", "-p", "no:cacheprovider"], "1 passed"):
        done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and wanted in done.stdout, done.stdout + done.stderr
