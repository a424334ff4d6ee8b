"""Why a backend that max-autotune was asked for gives an operator no choice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor import config

import explorer
from explorer.capture.observe import gemm_backends
from explorer.capture.observe.gemm_backends import asked_for, missing_cutlass, why_no_choice
from tests.programs import rectified

pytest.importorskip("triton")


def result(dtype: Any = torch.float16, device: str = "cuda", *size: Any) -> Any:
    """The layout of a result, as far as it is asked about."""
    return SimpleNamespace(dtype=dtype, device=torch.device(device), size=size or (256, 256))


@contextmanager
def gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int] = (9, 0), *, amd: str = "") -> Iterator[None]:
    """A GPU with that capability, or an AMD GPU of that architecture, and no package of any backend."""
    with monkeypatch.context() as patch, config.patch(max_autotune=True):
        patch.setattr(torch.version, "hip", "6.4" if amd else None)
        patch.setattr(torch.cuda, "get_device_capability", lambda *args: capability)
        patch.setattr(torch.cuda, "get_device_properties", lambda *args: SimpleNamespace(gcnArchName=amd))
        patch.setattr(gemm_backends, "_can_import", lambda name: False)
        patch.setattr(gemm_backends, "_imports_cutlass", lambda: False)
        yield


def test_a_missing_package_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing else is in the way, the reason says what to install and that torch looks once in a process."""
    with gpu(monkeypatch, (10, 0)):
        said = {backend: why_no_choice(backend, "grouped_mm", result(torch.bfloat16)) for backend in ("CUTLASS", "CUTEDSL")}
    with gpu(monkeypatch, amd="gfx942:sramecc+"):
        said |= {backend: why_no_choice(backend, "mm", result()) for backend in ("CK", "CKTILE")}
    assert "git clone https://github.com/NVIDIA/cutlass" in said["CUTLASS"]
    assert f"torch looked in {config.cuda.cutlass_dir}" in said["CUTLASS"]
    assert "pip install nvidia-cutlass-dsl" in said["CUTEDSL"]
    assert said["CK"] == said["CKTILE"] and "pip install git+https://github.com/rocm/composable_kernel" in said["CK"]
    assert all("start Python again" in why for why in said.values())


@pytest.mark.parametrize(
    ("backend", "operation", "layout", "expected"),
    [
        ("CUTLASS", "mm", result(torch.float32), "its templates give float16, bfloat16, int32, and the result is float32"),
        ("CUTLASS", "mm", result(torch.float16, "cpu"), "not for the CPU"),
        ("CUTLASS", "mm", result(torch.float16, "cuda", SimpleNamespace(free_symbols={"s0"}), 8), "dynamic=False"),
        ("CUTEDSL", "mm", result(torch.bfloat16), "for grouped products alone (torch._grouped_mm), not for mm"),
        ("CUTEDSL", "grouped_mm", result(torch.bfloat16), "compute capability 10.x, such as 'b200'; this one has 9.0"),
        ("CK", "mm", result(), "for AMD GPUs, not for NVIDIA GPUs; name one, such as target='mi300x'"),
        ("CUTLAS", "mm", result(), "Inductor has no backend of that name; it has ATEN, CK, CKTILE"),
    ],
)
def test_what_no_package_would_help_is_said_first(
    monkeypatch: pytest.MonkeyPatch, backend: str, operation: str, layout: Any, expected: str
) -> None:
    """The data type, the device, the operator and the name are asked about before the package."""
    with gpu(monkeypatch):
        why = why_no_choice(backend, operation, layout)
    assert expected in why and "install" not in why


def test_an_amd_gpu_that_composable_kernel_does_not_know_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason has the architectures that it is for, and this GPU's."""
    with gpu(monkeypatch, amd="gfx1100"):
        assert "it is for gfx90a, gfx942, gfx950, and this GPU is gfx1100" in why_no_choice("CK", "mm", result())


def test_without_max_autotune_no_backend_is_asked() -> None:
    """Inductor takes the library's kernel then, whatever backends are named."""
    assert "max_autotune is off" in why_no_choice("CUTLASS", "mm", result())


def test_a_checkout_of_cutlass_that_is_broken_is_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is there and the package in it is not: the reason has the import that fails."""
    (tmp_path / "python").mkdir()
    with gpu(monkeypatch):
        assert missing_cutlass(str(tmp_path)).startswith(f"the CUTLASS in {tmp_path} cannot be imported: No module named")


def test_backends_that_need_nothing_are_not_asked_about() -> None:
    """ATen, Triton and C++ are always there; each of the others is asked about once, and so is an unknown word."""
    with config.patch(max_autotune_gemm_backends="aten, cutlass,TRITON,CK,CPP,CUTLASS,other"):
        assert asked_for("max_autotune_gemm_backends") == ("CUTLASS", "CK", "OTHER")
    assert asked_for("") == ()


@pytest.mark.compile
def test_a_backend_without_a_choice_is_a_failure_of_the_trace() -> None:
    """A float32 product has none of CUTLASS's: with ATen it compiles and the Failure says why; alone it is the compile's too."""
    x, y = torch.randn(64, 32), torch.randn(32, 64)
    options = {"max_autotune": True, "max_autotune_gemm_backends": "ATEN,CUTLASS"}
    traced = explorer.trace(rectified, x, y, target="h100", options=options)
    (failure,) = traced.failures
    assert (failure.stage, failure.step, failure.fatal) == ("autotune", "CUTLASS", False)
    assert "max_autotune_gemm_backends names CUTLASS, which gives mm no choice: its templates give" in failure.message
    assert "CUTLASS" in repr(traced) and traced.kernels
    alone = explorer.trace(rectified, x, y, target="h100", options={**options, "max_autotune_gemm_backends": "CUTLASS"})
    assert [failure.stage for failure in alone.failures] == ["autotune", "compile"]
    assert "add ATEN to them" in alone.failures[1].message
