"""A tensor that an engine returns gets the strides that the graph's own result has."""

from __future__ import annotations

import pytest
import torch

from explorer.capture.compilers.tensors import with_strides_of


@pytest.mark.parametrize(
    "like",
    [
        torch.empty(3, 4).t(),
        torch.empty(4, 1).expand(4, 3),
        torch.empty(()).expand(4, 3),
        torch.empty(6).as_strided((4, 3), (1, 1)),
        torch.empty(4, 0),
    ],
    ids=["transposed", "expanded", "expanded number", "windows", "empty"],
)
def test_values_are_kept_and_strides_are_those_of_the_graph(like: torch.Tensor) -> None:
    """Also of a result that repeats its elements, whose memory torch does not write."""
    values = torch.arange(12.0).as_strided(like.shape, like.stride()).contiguous()
    given = with_strides_of(values, like)
    assert torch.equal(given, values) and given.stride() == like.stride()
