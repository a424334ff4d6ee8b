"""Links from SASS and its instruction mix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.stages.triton.sass import STAGE
from explorer.tracing.traced import Trace

Linked = Callable[..., dict[int, int]]

TEXT = """	.text.kern:
	//## File "kern.py", line 3
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*00b0*/              @!P2 LDG.E R4, desc[UR6][R2.64] ;
	//## File "triton/language/standard.py", line 263
        /*0140*/                   FADD R6, R5, R4 ;
	//## File "triton/language/standard.py", line 400
        /*0150*/                   SHFL.BFLY PT, R7, R6, 0x10, 0x1f ;
	//## File "triton/language/standard.py", line 401
	//## File "kern.py", line 6 inlined at "kern.py", line 4
.L_x_0:
        /*0160*/             @!UP0 BRA `(.L_x_0);
        /*0170*/                   HGMMA.64x128x16.F32 R24, gdesc[UR8], R24 ;
        /*0180*/              @P0 EXIT ;
        /*0190*/                   EXIT ;
        /*01a0*/                   NOP;"""

PTX = """	.loc	2 263 15                        // standard.py:263:15 @[ standard.py:293:36 @[ kern.py:5:18 ] ]
	add.f32 	%r15, %r1, %r2;
	.loc	2 400 1                         // standard.py:400:1 @[ kern.py:5:18 ]
	add.f32 	%r15, %r1, %r2;
	.loc	2 400 1                         // standard.py:400:1 @[ kern.py:6:18 ]
	add.f32 	%r15, %r1, %r2;
	.file	2 "triton/language/standard.py" """


def test_each_instruction_leads_to_the_line_above_it(linked: Linked) -> None:
    """nvdisasm's //## File lines hold for the instructions below; other files lead nowhere by themselves."""
    assert linked("sass", sass=TEXT) == {3: 3, 4: 3, 13: 6, 14: 6}


def test_what_ends_a_kernel_is_nobodys_line(linked: Linked) -> None:
    """A NOP, a jump to itself and the last exit compute nothing; an exit that some threads take follows from a mask."""
    found = linked("sass", sass=TEXT)
    lines = TEXT.split("\n")
    closing = [n for n, line in enumerate(lines, 1) if "NOP" in line or "BRA" in line or line.endswith("   EXIT ;")]
    assert len(closing) == 3 and not found.keys() & closing
    assert any("@P0 EXIT" in lines[n - 1] for n in found)


def test_the_ptx_says_where_a_library_line_was_inlined(ladder_trace: Callable[..., Trace]) -> None:
    """A line of triton's library leads to the one line it was inlined into, and nowhere where there are two."""
    trace = ladder_trace(ptx=PTX, sass=TEXT)
    found = {k.source_lines[0]: (k.target_lines[0], k.how) for k in trace.links if ":sass:" in k.source}
    assert found[6] == (5, "nvdisasm line, inlined as ptx .loc says") and 8 not in found
    assert found[3] == (3, "nvdisasm line")


def test_the_mix_counts_instructions_by_class(ladder_trace: Callable[..., Trace]) -> None:
    """Predicates and modifiers do not matter; padding is "other"."""
    (artifact,) = ladder_trace(sass=TEXT).find("sass")
    assert dict(artifact.data["mix"]) == {
        "constant": 1,
        "global": 1,
        "fp32": 1,
        "shuffle": 1,
        "control": 3,
        "tensor core": 1,
        "other": 1,
    }


def test_the_lines_of_ptx_lead_on_to_what_the_ptx_was_inlined_into(ladder_trace: Callable[..., Trace]) -> None:
    """Where the PTX line of an instruction is known, nvdisasm's own lines are not used."""
    held = ladder_trace(ptx=PTX, sass=TEXT)
    (sass,), (ptx,) = held.find("sass"), held.find("ptx")
    lines = (2, 2, 4, 6, 0, 2, 2, 2, 2)
    known = replace(sass, data={**sass.data, "ptx_lines": lines})
    found: dict[str, dict[int, int]] = {}
    for link in STAGE.link(known, replace(held, artifacts=(*held.artifacts[:-1], known))):
        found.setdefault(link.target.split(":")[1], {})[link.source_lines[0]] = link.target_lines[0]
    assert found == {"ptx": {3: 2, 4: 2, 6: 4, 8: 6, 13: 2, 14: 2}, "kernel": {3: 5, 4: 5, 6: 5, 8: 6, 13: 5, 14: 5}}
    assert ptx.lines[5].startswith("\tadd")
