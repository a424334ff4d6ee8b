"""The rows of a tuning, and which config is the best."""

from __future__ import annotations

import math

import pytest
import torch

from explorer.capture.splice.tuning import Tuning, as_rows, given_configs, neighbours, sizes_in_text
from explorer.capture.splice.tuning_process import _off
from explorer.errors import InputError
from tests.facts import says, untold


def test_a_result_that_is_not_a_number_is_no_small_difference() -> None:
    """NaN where the other has a number is infinitely far, NaN in both is the same."""
    ones, nan = torch.ones(3), torch.full((3,), math.nan)
    assert _off((nan,), (ones,)) == math.inf
    assert _off((nan, 3), (nan, 3)) == 0
    assert _off((ones + 0.5,), (ones,)) == 0.5


def test_a_fast_config_with_other_results_is_not_the_best() -> None:
    """The fastest is first in the table; the best is one whose results are near the kernel's."""
    configs = [{"num_warps": 1}, {"num_warps": 2}, {"num_warps": 3}]
    results = [
        {"seconds": 1e-6, "original_seconds": 2e-6, "max_abs": math.inf},
        {"seconds": 3e-6, "original_seconds": 2e-6, "max_abs": 0.0},
        {"error": "no"},
    ]
    tuning = Tuning("k", as_rows(configs, results, configs[1]), measured=True)
    assert [row["config"]["num_warps"] for row in tuning._rows] == [1, 2, 3]
    assert tuning.best == {"num_warps": 2} and tuning._rows[1]["taken"]


def test_neighbours_are_other_sizes_within_bounds() -> None:
    """The config itself is first, all others differ, and no block is below what a matrix product needs."""
    own = {"BLOCK_M": 16, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
    configs = neighbours(own, [])
    assert configs[0] == own and len({str(config) for config in configs}) == len(configs)
    assert all(config["BLOCK_M"] >= 16 and config["num_warps"] >= 1 for config in configs)
    assert not any(config["num_stages"] != 1 for config in neighbours({"XBLOCK": 1, "num_warps": 4, "num_stages": 1}, []))


def test_configs_that_are_none_are_refused() -> None:
    """One mapping is one config."""
    assert given_configs({"num_warps": 2}) == [{"num_warps": 2}]
    with pytest.raises(InputError, match=says("configs", "mappings", "'num_warps'")):
        given_configs("num_warps")


TEMPLATE = """
def triton_tem_fused_mm_relu_0(arg_A, arg_B, out_ptr1, XBLOCK : tl.constexpr):
    EVEN_K : tl.constexpr = True
    BLOCK_M : tl.constexpr = 32
    BLOCK_K: tl.constexpr = 128
    GROUP_M : tl.constexpr = 8
"""


def test_block_sizes_that_the_text_states_are_said_not_to_be_varied() -> None:
    """A parameter is none of them. Of a template the result says where those with other sizes are."""
    assert sizes_in_text(TEMPLATE) == {"BLOCK_M": 32, "BLOCK_K": 128}
    rows = as_rows([{"num_warps": 1}], [{"seconds": 1e-6}], {})
    assert not untold(
        repr(Tuning("k", rows, False, sizes_in_text(TEMPLATE))), "not varied", "BLOCK_M=32 BLOCK_K=128", "t.inductor.choices"
    )
    assert "t.inductor.choices" not in repr(Tuning("k", rows, False, {"R0_BLOCK": 256}))
    assert "not varied" not in repr(Tuning("k", rows, False))
