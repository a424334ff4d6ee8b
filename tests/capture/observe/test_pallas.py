"""Pallas kernels that Inductor writes while a program is traced: which FX node each line computes."""

from __future__ import annotations

import inspect
import re

import pytest
import torch

import explorer
from explorer.capture.observe.subclasses import SCHEDULINGS
from explorer.stages.inductor.kernel import owners
from explorer.stages.kinds import kernel_kinds
from explorer.tracing.traced import Trace

pytestmark = [pytest.mark.compile]


def program(x: torch.Tensor, w: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = torch.softmax(x @ w, -1) * 2 + x
    return y.index_add(0, i, x).relu()


@pytest.fixture(scope="module")
def pallas() -> Trace:
    pytest.importorskip("jax", reason="jax is not installed: Pallas kernels are written in it")
    x = torch.randn(8, 16)
    with torch._inductor.config.patch(cpu_backend="pallas"):
        return explorer.trace(program, x, torch.randn(16, 16), torch.arange(8))


def test_each_computing_line_has_the_node_it_was_written_for(pallas: Trace) -> None:
    """A load, an operation, a reduction, both lines of a store and a scatter each have their FX node."""
    nodes = {}
    for kernel in pallas.kernels:
        known = owners(kernel.artifact)
        for number, kind in enumerate(kernel_kinds(kernel.artifact), 1):
            if not kind:
                nodes[kernel.artifact.lines[number - 1].strip().partition("(")[0]] = known[number][0]
                assert known[number][1] == "codegen"
    assert nodes["tmp1 = jnp.max"] == ("amax",) and nodes["tmp3 = jnp.exp"] == ("exp",)
    assert nodes["tmp4 = jnp.sum"] == ("sum_1",)
    assert [names for line, names in nodes.items() if ".at[" in line] == [("index_put",)]
    stores = {names for line, names in nodes.items() if "[...] = " in line or line == "_val = jnp.asarray"}
    assert ("relu",) in stores


def test_the_compiled_function_is_checked(pallas: Trace) -> None:
    """What JAX computes in its interpreter is compared with eager PyTorch, output by output."""
    rows = pallas.check()
    assert len(rows) == 1 and all(row["equal"] for row in rows)


def test_afterwards_inductor_is_as_it_was(pallas: Trace) -> None:
    """No function of Inductor's Pallas backend stays replaced."""
    from torch._inductor.codegen.pallas import PallasKernel, PallasScheduling

    for function in (PallasKernel.store, PallasScheduling.define_kernel):
        assert function.__code__.co_filename.replace("\\", "/").endswith("torch/_inductor/codegen/pallas.py")


def test_every_generator_of_inductor_is_observed() -> None:
    """What defines kernels is imported before a compile, which is when Inductor itself would: else it is not seen at first."""
    from torch._inductor.codegen.common import init_backend_registration

    imported = re.findall(r"from \.(\w+) import \w+Scheduling\n", inspect.getsource(init_backend_registration))
    assert "pallas" in imported and set(imported) <= set(SCHEDULINGS)
