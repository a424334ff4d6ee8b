"""The instruction mix of machine code: how many instructions of each class its text has. Pure.

Classes: "global" memory, "shared" memory, "local" memory (spills and stack), "constant" loads, "async copy" (cp.async,
TMA), "tensor core", "fp64", "fp32", "fp16", "special function", "conversion", "integer", "move", "shuffle", "sync",
"control", "scalar" (AMD's scalar unit) and "other". SASS opcodes are those of NVIDIA's CUDA Binary Utilities,
Instruction Set Reference; AMD's those of the CDNA 3 ISA guide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from explorer.model.values import text_lines
from explorer.stages.triton.instructions import SASS_INSTRUCTION, is_instruction

_SASS: Sequence[tuple[str, str]] = (
    ("tensor core", r"[HIDQOB]G?MMA|UTC\w*MMA|WARPGROUP|UTCBAR"),
    ("async copy", r"LDGSTS|UBLK\w+|UTMA\w+|LDGDEPBAR|UTCCP"),
    ("global", r"LDG|STG|ATOMG|RED|REDG|ATOM|LD|ST|CCTL\w*|QSPC"),
    ("shared", r"LDS|LDSM|STS|STSM|ATOMS|LDTM|STTM"),
    ("local", r"LDL|STL"),
    ("constant", r"U?LDC|LDCU"),
    ("shuffle", r"SHFL|VOTE\w*|U?REDUX|CREDUX|MATCH|VOTEU"),
    ("sync", r"BAR|B2R|R2B|DEPBAR|MEMBAR|FENCE|SYNCS|WARPSYNC|ERRBAR|NANOSLEEP|UCGABAR\w*|ARRIVES|ACQBULK|ELECT"),
    ("special function", r"MUFU|UFMUFU"),
    ("conversion", r"F2F|F2I|I2F|F2FP|I2I|FRND|I2FP|F2IP|I2IP|UF2FP|UI2F\w*|UF2I\w*"),
    ("fp64", r"D(ADD|FMA|MUL|SETP|MNMX)"),
    ("fp16", r"H(ADD2|FMA2|MUL2|SET2|SETP2|MNMX2)\w*"),
    ("fp32", r"U?F(ADD|FMA|MUL|SETP|SET|MNMX|MNMX3|SEL|CHK|SWZADD|ADD2|FMA2|MUL2)\w*"),
    ("control", r"BRA|BRX|BRXU|EXIT|RET|CALL|BSSY|BSYNC|BREAK|BMOV|JMP|JMX|KILL|PREEXIT|YIELD|RTT|BPT|WARPEXIT"),
    ("move", r"U?(MOV|SEL|PRMT|P2R|R2P|R2UR|S2R|S2UR|CS2R|PLOP3|MOVM|UMOV)\w*"),
    (
        "integer",
        r"U?(IADD\w*|IMAD|LEA|LOP\w*|SHF|SHL|SHR|ISETP|IMNMX|VIADD\w*|VIMNMX\w*|BREV|FLO|POPC|IABS|ISCADD|BFE|BFI|"
        r"SGXT|BMSK|IDP\w*|VABSDIFF\w*|XMAD|LOP3|IMNMX\w*)",
    ),
)

_AMDGCN: Sequence[tuple[str, str]] = (
    ("tensor core", r"v_(mfma|smfmac|wmma)\w*"),
    ("async copy", r"(global|buffer)_load_lds\w*"),
    ("global", r"(global|buffer|flat)_\w+"),
    ("shuffle", r"ds_(bpermute|permute|swizzle)\w*|v_(readlane|writelane|readfirstlane|permlane)\w*|v_mov_b32_dpp|v_\w+_dpp"),
    ("shared", r"ds_\w+"),
    ("local", r"scratch_\w+"),
    ("constant", r"s_(load|buffer_load|store|dcache)\w*"),
    ("sync", r"s_(waitcnt|barrier|sleep|wait)\w*"),
    ("control", r"s_(c?branch|endpgm|nop|setpc|swappc|getpc|call|setprio|sethalt|clause|code_end)\w*"),
    ("scalar", r"s_\w+"),
    ("special function", r"v_(exp|log|rcp|rsq|sqrt|sin|cos)\w*"),
    ("conversion", r"v_cvt\w*|v_(rndne|trunc|floor|ceil)\w*"),
    ("fp64", r"v_\w+_f64\w*"),
    ("fp32", r"v_\w+_f32\w*"),
    ("fp16", r"v_\w+_b?f16\w*"),
    ("move", r"v_(mov|cndmask|accvgpr|perm|swap)\w*"),
    ("integer", r"v_\w+"),
)


def sass_mix(text: str) -> dict[str, int]:
    """Instructions of SASS by class, the most frequent first."""
    return _counted((m[1] for line in text_lines(text) if (m := SASS_INSTRUCTION.match(line))), _SASS)


def amdgcn_mix(text: str) -> dict[str, int]:
    """Instructions of AMDGCN by class, the most frequent first."""
    body = text.partition("\n\t.section\t.rodata")[0]
    return _counted((line.split()[0] for line in text_lines(body) if is_instruction(line)), _AMDGCN)


def _counted(opcodes: Iterable[str], classes: Sequence[tuple[str, str]]) -> dict[str, int]:
    counts = Counter(next((name for name, pattern in classes if re.fullmatch(pattern, code)), "other") for code in opcodes)
    return dict(counts.most_common())
