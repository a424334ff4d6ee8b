"""On an attached NVIDIA GPU: scripts of kernels and of whole programs run alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

import explorer
from tests.facts import in_a_line, untold

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
]
HERE = Path(__file__).parent
NAMES = ("pointwise", "reduction", "split_reduction", "softmax", "layer_norm", "embedding", "cat", "casts", "in_place", "dynamic")


def alone(path: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a process that knows neither PYTHONPATH nor this folder."""
    return subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ["cuda", "h100"])
@pytest.mark.parametrize("name", NAMES)
def test_a_kernels_script_runs_alone(name: str, target: str, module_at: Callable[[Path], ModuleType], tmp_path: Path) -> None:
    """It is right, be it made from the launch on the GPU or from the interpreter's, and it states its time."""
    program = module_at(HERE.parent / "kernel_programs.py").PROGRAMS[name]
    trace = explorer.trace(program.function, *program.args(), target=target, **program.options)
    for number, kernel in enumerate(trace.kernels):
        path = tmp_path / f"{number}.py"
        kernel.to_script(path, inputs="real")
        done = alone(path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert in_a_line(done.stdout, "recorded", "right") and "WRONG" not in done.stdout
        assert not untold(done.stdout, "time", "cold cache")


def test_a_wrong_kernel_makes_its_script_fail(module_at: Callable[[Path], ModuleType], tmp_path: Path) -> None:
    """Another constant in the script's own text is found."""
    program = module_at(HERE.parent / "kernel_programs.py").PROGRAMS["pointwise"]
    path = tmp_path / "k.py"
    explorer.trace(program.function, *program.args(), target="cuda").kernels[0].to_script(path)
    text = path.read_text(encoding="utf-8")
    assert "2.0, tl.float32)" in text
    path.write_text(text.replace("2.0, tl.float32)", "2.01, tl.float32)"))
    done = alone(path)
    assert done.returncode == 1 and "WRONG" in done.stdout


@pytest.mark.parametrize("target", ["cuda", "h100"])
def test_a_models_script_runs_alone(target: str, tmp_path: Path) -> None:
    """Forward and backward are compared with eager and timed."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128), torch.nn.Linear(128, 16))
    trace = explorer.trace(model, torch.randn(32, 64), target=target, train=True)
    for inputs in ("real", "random"):
        path = tmp_path / f"{inputs}.py"
        trace.to_script(path, inputs=inputs)
        done = alone(path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("  compiled: ") == done.stdout.count("  eager: ") == 2
