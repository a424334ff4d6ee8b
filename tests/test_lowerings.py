"""The script that holds `t.inductor.lowerings` to the programs that Inductor writes: what it counts as a difference."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "lowerings.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module; it imports torch when it traces."""
    spec = importlib.util.spec_from_file_location("lowerings", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAM = """
    buf0 = torch.ops.aten.sort.stable(arg0)  # torch.ops.aten.histc.default(x)
    extern_kernels.mm(arg0, arg1, out=buf1)
    triton_per_fused_sum_0.run(arg0, buf2, 4, stream=stream0)
"""
ROWS = (
    {"kinds": ("fallback",), "operations": ("op0",), "calls": ("torch.ops.aten.sort.stable",), "kernels": ()},
    {"kinds": ("extern call",), "operations": ("op1",), "calls": ("extern_kernels.mm",), "kernels": ()},
    {"kinds": ("reduction",), "operations": ("op2",), "calls": (), "kernels": ("triton_per_fused_sum_0",)},
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({0: {"calls": ()}}, ["called, and no node's: aten.sort.stable"]),
        (
            {1: {"calls": ("extern_kernels.bmm",)}},
            ["called, and no node's: extern_kernels.mm", "a node's, and not called: extern_kernels.bmm"],
        ),
        ({2: {"kernels": ()}}, ["launched, and no node's: triton_per_fused_sum_0"]),
        ({2: {"kinds": ("pointwise",)}}, ["triton_per_fused_sum_0 has nodes of the kinds ['pointwise']"]),
    ],
)
def test_what_differs_is_named(script: ModuleType, changes: dict[int, dict[str, Any]], said: list[str]) -> None:
    """A call, a kernel or a kind that one of the two has and the other has not; what a comment names is no call."""
    rows = [{**row, **changes.get(number, {})} for number, row in enumerate(ROWS)]
    trace = SimpleNamespace(find=lambda stage: [SimpleNamespace(text=PROGRAM)], inductor=SimpleNamespace(lowerings=rows))
    assert list(script.differences(trace)) == said
