"""Explorer's interpreter and triton's own give the same tensors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch

pytest.importorskip("triton")

from explorer.capture.interpret.interpreter import interpreting
from tests.capture.interpret import own_interpreter

pytestmark = pytest.mark.compile


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[torch.Tensor] | None]:
    """The tensors after every kernel has run in a process with triton's interpreter."""
    file = tmp_path_factory.mktemp("own") / "tensors.pt"
    command = [sys.executable, own_interpreter.__file__, str(file)]
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    tensors: dict[str, list[torch.Tensor] | None] = torch.load(file)
    return tensors


@pytest.mark.parametrize("name", list(own_interpreter.cases()))
def test_triton_s_own_interpreter_gives_the_same(name: str, theirs: dict[str, list[torch.Tensor] | None]) -> None:
    """Every tensor, read or written, is the same: bit for bit, or nearly where sums are added up in another order."""
    wanted = theirs[name]
    if wanted is None:
        pytest.skip(f"triton 3.6's interpreter takes int() of a one-element array, which numpy {numpy.__version__} refuses")
    kernel, args, constants, grid = own_interpreter.cases()[name]
    before = [a.clone() for a in args if isinstance(a, torch.Tensor)]
    with interpreting() as interpreter:
        interpreter.run(kernel, args, constants, grid)
    ours = [a for a in args if isinstance(a, torch.Tensor)]
    assert any(not torch.equal(one, other) for one, other in zip(before, ours, strict=True)), "the kernel wrote something"
    for one, other in zip(ours, wanted, strict=True):
        tolerance = 1e-5 if one.dtype == torch.float32 else 0.0
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
