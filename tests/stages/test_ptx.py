"""Links from PTX: .loc directives and the comments that say what was inlined where."""

from __future__ import annotations

from collections.abc import Callable

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
