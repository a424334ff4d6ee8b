"""Links from TTGIR, whose locations are TTIR's."""

from __future__ import annotations

from collections.abc import Callable

Linked = Callable[..., dict[int, int]]


def test_layouts_have_no_origin_and_operations_have(linked: Linked) -> None:
    """The layout aliases at the top lead nowhere; an operation leads to its line."""
    text = """#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#loc2 = loc("kern.py":4:18)
module attributes {"ttg.num-warps" = 4 : i32} {
    %x_3 = tt.load %x_0, %x_2 : tensor<256x!tt.ptr<f32>, #blocked> loc(#loc20)
#loc20 = loc("x"(#loc2))"""
    assert linked("ttgir", ttgir=text) == {4: 4}


def test_a_constant_without_a_location_leads_to_what_reads_it(linked: Linked) -> None:
    """Also through an operation without a location; one that nothing with a location reads leads nowhere."""
    text = """#loc1 = loc(unknown)
#loc2 = loc("kern.py":4:18)
  tt.func public @kern() {
    %cst = arith.constant dense<1.011700e+00> : tensor<256xf32, #blocked> loc(#loc1)
    %c7_i32 = arith.constant 7 : i32 loc(#loc1)
    %cst_0 = arith.constant dense<2.500000e+00> : tensor<256xf32, #blocked> loc(#loc1)
    %0 = tt.splat %c7_i32 : i32 -> tensor<256xi32, #blocked> loc(#loc1)
    %1 = arith.addi %i, %0 : tensor<256xi32, #blocked> loc(#loc2)
    %2 = arith.mulf %x, %cst : tensor<256xf32, #blocked> loc(#loc2)
    %c-766435501_i32 = arith.constant -766435501 : i32 loc(#loc1)
    %3 = arith.muli %k, %c-766435501_i32 : i32 loc(#loc2)"""
    assert linked("ttgir", ttgir=text) == {4: 4, 5: 4, 8: 4, 9: 4, 10: 4, 11: 4}
