"""The GPU's autocast on the CPU: which operators are cast, and to what."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

import explorer
from explorer.capture.absent.absent_gpu import pretending
from explorer.capture.absent.autocast import FLOAT32_BY_DTYPE, LOWER, REFUSED, WIDEST, lists_of_the_gpu
from explorer.reference.gpus.figures import Target
from tests.each import each

#: A function of a 16-bit matrix, and the type of what it gives on CUDA where autocast is for bfloat16.
CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.dtype]] = {
    "softmax": (lambda x: torch.softmax(x, -1), torch.float32),
    "softmax to a type": (lambda x: torch.softmax(x, -1, dtype=torch.float16), torch.float16),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), torch.float32),
    "exp": (torch.exp, torch.float32),
    "pow": (lambda x: x**2, torch.float32),
    "sum": (torch.sum, torch.float32),
    "sum of some": (lambda x: x.sum(1, keepdim=True), torch.float32),
    "sum of integers": (lambda x: x.long().sum(), torch.int64),
    "sum of float64": (lambda x: x.double().sum(), torch.float64),
    "exp of float64": (lambda x: x.double().exp(), torch.float64),
    "norm": (lambda x: torch.ops.aten.norm.ScalarOpt_dim(x, 2, [1], True), torch.float32),
    "norm of all": (lambda x: torch.ops.aten.norm.Scalar(x), torch.float32),
    "cross_entropy": (lambda x: F.cross_entropy(x, x.argmax(-1)), torch.float32),
    "relu": (torch.relu, torch.bfloat16),
    "mv": (lambda x: torch.mv(x.float(), x[0].float()), torch.bfloat16),
    "addcmul of several types": (lambda x: torch.addcmul(x, x, x.float()), torch.float32),
    "addcmul of one type": (lambda x: torch.addcmul(x, x, x), torch.bfloat16),
    "trace": (torch.trace, torch.bfloat16),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_gives_the_type_that_it_gives_on_cuda(name: str) -> None:
    """Inside the block an operator casts as on CUDA, in nested blocks too; after it as on the CPU."""
    function, dtype = CASES[name]
    x = torch.randn(4, 4).bfloat16()
    with torch.autocast("cpu"):
        before = function(x).dtype
    with lists_of_the_gpu():
        with lists_of_the_gpu():
            pass
        with torch.autocast("cpu"):
            assert function(x).dtype == dtype
    with torch.autocast("cpu"):
        assert function(x).dtype == before


#: Calls on which CUDA and MPS differ, or MPS and the CPU.
ON_MPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rms_norm": lambda x: torch.rms_norm(x, (8,)),
    "layer_norm": lambda x: torch.layer_norm(x, (8,)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "norm": torch.ops.aten.norm.Scalar,
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.0),
    "softmax": lambda x: x.softmax(-1),
    "sum": lambda x: x.sum(),
    "matmul": lambda x: x.float() @ x.float(),
}


@pytest.mark.compile
@each(ON_MPS)
def test_an_operator_gives_the_type_that_it_gives_on_mps(name: str) -> None:
    """By the lists of MPS the CPU casts as the dispatcher's own kernels for MPS do, which here see fake tensors."""
    with pretending(Target.parse("m3")), FakeTensorMode(), torch.autocast("mps"):
        there = ON_MPS[name](torch.empty(2, 4, 8, 8, dtype=torch.half, device="mps")).dtype
    with lists_of_the_gpu("mps"), torch.autocast("cpu", torch.half):
        assert ON_MPS[name](torch.randn(2, 4, 8, 8).half()).dtype == there


def test_without_autocast_nothing_is_cast() -> None:
    """Inside the block, but outside autocast, operators do what they do on the CPU."""
    x = torch.randn(4, 4).bfloat16()
    with lists_of_the_gpu():
        assert torch.exp(x).dtype == x.sum().dtype == torch.addcmul(x, x, x).dtype == torch.bfloat16


def test_what_cuda_refuses_is_refused() -> None:
    """binary_cross_entropy of 16 bits is an error under CUDA's autocast, with torch's advice."""
    x = torch.rand(4)
    with lists_of_the_gpu(), torch.autocast("cpu"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        F.binary_cross_entropy(x, x)


def test_a_gradient_goes_through_the_cast() -> None:
    """The gradient of a 16-bit tensor is of 16 bits, whatever it was cast to."""
    x = torch.randn(4, 4, dtype=torch.bfloat16, requires_grad=True)
    with lists_of_the_gpu(), torch.autocast("cpu"):
        F.layer_norm(x, (4,)).square().sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.bfloat16


def test_the_lists_are_those_of_the_installed_torch() -> None:
    """The lists here are those of ATen/autocast_mode.h, but for entries that are no operators of CUDA's list."""
    header = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    text = header.read_text(encoding="utf-8")
    if "AT_FORALL_PROMOTE" not in text:
        pytest.skip("this torch's header has the lists elsewhere")

    def listed(macro: str) -> set[str]:
        body = re.search(rf"#define {macro}\(_\)((?:.*\\\n)*.*)", text)
        assert body is not None
        return {".".join(filter(None, found)) for found in re.findall(r"_\((\w+)(?:, (\w+))?\)", body[1])}

    assert listed("AT_FORALL_PROMOTE") == WIDEST
    assert listed("AT_FORALL_FP32_SET_OPT_DTYPE") | {n for n in FLOAT32_BY_DTYPE if "imname" in n} == FLOAT32_BY_DTYPE
    assert listed("AT_FORALL_LOWER_PRECISION_FP") == {n for n in LOWER if "cudnn" not in n}
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    others = {name.removeprefix("aten::") for name in registered if name.startswith("aten::")} - LOWER - WIDEST - FLOAT32_BY_DTYPE
    assert {n for n in others if not n.startswith("norm.")} - {REFUSED, "linalg_matrix_sqrth"} <= listed("AT_FORALL_FP32")


def block(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = x @ weight
        return torch.softmax(y, -1), y.exp(), y.sum(), F.layer_norm(y, (16,)), F.gelu(y)


@pytest.mark.compile
@pytest.mark.parametrize("train", [False, True])
def test_a_check_under_autocast_holds(train: bool) -> None:
    """Results and gradients of a function under CUDA's autocast have the types that they have there, and are equal."""
    x, weight = torch.randn(16, 16, requires_grad=train), torch.randn(16, 16, requires_grad=train)
    made = explorer.trace(block, x, weight, target="h100", train=train)
    assert [t.dtype for t in made.live.result] == [torch.float32] * 4 + [torch.bfloat16]
    assert not made.failures and all(row["equal"] for row in made.check())
    assert 'softmax: "f32' in made.text("dynamo")


def half(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cuda"):
        return F.log_softmax(F.linear(x, x), -1)


@pytest.mark.compile
def test_a_check_under_autocast_to_float16_holds() -> None:
    """CUDA's autocast casts to float16 by default."""
    made = explorer.trace(half, torch.randn(16, 16), target="h100")
    assert made.live.result.dtype == torch.float32 and [row["equal"] for row in made.check()] == [True]
