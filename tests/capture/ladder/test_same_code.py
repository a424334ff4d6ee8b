"""Whether two kernels have the same code, by texts as triton writes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.capture.ladder.ladder import Ladder, Lowered
from explorer.capture.ladder.same_code import code_keys, same_at
from explorer.reference.gpus.figures import Target

TTIR = """#loc = loc("k.py":17:0)
#loc2 = loc("x"(#loc))
module {
  tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc))) {
    %y = arith.constant 1.0 : f32 loc(callsite(#loc2 at #loc))
    tt.return loc(#loc)
  }
}
"""
PTX = """.visible .entry k(
{
	.loc	1 17 0                          // k.py:17:0
$L__tmp0:
	add.f32 	%f1, %f2, 0f3F800000;
	ret;
}
	.section	.debug_abbrev
	{
.b8 1
	}
"""


def ladder(ttir: str = TTIR, ptx: str = PTX, **options: object) -> Ladder:
    target = Target.parse("h100")
    lowered = Lowered("k", target, ttir, {"num_warps": 4, **options}, {"XBLOCK": 8}, (), "k.py")
    return Ladder("k", target, {"XBLOCK": 8}, (), "k.py", 1, {"ttir": ttir, "ptx": ptx}, {}, b"", lowered=lowered)


def same(one: Ladder) -> str:
    return same_at(code_keys(one), code_keys(ladder()))


@pytest.mark.parametrize(
    ("before", "after"),
    [("17:0", "18:0"), ('loc("x"(#loc))', 'loc("x"(#loc9))'), ("loc(callsite(#loc2 at #loc))", "loc(fused[#loc, #loc2])")],
)
def test_another_location_is_the_same_code(before: str, after: str) -> None:
    """Lines, names of values and inlined calls are no code, in TTIR."""
    assert before in TTIR and same(ladder(TTIR.replace(before, after), "")) == "ttir"


@pytest.mark.parametrize(
    ("before", "after"),
    [(".loc	1 17", ".loc	1 99"), ("$L__tmp0:", "$L__tmp7:"), ("k.py:17:0", "k.py:99:0"), (".b8 1", ".b8 2")],
)
def test_another_place_in_ptx_is_the_same_code(before: str, after: str) -> None:
    """Places, comments and debug information are no code, where TTIR is another."""
    assert before in PTX and same(ladder("", PTX.replace(before, after))) == "ptx"


def test_another_instruction_option_or_config_is_other_code() -> None:
    """One that only TTIR or only PTX shows is enough; TTIR does not have the options, and neither has the grid of a launch."""
    assert same(ladder(TTIR.replace("1.0", "2.0"), PTX.replace("add", "sub"))) == ""
    assert same(ladder(TTIR, PTX.replace("add", "sub"), num_warps=8)) == ""
    assert same(replace(ladder(), config={"XBLOCK": 16})) == "" == same(replace(ladder(), grid=("x", "1", "1")))
    behind = PTX + "\t.section .text\n\tret;\n"
    assert same(ladder("", behind)) == "", "what comes after the debug information counts"
