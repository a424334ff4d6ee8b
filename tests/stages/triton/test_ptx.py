"""Links from PTX: .loc directives and the comments that say what was inlined where."""

from __future__ import annotations

from collections.abc import Callable

from explorer.tracing.traced import Trace

Linked = Callable[..., dict[int, int]]

TEXT = """.visible .entry kern(
	.param .u64 .ptr .global .align 1 kern_param_0
)
{
	.reg .pred 	%p<7>;
	.loc	1 2 0                           // kern.py:2:0
$L__func_begin0:
	ld.param.b64 	%rd5, [kern_param_0];
	.loc	1 3 20                          // kern.py:3:20
	mov.u32 	%r10, %tid.x;
	// begin inline asm
	@%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];
	.loc	2 263 15                        // standard.py:263:15 @[ standard.py:293:36 @[ kern.py:5:18 ] ]
	add.f32 	%r15, %r1, %r2;
	.loc	2 293 36                        // standard.py:293:36
	add.f32 	%r16, %r1, %r2;
}
	.file	1 "kern.py"
	.file	2 "triton/language/standard.py"
	.section	.debug_abbrev"""


def test_each_instruction_leads_to_the_last_loc_before_it(linked: Linked) -> None:
    """A line of triton's library leads on to the line that it was inlined into, where the comment says so."""
    assert linked("ptx", ptx=TEXT) == {8: 2, 10: 3, 12: 3, 14: 5}


#: As LLVM in triton 3.9 writes it: two calls of `outer`, at lines 3 and 5 of the kernel, each of which calls `inner` at 20.
CALLS = """	.loc	1 3 12                          // kern.py:3:12
	.loc	2 20 9, function_name $L__info_string0, inlined_at 1 3 12 // lib.py:20:9
	.loc	2 7 14, function_name $L__info_string0, inlined_at 2 20 9 // lib.py:7:14
	mul.lo.s32 	%r1, %r2, %r3;
	.loc	1 5 8                           // kern.py:5:8
	.loc	2 20 9, function_name $L__info_string0, inlined_at 1 5 8 // lib.py:20:9
	.loc	2 7 14, function_name $L__info_string0, inlined_at 2 20 9 // lib.py:7:14
	mul.lo.s32 	%r4, %r5, %r6;
	.loc	2 21 9, function_name $L__info_string0, inlined_at 1 5 8 // lib.py:21:9
	add.s32 	%r7, %r4, %r6;
	.file	2 "lib.py"
	.file	1 "kern.py" """


def test_inlined_at_leads_through_the_calls_to_the_kernel(linked: Linked) -> None:
    """An instruction of a function that is called at two lines has a link only as long as one call of it was begun."""
    assert linked("ptx", ptx=CALLS) == {4: 3, 10: 5}


def test_two_calls_at_one_line_are_one_origin(linked: Linked) -> None:
    """Which of two calls it was does not matter where both are at the same line of the kernel."""
    assert linked("ptx", ptx=CALLS.replace("1 5 8", "1 3 8")) == {4: 3, 8: 3, 10: 3}


LLIR = """  %1 = fmul float %a, %b, !dbg !4
  %2 = fneg float %1, !dbg !5
  %3 = fadd float %2, %c, !dbg !6
  %4 = fmul float %d, %e, !dbg !5
  %5 = fsub float %1, %4, !dbg !7
!1 = !DIFile(filename: "kern.py", directory: "")
!2 = distinct !DISubprogram(name: "kern", scope: !1, file: !1, line: 2)
!4 = !DILocation(line: 3, column: 1, scope: !2)
!5 = !DILocation(line: 4, column: 1, scope: !2)
!6 = !DILocation(line: 5, column: 1, scope: !2)
!7 = !DILocation(line: 6, column: 1, scope: !2)"""
FUSED = """	.loc	1 4 1
	mul.f32 	%r3, %r4, %r5;
	.loc	1 5 1
	fma.rn.f32 	%r6, %r1, %r2, %r7;
	.loc	1 6 1
	fma.rn.f32 	%r8, %r1, %r2, %r3;
	.file	1 "kern.py" """


def lines_of_kernel(trace: Trace) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for link in trace.links:
        for number in link.source_lines if ":ptx:" in link.source and ":kernel:" in link.target else ():
            found.setdefault(number, set()).update(link.target_lines)
    return found


def test_a_fused_multiply_add_has_the_lines_of_the_product_and_of_the_sum(ladder_trace: Callable[..., Trace]) -> None:
    """LLVM IR says which product a sum takes in; of two the one that is not multiplied by itself in the PTX."""
    assert lines_of_kernel(ladder_trace(llir=LLIR, ptx=FUSED)) == {2: {4}, 4: {3, 5}, 6: {3, 6}}


def test_where_the_product_is_not_known_only_the_sums_line_is_linked(ladder_trace: Callable[..., Trace]) -> None:
    """Two products and neither multiplied by itself, or a line that asks for a fused operation."""
    both = FUSED.replace("mul.f32", "mov.b32")
    assert lines_of_kernel(ladder_trace(llir=LLIR, ptx=both))[6] == {6}
    asked = LLIR.replace("  %5 = fsub", "  %6 = call float @llvm.fma.f32(float %x, float %y, float %z), !dbg !6\n  %5 = fsub")
    assert lines_of_kernel(ladder_trace(llir=asked, ptx=FUSED))[4] == {5}


def test_a_number_put_into_a_register_leads_to_what_reads_it(linked: Linked) -> None:
    """LLVM puts it there once for all that need it, under whatever .loc stands there; unread, it leads nowhere."""
    moved = FUSED.replace("mul.f32 \t%r3, %r4, %r5;", "mov.b32 \t%r3, 0f3F817F63;")
    assert linked("ptx", ptx=moved) == {2: 6, 4: 5, 6: 6}
    assert linked("ptx", ptx=moved.replace("%r3;", "%r4;")) == {4: 5, 6: 6}


def test_an_instruction_of_line_0_is_known_by_its_number(linked: Linked) -> None:
    """LLVM moves operations to what needs them. Where one line alone has the number in LLVM IR, the instruction is its."""
    llir = LLIR.replace("fmul float %a, %b", "fmul float %a, 0x3FF02FEC60000000")
    moved = """	.loc	1 0 5
	mul.f32 	%r3, %r4, 0f3F817F63;
	mul.f32 	%r5, %r4, 0f3F817F64;
	.file	1 "kern.py" """
    assert linked("ptx", ptx=moved, llir=llir) == {2: 3}
    twice = llir.replace("%4 = fmul float %d, %e", "%4 = fmul float %d, 0x3FF02FEC60000000")
    assert linked("ptx", ptx=moved, llir=twice) == {}
