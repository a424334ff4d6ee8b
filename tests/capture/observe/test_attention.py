"""Why attention is not one kernel: the pattern that came nearest, its check, and what torch takes for a call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import dropout, scaled_dot_product_attention

import explorer
from explorer.capture.absent.absent_gpu import pretending
from explorer.capture.observe.attention import Laid, chosen
from explorer.tracing.traced import Trace

pytest.importorskip("triton", reason="without triton nothing is compiled for a GPU that is not here")

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) * 0.25, -1) @ v


def capped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1) * 0.25
    return torch.softmax(torch.tanh(scores), -1) @ v


def returned(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    weights = torch.softmax(q @ k.transpose(-2, -1) * 0.25, -1)
    return weights @ v, weights


def matrices(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q[0, 0] @ k[0, 0].T * 0.25, -1) @ v[0, 0]


def in_double(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return scaled_dot_product_attention(q.double(), k.double(), v.double())


def traced(attend: Attend, dtype: torch.dtype = torch.float16, *, train: bool = False) -> Trace:
    """Trace an attention for an H100; nothing of it fails."""
    given = (torch.randn(2, 4, 32, 16, dtype=dtype, requires_grad=train) for _ in range(3))
    trace = explorer.trace(attend, *given, target="h100", train=train)
    assert trace.failures == ()
    return trace


def is_of(name: str, pattern: str) -> bool:
    """Whether a pattern's name is this one, to which newer torch adds "_half_inference" and the like; "" is none."""
    return name.startswith(f"{pattern}_") or name == pattern


@pytest.mark.compile
@pytest.mark.parametrize(
    ("attend", "pattern", "reason"),
    [
        (capped, "_sfdp_pattern_2", "it has aten.mul.Tensor(scale_factor) where the program has tanh = aten.tanh"),
        (returned, "_sfdp_pattern_2", "and 2 of the program's read convert_element_type_3 = "),
        (matrices, "", "none of Inductor's patterns of attention ends at aten.mm.default"),
    ],
)
def test_the_nearest_pattern_says_where_its_match_ended(attend: Attend, pattern: str, reason: str) -> None:
    """A softmax between two products that stayed so has a row at its line, with the operator that kept the pattern out."""
    (row,) = traced(attend).table("attention")
    assert row["kernel"] == "" and is_of(row["pattern"], pattern) and reason in row["reason"]
    assert row["graph"] == "inference" and any(part in row["code"] for part in ("softmax", "weights @ v"))


@pytest.mark.compile
def test_a_pattern_that_fires_leaves_no_row() -> None:
    """Attention that became scaled_dot_product_attention needs no reason."""
    trace = traced(plain)
    assert any(is_of(row["pattern"], "_sfdp_pattern_2") for row in trace.inductor.matches)
    assert list(trace.table("attention")) == []


@pytest.mark.compile
@pytest.mark.parametrize("attend", [plain, lambda q, k, v: dropout(torch.softmax(q @ k.transpose(-2, -1) * 0.25, -1), 0.1) @ v])
@pytest.mark.filterwarnings("ignore:TensorFloat32")
def test_a_check_that_refuses_names_its_condition(attend: Attend) -> None:
    """In float32 without TF32 the pattern of the training step matches, and torch's check refuses it; the setting is named."""
    (row,) = traced(attend, torch.float32, train=True).table("attention")
    assert row["graph"] == "joint" and row["pattern"].startswith("_sfdp_pattern_")
    assert "its check refuses it: query is float32" in row["reason"]
    assert row["setting"] == "torch.backends.cuda.matmul.allow_tf32"


@pytest.mark.compile
def test_a_call_says_its_kernel_and_what_would_change_it() -> None:
    """Attention in float64 has only the math kernel; torch's decomposition of it is no attention of the program's."""
    trace = traced(in_double)
    (row,) = trace.table("attention")
    assert (row["kernel"], row["reason"]) == ("math", "in bfloat16 it takes cudnn")
    assert trace.text("attention").startswith("scaled_dot_product_attention: torch takes math; in bfloat16 it takes cudnn")


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:TensorFloat32")
def test_the_advice_says_why_and_a_setting_that_proves_it() -> None:
    """The verdict on scores in memory quotes the reason, and where a setting decides, that setting is the proof."""
    given = [torch.randn(4, 16, 512, 64) for _ in range(3)]
    verdict = next(one for one in explorer.trace(plain, *given, target="h100").advise() if "scores" in one.title)
    assert "_sfdp_pattern_2" in verdict.evidence and "matches, and its check refuses it" in verdict.evidence
    assert verdict.call == "t.what_if(settings={'torch.backends.cuda.matmul.allow_tf32': True})"
    assert verdict.remedy.startswith("torch.backends.cuda.matmul.allow_tf32 = True") and not verdict.why_unproved


def test_changes_are_asked_of_torch_alone_then_in_pairs() -> None:
    """On a T4 only efficient and math are there: float64 with a mask of float64 needs one change, with dropout and all."""

    def laid(*shape: int, dtype: torch.dtype) -> Laid:
        return Laid(shape, (), 0, dtype, torch.device("cuda"), grad=False).contiguous

    with pretending(explorer.Target.parse("t4")):
        parts = {name: laid(2, 4, 32, 16, dtype=torch.float64) for name in ("query", "key", "value")}
        assert chosen(parts) == ("math", "")  # no half precision of T4's is bfloat16
        assert chosen({**parts, "attn_mask": laid(32, 32, dtype=torch.bool)})[0] == "math"
        assert chosen({name: laid(2, 4, 32, 16, dtype=torch.float16) for name in parts}) == ("efficient", "")
    with pretending(explorer.Target.parse("h100")):
        assert chosen(parts) == ("math", "in bfloat16 it takes cudnn")
        wrong = {**parts, "attn_mask": laid(32, 32, dtype=torch.float64), "dropout_p": 0.25}
        assert "in bfloat16" in chosen(wrong)[1]
