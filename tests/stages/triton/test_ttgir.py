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
