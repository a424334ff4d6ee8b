"""What another compiler says of an operator that it does not have, with the user's line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.capture.compilers.user_lines import with_user_lines
from tests.facts import untold

STACK = f"""  File "a.py", line 3, in f
    return layer(x)
  File "{nn.__file__}", line 9, in forward
    return F.conv2d(input)
"""


def unsupported(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x)
    return torch.special.bessel_j0(y) + 1


def derived(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.slogdet(x * 2)[1].sum()


class Half(nn.Module):
    """A convolution that ONNX exports, and ONNX Runtime has no kernel for on a CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(1, 1, 3, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x.bfloat16().view(1, 1, 4, 4))
        return y


@pytest.mark.compile
@pytest.mark.parametrize(
    ("backend", "module", "function", "code"),
    [
        ("onnxrt", "onnxruntime", unsupported, "return torch.special.bessel_j0(y) + 1"),
        ("onnxrt", "onnxruntime", derived, "return torch.linalg.slogdet(x * 2)[1].sum()"),
        ("onnxrt", "onnxruntime", Half(), "y: torch.Tensor = self.layer(x.bfloat16().view(1, 1, 4, 4))"),
        ("iree", "iree.compiler", unsupported, "return torch.special.bessel_j0(y) + 1"),
    ],
    ids=["onnx", "onnx, training", "onnxruntime", "iree"],
)
def test_an_operator_that_an_engine_lacks_has_the_users_line(backend: str, module: str, function: Any, code: str) -> None:
    """The engine's words name a node of the graph. Below them is the line of the program that it was traced for."""
    pytest.importorskip(module, reason=f"{module} is not installed")
    train = function is derived
    (failure,) = explorer.trace(function, torch.eye(4, requires_grad=train), backend=backend, train=train).failures
    lines = [line for line in failure.message.split("\n") if line.startswith("This is your line")]
    assert len(lines) == 1 and not untold(lines[0], "test_user_lines.py", code), failure.message


def test_a_line_of_torch_is_not_the_users() -> None:
    """The innermost place outside of torch is named, each once; a node without one adds nothing."""
    node, other = SimpleNamespace(meta={"stack_trace": STACK}), SimpleNamespace(meta={})
    said, line = with_user_lines("no such operator", [node, other, node]).split("\n")
    assert said == "no such operator" and not untold(line, "a.py:3", "return layer(x)")
    assert with_user_lines("no such operator", [other]) == "no such operator"
