"""Configs of a kernel, compared."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import explorer
from explorer.errors import InputError, LiveError
from tests.facts import says, untold
from tests.trials import try_in_this_process

triton = pytest.importorskip("triton")
tl: Any = triton.language
pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


@pytest.fixture(scope="module")
def kernel() -> explorer.Kernel:
    """A softmax for a GPU you don't have."""
    return explorer.trace(program, torch.randn(16, 512), target="h100").kernels[0]


def test_each_config_has_what_its_machine_code_takes(kernel: explorer.Kernel) -> None:
    """The rows have the registers of the ladder compiled with that config, predicted times, and one is the kernel's own."""
    configs = [{"XBLOCK": 1, "num_warps": 8}, {"XBLOCK": 8, "num_warps": 1}]
    tuning = kernel.tune(configs)
    assert not tuning.measured and len(tuning._rows) == 2
    assert tuning.in_text == {"R0_BLOCK": 512}
    for row in tuning._rows:
        ladder = kernel.candidates[row["config"]]
        assert row["registers"] == ladder.resources["registers"] and row["seconds"] > 0
    assert tuning.best == tuning._rows[0]["config"]
    assert tuning._rows[0]["ratio"] <= tuning._rows[1]["ratio"]
    assert "<svg" in tuning._repr_html_() and not untold(repr(tuning), "predicted", "not measured")
    assert [row["num_warps"] for row in tuning.table] == [row["config"]["num_warps"] for row in tuning._rows]


def test_more_work_a_thread_is_predicted_to_take_longer(kernel: explorer.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit that computes many more exponentials is predicted slower, one that only renames a value takes the same."""
    try_in_this_process(monkeypatch)
    line = next(line for line in kernel.source.split("\n") if "libdevice.exp" in line)
    name = line.split("=")[0].strip()
    more = line + "".join(f"\n    {name} = libdevice.exp({name} - 1.0)" for _ in range(80))
    slower = kernel.edit(kernel.source.replace(line, more), check=False)
    assert slower.timed == "predicted" and slower.ratio is not None and slower.ratio > 1.2, repr(slower)
    same = kernel.edit(re.sub(rf"\b{name}\b", "renamed", kernel.source), check=False)
    assert same.ratio == 1
    kernel.edits.reset()


def test_a_config_that_does_not_compile_has_its_error(kernel: explorer.Kernel) -> None:
    """It is the last row, and says why; the others have their times."""
    tuning = kernel.tune([{"num_warps": 3}, {"num_warps": 2}])
    assert tuning._rows[-1]["config"]["num_warps"] == 3 and tuning._rows[-1]["error"] and tuning._rows[-1]["seconds"] is None
    assert tuning._rows[0]["seconds"] is not None


def test_what_has_no_configs_is_refused(kernel: explorer.Kernel) -> None:
    """Configs that are none, and a C++ kernel."""
    with pytest.raises(InputError, match=says("configs", "mappings", "[]")):
        kernel.tune([])
    with pytest.raises(InputError, match=says("configs", "mappings", "3")):
        kernel.tune(3)  # type: ignore[arg-type]
    cpp = explorer.trace(program, torch.randn(16, 48)).kernels[0]
    with pytest.raises(LiveError, match=says(cpp.name, "Triton kernel", "k.edit(source=…)")):
        cpp.tune()


@triton.autotune(configs=[triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512}, num_warps=8)], key=[])
@triton.jit
def tuned_add(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


def test_configs_of_an_autotuned_kernel_in_a_function_are_compared() -> None:
    """The grid of a kernel of the program's own is one for each config; one that has none is a row with the reason."""

    def program(x: torch.Tensor, y: torch.Tensor) -> None:
        tuned_add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, 1000)

    kernel = explorer.trace(program, torch.randn(1000), torch.randn(1000), target="h100").kernels[0]
    rows = kernel.tune([{"BLOCK": 512, "num_warps": 8}, {"num_warps": 2}, {"BLOCK": 128}])._rows
    errors = {(row["config"]["BLOCK"], row["config"]["num_warps"]): row["error"] for row in rows}
    assert errors[512, 8] == errors[256, 2] == "" and not untold(errors[128, 4], "grid", "128")
