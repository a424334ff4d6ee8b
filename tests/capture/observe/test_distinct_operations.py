"""Operations that loop bodies have in common are counted once, as generated code computes them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import explorer
from explorer.capture.observe import work

pytestmark = pytest.mark.compile

STAGES = tuple(
    stage for stage in explorer.types.STAGES if stage.name in ("dynamo", "post_grad", "fusion", "output_code", "kernel")
)


def counted(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], *arguments: Any) -> tuple[Counter[str], str]:
    """Trace for an H100; return the distinct operations of the only kernel by name, and its text."""
    from explorer.capture.observe.distinct_operations import Distinct

    found: Counter[str] = Counter()
    by_dtype = work.by_dtype

    def count(parts: Any) -> Any:
        distinct = Distinct()
        for part in parts:
            found.update(distinct.counts(part._body))
        return by_dtype(parts)

    monkeypatch.setattr(work, "by_dtype", count)
    trace = explorer.trace(function, *arguments, target="h100", stages=STAGES)
    (kernel,) = trace.kernels
    return found, kernel.text("kernel")


def test_interpolation_computes_each_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each corner computes its row and column anew, in nodes of their own, as Triton's code does not."""
    x = torch.empty(12, 96, 48, 48, device="meta")
    counts, text = counted(monkeypatch, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), x)
    assert counts["load"] == text.count("tl.load(") == 4
    assert 4 <= counts["maximum"] <= text.count("triton_helpers.maximum(")


def test_what_is_computed_twice_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sine in both sides of a product; of other arguments there are two."""
    x = torch.empty(64, device="meta")
    assert counted(monkeypatch, lambda x: torch.sin(x) * (torch.sin(x) + 1), x)[0]["sin"] == 1
    assert counted(monkeypatch, lambda x: torch.sin(x) * torch.sin(x + 1), x)[0]["sin"] == 2


def test_what_stands_under_a_mask_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding loads under a mask: the load in the body's part, and the select."""
    counts, _ = counted(monkeypatch, lambda x: F.pad(x, (1, 1)) * 2, torch.empty(64, 64, device="meta"))
    assert counts["masked"] == counts["load"] == 1
