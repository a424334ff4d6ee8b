"""Traces for an Apple GPU you don't have: Inductor's MPS path down to its Metal source, eager's result, nothing stays."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import explorer
from explorer.capture.absent import native
from explorer.capture.observe.versions import defines_metal
from explorer.stages.inductor.kernel import owners
from explorer.stages.kinds import kernel_kinds
from tests.facts import says

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(not defines_metal(), reason="this torch does not hand Metal to async_compile")


def pointwise(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x) * 2 + 1


@pytest.fixture(scope="module")
def pointwise_on_m3() -> explorer.Trace:
    """The trace of a pointwise function for an M3."""
    return explorer.trace(pointwise, torch.randn(64, 128), target="m3")


@pytest.mark.compile
def test_a_pointwise_function_becomes_one_metal_kernel(pointwise_on_m3: explorer.Trace) -> None:
    """The kernel is Metal, its source is that of the output code, and the result is eager's."""
    trace = pointwise_on_m3
    (kernel,) = trace.kernels
    assert not trace.failures and trace.meta["target"] == "m3" and kernel.language == "metal"
    assert "kernel void generated_kernel_0(" in kernel.source and "c10::metal::erf(" in kernel.source
    assert kernel.source in trace.text("output_code")
    x = torch.randn(64, 128)
    torch.testing.assert_close(trace.live.run(x), pointwise(x))


@pytest.mark.compile
def test_each_computing_line_has_its_fx_nodes_and_the_launch_its_kernel(pointwise_on_m3: explorer.Trace) -> None:
    """Every line that computes has the FX node it was written for; the wrapper's call is linked to the kernel."""
    (kernel,) = pointwise_on_m3.find("kernel")
    nodes = owners(kernel)
    computing = [number for number, kind in enumerate(kernel_kinds(kernel), 1) if not kind]
    assert computing and set(computing) <= set(nodes)
    line = next(number for number in computing if "erf(" in kernel.lines[number - 1])
    assert nodes[line][0] == ("erf",)
    launches = [link for link in pointwise_on_m3.links if link.how == "launch" and link.target == kernel.id]
    assert [kernel.lines[number - 1].strip() for link in launches for number in link.target_lines] == [
        "kernel void generated_kernel_0("
    ]


@pytest.mark.compile
def test_what_is_below_metal_says_that_apples_compiler_makes_it(pointwise_on_m3: explorer.Trace) -> None:
    """A form of a Triton kernel or an assembly is asked for in vain: the error says what makes machine code of Metal."""
    for stage in ("ptx", "ttir", "assembly"):
        for ask in (pointwise_on_m3.text, pointwise_on_m3.kernels[0].text):
            with pytest.raises(explorer.errors.ExplorerError, match=says("Metal", "Apple's compiler", "macOS")):
                ask(stage)


def touched() -> dict[str, Any]:
    """Everything that the pretence of an Apple GPU writes to: attributes by identity, and C++ places."""
    owners_of_names = (torch.backends.mps, torch.mps, torch.cuda, torch.xpu, torch.version)
    names = {f"{owner!r}.{name}": id(value) for owner in owners_of_names for name, value in vars(owner).items()}
    names = {name: value for name, value in names.items() if "__warningregistry__" not in name}
    return {
        **names,
        "attention": dict(torch.ops.aten.scaled_dot_product_attention.default.py_kernels),
        "native": native.places(),
        "available": (torch.backends.mps.is_available(), torch.cuda.is_available(), torch.accelerator.is_available()),
    }


@pytest.mark.compile
def test_nothing_stays_and_the_next_trace_is_its_own_gpus() -> None:
    """After a trace for an M3 everything is as it was, and a trace for an H100 is as before it."""
    x = torch.randn(64, 128)
    first, before = explorer.trace(pointwise, x, target="h100"), touched()
    explorer.trace(pointwise, x, target="m3")
    after = touched()
    assert {name: (before[name], after.get(name)) for name in before if after.get(name) != before[name]} == {}
    second = explorer.trace(pointwise, x, target="h100")
    assert [k.source for k in second.kernels] == [k.source for k in first.kernels]
