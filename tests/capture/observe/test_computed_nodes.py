"""Which FX nodes a scheduler node computes: not those of its arguments, which Inductor counts to its origins too."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import explorer

pytestmark = [
    pytest.mark.compile,
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
]


def convolved(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor) -> torch.Tensor:
    first = F.conv1d(x, w1, b1, stride=2, padding=1)
    hidden = torch.relu(first)
    second = F.conv1d(hidden, w2, b2, stride=2, padding=1)
    return torch.sigmoid(second)


@pytest.fixture(scope="module")
def trace() -> explorer.Trace:
    arguments = [torch.randn(size) for size in ((2, 16, 40), (32, 16, 3), (32,), (64, 32, 3), (64,))]
    return explorer.trace(convolved, *arguments, target="h100")


def test_a_second_convolution_computes_nothing_of_the_first(trace: explorer.Trace) -> None:
    """Its call and the kernel of its bias have the nodes of their own lines, and the call has the sizes of its product."""
    groups = {row["fx_nodes"] for row in trace.fusion.groups}
    assert groups == {("convolution",), ("convolution", "relu"), ("convolution_1",), ("convolution_1", "sigmoid")}
    calls = [call for row in trace.fusion.groups for call in row["calls"]]
    assert [(call.node, call.sizes[1:]) for call in calls] == [("convolution", (40, 32, 48)), ("convolution_1", (20, 64, 96))]


def test_a_kernel_computes_the_lines_of_its_own_operations(trace: explorer.Trace) -> None:
    """The kernel after the second convolution is of the last two lines alone, and each launch is named by its own line."""
    first = convolved.__code__.co_firstlineno
    lines = [sorted(row["line"] - first for row in kernel.user_lines) for kernel in trace.kernels]
    assert lines == [[1, 2], [3, 4]]
    launched = {row["code"].partition(" =")[0] for row in trace.profile.launches if row["what"].startswith("convolution")}
    assert launched == {"first", "second"}


def test_an_answer_is_about_what_computes_the_names(trace: explorer.Trace) -> None:
    """A name of a call stands for the call, not for the kernel of its bias; what no kernel shares was never considered."""
    assert "no buffer in common" in str(trace.why("relu", "sigmoid"))
    assert "extern_kernels.convolution" in str(trace.why("relu", "convolution_1"))


def test_a_name_of_a_reduction_stands_for_what_reduces() -> None:
    """The division of a mean is copied into every kernel that reads it; the answer is about the sum."""

    def spread(x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        return torch.rsqrt(x - mean + 5)

    trace = explorer.trace(spread, torch.rand(64, 4096), target="h100")
    why = trace.why("mean", "rsqrt")
    assert why.fused and "op0" in why.sentence and "has code of" not in why.sentence


def test_two_gpus_that_compile_a_program_alike_have_the_same_groups(trace: explorer.Trace) -> None:
    """A copy or a bias that goes with a call is compared as that, not taken for the call."""
    arguments = [torch.randn(size) for size in ((2, 16, 40), (32, 16, 3), (32,), (64, 32, 3), (64,))]
    other = explorer.trace(convolved, *arguments, target="mi300x")
    assert {row["what"] for row in explorer.compare(trace, other).groups} == {"same"}


def test_a_check_says_where_the_gpu_rounds_otherwise(trace: explorer.Trace) -> None:
    """The CPU computes the convolutions in float32, an H100 in TF32."""
    (row,) = trace.check()
    assert row["equal"] and "2 products (convolution) ran in float32 here" in row["note"] and "TF32" in row["note"]
