"""Links from LLVM IR: !dbg locations, their scopes and what they were inlined into."""

from __future__ import annotations

from collections.abc import Callable

Linked = Callable[..., dict[int, int]]

TEXT = """define ptx_kernel void @kern(ptr addrspace(1) %0, i32 %2) local_unnamed_addr #0 !dbg !4 {
  %6 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !dbg !12
  %31 = fadd float %25, %26, !dbg !16
  %32 = add i32 %1, %2
  %33 = fadd float %25, %26, !dbg !30
}
!1 = !DIFile(filename: "kern.py", directory: "")
!4 = distinct !DISubprogram(name: "kern", linkageName: "kern", scope: !1, file: !1, line: 2, unit: !0)
!12 = !DILocation(line: 3, column: 20, scope: !4)
!16 = !DILocation(line: 263, column: 15, scope: !17, inlinedAt: !19)
!17 = distinct !DILexicalBlockFile(scope: !4, file: !18, discriminator: 0)
!18 = !DIFile(filename: "standard.py", directory: "triton/language")
!19 = !DILocation(line: 293, column: 36, scope: !17, inlinedAt: !20)
!20 = !DILocation(line: 5, column: 18, scope: !21)
!21 = distinct !DILexicalBlockFile(scope: !4, file: !1, discriminator: 0)
!30 = !DILocation(line: 4, column: 15, scope: !17)"""


def test_each_instruction_leads_to_the_line_its_debug_location_names(linked: Linked) -> None:
    """Directly, or through what it was inlined into; without a location, or in another file only, to nothing."""
    assert linked("llir", llir=TEXT) == {2: 3, 3: 5}


def test_a_folder_is_part_of_a_files_name(linked: Linked) -> None:
    """A file of the same name in another folder is another file."""
    assert linked("llir", llir=TEXT.replace('"kern.py", directory: ""', '"kern.py", directory: "/elsewhere"')) == {}


def test_a_packed_operation_has_no_line_where_its_lanes_have_several(linked: Linked) -> None:
    """LLVM packs operations of different lines under one's location, or under that of the store behind them."""
    text = """define void @kern() !dbg !4 {
  %1 = load <2 x float>, ptr %p, !dbg !3
  %2 = load <2 x float>, ptr %q, !dbg !5
  %3 = fmul <2 x float> %1, splat (float 2.0), !dbg !6
  %4 = fmul <2 x float> %2, <float 2.0, float 3.0>, !dbg !6
  %5 = shufflevector <2 x float> %1, <2 x float> %2, <2 x i32> <i32 0, i32 3>, !dbg !6
  %6 = fadd <2 x float> %5, %3, !dbg !6
  %7 = fadd <2 x float> %3, splat (float 1.0), !dbg !7
  store <2 x float> %7, ptr %r, !dbg !7
}
!1 = !DIFile(filename: "kern.py", directory: "")
!4 = distinct !DISubprogram(name: "kern", scope: !1, file: !1, line: 2)
!3 = !DILocation(line: 3, column: 1, scope: !4)
!5 = !DILocation(line: 4, column: 1, scope: !4)
!6 = !DILocation(line: 5, column: 1, scope: !4)
!7 = !DILocation(line: 6, column: 1, scope: !4)"""
    found = linked("llir", llir=text)
    assert {n: found.get(n) for n in (2, 3, 4, 5, 7, 8, 9)} == {2: 3, 3: 4, 4: 5, 5: None, 7: None, 8: None, 9: 6}


NUMBERED = """define void @kern() !dbg !4 {
  %1 = fmul <2 x float> %0, splat (float 0x3FF02FEC60000000), !dbg !6
  %2 = fmul float %a, 0x3FF02FEC60000000, !dbg !7
  %3 = fmul float %a, 0x3FF02FEC60000000
  %4 = fadd float %a, 5.000000e-01
  %5 = fadd float %a, 0x3FF17C1BE0000000, !dbg !6
}
!1 = !DIFile(filename: "kern.py", directory: "")
!4 = distinct !DISubprogram(name: "kern", scope: !1, file: !1, line: 2)
!6 = !DILocation(line: 5, column: 1, scope: !4)
!7 = !DILocation(line: 4, column: 1, scope: !4)"""
MLIR = """#loc2 = loc("kern.py":4:18)
#loc3 = loc("kern.py":5:18)
    %cst = arith.constant dense<1.011700e+00> : tensor<256xf32> loc(unknown)
    %cst_0 = arith.constant dense<5.000000e-01> : tensor<256xf32> loc(unknown)
    %2 = arith.mulf %x, %cst : tensor<256xf32> loc(#loc2)
    %3 = arith.addf %x, %cst_0 : tensor<256xf32> loc(#loc2)"""


def test_a_number_of_tritons_ir_tells_the_line_where_the_location_does_not(linked: Linked) -> None:
    """A packed operation's location is another's, and some have none. One half and numbers that LLVM made tell nothing."""
    assert linked("llir", llir=NUMBERED, ttgir=MLIR) == {2: 4, 3: 4, 4: 4, 6: 5}


def test_a_number_that_a_library_uses_too_tells_nothing(linked: Linked) -> None:
    """The code of a sine may have the program's number by chance: neither line is then named for a packed operation."""
    sine = (
        MLIR
        + """
    %4 = math.sin %x : tensor<256xf32> loc(#loc3)"""
    )
    assert linked("llir", llir=NUMBERED, ttgir=sine) == {3: 4, 6: 5}
