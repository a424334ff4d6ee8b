"""Links from AMDGCN and its instruction mix."""

from __future__ import annotations

from collections.abc import Callable

from explorer.tracing.traced import Trace

Linked = Callable[..., dict[int, int]]

TEXT = """kern:                                    ; @kern
; %bb.0:
	.file	1 "kern.py"
	.loc	1 3 0 prologue_end              ; kern.py:3:0
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	.loc	1 0 0 is_stmt 0                 ; :0:0
	s_waitcnt lgkmcnt(0)
	.file	2 "triton/language" "standard.py"
	.loc	2 293 36 is_stmt 1              ; standard.py:293:36 @[ kern.py:5:18 ]
	v_add_f32_dpp v4, v2, v2 row_shr:8 row_mask:0xf bank_mask:0xf bound_ctrl:1
	v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], 0
.LBB0_2:
	.loc	1 6 4                           ; kern.py:6:4
	global_store_dword v0, v1, s[0:1]
	s_endpgm
	.section	.rodata,"a",@progbits
	s_not_code"""


def test_each_instruction_leads_to_the_last_loc_before_it(linked: Linked) -> None:
    """Line 0, "compiler made", and the end of the kernel lead nowhere; an inlined line leads to where it was inlined."""
    found = linked("amdgcn", amdgcn=TEXT)
    assert {k: v for k, v in found.items() if k < 16} == {5: 3, 10: 5, 11: 5, 14: 6}


def test_the_mix_counts_the_code_only(ladder_trace: Callable[..., Trace]) -> None:
    """Instructions are counted by class up to the end of the code."""
    (artifact,) = ladder_trace(amdgcn=TEXT).find("amdgcn")
    assert dict(artifact.data["mix"]) == {
        "constant": 1,
        "sync": 1,
        "shuffle": 1,
        "tensor core": 1,
        "global": 1,
        "control": 1,
    }
