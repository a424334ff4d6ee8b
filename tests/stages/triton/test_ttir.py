"""Links from TTIR: MLIR's loc(...) and the table of its aliases."""

from __future__ import annotations

from collections.abc import Callable

Linked = Callable[..., dict[int, int]]

TEXT = """#loc = loc("kern.py":2:0)
#loc7 = loc(unknown)
#loc21 = loc("s"(#loc6))
module {
  tt.func public @kern(%a: !tt.ptr<f32> loc("a"(#loc)), %n: i32 loc("n"(#loc))) attributes {noinline = false} {
    %i = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32> loc(#loc17)
    %s = "tt.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%l: f32 loc(callsite(#loc7 at #loc21)), %r: f32 loc(callsite(#loc7 at #loc21))):
      %o = arith.addf %l, %r : f32 loc(#loc24)
      tt.reduce.return %o : f32 loc(#loc22)
    }) : (tensor<256xf32>) -> f32 loc(#loc22)
    %c = arith.constant 0 : i32 loc(#loc7)
    tt.store %1, %4, %x_2 : tensor<256x!tt.ptr<f32>> loc(fused["kern.py":6:4, #loc17])
    tt.return loc("other.py":3:4)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("kern.py":3:20)
#loc5 = loc("triton/language/standard.py":293:36)
#loc6 = loc("kern.py":5:18)
#loc8 = loc("triton/language/standard.py":263:15)
#loc17 = loc("i"(#loc1))
#loc22 = loc(callsite(#loc5 at #loc21))
#loc24 = loc(callsite(#loc8 at #loc22))"""


def test_each_operation_leads_to_the_line_its_location_names(linked: Linked) -> None:
    """Through aliases, names, fused locations and call sites: a reduction's body leads to the line that calls tl.sum."""
    found = linked("ttir", ttir=TEXT)
    assert found[6] == 3 and found[9] == found[10] == found[11] == 5 and found[13] == 6


def test_an_operation_with_a_region_has_the_location_at_its_end(linked: Linked) -> None:
    """The line that opens a reduction leads where the line that closes it does; regions inside one another too."""
    text = """module {
  %a = scf.if %c -> (f32) {
    %r = "tt.reduce"(%x) ({
      %o = arith.addf %l, %r : f32
    }) : (f32) -> f32 loc("kern.py":5:1)
    scf.yield %r
  } else {
    scf.yield %z
  } loc("kern.py":4:1)
  %b = math.sin %a
}"""
    assert linked("ttir", ttir=text) == {2: 4, 3: 5, 5: 5, 9: 4}


def test_what_states_no_line_of_the_kernel_has_no_link(linked: Linked) -> None:
    """An unknown location, another file, the table of locations itself: no link rather than a guess."""
    found = linked("ttir", ttir=TEXT)
    assert not {1, 2, 3, 12, 14, 17, 18} & set(found)


def test_lines_count_from_where_the_source_begins(linked: Linked) -> None:
    """A kernel that begins at line 3 of its file has that line as its first."""
    assert linked("ttir", ttir=TEXT, first_line=3)[6] == 1


def test_a_table_that_refers_to_itself_ends(linked: Linked) -> None:
    """A damaged table makes no endless loop."""
    assert linked("ttir", ttir="%a = x loc(#loc1)\n#loc1 = loc(#loc2)\n#loc2 = loc(#loc1)") == {}
