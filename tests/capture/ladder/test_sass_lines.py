"""The PTX line of each SASS instruction: labels for ptxas, and how its disassembly names them."""

from __future__ import annotations

from explorer.capture.ladder.sass_lines import instruction_lines, labelled

PTX = """.visible .entry kern(
	.param .u64 kern_param_0
)
{
	.reg .b32 	%r<3>;
	.loc	1 2 0                           // kern.py:2:0
	mov.u32 	%r1, %tid.x;
	call.uni (retval0),
	vprintf,
	(
	param0
	);
	ret;
}
	.file	1 "kern.py" """
MADE = """	//## File "kern.py", line 7
        /*0000*/                   S2R R1, SR_TID.X ;
        /*0010*/                   NOP;
	//## File "kern.py", line 13
        /*0020*/                   EXIT ;
"""


def test_each_statement_is_labelled_with_its_own_line_and_no_other() -> None:
    """The .loc of the program go; a statement that goes on in the next line is not cut."""
    lines = labelled(PTX).split("\n")
    labels = {line.split()[2]: lines[n + 1].strip() for n, line in enumerate(lines) if ".loc" in line}
    assert labels == {"7": "mov.u32 \t%r1, %tid.x;", "8": "call.uni (retval0),", "13": "ret;"}
    assert labelled(PTX.partition("\t.file")[0]) == ""


def test_lines_are_taken_from_the_same_code_only() -> None:
    """An instruction without a place of its own has the last one; a disassembly that differs says nothing."""
    own = MADE.replace("line 7", "line 3").replace("  S2R", " S2R")
    assert instruction_lines(MADE, own) == (7, 7, 13)
    assert instruction_lines(MADE, own.replace("TID.X", "TID.Y")) == () and instruction_lines(MADE, "") == ()
