"""Operators that are computed as a whole, and the operations that they count."""

from __future__ import annotations

import pytest
import torch

from explorer.capture.observe.operators import OWN, _causal, _convolution_backward, _linear_backward, _operations, tf32


def test_the_gradient_of_a_convolution_is_what_the_flop_counter_says() -> None:
    """Without groups, where torch's own formula is right, ours counts the same; with groups fewer."""
    from torch.utils.flop_counter import flop_registry

    x, w, grad = torch.empty(2, 8, 6, 6), torch.empty(16, 8, 3, 3), torch.empty(2, 16, 6, 6)
    theirs = flop_registry[torch.ops.aten.convolution_backward]
    stated = (grad, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
    ours = {"grad_output": grad, "input": x, "weight": w, "transposed": False, "output_mask": [True, True, False]}
    assert _convolution_backward(ours) == theirs(*stated, out_val=(x, w, None))
    assert _convolution_backward({**ours, "weight": torch.empty(16, 1, 3, 3), "output_mask": [False, True, False]}) == (
        2 * 2 * 36 * 16 * 9
    )


def test_what_mps_calls_by_names_of_its_own_counts_as_elsewhere() -> None:
    """A linear layer's gradients are two products, and attention is what the flop counter says of any other attention."""
    from torch.utils.flop_counter import sdpa_flop_count

    layer = {"self": torch.empty(4, 6, 16), "grad_output": torch.empty(4, 6, 8), "weight": torch.empty(8, 16)}
    assert _linear_backward({**layer, "output_mask": [True, True, True]}) == 2 * (2 * 24 * 8 * 16)
    assert _linear_backward({**layer, "output_mask": [False, True, True]}) == 2 * 24 * 8 * 16
    query, key, value = (2, 4, 32, 16), (2, 4, 24, 16), (2, 4, 24, 8)
    assert OWN["aten._scaled_dot_product_attention_math_for_mps"](query, key, value) == sdpa_flop_count(query, key, value)


@pytest.mark.parametrize("setting", ["allow_tf32", "fp32_precision"])
def test_tf32_is_as_torch_is_set(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products follow the switch for matrix products, in its older and its newer spelling."""
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, setting):
        pytest.skip("this torch has no such setting")
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        setattr(matmul, setting, {"allow_tf32": True, "fp32_precision": "tf32"}[setting])
        assert tf32("aten.mm")
        setattr(matmul, setting, {"allow_tf32": False, "fp32_precision": "ieee"}[setting])
        assert not tf32("aten.mm")
    finally:
        matmul.allow_tf32 = before


def test_a_causal_mask_leaves_the_lower_triangle() -> None:
    """Of four rows and four columns ten of sixteen scores; with more columns than rows those up to the diagonal."""
    square, wide = torch.empty(1, 1, 4, 8), torch.empty(1, 1, 8, 8)
    assert _causal({"query": square, "key": square, "is_causal": True}) == 10 / 16
    assert _causal({"query": square, "key": wide, "is_causal": True}) == 10 / 32
    assert _causal({"query": square, "key": wide, "is_causal": False}) == 1


def test_operations_that_no_formula_can_count_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.11's formula refuses attention with fewer heads of keys than of queries: the rest of the graph is still read."""
    from torch.fx import Graph
    from torch.utils import flop_counter

    def refuses(*args: object, **kwargs: object) -> int:
        raise AssertionError("shapes are incompatible")

    graph = Graph()
    nodes = [graph.placeholder(name) for name in "ab"]
    for node in nodes:
        node.meta["val"] = torch.empty(4, 4)
    call = graph.call_function(torch.ops.aten.mm.default, tuple(nodes))
    call.meta["val"] = torch.empty(4, 4)
    assert _operations(call, "aten.mm", {}) == 2 * 4 * 4 * 4
    monkeypatch.setitem(flop_counter.flop_registry, torch.ops.aten.mm, refuses)
    assert _operations(call, "aten.mm", {}) is None
